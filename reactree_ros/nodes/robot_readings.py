"""What a robot says of itself in messages of any type: where it is, what it detects, how full its battery is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import Pose as PoseMsg
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rosidl_parser.definition import AbstractNestedType, NamespacedType

from reactree_ros.errors import UserError
from reactree_ros.nodes.goal_templates import (
    check_name,
    compiled,
    constant,
    described,
    is_number,
    is_text,
    is_whole_number,
    message_class,
    reader,
    resolve,
    type_name,
)
from reactree_ros.nodes.offered import topic_unlike
from reactree_ros.robot.config import DETECTION_ARRAY, BatteryTopic, DetectionEntry, PoseTopic
from reactree_ros.robot.map_file import TrackingEntry
from reactree_ros.robot.poses import Pose

#: Reads a pose; with the frame of one that names none. None: it is no pose.
PoseReader = Callable[[Any, str], Pose | None]


def _pose(frame: str, msg: PoseMsg) -> Pose | None:
    at, turn = msg.position, msg.orientation
    values = (at.x, at.y, at.z, turn.x, turn.y, turn.z, turn.w)
    if not frame or not all(map(math.isfinite, values)):
        return None
    length = math.hypot(*values[3:])
    x, y, z, w = (value / length for value in values[3:]) if length > 0.0 else (0.0, 0.0, 0.0, 1.0)
    return Pose(frame, at.x, at.y, at.z, (x, y, z, w))


def _point(frame: str, msg: Any) -> Pose | None:
    finite = all(map(math.isfinite, (msg.x, msg.y, msg.z)))
    return Pose(frame, msg.x, msg.y, msg.z) if frame and finite else None


def _pose_2d(frame: str, msg: Any) -> Pose | None:
    finite = all(map(math.isfinite, (msg.x, msg.y, msg.theta)))
    return Pose.upright(frame, msg.x, msg.y, yaw=msg.theta) if frame and finite else None


_READ: Mapping[str, PoseReader] = {
    "geometry_msgs/msg/Pose": lambda msg, frame: _pose(frame, msg),
    "geometry_msgs/msg/PoseStamped": lambda msg, frame: _pose(msg.header.frame_id or frame, msg.pose),
    "geometry_msgs/msg/PoseWithCovariance": lambda msg, frame: _pose(frame, msg.pose),
    "geometry_msgs/msg/PoseWithCovarianceStamped": lambda msg, frame: _pose(
        msg.header.frame_id or frame, msg.pose.pose
    ),
    "geometry_msgs/msg/Point": lambda msg, frame: _point(frame, msg),
    "geometry_msgs/msg/PointStamped": lambda msg, frame: _point(msg.header.frame_id or frame, msg.point),
    "geometry_msgs/msg/Pose2D": lambda msg, frame: _pose_2d(frame, msg),
}


def _itself(msg: Any) -> Any:
    return msg


def pose_reader(kind: Any, path: str, where: str) -> PoseReader:
    """Return what reads a pose from a field of a message; from the message itself where no field is named.

    Raises:
        UserError: The type has no such field, or that is no pose.
    """
    read: Callable[[Any], Any] = _itself
    name = type_name(kind)
    if path:
        read, slot = reader(kind, path, where)
        name = described(slot)
    if name not in _READ:
        what = f"field '{path}'" if path else "the message"
        raise UserError(f"{where}: {what} is {name}; a pose is one of {', '.join(_READ)}")
    inner = _READ[name]
    return lambda msg, frame: inner(read(msg), frame)


def frame_of(msg: Any) -> str:
    """Return the frame of a message's header; empty where it has none."""
    return str(msg.header.frame_id) if hasattr(msg, "header") else ""


@dataclass(frozen=True)
class Found:
    """One thing that was detected.

    Attributes:
        word: What the map calls its class.
        frame: The frame that it was detected in.
        pose: Where; None where the detector says no pose.
        own: The robot's own name for it; empty: it has none.
    """

    word: str
    frame: str
    pose: Pose | None
    own: str = ""


class Detector:
    """Reads what a detector says, whatever type it says it in.

    Args:
        entry: What the configuration says of it.
        where: What errors begin with.

    Attributes:
        kind: The type of the topic, the action or the service.

    Raises:
        UserError: A name or a type is wrong, or a field does not fit.
    """

    def __init__(self, entry: DetectionEntry, where: str) -> None:
        self.entry = entry
        check_name(entry.source, where)
        what = "message" if entry.topic else "action" if entry.action else "service"
        self.kind = resolve(what, entry.type, where)
        goal, said = None, self.kind
        if not entry.topic:
            goal, said = (self.kind.Goal, self.kind.Result) if entry.action else (self.kind.Request, self.kind.Response)
        self._request = None if goal is None else compiled(goal, entry.goal, f"{where}: goal")
        self._success = []
        for path, value in entry.success.items():
            read, slot = reader(said, path, f"{where}: success")
            self._success.append((read, constant(slot, value, f"{where}: success: field '{path}'")))
        self._read = _of_array if entry.type == DETECTION_ARRAY else self._reading(said, where)

    def request(self) -> Any:
        """Return what it is asked with."""
        return None if self._request is None else self._request({})

    def could_look(self, answer: Any) -> bool:
        """Whether an answer says that it could look."""
        return all(read(answer) == wanted for read, wanted in self._success)

    def classes(self, msg: Any) -> list[str]:
        """Return the classes of what a message or an answer says to be there, also those of no interest."""
        return [kind for kind, *_ in self._read(msg, "")]

    def found(self, msg: Any, tracking: TrackingEntry, *, frame: str) -> list[Found]:
        """Return what a message or an answer says to be there, of what is of interest.

        Args:
            msg: The message.
            tracking: Which classes are, and how certain they have to be.
            frame: The map's.
        """
        seen = []
        for kind, score, own, at, pose in self._read(msg, self.entry.frame or frame_of(msg) or frame):
            word = tracking.classes.get(kind)
            if word is not None and score >= tracking.min_score:
                seen.append(Found(word, at, pose, own))
        return seen

    def _reading(self, said: Any, where: str) -> Callable[[Any, str], Any]:
        entry = self.entry
        objects, slot = reader(said, entry.objects, f"{where}: objects")
        value = slot.value_type if isinstance(slot, AbstractNestedType) else None
        if not isinstance(value, NamespacedType):
            raise UserError(f"{where}: objects: field '{entry.objects}' is no list of messages")
        one = message_class(value, where)
        kind = _field(one, entry.class_, lambda slot: is_text(slot) or is_whole_number(slot), f"{where}: class")
        own = _field(one, entry.own, is_text, f"{where}: own") if entry.own else lambda each: ""
        score = _field(one, entry.score, is_number, f"{where}: score") if entry.score else lambda each: 1.0
        pose = pose_reader(one, entry.pose, f"{where}: pose")

        def read(msg: Any, frame: str) -> Any:
            for each in objects(msg):
                at = frame_of(each) or frame
                yield str(kind(each)), float(score(each)), str(own(each)), at, pose(each, at)

        return read


