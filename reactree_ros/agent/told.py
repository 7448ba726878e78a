"""What a goal node is told of what the run knows: turns with the data that their words are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from reactree_ros.agent.turns import About, Told

#: How it is told that an expansion failed.
EXPANSION_FAILED = "Your expansion failed."


@dataclass(frozen=True)
class Tried:
    """What came of one subgoal of an expansion."""

    subgoal: str
    succeeded: bool | None  # whether it succeeded; None: it was not begun
    reason: str = ""  # why it failed; empty if it did not


@dataclass(frozen=True)
class ToldFailed(Told):
    """That an expansion failed."""

    tried: tuple[Tried, ...] = field(default=(), compare=False, repr=False)


def told_failed(tried: Sequence[Tried]) -> ToldFailed:
    sentences = [f"Failed: {'; '.join(_failed(one) for one in tried if one.succeeded is False)}."]
    named = {True: "Succeeded", None: "Not begun"}
    for came, name in named.items():
        if subgoals := [one.subgoal for one in tried if one.succeeded is came]:
            sentences.append(f"{name}: {'; '.join(subgoals)}.")
    return ToldFailed(f"{EXPANSION_FAILED} {' '.join(sentences)} Go on otherwise.", About.FAILED, tuple(tried))


def told_broken_off(done: Sequence[Tried], reason: str) -> ToldFailed:
    sentences = [f"Done for this by a routine: {'; '.join(one.subgoal for one in done) or 'nothing'}."]
    sentences.append(f"Then something was not as expected: {reason.rstrip('.')}.")
    return ToldFailed(
        f"{' '.join(sentences)} Go on from there.", About.FAILED, (*done, Tried("routine", False, reason))
    )


def _failed(one: Tried) -> str:
    return f"{one.subgoal} ({one.reason.rstrip('.')})" if one.reason else one.subgoal


@dataclass(frozen=True)
class Place:
    """A place that may be searched.

    Attributes:
        name: What it is called in skills, e.g. ``fridge 1``.
    """

    name: str
    room: str | None  # the room that it is in; None if the world has no rooms
    word: str = ""  # its class in words; empty if only its name is known
    instance: int = 0  # its number within the class


@dataclass(frozen=True)
class Searched:
    """The latest search of a place."""

    place: Place
    robot: str  # which robot searched it; empty if there is only one
    step: int  # which of the run's steps that was, from 1


@dataclass(frozen=True)
class ToldSearched(Told):
    """What was searched and what was not."""

    searched: tuple[Searched, ...] = field(default=(), compare=False, repr=False)
    unsearched: tuple[Place, ...] = field(default=(), compare=False, repr=False)


def told_searched(
    searched: Sequence[Searched],
    unsearched: Sequence[Place],
    *,
    robot: str = "",
    again: Searched | None = None,
    step: int = 0,
) -> ToldSearched:
    """Say what was searched, room by room in that order, and what was not."""
    sentences = []
    if again is not None:
        who, ago = "You" if again.robot == robot else again.robot, step - again.step
        sentences.append(f"{who} had searched {again.place.name} {ago} step{'s' if ago != 1 else ''} before.")
    for room in dict.fromkeys(one.place.room for one in searched):
        places = [(one.place, "" if one.robot == robot else f" by {one.robot}") for one in searched]
        left = [(place, "") for place in unsearched]
        at = "" if room is None else f" in {room}"
        rest = f"; not yet: {merged}" if (merged := _merged(left, room)) else ""
        sentences.append(f"Searched{at}: {_merged(places, room)}{rest}.")
    return ToldSearched(" ".join(sentences), About.SEARCHED, tuple(searched), tuple(unsearched))


def _merged(places: Sequence[tuple[Place, str]], room: str | None) -> str:
    here = [(place, by) for place, by in places if place.room == room]
    listed = []
    for (word, by), some in groupby(here, lambda one: (one[0].word, one[1])):
        if word:
            listed.append(f"{word} ({', '.join(str(place.instance) for place, _ in some)}){by}")
        else:
            listed += [f"{place.name}{by}" for place, _ in some]
    return ", ".join(listed)
