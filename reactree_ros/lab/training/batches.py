"""In which order nodes are learnt, and a few of them as one forward pass takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from reactree_ros.errors import UserError
from reactree_ros.lab.training.prepared import Prepared

_ROUND = 32
#: In a text of so many tokens attention, whose cost grows with their square, costs as much as all else.
_LONG = 700
#: The token that shorter nodes are filled up with: the end of a text, which stands in none.
FILLING = 0


def steps(
    prepared: Prepared, *, tokens: int, batch_tokens: int, seed: int, parts: Sequence[float] = ()
) -> Iterator[list[int]]:
    """Yield the nodes of each step until so many tokens have come up; every node once before one comes again.

    Args:
        prepared: The nodes.
        tokens: How many tokens come up at least.
        batch_tokens: Tokens of a step at least.
        seed: Of the order.
        parts: How much of the tokens is of each dataset, beside the others; none: each node comes as often.

    Raises:
        UserError: A dataset that is to have a share holds nothing.
    """
    lengths = prepared.lengths
    sources = prepared.source if parts else np.zeros(len(prepared), np.int64)
    weights = parts or (1,)
    orders = [_endless(np.flatnonzero(sources == one), (seed, one)) for one in range(len(weights))]
    if empty := [one for one in range(len(weights)) if one not in sources]:
        raise UserError(f"--shares: dataset {empty[0] + 1} holds no decision; leave it out, and its share")
    given, seen = [0.0] * len(orders), 0
    while seen < tokens:
        nodes, filled = list[int](), 0
        while filled < batch_tokens:
            least = given.index(min(given))
            nodes.append(next(orders[least]))
            given[least] += int(lengths[nodes[-1]]) / weights[least]
            filled += int(lengths[nodes[-1]])
        seen += filled
        yield nodes


def _endless(nodes: Any, seed: tuple[int, int]) -> Iterator[int]:
    """Yield nodes in an order drawn anew for each round through all of them."""
    for round_ in count():
        yield from map(int, np.random.default_rng((*seed, round_)).permutation(nodes))


def passes(prepared: Prepared, nodes: Sequence[int], *, pass_tokens: int) -> list[list[int]]:
    """Divide nodes into forward passes, those of like length together; a longer node than a pass is one of its own."""
    lengths = prepared.lengths
    found: list[list[int]] = []
    for node in sorted(nodes, key=lambda one: (int(lengths[one]), one)):
        if found and (len(found[-1]) + 1) * _filled_up(lengths[node]) <= pass_tokens:
            found[-1].append(node)
        else:
            found.append([node])
    return found


def _filled_up(length: Any) -> int:
    """Return how long nodes are made that are as long at most: few lengths, since each costs the CPU's kernels anew."""
    return -(-int(length) // _ROUND) * _ROUND


def shares(prepared: Prepared, passes_: Sequence[list[int]], processes: int) -> list[list[list[int]]]:
    """Divide passes among processes, so that each has about as much to compute: they wait for one another."""
    longest = [_filled_up(prepared.lengths[nodes].max()) for nodes in passes_]
    cost = [len(nodes) * length * (_LONG + length) for nodes, length in zip(passes_, longest, strict=True)]
    given: list[list[list[int]]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for number in sorted(range(len(passes_)), key=lambda one: -cost[one]):
        least = loads.index(min(loads))
        given[least].append(passes_[number])
        loads[least] += cost[number]
    return given


@dataclass(frozen=True)
class Pass:
    """Nodes side by side, the shorter ones filled up at their end, and the tokens of decisions in them.

    Attributes:
        tokens: The nodes' tokens, a row a node.
        before: For each token of a decision, the place of the token before it, counted over all rows.
        targets: The token that is to be said there: itself, but where something else would have been right.
        learn: Whether it is to be learnt.
        may: For each of them and each token of the vocabulary, whether it may stand there.
        kinds: The kind of each decision, by number.
        ends: Where each decision's tokens end.
        wanted: Whether each decision is to be learnt.
    """

    tokens: Any
    before: Any
    targets: Any
    learn: Any
    may: Any
    kinds: Any
    ends: Any
    wanted: Any


def make_pass(prepared: Prepared, nodes: Sequence[int], *, vocabulary: int) -> Pass:
    """Lay nodes side by side."""
    longest = _filled_up(prepared.lengths[nodes].max())
    tokens = np.full((len(nodes), longest), FILLING, np.int64)
    before, numbers, decisions = [], [], []  # numbers: where a decision's tokens are among those of all decisions
    for row, node in enumerate(nodes):
        begin, end = int(prepared.nodes[node]), int(prepared.nodes[node + 1])
        tokens[row, : end - begin] = prepared.tokens[begin:end]
        first, last = np.searchsorted(prepared.first, (begin, end))
        for decision in range(first, last):
            at = int(prepared.first[decision]) - begin + row * longest
            length, last_number = int(prepared.length[decision]), int(prepared.ends[decision])
            before.append(np.arange(at - 1, at - 1 + length))
            numbers.append(np.arange(last_number - length, last_number))
            decisions.append(decision)
    places, chosen = (np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in (before, numbers))
    lengths = prepared.length[decisions] if decisions else np.zeros(0, np.int64)
    may = np.ones((len(places), vocabulary), bool)
    for row, number in enumerate(chosen):
        begin, end = int(prepared.allowed_ends[number - 1]) if number else 0, int(prepared.allowed_ends[number])
        if end > begin:
            may[row] = False
            may[row, prepared.allowed[begin:end]] = True
    learn = prepared.learn[decisions] if decisions else np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    return Pass(
        tokens,
        before=places,
        targets=prepared.targets[chosen].astype(np.int64),
        learn=np.arange(len(places)) - np.repeat(ends - lengths, lengths) < np.repeat(learn, lengths),
        may=may,
        kinds=prepared.kind[decisions] if decisions else np.zeros(0, np.int16),
        ends=ends,
        wanted=learn > 0,
    )


def learnt_tokens(prepared: Prepared, nodes: Sequence[int]) -> int:
    """Count the tokens of nodes that are to be learnt."""
    learnt = 0
    for node in nodes:
        first, last = np.searchsorted(prepared.first, (prepared.nodes[node], prepared.nodes[node + 1]))
        learnt += int(prepared.learn[first:last].sum())
    return learnt
