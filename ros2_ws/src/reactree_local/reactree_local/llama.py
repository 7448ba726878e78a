"""A GGUF model in this process, by llama.cpp's server, which is asked as any other server is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from reactree_local.llama_server import Served
from reactree_ros.errors import UserError
from reactree_ros.llm.engine_settings import AnsweringLimits, EngineSettings
from reactree_ros.llm.openai.engine import OpenAIEngine
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.llm.trained import trained_for

#: The packages that it needs.
NEEDS = ("xllamacpp", "openai")


class LlamaLimits(AnsweringLimits):
    """Settings of every engine by llama.cpp: what it may use."""

    context: int = Field(
        default=8192,
        ge=256,
        le=2**24,
        description="most tokens of all current prompts and replies together; at most what the model was trained for",
    )
    threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="threads that compute; 0: half as many as there are cores for this process, because a thread that "
        "waits for a core that others use holds up all threads",
    )

    def served(self, model: str, adapter: str) -> Served:
        """Return what llama.cpp's server is to serve."""
        threads = self.threads or max(1, len(os.sched_getaffinity(0)) // 2)
        return Served(model, adapter, self.context, threads)


class LlamaEngine(OpenAIEngine):
    """Generates with a GGUF model.

    Args:
        is_known: Whether the files are of an installed package: whatever else is named is tried out first.
    """

    loads = True
    _server: Any = None

    def __init__(self, served: Served, *, is_known: bool = False, **options: Any) -> None:
        super().__init__(base_url="http://127.0.0.1", key=served.key, dialect="llamacpp", retries=0, **options)
        self._served, self._is_known = served, is_known
        self.name = f"llama.cpp with {served}"

    async def open(self) -> None:
        """Start the server, and connect."""
        if self._server is None:
            self._server = await asyncio.to_thread(self._start)
            self._connection.url = f"{self._server.listening_address}/v1"
        await super().open()
        self.name = self._connection.name = f"llama.cpp with {self._served}"

    def _start(self) -> Any:
        if not self._is_known:
            self._served.try_out()
        return self._served.start()

    async def close(self) -> None:
        """End the server; running generations fail."""
        await super().close()
        server, self._server = self._server, None
        await asyncio.to_thread(lambda held: held.clear(), [server])

    def status(self) -> Mapping[str, str]:
        """Describe the model and how it answers."""
        adapted = {"adapter": self._served.adapter} if self._served.adapter else {}
        return {**super().status(), **adapted, "threads": str(self._served.threads), "runtime": "llama.cpp"}


class LlamaSettings(LlamaLimits, EngineSettings):
    """Settings of a GGUF model in this process."""

    model: str = Field(default="", description="GGUF file of the model")
    adapter: str = Field(default="", description="GGUF file of a LoRA adapter, as `reactree lab train` makes it")


def _make(settings: LlamaSettings) -> LanguageModel:
    if not settings.model:
        raise UserError("llm is 'llama', but no model is named; name a GGUF file")
    served = settings.served(settings.model, settings.adapter)
    return settings.queue(LlamaEngine(served, request_timeout=settings.request_timeout, **settings.how))


SPEC = ModelSpec(
    name="llama",
    summary="a GGUF model in this process, by llama.cpp, without torch",
    settings=LlamaSettings,
    extra="reactree_local[llama]",
    needs=NEEDS,
    make=_make,
    flags=("model",),
    trained_for=lambda settings: trained_for(Path(settings.adapter).parent) if settings.adapter else (),
)
