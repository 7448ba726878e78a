"""A tokenizer of one's own: made from the texts that a model is to learn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: The one token that is no text: it pads, and would end a text that no grammar ends.
END = "<|end|>"
# What tokens are made within. A line end is always a token of its own, so that a text's tokens are those of its lines,
# one after the other: a prompt that grows at its end keeps its tokens. Digits are single, so that a number is the same
# token wherever it stands.
_PIECES = r"\n|\d| ?[\p{L}_]+| ?[^\s\p{L}_\d]+(?: (?=\d))?| "


def make_tokenizer(texts: Iterable[str], size: int) -> Any:
    """Make a tokenizer (of the ``tokenizers`` library) of at most so many tokens.

    Any text can be written with it: what it has no word for becomes bytes.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
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


def token_texts(tokenizer: Any) -> list[bytes]:
    """Return what each token of such a tokenizer stands for; nothing for the end."""
    # ByteLevel writes the bytes that are no letter as letters further on.
    letters = {byte: chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))}
    others = [byte for byte in range(256) if byte not in letters]
    bytes_of = {letter: byte for byte, letter in letters.items()}
    bytes_of |= {chr(256 + number): byte for number, byte in enumerate(others)}
    tokens = [str(tokenizer.id_to_token(number)) for number in range(tokenizer.get_vocab_size())]
    return [b"" if token == END else bytes(bytes_of[letter] for letter in token) for token in tokens]