def _field(kind: Any, path: str, fits: Callable[[Any], bool], where: str) -> Callable[[Any], Any]:
    read, slot = reader(kind, path, where)
    if not fits(slot):
        raise UserError(f"{where}: field '{path}' is {described(slot)}")
    return read


def _of_array(msg: Any, frame: str) -> Any:
    """Yield what a ``vision_msgs/msg/Detection3DArray`` says: of each detection what it most likely is."""
    for detection in msg.detections:
        best = max(detection.results, key=lambda result: result.hypothesis.score, default=None)
        if best is None:
            continue
        at = best.pose.pose.position
        only_box = not (at.x or at.y or at.z)  # many detectors leave the hypothesis's pose empty
        where = msg.header.frame_id or detection.header.frame_id
        pose = _pose(where, detection.bbox.center if only_box else best.pose.pose)
        yield best.hypothesis.class_id, best.hypothesis.score, "", where, pose


def _unlike(node: Node, entry: BatteryTopic | PoseTopic) -> str:
    return topic_unlike(node, entry.topic, entry.type, qos_profile_sensor_data)


class Battery:
    """Says whether there is enough left to go on.

    Args:
        node: Whose subscription is used.
        entry: What the configuration says; None: nobody says how full it is.
        where: What errors begin with.

    Raises:
        UserError: A name, a type or a field is wrong.
    """

    def __init__(self, node: Node, entry: BatteryTopic | None, *, where: str) -> None:
        self._node, self._entry, self._level = node, entry, math.nan
        self._subscription = None
        if entry is not None:
            check_name(entry.topic, where)
            self._kind = resolve("message", entry.type, where)
            self._field = _field(self._kind, entry.field, is_number, where)

    def listen(self) -> None:
        """Begin to hear the topic."""
        if self._entry is not None:
            self._subscription = self._node.create_subscription(
                self._kind, self._entry.topic, self._hear, qos_profile_sensor_data
            )

    def _hear(self, msg: Any) -> None:
        self._level = float(self._field(msg))

    def too_low(self) -> str:
        """Say why nothing may be begun or go on; empty where it may, also where the level is not known."""
        if self._entry is None or not self._level <= self._entry.least:
            return ""
        return f"the battery is at {self._level:.3g}, and {self._entry.least:g} is too little to go on"

    def unlike(self) -> str:
        """Say that its topic is published, and not as the configuration says; empty where that is not so."""
        return "" if self._entry is None else _unlike(self._node, self._entry)

    def in_words(self) -> str:
        """Say how full it is, for people."""
        if self._entry is None:
            return "nobody says"
        unheard = self.unlike() or f"not heard on {self._entry.topic} yet"
        return unheard if math.isnan(self._level) else f"{self._level:.3g}"

    def close(self) -> None:
        """Take the subscription out of the node."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)


class Whereabouts:
    """Hears from a topic where the robot is.

    Args:
        node: Whose subscription is used.
        entry: What the configuration says.
        where: What errors begin with.

    Raises:
        UserError: A name, a type or a field is wrong.
    """

    def __init__(self, node: Node, entry: PoseTopic, *, where: str) -> None:
        check_name(entry.topic, where)
        self._node, self._entry, self._latest = node, entry, None
        kind = resolve("message", entry.type, where)
        self._read = pose_reader(kind, entry.field, where)
        self._subscription = node.create_subscription(kind, entry.topic, self._hear, qos_profile_sensor_data)

    def _hear(self, msg: Any) -> None:
        self._latest = msg

    def unlike(self) -> str:
        """Say that its topic is published, and not as the configuration says; empty where that is not so."""
        return _unlike(self._node, self._entry)

    def pose(self, frame: str) -> Pose | None:
        """Return where it is; None where that was not heard.

        Args:
            frame: Frame of a pose that names none: the map's.
        """
        if self._latest is None:
            return None
        return self._read(self._latest, self._entry.frame or frame_of(self._latest) or frame)

    def close(self) -> None:
        """Take the subscription out of the node."""
        self._node.destroy_subscription(self._subscription)
