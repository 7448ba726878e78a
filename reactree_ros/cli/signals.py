"""Signals that ask a command to end: all of them take the way out that Ctrl-C takes."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: What asks for an end: Ctrl-C; ``kill``, containers, systemd and Slurm; a closed terminal, which Windows cannot tell.
SIGNALS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: How long a command may take to end, in seconds. Only after that another signal breaks off what still ends.
GRACE = 10.0


class Asked:
    """Which signal has asked this process to end.

    Attributes:
        number: The signal; 0: none has.
    """

    def __init__(self) -> None:
        self.number, self._since = 0, 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Raise :class:`KeyboardInterrupt` in the main thread for each of :data:`SIGNALS`, until this context ends.

        A signal that was ignored from the start stays so: SIGHUP under nohup, SIGINT of what a shell script starts in
        the background.
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
        if self.number and now - self._since < GRACE:  # what ends now ends its children, and is let do so
            return
        self.number, self._since = number, now
        if number != signal.SIGINT:
            _leave_closed_terminals()
        raise KeyboardInterrupt

    @contextmanager
    def until_ctrl_c(self) -> Iterator[None]:
        """Let Ctrl-C end what is within, and nothing else; any other signal ends the command."""
        try:
            yield
        except KeyboardInterrupt:
            if self.number not in (0, signal.SIGINT):
                raise
            self.number = 0


#: Of this process.
ASKED = Asked()


def _leave_closed_terminals() -> None:
    """Let what is still printed go nowhere if nobody can see it: each print would raise an error on the way out."""
    if os.name != "posix":
        return
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    for stream, state in poll.poll(0):
        if state & (select.POLLHUP | select.POLLERR):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
