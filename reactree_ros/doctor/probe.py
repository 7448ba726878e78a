"""Runs a slow or endless check in a process of its own, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import Any

from reactree_ros.background.worker_process import python_command


class ProbeFailed(Exception):
    pass


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
