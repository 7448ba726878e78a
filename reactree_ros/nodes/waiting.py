"""Wakes a node's executor from any thread, without guard conditions (see `executors`)."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from rclpy.node import Node
from rclpy.task import Future

from reactree_ros.background.pending import Pending

T = TypeVar("T")


class Wake:
    """Has a node's executor call a function soon, once for any number of triggers before.

    Nothing happens while the node is not spun.
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
        self._calls.put(call)
        self._wake.trigger()

    def close(self) -> None:
        """Call what waits now, and nothing any more."""
        self._call_all()
        self._wake.close()

    def _call_all(self) -> None:
        while not self._calls.empty():
            self._calls.get()()


async def settled(node: Node, pending: Pending[T]) -> Pending[T]:
    """Wait in a coroutine of a node's executor until a pending result is settled or cancelled, in whatever thread."""
    executor = node.executor
    if not pending.done() and executor is not None:
        future = Future(executor=executor)
        pending.add_done_callback(lambda _: executor.create_task(future.set_result, None))
        await future
    return pending
