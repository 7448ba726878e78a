"""Perception of a robot: its pose, its map, what is kept of that, and its detector, which it asks and instructs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.time import Time
from std_msgs.msg import String

from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory.house_map import LIKELY, HouseMap, Place
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.mismatch import one_type, topic_mismatch
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.robot.goal_templates import check_name, compiled, resolve, type_name
from reactree_ros.nodes.robot.robot_servers import ActionOf, Server, ServiceOf, Underway
from reactree_ros.nodes.robot.robot_topics import NAMED, DetectionReader, Names, RobotPose
from reactree_ros.robot.config import PromptEntry, RobotConfig
from reactree_ros.robot.detections import Detection, Stamps
from reactree_ros.robot.house import Item, MapThing
from reactree_ros.robot.map_file import MapDocument, map_of, parse_yaml
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap

#: As tf2_ros hears transforms, and those that do not change.
TF, TF_STATIC = QoSProfile(depth=100), QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: Longest delay of a detection's transform, in seconds.
LATE = 1.0
#: Most looks that may be under way because the detector does not end them.
MOST = 3


def stamp_of(msg: Any) -> Time:
    """Return the stamp of detections, by the detector's clock; 0 if there is none."""
    return Time.from_msg(msg.header.stamp) if hasattr(msg, "header") else Time()


