"""The executor of every node of this package.

rclpy's EventsExecutor queues events, and other executors build a wait set for each: a call takes a third of the time.
It supports no guard conditions, so this package uses none (:class:`reactree_ros.nodes.waiting.Wake`). An rclpy whose
EventsExecutor cannot be used has its SingleThreadedExecutor, with half of the wake-ups.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from threading import get_ident
from typing import Any

from rclpy.client import Client
from rclpy.context import Context
from rclpy.event_handler import EventHandler
from rclpy.executors import SingleThreadedExecutor
from rclpy.guard_condition import GuardCondition

from reactree_ros.nodes import steady

#: How often the events of topics are looked for, as that somebody's QoS does not fit, in seconds.
EVENTS = 1.0
#: First release whose EventsExecutor serves coroutine callbacks of services, by major version of rclpy.
_SINCE = {7: (7, 1, 11), 8: (9, 1, 2), 9: (9, 1, 2)}


def make_executor(context: Context | None = None) -> Any:
    """Return rclpy's fastest single-threaded executor that serves all callbacks of this package.

    Args:
        context: The nodes' context; None: the default one.
    """
    if lacking():
        return _Frugal(context=context)
    from rclpy.experimental.events_executor import EventsExecutor

    executor = EventsExecutor(context=context)
    executor.add_node(_Nobody())
    return executor


class _Frugal(SingleThreadedExecutor):
    """rclpy's SingleThreadedExecutor without the wake-ups that it gives itself.

    It triggers its guard condition twice for each callback, and for each task. So its next wait ends at once, and the
    wait set of all entities is made in vain. What a callback leaves to be done is looked for before the next wait. Only
    what a task leaves needs the guard condition, because other tasks may have been looked after by then.

    Attributes:
        in_callback: The thread that runs a callback, or has run one and does not wait yet; 0: there is none.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.in_callback = 0
        self._events_due, self._events_looked_for = 0.0, False
        if type(self._guard) is GuardCondition:
            self._guard.__class__ = _ForOthers
            self._guard.executor = self

    def wait_for_ready_callbacks(self, *given: Any, **more: Any) -> Any:
        """Return the next callback or task to run; called by every way to spin."""
        self.in_callback = 0
        if self._events_looked_for:
            self._events_due, self._events_looked_for = steady.now() + EVENTS, False
        return super().wait_for_ready_callbacks(*given, **more)

    def can_execute(self, entity: Any) -> bool:
        """Whether an entity is to be waited for."""
        if isinstance(entity, Client):
            if not getattr(entity, "_pending_requests", True):
                return False
        elif isinstance(entity, EventHandler):
            if steady.now() < self._events_due:
                return False
            self._events_looked_for = True
        return bool(super().can_execute(entity))

    def _make_handler(self, *given: Any) -> Any:
        self.in_callback = get_ident()  # it is run next
        return super()._make_handler(*given)


class _ForOthers(GuardCondition):
    """A guard condition that no callback triggers for the executor that runs it."""

    executor: _Frugal

    def trigger(self) -> None:
        """Wake the executor if need be."""
        if get_ident() != self.executor.in_callback:
            super().trigger()


class _Nobody:
    """An empty second node for the executor.

    If a task raises while exactly one node is spun, rclpy's EventsExecutor (7.1.11, 9.1.5) indexes a set and the
    process ends at once: nothing that moves would be stopped.
    """

    subscriptions = timers = clients = services = waitables = guards = ()
    executor: Any = None


class WithInfo:
    """A subscription's callback with message and info, for every executor: the EventsExecutor passes one tuple.

    Args:
        call: The callback.
    """

    __signature__ = inspect.signature(lambda msg, info: None)  # tells rclpy that the callback wants the info

    def __init__(self, call: Callable[[Any, Any], None]) -> None:
        self._call = call

    def __call__(self, *heard: Any) -> None:
        """Receive a message."""
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
