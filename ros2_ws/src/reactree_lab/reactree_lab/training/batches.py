"""The order in which nodes are learnt, and batches of them for a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from reactree_lab.training.prepared import Prepared
from reactree_ros.errors import UserError

_ROUND = 32
#: Length of a text, in tokens, at which attention, with its quadratic cost, costs as much as everything else.
_LONG = 700
#: The padding token of shorter nodes: the end of a text, which occurs in none.
FILLING = 0


def steps(
    prepared: Prepared, *, tokens: int, batch_tokens: int, seed: int, parts: Sequence[float] = ()
) -> Iterator[list[int]]:
    """Yield the nodes of each step until a number of tokens is reached; every node comes once before one comes again.

    ``parts`` are the shares of the datasets in the tokens, relative to one another; without any, each node comes
    equally often. ``tokens`` are the least in total, ``batch_tokens`` the least of a step.
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
    for round_ in count():
        yield from map(int, np.random.default_rng((*seed, round_)).permutation(nodes))


def passes(prepared: Prepared, nodes: Sequence[int], *, pass_tokens: int) -> list[list[int]]:
    """Divide nodes into forward passes by similar length; a node longer than a pass gets its own."""
    lengths = prepared.lengths
    found: list[list[int]] = []
    for node in sorted(nodes, key=lambda one: (int(lengths[one]), one)):
        if found and (len(found[-1]) + 1) * _filled_up(lengths[node]) <= pass_tokens:
            found[-1].append(node)
        else:
            found.append([node])
    return found


def _filled_up(length: Any) -> int:
    """Return the padded length for nodes: few different lengths, because each costs the CPU's kernels a start."""
    return -(-int(length) // _ROUND) * _ROUND


def shares(prepared: Prepared, passes_: Sequence[list[int]], processes: int) -> list[list[list[int]]]:
    """Divide passes evenly among processes, because they wait for one another."""
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
    """A batch of nodes, padded at their ends, with the tokens of decisions in them."""

    tokens: Any  # the nodes' tokens, one row per node
    before: Any  # for each token of a decision, the index of the token before it, over all rows
    targets: Any  # the right token there: the token itself unless another would have been right
    learn: Any
    held: Any  # for each of them, whether only some tokens are allowed there
    may: Any  # these tokens: pairs of a number among all of them and an allowed token, shape (2, pairs)
    kinds: Any  # the kind of each decision, by number
    ends: Any  # end of each decision's tokens
    wanted: Any  # whether to learn each decision


def make_pass(prepared: Prepared, nodes: Sequence[int], *, learnt: bool = False) -> Pass:
    """Make a batch of nodes; with ``learnt``, only of the tokens to learn among those of decisions."""
    longest = _filled_up(prepared.lengths[nodes].max())
    tokens = np.full((len(nodes), longest), FILLING, np.int64)
    before, numbers, decisions = [], [], []  # numbers: indices of a decision's tokens among those of all decisions
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
    learn = prepared.learn[decisions] if decisions else np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    learns = np.arange(len(places)) - np.repeat(ends - lengths, lengths) < np.repeat(learn, lengths)
    if learnt:
        places, chosen, learns = places[learns], chosen[learns], learns[learns]
    to = prepared.allowed_ends[chosen]
    since = np.where(chosen > 0, prepared.allowed_ends[chosen - 1], 0)
    counts = to - since
    allowed = [prepared.allowed[begin:end] for begin, end in zip(since, to, strict=True) if end > begin]
    return Pass(
        tokens,
        before=places,
        targets=prepared.targets[chosen].astype(np.int64),
        learn=learns,
        held=counts > 0,
        may=np.stack([np.repeat(np.arange(len(places)), counts), np.concatenate([[], *allowed])]).astype(np.int64),
        kinds=prepared.kind[decisions] if decisions else np.zeros(0, np.int16),
        ends=ends,
        wanted=learn > 0,
    )


def learnt_tokens(prepared: Prepared, nodes: Sequence[int]) -> int:
    learnt = 0
    for node in nodes:
        first, last = np.searchsorted(prepared.first, (prepared.nodes[node], prepared.nodes[node + 1]))
        learnt += int(prepared.learn[first:last].sum())
    return learnt
