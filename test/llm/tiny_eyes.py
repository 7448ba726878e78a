"""Tiny models that see, of random weights, made on the spot: two families, with all that vLLM wants of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny import CONTEXT, tiny_tokenizer

_QWEN = (
    "{% for turn in messages %}<|{{ turn['role'] }}|>\n"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
# As these families have it: a content is a list of parts, never a text.
_IMAGE = (
    "{% for turn in messages %}<|{{ turn['role'] }}|>\n"
    "{% for part in turn['content'] %}{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_TEXT = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}


def make_qwen(folder: Path, seed: int = 0) -> Path:
    """Make a Qwen2-VL: pictures of any size, a token for each 28 by 28 pixels."""
    import torch
    from transformers import (
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    tokenizer = _tokenizer(_QWEN, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    begin, end, image, video = tokenizer.convert_tokens_to_ids(
        ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    )
    text = _TEXT | {"rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12], "rope_theta": 10000.0}}
    config = Qwen2VLConfig(
        text_config=text | {"vocab_size": len(tokenizer)} | _ends(tokenizer),
        vision_config={"depth": 2, "embed_dim": 64, "num_heads": 2, "hidden_size": 256, "patch_size": 14},
        vision_start_token_id=begin,
        vision_end_token_id=end,
        image_token_id=image,
        video_token_id=video,
        **_ends(tokenizer),
    )
    torch.manual_seed(seed)
    Qwen2VLForConditionalGeneration(config).float().save_pretrained(folder)
    size = {"shortest_edge": 28 * 28, "longest_edge": 28 * 28 * 64}
    Qwen2VLProcessor(
        Qwen2VLImageProcessor(size=size), tokenizer, Qwen2VLVideoProcessor(size=size), chat_template=_QWEN
    ).save_pretrained(folder)
    return folder


def make_idefics(folder: Path, seed: int = 0) -> Path:
    """Make an Idefics 3, the family of SmolVLM: pictures are cut into squares of 56 pixels, each of 4 tokens."""
    import torch
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    squares = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    own = ("<fake_token_around_image>", "<image>", "<global-img>", "<end_of_utterance>")
    tokenizer = _tokenizer(_IMAGE, *own, *squares)
    config = Idefics3Config(
        text_config={"model_type": "llama", **_TEXT, "vocab_size": len(tokenizer)} | _ends(tokenizer),
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        **_ends(tokenizer),
    )
    torch.manual_seed(seed)
    Idefics3ForConditionalGeneration(config).float().save_pretrained(folder)
    pictures = Idefics3ImageProcessorPil(size={"longest_edge": 112}, max_image_size={"longest_edge": 56})
    Idefics3Processor(pictures, tokenizer, image_seq_len=4, chat_template=_IMAGE).save_pretrained(folder)
    return folder


def _tokenizer(template: str, *special: str) -> Any:
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*special]})
    tokenizer.chat_template = template
    return tokenizer


def _ends(tokenizer: Any) -> dict[str, int]:
    return {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
