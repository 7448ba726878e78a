"""The tokenizer of a training: made from the texts that a model is to learn, or that of a base model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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
    # ByteLevel writes bytes that are no letters as letters further on.
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
