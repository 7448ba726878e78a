"""Folding: the older part of an agent node's text gives way to a summary in its prompt (Hu et al., section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Where the model itself spoke, as (start, end) in characters, in order.
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Folding:
    """What of an agent node's text stands in its prompt; the text itself stays as it is.

    Attributes:
        header: Length of the text's header, in characters; it always stands there.
        hidden: Where in the text what is shown goes on.
        summary: What stands for what lies between; empty where nothing does.
    """

    header: int
    hidden: int
    summary: str = ""

    @classmethod
    def none(cls, header: str) -> Folding:
        """Hide nothing."""
        return cls(len(header), len(header))

    def shown(self, text: str, said: Spans) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return what stands in the prompt, and where in it the model itself spoke."""
        start = text[: self.header] + self._line
        move = len(start) - self.hidden
        return start + text[self.hidden :], tuple(
            (begin + move, end + move) for begin, end in said if begin >= self.hidden
        )

    def excess(self, text: str, said: Spans, *, limit: int, count: Callable[[str], int]) -> int | None:
        """Return up to where the text should be hidden now; None where it need not be.

        Where what is shown of decisions and observations takes more than the limit, the latest of it stays: whole
        decisions with what came of them, up to half of the limit, the last one in any case. So the prompt grows at
        its end alone until it has doubled.

        Args:
            text: The node's text.
            said: Where in it the model itself spoke; each decision begins there.
            limit: In tokens.
            count: Counts the tokens of a text.
        """
        starts = [begin for begin, _ in said if begin >= self.hidden]
        if len(starts) < 2 or count(text[self.hidden :]) <= limit:
            return None
        kept = starts[-1]
        for start in reversed(starts[1:-1]):
            if 2 * count(text[start:]) > limit:
                break
            kept = start
        return kept

    def trajectory(self, text: str, until: int) -> str:
        """Return what a summary has to stand for: the summary before, and what is to be hidden."""
        return (self._line + text[self.hidden : until]).rstrip("\n")

    def fold(self, until: int, summary: str) -> Folding:
        """Hide more of the text behind a summary."""
        return Folding(self.header, until, summary)

    @property
    def _line(self) -> str:
        return f"Summary of what was done before: {self.summary}\n" if self.summary else ""
