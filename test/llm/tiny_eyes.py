"""A tiny model that sees, of random weights, made on the spot, with all that vLLM wants of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny import CONTEXT, tiny_tokenizer

# A content is a list of parts, never a text.
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
