"""A robot's detector: asked to look, one goal or request at a time, never waited for; and told what to look for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.mismatch import one_type
from reactree_ros.nodes.robot.goal_templates import check_name, compiled, resolve
from reactree_ros.nodes.robot.robot_goals import ActionOf, Server, ServiceOf, Underway
from reactree_ros.nodes.robot.robot_topics import NAMED, DetectionReader, Names
from reactree_ros.robot.config import PromptEntry

#: Most looks that may be under way because the detector does not end them.
MOST = 3
#: Time between two equal warnings, in seconds.
WARNING_PERIOD = 10.0
#: Who comes later hears the last one, too.
_LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class DetectorClient:
    """Asks a detector for the objects before the robot.

    Looking moves nothing: no skill waits for a look that does not end, and the next look replaces it.

    Args:
        detector: Reads the answers; it has an action or a service.
        heard: Called with an answer that has detections.
        ended: Called when a look has ended, whatever came of it.

    Attributes:
        names: What it is asked for, if it takes names.
    """

    def __init__(
        self,
        node: Node,
        calls: Calls,
        detector: DetectionReader,
        heartbeat: Heartbeat,
        *,
        heard: Callable[[Any], None],
        ended: Callable[[], None],
    ) -> None:
        self._node, self._detector, self._heard, self._ended = node, detector, heard, ended
        of = node, calls, detector.entry.source, detector.kind
        self.names = Names()
        self.server: Server = ActionOf(*of, heartbeat) if detector.entry.action else ServiceOf(*of)
        self._looks: list[Underway] = []

    def begin(self) -> None:
        """Begin a look; one that is under way is given up."""
        self.stop()
        if len(self._looks) >= MOST:
            self._warn(f"{self.server.name} is not asked: it has not answered {MOST} times")
            self._ended()
            return
        look = self.server.send("look", self._detector.request(self.names))
        self._looks.append(look)
        look.result.add_done_callback(lambda _: self._answered(look))

    def stop(self) -> None:
        """Give up all looks."""
        for look in self._looks:
            if not look.stopping:
                self.server.stop(look)

    def watch(self) -> None:
        """Watch the looks; to be called regularly."""
        for look in self._looks:
            self.server.watch(look)
        self._looks = [look for look in self._looks if not look.over]

    def _answered(self, look: Underway) -> None:
        answer = look.result
        if look.stopping or answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            self._warn(f"{look.server}: nothing is detected: {error}")
        else:
            status, result = answer.take()
            if status == GoalStatus.STATUS_SUCCEEDED and self._detector.could_look(result):
                self._heard(result)
        self._ended()

    def _warn(self, text: str) -> None:
        self._node.get_logger().warning(text, throttle_duration_sec=WARNING_PERIOD)

    def close(self) -> None:
        self.stop()
        self.server.close()


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
