"""A robot's topics, in messages of any type: pose, detections, battery, emergency stop, conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from rosidl_parser.definition import AbstractNestedType, NamespacedType

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # before Iron
    from rclpy.qos_event import SubscriptionEventCallbacks

from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.executors import WithInfo
from reactree_ros.nodes.mismatch import one_type, topic_mismatch
from reactree_ros.nodes.robot import goal_templates as templates
from reactree_ros.robot import config as entries
from reactree_ros.robot.map_file import MapDocument
from reactree_ros.robot.map_world import conditions_text
from reactree_ros.robot.poses import Pose

#: Together, subscriptions of these qualities hear every publisher.
OFFERS = (
    QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT),
    QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE),
    QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL),
)
#: Types that a pose is read from.
_POSES = tuple(
    f"geometry_msgs/msg/{name}"
    for name in (
        *("Pose", "PoseStamped", "PoseWithCovariance", "PoseWithCovarianceStamped"),
        *("Point", "PointStamped", "Pose2D"),
    )
)
#: Reads a pose from a message, with the frame of a pose that names none. None: it is not a pose.
PoseReader = Callable[[Any, str], Pose | None]


# ---- poses and detections -----------------------------------------------------------------------------------------


def frame_of(msg: Any) -> str:
    return str(msg.header.frame_id) if hasattr(msg, "header") else ""


def _pose(msg: Any, frame: str) -> Pose | None:
    frame = frame_of(msg) or frame
    for inner in ("pose", "point"):
        if hasattr(msg, inner):
            return _pose(getattr(msg, inner), frame)
    at, turn = getattr(msg, "position", msg), getattr(msg, "orientation", None)
    x, y, z, yaw = at.x, at.y, getattr(at, "z", 0.0), getattr(msg, "theta", 0.0)
    around = (0.0, 0.0, 0.0, 1.0) if turn is None else (turn.x, turn.y, turn.z, turn.w)
    if not frame or not all(map(math.isfinite, (x, y, z, yaw, *around))):
        return None
    if turn is None:
        return Pose.upright(frame, x, y, z, yaw=yaw)
    length = math.hypot(*around)
    qx, qy, qz, qw = (value / length for value in around) if length > 0.0 else (0.0, 0.0, 0.0, 1.0)
    return Pose(frame, x, y, z, (qx, qy, qz, qw))


def pose_reader(kind: Any, path: str, where: str) -> PoseReader:
    """Return a reader of the pose in a field of a message; without a field, of the message itself."""
    name, what = templates.type_name(kind), "the message"
    read: templates.Read = lambda msg: msg  # noqa: E731
    if path:
        read, slot = templates.reader(kind, path, where)
        name, what = templates.described(slot), f"field '{path}'"
    if name not in _POSES:
        raise UserError(f"{where}: {what} is {name}; a pose is one of {', '.join(_POSES)}")
    return lambda msg, frame: _pose(read(msg), frame)


@dataclass(frozen=True)
class DetectedObject:
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
NAMED: Mapping[str, Any] = {"names": list[str]}


class DetectionReader:
    """Reads detections from messages or answers of any type."""

    def __init__(self, entry: entries.DetectionEntry, where: str) -> None:
        self.entry = entry
        templates.check_name(entry.source, where)
        what = "message" if entry.topic else "action" if entry.action else "service"
        self.kind = templates.resolve(what, entry.type, where)
        goal, answer = None, self.kind
        if not entry.topic:
            parts = ("Goal", "Result") if entry.action else ("Request", "Response")
            goal, answer = (getattr(self.kind, part) for part in parts)
        self._request = None if goal is None else templates.compiled(goal, entry.goal, f"{where}: goal", NAMED)
        self._success = []
        for path, value in entry.success.items():
            read, slot = templates.reader(answer, path, f"{where}: success")
            self._success.append((read, templates.constant(slot, value, f"{where}: success: field '{path}'")))
        self._read = _of_array if entry.type == entries.DETECTION_ARRAY else self._reading(answer, where)

    def request(self, names: Names) -> Any:
        return None if self._request is None else self._request({"names": names})

    def could_look(self, answer: Any) -> bool:
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

    def _reading(self, answer: Any, where: str) -> Callable[[Any, str], Any]:
        entry = self.entry
        objects, slot = templates.reader(answer, entry.objects, f"{where}: objects")
        value = slot.value_type if isinstance(slot, AbstractNestedType) else None
        if not isinstance(value, NamespacedType):
            raise UserError(f"{where}: objects: field '{entry.objects}' is not a list of messages")
        one = templates.message_class(value, where)
        kind = _field(one, entry.class_, f"{where}: class", templates.is_text, templates.is_whole_number)
        own = _field(one, entry.own, f"{where}: own", templates.is_text) if entry.own else lambda each: ""
        score = _field(one, entry.score, f"{where}: score", templates.is_number) if entry.score else lambda each: 1.0
        pose = pose_reader(one, entry.pose, f"{where}: pose")

        def read(msg: Any, frame: str) -> Any:
            for each in objects(msg):
                at = frame_of(each) or frame
                yield str(kind(each)), float(score(each)), str(own(each)), at, pose(each, at)

        return read


def _field(kind: Any, path: str, where: str, *fits: Callable[[Any], bool]) -> templates.Read:
    read, slot = templates.reader(kind, path, where)
    if not any(one(slot) for one in fits):
        raise UserError(f"{where}: field '{path}' is {templates.described(slot)}")
    return read


def _of_array(msg: Any, frame: str) -> Any:
    for detection in msg.detections:
        best = max(detection.results, key=lambda result: result.hypothesis.score, default=None)
        if best is None:
            continue
        at = best.pose.pose.position
        only_box = not (at.x or at.y or at.z)  # many detectors leave the hypothesis's pose empty
        where = msg.header.frame_id or detection.header.frame_id
        pose = _pose(detection.bbox.center if only_box else best.pose.pose, where)
        yield best.hypothesis.class_id, best.hypothesis.score, "", where, pose


# ---- topics that the configuration names --------------------------------------------------------------------------


def hear_all(node: Node, kind: Any, topic: str, hear: Callable[..., None]) -> list[Any]:
    """Call a function with each message of a topic, whatever the quality of its publishers; a message can come twice.

    A message that was latched comes, too. Returns the subscriptions.
    """
    quiet = SubscriptionEventCallbacks(use_default_callbacks=False)  # another one hears what this one cannot
    with one_type(node, topic, templates.type_name(kind)):
        return [node.create_subscription(kind, topic, hear, offer, event_callbacks=quiet) for offer in OFFERS]


class ConfiguredTopic:
    """A topic that the configuration names, of whatever type; without an entry there is none.

    Nothing is heard before :meth:`subscribe` or :meth:`listen`.
    """

    #: How it is heard; None: in every way.
    hearing: QoSProfile | None = qos_profile_sensor_data
    _hear: Callable[..., None]

    def __init__(self, node: Node, entry: Any, where: str) -> None:
        self._node, self._entry, self._kind = node, entry, None
        self._subscriptions: list[Any] = []
        if entry is not None:
            templates.check_name(entry.topic, where)
            self._kind = templates.resolve("message", entry.type, where)

    def subscribe(self, hear: Callable[..., None], qos: QoSProfile | int) -> None:
        with one_type(self._node, self._entry.topic, self._entry.type):
            self._subscriptions.append(self._node.create_subscription(self._kind, self._entry.topic, hear, qos))

    def listen(self) -> None:
        if self._entry is None:
            return
        if self.hearing is None:
            self._subscriptions += hear_all(self._node, self._kind, self._entry.topic, WithInfo(self._hear))
        else:
            self.subscribe(self._hear, self.hearing)

    def mismatch(self) -> str:
        if self._entry is None:
            return ""
        return topic_mismatch(self._node, self._entry.topic, self._entry.type, self.hearing)

    def close(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)


class Battery(ConfiguredTopic):
    """Says whether the battery has enough left to go on, unless what is under way charges it; or nobody knows."""

    def __init__(self, node: Node, entry: entries.BatteryTopic | None, *, where: str) -> None:
        super().__init__(node, entry, where)
        self.level, self.charges = math.nan, False
        if entry is not None:
            self._field = _field(self._kind, entry.field, where, templates.is_number)

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
    """The robot's pose; ``heard_at`` is when it was heard last, in seconds by the node's clock."""

    def __init__(self, node: Node, entry: entries.PoseTopic, *, where: str) -> None:
        super().__init__(node, entry, where)
        self._latest: Any = None
        self._clock, self.heard_at = node.get_clock(), float("-inf")
        self._read = pose_reader(self._kind, entry.field, where)
        self.listen()

    def _hear(self, msg: Any) -> None:
        self._latest, self.heard_at = msg, self._clock.now().nanoseconds / 1e9

    def pose(self, frame: str) -> Pose | None:
        """Return the robot's pose, in ``frame`` if it names none; None before the first message."""
        if self._latest is None:
            return None
        return self._read(self._latest, self._entry.frame or frame_of(self._latest) or frame)


