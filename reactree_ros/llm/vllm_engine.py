"""The vLLM engine in this process."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import itertools
import os
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from reactree_ros.errors import UserError
from reactree_ros.llm.chat import prompt_tokens
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.engine_settings import LocalEngineSettings
from reactree_ros.llm.port import LanguageModel, PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.spec import ModelSpec

#: Engine arguments that are set where the user sets none. llguidance compiles a regular expression as it goes, so that
#: hundreds of skills that change at every step cost no more than a few.
_DEFAULTS = {"enable_prefix_caching": True, "structured_outputs_config": {"backend": "guidance"}}
#: vLLM logs to stdout, which is the user's, and reports usage to its makers.
_ENVIRONMENT = {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
_FIELDS = {
    ConstraintKind.GRAMMAR: "grammar",
    ConstraintKind.REGEX: "regex",
    ConstraintKind.JSON_SCHEMA: "json",
    ConstraintKind.CHOICE: "choice",
}


class VllmEngine(Engine):
    """Generates by vLLM's ``AsyncLLM``, whose core runs in a process of its own.

    A core that died is started again at the next request. A script that uses this keeps its top level behind
    ``if __name__ == "__main__":``, because vLLM may start processes by importing it.

    Args:
        model: A Hugging Face model or a folder.
        chat: Lay prompts out as a chat; None: where the tokenizer has a chat template.
        options: vLLM's engine arguments, e.g. ``max_model_len``, ``tensor_parallel_size``, ``quantization``.
    """

    constraints = frozenset(_FIELDS)

    def __init__(self, model: str, *, chat: bool | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._model = model
        self._chat = chat
        self._options = {**_DEFAULTS, **(options or {}), "model": model}
        self._llm: Any = None
        self._tokenizer: Any = None
        self._opening = asyncio.Lock()
        self._numbers = itertools.count()
        self.name = f"vllm with {model}"

    async def open(self) -> None:
        """Load the model and start the engine; takes seconds to minutes."""
        async with self._opening:
            if self._llm is None:
                self._llm = await asyncio.to_thread(self._start)
        self.lost = False
        self._tokenizer = self._llm.get_tokenizer()
        self.context = int(self._llm.model_config.max_model_len)
        if self._chat is None:
            self._chat = bool(self._tokenizer.chat_template)

    def _start(self) -> Any:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import vllm
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        self.name = f"vllm {vllm.__version__} with {self._model}"
        known = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
        for option in self._options:
            if option not in known:
                close = ", ".join(difflib.get_close_matches(option, known)) or "see vLLM's engine arguments"
                raise UserError(f"engine option '{option}' is unknown to vllm {vllm.__version__}; near: {close}")
        options = dict(self._options)
        if current_platform.is_cpu():
            # There, a prompt that is read in pieces ends the engine where its request has a seed (vLLM 0.32).
            options.setdefault("enable_chunked_prefill", False)
        try:
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**options))
        except Exception as error:
            raise ServerUnavailable(f"{self.name} cannot start: {' '.join(str(error).split())[:400]}") from error

    async def generate(self, generation: Generation) -> Generated:
        """Ask the engine; cancelling aborts the generation in it."""
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        llm = self._llm
        if llm is None:
            raise ServerUnavailable(f"{self.name} is not open")
        tokens = prompt_tokens(self._tokenizer, generation, chat=bool(self._chat))
        context = self.context or 0
        if (excess := len(tokens) + generation.max_tokens - context) > 0:
            raise PromptTooLong(excess, context)
        number = f"{generation.id} {next(self._numbers)}"
        done = None
        try:
            async for output in llm.generate({"prompt_token_ids": tokens}, self._sampling(generation), number):
                done = output
        except (EngineDeadError, EngineGenerateError) as error:
            if self._llm is llm and llm.errored:
                self._llm, self.lost = None, True
                llm.shutdown()
            raise ServerUnavailable(f"{self.name} has died; the next request starts it again ({error})") from None
        except Exception as error:
            raise self._rejected(error) from error
        if done is None:
            raise ServerUnavailable(f"{self.name} ended without an answer")
        return Generated(
            text=done.outputs[0].text,
            finish_reason=done.outputs[0].finish_reason or "stop",
            prompt_tokens=len(tokens),
            cached_tokens=done.num_cached_tokens,
            output_tokens=len(done.outputs[0].token_ids),
        )

    def _rejected(self, error: Exception) -> RequestRejected:
        return RequestRejected(f"{self.name} refuses the request: {' '.join(str(error).split())[:400]}")

    @staticmethod
    def _sampling(generation: Generation) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        held: Constraint | None = generation.constraint
        return SamplingParams(
            temperature=generation.temperature,
            top_p=generation.top_p,
            seed=generation.seed,
            max_tokens=generation.max_tokens,
            stop=list(generation.stops),
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=None if held is None else StructuredOutputsParams(**{_FIELDS[held.kind]: held.value}),
        )

    async def close(self) -> None:
        """End the engine and its processes."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.shutdown()

    def count_tokens(self, text: str) -> int | None:
        """Count with the model's tokenizer; None before it is loaded."""
        return None if self._tokenizer is None else len(self._tokenizer.encode(text, add_special_tokens=False))

    def status(self) -> Mapping[str, str]:
        """Say which model answers, and whether prompts are laid out as a chat."""
        return {"model": self._model, "prompts": "chat" if self._chat else "completion"}


class VllmSettings(LocalEngineSettings):
    """Settings of vLLM in this process; an empty text or 0 leaves it to the engine."""

    dtype: str = Field(default="", description="number type of the weights, e.g. bfloat16; empty: the model's")
    tensor_parallel_size: int = Field(default=0, ge=0, description="GPUs that share the model; 0: one")
    quantization: str = Field(default="", description="how the weights are quantized, e.g. awq; empty: as the model is")
    max_model_len: int = Field(default=0, ge=0, description="tokens of prompt and reply together; 0: the model's")
    gpu_memory_utilization: float = Field(
        default=0.0, ge=0, le=1, description="share of the GPU's memory that may be used; 0: vLLM's default"
    )
    kv_cache_dtype: str = Field(default="", description="number type of the KV cache, e.g. fp8; empty: the weights'")
    enable_prefix_caching: bool = Field(default=True, description="keep what was computed for prompts' beginnings")

    @property
    def options(self) -> dict[str, Any]:
        """The engine arguments that are set."""
        own = self.model_dump(exclude=set(LocalEngineSettings.model_fields))
        return {name: value for name, value in own.items() if value or value is False} | self.engine_args


def _make(settings: VllmSettings) -> LanguageModel:
    return settings.queue(VllmEngine(settings.named_model("vllm"), chat=settings.chat, options=settings.options))


SPEC = ModelSpec(
    name="vllm",
    summary="the vLLM engine in this process",
    settings=VllmSettings,
    extra="reactree_ros[vllm]",
    needs=("vllm",),
    make=_make,
    flags=("model",),
)