class Perception:
    """Keeps a semantic map up to date; without a document the map comes from a topic, and is None till then."""

    def __init__(
        self,
        node: Node,
        config: RobotConfig,
        document: MapDocument | None,
        *,
        where: str,
        kept: KeptSightings | None = None,
        condition: Callable[[str], bool | None] = lambda _: None,
    ) -> None:
        self._node, self._config, self._where, self._kept, self._condition = node, config, where, kept, condition
        entry, pose = config.detections, config.pose
        self.detector = None if entry is None else DetectionReader(entry, config.at(where, "detections"))
        self._robot_pose = None if pose is None else RobotPose(node, pose, where=config.at(where, "pose"))
        self.map: SemanticMap | None = None
        self.detected = float("-inf")
        self._waiting: deque[tuple[float, Any]] = deque(maxlen=20)
        self._stamps = Stamps()
        self._looked = float("-inf")
        self._subscriptions: list[Any] = []
        self._heard: list[tuple[str, str, QoSProfile]] = []  # topics with their types
        from tf2_msgs.msg import TFMessage
        from tf2_ros import Buffer, TransformException

        self._unknown, self._buffer = TransformException, Buffer()
        # Not by tf2_ros' TransformListener, which hears /tf of all robots.
        check_name(config.tf, config.at(where, "tf"))
        takes = (self._buffer.set_transform, TF), (self._buffer.set_transform_static, TF_STATIC)
        for topic, (take, qos) in zip((config.tf, f"{config.tf}_static"), takes, strict=True):
            self._listen(TFMessage, topic, lambda msg, take=take: [take(one, "") for one in msg.transforms], qos)
        if document is not None:
            self._take_map(document)
        else:
            check_name(config.map_topic, where)
            self._listen(String, config.map_topic, self._read_map, LATCHED)
        if self.detector is not None and self.detector.entry.topic:
            self._listen(self.detector.kind, self.detector.entry.topic, self.note, qos_profile_sensor_data)

    def _listen(self, kind: Any, topic: str, callback: Any, qos: QoSProfile) -> None:
        with one_type(self._node, topic, type_name(kind)):
            self._subscriptions.append(self._node.create_subscription(kind, topic, callback, qos))
        self._heard.append((topic, type_name(kind), qos))

    def mismatches(self) -> list[str]:
        pose = "" if self._robot_pose is None else self._robot_pose.mismatch()
        return list(filter(None, [*(topic_mismatch(self._node, *heard) for heard in self._heard), pose]))

    def now(self) -> float:
        return float(self._node.get_clock().now().nanoseconds) / 1e9

    def _warn(self, text: str) -> None:
        self._node.get_logger().warning(text, throttle_duration_sec=WARNING_PERIOD)

    # ------------------------------------------------------------------ the map

    def _read_map(self, msg: String) -> None:
        try:
            self._take_map(map_of(parse_yaml(msg.data, where=f"the map on {self._config.map_topic}")))
        except UserError as error:
            kept = "" if self.map is None else "; the map from before is kept"
            self._node.get_logger().error(f"{error}{kept}")

    def _take_map(self, document: MapDocument) -> None:
        self._config.check_fits(document, self._where)
        frame, before = document.frame, self.map
        self.map = SemanticMap(
            document,
            now=self.now(),
            hands=self._config.hands,
            in_map=lambda pose: self.in_frame(frame, pose),
            before=before,
            unknown=self._config.grasped,
            condition=self._condition,
            within=self._config.arrived_within,
        )
        if before is None and self._kept is not None:
            self._kept.recollect(self.map, self.now())

    # ------------------------------------------------------------------ frames

    def in_frame(self, frame: str, pose: Pose, stamp: Time | None = None) -> Pose | None:
        """Return a pose in another frame, by the transform of a stamp or the latest one; None: there is none."""
        if pose.frame == frame:
            return pose
        try:
            found = self._buffer.lookup_transform(frame, pose.frame, stamp or Time()).transform
        except self._unknown:
            return None
        at, turn = found.translation, found.rotation
        return Pose(frame, at.x, at.y, at.z, (turn.x, turn.y, turn.z, turn.w)).placed(pose)

    def reaches(self, frame: str, other: str) -> bool:
        return self.in_frame(other, Pose(frame, 0.0, 0.0)) is not None

    def frames(self) -> list[str]:
        return sorted(re.findall(r"^Frame (\S+) exists", self._buffer.all_frames_as_string(), re.MULTILINE))

    # ------------------------------------------------------------------ detections

    def note(self, msg: Any) -> None:
        now, stamp = self.now(), stamp_of(msg)
        if stamp.nanoseconds:
            self._stamps.heard(stamp.nanoseconds / 1e9, now)
        self._waiting.append((now, msg))

    def looked(self) -> None:
        """Note the end of a look, also of one without detections."""
        self.look(forget=False)
        self.detected = max(self.detected, self.now())

    def look(self, *, forget: bool) -> None:
        """Update the map with the robot's pose and the detections, and `forget` what was not seen for too long."""
        if self.map is None:
            return
        self._note_clock(self.map)
        if (robot := self._robot(self.map.frame)) is not None:
            heard = float("inf") if self._robot_pose is None else self._robot_pose.heard_at  # tf tells the latest
            self.map.robot_is_at(robot, heard)
        still_waiting = [(since, msg) for since, msg in self._waiting if not self._taken(self.map, since, msg)]
        self._waiting.clear()
        self._waiting.extend(still_waiting)
        if forget and self.detector is not None:
            self.map.forget(self.now(), () if self._kept is None else self._kept.believed)
        if self._kept is not None:
            self._kept.look(self.map, self.now())

    def missed(self, call: SkillCall, since: float) -> None:
        """Tell a kept map what was not detected since then of what is taken to be before the robot after a skill."""
        if self._kept is not None and self.map is not None:
            self._kept.missed(self.map.overlooked(call, since))

    def _note_clock(self, map: SemanticMap) -> None:
        before, self._looked = self._looked, self.now()
        if self._looked < before:
            self._warn(f"the clock was set back by {before - self._looked:.1f} s; perception starts anew")
            self._waiting.clear()
            self._stamps.forget()
            self.detected = min(self.detected, self._looked)
            map.clock_was_set_back(self._looked)

    def _robot(self, frame: str) -> Pose | None:
        if self._robot_pose is None:
            return self.in_frame(frame, Pose(self._config.base_frame, 0.0, 0.0))
        at = self._robot_pose.pose(frame)
        return None if at is None else self.in_frame(frame, at)

    def _taken(self, map: SemanticMap, since: float, msg: Any) -> bool:
        """Put detections on the map; returns False if their transform may come yet."""
        assert self.detector is not None  # it has read them
        source, stamp, seconds = self.detector.entry.source, stamp_of(msg), since
        if stamp.nanoseconds and self.detector.entry.topic:  # an asked detector answers for now, whatever the stamp
            seconds = self._stamps.ours(stamp.nanoseconds / 1e9, since)
        detections = []
        for one in self.detector.found(msg, map.document):
            in_map = None if one.pose is None else self.in_frame(map.frame, one.pose, stamp)
            if in_map is not None:
                detections.append(Detection(one.word, in_map, one.own, one.score))
            elif one.pose is None:
                self._warn(f"{source}: the pose of '{one.word}' is not a pose; it is ignored")
            elif self.now() - since <= LATE:
                return False
            else:
                self._warn(
                    f"{source}: there is no transform from '{one.frame}' to '{map.frame}' at the time of the "
                    "detections; they are ignored"
                )
                return True
        map.take_in(detections, seconds)
        self.detected = max(self.detected, seconds)
        return True

    def close(self) -> None:
        if self._robot_pose is not None:
            self._robot_pose.close()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)


