"""What the launch files of the package share: planner, bridge and inference node, brought up, given an instruction."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription  # type: ignore[attr-defined]  # not the folder launch/
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit, OnShutdown
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

#: Arguments of whatever is launched with a planner: name, default, description.
DECIDING = [
    ("llm", "expert", "who decides: expert (rule-based, no language model), openai, vllm, transformers or fallback"),
    ("model", "", "name or folder of the language model; with a server, empty: the first one that it has"),
    ("base_url", "", "of an OpenAI-compatible server; empty: $OPENAI_BASE_URL (its key: $OPENAI_API_KEY)"),
    ("api_key_file", "", "file with the server's key, instead of $OPENAI_API_KEY"),
    ("models_file", "", "YAML file with every setting of one or several language models"),
    ("start_inference", "true", "start an inference node; false: one runs elsewhere (inference.launch.py)"),
    ("planner", "reactree", "planner by name, e.g. reactree, react; with options where it has any, NAME:OPTION=VALUE"),
    ("memory", "", "episodic memory, a file; empty: none"),
    ("policy", "", "skill policy, a YAML file; empty: every skill is carried out"),
    ("params_file", "", "a parameter file for all nodes; arguments given here outrank it"),
    ("namespace", "", "namespace of all nodes"),
    ("use_viewer", "false", "also start py_trees_ros_viewer, where it is installed"),
    ("log_level", "info", "log level of all nodes"),
]
SWITCHES = ("use_viewer", "start_inference", "dry_run", "headless", "start_simulator", "pictures")
CHOICES = {
    **{name: ["true", "false"] for name in SWITCHES},
    "log_level": ["debug", "info", "warn", "error", "fatal"],
}
VIEWER = "py-trees-tree-viewer"
#: How the texts of arguments become parameters that are no texts.
KINDS: Mapping[str, Callable[[str], Any]] = {"task_id": int, "port": int, **dict.fromkeys(SWITCHES, "true".__eq__)}


@dataclass(frozen=True)
class BridgeProcess:
    """The bridge of a launch.

    Attributes:
        executable: Its executable.
        name: The node's name; its parameters, and those of the planner with such a bridge, are in a file of that name
            in config/.
        arguments: Launch arguments that are parameters of it.
    """

    executable: str
    name: str
    arguments: Sequence[str]


def describe(own: Sequence[tuple[str, str, str]], bridge: BridgeProcess) -> LaunchDescription:
    """Describe a launch of planner, bridge and inference node.

    Args:
        own: Its own arguments: name, default, description.
        bridge: Its bridge.
    """
    arguments = [*own, *DECIDING]
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description, choices=CHOICES.get(name))
        for name, default, description in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start, args=[arguments, bridge])])


def start(
    context: LaunchContext, arguments: Sequence[tuple[str, str, str]], bridge_process: BridgeProcess
) -> list[Any]:
    """Start the nodes; when inference node and bridge are active, send the instruction."""
    value = {name: LaunchConfiguration(name).perform(context) for name, _, _ in arguments}
    given = {name for name, default, _ in arguments if value[name] != default}
    if "params_file" in given and not Path(value["params_file"]).is_file():
        raise ValueError(f"params_file: there is no file '{value['params_file']}'")
    for name in ("task_id", "port"):
        if not value.get(name, "0").lstrip("-").isdecimal():
            raise ValueError(f"{name} is '{value[name]}'; it must be a whole number")
    task_id = value.get("task_id", "-1")

    def parameters(files: Sequence[str], *names: str) -> list[Any]:
        own = [PathJoinSubstitution([FindPackageShare("reactree_ros"), "config", file]) for file in files]
        chosen = {name: _parameter(name, value[name]) for name in names if name in given}
        return [*own, *([value["params_file"]] if "params_file" in given else []), chosen]

    common = {
        "package": "reactree_ros",
        "namespace": value["namespace"],
        "output": "screen",
        "ros_arguments": ["--log-level", value["log_level"]],
    }
    inference = Node(
        executable="inference_node",
        name="inference",
        parameters=parameters(["inference.yaml"], "llm", "model", "base_url", "api_key_file", "models_file"),
        **common,
    )
    bridge = Node(
        executable=bridge_process.executable,
        name=bridge_process.name,
        parameters=parameters([f"{bridge_process.name}.yaml"], "policy", *bridge_process.arguments),
        **common,
    )
    planner = Node(
        executable="planner_node",
        name="reactree_planner",
        parameters=parameters(["planner.yaml", f"{bridge_process.name}.yaml"], "planner", "memory"),
        **common,
    )
    nodes, lifecycle = [bridge, planner], [bridge_process.name]
    if value["start_inference"] == "true":
        nodes, lifecycle = [inference, *nodes], ["inference", *lifecycle]
    bring_up = Node(executable="bring_up", arguments=lifecycle, **common)
    task = Node(executable="execute_task", arguments=["--task-id", task_id, "--", value["instruction"]], **common)
    one_task = bool({"instruction", "task_id"} & given)
    return [
        *([RegisterEventHandler(OnShutdown(on_shutdown=interrupted))] if one_task else []),
        *[at_the_end_of(node, fail(f"{node.node_executable} has ended")) for node in nodes],
        at_the_end_of(bring_up, fail("the nodes could not be brought up"), well=[task] if one_task else []),
        at_the_end_of(task, fail("the goal was not reached"), well=[EmitEvent(event=Shutdown(reason="goal reached"))]),
        *(*nodes, bring_up),
        *(viewer() if value["use_viewer"] == "true" else []),
    ]


def _parameter(name: str, text: str) -> Any:
    return KINDS[name](text) if name in KINDS else ParameterValue(text, value_type=str)


def at_the_end_of(node: Node, badly: list[Any], *, well: list[Any] | None = None) -> RegisterEventHandler:
    """Do something when a process ends, and, where it is given, something else when it ends with exit code 0."""

    def ended(event: ProcessExited, context: LaunchContext) -> list[Any]:
        return badly if event.returncode or well is None else well

    return RegisterEventHandler(OnProcessExit(target_action=node, on_exit=ended))


def interrupted(event: Shutdown, context: LaunchContext) -> None:
    """Make Ctrl-C before the task has ended an exit code of 1."""
    if event.due_to_sigint:
        raise InterruptedError("interrupted before the goal was reached")


def fail(reason: str) -> list[Any]:
    """Shut down with exit code 1, unless the end has come already: launch does so where an action raises."""

    def stop(context: LaunchContext) -> None:
        if not context.is_shutdown:
            raise RuntimeError(reason)

    return [OpaqueFunction(function=stop)]


def viewer() -> list[Any]:
    """Start the viewer, or say that it is not there."""
    if shutil.which(VIEWER) is None:
        return [LogInfo(msg=f"use_viewer: there is no {VIEWER}; install the ROS package py_trees_ros_viewer")]
    return [ExecuteProcess(cmd=[VIEWER], output="screen")]
