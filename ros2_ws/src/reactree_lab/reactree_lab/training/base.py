"""A pretrained base model in training: its tokenizer, its weights or LoRA matrices beside them, and what is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reactree_lab.training.settings import GGUF, TrainSettings
from reactree_lab.training.vocabulary import Words
from reactree_local.transformers_engine import mend
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json, text_of
from reactree_ros.llm.chat import broken, special_tokens
from reactree_ros.plugins.installation import check_modules

#: How the names of LoRA matrices differ from those of other weights.
_LORA, _WRAPPED = "lora_", "base_model.model."


def base_words(settings: TrainSettings) -> Words:
    from transformers import AutoTokenizer

    tokenizer = _loaded(AutoTokenizer, settings.base)
    mend(tokenizer)
    if tokenizer.eos_token_id is None or not getattr(tokenizer, "is_fast", False):
        raise UserError(f"--base {settings.base}: its tokenizer has no token for the end, or is none of `tokenizers`")
    markers = special_tokens(tokenizer)

    def chat(messages: list[dict[str, str]]) -> str:
        apart = [{**one, "content": broken(one["content"], markers) if markers else one["content"]} for one in messages]
        return str(tokenizer.apply_chat_template(apart, tokenize=False, add_generation_prompt=True))

    if settings.chat and not tokenizer.chat_template:
        raise UserError(f"--base {settings.base}: has no chat template; leave out --chat")
    end = int(tokenizer.eos_token_id)
    return Words(tokenizer.backend_tokenizer.to_str(), end, chat if settings.chat else None, tokenizer.eos_token)


def base_model(settings: TrainSettings) -> Any:
    """Load the base model in fp32; with a rank, its own weights stay as they are, and LoRA matrices are learnt."""
    import torch
    from transformers import AutoModelForCausalLM

    model = _loaded(AutoModelForCausalLM, settings.base, dtype=torch.float32)
    model.config.use_cache = False
    if settings.rank:
        model = _adapted(model, settings).base_model.model
    if settings.recompute:
        model.gradient_checkpointing_enable()
    return model


def _adapted(model: Any, settings: TrainSettings) -> Any:
    """Put LoRA matrices beside those of a model; the same seed gives the same ones."""
    check_modules("reactree lab train --base", "reactree_lab[train]", ("peft",))
    import torch
    from peft import LoraConfig, get_peft_model

    named = settings.matrices.split(",") if settings.matrices else "all-linear"
    config = LoraConfig(r=settings.rank, lora_alpha=2 * settings.rank, target_modules=named, task_type="CAUSAL_LM")
    torch.manual_seed(settings.seed)
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise UserError(f"--matrices {settings.matrices}: {' '.join(str(error).split())[:200]}") from error


def _loaded(loader: Any, base: str, **given: Any) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()  # `reactree lab train` has its own
    path = Path(base)
    named = (str(path.parent), {"gguf_file": path.name}) if path.suffix == ".gguf" else (base, {})
    try:
        return loader.from_pretrained(named[0], **named[1], **given)
    except Exception as error:  # any error of several libraries
        raise UserError(f"--base {base}: cannot be loaded: {' '.join(str(error).split())[:300]}") from error


def learnt_weights(model: Any) -> dict[str, Any]:
    """Return the weights that a training changes: of a model with LoRA matrices, only these."""
    weights = model.state_dict()
    return {name: one for name, one in weights.items() if _LORA in name} or dict(weights)


def adapter_weights(folder: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    try:
        weights = load_file(Path(folder) / "adapter_model.safetensors")
    except Exception as error:  # any error of the library
        raise UserError(
            f"--start {folder}: holds no LoRA matrices of `reactree lab train`: {' '.join(str(error).split())[:200]}"
        ) from error
    # peft leaves the matrices' own name out, and names the model that it wraps
    parts = (name.removeprefix(_WRAPPED).rpartition(".") for name in weights)
    return {
        f"{matrix}.default.{last}": weight for (matrix, _, last), weight in zip(parts, weights.values(), strict=True)
    }


def put_back(model: Any, weights: Mapping[str, Any]) -> None:
    missing, strange = model.load_state_dict(weights, strict=False)
    wrong = [*strange, *(name for name in missing if name in learnt_weights(model))]
    if wrong:
        raise RuntimeError(f"{wrong[0]} is only in one of both")


def write_base(folder: Path, settings: TrainSettings, weights: Mapping[str, Any]) -> None:
    """Write what was learnt: LoRA matrices for peft, vLLM and llama.cpp, or a whole model in 16 bits."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from reactree_lab.training.graph import write_graph

    model = _loaded(AutoModelForCausalLM, settings.base, dtype=torch.float32)
    if settings.rank:
        adapted = _adapted(model, settings)
        put_back(adapted.base_model.model, weights)
        adapted.peft_config["default"].base_model_name_or_path = Path(settings.base).name
        adapted.to(torch.float16).save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # of peft, without a word on this model
        if model.config.model_type == "llama":  # llama.cpp has other names for the matrices of others
            heads, key_heads = model.config.num_attention_heads, model.config.num_key_value_heads
            write_gguf_adapter(folder, folder / GGUF, heads=heads, key_heads=key_heads)
        return
    put_back(model, weights)
    if model.config.model_type == "llama":  # as saved, so that quantization of a GGUF is not claimed
        fresh = type(model)(type(model.config)(**{**model.config.to_dict(), "quantization_config": None}))
        fresh.load_state_dict(model.state_dict())
        model = fresh
    model.to(torch.float16).save_pretrained(folder)
    tokenizer = _loaded(AutoTokenizer, settings.base)
    mend(tokenizer)
    tokenizer.save_pretrained(folder)
    if model.config.model_type == "llama":
        write_graph(folder)


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


def write_gguf_adapter(folder: Path, path: Path, *, heads: int, key_heads: int) -> None:
    """Write the adapter in a folder of peft as a GGUF file."""
    from gguf import GGUFWriter
    from safetensors.numpy import load_file

    weights = load_file(folder / "adapter_model.safetensors")
    writer = GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    config = parse_json(text_of(folder / "adapter_config.json"))
    writer.add_float32("adapter.lora.alpha", float(config["lora_alpha"]))
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


def _renamed(folder: Path, name: str) -> str:
    found = _NAME.fullmatch(name)
    if found is None or found[2] not in _MATRICES:
        raise UserError(
            f"{folder}: adapts {name}, which is not a matrix of a Llama layer; adapt {', '.join(_MATRICES)}"
        )
    return f"blk.{found[1]}.{_MATRICES[found[2]]}.weight.lora_{found[3].lower()}"


def _turned(rows: Any, heads: int) -> Any:
    """Return rows of queries or keys in llama.cpp's order: it rotates neighbours, transformers the two halves."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
