"""Runs slow or endless checks in their own thread or process, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from reactree_ros.background.worker_process import python_command

T = TypeVar("T")


class ProbeFailed(Exception):
    """A check failed or did not end in time; the message is one line."""


def in_a_process(code: str, *, seconds: float) -> Any:
    """Run Python code that prints JSON at its end in its own process; no process that it starts outlives it.

    Raises:
        ProbeFailed: It failed, took too long, or printed something else.
    """
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


def all_within(seconds: float, calls: Sequence[Callable[[], T]]) -> list[T | Exception | None]:
    """Make calls at the same time; return each result or exception, None for a call that took too long."""
    ended: queue.Queue[tuple[int, T | Exception]] = queue.Queue()

    def make(number: int, call: Callable[[], T]) -> None:
        try:
            ended.put((number, call()))
        except Exception as error:
            ended.put((number, error))

    for number, call in enumerate(calls):
        threading.Thread(target=make, args=(number, call), daemon=True).start()
    found: list[T | Exception | None] = [None] * len(calls)
    deadline = time.monotonic() + seconds
    for _ in calls:
        try:
            number, what = ended.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[number] = what
    return found
