"""The part of episodic memory that is kept in memory: vectors in one contiguous matrix, and what ranking needs."""

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


class GrowingArray:
    """A numpy array that grows at its end by doubling, so that adding does not copy what is there.

    It has rows of a width, or, without one, numbers.
    """

    def __init__(self, dtype: Any, *, width: int | None = None) -> None:
        self._data: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[Any]:
        """The rows there are, as a view that later growth leaves alone."""
        return self._data[: self._count]

    def extend(self, rows: NDArray[Any]) -> None:
        """Adds rows at the end."""
        count = self._count + len(rows)
        if count > len(self._data):
            grown = np.empty((max(count, 2 * len(self._data)), *self._data.shape[1:]), dtype=self._data.dtype)
            grown[: self._count] = self.rows
            self._data = grown
        self._data[self._count : count] = rows
        self._count = count


class ExperienceIndex:
    """Ranks experiences by the cosine similarity of their subgoals to a query.

    Each different subgoal has one row in the matrix, whatever the number of its experiences. Subgoals and experiences
    are known by their position, in the order of `extend`.
    """

    def __init__(self, dimension: int) -> None:
        self._vectors = GrowingArray(np.float32, width=dimension)
        self._ends = GrowingArray(np.uint8)
        self._digests = GrowingArray(np.uint64)
        self._members: list[list[int]] = []

    def __len__(self) -> int:
        """Number of experiences."""
        return len(self._ends)

    @property
    def subgoals(self) -> int:
        """Number of different subgoals."""
        return len(self._vectors)

    def extend_subgoals(self, vectors: NDArray[np.float32]) -> None:
        """Adds subgoals; rows of unit length, shape (n, dimension)."""
        self._vectors.extend(vectors)
        self._members.extend([] for _ in range(len(vectors)))

    def extend_experiences(
        self, subgoals: Sequence[int], *, ends: NDArray[np.uint8], digests: NDArray[np.uint64]
    ) -> None:
        """Adds experiences: the position of each one's subgoal, its end's number, and a digest of its content."""
        first = len(self)
        self._ends.extend(ends)
        self._digests.extend(digests)
        for position, subgoal in enumerate(subgoals, start=first):
            self._members[subgoal].append(position)

    def ranked(self, query: NDArray[np.float32], *, draw: str) -> Iterator[tuple[float, int]]:
        """Yields (similarity, position) of every experience, the most similar first, computing only what is asked for.

        Experiences of equal similarity (within `TIE`) follow each other as if each were drawn like this: first an end,
        evenly among those that still have experiences, then an experience of that end. The draw depends on `draw` and
        on the experiences' content, not on the order in which anything was added.
        """
        seed = seed_of(draw)
        similarities = self._vectors.rows @ query
        count, looked_at, done = len(similarities), _FIRST_LOOK, 0
        while done < count:
            best = _best(similarities, looked_at)
            values = similarities[best].tolist()
            rows = best.tolist()
            while done < len(rows):
                last = done + 1
                while last < len(rows) and values[done] - values[last] <= TIE:
                    last += 1
                if last == len(rows) < count:
                    break  # the group may go on beyond what was looked at
                for position in self._drawn(rows[done:last], seed):
                    yield values[done], position
                done = last
            looked_at *= 4

    def warm(self) -> None:
        """Rank a little, so that the first who asks does not wait for what is loaded and laid out only then."""
        if self.subgoals:
            for _ in islice(self.ranked(self._vectors.rows[0], draw=""), _FIRST_LOOK // 2):
                pass

    def _drawn(self, rows: Sequence[int], seed: int) -> Iterator[int]:
        members = self._members[rows[0]] if len(rows) == 1 else [m for row in rows for m in self._members[row]]
        if len(members) <= 1:
            return iter(members)
        positions = np.array(members)
        return drawn(positions, self._ends.rows[positions], self._digests.rows[positions], seed=seed)


def seed_of(draw: str) -> int:
    """The seed of a draw among equals."""
    return int.from_bytes(hashlib.blake2b(draw.encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def drawn(members: NDArray[Any], ends: NDArray[np.uint8], digests: NDArray[np.uint64], *, seed: int) -> Iterator[int]:
    """The numbers of experiences of equally similar subgoals in the order in which they are drawn.

    Args:
        members: Their numbers, at least one.
        ends: The end of each, as a number.
        digests: A digest of the content of each.
        seed: See :func:`seed_of`.
    """
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
    """Positions of the `count` largest values (all if there are fewer), the largest first."""
    if count < len(values):
        best = np.argpartition(values, len(values) - count)[len(values) - count :]
    else:
        best = np.arange(len(values))
    return best[np.lexsort((best, -values[best]))]


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input reaches every bit of the result."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = numbers ^ (numbers >> np.uint64(31))
    return result
