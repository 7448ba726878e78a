"""The start of each of our worker processes: it ignores the terminal's signals, and ends with its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker

from reactree_ros.background.own_python import start_safely

#: Signals to every process of a terminal; the parent ends its workers in order. Windows has no SIGHUP.
OF_THE_TERMINAL = {signal.Signals[name] for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
#: Seconds that a worker has to end its own child processes.
LAST_WORDS = 3.0


@contextmanager
def deaf_to_the_terminal() -> Iterator[None]:
    """Start processes that ignore the terminal's signals from their very beginning."""
    start_safely()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_TERMINAL)
    try:
        resource_tracker.ensure_running()  # otherwise the first process unblocks the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_TERMINAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
