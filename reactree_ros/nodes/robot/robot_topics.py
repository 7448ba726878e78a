"""A robot's topics, in messages of any type: poses, detections, the battery."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import Pose as PoseMsg
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from rosidl_parser.definition import AbstractNestedType, NamespacedType

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import SubscriptionEventCallbacks

from reactree_ros.errors import UserError
from reactree_ros.nodes.mismatch import one_type, topic_mismatch
from reactree_ros.nodes.robot.goal_templates import (
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
from reactree_ros.robot.config import DETECTION_ARRAY, BatteryTopic, DetectionEntry, PoseTopic
from reactree_ros.robot.map_file import MapDocument
from reactree_ros.robot.poses import Pose

#: Together, subscriptions of these qualities hear every publisher.
OFFERS = (
    QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT),
    QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE),
    QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL),
)
#: Reads a pose from a message, with the frame of a pose that names none. None: it is no pose.
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
    """Return a reader of the pose in a field of a message; without a field, of the message itself.

    Raises:
        UserError: The type has no such field, or the field is no pose.
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
    """Return the frame in a message's header; empty: there is none."""
    return str(msg.header.frame_id) if hasattr(msg, "header") else ""


@dataclass(frozen=True)
class DetectedObject:
    """One object that was detected."""

    word: str  # the map's word for its class
    frame: str  # the frame in which it was detected
    pose: Pose | None  # its pose; None if the detector gives none
    own: str = ""  # the robot's own name for it; empty: it has none
    score: float = 1.0  # how certain it is, 0 to 1


class Names(tuple[str, ...]):
    """Names that a detector is asked for; as a text, with what stands between two of them."""

    between = ", "

    def __str__(self) -> str:
        return self.between.join(self)


#: What the templates of a detector may name.
NAMED: Mapping[str, type] = {"names": list}


