"""Wakes a node's executor from any thread, without guard conditions (see `executors`)."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from rclpy.node import Node
from rclpy.task import Future, Task

from reactree_ros.background.pending import Pending

T = TypeVar("T")


class Wake:
    """Has a node's executor call a function soon, once for any number of triggers before.

    Nothing happens while the node is not spun.

    Args:
        call: The function.
    """

    def __init__(self, node: Node, call: Callable[[], object]) -> None:
        self._node, self._call = node, call
        self._due = False

    def trigger(self) -> None:
        """Have the function called soon; from any thread."""
        executor = self._node.executor
        if executor is not None and not self._due:
            self._due = True
            executor.create_task(self._now)

    def close(self) -> None:
        """Have the function called no more."""
        self._call = lambda: None

    def _now(self) -> None:
        self._due = False
        self._call()


class Handover:
    """Has functions called in a node's executor, in order, from any thread."""

    def __init__(self, node: Node) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._wake = Wake(node, self._call_all)

    def put(self, call: Callable[[], object]) -> None:
        """Have a function called soon."""
        self._calls.put(call)
        self._wake.trigger()

    def _call_all(self) -> None:
        while not self._calls.empty():
            self._calls.get()()


class Awaited(Future):
    """A future for one coroutine, which the executor resumes from its own queue.

    rclpy's Future (7.1.9 to 7.1.11) resumes it past that queue: the EventsExecutor then keeps the task forever, and its
    errors are lost.

    Attributes:
        polled: Whether the executor must be woken to check it, as before Jazzy.
    """

    polled = True

    def _set_executor(self, executor: Any) -> None:  # the one of the coroutine
        self._by = executor
        super()._set_executor(executor=None)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        """Call a function when the future is done, or resume the coroutine."""
        task, by = _task_of(callback), self._by
        if task is None or not hasattr(by, "_call_task_in_next_spin"):
            super().add_done_callback(callback)
            return
        self.polled = False
        super().add_done_callback(lambda _: by._call_task_in_next_spin(task))


def _task_of(callback: Callable[[Future], None]) -> Task | None:
    """Return the task that a function of rclpy resumes; None if it resumes none."""
    cells = getattr(callback, "__closure__", None) or ()
    return next((cell.cell_contents for cell in cells if isinstance(cell.cell_contents, Task)), None)


class Waker:
    """Wakes a node's executor, from any thread, so that it resumes its coroutines."""

    def __init__(self, node: Node) -> None:
        self._wake = Wake(node, lambda: None)

    def wake(self) -> None:
        """Wake the executor."""
        self._wake.trigger()

    async def settled(self, pending: Pending[T]) -> Pending[T]:
        """Wait until a pending result is settled or cancelled; other callbacks go on meanwhile."""
        if not pending.done():
            future = Awaited()

            def done(_: object) -> None:
                future.set_result(None)
                if future.polled:
                    self._wake.trigger()

            pending.add_done_callback(done)
            await future
        return pending
