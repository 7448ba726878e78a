"""A dataset as tokens: made once, read from disk by every training process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from reactree_lab.out_folder import writing
from reactree_lab.training.dataset import Decision, NodeText
from reactree_lab.training.vocabulary import Vocabulary, Words, token_texts
from reactree_lab.worker_calls import call_in_workers
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import in_a_line, read_json
from reactree_ros.files.whole_file import whole_folder

_CHUNK = 64
_ARRAYS = ("tokens", "nodes", "source", "first", "length", "kind", "targets", "learn", "allowed", "allowed_ends")
_ABOUT = "about.json"


@dataclass(frozen=True)
class Prepared:
    """Nodes as tokens, one after the other, with the positions of their decisions."""

    tokens: Any  # tokens of all nodes
    nodes: Any  # beginning of each node in them, and end of the last one
    source: Any  # number of each node's dataset
    first: Any  # beginning of each decision in them
    length: Any  # number of tokens of a decision
    kind: Any  # number of its kind in :attr:`kinds`
    targets: Any  # for each token of a decision in turn, the right token
    learn: Any  # number of its first tokens to learn
    allowed: Any  # for each token of a decision in turn, the allowed tokens; none if nearly all are
    allowed_ends: Any  # ends of each token's part of that
    kinds: tuple[str, ...]  # names of the kinds
    refused: int  # number of decisions that are not allowed at their places; they are not learnt

    def __len__(self) -> int:
        return len(self.nodes) - 1

    @cached_property
    def lengths(self) -> Any:
        return np.diff(self.nodes)

    @cached_property
    def ends(self) -> Any:
        return np.cumsum(self.length)

    def save(self, folder: Path) -> None:
        with writing(folder), whole_folder(folder) as new:
            for name in _ARRAYS:
                np.save(new / f"{name}.npy", getattr(self, name))
            about = {"kinds": list(self.kinds), "refused": self.refused}
            (new / _ABOUT).write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Prepared:
        """Read a folder; its arrays stay on disk until they are used."""
        try:
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{folder}: is broken: {in_a_line(error)}; remove it to have it made again") from error
        return read_json(
            folder / _ABOUT,
            "description of a dataset as tokens; remove the folder to have it made again",
            lambda about: cls(**arrays, kinds=tuple(about["kinds"]), refused=about["refused"]),
        )


def prepare(texts: Iterable[NodeText], words: Words, *, context: int, masked: bool, processes: int) -> Prepared:
    """Write nodes of at most ``context`` tokens as tokens, ``masked`` with the allowed ones if these are known."""
    given = (replace(words, chat=None), words.chat is not None, context, masked)  # no process needs the template
    if processes == 1:
        parts = list(map(_Encoder(*given), _chunks(texts)))
    else:
        numbered = dict(call_in_workers(_Encoder, given, _chunks(texts), workers=processes))
        parts = [numbered[number] for number in sorted(numbered)]
    if not any(part["lengths"].any() for part in parts):
        raise UserError("the dataset holds no decision, so there is nothing to learn; check how it was made")
    return _joined(parts)


def _chunks(texts: Iterable[NodeText]) -> Iterator[list[NodeText]]:
    left = iter(texts)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk


class _Encoder:
    """Returns the arrays of some nodes: those of :class:`Prepared`, with lengths in place of positions."""

    def __init__(self, words: Words, chat: bool, context: int, masked: bool) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(words.tokenizer)
        self._tokenizer.encode_special_tokens = not chat  # only a chat template means its markers
        self._texts = token_texts(self._tokenizer)
        self._number = np.uint16 if self._tokenizer.get_vocab_size() <= 1 << 16 else np.uint32
        self._begins, self._context = not chat, context
        known = masked and self._texts and not chat
        self._vocabulary = Vocabulary(self._texts, words.end) if known and self._texts else None

    def __call__(self, texts: Sequence[NodeText]) -> dict[str, Any]:
        tokens, lengths, first, length, allowed, counts, targets = ([] for _ in range(7))  # type: ignore[var-annotated]
        kind, learn, refused = list[str](), list[int](), 0
        for node in texts:
            begin = len(tokens)
            for text, decision in pieces(node):
                ids = self._ids(text, begins=len(tokens) == begin)
                if decision is not None:
                    wanted = self._ids(f"{decision.instead}{decision.end}") if decision.instead else ids
                    count = _same(ids, wanted) + 1 if decision.instead else len(ids)
                    may = self._allowed(decision, wanted)
                    refused += may is None
                    first.append(len(tokens))
                    length.append(len(ids))
                    kind.append(decision.kind)
                    learn.append(count if may is not None and (decision.learn or decision.instead) else 0)
                    targets += wanted[:count] + ids[count:]
                    for those in [*(may or ())][:count] + [()] * (len(ids) - (count if may else 0)):
                        allowed.extend(those)
                        counts.append(len(those))
                tokens.extend(ids)
            lengths.append(len(tokens) - begin)
            if lengths[-1] > self._context:
                raise UserError(
                    f"a node has {lengths[-1]} tokens, and the model's context {self._context}: "
                    f"'{node.text[:80]} …'; set a longer context"
                )
        return {
            "tokens": np.array(tokens, self._number),
            "lengths": np.array(lengths, np.int64),
            "source": np.array([node.source for node in texts], np.int16),
            "first": np.array(first, np.int64),
            "length": np.array(length, np.int64),
            "kind": np.array(kind, str),
            "targets": np.array(targets, self._number),
            "learn": np.array(learn, np.int64),
            "allowed": np.array(allowed, self._number),
            "allowed_counts": np.array(counts, np.int64),
            "refused": np.array([refused]),
        }

    def _ids(self, text: str, *, begins: bool = False) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=begins and self._begins).ids)

    def _allowed(self, decision: Decision, ids: Sequence[int]) -> Sequence[Sequence[int]] | None:
        if self._vocabulary is None or self._texts is None or decision.may_say is None:
            return [()] * len(ids)
        return self._vocabulary.allowed(decision.may_say, ids, [self._texts[token] for token in ids])


def _same(ids: Sequence[int], others: Sequence[int]) -> int:
    """Return the length of the common beginning of two different texts; both end with a line end."""
    return next(number for number, (one, other) in enumerate(zip(ids, others, strict=False)) if one != other)


def pieces(node: NodeText) -> Iterator[tuple[str, Decision | None]]:
    """Yield a node's text in pieces, as decoding meets it: context, decision, and so on."""
    at = 0
    for decision in node.decisions:
        if decision.begin > at:
            yield node.text[at : decision.begin], None
        yield f"{decision.text}{decision.end}", decision
        at = decision.begin + len(decision.text) + len(decision.end)
    if at < len(node.text):
        yield node.text[at:], None


