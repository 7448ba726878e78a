"""Runs a node to its end: whatever ends it, goals and calls in flight are stopped first, within a time limit."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from reactree_ros.episode.telemetry import exporting
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.executors import lacking, make_executor
from reactree_ros.nodes.heartbeat import cancel_apart
from reactree_ros.nodes.parameters import refuse_unknown
from reactree_ros.nodes.start import deaf_when_it_ends, on_signals

#: How often a node checks whether it is to stop, in seconds.
HEARTBEAT = 0.1
#: Longest time to stop what is in flight at the end, in seconds; launch sends the next signal after 5 s.
LAST_WORDS = 3.0
#: The same for the watchdog, which outlives the other nodes to cancel what they leave.
LAST_WATCH = 8.0


def run_node(make: Callable[[], Any], args: Sequence[str] | None = None, *, within: float = LAST_WORDS) -> None:
    """Run one node, as :func:`run_nodes` does."""
    run_nodes(lambda: [make()], args, within=within)


def run_nodes(
    make: Callable[[], Sequence[Any]], args: Sequence[str] | None = None, *, within: float = LAST_WORDS
) -> None:
    """Make nodes, spin them until a signal, stop them; ends the process with 1 if something went wrong.

    Callbacks never wait, so one thread serves them all: a cancel is served while a skill runs. A node has a
    ``heartbeat``, which knows its goals under way, and can stop them: ``begin_stop()`` is called once while it still
    spins, then ``stopped()`` until nothing is in flight, ``within`` so many seconds.
    """
    with exporting(Path(sys.argv[0]).stem), interruptible(args) as asked:
        try:
            nodes = make()
            for node in nodes:
                refuse_unknown(node, sys.argv if args is None else args)
                if isinstance(node, LifecycleNode):
                    full = node.get_fully_qualified_name()
                    node.get_logger().info(f"waits to be brought up: ros2 run reactree_ros bring_up {full}")
        except (UserError, ParameterException) as error:
            refuse(error)
        well = _Run(nodes, asked).to_the_end(within)
    if not well:
        sys.exit(1)


@contextmanager
def interruptible(args: Sequence[str] | None = None) -> Iterator[list[int]]:
    """Initialise ROS so that signals are noted in a list, instead of shutting ROS down at once.

    ``args`` is a command line with ROS arguments; None: the process's.
    """
    asked: list[int] = []
    on_signals(lambda number, frame: asked.append(number))
    deaf_when_it_ends()
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # e.g. a parameter file that is not YAML
        refuse(error)
    try:
        yield asked
    finally:
        rclpy.try_shutdown()


class _Run:
    """Nodes that are spun until a signal, an error in a callback, or a shutdown of ROS."""

    def __init__(self, nodes: Sequence[Any], asked: list[int]) -> None:
        self._nodes, self._asked = nodes, asked
        self._executor = make_executor()
        for node in nodes:
            self._executor.add_node(node)
        self._wrong: set[str] = set()

    def to_the_end(self, within: float) -> bool:
        if why := lacking():
            said = f"spun by the SingleThreadedExecutor, by which a decision takes longer: {why}"
            self._nodes[0].get_logger().info(said)
        gc.freeze()  # the garbage collector skips all that exists now: ticks come on time
        self._try(self._spin)
        if not (rclpy.ok() or self._asked):
            self._note("ROS was shut down under the node")
        for node in self._nodes:
            self._try(node.begin_stop)
        self._try(lambda: self._rest(within))
        self._try(self._send_the_last)
        self._try(lambda: self._executor.shutdown(timeout_sec=HEARTBEAT))
        for node in self._nodes:
            self._try(node.destroy_node)
        return not self._wrong

    def _spin(self) -> None:
        while not self._asked and rclpy.ok():
            # Until a future is done, rclpy (7.1.6) would keep a function for each callback.
            self._executor.spin_once(timeout_sec=HEARTBEAT)

    def _stopped(self) -> bool:
        return all(node.stopped() for node in self._nodes)

    def _rest(self, within: float) -> None:
        end = steady.now() + within
        while rclpy.ok() and not self._stopped() and steady.now() < end:
            self._try(lambda: self._executor.spin_once(timeout_sec=HEARTBEAT))
        goals = [goal for node in self._nodes for goal in node.heartbeat.goals]
        rested = self._stopped() if rclpy.ok() else cancel_apart(goals, within=within)
        if not rested:
            self._note(f"what the node had in flight has not ended within {within:g} s")

    def _send_the_last(self) -> None:
        end = steady.now() + HEARTBEAT
        while rclpy.ok() and steady.now() < end:
            self._executor.spin_once(timeout_sec=HEARTBEAT)
        for node in self._nodes if rclpy.ok() else ():
            node.heartbeat.beat()  # without goals

    def _try(self, do: Callable[[], object]) -> None:
        try:
            do()
        except ExternalShutdownException:
            pass
        except BaseException as error:  # also a SystemExit inside a callback
            self._note(repr(error), traceback.format_exc())

    def _note(self, what: str, more: str = "") -> None:
        if what not in self._wrong:  # a timer that raises does so again and again
            self._wrong.add(what)
            with suppress(OSError):  # the launch, which reads it, may have gone
                print(f"error: {more or what}", file=sys.stderr, flush=True)  # noqa: T201


def refuse(error: Exception) -> NoReturn:
    """End the process with an error that its user can mend."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


class Spinner:
    """Spins the node of a tool that does one thing after the other, and destroys it at the end.

    Attributes:
        asked: The signals that came: the list of :func:`interruptible`.
    """

    def __init__(self, node: Node, asked: list[int]) -> None:
        self._node, self.asked = node, asked
        try:
            refuse_unknown(node, sys.argv)
        except UserError as error:
            refuse(error)
        self._executor = SingleThreadedExecutor()  # the EventsExecutor raises at a second answer to a goal
        self._executor.add_node(node)

    def __enter__(self) -> Spinner:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(timeout_sec=LAST_WORDS)
        self._node.destroy_node()

    def spin_until(self, done: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Spin until a condition holds; returns False if time runs out or a signal comes before."""
        begin = steady.now()
        while not done():
            late = seconds is not None and steady.now() - begin > seconds
            if self.asked or late:
                return False
            self._executor.spin_once(timeout_sec=HEARTBEAT)
        return True
