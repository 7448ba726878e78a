"""Tells a detector that takes names what to look for: the words of the map, and what the goal names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.goal_templates import check_name, compiled, resolve
from reactree_ros.nodes.mismatch import one_type
from reactree_ros.nodes.robot_detector import WARNING_PERIOD
from reactree_ros.nodes.robot_goals import ServiceOf
from reactree_ros.nodes.robot_topics import NAMED, Names
from reactree_ros.robot.config import PromptEntry

#: Who comes later hears the last one, too.
_LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Prompts:
    """Tells a detector what to look for, on a topic, by a service, or with each look; only what has changed.

    Args:
        entry: How.
        looks: Takes the names for the looks that are asked for next.

    Raises:
        UserError: A name or type is wrong, or a field does not fit.
    """

    def __init__(
        self, node: Node, calls: Calls, entry: PromptEntry, looks: Callable[[Names], None], *, where: str
    ) -> None:
        self._node, self._entry, self._looks = node, entry, looks
        self._told: Names | None = None
        self._publisher: Any = None
        self._server: ServiceOf | None = None
        self._fill: Callable[[dict[str, Any]], Any] | None = None
        if name := entry.topic or entry.service:
            check_name(name, where)
            kind = resolve("message" if entry.topic else "service", entry.type, where)
            self._fill = compiled(kind if entry.topic else kind.Request, entry.goal, f"{where}: goal", NAMED)
            if entry.topic:
                with one_type(node, name, entry.type):
                    self._publisher = node.create_publisher(kind, name, _LATEST)
            else:
                self._server = ServiceOf(node, calls, name, kind)

    def tell(self, names: Names) -> None:
        """Tell what to look for, unless that was told last."""
        names.between = self._entry.between
        self._looks(names)
        if self._fill is None or names == self._told:
            return
        self._told, message = names, self._fill({"names": names})
        if self._publisher is not None:
            self._publisher.publish(message)
        elif self._server is not None:
            self._server.send("prompts", message).result.add_done_callback(self._look_for_trouble)

    def _look_for_trouble(self, done: Any) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._told = None
            text = f"the detector was not told what to look for: {error}"
            self._node.get_logger().warning(text, throttle_duration_sec=WARNING_PERIOD)

    def lacks(self) -> str:
        """Say that its service is not there; empty if it is, or there is none."""
        return "" if self._server is None else self._server.lacks(self._entry.type, "of the detector's prompts")

    def close(self) -> None:
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
        if self._server is not None:
            self._server.close()
