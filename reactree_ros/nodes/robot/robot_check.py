"""Checks everything that a robot needs before it drives: servers, types, frames, topics, places, emergency stop.

Nothing moves: the check listens to topics, and has paths planned that nobody drives.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient, get_action_names_and_types
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data

from reactree_ros.agent.parameters import Named
from reactree_ros.errors import UserError
from reactree_ros.household.household import SKILLS, WAH_NL
from reactree_ros.household.vocabulary import WORDS
from reactree_ros.llm.settings import model_from_dict
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.mismatch import another_type
from reactree_ros.nodes.robot.emergency_stop import EmergencyStop
from reactree_ros.nodes.robot.goal_templates import NoValue
from reactree_ros.nodes.robot.mapped_skill import MappedCall, MappedSkill, Order, values_of
from reactree_ros.nodes.robot.robot_conditions import Condition
from reactree_ros.nodes.robot.robot_perception import Perception
from reactree_ros.nodes.robot.robot_topics import Battery, DetectionReader
from reactree_ros.nodes.spinning import Spinner, interruptible
from reactree_ros.plugins.diagnosis import Diagnosis, Level
from reactree_ros.robot.config import CallEntry, RobotConfig, SkillEntry, StopEntry, load_robot
from reactree_ros.robot.map_file import MapDocument, map_of, notes_of, read_yaml
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.triggers import Occasions, TriggerEntry
from reactree_ros.world.recorded import RecordedWorld
from reactree_ros.world.skill_policy import load_policy
from reactree_ros.world.tools.settings import check_programs, with_tools

#: The skill that says where the robot is to stand.
_GO_TO = next(skill for skill in SKILLS if skill.moves)
#: Spins the node until a condition holds, at most for some seconds; returns whether it holds.
Until = Callable[[Callable[[], bool], float], bool]
RIGHT, NOTE, WRONG = Level.RIGHT, Level.NOTE, Level.WRONG


def check_robot(
    path: Path,
    *,
    policy: Path | None = None,
    patience: float = 5.0,
    namespace: str = "",
    args: Sequence[str] | None = None,
) -> list[Diagnosis]:
    """Check a robot, with a node of its own.

    Args:
        path: The robot's configuration.
        policy: A skill policy that is to fit it; None: none is.
        patience: Longest wait for each server, topic and transform, in seconds.
        namespace: The robot's namespace.
        args: ROS arguments of the process.
    """
    with interruptible(args) as asked:
        node = rclpy.create_node("robot_check", namespace=namespace)
        with Spinner(node, asked) as spinner:
            walk = Walk(node, lambda done, seconds: spinner.spin_until(done, seconds=seconds), patience)
            found = walk.walk(path, policy)
        if asked:
            raise KeyboardInterrupt
    return found


class Walk:
    """One check of a robot.

    Args:
        node: The owner of clients and subscriptions, in the robot's namespace.
        until: Spins the node.
        patience: Longest wait for each server, topic and transform, in seconds.
    """

    def __init__(self, node: Node, until: Until, patience: float) -> None:
        self._node, self._until, self._patience = node, until, patience
        self._calls = Calls(node, patience=patience)
        self._begun = steady.now()
        self._found: list[Diagnosis] = []

    def walk(self, path: Path, policy: Path | None = None) -> list[Diagnosis]:
        """Check everything that a configuration names, and a skill policy; returns a diagnosis of each."""
        config = self._or_wrong("configuration", lambda: load_robot(path), "correct that line")
        if config is None:
            return self._found
        self._add("configuration", RIGHT, f"{path}: {len(config.skills)} skills")
        document = None
        if config.map:
            document = self._or_wrong("map", lambda: self._map(config.map), "correct that line")
            if document is None:
                return self._found
        self._or_wrong("tools and policy", lambda: self._permitted(config, document, str(path), policy))
        for verb, entry in config.skills.items():
            self._skill(verb, entry, where=config.at(str(path), "skills", verb))
        self._stop(config.emergency_stop, where=str(path))
        self._battery(config, where=str(path))
        self._conditions(config, where=str(path))
        for name, trigger in config.triggers.items():
            self._trigger(name, trigger)
        if config.vision is not None:
            where = config.at(str(path), "vision")
            self._or_wrong("vision", lambda: model_from_dict(config.vision, where=where))
        perception = self._or_wrong("perception", lambda: Perception(self._node, config, document, where=str(path)))
        if perception is not None:
            try:
                self._perceived(config, perception, where=str(path))
            finally:
                perception.close()
        return self._found

    def _add(self, what: str, level: Level, said: str, remedy: str = "") -> None:
        self._found.append(Diagnosis(what, level, said, remedy))

    def _map(self, path: str) -> MapDocument:
        document = map_of(source := read_yaml(path))
        for note in notes_of(document, source):
            self._add("map", NOTE, note)
        return document

    def _permitted(self, config: RobotConfig, document: MapDocument | None, where: str, policy: Path | None) -> None:
        check_programs(config.mcp, partial(config.at, where))
        with with_tools(lambda: _Declared(config, document), config.mcp) as world:
            if policy is not None:
                load_policy(policy).check(world)
        if said := [*config.mcp, *([str(policy)] if policy else [])]:
            self._add("tools and policy", RIGHT, ", ".join(said))

    def _appears(self, there: Callable[[], bool]) -> None:
        self._until(there, max(0.0, self._patience - (steady.now() - self._begun)))

    def _or_wrong(self, what: str, make: Callable[[], Any], remedy: str = "correct that entry") -> Any:
        try:
            return make()
        except UserError as error:
            self._add(what, WRONG, str(error), remedy)
            return None

    # ------------------------------------------------------------------ servers

    def _skill(self, verb: str, entry: SkillEntry, *, where: str) -> None:
        what = f"skill '{verb}'"
        mapped = self._or_wrong(what, lambda: MappedSkill(entry, where, entry.declared(verb)))
        for leg in [] if mapped is None else mapped.legs:
            of = ", ".join(filter(None, (what, leg.step, "check" if leg.checks else "")))
            self._there(of, leg.call.entry)
            if leg.cancel is not None:
                self._there(f"{of}, cancel", leg.cancel.entry)

    def _there(self, what: str, entry: CallEntry) -> bool:
        if entry.kind in ("wait_for", "camera"):
            heard = bool(self._published(what, entry.server, entry.type))
        elif entry.kind == "publish":
            heard = self._is_heard(what, entry.server, entry.type)
        else:
            return self._server(what, entry.action, entry.service, entry.type)
        if heard:
            self._add(what, RIGHT, f"{self._node.resolve_topic_name(entry.server)} ({entry.type})")
        return heard

    def _is_heard(self, what: str, topic: str, kind: str) -> bool:
        full = self._node.resolve_topic_name(topic)
        self._appears(lambda: bool(self._node.get_subscriptions_info_by_topic(full)))
        hearers = self._node.get_subscriptions_info_by_topic(full)
        fitting = [one for one in hearers if one.topic_type == kind]
        if not hearers:
            topics = dict(self._node.get_topic_names_and_types())
            alike = [name for name, kinds in topics.items() if kind in kinds and self._node.count_subscribers(name)]
            said = f"nobody hears {full} (for {self._patience:g} s)"
            self._add(what, WRONG, said, f"start who hears it{_perhaps(full, alike)}")
        elif not fitting:
            others = sorted({one.topic_type for one in hearers})
            self._add(what, WRONG, another_type(full, others, kind), f"write type: {others[0]}, with its fields")
        elif all(_latched(one.qos_profile) for one in fitting):
            said = f"{full} is heard as a latched topic alone, and a skill's message is not latched"
            self._add(what, WRONG, said, "let its node hear it as volatile")
        else:
            return True
        return False

    def _server(self, what: str, action: str, service: str, kind: str) -> bool:
        full = self._node.resolve_topic_name(action) if action else self._node.resolve_service_name(service)
        word = "action" if action else "service"
        self._appears(lambda: full in self._offered(action))
        offered = self._offered(action)
        if full not in offered:
            remedy = _perhaps(full, [name for name, kinds in offered.items() if kind in kinds])
            self._add(what, WRONG, f"there is no {word} {full} (for {self._patience:g} s)", f"start its server{remedy}")
        elif unlike := another_type(full, offered[full], kind):
            self._add(what, WRONG, unlike, f"write type: {', '.join(offered[full])}, with its fields")
        elif (answering := self._calls.count(f"{full}/_action/send_goal" if action else full)) > 1:
            self._add(what, WRONG, f"{answering} servers answer to {full}", "end all but one, or use namespaces")
        else:
            self._add(what, RIGHT, f"{full} ({kind})")
            return True
        return False

    def _offered(self, action: str) -> Mapping[str, Sequence[str]]:
        listed = get_action_names_and_types(self._node) if action else self._node.get_service_names_and_types()
        return dict(listed)

    # ------------------------------------------------------------------ topics

    def _published(self, what: str, topic: str, kind: str) -> list[Any]:
        full = self._node.resolve_topic_name(topic)
        self._appears(lambda: bool(self._node.get_publishers_info_by_topic(full)))
        publishers = self._node.get_publishers_info_by_topic(full)
        if not publishers:
            topics = dict(self._node.get_topic_names_and_types())
            alike = [name for name, kinds in topics.items() if kind in kinds and self._node.count_publishers(name)]
            said = f"nobody publishes {full} (for {self._patience:g} s)"
            self._add(what, WRONG, said, f"start who publishes it{_perhaps(full, alike)}")
            return []
        others = sorted({one.topic_type for one in publishers} - {kind})
        if others:
            self._add(what, WRONG, another_type(full, others, kind), f"write type: {others[0]}, with its field")
            return []
        return list(publishers)

    def _stop(self, entry: StopEntry | None, *, where: str) -> None:
        what = "emergency stop"
        if entry is None:
            self._add(what, NOTE, "there is none: nothing but a cancel stops the robot")
            return
        stop = self._or_wrong(what, lambda: EmergencyStop(self._node, entry, where=where))
        if stop is None:
            return
        full = self._node.resolve_topic_name(entry.topic)
        if entry.fail_open and not self._node.count_publishers(full):
            self._add(what, NOTE, f"nobody publishes {full}, and fail_open lets the robot move all the same")
        elif publishers := self._published(what, entry.topic, entry.type):
            stop.listen()  # not before: some middleware refuses a subscription of another type
            try:
                self._heard_stop(stop, entry, publishers)
            finally:
                stop.close()

    def _heard_stop(self, stop: EmergencyStop, entry: StopEntry, publishers: list[Any]) -> None:
        what, full = "emergency stop", self._node.resolve_topic_name(entry.topic)
        if entry.latched and (volatile := [one for one in publishers if not _latched(one.qos_profile)]):
            who = ", ".join(sorted({one.node_name for one in volatile}))
            remedy = "publish it reliable and transient local, or write silent_for: SECONDS instead of latched: true"
            self._add(what, WRONG, f"{full} is not latched by {who}: a press before the start would be missed", remedy)
            return
        self._until(lambda: "not been heard yet" not in stop.engaged(), self._patience)
        if entry.silent_for:
            self._until(lambda: False, min(2 * entry.silent_for, self._patience))
        engaged = stop.engaged()
        if "silent" in engaged or "not been heard" in engaged:
            self._add(what, WRONG, engaged, "have it published more often than silent_for, or raise that")
        elif engaged:
            self._add(what, NOTE, f"{engaged}: nothing moves until it is released")
        else:
            self._add(what, RIGHT, f"{full}: released")

    def _battery(self, config: RobotConfig, *, where: str) -> None:
        what, entry = "battery", config.battery
        battery = self._or_wrong(what, lambda: Battery(self._node, entry, where=config.at(where, what)))
        if entry is None or battery is None or not self._published(what, entry.topic, entry.type):
            return
        battery.listen()
        heard = self._until(lambda: "not heard" not in battery.in_words(), self._patience)
        low, level = battery.too_low(), battery.in_words()
        battery.close()
        if not heard:
            self._add(
                what, WRONG, f"{entry.topic} says no level for {self._patience:g} s", "name its field, or leave it out"
            )
        elif low:
            self._add(what, WRONG, low, "charge it, or lower least")
        else:
            self._add(what, RIGHT, f"{level}, {entry.least:g} is too little")

    def _conditions(self, config: RobotConfig, *, where: str) -> None:
        heard: dict[str, Condition] = {}
        for name, entry in config.conditions.items():
            what, at = f"condition '{name}'", config.at(where, "conditions", name)
            condition = self._or_wrong(what, partial(Condition, self._node, entry, where=at))
            if condition is not None and self._published(what, entry.topic, entry.type):
                condition.listen()
                heard[what] = condition
        self._until(lambda: all(one.holds() is not None for one in heard.values()), self._patience)
        for what, condition in heard.items():
            if condition.holds() is None:
                said = f"{condition.in_words()}: nothing was heard for {self._patience:g} s"
                self._add(what, NOTE, said, "publish it latched or again and again, unless each change is enough")
            else:
                self._add(what, RIGHT, condition.in_words())
            condition.close()

    def _trigger(self, name: str, entry: TriggerEntry) -> None:
        what, said = f"trigger '{name}'", f"{entry.occasion}: {entry.instruction!r}"
        now = self._node.get_clock().now().nanoseconds / 1e9
        if entry.when or Occasions(entry, now).next is not None:
            self._add(what, RIGHT, said)
        else:
            self._add(what, NOTE, f"{said} is over, and starts nothing any more", "name another day, or remove it")

    # ------------------------------------------------------------------ where things are

    def _perceived(self, config: RobotConfig, perception: Perception, *, where: str) -> None:
        if config.map_topic and not self._map_comes(config, perception):
            return
        map = perception.map
        assert map is not None
        places = f"{len(map.rooms)} rooms, {len(list(map.receptacles()))} receptacles in frame '{map.frame}'"
        self._add("map", RIGHT, places)
        self._robot(config, perception, map)
        self._detections(config, perception, map)
        if config.reach is None:
            self._add("places", NOTE, "not looked at: reach names nobody who plans a path")
            return
        entry = config.reach
        planner = self._or_wrong("places", lambda: MappedCall(entry, config.at(where, "reach")))
        if planner is not None and self._there("path planner", entry):
            self._places(planner, perception, map)

    def _map_comes(self, config: RobotConfig, perception: Perception) -> bool:
        publishers = self._published("map", config.map_topic, "std_msgs/msg/String")
        if not publishers:
            return False
        if not all(_latched(one.qos_profile) for one in publishers):
            remedy = "publish it reliable and transient local"
            self._add(
                "map", WRONG, f"{config.map_topic} is not latched: the bridge would wait for the next one", remedy
            )
            return False
        if not self._until(lambda: perception.map is not None, self._patience):
            self._add("map", WRONG, f"what {config.map_topic} says is no map; the log says why", "correct the map")
            return False
        return True

    def _robot(self, config: RobotConfig, perception: Perception, map: SemanticMap) -> None:
        what = "where it is"
        if config.pose is not None and not self._published(what, config.pose.topic, config.pose.type):
            return
        begin = steady.now()

        def known() -> bool:
            perception.look(forget=False)
            return map.robot is not None

        if not self._until(known, self._patience):
            if config.pose is None:
                frames = ", ".join(perception.frames()) or "none"
                said = f"tf has no transform from '{config.base_frame}' to '{map.frame}'; its frames are {frames}"
                self._add(what, WRONG, said, "start localization, or correct base_frame or the map's frame")
            else:
                said = f"{config.pose.topic} says no pose that tf can bring to '{map.frame}'"
                self._add(what, WRONG, said, "name the pose's field and frame")
            return
        at = map.robot
        assert at is not None
        place = f"x {at.x:.2f}, y {at.y:.2f}, known after {steady.now() - begin:.1f} s"
        if any(room.surrounds(at) for room in map.rooms if hasattr(room, "surrounds")):
            self._add(what, RIGHT, f"{place}, in the {map.agent_room.name}")
        else:
            remedy = "localize it, or correct the rooms' outlines, unless it stands in a hallway"
            self._add(what, NOTE, f"{place}: in no room of the map", remedy)

    def _detections(self, config: RobotConfig, perception: Perception, map: SemanticMap) -> None:
        what, detector = "detections", perception.detector
        if detector is None or config.detections is None:
            self._add(what, NOTE, "there are none: only what the map expects is known")
            return
        entry = config.detections
        if not entry.topic:
            self._server(what, entry.action, entry.service, entry.type)
            return
        if not self._published(what, entry.topic, entry.type):
            return
        heard: list[Any] = []
        hears = self._node.create_subscription(detector.kind, entry.topic, heard.append, qos_profile_sensor_data)
        self._until(lambda: bool(heard), self._patience)
        self._node.destroy_subscription(hears)
        if not heard:
            said = f"{entry.topic} was silent for {self._patience:g} s"
            self._add(what, WRONG, said, "see whether the camera and the detector run")
            return
        self._heard_detections(detector, heard[-1], perception, map)

    def _heard_detections(self, detector: DetectionReader, msg: Any, perception: Perception, map: SemanticMap) -> None:
        what, topic = "detections", detector.entry.source
        document = map.document
        classes = sorted(set(detector.classes(msg)))
        unknown = [one for one in classes if not (document.person(one) or document.objects.word_of(one, 1.0))]
        away = [one.frame for one in detector.found(msg, document) if not perception.reaches(one.frame, map.frame)]
        if away:
            remedy = (
                f"publish that transform, or correct the frame: there are {', '.join(perception.frames()) or 'none'}"
            )
            self._add(what, WRONG, f"{topic}: tf has no transform from '{away[0]}' to '{map.frame}'", remedy)
        elif classes and unknown == classes:
            remedy = "write them under objects.classes of the map, each with a word"
            self._add(what, WRONG, f"{topic}: the map has a word for none of its classes {', '.join(classes)}", remedy)
        else:
            more = f"; of no interest: {', '.join(unknown)}" if unknown else ""
            self._add(what, RIGHT, f"{topic}: {', '.join(classes) or 'nothing'} seen now{more}")

    # ------------------------------------------------------------------ places

    def _places(self, planner: MappedCall, perception: Perception, map: SemanticMap) -> None:
        name = planner.entry.server
        action = bool(planner.entry.action)
        client: Any = (
            ActionClient(self._node, planner.type, name) if action else self._node.create_client(planner.type, name)
        )
        self._until(client.server_is_ready if action else client.service_is_ready, self._patience)
        things = [*map.rooms, *map.receptacles()]
        try:
            for thing in things:
                try:
                    order = planner.order(values_of(map, _GO_TO.call({"thing": thing.name})))
                except NoValue as error:
                    remedy = "publish the transform of its frame, or correct the place"
                    self._add(f"place '{thing.name}'", WRONG, f"nobody can say its {error}", remedy)
                    continue
                reason = self._planned(client, order)
                if reason:
                    remedy = "correct its pose or its approach on the map, or what the planner takes for an obstacle"
                    self._add(f"place '{thing.name}'", WRONG, f"no path: {reason}", remedy)
        finally:
            client.destroy() if action else self._node.destroy_client(client)
        if not any(one.what.startswith("place '") for one in self._found):
            self._add("places", RIGHT, f"{name} plans a path to each of the {len(things)}")

    def _planned(self, client: Any, order: Order) -> str:
        planner, goal, limit = order.call, order.goal, order.limit
        server, action = planner.entry.server, bool(planner.entry.action)
        asked = client.send_goal_async(goal) if action else client.call_async(goal)
        if not self._until(asked.done, limit):
            return f"{server} did not answer within {limit:g} s"
        if not action:
            return planner.verdict(order, GoalStatus.STATUS_SUCCEEDED, asked.result())[1]
        handle = asked.result()
        if not handle.accepted:
            return f"{server} rejected the goal"
        ended = handle.get_result_async()
        if not self._until(ended.done, limit):
            handle.cancel_goal_async()
            return f"{server} did not end within {limit:g} s"
        return planner.verdict(order, ended.result().status, ended.result().result)[1]


class _Declared(RecordedWorld):
    """A robot as configuration and map say it is, which does nothing."""

    def __init__(self, config: RobotConfig, document: MapDocument | None) -> None:
        super().__init__((), replace(WAH_NL, skills=(*config.declared, *config.waits), actions=()))
        self._document = document
        self.words = () if document is None else (*WORDS, *document.words)

    def names(self, kind: Named) -> Sequence[str] | None:
        return None if self._document is None else self._document.names(kind)


def _perhaps(name: str, others: Sequence[str]) -> str:
    last = name.rpartition("/")[2]
    alike = [one for one in others if one.rpartition("/")[2] == last] or difflib.get_close_matches(name, others)
    return f", or write its name: {' or '.join(sorted(alike)[:3])}" if alike else ""


def _latched(offer: QoSProfile) -> bool:
    reliable = offer.reliability is ReliabilityPolicy.RELIABLE
    return reliable and offer.durability is DurabilityPolicy.TRANSIENT_LOCAL
