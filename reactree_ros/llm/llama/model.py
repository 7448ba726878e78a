"""A GGUF model in llama.cpp: reads tokens of several texts at once, and keeps their states."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reactree_ros.errors import UserError
from reactree_ros.llm.llama.library import Batch, library

#: Most tokens of all texts that are read at once: a request that nobody wants any more ends after as many.
CHUNK = 64
#: Most texts at once.
TEXTS = 32
#: Versions of GGUF that llama.cpp reads.
_VERSIONS = (2, 3)


@dataclass(frozen=True)
class Part:
    """Tokens of one text that are read next.

    Attributes:
        text: The number of the text, below :data:`TEXTS`.
        start: Number of its tokens that were read before.
        scored: Whether the scores of the next token are wanted.
    """

    text: int
    tokens: Sequence[int]
    start: int
    scored: bool


class Model:
    """A loaded model. Its methods are called by one thread at a time.

    Args:
        path: A GGUF file.
        adapter: A GGUF file of a LoRA adapter.
        context: Most tokens of all texts together; never more than the model was trained for.

    Raises:
        UserError: A file is no GGUF, or llama.cpp does not take it.
    """

    def __init__(self, path: Path, *, adapter: Path | None = None, context: int, threads: int) -> None:
        self._calls = calls = library()
        check_gguf(path)
        if adapter is not None:
            check_gguf(adapter)
        options = calls.model_default_params()
        options.gpu_layers = 0
        model = calls.model_load_from_file(str(path).encode(), options)
        if not model:
            raise UserError(f"{path}: llama.cpp does not load it: {calls.problem()}; name a whole GGUF of a model")
        held: list[Any] = [model]
        weakref.finalize(self, _free, calls, held)
        if calls.model_has_encoder(model):
            raise UserError(f"{path}: is a model with an encoder, which only answers; name one that continues texts")
        self.vocabulary = calls.model_get_vocab(model)
        self.size = calls.vocab_n_tokens(self.vocabulary)
        self.template = (calls.model_chat_template(model, None) or b"").decode(errors="replace")
        self.can_be_cut = not (calls.model_is_recurrent(model) or calls.model_is_hybrid(model))
        if (trained := calls.model_n_ctx_train(model)) < 1:
            raise UserError(f"{path}: says that it was trained for {trained} tokens; name a whole GGUF of a model")
        self._context = self._opened(model, path, min(context, trained), threads)
        held.append(self._context)
        self.context = calls.n_ctx(self._context)
        self._memory = calls.get_memory(self._context)
        if adapter is not None:
            self._adapt(model, adapter)

    def _opened(self, model: Any, path: Path, context: int, threads: int) -> Any:
        options = self._calls.context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch, options.n_seq_max = context, CHUNK, CHUNK, TEXTS
        options.n_threads = options.n_threads_batch = threads
        options.kv_unified = options.no_perf = True
        opened = self._calls.init_from_model(model, options)
        if not opened:
            raise UserError(f"{path}: no room for a context of {context} tokens ({self._calls.problem()}); set context")
        return opened

    def _adapt(self, model: Any, adapter: Path) -> None:
        loaded = self._calls.adapter_lora_init(model, str(adapter).encode())
        if not loaded:
            raise UserError(
                f"{adapter}: llama.cpp does not load it: {self._calls.problem()}; name the GGUF of a LoRA adapter that "
                "was trained for this model"
            )
        if self._calls.set_adapters_lora(self._context, (ctypes.c_void_p * 1)(loaded), 1, (ctypes.c_float * 1)(1.0)):
            raise UserError(f"{adapter}: llama.cpp does not use it: {self._calls.problem()}")

    def read(self, parts: Sequence[Part]) -> dict[int, Any]:
        """Read more tokens; return the next token's scores by text (float32), good until the next call.

        Raises:
            RuntimeError: llama.cpp failed.
        """
        tokens = np.concatenate([np.asarray(part.tokens, np.int32) for part in parts])
        lengths = [len(part.tokens) for part in parts]
        places = np.concatenate([part.start + np.arange(len(part.tokens), dtype=np.int32) for part in parts])
        texts = np.repeat([part.text for part in parts], lengths).astype(np.int32)
        pointers = texts.ctypes.data + texts.itemsize * np.arange(len(texts), dtype=np.uintp)
        ones, scored = np.ones(len(texts), np.int32), np.zeros(len(texts), np.int8)
        lasts = np.cumsum(lengths) - 1
        scored[[last for part, last in zip(parts, lasts, strict=True) if part.scored]] = 1
        arrays = (array.ctypes.data for array in (places, ones, pointers, scored))
        failed = self._calls.decode(self._context, Batch(len(texts), tokens.ctypes.data, None, *arrays))
        if failed:
            raise RuntimeError(f"llama.cpp could not read {len(texts)} tokens ({failed}): {self._calls.problem()}")
        return {
            part.text: np.ctypeslib.as_array(self._calls.get_logits_ith(self._context, int(last)), (self.size,))
            for part, last in zip(parts, lasts, strict=True)
            if part.scored
        }

    def states(self, text: int) -> Any:
        """Return the states of a text's tokens, which :meth:`put_back` takes."""
        states = np.empty(self._calls.state_seq_get_size(self._context, text), np.uint8)
        self._calls.state_seq_get_data(self._context, states.ctypes.data, states.nbytes, text)
        return states

    def put_back(self, text: int, states: Any, count: int) -> bool:
        """Give a text the states of a text's first tokens; return whether there is room for them."""
        there = self._calls.state_seq_set_data(self._context, states.ctypes.data, states.nbytes, text)
        return bool(there and self._calls.memory_seq_rm(self._memory, text, count, -1))

    def forget(self, text: int) -> None:
        """Forget a text."""
        self._calls.memory_seq_rm(self._memory, text, -1, -1)


def _free(calls: Any, held: list[Any]) -> None:
    model, *contexts = held
    for context in contexts:
        calls.free(context)
    calls.model_free(model)  # and its adapters


def check_gguf(path: Path) -> None:
    """Check how a file begins, before llama.cpp sees it.

    Raises:
        UserError: It cannot be read or is no GGUF.
    """
    try:
        if not path.is_file():
            raise UserError(f"{path}: is no file; name a GGUF file")
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; name a GGUF file") from error
    if begin[:4] != b"GGUF" or int.from_bytes(begin[4:], "little") not in _VERSIONS:
        raise UserError(f"{path}: is no GGUF file of version 2 or 3 (it begins with {begin!r}); name one")
