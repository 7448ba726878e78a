"""The tokenizer of a training: made from the texts that a model is to learn, or that of a base model."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act

#: The only token without text: padding, and the end of a text without a grammar.
END = "<|end|>"
# Tokens stay within these pieces. A line end is always its own token, so that a text's tokens are those of its lines: a
# growing prompt keeps its tokens. Digits are single, so that a number has the same tokens everywhere. A name of several
# words is one piece, in a list as in a skill.
_PIECES = r"\n|\d|{names} ?[\p{{L}}_]+| ?[^\s\p{{L}}_\d]+(?: (?=\d))?| "
#: Number of different things after a beginning of skills that makes it a verb.
_MANY = 10

#: Writes the messages before a reply as a chat template does, up to the reply.
Chat = Callable[[list[dict[str, str]]], str]


@dataclass(frozen=True)
class Words:
    tokenizer: str  # the content of its file (of the ``tokenizers`` library)
    end: int  # the token that ends a text
    chat: Chat | None = None  # lays prompts out as a chat; None leaves them as text
    said: str = ""  # the text of :attr:`end`, which ends a reply in a chat


def make_tokenizer(texts: Iterable[str], names: Iterable[str], size: int) -> Any:
    """Make a tokenizer (of the ``tokenizers`` library) with a limited number of tokens.

    It can write any text: unknown words become bytes. Names become one token each if they are frequent.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    listed = "|".join(sorted(map(re.escape, names), key=lambda name: (-len(name), name)))
    pieces = _PIECES.format(names=rf" ?(?:{listed})(?![\p{{L}}_])|" if listed else "")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def names_in(skills: Iterable[str]) -> set[str]:
    """Return the verbs and the names of things in skills that have several words.

    A verb is a common beginning of skills, such as ``pick up``; the text after it, without a number, is a name.
    """
    known = {tuple(skill.rstrip("0123456789 ").split()) for skill in skills}
    follows: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for words in known:
        for length in range(1, len(words)):
            follows[words[:length]].add(words[length:])
    verbs = {verb for verb, rests in follows.items() if len(rests) >= _MANY}
    found = set(verbs)
    for words in known:
        for length in reversed(range(1, len(words))):
            if words[:length] in verbs:
                found.add(words[length:])
                break
    return {" ".join(words) for words in found if len(words) > 1}


def token_texts(tokenizer: Any) -> list[bytes] | None:
    # ByteLevel writes bytes that are not letters as letters further on.
    letters = {byte: chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))}
    others = [byte for byte in range(256) if byte not in letters]
    bytes_of = {letter: byte for byte, letter in letters.items()}
    bytes_of |= {chr(256 + number): byte for number, byte in enumerate(others)}
    added = {number: one.content for number, one in tokenizer.get_added_tokens_decoder().items()}
    texts = []
    for number in range(tokenizer.get_vocab_size()):
        token = str(tokenizer.id_to_token(number))
        if number in added:
            texts.append(b"")
        elif any(letter not in bytes_of for letter in token):
            return None
        else:
            texts.append(bytes(bytes_of[letter] for letter in token))
    return texts


#: Beginning of a decision to use a skill.
ACT = Act.opening
#: Most rests of allowed texts whose first tokens are kept.
_KEPT = 1 << 18


@dataclass(frozen=True)
class MaySay:
    whole: tuple[str, ...]  # complete decisions; a line end follows
    begun: tuple[str, ...] = ()  # beginnings that continue with any text up to the line's end

    @property
    def acts(self) -> list[str]:
        return [text.removeprefix(ACT) for text in self.whole if text.startswith(ACT)]

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> MaySay | None:
        """Read a dataset's constraint; None allows anything."""
        if options := values.get("options"):
            return cls(tuple(map(str, options)))
        if "skills" not in values:
            return None
        flows = tuple(map(flow_named, values.get("control_flows", ())))
        more = tuple(values.get("more", ()))
        grammar = DecisionGrammar(values["skills"], flows, questions=values.get("questions"), more=more)
        grammar = replace(grammar, longest_thought=0) if values.get("no_thoughts") else grammar
        texts = [_texts(kind, grammar) for kind in grammar.allowed]
        return cls(tuple(one for whole, _ in texts for one in whole), tuple(one for _, begun in texts for one in begun))


def _texts(kind: type[Decision], grammar: DecisionGrammar) -> tuple[Sequence[str], Sequence[str]]:
    texts = [""]
    for begin, options in kind.rounds(grammar):
        texts = [f"{text}{begin} " for text in texts]
        if options is None:
            return (), texts
        texts = [f"{text}{option}" for text in texts for option in options]
    return texts, ()


class Vocabulary:
    """Tokens by their texts, which are empty for those without one; ``end`` is the token that ends a text."""

    def __init__(self, tokens: Sequence[bytes], end: int) -> None:
        self.size = len(tokens)
        self._end = end
        self._ids = {token: number for number, token in enumerate(tokens) if token}
        self._sorted = sorted(self._ids)
        self._longest = max(map(len, self._ids))
        self._starts = lru_cache(_KEPT)(self._starting)

    def allowed(self, may_say: MaySay, tokens: Sequence[int], texts: Sequence[bytes]) -> list[list[int]] | None:
        """Return the tokens allowed at each token of a decision; none if nearly all are, None if it is refused."""
        whole = {f"{text}\n".encode() for text in may_say.whole}
        begun = {text.encode() for text in may_say.begun}
        found: list[list[int]] = []
        for number, (token, text) in enumerate(zip(tokens, texts, strict=True)):
            may = self._next(whole, begun)
            if token not in may:
                return None
            found.append(sorted(may) if len(may) < self.size // 2 else [])
            if any(text.startswith(rest) for rest in begun):  # everything after this is free
                return found + [[]] * (len(tokens) - number - 1)
            whole = {rest[len(text) :] for rest in whole if rest.startswith(text)}
            begun = {rest[len(text) :] for rest in begun if rest.startswith(text)}
        return found

    def _next(self, whole: Iterable[bytes], begun: Iterable[bytes]) -> set[int]:
        ids = self._ids
        may = set[int]().union(*map(self._starts, whole))
        if b"\n" in whole:
            may.add(self._end)
        for rest in begun:
            may.update(ids[part] for length in range(1, len(rest)) if (part := rest[:length]) in ids)
            at = bisect_left(self._sorted, rest)
            while at < len(self._sorted) and self._sorted[at].startswith(rest):
                if b"\n" not in self._sorted[at][len(rest) :]:
                    may.add(ids[self._sorted[at]])
                at += 1
        return may

    def _starting(self, rest: bytes) -> tuple[int, ...]:
        """Return the tokens that a text can begin with, cached because skills repeat."""
        parts = (rest[:length] for length in range(1, min(len(rest), self._longest) + 1))
        return tuple(self._ids[part] for part in parts if part in self._ids)