class EmergencyStop(ConfiguredTopic):
    """Says whether the robot may move; without an entry it always may.

    It may if the last message released the stop and the topic is alive: it has a publisher or, with ``silent_for``, was
    heard within that time (wall time, whatever clock the node has). With ``fail_open`` the robot may move until a
    message engages the stop.

    Several subscriptions hear the topic, so a message can come twice and late. A release that was sent before the
    latest engagement, by the senders' clocks, is ignored.
    """

    hearing = None

    def __init__(self, node: Node, entry: entries.StopEntry | None, *, where: str) -> None:
        super().__init__(node, entry, at := f"{where}: emergency_stop")
        self._engaged: bool | None = None  # None: not heard yet
        self._engaged_at = -1  # when the latest engagement was sent, in nanoseconds
        self._heard_at = steady.now()
        if entry is None:
            node.get_logger().warning(f"{where}: emergency_stop is null: nothing but a cancel stops the robot")
            return
        self._field, slot = templates.reader(self._kind, entry.field, at)
        self._value = templates.constant(slot, entry.engaged, f"{at}.engaged")
        if entry.fail_open:
            node.get_logger().warning(
                f"{at}: fail_open is true: the robot moves as long as {entry.topic} is not heard to be engaged, also "
                "if nobody publishes it"
            )

    def _hear(self, msg: Any, info: Mapping[str, int]) -> None:
        engaged, sent_at = self._field(msg) == self._value, info["source_timestamp"]
        self._heard_at = steady.now()
        if engaged:
            self._engaged_at = max(self._engaged_at, sent_at)
        elif sent_at <= self._engaged_at:
            return
        if engaged != self._engaged:
            self._node.get_logger().warning(f"emergency stop {'engaged' if engaged else 'released'}")
        self._engaged = engaged

    def engaged(self) -> str:
        """Say why nothing may move; empty if the robot may."""
        entry = self._entry
        if entry is None:
            return ""
        if self._engaged:
            return "the emergency stop is engaged"
        if entry.fail_open:
            return ""
        if self._engaged is None:
            mismatch = self.mismatch()
            return f"the emergency stop's topic {mismatch or f'{entry.topic} has not been heard yet'}"
        if entry.silent_for and steady.now() - self._heard_at > entry.silent_for:
            return f"the emergency stop's topic {entry.topic} has been silent for {entry.silent_for:g} s"
        if not entry.silent_for and not self._node.count_publishers(entry.topic):
            return f"nobody publishes the emergency stop's topic {entry.topic} any more"
        return ""

    def in_words(self) -> str:
        return "there is none" if self._entry is None else self.engaged() or "released"


