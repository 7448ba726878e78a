"""The executor that every node of this package is spun by.

rclpy's EventsExecutor hands callbacks over where the others build a wait set for each: a call takes a third of the
time. It takes no guard conditions, which is why nothing here makes any (:class:`reactree_ros.nodes.waiting.Wake`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor

#: From which release on rclpy's EventsExecutor serves callbacks of services that are coroutines, by major version.
_SINCE = {7: (7, 1, 11), 8: (9, 1, 2), 9: (9, 1, 2)}


def make_executor(context: Context | None = None) -> Any:
    """Return an executor that serves all callbacks in one thread: rclpy's fastest that serves every one of ours.

    Args:
        context: Of the nodes; None: the default one.
    """
    if lacking():
        return SingleThreadedExecutor(context=context)
    from rclpy.experimental.events_executor import EventsExecutor

    executor = EventsExecutor(context=context)
    executor.add_node(_Nobody())
    return executor


class _Nobody:
    """Is spun beside the nodes and has nothing to do.

    Where a task raises while exactly one node is spun, rclpy's EventsExecutor (7.1.11, 9.1.5) looks that one up by an
    index in a set, which ends the process on the spot: nothing that moves would be stopped.
    """

    subscriptions = timers = clients = services = waitables = guards = ()
    executor: Any = None


class WithInfo:
    """A subscription's callback with message and info, for every executor: the EventsExecutor gives it one tuple.

    Args:
        call: What is called with both.
    """

    __signature__ = inspect.signature(lambda msg, info: None)  # by which rclpy knows that it wants the info

    def __init__(self, call: Callable[[Any, Any], None]) -> None:
        self._call = call

    def __call__(self, *heard: Any) -> None:
        """Take a message in."""
        self._call(*(heard[0] if len(heard) == 1 else heard))


def lacking() -> str:
    """Say what this rclpy lacks for the EventsExecutor; empty where it is used."""
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
