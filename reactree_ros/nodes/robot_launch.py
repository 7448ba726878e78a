"""The robot of a launch: one of those that come with the package, by its name, with the nodes of its own."""

from __future__ import annotations

import os
from pathlib import Path

from launch import LaunchContext  # type: ignore[attr-defined]  # not the folder launch/
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from reactree_ros.errors import UserError
from reactree_ros.nodes.launching import Arguments, Beside, NodeArguments
from reactree_ros.world.robot.config import StartEntry, load_robot

#: The argument that names a robot.
ROBOT = ("robot", "", "a robot that comes with the package, e.g. pyrobosim, instead of a robot_config", ())


def robot_beside(context: LaunchContext, arguments: Arguments, bridge: NodeArguments) -> Beside:
    """Return the nodes that a robot's configuration starts; and that configuration, where a robot is named.

    Raises:
        ValueError: There is no such robot, or its configuration is wrong.
    """
    name, given = arguments.own(context, ROBOT[0]), arguments.given(context, bridge).get("robot_config", "")
    if name and given:
        raise ValueError(f"robot is '{name}' and robot_config is '{given}'; give one of them")
    path = _config_of(name, Path(FindPackageShare("reactree_ros").perform(context))) if name else given
    if not path:
        return Beside()
    try:
        started = load_robot(path).start
    except UserError as error:
        raise ValueError(str(error)) from None
    nodes = [_node(entry, context, arguments) for entry in started]
    return Beside({"robot_config": str(path)} if name else {}, nodes)


def _config_of(name: str, share: Path) -> Path:
    folder = share / "config" / "robots"
    path = folder / f"{name}.yaml"
    known = sorted(one.stem for one in folder.glob("*.yaml") if not one.stem.endswith("_map"))
    if name not in known:
        raise ValueError(f"there is no robot '{name}'; there is {', '.join(known)}")
    return path


def _node(entry: StartEntry, context: LaunchContext, arguments: Arguments) -> Node:
    unset = {name: value for name, value in entry.environment.items() if name not in os.environ}
    common = arguments.kept(context) | {"package": entry.package}
    return Node(executable=entry.executable, parameters=[entry.parameters], additional_env=unset, **common)
