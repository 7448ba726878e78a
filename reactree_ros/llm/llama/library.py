"""llama.cpp's C functions, called in the library that the wheels of xllamacpp bring.

These wheels are prebuilt for every Python and have the newest llama.cpp, but their own interface is llama.cpp's server:
it can neither hold a text to llguidance's masks nor read forced tokens in one go. What llama.h declares is exported
beside it. The declarations below are those of one version. A wheel never changes, so nothing but that version is
called: another may lay out the structures otherwise.
"""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_void_p
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_requirements

#: The version of xllamacpp that is called; ``pyproject.toml`` asks for it.
VERSION = "2026.10.11549"
#: What llama.cpp says of a token, in bits.
CONTROL, USER_DEFINED = 8, 16
_ERROR = 4  # of its levels of what it reports


class ModelOptions(ctypes.Structure):
    """``llama_model_params``."""

    _fields_ = (
        *((name, c_void_p) for name in ("devices", "overrides")),
        *((name, c_int32) for name in ("gpu_layers", "split", "load", "lazy", "main_gpu")),
        *((name, c_void_p) for name in ("tensor_split", "progress", "progress_data", "kv_overrides")),
        *((name, c_bool) for name in ("vocab_only", "check_tensors", "repack", "no_host", "no_alloc", "load_mtp")),
    )


class ContextOptions(ctypes.Structure):
    """``llama_context_params``."""

    _fields_ = (
        *((name, c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max")),
        *((name, c_uint32) for name in ("n_rs_seq", "n_outputs_max", "n_outputs_max_per_seq")),
        *((name, c_int32) for name in ("n_threads", "n_threads_batch")),
        *((name, c_int32) for name in ("kind", "rope", "pooling", "attention", "flash_attention")),
        *((name, c_float) for name in ("rope_base", "rope_scale", "yarn_a", "yarn_b", "yarn_c", "yarn_d")),
        ("yarn_context", c_uint32),
        ("defrag", c_float),
        *((name, c_void_p) for name in ("eval", "eval_data")),
        *((name, c_int32) for name in ("type_k", "type_v")),
        ("moe_cache", c_size_t),
        *((name, c_void_p) for name in ("abort", "abort_data")),
        *((name, c_bool) for name in ("embeddings", "offload", "no_perf", "op_offload", "swa_full", "kv_unified")),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("other", c_void_p),
    )


class Batch(ctypes.Structure):
    """``llama_batch``."""

    _fields_ = (
        ("n_tokens", c_int32),
        *((name, c_void_p) for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")),
    )


#: What each function returns, and its arguments.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "adapter_lora_init": (c_void_p, c_void_p, c_char_p),
    "backend_init": (None,),
    "context_default_params": (ContextOptions,),
    "decode": (c_int32, c_void_p, Batch),
    "free": (None, c_void_p),
    "get_logits_ith": (POINTER(c_float), c_void_p, c_int32),
    "get_memory": (c_void_p, c_void_p),
    "init_from_model": (c_void_p, c_void_p, ContextOptions),
    "memory_seq_rm": (c_bool, c_void_p, c_int32, c_int32, c_int32),
    "model_chat_template": (c_char_p, c_void_p, c_char_p),
    "model_default_params": (ModelOptions,),
    "model_free": (None, c_void_p),
    "model_get_vocab": (c_void_p, c_void_p),
    "model_has_encoder": (c_bool, c_void_p),
    "model_is_hybrid": (c_bool, c_void_p),
    "model_is_recurrent": (c_bool, c_void_p),
    "model_load_from_file": (c_void_p, c_char_p, ModelOptions),
    "model_n_ctx_train": (c_int32, c_void_p),
    "n_ctx": (c_uint32, c_void_p),
    "set_adapters_lora": (c_int32, c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_float)),
    "state_seq_get_data": (c_size_t, c_void_p, c_void_p, c_size_t, c_int32),
    "state_seq_get_size": (c_size_t, c_void_p, c_int32),
    "state_seq_set_data": (c_size_t, c_void_p, c_void_p, c_size_t, c_int32),
    "token_to_piece": (c_int32, c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool),
    "tokenize": (c_int32, c_void_p, c_char_p, c_int32, c_void_p, c_int32, c_bool, c_bool),
    "vocab_bos": (c_int32, c_void_p),
    "vocab_eos": (c_int32, c_void_p),
    "vocab_get_attr": (c_int32, c_void_p, c_int32),
    "vocab_is_eog": (c_bool, c_void_p, c_int32),
    "vocab_n_tokens": (c_int32, c_void_p),
}
_Report = CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
_KEPT: list[Any] = []  # what llama.cpp calls may come at any time, up to the end of the process


class Library:
    """llama.cpp's functions, without ``llama_`` in their names.

    Raises:
        UserError: Another version is installed, or it cannot be loaded.
    """

    def __init__(self) -> None:
        if (found := version("xllamacpp")) != VERSION:
            raise UserError(
                f"xllamacpp {found} is installed, but its functions are called as version {VERSION} lays them out: "
                f"{install_requirements(f'xllamacpp=={VERSION}')}"
            )
        try:
            import xllamacpp.xllamacpp

            loaded = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
        except (ImportError, OSError) as error:  # no libgomp.so.1
            raise UserError(f"xllamacpp cannot be loaded: {error}; Debian, Ubuntu: apt install libgomp1") from error
        for name, (returns, *arguments) in _FUNCTIONS.items():
            function = getattr(loaded, f"llama_{name}")
            function.restype, function.argtypes = returns, arguments
            setattr(self, name, function)
        self._problems: deque[str] = deque(maxlen=2)  # a reason, and what failed for it
        _KEPT.append(report := _Report(self._reported))
        loaded.llama_log_set(report, None)
        self.backend_init()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"llama_{name} is not declared")

    def _reported(self, level: int, text: bytes, _: object) -> None:
        if level == _ERROR and text.strip():
            self._problems.append(" ".join(text.decode(errors="replace").split()))

    def problem(self) -> str:
        """Return what llama.cpp complained of last, once."""
        said = "; ".join(self._problems)
        self._problems.clear()
        return said[:400] or "it does not say why"


@lru_cache(maxsize=1)
def library() -> Library:
    """Return the library, loaded once in this process."""
    return Library()
