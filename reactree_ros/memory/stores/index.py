"""The part of episodic memory that is kept in memory: vectors in one matrix, and what ranking needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

TIE = 1e-6
"""Similarities that differ by no more than this are equal: float32 rounding of one product of unit vectors."""

_FIRST_LOOK = 32
_MASK = (1 << 64) - 1


class ExperienceIndex:
    """Ranks experiences by the cosine similarity of their subgoals to a query.

    Each different subgoal has one row in the matrix, whatever the number of its experiences. Subgoals and experiences
    are known by their position, in the order of :meth:`extend`.
    """

    def __init__(self, dimension: int) -> None:
        self._vectors = np.empty((0, dimension), np.float32)
        self._ends, self._digests = np.empty(0, np.uint8), np.empty(0, np.uint64)
        self._members: list[list[int]] = []  # the experiences of each subgoal

    def extend(self, vectors: NDArray[np.float32], subgoals: Sequence[int], ends: Any, digests: Any) -> None:
        """Add subgoals, by unit embeddings, then experiences: each one's subgoal by position, end, and digest."""
        first = len(self._ends)
        self._members += [[] for _ in vectors]
        for position, subgoal in enumerate(subgoals, start=first):
            self._members[subgoal].append(position)
        self._vectors = np.concatenate([self._vectors, vectors])
        self._ends = np.concatenate([self._ends, np.asarray(ends, np.uint8)])
        self._digests = np.concatenate([self._digests, np.asarray(digests, np.uint64)])

    def ranked(self, query: NDArray[np.float32], *, draw: str) -> Iterator[tuple[float, int]]:
        """Yield (similarity, position) of every experience, the most similar first, computing only what is asked for.

        Experiences of equal similarity (within `TIE`) follow each other as if each were drawn like this: first an end,
        evenly among those that still have experiences, then an experience of that end. The draw depends on `draw` and
        on the experiences' content, not on the order in which anything was added.
        """
        seed = seed_of(draw)
        similarities = self._vectors @ query
        count, looked_at, done = len(similarities), _FIRST_LOOK, 0
        while done < count:
            rows = _best(similarities, looked_at).tolist()
            values = similarities[rows].tolist()
            while done < len(rows):
                last = done + 1
                while last < len(rows) and values[done] - values[last] <= TIE:
                    last += 1
                if last == len(rows) < count:
                    break  # the group may go on beyond what was looked at
                members = [member for row in rows[done:last] for member in self._members[row]]
                if len(members) == 1:
                    yield values[done], members[0]
                elif members:
                    ends, digests = self._ends[members], self._digests[members]
                    for position in drawn(np.array(members), ends, digests, seed=seed):
                        yield values[done], position
                done = last
            looked_at *= 4

    def warm(self) -> None:
        """Rank a little, so that the first who asks does not wait for what is loaded and laid out only then."""
        for vector in self._vectors[:1]:
            for _ in islice(self.ranked(vector, draw=""), _FIRST_LOOK // 2):
                pass


def seed_of(draw: str) -> int:
    return int.from_bytes(hashlib.blake2b(draw.encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def drawn(members: NDArray[Any], ends: NDArray[np.uint8], digests: NDArray[np.uint64], *, seed: int) -> Iterator[int]:
    """Yield experiences of equally similar subgoals, by their numbers, in the order in which they are drawn."""
    order = np.lexsort((members, _scrambled(digests ^ np.uint64(seed))))
    members, ends = members[order], ends[order]
    queues = [members[ends == end].tolist()[::-1] for end in np.unique(ends)]
    state = seed ^ int(digests.min())
    while queues:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        pick = int(_scrambled(np.array([state], dtype=np.uint64))[0]) % len(queues) if len(queues) > 1 else 0
        yield queues[pick].pop()
        if not queues[pick]:
            del queues[pick]


def _best(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    rest = max(0, len(values) - count)
    best = np.argpartition(values, rest)[rest:] if rest else np.arange(len(values))
    return best[np.lexsort((best, -values[best]))]


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit reaches every bit of the result."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = numbers ^ (numbers >> np.uint64(31))
    return result
