"""A local Hugging Face model, constrained by llguidance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field

from reactree_ros.errors import UserError
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.engine_settings import LocalEngineSettings
from reactree_ros.llm.in_process.kept_prompts import KeptPrompts
from reactree_ros.llm.in_process.thread_engine import OneByOneEngine
from reactree_ros.llm.mending import mend
from reactree_ros.llm.port import LanguageModel, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.installation import install_line

#: Default number of tokens whose attention states are kept: about 8 GB for a model of 8 billion weights in 16 bits.
STATE_TOKENS = 65536


class Network:
    """A model of the transformers library that reads one text at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        """Read more tokens of a text; return the next token's scores (float32) and the text's states."""
        import torch
        from transformers import DynamicCache

        states = DynamicCache(config=self.model.config) if states is None else states
        with torch.inference_mode():
            asked = torch.tensor([tokens], device=self.model.device)
            scores = self.model(asked, past_key_values=states, use_cache=True, logits_to_keep=1).logits[0, -1]
            return scores.float().cpu().numpy(), states


def is_plain(states: Any) -> bool:
    """Return whether every layer attends to all tokens, and keeps something for each.

    States of a sliding window, or of a layer that sums up earlier tokens, cannot be cut.
    """
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in states.layers)


def first(states: Any, count: int) -> Any:
    """Return the states of a text's first tokens; the tensors are shared."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    part = DynamicCache()
    part.layers = []
    for layer in states.layers:
        cut = DynamicLayer()
        cut.lazy_initialization(layer.keys, layer.values)
        cut.keys, cut.values = layer.keys[..., :count, :], layer.values[..., :count, :]
        part.layers.append(cut)
    return part


class TransformersEngine(OneByOneEngine):
    """Generates with a Hugging Face model in this process, one text after the other.

    The model lies on the GPU if there is one, and computes in bfloat16 there unless the options say otherwise.

    Args:
        model: A Hugging Face model, a folder, or a GGUF file.
        adapter: Folder of a LoRA adapter of peft, merged into the model; empty: none.
        state_tokens: Tokens whose attention states are kept. 0 keeps none; otherwise the latest text is always kept.
        options: Options of ``AutoModelForCausalLM.from_pretrained``, e.g. ``dtype``, ``device_map``.
    """

    chunk = 2048

    def __init__(
        self,
        model: str,
        *,
        chat: bool | None = None,
        reasoning: Reasoning | None = None,
        examples: Examples | None = None,
        adapter: str = "",
        state_tokens: int = STATE_TOKENS,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(model, chat=chat, reasoning=reasoning, examples=examples)
        self._adapter = adapter
        self._state_tokens = state_tokens
        self._options = dict(options or {})
        self.name = f"transformers with {model}"

    def load(self) -> Any:
        """Load the model, and return its tokenizer."""
        import llguidance.hf
        from transformers import AutoTokenizer

        where, gguf = named_model(self.model)
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, **gguf)
            model = self._load_model(where, gguf)
        except Exception as error:
            raise ServerUnavailable(f"{self.name} cannot be loaded: {' '.join(str(error).split())[:400]}") from error
        ends = _listed(model.generation_config.eos_token_id) or _listed(tokenizer.eos_token_id)
        config = model.config.get_text_config()
        size = max(config.vocab_size, len(tokenizer))
        self.ends = frozenset(ends)
        mend(tokenizer)
        try:
            self.vocabulary = llguidance.hf.from_tokenizer(tokenizer, n_vocab=size, eos_token=ends or None)
        except ValueError as error:  # the probe says so
            self.vocabulary, self.misfit = None, " ".join(str(error).split())[:200]
        self.context = getattr(config, "max_position_embeddings", None)
        self._network = Network(model)
        self._kept = KeptPrompts(self._state_tokens, first=first, is_plain=is_plain)
        return tokenizer

    def _load_model(self, where: str, gguf: Mapping[str, str]) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        gpu = torch.cuda.is_available()
        options = {**({"dtype": torch.bfloat16} if gpu else {}), **gguf, **self._options}
        model = AutoModelForCausalLM.from_pretrained(where, **options)
        if gpu and "device_map" not in options:
            model = model.to("cuda")
        if self._adapter:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, self._adapter).merge_and_unload()
        return model.eval()


def named_model(model: str) -> tuple[str, dict[str, str]]:
    """Return what ``from_pretrained`` loads, and with which options: a GGUF file is named beside its folder."""
    path = Path(model)
    return (str(path.parent), {"gguf_file": path.name}) if path.suffix == ".gguf" else (model, {})


def _listed(token: int | list[int] | None) -> list[int]:
    return token if isinstance(token, list) else [] if token is None else [token]


class TransformersSettings(LocalEngineSettings):
    """Settings of a Hugging Face model in this process."""

    state_tokens: int = Field(
        default=STATE_TOKENS,
        ge=0,
        description="tokens of earlier requests to keep once they are read. The latest request is kept however long; "
        "0: none",
    )


def _make(settings: TransformersSettings) -> LanguageModel:
    if settings.adapter and find_spec("peft") is None:
        raise UserError(f"adapter {settings.adapter} needs peft: {install_line('reactree_ros[transformers]')}")
    engine = TransformersEngine(
        settings.named_model("transformers"),
        chat=settings.chat,
        reasoning=settings.reasoning,
        examples=settings.examples,
        adapter=settings.adapter,
        state_tokens=settings.state_tokens,
        options=settings.engine_args,
    )
    return settings.queue(engine)


SPEC = ModelSpec(
    name="transformers",
    summary="a local Hugging Face model",
    settings=TransformersSettings,
    extra="reactree_ros[transformers]",
    needs=("torch", "transformers", "llguidance"),
    make=_make,
    flags=("model",),
    trained_for=lambda settings: settings.trained,
)
