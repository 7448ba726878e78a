"""Experiences: what one agent node was told, said and saw, and what it came to (paper, section 4.2)."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.decision import DONE, FAILURE, MalformedDecision
from reactree_ros.agent.grammar import parse_decision
from reactree_ros.agent.household import START_LINE
from reactree_ros.agent.transcript import TASK_LINE, exact_turns
from reactree_ros.agent.turns import Told, Turn, render
from reactree_ros.errors import UserError

LARGEST = 10**9
_TASK = re.compile(rf"^{TASK_LINE}", re.MULTILINE)


class ExperienceError(UserError, ValueError):
    """A recorded experience, or a file of them, is not what it must be; the message is one line.

    Attributes:
        line: Number of the line in question within the experience's text (from 1), if that is known.
    """

    def __init__(self, problem: str, *, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class End(enum.Enum):
    """How an agent node ended (paper, section 4.2: the termination state)."""

    SUCCESS = "success"
    FAILURE = "failure"
    EXPAND = "expand"


_LIMITS = {Limit.STEPS.line: End.FAILURE, Limit.DECISIONS.line: End.FAILURE}


@dataclass(frozen=True)
class Experience:
    """One agent node's turns with its subgoal and its end. Two experiences are equal if their texts and the rest are.

    Attributes:
        turns: What the node was told, said and saw, from the first line of its header to its end. Where its text ends
            with a line end, the last turn is empty.
        similarity: Of its subgoal to the one that it was found for; None if it was not looked for.

    Raises:
        ExperienceError: Subgoal or text are empty, or a number is out of range.
    """

    subgoal: str  # the node's natural-language goal; several lines where an instruction has several
    turns: tuple[Turn, ...] = field(compare=False, repr=False)
    end: End
    task_id: str  # the task that the run was about; ALFRED's trial name, elsewhere usually a number
    task_name: str  # the task's type, e.g. ``put_fridge``
    decision: int  # the run's decision count when the node started
    depth: int  # the node's depth in the tree; the root is 1
    similarity: float | None = field(default=None, compare=False)
    text: str = field(init=False)  # the turns as text, exactly as in the recorded files

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", render(self.turns))
        self._check()

    def _check(self) -> None:
        if not self.text:
            raise ExperienceError("text is empty")
        if not self.subgoal.strip():
            raise ExperienceError(f"subgoal is empty: {self.subgoal!r}")
        for name, least in (("decision", 0), ("depth", 1)):
            if not least <= (number := getattr(self, name)) < LARGEST:
                raise ExperienceError(f"{name} must be from {least} to {LARGEST - 1}, not {number}")

    def found(self, similarity: float) -> Experience:
        """Return the same, found for a subgoal of a similarity; its text is not made again."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, similarity=similarity)
        return found

    @classmethod
    def from_store(cls, *, text: str, read_turns: Callable[[], tuple[Turn, ...]], **fields: Any) -> Experience:
        """Return one whose turns are read, or raise, when they are asked for; of most that is found they are not."""
        experience = object.__new__(cls)
        experience.__dict__.update(fields, text=text, similarity=None, _read_turns=read_turns)
        experience._check()
        return experience

    if not TYPE_CHECKING:  # a checker would take any name for a field

        def __getattr__(self, name: str) -> Any:
            if name == "turns" and "_read_turns" in self.__dict__:
                return self._read_turns()
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def from_text(cls, text: str, **about: Any) -> Experience:
        """Read a recorded text, about which the rest is known; where it is not a transcript, it is one single turn."""
        return cls(_subgoal_in(text), turns_in(text), _end_in(text), **about)


def turns_in(text: str) -> tuple[Turn, ...]:
    """Return the turns of a recorded text, which give exactly this text again."""
    return exact_turns(text) or (Told(text),)


def _subgoal_in(text: str) -> str:
    # what stands between the task line and the starting observation
    if not text.strip():
        raise ExperienceError("text is empty", line=1)
    plain = text.replace("\r\n", "\n")
    task = _TASK.search(plain)
    if task is None:
        raise ExperienceError(f"no task line (a line that starts with {TASK_LINE!r})", line=1)
    line = plain.count("\n", 0, task.start()) + 1
    start = plain.find(f"\n{START_LINE}", task.end())
    if start < 0:
        raise ExperienceError(f"no starting observation (a line that starts with {START_LINE!r})", line=line)
    subgoal = plain[task.end() : start]
    if not subgoal.strip():
        raise ExperienceError(f"nothing follows {TASK_LINE!r}", line=line)
    return subgoal


def _end_in(text: str) -> End:
    # the last line says it, or the last three of an expansion
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    if (end := _LIMITS.get(lines[-1])) is not None:
        return end
    for count in (1, 3):
        with contextlib.suppress(MalformedDecision):
            if name := parse_decision("\n".join(lines[-count:])).node_end:
                return End(name)
    known = ", ".join(map(repr, (f"Act: {DONE}", f"Act: {FAILURE}", *_LIMITS)))
    raise ExperienceError(
        f"no end: the last line is {quoted(lines[-1])}, which is none of {known} and no three-line Expand",
        line=len(lines),
    )


def quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
