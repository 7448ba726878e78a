"""Why a run failed: the causes of the paper's figure 4, assigned by rules from the run's events and its goal."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from reactree_ros.bench.events import Event, EventKind
from reactree_ros.bench.goal import Condition, Goal
from reactree_ros.llm.expert.lexicon import correct, look_up
from reactree_ros.llm.expert.reading import split_skill
from reactree_ros.world.vocabulary import RECALLABLE


class Cause(str, enum.Enum):
    """Why a run failed, as in the paper's figure 4, and two causes more; the value is its name in reports."""

    ERROR = "error"
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


#: The rules in words, in the order in which they are tried; the first that holds gives the cause. "The condition" is
#: the first goal condition that does not hold at the end, those about things to be moved before those about things to
#: be turned on; "the thing" is what it asks to be moved or turned on.
RULES: dict[Cause, str] = {
    Cause.ERROR: "The run ended in an error of the language model, of the world or of the program.",
    Cause.NOTHING_DONE: "The run asked for no action at all.",
    Cause.AMBIGUOUS: "The instruction has no word that means the thing, or where it is to be put, and nothing else "
    "(it says 'drink', 'table', or nothing).",
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
    Cause.EXECUTION_SKIPPING: "It saw one, and left it, or did not do with it what is asked.",
}
_REPEATED = 3
_REVISITED = 0.5


@dataclass(frozen=True)
class Verdict:
    """Why one run failed.

    Attributes:
        cause: Why.
        reason: What in the run says so, in one sentence.
    """

    cause: Cause
    reason: str


def verdict(*, instruction: str, goal: Goal | None, events: Sequence[Event], error: str = "") -> Verdict:
    """Say why a run failed, by :data:`RULES`.

    Args:
        instruction: What was asked for.
        goal: The goal as it was at the run's end; None where the run did not come so far.
        events: The run's events.
        error: What went wrong outside of the planner; empty where nothing did.
    """
    if error or goal is None:
        return Verdict(Cause.ERROR, error or "nothing of the run was saved")
    if not any(event.is_action for event in events):
        return Verdict(Cause.NOTHING_DONE, "no action was asked for")
    if not goal.unmet:
        return Verdict(Cause.EXECUTION_CONFUSION, f"all is done, but not at one {goal.conditions[0].target}")
    condition = min(goal.unmet, key=lambda one: not one.item)
    return (
        _ambiguous(instruction, condition)
        or _expanded_wrongly(instruction, goal, condition, events)
        or _not_found(goal, condition, events)
        or _not_executed(goal, condition, events)
    )


def named(text: str) -> Iterator[tuple[str, ...]]:
    """Yield what a text names: for each phrase of the lexicon in it the words of the vocabulary that it may mean."""
    words = [correct(word) for word in re.findall("[a-z]+", text.lower())]
    start = 0
    while start < len(words):
        found = look_up(words, start)
        if found is None:
            start += 1
            continue
        entry, length = found
        yield entry.words
        start += length


def _ambiguous(instruction: str, condition: Condition) -> Verdict | None:
    clear = {words[0] for words in named(instruction) if len(words) == 1}
    for word in filter(None, (condition.item, condition.target)):
        if word not in clear:
            return Verdict(Cause.AMBIGUOUS, f"the instruction does not clearly name the {word}")
    return None


def _expanded_wrongly(instruction: str, goal: Goal, condition: Condition, events: Iterable[Event]) -> Verdict | None:
    subgoals = [subgoal for event in events if event.kind is EventKind.EXPAND for subgoal in event.subgoals]
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
    actions = [event for event in events if event.is_action]
    for skill, same in groupby(actions, key=lambda action: action.skill):
        if (times := len(list(same))) >= _REPEATED:
            return Verdict(Cause.EXECUTION_REPEAT, f"'{skill}' was said {times} times in a row")
    asked: Collection[str] = {one.item for one in goal.conditions}
    put: dict[str, str] = {}  # where each instance of the thing was put last
    for action in actions:
        if not action.executable:
            continue
        verb, name = split_skill(action.skill)
        if verb == "pick up" and _word(name) not in asked:
            return Verdict(Cause.EXECUTION_CONFUSION, f"it picked up {name}, which the goal does not ask for")
        if verb == "put down" and _word(name) == condition.item:
            put[name] = action.place
    for name, place in put.items():
        if _word(place) != condition.target:
            return Verdict(Cause.EXECUTION_CONFUSION, f"it put {name} in or on {place}, not the {condition.target}")
    return Verdict(Cause.EXECUTION_SKIPPING, f"one was seen, but this does not hold: {condition}")


def _arrivals(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        verb, name = split_skill(event.skill)
        if verb == "go to" and event.executable:
            yield name


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for words in named(text) for word in words}


def _word(name: str) -> str:
    """Return the kind of an instance: ``water glass`` for ``water glass 2``."""
    return name.rpartition(" ")[0] if name.rpartition(" ")[2].isdigit() else name
