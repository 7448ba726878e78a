"""What a robot is told without asking: where it is, what is detected, its map."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from geometry_msgs.msg import Pose as PoseMsg
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rclpy.time import Time
from std_msgs.msg import String
from tf2_ros import Buffer, TransformException, TransformListener
from vision_msgs.msg import Detection3D, Detection3DArray

from reactree_ros.errors import UserError
from reactree_ros.nodes.goal_templates import check_name
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.world.robot.config import RobotConfig
from reactree_ros.world.robot.map_file import MapDocument, map_of, parse_yaml
from reactree_ros.world.robot.poses import Pose
from reactree_ros.world.robot.semantic_map import Detection, SemanticMap

#: How long the transform of a detection may be late, in seconds.
LATE = 1.0
#: A warning that would be given again and again is given so often, in seconds.
WARNING_PERIOD = 10.0


class Senses:
    """Keeps a semantic map up to date.

    Args:
        node: Whose subscriptions are used.
        config: The robot.
        document: Its map; None where that comes from a topic.
        where: What errors begin with.

    Raises:
        UserError: The name of a topic is not one that ROS allows.
    """

    def __init__(self, node: Node, config: RobotConfig, document: MapDocument | None, *, where: str) -> None:
        self._node, self._config = node, config
        for topic in filter(None, (config.map_topic, config.detections)):
            check_name(topic, where)
        self.map: SemanticMap | None = None
        self.detected = float("-inf")  # stamp of the newest detections that were taken in
        self._waiting: deque[tuple[float, Any]] = deque(maxlen=20)
        self._buffer = Buffer()
        self._listener = TransformListener(self._buffer, node)
        self._subscriptions: list[Any] = []
        if document is not None:
            self._take_map(document)
        else:
            self._listen(String, config.map_topic, self._read_map, LATCHED)
        if config.detections:
            self._listen(Detection3DArray, config.detections, self._note, qos_profile_sensor_data)

    def _listen(self, kind: Any, topic: str, callback: Any, qos: QoSProfile) -> None:
        self._subscriptions.append(self._node.create_subscription(kind, topic, callback, qos))

    def now(self) -> float:
        """Return the time on the node's clock, in seconds."""
        return float(self._node.get_clock().now().nanoseconds) / 1e9

    def _warn(self, text: str) -> None:
        self._node.get_logger().warning(text, throttle_duration_sec=WARNING_PERIOD)

    # ------------------------------------------------------------------ the map

    def _read_map(self, msg: String) -> None:
        where = f"the map on {self._config.map_topic}"
        try:
            self._take_map(map_of(parse_yaml(msg.data, where=where), where=where))
        except UserError as error:
            kept = "" if self.map is None else "; the map from before is kept"
            self._node.get_logger().error(f"{error}{kept}")

    def _take_map(self, document: MapDocument) -> None:
        frame = document.frame
        self.map = SemanticMap(
            document,
            now=self.now(),
            hands=self._config.hands,
            in_map=lambda pose: self.in_frame(frame, pose),
            before=self.map,
        )

    # ------------------------------------------------------------------ frames

    def in_frame(self, frame: str, pose: Pose, stamp: Time | None = None) -> Pose | None:
        """Return a pose in another frame; None where there is no transform. Without a stamp by the latest one."""
        if pose.frame == frame:
            return pose
        try:
            found = self._buffer.lookup_transform(frame, pose.frame, stamp or Time()).transform
        except TransformException:
            return None
        by = Pose(
            frame,
            found.translation.x,
            found.translation.y,
            found.translation.z,
            (found.rotation.x, found.rotation.y, found.rotation.z, found.rotation.w),
        )
        return by.placed(pose)

    # ------------------------------------------------------------------ detections

    def _note(self, msg: Detection3DArray) -> None:
        self._waiting.append((self.now(), msg))

    def look(self, *, forget: bool) -> None:
        """Take in where the robot is and what was detected; to be called regularly.

        Args:
            forget: Whether what has not been detected for too long may be forgotten now.
        """
        if self.map is None:
            return
        robot = self.in_frame(self.map.frame, Pose(self._config.base_frame, 0.0, 0.0))
        if robot is not None:
            self.map.robot_is_at(robot)
        still_waiting = [(since, msg) for since, msg in self._waiting if not self._taken(self.map, since, msg)]
        self._waiting.clear()
        self._waiting.extend(still_waiting)
        if forget:
            self.map.forget(self.now())

    def _taken(self, map: SemanticMap, since: float, msg: Detection3DArray) -> bool:
        """Take detections in; returns False where their transform may come yet."""
        stamp = Time.from_msg(msg.header.stamp)
        seconds = stamp.nanoseconds / 1e9 or since
        detections = []
        for one in msg.detections:
            frame = msg.header.frame_id or one.header.frame_id
            found = _best(one, map.document)
            if found is None:
                continue
            word, pose_msg = found
            pose = _pose(frame, pose_msg)
            in_map = None if pose is None else self.in_frame(map.frame, pose, stamp)
            if in_map is not None:
                detections.append(Detection(word, in_map))
            elif pose is None:
                self._warn(f"{self._config.detections}: the pose of '{word}' is no pose; it is ignored")
            elif self.now() - since <= LATE:
                return False
            else:
                self._warn(
                    f"{self._config.detections}: there is no transform from '{frame}' to '{map.frame}' at the time of "
                    "the detections; they are ignored"
                )
                return True
        map.take_in(detections, seconds)
        self.detected = max(self.detected, seconds)
        return True

    def close(self) -> None:
        """Take the subscriptions out of the node."""
        self._listener.unregister()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)


def _best(detection: Detection3D, document: MapDocument) -> tuple[str, PoseMsg] | None:
    """Return word and pose of what a detection most likely is; None where that is uncertain or of no interest."""
    tracking = document.objects
    best = max(detection.results, key=lambda result: result.hypothesis.score, default=None)
    if best is None or not best.hypothesis.score >= tracking.min_score:
        return None
    word = tracking.classes.get(best.hypothesis.class_id)
    if word is None:
        return None
    at = best.pose.pose.position
    only_box = not (at.x or at.y or at.z)  # many detectors leave the hypothesis's pose empty
    return word, detection.bbox.center if only_box else best.pose.pose


def _pose(frame: str, msg: PoseMsg) -> Pose | None:
    at, turn = msg.position, msg.orientation
    values = (at.x, at.y, at.z, turn.x, turn.y, turn.z, turn.w)
    if not frame or not all(map(math.isfinite, values)):
        return None
    length = math.hypot(*values[3:])
    x, y, z, w = (value / length for value in values[3:]) if length > 0.0 else (0.0, 0.0, 0.0, 1.0)
    return Pose(frame, at.x, at.y, at.z, (x, y, z, w))
