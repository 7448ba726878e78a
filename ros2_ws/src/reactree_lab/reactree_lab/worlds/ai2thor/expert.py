"""The expert in AI2-THOR: one decision at a time for tasks in the style of ALFRED.

The root thinks and expands into steps in sequence, in the words of the recordings; a child node carries out one step.
If it may not expand, one agent node carries out all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from reactree_lab.worlds.ai2thor.instruction import KNIVES, TABLES, Step, read_instruction, read_step
from reactree_lab.worlds.ai2thor.situation import Situation, class_of, read_prompt
from reactree_ros.agent.kinds.act import Act
from reactree_ros.household.expert.goals import Goal
from reactree_ros.household.expert.model import DONE_SAID, FAILURE_SAID, after, expand
from reactree_ros.household.expert.reading import split_prompt
from reactree_ros.llm.port import DecisionRequest

_APPLIANCES = {"heat": ("Microwave",), "cool": ("Fridge",), "clean": ("SinkBasin", "Sink")}


def answer(request: DecisionRequest, prompt: str, known: Mapping[str, Sequence[Goal]]) -> str:
    """Return the next decision for a prompt of AI2-THOR's household; nothing for another prompt."""
    return decide(prompt)


def decide(prompt: str) -> str:
    situation = read_prompt(*split_prompt(prompt))
    return "" if situation is None else decide_in_thor(situation)


def decide_in_thor(situation: Situation) -> str:
    """Return the next decision: ``Think: …``, ``Act: …`` or the three lines of ``Expand:``."""
    step = read_step(situation.task)
    steps = (step,) if step else read_instruction(situation.task, tuple(map(class_of, situation.fixed)))
    if not steps:
        return after("I do not understand what to do with what is in this room.", FAILURE_SAID, situation.thoughts)
    if situation.fallen:
        return after("I have tried each step, and know no other way.", FAILURE_SAID, situation.thoughts)
    if step is None and situation.can_expand:
        plan = ", ".join(map(str, steps))
        thought = f"To solve the task, I need to accomplish {len(steps)} subgoals sequentially: {plan}."
        return after(thought, expand("sequence", [plan]), situation.thoughts)
    todo = _first_open(steps, situation)
    if todo is None:
        return DONE_SAID
    skill = _next_skill(todo, situation)
    return str(Act(skill)) if skill else after(f"I cannot {todo}.", FAILURE_SAID, situation.thoughts)


def _first_open(steps: Sequence[Step], situation: Situation) -> Step | None:
    """Return the first step that the trajectory does not show as done; every act counts for one step only."""
    done = iter(situation.done)
    for number, step in enumerate(steps):
        if number == 0 and step.verb == "take" and not situation.done and class_of(situation.held) in step.thing:
            continue
        if not any(_completes(skill, held, step, situation) for skill, held in done):
            return step
    return None


def _completes(skill: str, held: str, step: Step, situation: Situation) -> bool:
    verb, thing = ("pick up", skill.removeprefix("pick up ")) if skill.startswith("pick up ") else ("", "")
    if step.verb == "take":
        return verb == "pick up" and class_of(thing) in step.thing
    if step.verb == "slice":
        return verb == "pick up" and thing in situation.slices
    if step.verb in _APPLIANCES:
        return verb == "pick up" and (step.verb, thing) in situation.treated
    if step.verb == "place":
        return skill.startswith("put down ") and class_of(held) in step.thing
    return skill.startswith("turn on ") and class_of(skill.removeprefix("turn on ")) in step.thing


def _next_skill(step: Step, situation: Situation) -> str | None:
    if step.verb == "take":
        return _free_hand(situation, ()) or _find(step.thing, "pick up", situation, away=step.place)
    if step.verb == "turn on":
        return _find(step.thing, "turn on", situation)
    if step.verb == "slice":
        return _slice(step, situation)
    if class_of(situation.held) in step.thing:
        if step.verb != "place":
            step = Step("place", step.thing, _APPLIANCES[step.verb])
        return _bring(step, situation)
    if step.verb in _APPLIANCES and (skill := _treat(step, situation)):
        return skill
    return _free_hand(situation, step.thing) or _find(step.thing, "pick up", situation)


def _free_hand(situation: Situation, wanted: Sequence[str]) -> str | None:
    return f"put down {situation.held}" if situation.held and class_of(situation.held) not in wanted else None


# ---- searching ----------------------------------------------------------------------------------------------------


