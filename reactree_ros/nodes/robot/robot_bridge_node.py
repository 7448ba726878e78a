"""The robot bridge: hosts a robot by its own action servers and services and a semantic map."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from reactree_ros.episode.eyes import with_eyes
from reactree_ros.llm.eyes import Eyes
from reactree_ros.llm.spec import model_from_dict
from reactree_ros.nodes.bridge.bridge import Bridge
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.robot.mapped_skill import MappedSkill
from reactree_ros.nodes.robot.robot_parts import RobotParts
from reactree_ros.nodes.robot.robot_perception import KeptSightings
from reactree_ros.nodes.robot.robot_world import RobotWorld
from reactree_ros.nodes.settings import RobotBridgeSettings
from reactree_ros.nodes.spinning import run_node
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.world.port import World
from reactree_ros.world.spec import ROBOT
from reactree_ros.world.tool_servers import check_programs, with_tools


class RobotBridgeNode(Bridge):
    """Hosts a robot; its endpoints are those of :class:`reactree_ros.nodes.bridge.bridge.Bridge`.

    Uses:
        the action servers and services that ``robot_config`` names; the language model that its ``vision`` names,
        which gets pictures; and the MCP servers that its ``mcp`` names.

    Publishes:
        the topics that ``robot_config`` names for skills (any type; reliable).

    Subscribes to:
        ``/tf`` and ``/tf_static``; and the topics that ``robot_config`` names: of detections
        (vision_msgs/Detection3DArray; best effort), of the map (std_msgs/String with its YAML; transient local), of the
        battery, of emergency stop and conditions, and those that a skill waits for, while it does (any type,
        reliability and durability).

    Parameters:
        those of :class:`RobotBridgeSettings` and of every bridge, read at configuration.
    """

    def __init__(self, name: str = "robot_bridge", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        declare(self, RobotBridgeSettings)

    def load(self) -> World:
        settings = settings_of(self, RobotBridgeSettings)
        config = load_robot(settings.robot_config)
        check_programs(config.mcp, partial(config.at, settings.robot_config))
        where = config.at(settings.robot_config, "vision")
        vision = None if config.vision is None else model_from_dict(config.vision, where=where)
        return with_tools(lambda: with_eyes(lambda eyes: self._robot(settings, config, eyes), vision, {}), config.mcp)

    def _robot(self, settings: RobotBridgeSettings, config: RobotConfig, eyes: Eyes | None) -> RobotWorld:
        kept, log, robot = self.host.kept(), self.get_logger(), self.get_namespace().strip("/")
        where = settings.robot_config
        mapped = {
            skill.name: MappedSkill(config.skills[skill.name], config.at(where, "skills", skill.name), skill)
            for skill in config.declared
        }
        parts = RobotParts(
            *(self, config, mapped.values(), self.heartbeat),
            where=where,
            dry_run=settings.dry_run,
            eyes=eyes,
            server_timeout=settings.server_timeout,
            stop_timeout=self._settings.stop_timeout,
            kept=None if kept is None else KeptSightings(kept, robot, log.warning),
        )
        return RobotWorld(parts, mapped, file=Path(where).name, active=lambda: self.host.active)

    def about(self) -> Mapping[str, Any]:
        settings = settings_of(self, RobotBridgeSettings).model_dump(mode="json", exclude_defaults=True)
        return {"name": ROBOT, "settings": settings}


def main() -> None:
    run_node(RobotBridgeNode)


if __name__ == "__main__":
    main()
