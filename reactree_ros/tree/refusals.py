"""A goal node whose replies are refused again and again ends, with what was said last as the reason."""

from __future__ import annotations

from collections import deque

from reactree_ros.agent.text import shortened_line
from reactree_ros.llm.port import Reply
from reactree_ros.tree.failure import Refused
from reactree_ros.tree.options import RunOptions

#: The share of refused requests is that of so many last ones.
LAST = 20
_LONGEST = 100


class Refusals:
    """Counts the refusals of one goal node.

    Too many of them end the node, and the node above it may go on. ``stuck_after`` counts those of the whole run.

    Args:
        options: How many there may be.
    """

    def __init__(self, options: RunOptions) -> None:
        self._in_a_row, self._share = options.refused_in_a_row, options.refused_share
        self._requests = deque[bool](maxlen=LAST)  # whether each was refused
        self._row, self._said = 0, ""

    def asked(self, reply: Reply) -> None:
        """Take in the requests that a reply took; the last one counts as taken until it is refused."""
        self._requests.extend([one.refused for one in reply.attempts] or [False])

    def end_row(self) -> None:
        """Take in that a decision was taken."""
        self._row = 0

    def add(self, said: str, reason: str) -> None:
        """Take in that a reply was refused.

        Raises:
            Refused: This was the last of too many.
        """
        if self._requests:
            self._requests[-1] = True
        words = " ".join(said.casefold().split())
        self._row = self._row + 1 if self._row and words == self._said else 1
        self._said = words
        last = f"'{shortened_line(said, _LONGEST)}' ({shortened_line(reason, 2 * _LONGEST)})"
        if 0 < self._in_a_row <= self._row:
            raise Refused(f"the same reply was refused {self._row} times in a row: {last}")
        refused = sum(self._requests)
        if len(self._requests) == LAST and refused > self._share * LAST:
            raise Refused(f"{refused} of the last {LAST} requests were refused, the last reply was {last}")
