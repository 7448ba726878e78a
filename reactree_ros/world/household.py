"""The household rules: skills, their pre-conditions, and the wording of every observation and refusal.

One implementation for every source of a scene (paper, appendix B.2; wording as in the recordings).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reactree_ros.world.port import Outcome, Score
from reactree_ros.world.scene import HANDS, Scene, Thing
from reactree_ros.world.tasks import GoalCondition

#: The six skills of VirtualHome.
VERBS = ("go to", "pick up", "put down", "open", "close", "turn on")
# A desk can be opened, but an arrival does not say whether it is.
_OPENNESS_UNSAID = frozenset({"desk"})


@dataclass(frozen=True)
class Skill:
    """A skill that names a thing of the house."""

    verb: str
    thing: Thing


def parse_skill(text: str, scene: Scene) -> Skill | str:
    """Read a skill, or say what is wrong with it."""
    for verb in VERBS:
        if text.startswith(f"{verb} "):
            thing = scene.by_name.get(text[len(verb) + 1 :])
            if thing is None:
                return f"There is no {text[len(verb) + 1 :]} in the house."
            if thing.is_room and verb != "go to":
                return f"You cannot {verb} a {thing.word}."
            return Skill(verb, thing)
    return f"'{text}' is no skill. A skill starts with {', '.join(VERBS[:-1])} or {VERBS[-1]}."


def available_skills(scene: Scene) -> list[str]:
    """List the skills that the agent may try: every room, and what it sees with what its properties allow."""
    skills = [f"go to {room.name}" for room in scene.rooms]
    for thing in scene.visible():
        skills.append(f"go to {thing.name}")
        if "GRABBABLE" in thing.properties:
            skills += (f"pick up {thing.name}", f"put down {thing.name}")
        if "CAN_OPEN" in thing.properties:
            skills += (f"open {thing.name}", f"close {thing.name}")
        if "HAS_SWITCH" in thing.properties:
            skills.append(f"turn on {thing.name}")
    return skills


def check(skill: Skill, *, scene: Scene, close: Iterable[int], receptacle: Thing | None) -> tuple[Outcome, str]:
    """Check a skill's pre-conditions in the recorded order and word what comes of it.

    Args:
        skill: What to do.
        scene: Where things are.
        close: Ids of what is close to the agent.
        receptacle: Where a put down goes: the receptacle walked to last.

    Returns:
        ``DONE`` or ``PRECONDITION``, and the first sentence of the observation.
    """
    thing, properties, states = skill.thing, skill.thing.properties, skill.thing.states
    if skill.verb == "go to":
        return Outcome.DONE, _arrival(thing)
    if skill.verb == "put down":
        return _check_put_down(thing, scene, close, receptacle)
    refusal = None
    if len(scene.held) >= HANDS:
        refusal = "You do not have an empty hand."
    elif thing.id not in close:
        refusal = f"The {thing.word} is not close to you."
    elif skill.verb == "pick up":
        container = scene.container_of(thing)
        if container is not None and "CLOSED" in container.states:
            refusal = f"The {thing.word} is inside closed {container.word}."
        elif "GRABBABLE" not in properties:
            refusal = f"The {thing.word} cannot be grabbed."
    elif skill.verb == "turn on":
        if "HAS_SWITCH" not in properties:
            refusal = f"The {thing.word} does not have a switch"
        elif "OFF" not in states:
            refusal = f"The {thing.word} is already turned on."
    elif "CAN_OPEN" not in properties:
        refusal = f"The {thing.word} cannot be opened"
    elif skill.verb == "open" and "CLOSED" not in states:
        refusal = f"The {thing.word} is already open."
    elif skill.verb == "close" and "OPEN" not in states:
        refusal = f"The {thing.word} is already closed."
    if refusal is not None:
        return Outcome.PRECONDITION, refusal
    return Outcome.DONE, f"You {skill.verb} {thing.word}."


def _check_put_down(thing: Thing, scene: Scene, close: Iterable[int], receptacle: Thing | None) -> tuple[Outcome, str]:
    into = receptacle is not None and "CONTAINERS" in receptacle.properties
    where = receptacle.word if receptacle is not None else thing.word
    if thing.id not in scene.held:
        return Outcome.PRECONDITION, f"You do not grab the {thing.word}."
    if receptacle is not None and receptacle.id not in close:
        return Outcome.PRECONDITION, f"The {where} is not close to you."
    if receptacle is None or receptacle is thing or not receptacle.properties & {"CONTAINERS", "SURFACES"}:
        return Outcome.PRECONDITION, f"The {thing.word} cannot be put down on {where}."
    if into and "CLOSED" in receptacle.states:
        return Outcome.PRECONDITION, f"The {where} is closed."
    return Outcome.DONE, f"You put down {thing.word} {'in' if into else 'on'} {where}"


def _arrival(thing: Thing) -> str:
    if thing.is_room:
        return f"You move to the {thing.word} ({thing.number})."
    text = f"You arrive at the {thing.word} ({thing.number})."
    if "CAN_OPEN" in thing.properties and thing.class_name not in _OPENNESS_UNSAID:
        for state in ("CLOSED", "OPEN"):
            if state in thing.states:
                return f"{text} The {thing.word} ({thing.number}) is {state.lower()}."
    return text


def starting_text(scene: Scene, room_items: Iterable[Thing]) -> str:
    """Word the full observation an agent node starts with."""
    room = scene.agent_room
    return (
        f"You are in the house, and there are {len(scene.rooms)} rooms: {merged(scene.rooms)}. "
        f"You are in the middle of a {room.word} ({room.number}). {look_text(room_items)}{holding_text(scene)}"
    )


def look_text(room_items: Iterable[Thing]) -> str:
    """Word the quick look around a room."""
    return f"Looking quickly around the room, you see {merged(room_items)}."


def see_text(things: Iterable[Thing]) -> str:
    """Word what is next to the agent; without a period, as recorded."""
    return f"You see {merged(things)}"


def holding_text(scene: Scene) -> str:
    """Word what the agent holds, with a space before it; empty where it holds nothing."""
    return f" You hold {merged(scene.things[id] for id in scene.held)}." if scene.held else ""


def merged(things: Iterable[Thing]) -> str:
    """List things by word with their numbers: ``bowl (1, 2), fridge (1)``."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for thing in things:
        numbers[thing.word].append(thing.number)
    return ", ".join(f"{word} ({', '.join(map(str, sorted(set(numbers[word]))))})" for word in sorted(numbers))


def score(goal: Sequence[GoalCondition], scene: Scene) -> Score:
    """Score a goal as the benchmark does.

    All conditions are looked at on one instance of the first condition's target, the one that fulfils most.
    """
    candidates = [thing for thing in scene.things.values() if thing.class_name == goal[0].target]
    wanted = sum(condition.count for condition in goal)

    def fulfilled(target: Thing) -> int:
        return sum(min(_fulfilled(condition, target, scene), condition.count) for condition in goal)

    best = max(map(fulfilled, candidates), default=0)
    return Score(gsr=float(best == wanted), ssr=best / wanted)


def _fulfilled(condition: GoalCondition, target: Thing, scene: Scene) -> int:
    if condition.relation == "turnOn":
        return int("ON" in target.states)
    return scene.related(condition.relation, condition.item, target)
