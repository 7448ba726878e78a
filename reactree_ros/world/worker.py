"""One thread for everything that is asked of a simulator, which does one thing at a time and may take long."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from reactree_ros.pending import Pending

T = TypeVar("T")


class Worker:
    """Does what it is given in order, in a thread of its own that does not keep the process from ending.

    What was cancelled before its turn is left out; what was cancelled while it runs runs to its end unheard, so
    whatever is given needs a bound of its own.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[tuple[Pending[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], T]) -> Pending[T]:
        """Do something when it is its turn; the pending result settles in the worker's thread."""
        pending: Pending[T] = Pending()
        self._queue.put((pending, work))
        return pending

    def at_rest(self) -> Pending[None]:
        """Settle when all that was given before is done."""
        return self.do(lambda: None)

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """End the thread after what it was given, and after one last thing."""
        self.do(last)
        self._queue.put(None)

    def _run(self) -> None:
        while (given := self._queue.get()) is not None:
            pending, work = given
            if pending.cancelled():
                continue
            try:
                pending.succeed(work())
            except Exception as error:
                pending.fail(error)