class DetectionReader:
    """Reads detections from messages or answers of any type.

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
        self._request = None if goal is None else compiled(goal, entry.goal, f"{where}: goal", NAMED)
        self._success = []
        for path, value in entry.success.items():
            read, slot = reader(said, path, f"{where}: success")
            self._success.append((read, constant(slot, value, f"{where}: success: field '{path}'")))
        self._read = _of_array if entry.type == DETECTION_ARRAY else self._reading(said, where)

    def request(self, names: Names) -> Any:
        """Return the goal or request that asks for detections, of what has these names if the detector takes any."""
        return None if self._request is None else self._request({"names": names})

    def could_look(self, answer: Any) -> bool:
        """Whether an answer says that the detector could look."""
        return all(read(answer) == wanted for read, wanted in self._success)

    def classes(self, msg: Any) -> list[str]:
        """Return the classes of all detections, also of those without a word on the map."""
        return [kind for kind, *_ in self._read(msg, "")]

    def found(self, msg: Any, document: MapDocument) -> list[DetectedObject]:
        """Return the detections whose class has a word on the map, or may have one, and of persons."""
        seen, tracking = [], document.objects
        for kind, score, own, at, pose in self._read(msg, self.entry.frame or frame_of(msg) or document.frame):
            person = document.person(own, kind) if score >= tracking.min_score else ""
            if word := person or tracking.word_of(kind, score):
                seen.append(DetectedObject(word, at, pose, "" if person else own, min(1.0, max(0.0, score))))
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
    for detection in msg.detections:
        best = max(detection.results, key=lambda result: result.hypothesis.score, default=None)
        if best is None:
            continue
        at = best.pose.pose.position
        only_box = not (at.x or at.y or at.z)  # many detectors leave the hypothesis's pose empty
        where = msg.header.frame_id or detection.header.frame_id
        pose = _pose(where, detection.bbox.center if only_box else best.pose.pose)
        yield best.hypothesis.class_id, best.hypothesis.score, "", where, pose


def hear_all(node: Node, kind: Any, topic: str, hear: Callable[..., None]) -> list[Any]:
    """Call a function with each message of a topic, whatever the quality of its publishers; a message can come twice.

    A message that was latched comes, too. Returns the subscriptions.
    """
    quiet = SubscriptionEventCallbacks(use_default_callbacks=False)  # another one hears what this one cannot
    with one_type(node, topic, type_name(kind)):
        return [node.create_subscription(kind, topic, hear, offer, event_callbacks=quiet) for offer in OFFERS]


class ConfiguredTopic:
    """A topic that the configuration names, of whatever type; nothing is heard before :meth:`subscribe`.

    Raises:
        UserError: The topic's name or its type is wrong.
    """

    #: How it is heard; None: in every way.
    hearing: QoSProfile | None = qos_profile_sensor_data

    def __init__(self, node: Node, entry: Any, where: str) -> None:
        self._node, self._entry, self._kind = node, entry, None
        self._subscriptions: list[Any] = []
        if entry is not None:
            check_name(entry.topic, where)
            self._kind = resolve("message", entry.type, where)

    def subscribe(self, hear: Callable[..., None], qos: QoSProfile) -> None:
        """Call a function with each message."""
        with one_type(self._node, self._entry.topic, self._entry.type):
            self._subscriptions.append(self._node.create_subscription(self._kind, self._entry.topic, hear, qos))

    def mismatch(self) -> str:
        """Say that the topic is published otherwise than the configuration says; empty if that is not so."""
        if self._entry is None:
            return ""
        return topic_mismatch(self._node, self._entry.topic, self._entry.type, self.hearing)

    def close(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)


class Battery(ConfiguredTopic):
    """Says whether the battery has enough left to go on; without an entry nobody knows.

    Attributes:
        level: How full it is, in the field's unit; not a number: not heard yet.
        charges: Whether what is under way is to charge it, which goes on at any level.
    """

    def __init__(self, node: Node, entry: BatteryTopic | None, *, where: str) -> None:
        super().__init__(node, entry, where)
        self.level, self.charges = math.nan, False
        if entry is not None:
            self._field = _field(self._kind, entry.field, is_number, where)

    def listen(self) -> None:
        if self._entry is not None:
            self.subscribe(self._hear, qos_profile_sensor_data)

    def _hear(self, msg: Any) -> None:
        self.level = float(self._field(msg))

    def too_low(self) -> str:
        """Say why nothing may begin or go on; empty if it may, or if the level is unknown."""
        if self._entry is None or self.charges or not self.level <= self._entry.least:
            return ""
        return f"the battery is at {self.level:.3g}, and {self._entry.least:g} is too little to go on"

    def in_words(self) -> str:
        if self._entry is None:
            return "nobody says"
        unheard = self.mismatch() or f"not heard on {self._entry.topic} yet"
        return unheard if math.isnan(self.level) else f"{self.level:.3g}"


class RobotPose(ConfiguredTopic):
    """Hears the robot's pose on a topic.

    Attributes:
        heard_at: When it was heard last, in seconds by the node's clock.

    Raises:
        UserError: A name, a type or a field is wrong.
    """

    def __init__(self, node: Node, entry: PoseTopic, *, where: str) -> None:
        super().__init__(node, entry, where)
        self._latest: Any = None
        self._clock, self.heard_at = node.get_clock(), float("-inf")
        self._read = pose_reader(self._kind, entry.field, where)
        self.subscribe(self._hear, qos_profile_sensor_data)

    def _hear(self, msg: Any) -> None:
        self._latest, self.heard_at = msg, self._clock.now().nanoseconds / 1e9

    def pose(self, frame: str) -> Pose | None:
        """Return the robot's pose; None before the first message.

        Args:
            frame: Frame of a pose that names none: the map's.
        """
        if self._latest is None:
            return None
        return self._read(self._latest, self._entry.frame or frame_of(self._latest) or frame)
