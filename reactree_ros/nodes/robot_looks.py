"""Detectors that look only when they are asked: one goal or request at a time, bounded, and never waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node

from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot_goals import ActionOf, Server, ServiceOf, Underway
from reactree_ros.nodes.robot_readings import Detector

#: So many looks may be under way that the detector does not end.
MOST = 3
#: A warning that would be given again and again is given so often, in seconds.
WARNING_PERIOD = 10.0


class Looks:
    """Asks a detector for what is before the robot.

    Looking moves nothing: no skill waits for a look that does not end, and the next look takes its place.

    Args:
        node: Whose client is used.
        calls: Looks after what is waited for.
        detector: What is asked; it has an action or a service.
        heartbeat: Tells what is under way to whoever is to cancel it where this process cannot.
        heard: Called with what an answer says.
        ended: Called when a look has come to its end, whatever came of it.
    """

    def __init__(
        self,
        node: Node,
        calls: Calls,
        detector: Detector,
        heartbeat: Heartbeat,
        *,
        heard: Callable[[Any], None],
        ended: Callable[[], None],
    ) -> None:
        self._node, self._detector, self._heard, self._ended = node, detector, heard, ended
        of = node, calls, detector.entry.source, detector.kind
        self.server: Server = ActionOf(*of, heartbeat) if detector.entry.action else ServiceOf(*of)
        self._looks: list[Underway] = []

    def begin(self) -> None:
        """Look; a look that is under way is given up for it."""
        self.stop()
        if len(self._looks) >= MOST:
            self._warn(f"{self.server.name} is not asked: it has not answered {MOST} times")
            self._ended()
            return
        look = self.server.send("look", self._detector.request())
        self._looks.append(look)
        look.result.add_done_callback(lambda _: self._answered(look))

    def stop(self) -> None:
        """Give up what is under way."""
        for look in self._looks:
            if not look.stopping:
                self.server.stop(look)

    def watch(self) -> None:
        """Look after what is under way; to be called regularly."""
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
        """Take the client out of the node."""
        self.stop()
        self.server.close()
