"""The budget: what a whole tree may decide, do and use, shared by every agent node of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class _Bound(NamedTuple):
    line: str
    end: str
    options: tuple[str, ...]


class Limit(enum.Enum):
    """A limit that is reached.

    Attributes:
        line: The line that ends the agent node's text.
        end: How a run ended that reached it.
        options: The run's options that set it.
    """

    STEPS = _Bound("Max steps", "out_of_steps", ("max_steps",))
    DECISIONS = _Bound("Max decisions", "out_of_decisions", ("max_decisions",))
    TOKENS = _Bound("Max tokens", "out_of_tokens", ("max_prompt_tokens", "max_output_tokens"))
    SECONDS = _Bound("Max seconds", "out_of_time", ("max_seconds",))
    COST = _Bound("Max cost", "out_of_money", ("max_cost",))
    STUCK = _Bound("Stuck", "stuck", ("stuck_after",))

    @property
    def line(self) -> str:
        """The line that ends the agent node's text."""
        return self.value.line

    @property
    def end(self) -> str:
        """How a run ended that reached it, as a value of :class:`reactree_ros.verdict.EpisodeEnd`."""
        return self.value.end

    @property
    def options(self) -> tuple[str, ...]:
        """The run's options that set it."""
        return self.value.options


@dataclass
class Budget:
    """Counts what a whole tree has decided and done.

    A Think, an Act, an Expand and an Ask add one decision each, an Act one step besides; ``done`` and ``failure`` add
    to neither.

    Attributes:
        max_decisions: Decisions allowed.
        max_steps: Steps allowed.
        decisions: Decisions taken.
        steps: Steps taken.
        questions: Questions that a person was asked.
    """

    max_decisions: int = 200
    max_steps: int = 200
    decisions: int = 0
    steps: int = 0
    questions: int = 0

    def __post_init__(self) -> None:
        for name in ("max_decisions", "max_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def reached(self) -> Limit | None:
        """Return the limit that forbids a further decision: looked at before each one, steps first."""
        if self.steps >= self.max_steps:
            return Limit.STEPS
        if self.decisions >= self.max_decisions:
            return Limit.DECISIONS
        return None

    def reason(self) -> str:
        """Say which limit is reached; empty where none is."""
        limit = self.reached()
        if limit is None:
            return ""
        most = self.max_steps if limit is Limit.STEPS else self.max_decisions
        return f"all of the {most} {limit.end.removeprefix('out_of_')} are used up"

    def count_decision(self) -> None:
        """Add one decision."""
        self.decisions += 1

    def count_step(self) -> None:
        """Add one decision that acts."""
        self.decisions += 1
        self.steps += 1