class DetectorClient:
    """Asks a detector, which has an action or a service, for the objects before the robot; no skill waits for that."""

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
        self._log, self._detector, self._heard, self._ended = node.get_logger(), detector, heard, ended
        given = node, calls, detector.entry.source, detector.kind
        self.names = Names()
        self.server: Server = ActionOf(*given, heartbeat) if detector.entry.action else ServiceOf(*given)
        self._looks: list[Underway] = []

    def begin(self) -> None:
        self.stop()
        if len(self._looks) >= MOST:
            self._warn(f"{self.server.name} is not asked: it has not answered {MOST} times")
            self._ended()
            return
        look = self.server.send("look", self._detector.request(self.names))
        self._looks.append(look)
        look.result.add_done_callback(lambda _: self._answered(look))

    def stop(self) -> None:
        for look in self._looks:
            if not look.stopping:
                self.server.stop(look)

    def watch(self) -> None:
        for look in self._looks:
            self.server.watch(look)
        self._looks = [look for look in self._looks if not look.over]

    def lacks(self) -> str:
        return self.server.lacks(self._detector.entry.type, "of the detector")

    def _answered(self, look: Underway) -> None:
        answer = look.result
        if look.stopping or answer.cancelled():
            return
        if (error := answer.exception()) is not None:
            self._warn(f"{look.server}: nothing is detected: {error}")
        else:
            status, result = answer.take()
            if status == GoalStatus.STATUS_SUCCEEDED and self._detector.could_look(result):
                self._heard(result)
        self._ended()

    def _warn(self, text: str) -> None:
        self._log.warning(text, throttle_duration_sec=WARNING_PERIOD)

    def close(self) -> None:
        self.stop()
        self.server.close()


class Prompts:
    """Tells a detector what to look for, on a topic, by a service, or with each look; only what has changed."""

    def __init__(
        self, node: Node, calls: Calls, entry: PromptEntry, looks: DetectorClient | None, *, where: str
    ) -> None:
        self._node, self._entry, self._looks = node, entry, looks
        self._latest: Names | None = None
        self._publisher: Any = None
        self._server: ServiceOf | None = None
        if not (name := entry.topic or entry.service):
            return
        check_name(name, where)
        kind = resolve("message" if entry.topic else "service", entry.type, where)
        self._fill = compiled(kind if entry.topic else kind.Request, entry.goal, f"{where}: goal", NAMED)
        if entry.service:
            self._server = ServiceOf(node, calls, name, kind)
            return
        with one_type(node, name, entry.type):
            self._publisher = node.create_publisher(kind, name, LATCHED)  # who comes later hears the last one, too

    def tell(self, names: Names) -> None:
        """Tell what to look for, unless that was told last."""
        names.between = self._entry.between
        if self._looks is not None:
            self._looks.names = names
        if names == self._latest:
            return
        self._latest = names
        if self._publisher is not None:
            self._publisher.publish(self._fill({"names": names}))
        elif self._server is not None:
            asked = self._server.send("prompts", self._fill({"names": names}))
            asked.result.add_done_callback(self._look_for_trouble)

    def _look_for_trouble(self, done: Any) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._latest = None
            text = f"the detector was not told what to look for: {error}"
            self._node.get_logger().warning(text, throttle_duration_sec=WARNING_PERIOD)

    def lacks(self) -> str:
        return "" if self._server is None else self._server.lacks(self._entry.type, "of the detector's prompts")

    def close(self) -> None:
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
        if self._server is not None:
            self._server.close()


