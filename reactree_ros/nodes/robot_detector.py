"""The client of a detector that looks only on request: one goal or request at a time, bounded, never waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node

from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot_goals import ActionOf, Server, ServiceOf, Underway
from reactree_ros.nodes.robot_topics import DetectionReader, Names

#: Most looks that may be under way because the detector does not end them.
MOST = 3
#: Time between two equal warnings, in seconds.
WARNING_PERIOD = 10.0


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
