"""The tokenizer of a GGUF model, with the interface that local engines use."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reactree_ros.llm.llama.library import CONTROL, USER_DEFINED, library
from reactree_ros.llm.llama.model import Model

#: Longest token, in bytes.
_LONGEST = 16384


@dataclass(frozen=True)
class Added:
    """A token that stands beside the words of a vocabulary."""

    content: str
    special: bool
    normalized: bool = False


class Words:
    """A tokenizer. It has the model's chat template; empty if there is none."""

    def __init__(self, model: Model) -> None:
        self._calls, self._model = library(), model
        vocabulary, buffer = model.vocabulary, ctypes.create_string_buffer(_LONGEST)
        self.pieces: list[bytes] = []
        self.added_tokens_decoder: dict[int, Added] = {}
        for token in range(model.size):
            length = self._calls.token_to_piece(vocabulary, token, buffer, _LONGEST, 0, True)
            self.pieces.append(ctypes.string_at(buffer, max(0, length)))
            if kind := self._calls.vocab_get_attr(vocabulary, token) & (CONTROL | USER_DEFINED):
                self.added_tokens_decoder[token] = Added(self._text(token), bool(kind & CONTROL))
        self.ends = frozenset(one for one in range(model.size) if self._calls.vocab_is_eog(vocabulary, one))
        self.chat_template = model.template

    def _text(self, token: int) -> str:
        return self.pieces[token].decode(errors="replace") if 0 <= token < len(self.pieces) else ""

    def get_vocab(self) -> Mapping[str, int]:
        """Return the tokens that stand beside the words."""
        return {one.content: token for token, one in self.added_tokens_decoder.items()}

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text."""
        raw = text.encode("utf-8", "replace")
        tokens = np.empty(len(raw) + 4, np.int32)  # a token has at least a byte; a few may begin and end a text
        given = (raw, len(raw), tokens.ctypes.data, len(tokens), add_special_tokens, True)
        count = self._calls.tokenize(self._model.vocabulary, *given)
        return [int(token) for token in tokens[: max(0, count)]]

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""
        shown = (one for one in tokens if not (skip_special_tokens and self._is_special(one)))
        return b"".join(self.pieces[one] for one in shown).decode(errors="replace")

    def _is_special(self, token: int) -> bool:
        return token in self.added_tokens_decoder and self.added_tokens_decoder[token].special

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, tokenize: bool, **given: Any) -> str:
        """Write messages as a prompt, as ``transformers`` does."""
        assert not tokenize
        begin, end = (self._text(ask(self._model.vocabulary)) for ask in (self._calls.vocab_bos, self._calls.vocab_eos))
        return str(self._chat.render(messages=messages, bos_token=begin, eos_token=end, **given))

    @cached_property
    def _chat(self) -> Any:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        jinja = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        jinja.globals.update(raise_exception=_refuse, strftime_now=_now)
        return jinja.from_string(self.chat_template)

    def for_llguidance(self) -> Any:
        """Return the tokenizer as llguidance has it."""
        import llguidance

        marked = dict.fromkeys(token for token, one in self.added_tokens_decoder.items() if _is_marker(one))
        make: Any = llguidance.LLTokenizer  # its types leave this way of making one out
        return make.from_llamacpp(
            tokens=[b"\xff" + one if token in marked else one for token, one in enumerate(self.pieces)],
            vocab_ptr=self._model.vocabulary,
            tokenize_fptr=ctypes.cast(self._calls.tokenize, ctypes.c_void_p).value,
            eos_token=sorted(self.ends),
            slices=None,
        )


def _is_marker(token: Added) -> bool:
    return token.special or (token.content[:1], token.content[-1:]) == ("<", ">")


def _refuse(problem: str) -> None:
    raise ValueError(problem)


def _now(form: str) -> str:
    from datetime import datetime

    return datetime.now().strftime(form)
