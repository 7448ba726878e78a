"""Loads a GGUF model in a process of its own first: llama.cpp ends the process that loads a damaged one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from reactree_ros.background.own_python import python_module
from reactree_ros.errors import UserError
from reactree_ros.llm.llama.model import Model, Part
from reactree_ros.llm.llama.words import Words

#: Longest time that a model is waited for, in seconds: it is read from the disk.
PATIENCE = 900.0
_REFUSED = 3


def try_out(path: Path, *, adapter: Path | None, context: int, threads: int) -> None:
    """Load a model and have it read a word, in a process of its own; the arguments are those of :class:`Model`.

    Raises:
        UserError: It cannot be loaded; the message names the file, in one line.
    """
    command = [*python_module(__name__), str(path), str(adapter or ""), str(context), str(threads)]
    quiet = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    try:
        tried = subprocess.run(
            command, capture_output=True, timeout=PATIENCE, env=quiet, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{path}: is not loaded within {PATIENCE:.0f} s; name a smaller model") from None
    said = tried.stderr.decode(errors="replace").strip().splitlines() or [""]
    if tried.returncode == _REFUSED:
        raise UserError(said[-1])
    if tried.returncode:
        end = signal.strsignal(-tried.returncode) if tried.returncode < 0 else f"exit code {tried.returncode}"
        why = next((line.rpartition("/")[2] for line in said if "ASSERT" in line), said[-1])[:200]
        which = f"{path}{f' with {adapter}' if adapter else ''}"
        raise UserError(f"{which}: llama.cpp does not survive it ({end}: {why}); name a whole GGUF of a model")


def _load(path: str, adapter: str, context: str, threads: str) -> None:
    model = Model(Path(path), adapter=Path(adapter) if adapter else None, context=int(context), threads=int(threads))
    model.read([Part(0, Words(model).encode("go")[:8] or [0], 0, scored=True)])


if __name__ == "__main__":
    try:
        _load(*sys.argv[1:])
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(_REFUSED)
