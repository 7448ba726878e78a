"""llama.cpp's server, started in this process on a loopback port that only a key opens.

    python -m reactree_local.llama_server '{"model": "FILE", "context": 8192, "threads": 1}'

starts it once and ends: llama.cpp ends the process that loads a damaged file, so an unknown one is tried like this.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reactree_ros.background.worker_process import python_module
from reactree_ros.errors import UserError

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
    """What is served."""

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
        """Start the server in a process of its own.

        Raises:
            UserError: It does not start; the message names the file, in one line.
        """
        for file in filter(None, (self.model, self.adapter)):
            if not Path(file).is_file():
                raise UserError(f"{file}: is no file; name a GGUF file")
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


if __name__ == "__main__":
    Served(**json.loads(sys.argv[1])).start(verbosity=1)
