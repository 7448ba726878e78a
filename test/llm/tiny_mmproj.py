"""Eyes of random weights for llama.cpp's server: an mmproj file that goes with the model of `tiny_gguf`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tiny_gguf import SIZE

_WIDTH, _INNER, _LAYERS, _HEADS, _SIDE, _PATCH = 32, 64, 2, 2, 56, 14
#: Tokens of a picture, whatever its size.
TOKENS = (_SIDE // _PATCH) ** 2


def make_tiny_mmproj(path: Path, *, seed: int = 0) -> Path:
    """Write an encoder of CLIP's kind, with the projector of LLaVA 1.5."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "clip")
    writer.add_string("general.type", "mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.use_gelu", True)
    writer.add_string("clip.projector_type", "mlp")
    for name, value in (
        ("image_size", _SIDE),
        ("patch_size", _PATCH),
        ("embedding_length", _WIDTH),
        ("feed_forward_length", _INNER),
        ("projection_dim", SIZE),
        ("block_count", _LAYERS),
        ("attention.head_count", _HEADS),
    ):
        writer.add_uint32(f"clip.vision.{name}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    draw = np.random.default_rng(seed)
    for name, shape in _shapes().items():
        values = np.ones(shape) if name.endswith("ln.weight") else draw.normal(0.0, 0.2, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "v.class_embd": (_WIDTH,),
        "v.patch_embd.weight": (_WIDTH, 3, _PATCH, _PATCH),
        "v.position_embd.weight": (TOKENS + 1, _WIDTH),
        "mm.0.weight": (SIZE, _WIDTH),
        "mm.0.bias": (SIZE,),
        "mm.2.weight": (SIZE, SIZE),
        "mm.2.bias": (SIZE,),
    }
    for layer in range(_LAYERS):
        for name, rows, columns in (
            *((f"attn_{part}", _WIDTH, _WIDTH) for part in ("q", "k", "v", "out")),
            ("ffn_up", _INNER, _WIDTH),
            ("ffn_down", _WIDTH, _INNER),
        ):
            shapes |= {f"v.blk.{layer}.{name}.weight": (rows, columns), f"v.blk.{layer}.{name}.bias": (rows,)}
    norms = ["v.pre_ln", *(f"v.blk.{layer}.ln{number}" for layer in range(_LAYERS) for number in (1, 2))]
    return shapes | {f"{norm}.{part}": (_WIDTH,) for norm in norms for part in ("weight", "bias")}
