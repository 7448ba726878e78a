"""The attention states of prompts that were read before, so that a prompt that begins like one costs the rest only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reactree_ros.llm.batching import states as attention


@dataclass(frozen=True, eq=False)
class _Kept:
    tokens: list[int]
    states: Any


class KeptPrompts:
    """Keeps prompts up to a number of tokens; those that were not used for longest go first.

    Args:
        limit: Tokens of all prompts together.
        first: Returns the states of a text's first tokens.
        is_plain: Whether states can be cut; of those that cannot, all are of use or none.
        longer: Whether the latest prompt is kept even where it alone is longer than the limit, unless that is 0.
    """

    def __init__(
        self,
        limit: int,
        *,
        first: Callable[[Any, int], Any] = attention.first,
        is_plain: Callable[[Any], bool] = attention.is_plain,
        longer: bool = False,
    ) -> None:
        self._limit, self._first, self._is_plain = limit, first, is_plain
        self._fewest = 1 if longer and limit else 0
        self._kept: list[_Kept] = []  # the latest used last

    @property
    def tokens(self) -> int:
        """Tokens of all prompts that are kept."""
        return sum(len(one.tokens) for one in self._kept)

    def find(self, prompt: list[int]) -> tuple[int, Any]:
        """Return how many tokens of a prompt are known, at most all but the last, and their states; None for none."""
        best, count = None, 0
        for one in self._kept:
            shared = min(_shared(one.tokens, prompt), len(prompt) - 1)
            if not self._is_plain(one.states) and shared < len(one.tokens):
                continue  # they are of all their tokens or of none
            if shared > count:
                best, count = one, shared
        if best is None:
            return 0, None
        self._kept.remove(best)
        if not self._is_plain(best.states):
            return count, best.states  # which is written to from now on
        self._kept.append(best)
        return count, self._first(best.states, count)

    def keep(self, tokens: list[int], states: Any) -> None:
        """Keep a text; one that begins another one is that other one's beginning, and not kept twice."""
        if any(_shared(one.tokens, tokens) == len(tokens) for one in self._kept):
            return
        others = [one for one in self._kept if _shared(one.tokens, tokens) < len(one.tokens)]
        self._kept = [*others, _Kept(tokens, states)]
        while self.tokens > self._limit and len(self._kept) > self._fewest:
            del self._kept[0]


def _shared(one: list[int], other: list[int]) -> int:
    """Return how many tokens two texts begin with together."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(number for number in range(length) if one[number] != other[number])
