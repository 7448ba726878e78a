"""Start and end of each of our worker processes: it ignores the terminal's signals, and ends with its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

#: Python 3.11 and later obey this in processes that multiprocessing starts.
SAFE_PATH = "PYTHONSAFEPATH"


def python_command(code: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.path[:] = [one for one in sys.path if one]; {code}"]


def python_module(name: str) -> list[str]:
    return python_command(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)")


#: Signals to every process of a terminal; the parent ends its workers in order. Windows has no SIGHUP.
OF_THE_TERMINAL = {signal.Signals[name] for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
#: Seconds that a worker has to end its own child processes.
LAST_WORDS = 3.0
#: Seconds that workers have to end by themselves before they are killed.
CLOSING_TIME = 5.0


@contextmanager
def deaf_to_the_terminal() -> Iterator[None]:
    """Start processes that ignore the terminal's signals from their very beginning.

    They import nothing from the working directory.
    """
    os.environ.setdefault(SAFE_PATH, "1")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_TERMINAL)
    try:
        resource_tracker.ensure_running()  # otherwise the first process unblocks the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_TERMINAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_worker(
    serve: Callable[..., None], *given: object, name: str | None = None
) -> tuple[SpawnProcess, Connection]:
    """Start a new process (``spawn``), which calls ``serve`` with its end of a pipe and what is given."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *given), name=name)
    with deaf_to_the_terminal():
        process.start()
    theirs.close()
    return process, ours


def end_workers(*workers: tuple[SpawnProcess, Connection]) -> None:
    """Close the pipes, which tells the workers to end; those that run longer than :data:`CLOSING_TIME` are killed."""
    for _, pipe in workers:
        pipe.close()
    until = time.monotonic() + CLOSING_TIME
    for process, _ in workers:
        process.join(max(0.0, until - time.monotonic()))
        process.kill()  # nothing, if it has ended
        process.join()


def serve_the_parent() -> None:
    """Ignore the terminal's signals, and end as by SIGTERM when the parent has ended, however it did."""
    for one in OF_THE_TERMINAL:
        signal.signal(one, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, name="parent", daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_WORDS)
    os._exit(1)
