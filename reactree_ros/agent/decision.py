"""Decisions: the one thing a goal node says at a time (paper, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from reactree_ros.agent.control_flow import ControlFlow

DONE = "done"
FAILURE = "failure"
RECALL = "recall location of "
RETRIEVE = "retrieve("


@dataclass(frozen=True)
class Think:
    """Reasoning; changes nothing but what the goal node knows."""

    thought: str

    def __str__(self) -> str:
        return f"Think: {self.thought}"


@dataclass(frozen=True)
class BeginSubgoal(Think):
    """A thought that begins a subgoal within the same node (Hu et al., section 3.1).

    Attributes:
        subgoal: The subgoal.
    """

    subgoal: str


@dataclass(frozen=True)
class Summarise(Think):
    """A thought that says what was done and seen before, so that it need not be shown any more (section 3.3).

    Attributes:
        summary: What came of it.
    """

    summary: str


@dataclass(frozen=True)
class WriteCode(Think):
    """A block of code (Yu et al., section 3.2)."""


@dataclass(frozen=True)
class Act:
    """A skill for the world, a ``recall`` for working memory, or the end: ``done`` or ``failure``."""

    skill: str

    def __str__(self) -> str:
        return f"Act: {self.skill}"

    @property
    def ends(self) -> bool:
        """Whether this ends the goal node; an end adds to neither count."""
        return self.skill in (DONE, FAILURE)

    @property
    def asks_memory(self) -> bool:
        """Whether it asks what the agent remembers, not the world: a recall, or HiAgent's retrieval of a subgoal."""
        return self.skill.startswith((RECALL, RETRIEVE))

    @property
    def recalls(self) -> bool:
        """Whether this asks working memory where something is."""
        return self.skill.startswith(RECALL)


@dataclass(frozen=True)
class Expand:
    """A control flow over subgoals, to grow under the agent node."""

    control_flow: ControlFlow
    subgoals: tuple[str, ...]

    def __str__(self) -> str:
        commas = any("," in subgoal for subgoal in self.subgoals)
        listed = "; ".join((*self.subgoals, "")).rstrip() if commas else ", ".join(self.subgoals)
        return f"Expand:\n- control flow: {self.control_flow}\n- subgoals: {listed}"


@dataclass(frozen=True)
class Ask:
    """A question to a person; nothing of the kind is in the paper, whose authors name it as future work."""

    question: str

    def __str__(self) -> str:
        return f"Ask: {self.question}"


Decision = Think | Act | Expand | Ask
