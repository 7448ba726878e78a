"""The budget: decisions and steps, shared by every agent node of a tree."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Limit(enum.Enum):
    """A limit that is reached; the value is the line that ends the agent node's text."""

    STEPS = "Max steps"
    DECISIONS = "Max decisions"


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

    def count_decision(self) -> None:
        """Add one decision."""
        self.decisions += 1

    def count_step(self) -> None:
        """Add one decision that acts."""
        self.decisions += 1
        self.steps += 1
