"""What a robot is made of in the ROS graph: servers, perception, emergency stop, battery and detector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rclpy.node import Node

from reactree_ros.llm.eyes import Eyes
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.emergency_stop import EmergencyStop
from reactree_ros.nodes.robot.mapped_skill import MappedSkill
from reactree_ros.nodes.robot.robot_conditions import Conditions
from reactree_ros.nodes.robot.robot_detector import DetectorClient, Prompts
from reactree_ros.nodes.robot.robot_memory import KeptSightings
from reactree_ros.nodes.robot.robot_perception import Perception
from reactree_ros.nodes.robot.robot_servers import Servers
from reactree_ros.nodes.robot.robot_topics import Battery, Names
from reactree_ros.robot.config import RobotConfig
from reactree_ros.robot.detections import named_in
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import WorldError


class RobotParts:
    """A robot's parts, of which some may be away.

    Args:
        mapped: The skills whose servers are used.
        asks: Whether the robot's detector is asked.
        eyes: Who looks at pictures; None: nobody.
        kept: Keeps what is seen from start to start; None: nothing is kept.

    Raises:
        UserError: A mapping does not fit its type, or the map cannot be used.

    Attributes:
        looks: Asks the robot's detector; None if that speaks by itself, or there is none.
    """

    def __init__(
        self,
        node: Node,
        config: RobotConfig,
        mapped: Iterable[MappedSkill],
        heartbeat: Heartbeat,
        *,
        where: str,
        asks: bool,
        eyes: Eyes | None,
        server_timeout: float,
        stop_timeout: float,
        kept: KeptSightings | None = None,
    ) -> None:
        self.node, self.config, self.eyes = node, config, eyes
        self.server_timeout, self.stop_timeout = server_timeout, stop_timeout
        document = load_map(config.map) if config.map else None
        self.stop = EmergencyStop(node, config.emergency_stop, where=where)
        self.senses = Perception(node, config, document, where=where, kept=kept)
        self.battery = Battery(node, config.battery, where=config.at(where, "battery"))
        self.conditions = Conditions(node, config, where=where)
        for topics in (self.stop, self.battery, self.conditions):
            topics.listen()
        self._calls = Calls(node, patience=server_timeout)
        self.looks: DetectorClient | None = None
        detector, heard, ended = self.senses.detector, self.senses.note, self.senses.looked
        if asks and detector is not None and not detector.entry.topic:
            self.looks = DetectorClient(node, self._calls, detector, heartbeat, heard=heard, ended=ended)
        calls = (call for one in mapped for call in one.calls)
        self.servers = Servers(node, self._calls, calls, heartbeat)
        entry, at = config.detections, config.at(where, "detections", "prompts")
        told = None if entry is None or not asks else entry.prompts
        self.prompts = None if told is None else Prompts(node, self._calls, told, self._take_names, where=at)

    def _take_names(self, names: Names) -> None:
        if self.looks is not None:
            self.looks.names = names

    def attend(self, goal: str) -> None:
        """Have the detector look for what a goal names, besides all that the map has words for."""
        if self.prompts is None or self.senses.map is None:
            return
        map, document = self.senses.map, self.senses.map.document
        stay = [thing.name for thing in (*map.rooms, *map.receptacles(), *map.persons)]
        words = (*named_in(goal, stay), *document.objects.classes.values())
        self.prompts.tell(Names(dict.fromkeys(words)))

    def map(self) -> SemanticMap:
        """Return the semantic map.

        Raises:
            WorldError: There is none yet.
        """
        if self.senses.map is None:
            raise WorldError(self._no_map())
        return self.senses.map

    def _no_map(self) -> str:
        return f"there is no semantic map on {self.config.map_topic} yet"

    def watch(self) -> None:
        """Look after what is under way; to be called regularly."""
        self._calls.watch()
        if self.looks is not None:
            self.looks.watch()
        self.servers.watch(self.stop_timeout)

    def lacks(self) -> str:
        """Say which of the robot's servers are not there, whether a map is missing, and what is of another type."""
        away = self.servers.away()
        if self.looks is not None and self.senses.detector is not None:
            entry = self.senses.detector.entry
            away.append(self.looks.server.lacks(entry.type, "of the detector"))
        if self.prompts is not None:
            away.append(self.prompts.lacks())
        unlike = [*self.senses.mismatches(), *self.conditions.mismatches()]
        if self.senses.map is None and not any(self.config.map_topic in one for one in unlike):
            away.append(self._no_map())
        return "; ".join(filter(None, [*away, *unlike, self.stop.mismatch(), self.battery.mismatch()]))

    def status(self) -> Mapping[str, str]:
        """Say how emergency stop, battery, servers and map are."""
        return {
            "emergency stop": self.stop.in_words(),
            "battery": self.battery.in_words(),
            "conditions": self.conditions.told() or "none",
            **self.servers.status(),
            "map": "there is none yet" if self.senses.map is None else f"in frame '{self.senses.map.frame}'",
        }

    def close(self) -> None:
        self.senses.close()
        self.stop.close()
        self.battery.close()
        self.conditions.close()
        if self.looks is not None:
            self.looks.close()
        if self.prompts is not None:
            self.prompts.close()
        self.servers.close()
