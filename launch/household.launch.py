"""Brings up planner, household bridge and inference node; with an instruction, carries it out and ends with 0 or 1.

The launch ends when one of the nodes does. Everything of a robot is in `namespace`, but for /diagnostics,
/parameter_events and /rosout, which all nodes of a domain share by convention; what is said there names its node.
"""

import shutil
from pathlib import Path

from launch import LaunchContext, LaunchDescription
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

ARGUMENTS = [
    ("instruction", "", "what to do; empty: wait for goals (or, with task_id, the task's instruction)"),
    ("world", "virtualhome", "which world the bridge hosts: virtualhome"),
    ("house", "apartment", "a shipped house (apartment, villa) or a file of `reactree house`"),
    ("tasks", "", "a task file in the WAH-NL schema, instead of a house"),
    ("task_id", "-1", "task of the file; -1: the first"),
    ("llm", "expert", "who decides: expert (rule-based, no language model), openai, vllm, transformers or fallback"),
    ("model", "", "name or folder of the language model; with a server, empty: the first one that it has"),
    ("base_url", "", "of an OpenAI-compatible server; empty: $OPENAI_BASE_URL (its key: $OPENAI_API_KEY)"),
    ("api_key_file", "", "file with the server's key, instead of $OPENAI_API_KEY"),
    ("models_file", "", "YAML file with every setting of one or several language models"),
    ("start_inference", "true", "start an inference node; false: one runs elsewhere (inference.launch.py)"),
    ("planner", "reactree", "planner by name: reactree"),
    ("memory", "", "episodic memory, a file; empty: none"),
    ("policy", "", "skill policy, a YAML file; empty: every skill is carried out"),
    ("params_file", "", "a parameter file for all nodes; arguments given here outrank it"),
    ("namespace", "", "namespace of all nodes"),
    ("use_viewer", "false", "also start py_trees_ros_viewer, where it is installed"),
    ("log_level", "info", "log level of all nodes"),
]
CHOICES = {
    "use_viewer": ["true", "false"],
    "start_inference": ["true", "false"],
    "log_level": ["debug", "info", "warn", "error", "fatal"],
}
VIEWER = "py-trees-tree-viewer"


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description, choices=CHOICES.get(name))
        for name, default, description in ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list:
    """Start the nodes; when inference node and bridge are active, send the instruction."""
    value = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}
    given = {name for name, default, _ in ARGUMENTS if value[name] != default}
    if "params_file" in given and not Path(value["params_file"]).is_file():
        raise ValueError(f"params_file: there is no file '{value['params_file']}'")
    if not value["task_id"].lstrip("-").isdecimal():
        raise ValueError(f"task_id is '{value['task_id']}'; it must be a whole number")

    def parameters(file: str, *arguments: str) -> list:
        own = PathJoinSubstitution([FindPackageShare("reactree_ros"), "config", file])
        chosen = {
            name: int(value[name]) if name == "task_id" else ParameterValue(value[name], value_type=str)
            for name in arguments
            if name in given
        }
        return [own, *([value["params_file"]] if "params_file" in given else []), chosen]

    common = {
        "package": "reactree_ros",
        "namespace": value["namespace"],
        "output": "screen",
        "ros_arguments": ["--log-level", value["log_level"]],
    }
    inference = Node(
        executable="inference_node",
        name="inference",
        parameters=parameters("inference.yaml", "llm", "model", "base_url", "api_key_file", "models_file"),
        **common,
    )
    bridge = Node(
        executable="bridge_node",
        name="household_bridge",
        parameters=parameters("household_bridge.yaml", "world", "house", "tasks", "task_id", "policy"),
        **common,
    )
    planner = Node(
        executable="planner_node",
        name="reactree_planner",
        parameters=parameters("planner.yaml", "planner", "memory"),
        **common,
    )
    nodes, lifecycle = [bridge, planner], ["household_bridge"]
    if value["start_inference"] == "true":
        nodes, lifecycle = [inference, *nodes], ["inference", *lifecycle]
    bring_up = Node(executable="bring_up", arguments=lifecycle, **common)
    task = Node(
        executable="execute_task", arguments=["--task-id", value["task_id"], "--", value["instruction"]], **common
    )
    one_task = bool({"instruction", "task_id"} & given)
    return [
        *([RegisterEventHandler(OnShutdown(on_shutdown=interrupted))] if one_task else []),
        *[at_the_end_of(node, fail(f"{node.node_executable} has ended")) for node in nodes],
        at_the_end_of(bring_up, fail("the nodes could not be brought up"), well=[task] if one_task else []),
        at_the_end_of(task, fail("the goal was not reached"), well=[EmitEvent(event=Shutdown(reason="goal reached"))]),
        *(*nodes, bring_up),
        *(viewer() if value["use_viewer"] == "true" else []),
    ]


def at_the_end_of(node: Node, badly: list, *, well: list | None = None) -> RegisterEventHandler:
    """Do something when a process ends, and, where it is given, something else when it ends with exit code 0."""

    def ended(event: ProcessExited, context: LaunchContext) -> list:
        return badly if event.returncode or well is None else well

    return RegisterEventHandler(OnProcessExit(target_action=node, on_exit=ended))


def interrupted(event: Shutdown, context: LaunchContext) -> None:
    """Make Ctrl-C before the task has ended an exit code of 1."""
    if event.due_to_sigint:
        raise InterruptedError("interrupted before the goal was reached")


def fail(reason: str) -> list:
    """Shut down with exit code 1, unless the end has come already: launch does so where an action raises."""

    def stop(context: LaunchContext) -> None:
        if not context.is_shutdown:
            raise RuntimeError(reason)

    return [OpaqueFunction(function=stop)]


def viewer() -> list:
    """Start the viewer, or say that it is not there."""
    if shutil.which(VIEWER) is None:
        return [LogInfo(msg=f"use_viewer: there is no {VIEWER}; install the ROS package py_trees_ros_viewer")]
    return [ExecuteProcess(cmd=[VIEWER], output="screen")]
