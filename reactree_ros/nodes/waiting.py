"""Lets an executor go on with what is waited for, woken from any thread; without guard conditions (see `executors`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rclpy.node import Node
from rclpy.task import Future

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
            future = Future()

            def done(_: object) -> None:
                future.set_result(None)
                self._wake.trigger()  # before Jazzy a future wakes nobody

            pending.add_done_callback(done)
            await future
        return pending
