"""Signals that ask a command to end: all are handled like Ctrl-C."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

#: Signals that ask for an end: Ctrl-C; ``kill``, containers, systemd and Slurm; a closed terminal (not on Windows).
SIGNALS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: Seconds that a command may take to end; after that, another signal interrupts its ending.
GRACE = 10.0


class Asked:
    """The signal that has asked this process to end; its number is 0 if there was none."""

    def __init__(self) -> None:
        self.number, self._since = 0, 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Raise :class:`KeyboardInterrupt` in the main thread for each of :data:`SIGNALS`, until this context ends.

        A signal ignored from the start stays ignored: SIGHUP under nohup, SIGINT in a background job of a shell script.
        """
        self.number, before = 0, {}
        if threading.current_thread() is threading.main_thread():
            heard = [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, None)]
            before = {one: signal.signal(one, self._take) for one in heard}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _take(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.number and now - self._since < GRACE:  # give the ending process time to end its children
            return
        self.number, self._since = number, now
        if number != signal.SIGINT:
            _leave_closed_terminals()
        raise KeyboardInterrupt

    @contextmanager
    def until_ctrl_c(self) -> Iterator[None]:
        """Let Ctrl-C end only this context; any other signal ends the command."""
        try:
            yield
        except KeyboardInterrupt:
            if self.number not in (0, signal.SIGINT):
                raise
            self.number = 0


#: The signal of this process.
ASKED = Asked()


def leave(code: Callable[[], int]) -> None:
    """End this process at once if a thread is still at work, as the last that is called at its end.

    The interpreter would end such a thread where it stands. In the middle of C++ or Rust, such as that of torch, this
    aborts the process: "terminate called without an active exception", exit code 134.
    """
    if any(one.daemon for one in threading.enumerate()):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code())


def _leave_closed_terminals() -> None:
    """Discard output to a closed terminal: each print would raise an error on the way out."""
    if os.name != "posix":
        return
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    for stream, state in poll.poll(0):
        if state & (select.POLLHUP | select.POLLERR):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