class Condition(ConfiguredTopic):
    hearing = None

    def __init__(self, node: Node, entry: entries.ConditionEntry, *, where: str) -> None:
        super().__init__(node, entry, where)
        self._field = templates.Field(self._kind, entry.field, entry.holds, f"{where}: holds", {})
        self._wanted = self._field.wanted({})
        self._latest: bool | None = None
        self._sent_at, self._heard_at = -1, 0.0  # in nanoseconds by the sender's clock; by ours
        self.changed: Callable[[], None] = lambda: None  # called when it begins or ends to hold

    def _hear(self, msg: Any, info: Mapping[str, int]) -> None:
        self._heard_at, before = steady.now(), self._latest
        if info["source_timestamp"] >= self._sent_at:  # a message can come twice and late
            self._sent_at, self._latest = info["source_timestamp"], self._wanted(self._field.read(msg))
        if self._latest is not before:
            self.changed()

    def holds(self) -> bool | None:
        """Whether it holds; None: nobody knows."""
        silent_for, topic = self._entry.silent_for, self._entry.topic
        heard = steady.now() - self._heard_at <= silent_for if silent_for else self._node.count_publishers(topic)
        return self._latest if heard else None

    def in_words(self) -> str:
        holds = {True: "yes", False: "no", None: "unknown"}[self.holds()]
        return f"{self._entry.wording}: {holds}"


class Conditions(dict[str, Condition]):
    """All conditions of a robot, by name."""

    def __init__(self, node: Node, config: entries.RobotConfig, *, where: str) -> None:
        for name, entry in config.conditions.items():
            self[name] = Condition(node, entry, where=config.at(where, "conditions", name))
        self.by_wording = {entry.wording: self[name] for name, entry in config.conditions.items()}

    def listen(self) -> None:
        for one in self.values():
            one.listen()

    def call(self, changed: Callable[[], None]) -> None:
        """Call a function whenever one of them begins or ends to hold."""
        for one in self.values():
            one.changed = changed

    def named(self, called: str) -> bool | None:
        """Whether the condition of a name or a wording holds; None: nobody knows, or there is none."""
        one = self.get(called) or self.by_wording.get(called)
        return None if one is None else one.holds()

    def in_words(self) -> str:
        """Say of each whether it holds; empty if there are none."""
        return conditions_text({wording: one.holds() for wording, one in self.by_wording.items()})

    def mismatches(self) -> list[str]:
        return list(filter(None, (one.mismatch() for one in self.values())))

    def close(self) -> None:
        for one in self.values():
            one.close()
