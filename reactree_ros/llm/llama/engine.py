"""A GGUF model in this process, by llama.cpp, held to the grammar by llguidance."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from reactree_ros.errors import UserError
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.engine import Generated, Generation
from reactree_ros.llm.engine_settings import AnsweringLimits, EngineSettings
from reactree_ros.llm.in_process.row import Row
from reactree_ros.llm.in_process.thread_engine import ThreadEngine
from reactree_ros.llm.llama.model import Model
from reactree_ros.llm.llama.sequences import Sequences
from reactree_ros.llm.llama.trial import try_out
from reactree_ros.llm.llama.words import Words
from reactree_ros.llm.port import LanguageModel, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.llm.trained import trained_for

#: Default number of tokens of earlier texts kept: 48 MB with SmolLM2-135M, the prompts of some five agent nodes.
STATE_TOKENS = 2048
#: Default of the longest context: a model may have been trained for one that fills the memory.
CONTEXT = 8192
#: The packages that it needs.
NEEDS = ("xllamacpp", "llguidance", "jinja2")


class LlamaLimits(AnsweringLimits):
    """Settings of every engine by llama.cpp: what it may use."""

    context: int = Field(
        default=CONTEXT,
        ge=256,
        le=2**24,
        description="most tokens of all current prompts and replies together; at most what the model was trained for",
    )
    state_tokens: int = Field(
        default=STATE_TOKENS,
        ge=0,
        description="tokens of earlier requests to keep once they are read, 23 KB each with SmolLM2-135M; more for "
        "many planners. The latest request is kept however long; 0: none",
    )
    threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="threads that compute; 0: half as many as there are cores for this process, because a thread that "
        "waits for a core that others use holds up all threads",
    )


class LlamaEngine(ThreadEngine):
    """Generates with a GGUF model.

    Requests at the same time are answered together. The states of prompts are kept, so that a prompt with a known
    beginning is only read from there on. What a constraint leaves no choice about is not computed token by token, but
    read in one go with what follows.

    Args:
        model: A GGUF file.
        adapter: A GGUF file of a LoRA adapter; empty for none.
        limits: What it may use.
        is_known: Whether the files are of an installed package: whatever else is named is tried out first.
    """

    _batch: Sequences | None = None
    _working: asyncio.Task[None] | None = None

    def __init__(
        self,
        model: str,
        *,
        adapter: str = "",
        chat: bool | None = None,
        reasoning: Reasoning | None = None,
        examples: Examples | None = None,
        limits: LlamaLimits | None = None,
        is_known: bool = False,
    ) -> None:
        super().__init__(model, chat=chat, reasoning=reasoning, examples=examples)
        self._waited_for: dict[Row, asyncio.Future[Generated]] = {}
        self._adapter, self._limits, self._is_known = adapter, limits or LlamaLimits(), is_known
        self._threads = self._limits.threads or max(1, len(os.sched_getaffinity(0)) // 2)
        self.name = f"llama.cpp with {model}{f' and {adapter}' if adapter else ''}"

    def load(self) -> Words:
        """Load the model, and return its tokenizer."""
        adapter = Path(self._adapter) if self._adapter else None
        path, limits = Path(self.model), {"context": self._limits.context, "threads": self._threads}
        if not self._is_known:
            try_out(path, adapter=adapter, **limits)
        model = Model(path, adapter=adapter, **limits)
        words = Words(model)
        self.ends, self.context = words.ends, model.context
        try:
            self.vocabulary = words.for_llguidance()
        except ValueError as error:  # the probe says so
            self.vocabulary, self.misfit = None, " ".join(str(error).split())[:200]
        self._batch = Sequences(model, self._limits.state_tokens)
        return words

    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Generate together with the other texts; cancelling removes the text before its next token."""
        batch = self._batch
        if batch is None:
            raise ServerUnavailable(f"{self.name} is not open")
        row = await self._row(prompt, generation, marked=marked, model=batch)
        self._waited_for[row] = asyncio.get_running_loop().create_future()
        batch.waiting.append(row)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work(batch))
        try:
            return await self._waited_for[row]
        finally:
            row.cancelled = True

    async def _work(self, batch: Sequences) -> None:
        """Advance the texts until none is left."""
        while batch.waiting or batch.rows:
            for row in await asyncio.get_running_loop().run_in_executor(self._worker, batch.advance):
                self._settle(row)

    def _settle(self, row: Row) -> None:
        future = self._waited_for.pop(row)
        if future.done():  # cancelled
            return
        if row.failure is None:
            future.set_result(row.generated())
        else:
            future.set_exception(self._told(row.failure))

    async def close(self) -> None:
        """Drop the model, whose memory is free once nothing of it runs; running generations fail."""
        if self._working is not None:
            self._working.cancel()
        for future in self._waited_for.values():
            if not future.done():
                future.set_exception(ServerUnavailable(f"{self.name} was closed"))
        await super().close()
        self._waited_for.clear()
        self._batch = self._working = None
        self._tokenizer = self._template = self.vocabulary = None

    def status(self) -> Mapping[str, str]:
        """Describe the model and how it answers."""
        adapted = {"adapter": self._adapter} if self._adapter else {}
        return {**super().status(), **adapted, "threads": str(self._threads), "runtime": "llama.cpp"}


class LlamaSettings(LlamaLimits, EngineSettings):
    """Settings of a GGUF model in this process."""

    model: str = Field(default="", description="GGUF file of the model")
    adapter: str = Field(default="", description="GGUF file of a LoRA adapter, as `reactree lab train` makes it")


def _make(settings: LlamaSettings) -> LanguageModel:
    if not settings.model:
        raise UserError("llm is 'llama', but no model is named; name a GGUF file")
    engine = LlamaEngine(
        settings.model,
        adapter=settings.adapter,
        chat=settings.chat,
        reasoning=settings.reasoning,
        examples=settings.examples,
        limits=settings,
    )
    return settings.queue(engine)


SPEC = ModelSpec(
    name="llama",
    summary="a GGUF model in this process, by llama.cpp, without torch",
    settings=LlamaSettings,
    extra="reactree_ros[llama]",
    needs=NEEDS,
    make=_make,
    flags=("model",),
    trained_for=lambda settings: trained_for(Path(settings.adapter).parent) if settings.adapter else (),
)
