"""A dataset as tokens: made once, read from disk by every training process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from reactree_lab.out_folder import writing
from reactree_lab.training.allowed import Vocabulary
from reactree_lab.training.dataset import Decision, NodeText
from reactree_lab.training.vocabulary import Words, token_texts
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
        parts = list(map(_encoder(*given), _chunks(texts)))
    else:
        numbered = dict(call_in_workers(_encoder, given, _chunks(texts), workers=processes))
        parts = [numbered[number] for number in sorted(numbered)]
    if not any(part.lengths for part in parts):
        raise UserError("the dataset holds no decision, so there is nothing to learn; check how it was made")
    for part in parts:
        if part.problem:
            raise UserError(part.problem)
    return _joined(parts)


@dataclass(frozen=True)
class _Part:
    tokens: Any
    lengths: Sequence[int]
    source: Sequence[int]
    first: Sequence[int]
    length: Sequence[int]
    kind: Sequence[str]
    targets: Any
    learn: Sequence[int]
    allowed: Any
    allowed_counts: Sequence[int]
    refused: int
    problem: str = ""


def _chunks(texts: Iterable[NodeText]) -> Iterator[list[NodeText]]:
    left = iter(texts)
    while chunk := list(islice(left, _CHUNK)):
        yield chunk


_worker: dict[str, Any] = {}  # shared by all chunks in a process


def _encoder(words: Words, chat: bool, context: int, masked: bool) -> Callable[[Sequence[NodeText]], _Part]:
    from tokenizers import Tokenizer

    read = Tokenizer.from_str(words.tokenizer)
    read.encode_special_tokens = not chat  # only a chat template means its markers
    texts = token_texts(read)
    number = np.uint16 if read.get_vocab_size() <= 1 << 16 else np.uint32
    _worker.update(tokenizer=read, begins=not chat, context=context, texts=texts, number=number, vocabulary=None)
    if masked and texts and not chat:
        _worker["vocabulary"] = Vocabulary(texts, words.end)
    return _encoded


def _encoded(texts: Sequence[NodeText]) -> _Part:
    tokens, lengths, first, length, allowed, counts, targets = ([] for _ in range(7))  # type: ignore[var-annotated]
    kind, learn, refused = list[str](), list[int](), 0
    for node in texts:
        begin = len(tokens)
        for text, decision in pieces(node):
            ids = _ids(text, begins=len(tokens) == begin)
            if decision is not None:
                wanted = _ids(f"{decision.instead}{decision.end}") if decision.instead else ids
                count = _same(ids, wanted) + 1 if decision.instead else len(ids)
                may = _allowed(decision, wanted)
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
        if lengths[-1] > _worker["context"]:
            problem = (
                f"a node has {lengths[-1]} tokens, and the model's context {_worker['context']}: "
                f"'{node.text[:80]} …'; set a longer context"
            )
            return _Part((), lengths, (), (), (), (), (), (), (), (), 0, problem)
    return _Part(
        np.array(tokens, _worker["number"]),
        lengths,
        [node.source for node in texts],
        first,
        length,
        kind,
        np.array(targets, _worker["number"]),
        learn,
        np.array(allowed, _worker["number"]),
        counts,
        refused,
    )


def _ids(text: str, *, begins: bool = False) -> list[int]:
    return list(_worker["tokenizer"].encode(text, add_special_tokens=begins and _worker["begins"]).ids)


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


def _allowed(decision: Decision, ids: Sequence[int]) -> Sequence[Sequence[int]] | None:
    if _worker["vocabulary"] is None or decision.may_say is None:
        return [()] * len(ids)
    found: Sequence[Sequence[int]] | None = _worker["vocabulary"].of(
        decision.may_say, ids, [_worker["texts"][token] for token in ids]
    )
    return found


def _joined(parts: Sequence[_Part]) -> Prepared:
    kinds = sorted({kind for part in parts for kind in part.kind})
    starts = np.cumsum([0, *(len(part.tokens) for part in parts)])
    first = [np.array(part.first, np.int64) + start for part, start in zip(parts, starts, strict=False)]

    def all_of(name: str, kind: Any = None) -> Any:
        return np.concatenate([np.asarray(getattr(part, name), kind) for part in parts])

    return Prepared(
        tokens=all_of("tokens"),
        nodes=np.cumsum(np.concatenate([[0], all_of("lengths", np.int64)])),
        source=all_of("source", np.int16),
        first=np.concatenate(first),
        length=all_of("length", np.int64),
        kind=np.array([kinds.index(kind) for part in parts for kind in part.kind], np.int16),
        targets=all_of("targets"),
        learn=all_of("learn", np.int64),
        allowed=all_of("allowed"),
        allowed_ends=np.cumsum(all_of("allowed_counts", np.int64)),
        kinds=tuple(kinds),
        refused=sum(part.refused for part in parts),
    )
