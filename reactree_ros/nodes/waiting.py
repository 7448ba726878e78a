"""Lets a coroutine of an rclpy executor await a pending result that is settled in any thread."""

from __future__ import annotations

from typing import TypeVar

from rclpy.node import Node
from rclpy.task import Future

from reactree_ros.pending import Pending

T = TypeVar("T")


class Waker:
    """Wakes a node's executor, from any thread, so that it goes on with its coroutines.

    Args:
        node: Whose executor is woken.
    """

    def __init__(self, node: Node) -> None:
        self._guard = node.create_guard_condition(lambda: None)

    def wake(self) -> None:
        """Wake the executor."""
        self._guard.trigger()

    async def settled(self, pending: Pending[T]) -> Pending[T]:
        """Wait until a pending result is settled or cancelled, without holding up any other callback."""
        if not pending.done():
            future = Future()

            def done(_: object) -> None:
                future.set_result(None)
                self._guard.trigger()

            pending.add_done_callback(done)
            await future
        return pending
