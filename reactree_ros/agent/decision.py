"""Decisions: the one thing an agent node says at a time (paper, section 4.1)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

DONE = "done"
FAILURE = "failure"
RECALL = "recall location of "


class ControlFlow(enum.Enum):
    """How the subgoals of an expansion are carried out (paper, Algorithm 2)."""

    SEQUENCE = "sequence"
    FALLBACK = "fallback"
    PARALLEL = "parallel"


ALL_CONTROL_FLOWS = tuple(ControlFlow)


@dataclass(frozen=True)
class Think:
    """Reasoning; changes nothing but the text."""

    thought: str

    def __str__(self) -> str:
        return f"Think: {self.thought}"


@dataclass(frozen=True)
class Act:
    """A skill for the world, a ``recall`` for working memory, or the end: ``done`` or ``failure``."""

    skill: str

    def __str__(self) -> str:
        return f"Act: {self.skill}"

    @property
    def ends(self) -> bool:
        """Whether this ends the agent node; an end adds to neither count."""
        return self.skill in (DONE, FAILURE)


@dataclass(frozen=True)
class Expand:
    """A control flow over subgoals, to grow under the agent node."""

    control_flow: ControlFlow
    subgoals: tuple[str, ...]

    def __str__(self) -> str:
        return f"Expand:\n- control flow: {self.control_flow.value}\n- subgoals: {', '.join(self.subgoals)}"


Decision = Think | Act | Expand
