"""Checks everything that a robot needs before it drives: servers, types, frames, topics, places, emergency stop.

Nothing moves: the check listens to topics, and has paths planned that nobody drives.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import rclpy
from rclpy.action import get_action_names_and_types
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data

from reactree_ros.household.household import SKILLS
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls, ServerGone, count_servers
from reactree_ros.nodes.mismatch import another_type
from reactree_ros.nodes.robot.goal_templates import NoValue
from reactree_ros.nodes.robot.mapped_skill import MappedCall, MappedSkill, Order, values_of
from reactree_ros.nodes.robot.robot_perception import Perception
from reactree_ros.nodes.robot.robot_servers import Rejected, Servers
from reactree_ros.nodes.robot.robot_topics import Battery, Condition, EmergencyStop
from reactree_ros.nodes.spinning import Spinner, interruptible
from reactree_ros.plugins.installation import Diagnosis
from reactree_ros.robot.check import NOTE, WRONG, Declared, Found
from reactree_ros.robot.config import BatteryTopic, CallEntry, RobotConfig, SkillEntry, StopEntry
from reactree_ros.robot.semantic_map import SemanticMap

#: The skill that says where the robot is to stand.
_GO_TO = next(skill for skill in SKILLS if skill.moves)
#: Spins the node until a condition holds, at most for some seconds; returns whether it holds.
Until = Callable[[Callable[[], bool], float], bool]
_PUBLISHED = ("nobody publishes", "who publishes it", "field")
#: What is sought for each kind of entry: how it is missed, who has to be started, and what a type goes with.
_SOUGHT = {
    "action": ("there is no action", "its server", "fields"),
    "service": ("there is no service", "its server", "fields"),
    "publish": ("nobody hears", "who hears it", "fields"),
    "wait_for": _PUBLISHED,
    "camera": _PUBLISHED,
}


def check_robot(
    path: Path,
    *,
    policy: Path | None = None,
    patience: float = 5.0,
    namespace: str = "",
    args: Sequence[str] | None = None,
) -> list[Diagnosis]:
    """Check a robot and a skill policy, with a node of its own; see :class:`Walk`."""
    with interruptible(args) as asked:
        node = rclpy.create_node("robot_check", namespace=namespace)
        with Spinner(node, asked) as spinner:
            walk = Walk(node, lambda done, seconds: spinner.spin_until(done, seconds=seconds), patience)
            found = walk.walk(path, policy)
        if asked:
            raise KeyboardInterrupt
    return found


class Walk(Declared):
    """One check of a robot; each server, topic and transform is waited for at most `patience` seconds."""

    def __init__(self, node: Node, until: Until, patience: float) -> None:
        super().__init__()
        self._node, self._until, self._patience = node, until, patience
        self._calls = Calls(node, patience=patience)
        self._begun = steady.now()

    def walk(self, path: Path, policy: Path | None = None) -> list[Diagnosis]:
        read, where = self.read(path, policy), str(path)
        if read is None:
            return self.found
        config, document = read
        for verb, entry in config.skills.items():
            self._skill(verb, entry, where=config.at(where, "skills", verb))
        with self.looking_at("emergency stop"):
            self._stop(config.emergency_stop, where=where)
        if config.battery is not None:
            with self.looking_at("battery"):
                self._battery(config.battery, where=config.at(where, "battery"))
        self._conditions(config, where=where)
        with (
            self.looking_at("perception"),
            closing(Perception(self._node, config, document, where=where)) as perception,
        ):
            self._perceived(config, perception, where=where)
        return self.found

    # ------------------------------------------------------------------ servers

    def _skill(self, verb: str, entry: SkillEntry, *, where: str) -> None:
        what, mapped = f"skill '{verb}'", None
        with self.looking_at(what):
            mapped = MappedSkill(entry, where, entry.declared(verb))
        for leg in [] if mapped is None else mapped.legs:
            part = ", ".join(filter(None, (what, leg.step, "check" if leg.checks else "")))
            self._there(part, leg.call.entry)
            if leg.cancel is not None:
                self._there(f"{part}, cancel", leg.cancel.entry)

    def _there(self, what: str, entry: CallEntry) -> bool:
        with self.looking_at(what):
            self.right(what, f"{self._seek(entry.kind, entry.server, entry.type)} ({entry.type})")
            return True
        return False

    def _seek(self, kind: str, name: str, of_type: str) -> str:
        """Wait until a name is there with its type; returns it in full. What is published has to have no other."""
        (nobody, who, write), node = _SOUGHT[kind], self._node
        full = node.resolve_service_name(name) if kind == "service" else node.resolve_topic_name(name)
        self._until(lambda: full in self._names(kind), max(0.0, self._patience - (steady.now() - self._begun)))
        there = self._names(kind)
        if full not in there:
            alike = _perhaps(full, [other for other, kinds in there.items() if of_type in kinds])
            raise Found(WRONG, f"{nobody} {full} (for {self._patience:g} s)", f"start {who}{alike}")
        others = sorted(set(there[full]) - {of_type})
        if others and (of_type not in there[full] or nobody == "nobody publishes"):
            remedy = f"write type: {', '.join(others)}, with its {write}"
            raise Found(WRONG, another_type(full, others, of_type), remedy)
        if kind == "publish" and all(_latched(one.qos_profile) for one in self._ends(kind, full)):
            said = f"{full} is heard as a latched topic alone, and a skill's message is not latched"
            raise Found(WRONG, said, "let its node hear it as volatile")
        count = {"action": f"{full}/_action/send_goal", "service": full}.get(kind)
        if count is not None and (answering := count_servers(self._node, count)) > 1:
            raise Found(WRONG, f"{answering} servers answer to {full}", "end all but one, or use namespaces")
        return full

    def _names(self, kind: str) -> Mapping[str, Sequence[str]]:
        if kind == "action":
            return dict(get_action_names_and_types(self._node))
        if kind == "service":
            return dict(self._node.get_service_names_and_types())
        topics = (name for name, _ in self._node.get_topic_names_and_types())
        found = {name: [one.topic_type for one in self._ends(kind, name)] for name in topics}
        return {name: kinds for name, kinds in found.items() if kinds}

    def _ends(self, kind: str, full: str) -> list[Any]:
        node = self._node
        ends = node.get_subscriptions_info_by_topic if kind == "publish" else node.get_publishers_info_by_topic
        return list(ends(full))

    # ------------------------------------------------------------------ topics

    def _stop(self, entry: StopEntry | None, *, where: str) -> None:
        if entry is None:
            raise Found(NOTE, "there is none: nothing but a cancel stops the robot")
        full = self._node.resolve_topic_name(entry.topic)
        with closing(EmergencyStop(self._node, entry, where=where)) as stop:
            if entry.fail_open and not self._node.count_publishers(full):
                raise Found(NOTE, f"nobody publishes {full}, and fail_open lets the robot move all the same")
            self._seek("wait_for", entry.topic, entry.type)
            stop.listen()  # not before: some middleware refuses a subscription of another type
            publishers = self._ends("wait_for", full)
            who = ", ".join(sorted({one.node_name for one in publishers if not _latched(one.qos_profile)}))
            if entry.latched and who:
                said = f"{full} is not latched by {who}: a press before the start would be missed"
                remedy = (
                    "publish it reliable and transient local, or write silent_for: SECONDS instead of latched: true"
                )
                raise Found(WRONG, said, remedy)
            self._until(lambda: "not been heard yet" not in stop.engaged(), self._patience)
            if entry.silent_for:
                self._until(lambda: False, min(2 * entry.silent_for, self._patience))
            engaged = stop.engaged()
        if "silent" in engaged or "not been heard" in engaged:
            raise Found(WRONG, engaged, "have it published more often than silent_for, or raise that")
        if engaged:
            raise Found(NOTE, f"{engaged}: nothing moves until it is released")
        self.right("emergency stop", f"{full}: released")

    def _battery(self, entry: BatteryTopic, *, where: str) -> None:
        with closing(Battery(self._node, entry, where=where)) as battery:
            self._seek("wait_for", entry.topic, entry.type)
            battery.listen()
            heard = self._until(lambda: "not heard" not in battery.in_words(), self._patience)
            low, level = battery.too_low(), battery.in_words()
        if not heard:
            said = f"{entry.topic} says no level for {self._patience:g} s"
            raise Found(WRONG, said, "name its field, or leave it out")
        if low:
            raise Found(WRONG, low, "charge it, or lower least")
        self.right("battery", f"{level}, {entry.least:g} is too little")

    def _conditions(self, config: RobotConfig, *, where: str) -> None:
        heard: dict[str, Condition] = {}
        for name, entry in config.conditions.items():
            with self.looking_at(what := f"condition '{name}'"):
                condition = Condition(self._node, entry, where=config.at(where, "conditions", name))
                self._seek("wait_for", entry.topic, entry.type)
                condition.listen()
                heard[what] = condition
        self._until(lambda: all(one.holds() is not None for one in heard.values()), self._patience)
        for what, condition in heard.items():
            with self.looking_at(what), closing(condition):
                if condition.holds() is None:
                    said = f"{condition.in_words()}: nothing was heard for {self._patience:g} s"
                    raise Found(NOTE, said, "publish it latched or again and again, unless each change is enough")
                self.right(what, condition.in_words())

    # ------------------------------------------------------------------ where things are

    def _perceived(self, config: RobotConfig, perception: Perception, *, where: str) -> None:
        map: SemanticMap | None = None
        with self.looking_at("map"):
            map = self._map_of(config, perception)
            places = f"{len(map.rooms)} rooms, {len(list(map.receptacles()))} receptacles in frame '{map.frame}'"
            self.right("map", places)
        if map is None:
            return
        with self.looking_at("where it is"):
            self._robot(config, perception, map)
        with self.looking_at("detections"):
            self._detections(config, perception, map)
        with self.looking_at("places"):
            if config.reach is None:
                raise Found(NOTE, "not looked at: reach names nobody who plans a path")
            planner = MappedCall(config.reach, config.at(where, "reach"))
            if self._there("path planner", config.reach):
                self._places(planner, map)

    def _map_of(self, config: RobotConfig, perception: Perception) -> SemanticMap:
        topic = config.map_topic
        if topic:
            publishers = self._ends("wait_for", self._seek("wait_for", topic, "std_msgs/msg/String"))
            if not all(_latched(one.qos_profile) for one in publishers):
                said = f"{topic} is not latched: the bridge would wait for the next one"
                raise Found(WRONG, said, "publish it reliable and transient local")
            if not self._until(lambda: perception.map is not None, self._patience):
                raise Found(WRONG, f"what {topic} says is not a map; the log says why", "correct the map")
        assert perception.map is not None
        return perception.map

    def _robot(self, config: RobotConfig, perception: Perception, map: SemanticMap) -> None:
        if config.pose is not None:
            self._seek("wait_for", config.pose.topic, config.pose.type)
        begin = steady.now()

        def known() -> bool:
            perception.look(forget=False)
            return map.robot is not None

        if not self._until(known, self._patience):
            if config.pose is not None:
                said = f"{config.pose.topic} says no pose that tf can bring to '{map.frame}'"
                raise Found(WRONG, said, "name the pose's field and frame")
            frames = ", ".join(perception.frames()) or "none"
            said = f"{config.tf} has no transform from '{config.base_frame}' to '{map.frame}'; its frames are {frames}"
            raise Found(WRONG, said, "start localization, or correct base_frame or the map's frame")
        at = map.robot
        assert at is not None
        place = f"x {at.x:.2f}, y {at.y:.2f}, known after {steady.now() - begin:.1f} s"
        if not any(room.surrounds(at) for room in map.rooms if hasattr(room, "surrounds")):
            remedy = "localize it, or correct the rooms' outlines, unless it stands in a hallway"
            raise Found(NOTE, f"{place}: in no room of the map", remedy)
        self.right("where it is", f"{place}, in the {map.agent_room.name}")

    def _detections(self, config: RobotConfig, perception: Perception, map: SemanticMap) -> None:
        detector, entry = perception.detector, config.detections
        if detector is None or entry is None:
            raise Found(NOTE, "there are none: only what the map expects is known")
        if not entry.topic:
            full = self._seek("action" if entry.action else "service", entry.source, entry.type)
            self.right("detections", f"{full} ({entry.type})")
            return
        self._seek("wait_for", entry.topic, entry.type)
        heard: list[Any] = []
        hears = self._node.create_subscription(detector.kind, entry.topic, heard.append, qos_profile_sensor_data)
        self._until(lambda: bool(heard), self._patience)
        self._node.destroy_subscription(hears)
        if not heard:
            said = f"{entry.topic} was silent for {self._patience:g} s"
            raise Found(WRONG, said, "see whether the camera and the detector run")
        document, topic = map.document, entry.topic
        classes = sorted(set(detector.classes(heard[-1])))
        unknown = [one for one in classes if not (document.person(one) or document.objects.word_of(one, 1.0))]
        frames = [one.frame for one in detector.found(heard[-1], document)]
        if away := [frame for frame in frames if not perception.reaches(frame, map.frame)]:
            said = f"{topic}: {config.tf} has no transform from '{away[0]}' to '{map.frame}'"
            there = ", ".join(perception.frames()) or "none"
            raise Found(WRONG, said, f"publish that transform, or correct the frame: there are {there}")
        if classes and unknown == classes:
            said = f"{topic}: the map has a word for none of its classes {', '.join(classes)}"
            raise Found(WRONG, said, "write them under objects.classes of the map, each with a word")
        more = f"; of no interest: {', '.join(unknown)}" if unknown else ""
        self.right("detections", f"{topic}: {', '.join(classes) or 'nothing'} seen now{more}")

    # ------------------------------------------------------------------ places

    def _places(self, planner: MappedCall, map: SemanticMap) -> None:
        found, things = len(self.found), [*map.rooms, *map.receptacles()]
        with closing(Servers(self._node, self._calls, [planner], None, stop_timeout=math.inf)) as servers:
            for thing in things:
                with self.looking_at(f"place '{thing.name}'"):
                    try:
                        order = planner.order(values_of(map, _GO_TO.call({"thing": thing.name})))
                    except NoValue as error:
                        remedy = "publish the transform of its frame, or correct the place"
                        raise Found(WRONG, f"nobody can say its {error}", remedy) from None
                    self._is_reached(servers, order)
        if len(self.found) == found:
            self.right("places", f"{planner.entry.server} plans a path to each of the {len(things)}")

    def _is_reached(self, servers: Servers, order: Order) -> None:
        sent = servers.send("path", order)

        def answered() -> bool:
            self._calls.watch()
            servers.watch()
            return sent.result.done()

        try:
            if self._until(answered, order.limit):
                _, reason, _ = order.call.verdict(order, *sent.result.take())
            else:
                servers.server_for(order.call).stop(sent)
                reason = f"{sent.server} did not end within {order.limit:g} s"
        except (Rejected, ServerGone) as error:
            reason = str(error)
        if reason:
            remedy = "correct its pose or its approach on the map, or what the planner takes for an obstacle"
            raise Found(WRONG, f"no path: {reason}", remedy)


def _perhaps(name: str, others: Sequence[str]) -> str:
    last = name.rpartition("/")[2]
    alike = [one for one in others if one.rpartition("/")[2] == last] or difflib.get_close_matches(name, others)
    return f", or write its name: {' or '.join(sorted(alike)[:3])}" if alike else ""


def _latched(offer: QoSProfile) -> bool:
    reliable = offer.reliability is ReliabilityPolicy.RELIABLE
    return reliable and offer.durability is DurabilityPolicy.TRANSIENT_LOCAL
