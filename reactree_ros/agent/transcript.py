"""Reads an agent node's text back: its header, and what it said and saw, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.decision import DONE, FAILURE

_LIMITS = {limit.value: limit for limit in Limit}


class TranscriptError(ValueError):
    """A text that is none of an agent node; the message says where it stops being one."""


@dataclass(frozen=True)
class Turn:
    """One decision and what followed.

    Attributes:
        said: The decision as it was said.
        observation: What came back from a skill or a recall; None for every other decision.
    """

    said: str
    observation: str | None = None


@dataclass(frozen=True)
class Transcript:
    """An agent node's text, taken apart.

    Attributes:
        header: Everything before the starting observation, with the line end.
        observation: The starting observation.
        turns: Decisions in order.
        limit: The limit that ended the node, if one did.
    """

    header: str
    observation: str
    turns: tuple[Turn, ...]
    limit: Limit | None


def parse_transcript(text: str) -> Transcript:
    """Take an agent node's text apart.

    Raises:
        TranscriptError: The text has no starting observation, or a line that belongs to no decision.
    """
    lines = text.removesuffix("\n").split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith("You are in the house")), None)
    if start is None:
        raise TranscriptError("no line starts with 'You are in the house'")
    limit = _LIMITS.get(lines[-1]) if len(lines) > start + 1 else None
    rest = lines[start + 1 : -1 if limit else None]
    return Transcript("\n".join([*lines[:start], ""]), lines[start], tuple(_turns(rest, start + 2)), limit)


def _turns(lines: list[str], number: int) -> Iterator[Turn]:
    rest = list(reversed(lines))
    while rest:
        at, line = number + len(lines) - len(rest), rest.pop()
        if line.startswith("Think: "):
            while rest and (follows := rest.pop()) != "OK.":
                line += f"\n{follows}"
            yield Turn(line)
        elif line == "Expand:" and len(rest) >= 2:
            yield Turn("\n".join([line, rest.pop(), rest.pop()]))
        elif line in (f"Act: {DONE}", f"Act: {FAILURE}"):
            yield Turn(line)
        elif line.startswith("Act: ") and rest:
            yield Turn(line, rest.pop())
        else:
            raise TranscriptError(f"line {at}: {line[:60]!r} belongs to no decision")
