"""Prompts that an inference node has already, so that a request carries only the turns that are new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from operator import is_
from typing import NamedTuple

from reactree_ros.agent.picture import PICTURES
from reactree_ros.agent.turns import ToldStart, Turn
from reactree_ros.llm.seeing import MOST_SHOWN, pictures_of

#: The most prompts that a node keeps, and the most characters of all of them together.
KEPT, CHARACTERS = 256, 1 << 24
#: The most prompts that an asker goes on from: those of the goal nodes that are under way.
REMEMBERED = 32
#: The most turns that one message can stand for.
MOST_TURNS = (1 << 16) - 1


class UnknownPrompt(Exception):
    """A request goes on from a prompt that the node does not have, or not any more."""


class Known(NamedTuple):
    """The beginning of a prompt that was sent before."""

    id: str
    turns: int


class KeptPrompts:
    """The prompts that an inference node was sent; those that were used least recently are dropped first."""

    def __init__(self, most: int = KEPT, characters: int = CHARACTERS) -> None:
        self._most, self._characters = most, characters
        self._kept: OrderedDict[tuple[str, str], tuple[tuple[Turn, ...], int]] = OrderedDict()
        self._size = 0

    def keep(self, planner: str, id: str, turns: tuple[Turn, ...]) -> None:
        self._size -= self._kept.pop((planner, id), ((), 0))[1]
        size = sum(map(_size, turns))
        self._kept[planner, id] = turns, size
        self._size += size
        while len(self._kept) > self._most or self._size > self._characters:
            self._size -= self._kept.popitem(last=False)[1][1]

    def turns(self, planner: str, known: Known) -> tuple[Turn, ...]:
        turns, _ = self._kept.get((planner, known.id), ((), 0))
        if not 0 < known.turns <= len(turns):
            raise UnknownPrompt(f"{known.turns} turns of request '{known.id[:80]}' of this planner are not kept")
        self._kept.move_to_end((planner, known.id))
        begun = turns[: known.turns]
        pictures = [picture for turn in begun for picture in pictures_of(turn)]
        if any(PICTURES.data(picture) is None for picture in pictures[-MOST_SHOWN:]):
            raise UnknownPrompt(f"a picture in the prompt of request '{known.id[:80]}' is not kept any more")
        return begun

    def clear(self) -> None:
        self._kept.clear()
        self._size = 0


class SentPrompts:
    """The prompts that an asker knows the node to have."""

    def __init__(self) -> None:
        self._sent: OrderedDict[str, tuple[Turn, ...]] = OrderedDict()

    def longest(self, turns: Sequence[Turn]) -> Known | None:
        """Return the longest beginning of a prompt that the node has; None if it has nothing of it."""
        best = Known("", 0)
        for id, sent in reversed(self._sent.items()):
            same = min(_common(sent, turns), MOST_TURNS)
            if same > best.turns:
                best = Known(id, same)
            if same == len(sent):
                break
        return best if best.turns else None

    def add(self, id: str, turns: tuple[Turn, ...], known: Known | None) -> None:
        if known is not None and known.turns == len(self._sent.get(known.id, ())):
            del self._sent[known.id]  # this one says more
        self._sent[id] = turns
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def forget(self) -> None:
        self._sent.clear()


def _size(turn: Turn) -> int:
    return len(turn.text) * (2 if isinstance(turn, ToldStart) else 1)


def _common(sent: Sequence[Turn], turns: Sequence[Turn]) -> int:
    first = sum(1 for a, b in zip(sent[:1], turns[:1], strict=False) if a is b or (isinstance(a, ToldStart) and a == b))
    return first and first + sum(takewhile(bool, map(is_, sent[1:], turns[1:])))
