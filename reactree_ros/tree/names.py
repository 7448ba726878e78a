"""Names of siblings for displays that show little of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

#: What several siblings begin with is moved where it is at least so long, in characters.
LONG = 10


def telling_names(goals: Sequence[str]) -> list[str]:
    """Return a name for each goal, such that the first words tell them apart.

    What a goal begins with as another one does comes last, in parentheses: ``find and pick up apple`` beside ``find and
    pick up juice`` is ``apple (find and pick up ...)``. A number stays with the word before it: ``bedroom 1``.
    Where that does not tell them apart, their numbers do, from 1.
    """
    words = [goal.split() for goal in goals]
    shared = [_shared(mine, [other for other in words if other != mine]) for mine in words]
    rests = [" ".join(mine[count:]) for mine, count in zip(words, shared, strict=True)]
    names = []
    for number, (mine, count, rest) in enumerate(zip(words, shared, rests, strict=True), start=1):
        name = f"{rest} ({' '.join(mine[:count])} ...)" if count else rest
        names.append(f"#{number} {name}" if Counter(rests)[rest] > 1 else name)
    return names


def _shared(mine: Sequence[str], others: Sequence[Sequence[str]]) -> int:
    """Return how many words at the beginning of a goal are those of another one; 0 if that is little, or all."""
    count = max((_common(mine, other) for other in others), default=0)
    if 0 < count < len(mine) and mine[count].isdigit():
        count -= 1
    return count if count < len(mine) and len(" ".join(mine[:count])) >= LONG else 0


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
