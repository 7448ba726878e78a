"""What a goal node is told of what the run knows: turns with the data that their words are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.turns import About, Told


@dataclass(frozen=True)
class Tried:
    """What came of one subgoal of an expansion.

    Attributes:
        subgoal: The subgoal.
        succeeded: Whether it succeeded; None: it was not begun.
        reason: Why it failed; empty where it did not.
    """

    subgoal: str
    succeeded: bool | None
    reason: str = ""


@dataclass(frozen=True)
class ToldFailed(Told):
    """That an expansion failed.

    Attributes:
        tried: What came of each of its subgoals.
    """

    tried: tuple[Tried, ...] = field(default=(), compare=False, repr=False)


def told_failed(tried: Sequence[Tried]) -> ToldFailed:
    """Say that an expansion failed, which of its subgoals did and why, and which succeeded."""
    sentences = [f"Failed: {'; '.join(_failed(one) for one in tried if one.succeeded is False)}."]
    named = {True: "Succeeded", None: "Not begun"}
    for came, name in named.items():
        if subgoals := [one.subgoal for one in tried if one.succeeded is came]:
            sentences.append(f"{name}: {'; '.join(subgoals)}.")
    return ToldFailed(f"Your expansion failed. {' '.join(sentences)} Go on otherwise.", About.FAILED, tuple(tried))


def _failed(one: Tried) -> str:
    return f"{one.subgoal} ({one.reason.rstrip('.')})" if one.reason else one.subgoal


@dataclass(frozen=True)
class Searched:
    """A place that was searched.

    Attributes:
        place: What it is called, e.g. ``fridge 1``.
        room: The room that it is in; None where the world has no rooms.
        robot: Which robot searched it last; empty where there is only one.
        step: Which of the run's steps that was, from 1.
    """

    place: str
    room: str | None
    robot: str
    step: int


@dataclass(frozen=True)
class ToldSearched(Told):
    """What was searched and what was not.

    Attributes:
        searched: The places, in the order of their latest search.
        unsearched: Places with an inside that nobody has looked into, with the room that each is in.
    """

    searched: tuple[Searched, ...] = field(default=(), compare=False, repr=False)
    unsearched: tuple[tuple[str, str | None], ...] = field(default=(), compare=False, repr=False)


def told_searched(
    searched: Sequence[Searched],
    unsearched: Sequence[tuple[str, str | None]],
    *,
    robot: str = "",
    again: Searched | None = None,
    step: int = 0,
) -> ToldSearched:
    """Say what was searched, room by room in that order, and what was not.

    Args:
        searched: The places, in the order of their latest search.
        unsearched: Places that nobody has looked into, with their rooms.
        robot: Who is told; what another robot searched is told with that one's name.
        again: The search before, of the place that was searched again just now; None: it was not searched before.
        step: Which step it is now.
    """
    sentences = []
    if again is not None:
        who, ago = "You" if again.robot == robot else again.robot, step - again.step
        sentences.append(f"{who} had searched {again.place} {ago} step{'s' if ago != 1 else ''} before.")
    for room in dict.fromkeys([*(one.room for one in searched), *(room for _, room in unsearched)]):
        at = "" if room is None else f" in {room}"
        if places := [_place(one, robot) for one in searched if one.room == room]:
            sentences.append(f"Searched{at}: {', '.join(places)}.")
        if left := [place for place, of in unsearched if of == room]:
            sentences.append(f"Not looked into{at}: {', '.join(left)}.")
    return ToldSearched(" ".join(sentences), About.SEARCHED, tuple(searched), tuple(unsearched))


def _place(one: Searched, robot: str) -> str:
    return one.place if one.robot == robot else f"{one.place} by {one.robot}"
