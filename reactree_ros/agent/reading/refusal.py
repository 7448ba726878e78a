"""What cannot be read as a decision."""

from __future__ import annotations

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import Said


class Unreadable(ValueError):
    """A reply that is no decision that may be said; the message is one line that says why, for the model and people.

    ``decision`` is what it would be, as far as that can be told, such as a skill that is not available.
    """

    def __init__(self, reason: str, decision: Decision | None = None) -> None:
        super().__init__(reason)
        self.decision = decision

    @property
    def said(self) -> tuple[Said, ...]:
        """The decision that it would be, with its words; empty if it is none."""
        return () if self.decision is None else (Said(str(self.decision), self.decision),)


def not_available(skill: str) -> str:
    """Say that a skill may not be done now."""
    return f"'{skill}' is not among the skills that are available now."


def shortened(text: str, longest: int = 80) -> str:
    """Return the beginning of a text as a refusal quotes it: of its first line, as joined lines say something else."""
    first, _, more = text.strip().partition("\n")
    line = " ".join(first[: 4 * longest].split())
    whole = len(line) <= longest and len(first) <= 4 * longest and not more
    return line if whole else f"{line[:longest]}…"
