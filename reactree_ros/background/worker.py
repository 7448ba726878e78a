"""One thread for slow work that must run one at a time: a simulator, a sandbox, an embedder."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from reactree_ros.background.pending import Pending

T = TypeVar("T")


class Stopped(Exception):
    """A worker's current work was cancelled."""


class Worker:
    """Does its work in order, in a thread of its own that does not keep the process alive.

    Work cancelled before its turn is skipped. Work cancelled while it runs stops at the next :meth:`check_wanted`;
    without one it runs to its end unheard, so it needs its own time limit.

    Args:
        name: Name of the thread.
        error: Class of the error for work after :meth:`close` or :meth:`give_up`.
    """

    def __init__(self, name: str, error: type[Exception] = RuntimeError) -> None:
        self._error = error
        self.lost = ""  # why no more work is accepted
        self._name = name
        self._queue: queue.SimpleQueue[tuple[Pending[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._open: set[Pending[Any]] = set()
        self._current: Pending[Any] = Pending()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], T]) -> Pending[T]:
        """Do something in its turn; the pending result settles in the worker's thread.

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
        """Check, in the worker's thread, whether the current work is still wanted.

        Raises:
            Stopped: It was cancelled or given up.
        """
        if self._current.done():
            raise Stopped

    def at_rest(self) -> Pending[None]:
        """Settle when all earlier work is done."""
        return self.do(lambda: None)

    def give_up(self, reason: str) -> None:
        """Fail all current and future work, from any thread; the first reason counts."""
        with self._lock:
            self.lost = self.lost or reason
            left = list(self._open)
        for pending in left:
            pending.fail(self._error(self.lost))
        self._queue.put(None)

    def close(self, last: Callable[[], object] = lambda: None) -> Pending[object]:
        """End the thread after its work and one last thing; return the result of the last thing."""
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


def in_a_thread(work: Callable[[], T], name: str) -> Pending[T]:
    """Do something in a thread of its own that does not keep the process alive."""
    pending: Pending[T] = Pending()

    def do() -> None:
        try:
            pending.succeed(work())
        except BaseException as error:
            pending.fail(error)

    threading.Thread(target=do, name=name, daemon=True).start()
    return pending
