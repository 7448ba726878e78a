"""The executor of every node of this package.

rclpy's EventsExecutor queues events, and other executors build a wait set for each: a call takes a third of the time.
It supports no guard conditions, so this package uses none (:class:`reactree_ros.nodes.waiting.Wake`). Without a usable
EventsExecutor, nodes are spun by the SingleThreadedExecutor.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rclpy.context import Context
from rclpy.event_handler import EventHandler
from rclpy.executors import SingleThreadedExecutor

#: Part of each second in which the events of topics are looked for.
EVENTS = 0.2
#: First release whose EventsExecutor serves coroutine callbacks of services, by major version of rclpy.
_SINCE = {7: (7, 1, 11), 8: (9, 1, 2), 9: (9, 1, 2)}


def make_executor(context: Context | None = None) -> Any:
    if lacking():
        return _Sparing(context=context)
    from rclpy.experimental.events_executor import EventsExecutor

    executor = EventsExecutor(context=context)
    executor.add_node(_Nobody())
    return executor


class _Sparing(SingleThreadedExecutor):
    """Waits for the events of topics in a fifth of each second only, because every wait for one costs time.

    Such an event says, for instance, that the quality of service of two nodes does not fit.
    """

    def can_execute(self, entity: Any) -> bool:
        if isinstance(entity, EventHandler) and time.monotonic() % 1.0 > EVENTS:
            return False
        return bool(super().can_execute(entity))


class _Nobody:
    """An empty second node for the executor.

    If a task raises while exactly one node is spun, rclpy's EventsExecutor (7.1.11, 9.1.5) indexes a set and the
    process ends at once: nothing that moves would be stopped.
    """

    subscriptions = timers = clients = services = waitables = guards = ()
    executor: Any = None


class WithInfo:
    """A subscription's callback with message and info, for every executor: the EventsExecutor passes one tuple."""

    __signature__ = inspect.signature(lambda msg, info: None)  # tells rclpy that the callback wants the info

    def __init__(self, call: Callable[[Any, Any], None]) -> None:
        self._call = call

    def __call__(self, *heard: Any) -> None:
        self._call(*(heard[0] if len(heard) == 1 else heard))


def lacking() -> str:
    """Say why the EventsExecutor of this rclpy cannot be used; empty if it can."""
    try:
        from rclpy.experimental import events_executor  # noqa: F401
    except ImportError:
        return "this rclpy has no EventsExecutor"
    try:
        known = version("rclpy")
    except PackageNotFoundError:
        return "this rclpy does not say its version"
    numbers = tuple(int(number) for number in re.findall(r"\d+", known)[:3])
    needed = _SINCE.get(numbers[0], (7, 1, 11))
    if numbers < needed:
        return f"the EventsExecutor of rclpy {known} serves no coroutines; {'.'.join(map(str, needed))} does"
    return ""
