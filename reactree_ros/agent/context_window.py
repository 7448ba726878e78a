"""The context window: which of a node's turns stand in its prompt, and what stands for those that do not.

Once the turns have grown long, the older ones give way to a summary in the prompt (Hu et al., section 3.3); the node
keeps all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.turns import About, Said, Told, Turn


@dataclass
class ContextWindow:
    """A node's turns as far as they stand in its prompt."""

    head: int  # how many turns, from the first, always stand in it
    hidden: int = 0  # up to which turn they are not shown after these
    summary: str = ""  # what stands for what is not shown; empty if nothing does
    _tokens: list[int] = field(default_factory=list, repr=False)  # of each turn that was counted so far

    def __post_init__(self) -> None:
        self.hidden = max(self.hidden, self.head)

    def shown(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        if self.hidden == self.head:
            return turns
        return [*turns[: self.head], *self._summary, *turns[self.hidden :]]

    def excess(self, turns: Sequence[Turn], *, limit: int, count: Callable[[str], int]) -> int | None:
        """Return up to which turn they should be hidden now; None if they need not be.

        Where what is shown of decisions and observations takes more than the limit, the latest of it stays: whole
        decisions with what came of them, up to half of the limit, the last one in any case. So the prompt grows at
        its end alone until it has doubled. A turn is counted once.
        """
        self._count(turns, count)
        starts = [at for at in range(self.hidden, len(turns)) if isinstance(turns[at], Said)]
        if len(starts) < 2 or sum(self._tokens[self.hidden :]) <= limit:
            return None
        kept = starts[-1]
        for start in reversed(starts[1:-1]):
            if 2 * sum(self._tokens[start:]) > limit:
                break
            kept = start
        return kept

    def room(self, turns: Sequence[Turn], *, excess: int, count: Callable[[str], int]) -> int:
        """Return how many tokens those that are shown after the head may take if they are so many too long."""
        self._count(turns, count)
        return max(0, sum(self._tokens[self.hidden :]) - max(1, excess))

    def _count(self, turns: Sequence[Turn], count: Callable[[str], int]) -> None:
        self._tokens += [count(f"{turn.text}\n") for turn in turns[len(self._tokens) :]]

    def trajectory(self, turns: Sequence[Turn], until: int) -> Sequence[Turn]:
        return [*self._summary, *turns[self.hidden : until]]

    def hide(self, until: int, summary: str) -> None:
        self.hidden, self.summary = until, summary

    @property
    def _summary(self) -> list[Turn]:
        return [Told(f"Summary of what was done before: {self.summary}", About.SUMMARY)] if self.summary else []
