"""Reads the text of a recorded agent node as turns: the way in for recordings, which are nothing but text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.household import START_LINE
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn, kind_said, render

TASK_LINE = "Your task is to: "
_LIMITS = {limit.line: limit for limit in Limit}


class TranscriptError(ValueError):
    """A text that is none of an agent node; the message says where it stops being one."""


@dataclass(frozen=True)
class Transcript:
    """A recorded agent node."""

    turns: tuple[Turn, ...]
    limit: Limit | None

    @property
    def header(self) -> str:
        return self.turns[0].text

    @property
    def subgoal(self) -> str:
        return f"\n{self.header}".partition(f"\n{TASK_LINE}")[2]

    @property
    def start(self) -> Saw:
        start = self.turns[1]
        assert isinstance(start, Saw)  # as parse_transcript makes them
        return start

    @property
    def said_turns(self) -> tuple[Said, ...]:
        return tuple(turn for turn in self.turns if isinstance(turn, Said))

    @property
    def acts(self) -> tuple[tuple[str, Saw], ...]:
        said = ((turn.decision, saw) for turn, saw in pairwise(self.turns) if isinstance(turn, Said))
        return tuple((act.skill_asked, saw) for act, saw in said if act and act.skill_asked and isinstance(saw, Saw))


def parse_transcript(text: str, *, start_line: str = START_LINE) -> Transcript:
    """Read an agent node's text; a TranscriptError if it is none."""
    lines = text.removesuffix("\n").split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith(start_line)), None)
    if start is None:
        raise TranscriptError(f"no line starts with '{start_line}'")
    limit = _LIMITS.get(lines[-1]) if len(lines) > start + 1 else None
    turns: list[Turn] = [Told("\n".join(lines[:start])), Saw(lines[start])]
    turns += _turns(lines[start + 1 : -1 if limit else None], start + 2)
    if limit:
        turns.append(Told(limit.line, About.LIMIT))
    return Transcript(tuple(turns), limit)


def exact_turns(text: str, *, start_line: str = START_LINE) -> tuple[Turn, ...] | None:
    """Return the turns of an agent node's text that give exactly this text again; None if it is no such text."""
    try:
        turns = parse_transcript(text, start_line=start_line).turns
    except TranscriptError:
        return None
    for read in (turns, (*turns, Told("", About.ANSWER))):
        if render(read) == text:
            return read
    return None


def _turns(lines: list[str], number: int) -> Iterator[Turn]:
    rest = list(reversed(lines))
    while rest:
        at, line = number + len(lines) - len(rest), rest.pop()
        kind = kind_said(line)
        turns = None if kind is None else kind.recorded_turns(line, rest)
        if turns is None:
            raise TranscriptError(f"line {at}: {line[:60]!r} belongs to no decision")
        yield from turns


#: The empty line between two nodes.
_BETWEEN = Told("", About.ANSWER)


@dataclass(frozen=True)
class Example:
    """An in-context example."""

    nodes: tuple[tuple[Turn, ...], ...]  # the turns of each agent node, at least one; a tree has several
    short: Example | None = None  # A shorter example of the same, for prompts that this one does not fit into

    @classmethod
    def of_text(cls, text: str, *, start_line: str = START_LINE) -> Example:
        """Read the text of one node, or of several with an empty line between them; any other text is a single turn."""
        for parts in ([text], text.split("\n\n")):
            nodes = [turns for part in parts if (turns := exact_turns(part, start_line=start_line))]
            if len(nodes) == len(parts):
                return cls(tuple(nodes))
        return cls(((Told(text, About.SYSTEM),),))

    @property
    def turns(self) -> tuple[Turn, ...]:
        first, *rest = self.nodes
        return (*first, *(turn for node in rest for turn in (_BETWEEN, *node)))

    @property
    def text(self) -> str:
        return render(self.turns)

    def with_observations(self, change: Callable[[str], str]) -> Example:
        """Return the example with its observations in other words."""
        nodes = (
            tuple(replace(turn, text=change(turn.text)) if isinstance(turn, Saw) else turn for turn in node)
            for node in self.nodes
        )
        return Example(tuple(nodes), self.short and self.short.with_observations(change))

    def shorter(self) -> Example | None:
        """Return the next shorter example: the short one, or without the last node; None if there is none."""
        return self.short or (replace(self, nodes=self.nodes[:-1]) if len(self.nodes) > 1 else None)


def shortened(examples: Sequence[Example], excess: int, *, count: Callable[[str], int]) -> list[Example]:
    """Return in-context examples, the most similar first, once so many tokens are gone; the last one shrinks first."""
    kept = list(examples)
    while kept and excess > 0:
        last = kept.pop()
        excess -= count(last.text)
        if (shorter := last.shorter()) is not None:
            excess += count(shorter.text)
            kept.append(shorter)
    return kept
