"""A robot and its bridge in a test's graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from rclpy.parameter import Parameter
from reactree_interfaces.action import ExecuteSkill
from robot_servers import LATCHED, Robot
from ros_graph import Goal, Graph, activate
from std_msgs.msg import Bool

from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.world.wrappers import unwrapped

CONFIG = Path(__file__).parents[2] / "config"
Result = ExecuteSkill.Result
Change = Callable[[dict[str, Any]], Any]


class House:
    """A robot and its bridge in a test's graph."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        self.graph, self._folder = graph, folder
        self.robot: Any = None
        self.button: Any = None
        self.bridge: Any = None

    def config(self, change: Change = lambda config: None) -> Path:
        """Write a changed config/robot.yaml with the example's map beside it."""
        config = yaml.safe_load((CONFIG / "robot.yaml").read_text())
        change(config)
        (self._folder / "robot.yaml").write_text(yaml.safe_dump(config))
        if not (self._folder / "semantic_map.yaml").exists():
            (self._folder / "semantic_map.yaml").write_text((CONFIG / "semantic_map.yaml").read_text())
        return self._folder / "robot.yaml"

    def change_map(self, change: Change) -> None:
        values = yaml.safe_load((CONFIG / "semantic_map.yaml").read_text())
        change(values)
        (self._folder / "semantic_map.yaml").write_text(yaml.safe_dump(values))

    def add_robot(self, *, alone: bool = False, **kwargs: Any) -> Any:
        self.robot = self.graph.add(Robot(context=self.graph.context, button=False, **kwargs), alone=alone)
        if self.button is None:
            self.button = self.graph.probe.create_publisher(Bool, "/emergency_stop", LATCHED)
            self.press(False)
        return self.robot

    def press(self, pressed: bool) -> None:
        """Press the emergency stop, or release it."""
        self.button.publish(Bool(data=pressed))

    def make_bridge(self, change: Change = lambda config: None, **parameters: Any) -> Any:
        parameters = {"robot_config": str(self.config(change)), "server_timeout": 1.0, "stop_timeout": 1.0} | parameters
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        return RobotBridgeNode(context=self.graph.context, parameter_overrides=overrides)

    def start(
        self,
        change: Change = lambda config: None,
        *,
        stop_heard: bool = True,
        alone: bool = False,
        **parameters: Any,
    ) -> Any:
        """Bring the bridge up; waits until it knows by tf where the robot is, and has heard its emergency stop."""
        self.bridge = self.graph.add(activate(self.make_bridge(change, **parameters)), alone=alone)
        if self.robot is not None:
            self.graph.until(lambda: self.map is None or self.map.robot, "tf is there")
            unheard = "has not been heard yet"
            self.graph.until(lambda: not (stop_heard and unheard in self.stop.engaged()), "the stop is heard")
        return self.bridge

    @property
    def _world(self) -> Any:
        return unwrapped(self.bridge.host.bare)

    @property
    def stop(self) -> Any:
        return self._world._robot.stop

    @property
    def map(self) -> Any:
        return self._world._robot.senses.map

    def skill(self, skill: str) -> Goal:
        return self.graph.skill(skill, to="robot_bridge")

    def does(self, *skills: str) -> Any:
        """Carry skills out, each with success; returns the last result."""
        for skill in skills:
            result = self.skill(skill).result
            assert result.outcome == Result.DONE, (skill, result.message)
        return result

    def goes(self, behaviour: str) -> Goal:
        """Send the robot off with Nav2 behaving somehow; returns when it is on its way."""
        self.robot.behave["navigate_to_pose"] = [behaviour]
        before = len(self.robot.log)
        goal = self.skill("go to bed 1")
        self.graph.until(lambda: f"navigate_to_pose: {behaviour}" in self.robot.log[before:], "the robot is on its way")
        return goal


def in_skill(verb: str, **entries: Any) -> Change:
    return lambda config: config["skills"][verb].update(entries)
