"""Lets an executor go on with what is waited for, woken from any thread; without guard conditions (see `executors`)."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from rclpy.node import Node
from rclpy.task import Future, Task

from reactree_ros.pending import Pending

T = TypeVar("T")


class Wake:
    """Lets a node's executor call a function soon, once however often it is asked until then.

    A node that is not spun yet has nothing to be woken for.

    Args:
        node: Whose executor calls it.
        call: What is called.
    """

    def __init__(self, node: Node, call: Callable[[], object]) -> None:
        self._node, self._call = node, call
        self._due = False

    def trigger(self) -> None:
        """Let it be called soon; from any thread."""
        executor = self._node.executor
        if executor is not None and not self._due:
            self._due = True
            executor.create_task(self._now)

    def close(self) -> None:
        """Let it be called no more."""
        self._call = lambda: None

    def _now(self) -> None:
        self._due = False
        self._call()


class Handover:
    """Has functions called in a node's executor, in order, from any thread.

    Args:
        node: Whose executor calls them.
    """

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
    """A future that one coroutine awaits, which the executor goes on with by its own queue.

    rclpy's own (7.1.9 to 7.1.11) goes on with it apart from that: the EventsExecutor then keeps the task for ever, and
    nobody hears what it raises.

    Attributes:
        polled: Whether the executor has to be woken to look at it, as before Jazzy.
    """

    polled = True

    def _set_executor(self, executor: Any) -> None:  # of who awaits it
        self._by = executor
        super()._set_executor(executor=None)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        """Call a function when it is done, or go on with the coroutine that awaits it."""
        task, by = _task_of(callback), self._by
        if task is None or not hasattr(by, "_call_task_in_next_spin"):
            super().add_done_callback(callback)
            return
        self.polled = False
        super().add_done_callback(lambda _: by._call_task_in_next_spin(task))


def _task_of(callback: Callable[[Future], None]) -> Task | None:
    """Return the task that a function of rclpy's goes on with; None where it is another one."""
    cells = getattr(callback, "__closure__", None) or ()
    return next((cell.cell_contents for cell in cells if isinstance(cell.cell_contents, Task)), None)


class Waker:
    """Wakes a node's executor, from any thread, so that it goes on with its coroutines.

    Args:
        node: Whose executor is woken.
    """

    def __init__(self, node: Node) -> None:
        self._wake = Wake(node, lambda: None)

    def wake(self) -> None:
        """Wake the executor."""
        self._wake.trigger()

    async def settled(self, pending: Pending[T]) -> Pending[T]:
        """Wait until a pending result is settled or cancelled, without holding up any other callback."""
        if not pending.done():
            future = Awaited()

            def done(_: object) -> None:
                future.set_result(None)
                if future.polled:
                    self._wake.trigger()

            pending.add_done_callback(done)
            await future
        return pending
