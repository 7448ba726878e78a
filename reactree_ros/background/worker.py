"""One thread for what does one thing at a time and may take long: a simulator, a sandbox, an embedder."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from reactree_ros.background.pending import Pending

T = TypeVar("T")


class Stopped(Exception):
    """What a worker does was cancelled."""


class Worker:
    """Does what it is given in order, in a thread of its own that does not keep the process from ending.

    What was cancelled before its turn is left out. What is cancelled while it runs is left at the next
    :meth:`check_wanted`; without one it runs to its end unheard, so that it needs a bound of its own.

    Args:
        name: Name of the thread.
        error: What it fails with that is given to it after :meth:`close` or :meth:`give_up`.
    """

    def __init__(self, name: str, error: type[Exception] = RuntimeError) -> None:
        self._error = error
        self.lost = ""  # why nothing is taken any more
        self._name = name
        self._queue: queue.SimpleQueue[tuple[Pending[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._open: set[Pending[Any]] = set()
        self._current: Pending[Any] = Pending()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], T]) -> Pending[T]:
        """Do something when it is its turn; the pending result settles in the worker's thread.

        After :meth:`close` or :meth:`give_up` it fails with the worker's error.
        """
        pending: Pending[T] = Pending()
        with self._lock:
            if self.lost:
                return Pending.failed(self._error(self.lost))
            self._open.add(pending)
            self._queue.put((pending, work))
        pending.add_done_callback(lambda _: self._open.discard(pending))
        return pending

    def check_wanted(self) -> None:
        """Look, in the worker's thread, whether what it does is still wanted.

        Raises:
            Stopped: It was cancelled or given up.
        """
        if self._current.done():
            raise Stopped

    def at_rest(self) -> Pending[None]:
        """Settle when all that was given before is done."""
        return self.do(lambda: None)

    def give_up(self, reason: str) -> None:
        """Let everything that it was and will be given fail, from any thread; the first reason counts."""
        with self._lock:
            self.lost = self.lost or reason
            left = list(self._open)
        for pending in left:
            pending.fail(self._error(self.lost))
        self._queue.put(None)

    def close(self, last: Callable[[], object] = lambda: None) -> Pending[object]:
        """End the thread after what it was given, and after one last thing; returns the latter's result."""
        ended: Pending[object] = Pending()
        with self._lock:
            if self.lost:
                return Pending.failed(self._error(self.lost))
            self.lost = f"{self._name} was closed"
            self._queue.put((ended, last))
            self._queue.put(None)
        return ended

    def _run(self) -> None:
        while (given := self._queue.get()) is not None:
            pending, work = given
            if pending.done():
                continue
            self._current = pending
            try:
                pending.succeed(work())
            except Stopped:
                continue
            except Exception as error:
                pending.fail(error)
