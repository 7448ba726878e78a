"""Diagnostics of a node: its state on ``/diagnostics``, once a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from reactree_ros.nodes import steady

#: Seconds between two reports.
PERIOD = 1.0
OK, WARN, ERROR, STALE = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE


@dataclass(frozen=True)
class Report:
    """The state of a node."""

    level: bytes  # ``OK``, ``WARN``, ``ERROR``, or ``STALE`` if it is not active
    message: str  # the state in a few words
    values: Mapping[str, object] = field(default_factory=dict)  # details by name


class Diagnostics:
    """Publishes ``/diagnostics`` (DiagnosticArray, once a second by wall time)."""

    def __init__(self, node: Node, about: str, report: Callable[[], Report]) -> None:
        self._node, self._report = node, report
        self._name = f"{node.get_fully_qualified_name()}: {about}"
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        steady.every(node, PERIOD, self._publish)

    def _publish(self) -> None:
        report = self._report()
        values = [KeyValue(key=key, value=str(value)) for key, value in report.values.items()]
        status = DiagnosticStatus(level=report.level, name=self._name, message=report.message, values=values)
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)
