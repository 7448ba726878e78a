"""A local Hugging Face model, constrained by llguidance."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reactree_local.engine import InProcessEngine
from reactree_ros.errors import UserError
from reactree_ros.llm.chat import (
    ChatLayout,
    Examples,
    Message,
    broken,
    chat_messages,
    find_layout,
    is_chat,
    markers_of_chat,
    spoken_to_server,
    with_texts,
)
from reactree_ros.llm.engine import Generated, Generation
from reactree_ros.llm.engine_settings import LocalEngineSettings
from reactree_ros.llm.port import LanguageModel, RequestRejected, ServerUnavailable
from reactree_ros.llm.reasoning import MARKS, Reasoning
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.installation import install_line

#: Decoders with which tokens that are written byte by byte are read as they are.
_RIGHT = frozenset({"ByteLevel", "Fuse"})


class TransformersEngine(InProcessEngine):
    """Generates with a Hugging Face model in this process, one text after the other.

    The model lies on the GPU if there is one, and computes in bfloat16 there unless the options say otherwise.

    Args:
        model: A Hugging Face model, a folder, or a GGUF file.
        adapter: Folder of a LoRA adapter of peft, merged into the model; empty: none.
        options: Options of ``AutoModelForCausalLM.from_pretrained``, e.g. ``dtype``, ``device_map``.
    """

    most_kept = 4  # of a large model they take gigabytes

    def __init__(
        self,
        model: str,
        *,
        chat: bool | None = None,
        reasoning: Reasoning | None = None,
        examples: Examples | None = None,
        adapter: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(model)
        self._chat, self._examples, self._reasoning = chat, examples, reasoning or Reasoning()
        self._layout, self._marks = ChatLayout(), MARKS[0]
        self._misfit = ""  # why llguidance does not take the tokenizer
        self._adapter = adapter
        self._options = dict(options or {})
        self.name = f"transformers with {model}"

    async def open(self) -> None:
        await super().open()
        self.constraints = frozenset() if self._misfit else InProcessEngine.constraints
        template = str(getattr(self._tokenizer, "chat_template", None) or "")
        self.chat = bool(template) if self._chat is None else self._chat
        if not self.chat:
            return
        self._marks = next((one for one in MARKS if one.begin in template or one.end in template), MARKS[0])

        async def render(messages: list[Message]) -> str:
            return self._write(messages)

        found = await find_layout(render)
        assert found is not None
        written, layout = found
        self._layout = replace(layout, examples=self._examples != "text")
        if self._chat is None:
            self.chat = is_chat([len(self._encode(one)) for one in markers_of_chat(written)]) is not False

    async def generate(self, generation: Generation) -> Generated:
        """Generate; a model that is to think does so first, and its answer is held to what may be said."""
        if not self.chat:
            return await super().generate(generation)
        messages = chat_messages(spoken_to_server(generation.turns), layout=self._layout)
        said_last = messages[-1]["role"] == "assistant"  # then the reply is its next line
        ending = {"continue_final_message": True} if said_last else {"add_generation_prompt": True}
        prompt = self._write([with_texts(one, self.spelled) for one in messages], **ending) + "\n" * said_last
        begun, (begin, end) = self.spelled(broken(generation.begun)), (self._marks.begin, self._marks.end)
        answer = replace(generation, stops=())
        opened, tokens = prompt.rstrip().endswith(begin), self._reasoning.tokens
        if not (opened or self._reasoning.thinking) or prompt.rstrip().endswith(end):
            return await self.go_on(prompt + begun, answer)
        prompt += "" if opened else begin
        if not tokens or self._reasoning.thinking is False:
            return await self.go_on(f"{prompt}{end}\n\n{begun}", answer)
        free = replace(answer, constraint=None, until=None, stops=(end,), max_tokens=tokens)
        thought = await self.go_on(prompt, free, marked=True, more=generation.max_tokens)
        spelled = self.spelled(broken(thought.text))
        answered = await self.go_on(f"{prompt}{spelled}{end}\n\n{begun}", answer)
        return replace(
            answered,
            reasoning=thought.text.strip(),
            reasoning_tokens=thought.output_tokens,
            prompt_tokens=thought.prompt_tokens,
            cached_tokens=thought.cached_tokens,
            output_tokens=(thought.output_tokens or 0) + (answered.output_tokens or 0),
        )

    def _write(self, messages: list[Message], **how: Any) -> str:
        try:
            told = {**self._reasoning.template_arguments, **how}
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, **told))
        except Exception as error:  # a template may raise anything
            problem = f"the chat template of {self.model} cannot be used: {' '.join(str(error).split())[:400]}"
            raise RequestRejected(f"{problem}; set chat to false to send prompts as text") from error

    def status(self) -> Mapping[str, str]:
        layout = {"chat layout": self._layout.in_words()} if self.chat else {}
        return {**super().status(), **layout, **({"grammar": self._misfit} if self._misfit else {})}

    def load(self) -> Any:
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
        except ValueError as error:
            self._misfit = f"llguidance does not take its tokenizer: {' '.join(str(error).split())[:200]}"
        self.context = getattr(config, "max_position_embeddings", None)
        self._network = model
        return tokenizer

    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        import torch
        from transformers import DynamicCache

        states = DynamicCache(config=self._network.config) if states is None else states
        with torch.inference_mode():
            asked = torch.tensor([tokens], device=self._network.device)
            scores = self._network(asked, past_key_values=states, use_cache=True, logits_to_keep=1).logits[0, -1]
            return scores.float().cpu().numpy(), states

    def first(self, states: Any, count: int) -> Any:
        """Return a copy of the states; those of a sliding window, or that sum up earlier tokens, cannot be cut."""
        from transformers.cache_utils import DynamicLayer

        part = copy.deepcopy(states)
        if too_many := part.get_seq_length() - count:
            if not all(type(layer) is DynamicLayer for layer in part.layers):
                return None
            part.crop(-too_many)  # negative: newer versions take no length
        return part

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


def mend(tokenizer: Any) -> bool:
    """Give a tokenizer of bytes the plain decoder of bytes if it has another; return whether it was mended.

    A GGUF says little of its tokenizer, so what is made of one may have the decoder of another family, too
    (ByteFallback, Replace). Texts may come out right with it, but libraries that constrain a text misread the tokens.
    """
    from tokenizers import decoders

    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return False
    decoding = _types(inner.decoder)
    if "ByteLevel" not in decoding | _types(inner.pre_tokenizer) or ("ByteLevel" in decoding and decoding <= _RIGHT):
        return False
    inner.decoder = decoders.ByteLevel()
    return True


def _types(part: Any) -> frozenset[str]:
    if part is None:
        return frozenset()
    said = json.loads(part.__getstate__())
    several = said.get("decoders", said.get("pretokenizers", [said]))
    return frozenset(str(one["type"]) for one in several)


class TransformersSettings(LocalEngineSettings):
    """Settings of a Hugging Face model in this process."""


def _make(settings: TransformersSettings) -> LanguageModel:
    if settings.adapter and find_spec("peft") is None:
        raise UserError(f"adapter {settings.adapter} needs peft: {install_line('reactree_local[transformers]')}")
    model = settings.named_model("transformers")
    how: dict[str, Any] = {"chat": settings.chat, "examples": settings.examples, "reasoning": settings.reasoning}
    return settings.queue(TransformersEngine(model, adapter=settings.adapter, options=settings.engine_args, **how))


SPEC = ModelSpec(
    name="transformers",
    summary="a local Hugging Face model",
    settings=TransformersSettings,
    extra="reactree_local[transformers]",
    needs=("torch", "transformers", "llguidance"),
    make=_make,
    flags=("model",),
    trained_for=lambda settings: settings.trained,
)
