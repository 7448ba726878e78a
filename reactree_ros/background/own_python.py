"""Starts our Python processes without imports from the working directory, which somebody else may have made."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any

#: Python 3.11 and later obey this in processes that multiprocessing starts.
SAFE_PATH = "PYTHONSAFEPATH"


def python_command(code: str) -> list[str]:
    """Return the command that runs code in a new Python process."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = [one for one in sys.path if one]; {code}"]


def python_module(name: str) -> list[str]:
    """Return the command that runs a module in a new Python process."""
    return python_command(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)")


def start_safely() -> None:
    """Keep later multiprocessing processes from importing from the working directory."""
    os.environ.setdefault(SAFE_PATH, "1")


class ProbeFailed(Exception):
    """A process did not do what it was started for; the message is one line."""


def in_a_process(code: str, *, seconds: float) -> Any:
    """Run Python code that prints JSON at its end in its own process; no process that it starts outlives it."""
    with subprocess.Popen(
        python_command(code),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ProbeFailed(f"did not end within {seconds:g} s") from None
        finally:
            with contextlib.suppress(OSError):  # it has ended completely
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        raise ProbeFailed(last or f"ended with {process.returncode}")
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        raise ProbeFailed(f"printed {out[-200:]!r}") from None
