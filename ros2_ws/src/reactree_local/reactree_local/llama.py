"""A GGUF model in this process, by llama.cpp's server, which is asked as any other server is."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from reactree_ros.background.worker_process import python_module
from reactree_ros.errors import UserError
from reactree_ros.llm.engine_settings import AnsweringLimits, EngineSettings
from reactree_ros.llm.openai.engine import OWN_SERVER, OpenAIEngine, OpenAISettings
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import ModelSpec, trained_for

#: The packages that it needs.
NEEDS = ("xllamacpp", "openai")
#: Longest time that a trial takes, in seconds: the model is read from the disk.
PATIENCE = 900.0
#: Most texts at once; further ones wait.
TEXTS = 4
#: Tokens of prompts that are read at once: a request that nobody wants any more ends after as many.
CHUNK = 64
#: Memory for the states of earlier prompts, in MiB.
KEPT = 128


@dataclass(frozen=True)
class Served:
    model: str  # A GGUF file
    adapter: str = ""  # A GGUF file of a LoRA adapter; empty for none
    context: int = 8192  # most tokens of all texts together; a text never has more than the model was trained for
    threads: int = 1
    key: str = field(default_factory=secrets.token_hex, repr=False)  # what a request must bring

    def __str__(self) -> str:
        return f"{self.model}{f' with {self.adapter}' if self.adapter else ''}"

    def start(self, *, verbosity: int = -1) -> Any:
        """Start the server, which is silent by default; it ends when nobody holds it.

        Raises:
            UserError: llama.cpp does not load it.
        """
        try:
            from xllamacpp import CommonAdapterLoraInfo, CommonParams, Server
        except (ImportError, OSError) as error:  # no libgomp.so.1
            raise UserError(f"xllamacpp cannot be loaded: {error}; Debian, Ubuntu: apt install libgomp1") from error
        options = CommonParams()
        options.model.path, options.n_ctx = self.model, self.context
        if self.adapter:
            options.lora_adapters = [CommonAdapterLoraInfo(self.adapter, 1.0)]
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = self.threads
        options.n_parallel, options.kv_unified, options.fit_params = TEXTS, True, False
        options.n_batch = options.n_ubatch = CHUNK
        options.cache_ram_mib = KEPT
        options.hostnames, options.port, options.api_keys, options.ui = ["127.0.0.1"], 0, [self.key], False
        options.warmup, options.verbosity = False, verbosity
        try:
            server = Server(options)
            # A server that is dropped before it runs never ends; a damaged model may load and not compute.
            server.handle_completions({"prompt": "go", "max_tokens": 1})
            return server
        except RuntimeError as error:
            raise UserError(f"{self}: llama.cpp does not load it: {error}; name a whole GGUF of a model") from error

    def try_out(self) -> None:
        for file in filter(None, (self.model, self.adapter)):
            if not Path(file).is_file():
                raise UserError(f"{file}: is not a file; name a GGUF file")
        # Whoever lists the processes sees these words: the trial draws a key of its own.
        named = {name: value for name, value in asdict(self).items() if name != "key"}
        command = [*python_module(__name__), json.dumps(named)]
        try:
            tried = subprocess.run(
                command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"{self}: is not loaded within {PATIENCE:.0f} s; name a smaller model") from None
        if not tried.returncode:
            return
        end = signal.strsignal(-tried.returncode) if tried.returncode < 0 else f"exit code {tried.returncode}"
        lines = tried.stderr.decode(errors="replace").strip().splitlines()
        said = next((line for line in lines if "error" in line.lower() or "ASSERT" in line), "")
        why = said.rpartition("/")[2][:200] or "it does not say why"
        raise UserError(f"{self}: llama.cpp does not load it ({end}: {why}); name a whole GGUF of a model")


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
        of_server = OpenAISettings(base_url=OWN_SERVER, dialect="llamacpp", retries=0, **options)
        super().__init__(of_server, key=served.key)
        self._served, self._is_known = served, is_known
        self._called = self.name = f"llama.cpp with {Path(served.model).name}"

    async def open(self) -> None:
        if self._server is None:
            self._server = await asyncio.to_thread(self._start)
            self._connection.url = f"{self._server.listening_address}/v1"
        await super().open()
        self.name = self._connection.name = self._called

    def _start(self) -> Any:
        if not self._is_known:
            self._served.try_out()
        return self._served.start()

    async def close(self) -> None:
        await super().close()
        server, self._server = self._server, None
        await asyncio.to_thread(lambda held: held.clear(), [server])

    def status(self) -> Mapping[str, str]:
        adapted = {"adapter": self._served.adapter} if self._served.adapter else {}
        own = {"model": self._served.model, **adapted}
        return {**super().status(), **own, "threads": str(self._served.threads), "runtime": "llama.cpp"}


class LlamaSettings(LlamaLimits, EngineSettings):
    """Settings of a GGUF model in this process."""

    model: str = Field(default="", description="GGUF file of the model")
    adapter: str = Field(default="", description="GGUF file of a LoRA adapter, as `reactree lab train` makes it")


def _make(settings: LlamaSettings) -> LanguageModel:
    if not settings.model:
        raise UserError("llm is 'llama', but no model is named; name a GGUF file")
    served = settings.served(settings.model, settings.adapter)
    return settings.queue(LlamaEngine(served, **settings.how))


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


if __name__ == "__main__":  # the trial of unknown files
    Served(**json.loads(sys.argv[1])).start(verbosity=1)