def _joined(parts: Sequence[dict[str, Any]]) -> Prepared:
    starts = np.cumsum([0, *(len(part["tokens"]) for part in parts)])
    first = [part["first"] + start for part, start in zip(parts, starts, strict=False)]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    kinds, kind = np.unique(whole["kind"], return_inverse=True)
    return Prepared(
        **{name: whole[name] for name in ("tokens", "source", "length", "targets", "learn", "allowed")},
        nodes=np.cumsum(np.concatenate([[0], whole["lengths"]])),
        first=np.concatenate(first),
        kind=kind.astype(np.int16),
        allowed_ends=np.cumsum(whole["allowed_counts"]),
        kinds=tuple(map(str, kinds)),
        refused=int(whole["refused"].sum()),
    )


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
    for row, node in enumerate(nodes):
        begin, end = int(prepared.nodes[node]), int(prepared.nodes[node + 1])
        tokens[row, : end - begin] = prepared.tokens[begin:end]
    decisions, rows = _decisions(prepared, nodes)
    lengths, learn = prepared.length[decisions], prepared.learn[decisions]
    first = prepared.first[decisions] - prepared.nodes[nodes][rows] + rows * longest
    ends = np.cumsum(lengths)
    number = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)  # of each token in its decision
    places = np.repeat(first - 1, lengths) + number
    chosen = np.repeat(prepared.ends[decisions] - lengths, lengths) + number  # among the tokens of all decisions
    learns = number < np.repeat(learn, lengths)
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
        kinds=prepared.kind[decisions],
        ends=ends,
        wanted=learn > 0,
    )


def _decisions(prepared: Prepared, nodes: Sequence[int]) -> tuple[Any, Any]:
    """Return the numbers of the decisions in some nodes, and the row of each one's node."""
    first, last = (np.searchsorted(prepared.first, prepared.nodes[np.add(nodes, end)]) for end in (0, 1))
    rows = np.repeat(np.arange(len(nodes)), last - first)
    return np.concatenate([np.arange(*those) for those in zip(first, last, strict=True)]), rows


def learnt_tokens(prepared: Prepared, nodes: Sequence[int]) -> int:
    return int(prepared.learn[_decisions(prepared, nodes)[0]].sum())
