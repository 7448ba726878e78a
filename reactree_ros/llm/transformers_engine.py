"""A local Hugging Face model, held to what may be said by llguidance."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reactree_ros.llm.chat import prompt_tokens
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.engine_settings import LocalEngineSettings
from reactree_ros.llm.port import LanguageModel, PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.spec import ModelSpec

_PROMPTS_KEPT = 4  # the agent nodes of a tree ask alternately


class TransformersEngine(Engine):
    """Generates by a Hugging Face model in this process, one text at a time.

    The attention states of the last few prompts are kept, so that a prompt that grows at its end costs its end only.

    Args:
        model: A Hugging Face model or a folder.
        chat: Lay prompts out as a chat; None: where the tokenizer has a chat template.
        options: Options of ``AutoModelForCausalLM.from_pretrained``, e.g. ``dtype``, ``device_map``.
    """

    constraints = frozenset({ConstraintKind.REGEX, ConstraintKind.JSON_SCHEMA, ConstraintKind.CHOICE})

    def __init__(self, model: str, *, chat: bool | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._name = model
        self._chat = chat
        self._options = dict(options or {})
        self._model: Any = None
        self._tokenizer: Any = None
        self._vocabulary: Any = None
        self._kept: list[tuple[list[int], Any]] = []  # tokens and their states, the latest used last
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transformers")
        self.name = f"transformers with {model}"

    async def open(self) -> None:
        """Load the model."""
        if self._model is None:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._load)

    def _load(self) -> None:
        import llguidance.hf
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(self._name)
            model = AutoModelForCausalLM.from_pretrained(self._name, **self._options)
        except Exception as error:
            raise ServerUnavailable(f"{self.name} cannot be loaded: {' '.join(str(error).split())[:400]}") from error
        self._vocabulary = llguidance.hf.from_tokenizer(self._tokenizer)
        self.context = int(model.config.max_position_embeddings)
        if self._chat is None:
            self._chat = bool(self._tokenizer.chat_template)
        self._model = model.eval()

    async def generate(self, generation: Generation) -> Generated:
        """Generate in the worker; cancelling stops it after the token that is being computed."""
        stopped = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._generate, generation, stopped)
        finally:
            stopped.set()

    def _generate(self, generation: Generation, stopped: threading.Event) -> Generated:
        import torch

        prompt = prompt_tokens(self._tokenizer, generation, chat=bool(self._chat))
        context = self.context or 0
        if (excess := len(prompt) + generation.max_tokens - context) > 0:
            raise PromptTooLong(excess, context)
        held = None if generation.constraint is None else self._matcher(generation.constraint)
        draw = torch.Generator().manual_seed(generation.seed)
        cached, cache = self._states(prompt)
        said: list[int] = []
        ends = set(_listed(self._model.generation_config.eos_token_id) or _listed(self._tokenizer.eos_token_id))
        fresh, text, finish = prompt[cached:], "", "length"
        with torch.inference_mode():
            while len(said) < generation.max_tokens and not stopped.is_set():
                tokens = torch.tensor([fresh], device=self._model.device)
                scores = self._model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
                token = self._pick(scores.float().cpu(), held, generation, draw)
                if token in ends:
                    finish = "stop"
                    break
                said.append(token)
                fresh = [token]
                text = self._tokenizer.decode(said, skip_special_tokens=True)
                stop = min((text.find(stop) for stop in generation.stops if stop in text), default=-1)
                if stop >= 0 or (held is not None and held.is_stopped()):
                    text, finish = text[: stop if stop >= 0 else None], "stop"
                    break
        known = (prompt + said)[: cache.get_seq_length()]
        self._kept = [*self._kept, (known, cache)][-_PROMPTS_KEPT:]
        return Generated(text, finish, len(prompt), cached, len(said))

    def _pick(self, scores: Any, held: Any, generation: Generation, draw: Any) -> int:
        """Choose the next token among those that may come."""
        import llguidance.numpy
        import torch

        if held is not None:
            mask = llguidance.numpy.allocate_token_bitmask(1, self._vocabulary.vocab_size)
            llguidance.numpy.fill_next_token_bitmask(held, mask, 0)
            llguidance.numpy.apply_token_bitmask_inplace(scores.numpy(), mask[0])
        if generation.temperature <= 0:
            token = int(torch.argmax(scores))
        else:
            shares, tokens = torch.softmax(scores / generation.temperature, dim=-1).sort(descending=True)
            shares[shares.cumsum(dim=-1) - shares >= generation.top_p] = 0
            token = int(tokens[torch.multinomial(shares, 1, generator=draw)])
        if held is not None:
            held.consume_token(token)
        return token

    def _matcher(self, constraint: Constraint) -> Any:
        from llguidance import LLMatcher

        if constraint.kind is ConstraintKind.REGEX:
            grammar = LLMatcher.grammar_from_regex(constraint.value)
        elif constraint.kind is ConstraintKind.JSON_SCHEMA:
            grammar = LLMatcher.grammar_from_json_schema(constraint.value, defaults={"whitespace_flexible": False})
        else:
            options = " | ".join(json.dumps(option, ensure_ascii=False) for option in constraint.value)
            grammar = LLMatcher.grammar_from_lark(f"start: {options}")
        matcher = LLMatcher(self._vocabulary, grammar)
        if problem := matcher.get_error():
            raise RequestRejected(f"{self.name} refuses the constraint: {' '.join(problem.split())[:400]}")
        return matcher

    def _states(self, prompt: Sequence[int]) -> tuple[int, Any]:
        """Return how much of a prompt is known, and the states of that; at least one token is left to compute."""
        from transformers import DynamicCache

        shared = [min(_shared(known, prompt), len(prompt) - 1) for known, _ in self._kept]
        best = max(range(len(shared)), key=shared.__getitem__, default=-1)
        if best < 0 or shared[best] == 0:
            return 0, DynamicCache(config=self._model.config)
        known, cache = self._kept.pop(best)
        if surplus := len(known) - shared[best]:
            cache.crop(-surplus)
        return shared[best], cache

    async def close(self) -> None:
        """Forget the model."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._model, self._kept = None, []

    def count_tokens(self, text: str) -> int | None:
        """Count with the model's tokenizer; None before it is loaded."""
        return None if self._model is None else len(self._tokenizer.encode(text, add_special_tokens=False))

    def status(self) -> Mapping[str, str]:
        """Say which model answers, and whether prompts are laid out as a chat."""
        return {"model": self._name, "prompts": "chat" if self._chat else "completion"}


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two texts begin with together."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(number for number in range(length) if one[number] != other[number])


def _listed(token: int | list[int] | None) -> list[int]:
    return token if isinstance(token, list) else [] if token is None else [token]


def _make(settings: LocalEngineSettings) -> LanguageModel:
    model = settings.named_model("transformers")
    return settings.queue(TransformersEngine(model, chat=settings.chat, options=settings.engine_args))


SPEC = ModelSpec(
    name="transformers",
    summary="a local Hugging Face model",
    settings=LocalEngineSettings,
    extra="reactree_ros[transformers]",
    needs=("torch", "transformers", "llguidance"),
    make=_make,
    flags=("model",),
)
