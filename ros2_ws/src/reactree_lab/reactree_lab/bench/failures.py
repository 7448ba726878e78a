"""Causes of failed runs, as in the paper's figure 4; rules assign them from the run's events and its goal."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from reactree_lab.bench.results import Condition, Event, Goal
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.vocabulary import RECALLABLE, named
from reactree_ros.record.verdict import EpisodeEnd


class Cause(str, enum.Enum):
    """Causes of a failed run: those of the paper's figure 4 and three more; the value is the name in reports."""

    CONTEXT_FULL = "context full"
    NOTHING_DONE = "nothing done"
    AMBIGUOUS = "ambiguous"
    EXPAND_MISSING = "expand: missing"
    EXPAND_WRONG = "expand: wrong"
    SEARCH_SAME_ROOM = "search: same room"
    SEARCH_REVISIT = "search: revisit"
    SEARCH_PLAN_FAIL = "search: plan fail"
    EXECUTION_REPEAT = "execution: repeat"
    EXECUTION_CONFUSION = "execution: confusion"
    EXECUTION_SKIPPING = "execution: skipping"
    UNKNOWN = "unknown"


#: The rules in words, in the order of their use; the first that applies gives the cause. "The condition" is the first
#: goal condition that does not hold at the end; conditions about things to move come before those about things to turn
#: on. "The thing" is the thing in it to move or turn on.
RULES: dict[Cause, str] = {
    Cause.CONTEXT_FULL: "The prompt grew longer than the language model's context.",
    Cause.NOTHING_DONE: "The run asked for no action at all.",
    Cause.AMBIGUOUS: "The instruction has no unambiguous word for the thing or for its destination (it says 'drink', "
    "'table', or nothing).",
    Cause.EXPAND_MISSING: "The run expanded, and no subgoal names the thing.",
    Cause.EXPAND_WRONG: "The run expanded, and a subgoal names something to carry that neither the goal nor the "
    "instruction names.",
    Cause.SEARCH_SAME_ROOM: "The agent never saw such a thing, and it only looked into one room of several.",
    Cause.SEARCH_REVISIT: "The agent never saw such a thing, and at least half of its walks to furniture went where it "
    "had been before.",
    Cause.SEARCH_PLAN_FAIL: "The agent never saw such a thing, and neither of these two holds.",
    Cause.EXECUTION_REPEAT: "It saw one, and somewhere in the run it asked for the same action three times in a row.",
    Cause.EXECUTION_CONFUSION: "It saw one, and it picked up something that the goal does not ask for, or put such a "
    "thing down last at another kind of place; or all is done, but not at one and the same place.",
    Cause.EXECUTION_SKIPPING: "It saw one, and left it, or did not do what the goal asks.",
    Cause.UNKNOWN: "The suite does not say which goal conditions hold, so only the causes that need none were tried: "
    "context full, nothing done, execution: repeat.",
}
_REPEATED = 3
_REVISITED = 0.5


@dataclass(frozen=True)
class Verdict:
    cause: Cause
    reason: str  # the evidence in the run, in one sentence


def verdict(instruction: str, end: str, goal: Goal | None, events: Sequence[Event]) -> Verdict:
    """Return why a run failed, by :data:`RULES`; ``end`` is a value of :class:`EpisodeEnd`."""
    if end == EpisodeEnd.CONTEXT_FULL.value:
        decisions = max((event.decision for event in events), default=0)
        return Verdict(Cause.CONTEXT_FULL, f"the prompt did not fit any more after {decisions} decisions")
    if not any(event.is_action for event in events):
        return Verdict(Cause.NOTHING_DONE, "the run asked for no action")
    if goal is None:
        return _repeated(events) or Verdict(Cause.UNKNOWN, "the suite does not say which goal conditions hold")
    if not goal.unmet:
        return Verdict(Cause.EXECUTION_CONFUSION, f"all is done, but not at one {goal.conditions[0].target}")
    condition = min(goal.unmet, key=lambda one: not one.item)
    return (
        _ambiguous(instruction, condition)
        or _expanded_wrongly(instruction, goal, condition, events)
        or _not_found(goal, condition, events)
        or _not_executed(goal, condition, events)
    )


