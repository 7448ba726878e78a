"""A tiny GGUF model of random weights with a tokenizer of bytes and a few words, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HEADS, KEY_HEADS, LAYERS = 4, 2, 2
#: Width of the model.
SIZE = 64
_INNER, _CONTEXT = 128, 4096
#: Pairs that are joined, in order; a capital G with a dot is a space.
_MERGES = ("A c", "Ac t", "Ġ a", "Ġa p", "Ġap p", "l e", "Ġapp le", "g o", "t o", "Ġ to", "Ġ go")
_CHAT = (
    "{% for turn in messages %}{{ '<|im_start|>' + turn['role'] + '\n' + turn['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _bytes() -> list[str]:
    """The 256 characters that stand for bytes in tokenizers of GPT-2's kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def make_tiny_gguf(path: Path, *, seed: int = 0, chat: bool = False, layers: int = LAYERS) -> Path:
    """Write a Llama of random weights in 32 bits."""
    from gguf import GGUFWriter, TokenType

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [*special, *_bytes(), *("".join(pair.split()) for pair in _MERGES)]
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(SIZE)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(SIZE // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = [TokenType.CONTROL] * len(special) + [TokenType.NORMAL] * (len(tokens) - len(special))
    writer.add_token_types(kinds)
    writer.add_token_merges(list(_MERGES))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    if chat:
        writer.add_chat_template(_CHAT)
    draw, key = np.random.default_rng(seed), SIZE // HEADS * KEY_HEADS
    shapes = {"token_embd": (len(tokens), SIZE), "output": (len(tokens), SIZE)}
    for layer in range(layers):
        for name, rows, columns in (
            ("attn_q", SIZE, SIZE),
            ("attn_k", key, SIZE),
            ("attn_v", key, SIZE),
            ("attn_output", SIZE, SIZE),
            ("ffn_gate", _INNER, SIZE),
            ("ffn_up", _INNER, SIZE),
            ("ffn_down", SIZE, _INNER),
        ):
            shapes[f"blk.{layer}.{name}"] = (rows, columns)
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.ones(SIZE, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", np.ones(SIZE, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(SIZE, np.float32))
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(0, 0.15, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