def _find(
    classes: Sequence[str],
    verb: str,
    situation: Situation,
    *,
    away: Sequence[str] = (),
    only: Collection[str] = (),
) -> str | None:
    """Do something to an instance of some classes; look for one if none is known."""

    def wanted(instance: str) -> bool:
        fits = class_of(instance) in classes and instance != situation.held and (not only or instance in only)
        there = class_of(situation.inside.get(instance) or situation.seen.get(instance) or "")
        return fits and not _refused(f"{verb} {instance}", situation) and there not in away

    by_class = sorted(filter(wanted, situation.near), key=lambda instance: classes.index(class_of(instance)))
    if by_class:
        return f"{verb} {by_class[0]}"
    for instance, place in situation.seen.items():
        if wanted(instance) and (skill := _return_to(place, situation)):
            return skill
    if situation.can_recall:
        for name in classes:
            if name.lower() not in situation.recalled:
                return f"recall location of {name}"
    skills = (_look_at(spot, situation) for spot in _spots(situation))
    return next((skill for skill in skills if skill), None)


def _spots(situation: Situation) -> Iterator[str]:
    for name in TABLES["searched"]:
        yield from (spot for spot in situation.fixed if class_of(spot) == name)


def _return_to(place: str, situation: Situation) -> str | None:
    """Return the next skill to see a known place again; None if it cannot be seen there."""
    if situation.at != place:
        return _unless_refused(f"go to {place}", situation)
    return _unless_refused(f"open {place}", situation) if place in situation.closed else None


def _look_at(spot: str, situation: Situation) -> str | None:
    """Return the next skill to look at a spot; None once it was seen."""
    if spot not in situation.looked:
        return _unless_refused(f"go to {spot}", situation)
    opening = f"open {spot}"
    if spot in situation.closed and class_of(spot) in TABLES["openable"] and not _refused(opening, situation):
        return opening if situation.at == spot else _unless_refused(f"go to {spot}", situation)
    return None


# ---- handling -----------------------------------------------------------------------------------------------------


def _bring(step: Step, situation: Situation) -> str | None:
    """Put the held thing in its place: the first one that takes it."""
    putting = f"put down {situation.held}"
    for place in _places(step, situation):
        if (putting, place) not in situation.refused:
            return _reach(place, situation) or putting
    if step.place and not set(step.place) & set(map(class_of, situation.fixed)):
        return _find_place(step, situation)
    return None


def _places(step: Step, situation: Situation) -> list[str]:
    known = [*situation.fixed, *(name for name in (*situation.near, *situation.seen) if name not in situation.fixed)]
    places = [name for wanted in step.place for name in dict.fromkeys(known) if class_of(name) == wanted]
    close = [name for name in places if class_of(situation.seen.get(name, "")) in step.near]
    return [name for name in (close or places) if name != situation.held]


def _find_place(step: Step, situation: Situation) -> str | None:
    for name in step.place:
        if situation.can_recall and name.lower() not in situation.recalled:
            return f"recall location of {name}"
    spots = sorted(_spots(situation), key=lambda spot: class_of(spot) not in step.near)
    return next((skill for skill in (_look_at(spot, situation) for spot in spots) if skill), None)


def _reach(place: str, situation: Situation) -> str | None:
    """Return the skill that leads to an open place; None if the agent is there."""
    if situation.at != place:
        return f"go to {place}"
    if place in situation.closed and not _refused(f"open {place}", situation):
        return f"open {place}"
    return None


def _treat(step: Step, situation: Situation) -> str | None:
    for thing, place in situation.inside.items():
        if class_of(thing) not in step.thing or class_of(place) not in _APPLIANCES[step.verb]:
            continue
        if situation.at != place:
            return f"go to {place}"
        if (step.verb, thing) not in situation.treated:
            return _start(step.verb, place, situation)
        running = [name for name in situation.running if class_of(name) in ("Faucet", "Microwave")]
        if running and not _refused(f"turn off {running[0]}", situation):
            return f"turn off {running[0]}"
        if place in situation.closed:
            return f"open {place}"
        return _unless_refused(f"pick up {thing}", situation)
    return None


def _start(how: str, place: str, situation: Situation) -> str | None:
    if how == "clean":
        faucets = (name for name in situation.near if class_of(name) == "Faucet")
        return next((skill for name in faucets if (skill := _unless_refused(f"turn on {name}", situation))), None)
    if place in situation.opened:
        return f"close {place}"
    return _unless_refused(f"turn on {place}", situation)


def _slice(step: Step, situation: Situation) -> str | None:
    slices = [name for name in situation.slices if class_of(name) in step.thing]
    if slices:
        return _free_hand(situation, ()) or _find(step.thing, "pick up", situation, only=slices)
    if class_of(situation.held) not in KNIVES:
        return _free_hand(situation, ()) or _find(KNIVES, "pick up", situation)
    return _find(step.thing, "slice", situation)


def _refused(skill: str, situation: Situation) -> bool:
    return any(refused == skill for refused, _ in situation.refused)


def _unless_refused(skill: str, situation: Situation) -> str | None:
    return None if _refused(skill, situation) else skill
