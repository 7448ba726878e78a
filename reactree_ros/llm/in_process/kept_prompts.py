"""Keeps the attention states of earlier prompts, so that a known beginning is not read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class _Kept:
    tokens: list[int]
    states: Any


class KeptPrompts:
    """Keeps prompts up to a number of tokens, and drops the least recently used first.

    The latest prompt is kept even if it exceeds the limit, unless that is 0.

    Args:
        first: Returns the states of a text's first tokens; by default states can be used from any token on.
        is_plain: Whether states can be cut. States that cannot be cut are used whole or not at all.
    """

    def __init__(
        self,
        limit: int,
        *,
        first: Callable[[Any, int], Any] = lambda states, count: states,
        is_plain: Callable[[Any], bool] = lambda states: True,
    ) -> None:
        self._limit, self._first, self._is_plain = limit, first, is_plain
        self._fewest = 1 if limit else 0
        self._kept: list[_Kept] = []  # most recently used last

    @property
    def tokens(self) -> int:
        """Number of tokens of all kept prompts."""
        return sum(len(one.tokens) for one in self._kept)

    def find(self, prompt: list[int]) -> tuple[int, Any]:
        """Return how many tokens of a prompt are known (never the last one), and their states or None."""
        best, count = None, 0
        for one in reversed(self._kept):
            if one.tokens[: count + 1] != prompt[: count + 1]:
                continue  # hundreds may be kept, and most of them begin otherwise
            known = min(shared(one.tokens, prompt), len(prompt) - 1)
            if not self._is_plain(one.states) and known < len(one.tokens):
                continue  # these states cannot be cut
            if known > count:
                best, count = one, known
        if best is None:
            return 0, None
        self._kept.remove(best)
        if not self._is_plain(best.states):
            return count, best.states  # the caller writes to these states from now on
        self._kept.append(best)
        return count, self._first(best.states, count)

    def keep(self, tokens: list[int], states: Any) -> None:
        """Keep a text, and drop a kept text that is only its beginning."""
        if any(one.tokens[: len(tokens)] == tokens for one in self._kept):
            return
        others = [one for one in self._kept if one.tokens != tokens[: len(one.tokens)]]
        self._kept = [*others, _Kept(tokens, states)]
        while self.tokens > self._limit and len(self._kept) > self._fewest:
            del self._kept[0]


def shared(one: list[int], other: list[int]) -> int:
    """Return the number of tokens that both texts begin with."""
    low, high = 0, min(len(one), len(other)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low
