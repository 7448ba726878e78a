"""The vLLM engine in this process."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import itertools
import os
import tempfile
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, parse_json, text_of
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.engine_settings import LocalEngineSettings, SeeingSettings
from reactree_ros.llm.local_engine import LocalEngine
from reactree_ros.llm.mending import mended_copy
from reactree_ros.llm.port import LanguageModel, RequestRejected, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.llm.seeing import Seeing
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Harmless, plain

#: Default engine arguments. llguidance compiles a regular expression on the fly, so that hundreds of skills that
#: change at every step cost no more than a few.
_DEFAULTS = {"enable_prefix_caching": True, "structured_outputs_config": {"backend": "guidance"}}
#: vLLM logs to stdout, which is the user's, and sends usage statistics to its makers.
_ENVIRONMENT = {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
_FIELDS = {
    ConstraintKind.GRAMMAR: "grammar",
    ConstraintKind.REGEX: "regex",
    ConstraintKind.JSON_SCHEMA: "json",
    ConstraintKind.CHOICE: "choice",
}
#: The file that describes an adapter, and the ranks that vLLM can be prepared for.
_ADAPTER, _RANKS = "adapter_config.json", (1, 8, 16, 32, 64, 128, 256, 320, 512)
#: Finish reasons that mean an engine failure.
_FAILED = ("abort", "error")


class VllmEngine(LocalEngine):
    """Generates with vLLM's ``AsyncLLM``, whose core runs in its own process.

    The next request restarts a core that died. A script that uses this must keep its top level behind ``if __name__ ==
    "__main__":``, because vLLM may start processes by importing it.

    Args:
        adapter: Folder of a LoRA adapter of peft, which each request names; empty: none.
        options: vLLM's engine arguments, e.g. ``max_model_len``, ``tensor_parallel_size``, ``quantization``.
    """

    constraints = frozenset(_FIELDS)

    def __init__(
        self,
        model: str,
        *,
        chat: bool | None = None,
        reasoning: Reasoning | None = None,
        examples: Examples | None = None,
        adapter: str = "",
        options: Mapping[str, Any] | None = None,
        sees: bool | None = None,
        seeing: Seeing | None = None,
    ) -> None:
        super().__init__(model, chat=chat, reasoning=reasoning, examples=examples)
        self._options = {**_DEFAULTS, **_for_adapter(adapter), **(options or {}), "model": model}
        self._adapter = adapter
        self._sees, self.seeing = sees, seeing or Seeing()
        self._llm: Any = None
        self._mended: tempfile.TemporaryDirectory[str] | None = None
        self._opening = asyncio.Lock()
        self._numbers = itertools.count()
        self.name = f"vllm with {model}"

    async def open(self) -> None:
        """Load the model and start the engine, which takes seconds to minutes."""
        async with self._opening:
            if self._llm is None:
                self._llm = await asyncio.to_thread(self._start)
        self.lost = False
        self.context = int(self._llm.model_config.max_model_len)
        await self._take(self._llm.get_tokenizer())
        self.sees = self._sees is not False and self._can_see()

    def _can_see(self) -> bool:
        """Return whether model and chat template take pictures.

        Raises:
            UserError: They do not, and are said to.
        """
        has_eyes = self._llm.model_config.is_multimodal_model
        if has_eyes and self._template is not None and self._template.writes_pictures():
            return True
        if self._sees:
            what = "its chat template takes no pictures" if has_eyes else "it is no model that sees"
            raise UserError(f"sees is true for {self.model}, but {what}; leave sees out, or name another model")
        return False

    def _start(self) -> Any:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import vllm
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        self.name = f"vllm {vllm.__version__} with {self.model}"
        known = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
        for option in self._options:
            if option not in known:
                close = ", ".join(difflib.get_close_matches(option, known)) or "see vLLM's engine arguments"
                raise UserError(f"engine option '{option}' is unknown to vllm {vllm.__version__}; near: {close}")
        options = dict(self._options)
        if current_platform.is_cpu():
            # In this case, a prompt read in chunks ends the engine if its request has a seed (vLLM 0.32).
            options.setdefault("enable_chunked_prefill", False)
        self._mended = tempfile.TemporaryDirectory(prefix="reactree-tokenizer-")
        if mended_copy(Path(self._mended.name), **_tokenizer_of(options)):
            options |= {"tokenizer": self._mended.name, "tokenizer_revision": None}
        try:
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**options))
        except Exception as error:
            raise ServerUnavailable(f"{self.name} cannot start: {' '.join(str(error).split())[:400]}") from error

    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Ask the engine; cancelling aborts the generation in it."""
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        llm = self._llm
        if llm is None:
            raise ServerUnavailable(f"{self.name} is not open")
        number = f"{generation.id} {next(self._numbers)}"
        done, wanted = None, ""
        try:
            asked: Any = {"prompt_token_ids": prompt}
            if generation.shown:
                asked["multi_modal_data"] = {"image": [one.opened() for one in generation.shown]}
            how = self._sampling(generation, marked)
            texts = llm.generate(asked, how, number, lora_request=self._lora())
            async with aclosing(texts):  # one that is closed before its end is aborted
                async for done in texts:
                    if generation.until is not None and (wanted := generation.until(done.outputs[0].text)):
                        break
        except (EngineDeadError, EngineGenerateError) as error:
            if self._llm is llm and llm.errored:
                self._llm, self.lost = None, True
                llm.shutdown()
            raise ServerUnavailable(f"{self.name} has died; the next request starts it again ({error})") from None
        except Exception as error:
            raise self._rejected(error) from error
        if done is None:
            raise ServerUnavailable(f"{self.name} ended without an answer")
        finish = done.outputs[0].finish_reason or "stop"  # none yet: all that is wanted has come
        if finish in _FAILED:
            raise ServerUnavailable(f"{self.name} gave up on the request (finish_reason '{finish}')")
        return Generated(
            text=wanted or done.outputs[0].text,
            finish_reason=finish,
            prompt_tokens=len(done.prompt_token_ids or prompt),
            pictures=len(generation.shown),
            picture_tokens=len(done.prompt_token_ids or prompt) - len(prompt),
            cached_tokens=done.num_cached_tokens,
            output_tokens=len(done.outputs[0].token_ids),
        )

    def _lora(self) -> Any:
        from vllm.lora.request import LoRARequest

        return LoRARequest("adapter", 1, self._adapter) if self._adapter else None

    def _rejected(self, error: Exception) -> RequestRejected:
        return RequestRejected(f"{self.name} refuses the request: {' '.join(str(error).split())[:400]}")

    @staticmethod
    def _sampling(generation: Generation, marked: bool) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        held: Constraint | None = generation.constraint
        return SamplingParams(
            temperature=generation.temperature,
            top_p=generation.top_p,
            seed=generation.seed,
            max_tokens=generation.max_tokens,
            stop=list(generation.stops),
            skip_special_tokens=not marked,
            output_kind=RequestOutputKind.FINAL_ONLY if generation.until is None else RequestOutputKind.CUMULATIVE,
            structured_outputs=None if held is None else StructuredOutputsParams(**{_FIELDS[held.kind]: held.value}),
        )

    async def close(self) -> None:
        """End the engine and its processes."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.shutdown()
        if self._mended is not None:
            self._mended.cleanup()


def _for_adapter(adapter: str) -> dict[str, Any]:
    """Return the engine arguments that an adapter needs.

    Raises:
        UserError: It is no adapter, or too large for vLLM.
    """
    if not adapter:
        return {}
    try:
        rank = checked(int, parse_json(text_of(Path(adapter) / _ADAPTER))["r"])
        return {"enable_lora": True, "max_lora_rank": next(one for one in _RANKS if one >= rank)}
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise UserError(
            f"adapter {adapter}: {_ADAPTER} has no rank up to {_RANKS[-1]} ({error}); name a folder that peft wrote"
        ) from error


def _tokenizer_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the tokenizer is loaded that vLLM's arguments name."""
    return {
        "pretrained_model_name_or_path": options.get("tokenizer") or options["model"],
        "revision": options.get("tokenizer_revision") or options.get("revision"),
        "trust_remote_code": bool(options.get("trust_remote_code")),
    }