#: Time between two equal warnings, in seconds.
WARNING_PERIOD = 10.0
#: After this time a thing that is still where it was is told again, and what is believed is looked up anew, in seconds.
TOLD_AGAIN, ASKED_AGAIN = 30.0, 30.0


class KeptSightings:
    """Tells a kept map what a robot detects, takes and misses; nothing of it waits for a disk but :meth:`recollect`."""

    def __init__(self, house_map: HouseMap, robot: str, warn: Callable[..., object]) -> None:
        self._map, self._robot, self._warn = house_map, robot, warn
        self._sent: dict[str, tuple[Place | None, float]] = {}  # by name: where, and when; nowhere: it is held
        self._asked = float("-inf")
        self.believed: Collection[str] = ()

    def recollect(self, map: SemanticMap, now: float) -> None:
        """Put what is known on a new semantic map; waits for the disk, as where a robot starts."""
        for belief in self._map.beliefs():
            if belief.sure < LIKELY:
                continue
            thing, place = belief.thing, belief.spot.place
            pose = None if place.pose is None else Pose(map.frame, *place.pose)
            map.recollect(*(thing.name, thing.word, thing.number), place=place.name, pose=pose, own=thing.own, now=now)

    def look(self, map: SemanticMap, now: float) -> None:
        """Tell what has changed; to be called regularly."""
        seen: Iterable[Any] = [*map.items(), *(person for person in map.persons if person.seen is not None)]
        for thing in seen:
            if thing.id in map.held:
                self._tell(thing, None, now)
            elif thing.seen is not None and thing.pose is not None:
                place, room = map.place_of(thing), map.room_of(thing)
                at = Place(
                    place.name if place is not None else map.borne.get(thing.id, ""),
                    "" if room is None else room.name,
                    tuple(round(one, 2) for one in (thing.pose.x, thing.pose.y, thing.pose.z)),
                )
                self._tell(thing, at, now)
            elif (bearer := map.borne.get(thing.id)) is not None:
                self._tell(thing, Place(bearer), now)
        if now - self._asked >= ASKED_AGAIN or now < self._asked:
            self._asked = now
            self._do(self._map.beliefs).add_done_callback(self._take_beliefs)

    def missed(self, items: Iterable[Item]) -> None:
        """Tell that things were looked for and are not where they were taken to be."""
        for item in items:
            self._sent.pop(item.name, None)
            self._do(lambda name=item.name: self._map.missed(name))  # type: ignore[misc]

    def _tell(self, thing: MapThing, at: Place | None, now: float) -> None:
        before, when = self._sent.get(thing.name, (None, float("-inf")))
        same = thing.name in self._sent and _same(before, at)
        if same and 0 <= now - when < TOLD_AGAIN:
            return
        self._sent[thing.name] = at, now
        if at is None:
            if not same:
                self._do(lambda: self._map.taken(thing.name, self._robot))
            return
        named, sure = (thing.name, thing.word, thing.number), getattr(thing, "score", 1.0)
        own = thing.own if getattr(thing, "tracked", False) else ""
        self._do(lambda: self._map.found(*named, at, sure=sure, robot=self._robot, own=own))

    def _do(self, work: Callable[[], Any]) -> Pending[Any]:
        done = self._map.do(work)
        done.add_done_callback(lambda one: None if one.cancelled() else self._look_for_trouble(one.exception()))
        return done

    def _look_for_trouble(self, error: BaseException | None) -> None:
        if error is not None:
            self._warn(f"what is seen is not kept: {error}", throttle_duration_sec=WARNING_PERIOD)

    def _take_beliefs(self, done: Any) -> None:
        if not done.cancelled() and done.exception() is None:
            self.believed = frozenset(one.thing.name for one in done.result() if one.sure >= LIKELY)


def _same(before: Place | None, now: Place | None) -> bool:
    """Whether a thing is where it was: in or on the same, or on the floor less than half a metre away."""
    if before is None or now is None:
        return before is now
    if before.key != now.key:
        return False
    if now.name or before.pose is None or now.pose is None:
        return True
    return sum((one - other) ** 2 for one, other in zip(before.pose, now.pose, strict=True)) < 0.25
