"""A robot and its bridge in a test's graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rclpy.parameter import Parameter
from reactree_interfaces.action import ExecuteSkill
from robot_servers import LATCHED, Robot
from ros_graph import Goal, Graph, activate
from std_msgs.msg import Bool

from reactree_ros.errors import UserError
from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.world.wrappers import unwrapped

CONFIG = Path(__file__).parents[2] / "config"
#: What robots have besides config/robot.yaml.
SKILLS = yaml.safe_load((Path(__file__).parent / "skills.yaml").read_text())
Result = ExecuteSkill.Result
Change = Callable[[dict[str, Any]], Any]


class House:
    def __init__(self, graph: Graph, folder: Path) -> None:
        self.graph, self.folder = graph, folder
        self.robot: Any = None
        self.button: Any = None
        self.bridge: Any = None

    def config(self, change: Change = lambda config: None) -> Path:
        config = yaml.safe_load((CONFIG / "robot.yaml").read_text())
        change(config)
        (self.folder / "robot.yaml").write_text(yaml.safe_dump(config))
        if not (self.folder / "semantic_map.yaml").exists():
            (self.folder / "semantic_map.yaml").write_text((CONFIG / "semantic_map.yaml").read_text())
        return self.folder / "robot.yaml"

    def change_map(self, change: Change) -> None:
        values = yaml.safe_load((CONFIG / "semantic_map.yaml").read_text())
        change(values)
        (self.folder / "semantic_map.yaml").write_text(yaml.safe_dump(values))

    def add_robot(self, *, alone: bool = False, **kwargs: Any) -> Any:
        self.robot = self.graph.add(Robot(context=self.graph.context, button=False, **kwargs), alone=alone)
        if self.button is None:
            self.button = self.graph.probe.create_publisher(Bool, "/emergency_stop", LATCHED)
            self.press(False)
        return self.robot

    def press(self, pressed: bool) -> None:
        self.button.publish(Bool(data=pressed))

    def make_bridge(self, change: Change = lambda config: None, *, namespace: str = "", **parameters: Any) -> Any:
        parameters = {"robot_config": str(self.config(change)), "server_timeout": 1.0, "stop_timeout": 1.0} | parameters
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        return RobotBridgeNode(context=self.graph.context, namespace=namespace, parameter_overrides=overrides)

    def start(
        self, change: Change = lambda config: None, *, stop_heard: bool = True, alone: bool = False, **parameters: Any
    ) -> Any:
        """Bring the bridge up; waits until it knows by tf where the robot is, and has heard its emergency stop."""
        self.bridge = self.graph.add(activate(self.make_bridge(change, **parameters)), alone=alone)
        if self.robot is not None:
            self.until(lambda: self.map is None or self.map.robot, "tf is there")
            unheard = "has not been heard yet"
            self.until(lambda: not (stop_heard and unheard in self.stop.engaged()), "the stop is heard")
        return self.bridge

    def refused(self, change: Change, **parameters: Any) -> str:
        """Return why a robot with a changed robot.yaml cannot be hosted."""
        node = self.graph.add(self.make_bridge(change, **parameters))
        with pytest.raises(UserError) as refused:
            node.load()
        return str(refused.value)

    @property
    def world(self) -> Any:
        return unwrapped(self.bridge.host.bare)

    @property
    def parts(self) -> Any:
        return self.world._robot

    @property
    def errand(self) -> Any:
        return next(reversed(self.world._under_way), None)

    @property
    def stop(self) -> Any:
        return self.parts.stop

    @property
    def map(self) -> Any:
        return self.parts.senses.map

    def until(self, condition: Callable[[], Any], what: str = "the condition holds") -> None:
        self.graph.until(condition, what)

    def skill(self, skill: str) -> Goal:
        return self.graph.skill(skill, to="robot_bridge")

    def does(self, *skills: str) -> Any:
        for skill in skills:
            result = self.skill(skill).result
            assert result.outcome == Result.DONE, (skill, result.message)
        return result

    def fails(self, skill: str) -> tuple[int, str]:
        result = self.skill(skill).result
        return result.outcome, result.message

    def begins(self, skill: str, server: str, behaviour: str) -> Goal:
        self.robot.behave[server] = [behaviour]
        before = len(self.robot.log)
        goal = self.skill(skill)
        self.until(lambda: f"{server}: {behaviour}" in self.robot.log[before:], f"{skill} is under way")
        return goal

    def goes(self, behaviour: str) -> Goal:
        return self.begins("go to bed 1", "navigate_to_pose", behaviour)


def in_skill(verb: str, **entries: Any) -> Change:
    return lambda config: config["skills"][verb].update(entries)


def top(**entries: Any) -> Change:
    return lambda config: config.update(entries)


def stop(**entries: Any) -> Change:
    return lambda config: config["emergency_stop"].update(entries)
