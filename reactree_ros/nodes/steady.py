"""Wall time for bounds: it goes on when a node's clock stands still (``use_sim_time`` without ``/clock``)."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def now() -> float:
    """Return seconds since some moment in the past."""
    return time.monotonic()


def every(node: Node, seconds: float, call: Callable[[], object]) -> Timer:
    """Call a function every so many seconds by wall time, until the timer or its node is destroyed."""

    def due() -> None:
        if timer in node.timers:  # a destroyed one may be due once more
            call()

    timer = node.create_timer(seconds, due, clock=Clock(clock_type=ClockType.STEADY_TIME))
    return timer
