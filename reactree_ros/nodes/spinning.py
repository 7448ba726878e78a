"""Runs a node to its end: SIGINT and SIGTERM stop what is in flight first, then the node, without a traceback."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from reactree_ros.errors import UserError

#: How often a node looks whether it is to stop, in seconds.
HEARTBEAT = 0.1
#: Longest time for what is in flight to be stopped at the end, in seconds.
LAST_WORDS = 2.0


class Stoppable(Protocol):
    """A node that can be asked to stop what it has in flight."""

    def begin_stop(self) -> None:
        """Cancel what is in flight; called once, while the node still spins."""

    def stopped(self) -> bool:
        """Whether nothing is in flight any more."""


def run_node(make: Callable[[], Any], args: Sequence[str] | None = None) -> None:
    """Make a node, spin it until SIGINT or SIGTERM, stop it.

    Callbacks never wait, so that one thread serves all of them: a cancel is served while a skill runs.

    Args:
        make: Makes the node, a :class:`Stoppable`.
        args: Command line arguments with ROS arguments; by default the process's.
    """
    with interruptible(args) as asked:
        _spin(make, asked)


@contextmanager
def interruptible(args: Sequence[str] | None = None) -> Iterator[list[int]]:
    """Initialise ROS with SIGINT and SIGTERM noted in a list instead of shutting ROS down at once.

    Args:
        args: Command line arguments with ROS arguments; by default the process's.
    """
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: asked.append(number))
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RCLError as error:  # e.g. a parameter file that is no YAML
        _refuse(error)
    try:
        yield asked
    finally:
        rclpy.try_shutdown()


def _spin(make: Callable[[], Any], asked: list[int]) -> None:
    try:
        node = make()
    except (UserError, ParameterException) as error:
        _refuse(error)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    node.create_timer(HEARTBEAT, lambda: None)
    gc.freeze()  # what is there from the start is not looked through again: ticks come on time
    try:
        while not asked and rclpy.ok():
            executor.spin_once()
        node.begin_stop()
        clock, begin = node.get_clock(), node.get_clock().now()
        while rclpy.ok() and not node.stopped() and (clock.now() - begin).nanoseconds < LAST_WORDS * 1e9:
            executor.spin_once()
        begin = clock.now()
        while rclpy.ok() and (clock.now() - begin).nanoseconds < HEARTBEAT * 1e9:
            executor.spin_once(timeout_sec=HEARTBEAT)  # so that the last results and answers leave
    except ExternalShutdownException:
        pass
    finally:
        executor.shutdown(timeout_sec=LAST_WORDS)
        node.destroy_node()


def _refuse(error: Exception) -> NoReturn:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


class Spinner:
    """Spins a node of a tool that does one thing after the other; takes the node with it at the end.

    Args:
        node: The node.
        asked: What :func:`interruptible` gave.
    """

    def __init__(self, node: Node, asked: list[int]) -> None:
        self._node, self._asked = node, asked
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)

    def __enter__(self) -> Spinner:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(timeout_sec=LAST_WORDS)
        self._node.destroy_node()

    def spin_until(self, done: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Spin until something is so; returns False where time runs out, or the process is asked to stop, before."""
        clock = self._node.get_clock()
        begin = clock.now()
        while not done():
            late = seconds is not None and (clock.now() - begin).nanoseconds > seconds * 1e9
            if self._asked or late:
                return False
            self._executor.spin_once(timeout_sec=HEARTBEAT)
        return True