def _ambiguous(instruction: str, condition: Condition) -> Verdict | None:
    clear = {words[0] for words in named(instruction) if len(words) == 1}
    for word in filter(None, (condition.item, condition.target)):
        if word not in clear:
            return Verdict(Cause.AMBIGUOUS, f"the instruction does not clearly name the {word}")
    return None


def _expanded_wrongly(instruction: str, goal: Goal, condition: Condition, events: Iterable[Event]) -> Verdict | None:
    subgoals = [subgoal for event in events for subgoal in event.subgoals]
    if not subgoals:
        return None
    if condition.thing not in _words(subgoals):
        return Verdict(Cause.EXPAND_MISSING, f"no subgoal names the {condition.thing}")
    asked = _words([instruction]) | {one.item for one in goal.conditions} | {one.target for one in goal.conditions}
    for subgoal in subgoals:
        for words in named(subgoal):
            if not asked & set(words) and set(words) <= set(RECALLABLE):
                return Verdict(Cause.EXPAND_WRONG, f"the subgoal '{subgoal}' names the {words[0]}")
    return None


def _not_found(goal: Goal, condition: Condition, events: Sequence[Event]) -> Verdict | None:
    thing = condition.thing
    if thing in {_word(name) for event in events for name in event.seen}:
        return None
    rooms = {event.room for event in events if event.room} | set(_arrivals(events)) & set(goal.rooms)
    if len(rooms) <= 1 < len(goal.rooms):
        where = next(iter(rooms), goal.start_room)
        return Verdict(Cause.SEARCH_SAME_ROOM, f"no {thing} was seen, and only the {where} was looked into")
    walks = [place for place in _arrivals(events) if place not in goal.rooms]
    again = len(walks) - len(set(walks))
    if walks and again / len(walks) >= _REVISITED:
        return Verdict(Cause.SEARCH_REVISIT, f"no {thing} was seen; {again} of {len(walks)} walks went to known places")
    return Verdict(
        Cause.SEARCH_PLAN_FAIL,
        f"no {thing} was seen in {len(rooms)} of {len(goal.rooms)} rooms, at {len(set(walks))} places",
    )


def _not_executed(goal: Goal, condition: Condition, events: Iterable[Event]) -> Verdict:
    if repeated := _repeated(events):
        return repeated
    asked: Collection[str] = {one.item for one in goal.conditions}
    put: dict[str, str] = {}  # last place of each instance of the thing
    for action in events:
        if not action.executable:
            continue
        verb, name = WAH_NL.split_skill(action.skill)
        if verb == "pick up" and _word(name) not in asked:
            return Verdict(Cause.EXECUTION_CONFUSION, f"it picked up {name}, which the goal does not ask for")
        if verb == "put down" and _word(name) == condition.item:
            put[name] = action.place
    for name, place in put.items():
        if _word(place) != condition.target:
            return Verdict(Cause.EXECUTION_CONFUSION, f"it put {name} in or on {place}, not the {condition.target}")
    return Verdict(Cause.EXECUTION_SKIPPING, f"one was seen, but this does not hold: {condition}")


def _repeated(events: Iterable[Event]) -> Verdict | None:
    for skill, same in groupby(event.skill for event in events if event.is_action):
        if (times := len(list(same))) >= _REPEATED:
            return Verdict(Cause.EXECUTION_REPEAT, f"'{skill}' was said {times} times in a row")
    return None


def _arrivals(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        verb, name = WAH_NL.split_skill(event.skill)
        if verb == "go to" and event.executable:
            yield name


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for words in named(text) for word in words}


def _word(name: str) -> str:
    """Return the kind of an instance: ``water glass`` for ``water glass 2``."""
    return name.rpartition(" ")[0] if name.rpartition(" ")[2].isdigit() else name
