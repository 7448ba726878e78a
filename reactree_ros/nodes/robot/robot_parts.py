"""What a robot is made of in the ROS graph: servers, perception, emergency stop, battery and detector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.llm.eyes import Eyes
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.mapped_skill import MappedSkill
from reactree_ros.nodes.robot.robot_perception import DetectorClient, KeptSightings, Perception, Prompts
from reactree_ros.nodes.robot.robot_servers import Servers
from reactree_ros.nodes.robot.robot_topics import Battery, Conditions, EmergencyStop, Names
from reactree_ros.robot.config import ChargeEntry, RobotConfig
from reactree_ros.robot.detections import named_in
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Observation, Outcome, WorldError

#: Time before charging that failed is tried again, in seconds; after so many tries a person has to see to it.
AGAIN, TRIES = 10.0, 3


class RobotParts:
    """A robot's parts, of which some may be away.

    Args:
        eyes: Who looks at pictures, if skills are checked by some.
        server_timeout: How long a server may be away, or take to accept a goal, in seconds.
        stop_timeout: How long a goal may take to stop after its time limit or an emergency stop, in seconds.
        kept: Keeps what is seen from start to start; None: nothing is kept.
    """

    def __init__(
        self,
        node: Node,
        config: RobotConfig,
        mapped: Iterable[MappedSkill],
        heartbeat: Heartbeat,
        *,
        where: str,
        dry_run: bool,
        eyes: Eyes | None,
        server_timeout: float,
        stop_timeout: float,
        kept: KeptSightings | None,
    ) -> None:
        self.node, self.config, self.dry_run, self.eyes = node, config, dry_run, eyes
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
        self.prompts: Prompts | None = None
        detector, heard, ended = self.senses.detector, self.senses.note, self.senses.looked
        if not dry_run and detector is not None and not detector.entry.topic:
            self.looks = DetectorClient(node, self._calls, detector, heartbeat, heard=heard, ended=ended)
        calls = [] if dry_run else [call for one in mapped for call in one.calls]
        self.servers = Servers(node, self._calls, calls, heartbeat, stop_timeout=stop_timeout)
        if not dry_run and detector is not None and detector.entry.prompts is not None:
            at = config.at(where, "detections", "prompts")
            self.prompts = Prompts(node, self._calls, detector.entry.prompts, self.looks, where=at)

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
        self._calls.watch()
        if self.looks is not None:
            self.looks.watch()
        self.servers.watch()

    def lacks(self) -> str:
        away = [*self.servers.away(), *(one.lacks() for one in (self.looks, self.prompts) if one is not None)]
        unlike = [*self.senses.mismatches(), *self.conditions.mismatches()]
        if self.senses.map is None and not any(self.config.map_topic in one for one in unlike):
            away.append(self._no_map())
        return "; ".join(filter(None, [*away, *unlike, self.stop.mismatch(), self.battery.mismatch()]))

    def status(self) -> Mapping[str, str]:
        return {
            "emergency stop": self.stop.in_words(),
            "battery": self.battery.in_words(),
            "conditions": self.conditions.in_words() or "none",
            **self.servers.status(),
            "map": "there is none yet" if self.senses.map is None else f"in frame '{self.senses.map.frame}'",
        }

    def close(self) -> None:
        for one in (self.senses, self.stop, self.battery, self.conditions, self.looks, self.prompts, self.servers):
            if one is not None:
                one.close()


class Charging:
    """Carries out the skill by which a robot charges when its battery is low, and has tasks hold until it is full.

    Args:
        entry: What is done; None: nothing.
        begin: Carries a skill out, whatever the battery's level.
    """

    def __init__(
        self, battery: Battery, entry: ChargeEntry | None, begin: Callable[[str], Pending[Observation]], log: Any
    ) -> None:
        self._battery, self._entry, self._begin, self._log = battery, entry, begin, log
        self._needed = self._charges = False
        self._underway: Pending[Observation] | None = None
        self._tries, self._again_at, self._failed = 0, 0.0, ""

    def reason(self) -> str:
        """Say why nothing else may begin; empty if it may."""
        if self._entry is None or not (self._needed or self._underway):
            return ""
        now = self._failed.rstrip(".") or f"'{self._entry.skill}' is next"
        if self._underway is not None:
            now = f"'{self._entry.skill}' is carried out"
        elif self._charges:
            now = f"it is charged up to {self._entry.until:g}"
        return f"the battery is at {self._battery.level:.3g}: {now}"

    def emergency(self) -> str:
        """Say that a person has to have the robot charged; empty if it does so itself."""
        return self.reason() if self._tries >= TRIES else ""

    def look(self, *, active: bool, free: bool) -> None:
        """Go on; to be called regularly.

        Args:
            active: Whether the robot may do anything at all.
            free: Whether nothing else is under way or in the way.
        """
        entry, level = self._entry, self._battery.level
        if entry is None:
            return
        if not self._needed and level < entry.below:
            self._log.warning(f"the battery is at {level:.3g}: '{entry.skill}' is carried out, and tasks hold")
            self._needed, self._charges, self._tries, self._again_at, self._failed = True, False, 0, 0.0, ""
        elif self._needed and level >= entry.until:
            self._log.info(f"the battery is at {level:.3g}: tasks go on")
            self._needed, self._tries = False, 0
        if self._underway is not None:
            self._follow(self._underway, active=active)
            return
        may_try = self._tries < TRIES and steady.now() >= self._again_at
        if self._needed and not self._charges and active and free and may_try:
            self._battery.charges = True
            self._underway = self._begin(entry.skill)

    def _follow(self, underway: Pending[Observation], *, active: bool) -> None:
        if not active:
            underway.cancel()
        if not underway.done():
            return
        self._underway, self._battery.charges = None, False
        if underway.cancelled():
            return
        try:
            seen = underway.take()
        except Exception as error:
            self._fail(str(error) or type(error).__name__)
            return
        self._charges = seen.outcome is Outcome.DONE
        if seen.outcome not in (Outcome.DONE, Outcome.HALTED):  # what was halted goes on when it may
            self._fail(seen.text)

    def _fail(self, reason: str) -> None:
        self._failed, self._tries, self._again_at = reason, self._tries + 1, steady.now() + AGAIN
        self._log.error(f"the robot does not charge: {reason}")

    def close(self) -> None:
        if self._underway is not None:
            self._underway.cancel()