class VllmSettings(SeeingSettings, LocalEngineSettings):
    """Settings of vLLM in this process; an empty text or 0 leaves the choice to the engine."""

    dtype: Annotated[str, Harmless(plain)] = Field(
        default="", description="number type of the weights, e.g. bfloat16; empty: the model's"
    )
    tensor_parallel_size: int = Field(default=0, ge=0, description="GPUs that share the model; 0: one")
    max_model_len: int = Field(
        default=0, ge=0, description="most tokens of prompt and reply together; 0: the model's limit"
    )
    gpu_memory_utilization: float = Field(
        default=0.0, ge=0, le=1, description="share of the GPU's memory to use; 0: vLLM's default"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The engine arguments that are set."""
        own = self.model_dump(exclude={*LocalEngineSettings.model_fields, *SeeingSettings.model_fields})
        return {name: value for name, value in own.items() if value} | self.engine_args


def _make(settings: VllmSettings) -> LanguageModel:
    model = settings.named_model("vllm")
    engine = VllmEngine(
        model,
        chat=settings.chat,
        reasoning=settings.reasoning,
        examples=settings.examples,
        adapter=settings.adapter,
        options=settings.options,
        sees=settings.sees,
        seeing=settings.seeing,
    )
    return settings.queue(engine)


SPEC = ModelSpec(
    name="vllm",
    summary="the vLLM engine in this process",
    settings=VllmSettings,
    extra="reactree_ros[vllm]",
    needs=("vllm",),
    make=_make,
    flags=("model",),
    trained_for=lambda settings: settings.trained,
)
