"""The robots of a launch, the user's or one of this package, with the nodes that they start."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from launch import LaunchContext  # type: ignore[attr-defined]  # not the folder launch/
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare
from rclpy.exceptions import InvalidNamespaceException
from rclpy.validate_namespace import validate_namespace

from reactree_ros.errors import UserError
from reactree_ros.nodes.launching import Arguments, NodeArguments, Robots, before_others
from reactree_ros.robot.config import RobotConfig, StartEntry, load_robot

#: Launch arguments that name one robot, or several.
ROBOT = ("robot", "", "a robot of this package, e.g. pyrobosim, instead of a robot_config", ())
ROBOTS = (
    "robots",
    "",
    "several robots instead of one, each with its robot_config and a bridge in a namespace of its name, "
    "e.g. tall=/robots/tall.yaml,small=/robots/small.yaml",
    (),
)


def robots_of(context: LaunchContext, arguments: Arguments, bridge: NodeArguments) -> Robots:
    """Return the robots of a launch, with the nodes that their configurations start."""
    given = {
        "robot": arguments.own(context, ROBOT[0]),
        "robots": arguments.own(context, ROBOTS[0]),
        "robot_config": arguments.given(context, bridge).get("robot_config", ""),
    }
    said = [f"{name} is '{value}'" for name, value in given.items() if value]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)}; give one of them")
    if given["robots"]:
        configs = _configs_of(given["robots"])
        bridges = {name: {"robot_config": path} for name, path in configs.items()}
        loaded = _loaded(configs.values())
        if own := next((path for path, config in loaded.items() if config.triggers), ""):
            raise ValueError(f"{own} has triggers, which are for one robot alone; leave them out")
        if len(voices := _voices(loaded)) > 1:
            raise ValueError(f"{' and '.join(voices)} have a voice, which only one of several robots may have")
        return Robots(bridges, list(configs), _started(loaded, context, arguments))
    path = given["robot_config"]
    if name := given["robot"]:
        path = str(_config_of(name, Path(FindPackageShare("reactree_ros").perform(context))))
    loaded = _loaded(filter(None, [path]))
    return Robots(
        {"": {"robot_config": path} if name else {}},
        nodes=_started(loaded, context, arguments),
        planner={"triggers": path} if any(config.triggers for config in loaded.values()) else {},
    )


def _configs_of(robots: str) -> dict[str, str]:
    configs: dict[str, str] = {}
    for one in robots.split(","):
        name, _, path = (part.strip() for part in one.partition("="))
        if not (name and path):
            raise ValueError(f"robots is '{robots}'; '{one}' is not NAME=CONFIG")
        if name in configs:
            raise ValueError(f"robots is '{robots}'; there are two called '{name}'")
        try:
            validate_namespace(f"/{name}")
        except InvalidNamespaceException as error:
            raise ValueError(f"robots is '{robots}'; '{name}' is no namespace: {error}") from None
        configs[name] = path
    if len(configs) < 2:
        raise ValueError(f"robots is '{robots}'; one robot alone is a robot_config")
    return configs


def _loaded(paths: Iterable[str]) -> Mapping[str, RobotConfig]:
    try:
        return {path: load_robot(path) for path in paths}
    except UserError as error:
        raise ValueError(str(error)) from None


def _voices(loaded: Mapping[str, RobotConfig]) -> list[str]:
    return [path for path, config in loaded.items() if config.voice is not None]


def _started(loaded: Mapping[str, RobotConfig], context: LaunchContext, arguments: Arguments) -> list[Node]:
    entries: list[StartEntry] = []
    for config in loaded.values():
        entries += [entry for entry in config.start if entry not in entries]
    voices = (["--robot-config", path] for path in _voices(loaded))
    return [
        *(_node(entry, context, arguments) for entry in entries),
        *(Node(executable="voice", arguments=given, **arguments.kept(context)) for given in voices),
    ]


def _config_of(name: str, share: Path) -> Path:
    folder = share / "config" / "robots"
    path = folder / f"{name}.yaml"
    known = sorted(one.stem for one in folder.glob("*.yaml") if not one.stem.endswith("_map"))
    if name not in known:
        raise ValueError(f"there is no robot '{name}'; there is {', '.join(known)}")
    return path


def _node(entry: StartEntry, context: LaunchContext, arguments: Arguments) -> Node:
    unset = {name: value for name, value in entry.environment.items() if name not in os.environ}
    own = {"package": entry.package, "additional_env": unset, "exec_name": entry.executable, "prefix": before_others()}
    return Node(executable=entry.executable, parameters=[entry.parameters], **(arguments.kept(context) | own))
