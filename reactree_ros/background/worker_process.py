"""What every worker process of ours does first: it leaves the signals of a terminal to its parent, and ends with it."""

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

#: Sent to every process of a terminal; the parent ends its workers in order. Windows has no SIGHUP.
OF_THE_TERMINAL = {signal.Signals[name] for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
#: Longest time that a worker has to end what it has started itself, in seconds.
LAST_WORDS = 3.0


@contextmanager
def deaf_to_the_terminal() -> Iterator[None]:
    """Start processes that the signals of a terminal do not reach, from their very beginning."""
    start_safely()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_TERMINAL)
    try:
        resource_tracker.ensure_running()  # the first process starts it otherwise, and it unblocks what is blocked here
        signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_TERMINAL)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve_the_parent() -> None:
    """Take no signal of the terminal, and end as by SIGTERM once the parent has ended, however it did."""
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


def kill_workers() -> None:
    """End every worker process of this one at once, whatever it is at."""
    for one in multiprocessing.active_children():
        one.kill()
