"""Writes a LoRA adapter of peft as GGUF, the format that llama.cpp loads."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json, text_of

#: llama.cpp's name of each matrix of a Llama layer.
_MATRICES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAME = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.([a-z_.]+)\.lora_([AB])\.weight")
#: Settings of peft that change what an adapter adds, and that GGUF cannot say.
_UNSAID = ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias", "layer_replication")


def write_gguf_adapter(folder: Path, path: Path, *, heads: int, key_heads: int) -> None:
    """Write the adapter in a folder of peft as a GGUF file."""
    from gguf import GGUFWriter
    from safetensors.numpy import load_file

    weights = load_file(folder / "adapter_model.safetensors")
    writer = GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", _alpha(folder / "adapter_config.json"))
    for name in sorted(weights):
        tensor, its = _renamed(folder, name), weights[name]
        if tensor.endswith("attn_q.weight.lora_b"):
            its = _turned(its, heads)
        elif tensor.endswith("attn_k.weight.lora_b"):
            its = _turned(its, key_heads)
        writer.add_tensor(tensor, np.ascontiguousarray(its))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _alpha(path: Path) -> float:
    config = parse_json(text_of(path))
    if unsaid := [name for name in _UNSAID if config.get(name)]:
        raise UserError(f"{path}: {unsaid[0]} is {config[unsaid[0]]!r}, which GGUF cannot say; train without it")
    alpha = float(config["lora_alpha"])
    return alpha * math.sqrt(config["r"]) if config.get("use_rslora") else alpha


def _renamed(folder: Path, name: str) -> str:
    found = _NAME.fullmatch(name)
    if found is None or found[2] not in _MATRICES:
        raise UserError(f"{folder}: adapts {name}, which is no matrix of a Llama layer; adapt {', '.join(_MATRICES)}")
    return f"blk.{found[1]}.{_MATRICES[found[2]]}.weight.lora_{found[3].lower()}"


def _turned(rows: Any, heads: int) -> Any:
    """Return rows of queries or keys in llama.cpp's order: it rotates neighbours, transformers the two halves."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
