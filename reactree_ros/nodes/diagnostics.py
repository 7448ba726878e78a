"""Diagnostics of a node: its state on ``/diagnostics``, once a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from reactree_ros.nodes import steady

#: Seconds between two reports.
PERIOD = 1.0
OK, WARN, ERROR, STALE = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE


class Report(NamedTuple):
    """The state of a node."""

    level: bytes  # ``OK``, ``WARN``, ``ERROR``, or ``STALE`` if it is not active
    message: str  # the state in a few words
    values: Mapping[str, object] = {}  # details by name


class Diagnostics:
    """Publishes ``/diagnostics`` (DiagnosticArray, once a second by wall time), named after node and subject."""

    def __init__(self, node: Node, about: str, report: Callable[[], Report]) -> None:
        self._clock, self._report = node.get_clock(), report
        self._name = f"{node.get_fully_qualified_name()}: {about}"
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        steady.every(node, PERIOD, self._publish)

    def _publish(self) -> None:
        level, message, values = self._report()
        pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        array = DiagnosticArray(status=[DiagnosticStatus(level=level, name=self._name, message=message, values=pairs)])
        array.header.stamp = self._clock.now().to_msg()
        self._publisher.publish(array)
