"""Brings up planner, household bridge and inference node; with an instruction, carries it out and ends with 0 or 1."""

from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    SetLaunchConfiguration,
)
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.events import Shutdown, matches_action
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.substitutions import FindPackageShare
from lifecycle_msgs.msg import Transition

ARGUMENTS = [
    ("instruction", "", "what to do; empty: wait for goals (or, with task_id, the task's instruction)"),
    ("world", "virtualhome", "which world the bridge hosts: virtualhome"),
    ("house", "apartment", "a shipped house (apartment, villa) or a file of `reactree house`"),
    ("tasks", "", "a task file in the WAH-NL schema, instead of a house"),
    ("task_id", "-1", "task of the file; -1: the first"),
    ("llm", "expert", "who decides: expert (rule-based, no language model)"),
    ("planner", "reactree", "planner by name: reactree"),
    ("memory", "", "episodic memory, a file; empty: none"),
    ("policy", "", "skill policy, a YAML file; empty: every skill is carried out"),
    ("params_file", "", "one more parameter file for all nodes, after the package's own"),
    ("namespace", "", "namespace of all nodes"),
    ("use_viewer", "false", "also start py_trees_ros_viewer, where it is installed"),
    ("log_level", "info", "log level of all nodes"),
]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, default, description in ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=bring_up)])


def bring_up(context: LaunchContext) -> list:
    """Start the nodes; configure and activate bridge and inference node, then send the instruction."""
    value = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}

    def parameters(node: str, **given: object) -> list:
        own = PathJoinSubstitution([FindPackageShare("reactree_ros"), "config", f"{node}.yaml"])
        return [own, *([value["params_file"]] if value["params_file"] else []), given]

    common = {
        "package": "reactree_ros",
        "namespace": value["namespace"],
        "output": "screen",
        "arguments": ["--ros-args", "--log-level", value["log_level"]],
    }
    inference = LifecycleNode(
        executable="inference_node",
        name="inference",
        parameters=parameters("inference", llm=value["llm"]),
        **common,
    )
    bridge = LifecycleNode(
        executable="bridge_node",
        name="household_bridge",
        parameters=parameters(
            "household_bridge",
            world=value["world"],
            house=value["house"],
            tasks=value["tasks"],
            task_id=int(value["task_id"]),
            policy=value["policy"],
        ),
        **common,
    )
    planner = Node(
        executable="planner_node",
        name="reactree_planner",
        parameters=parameters("planner", planner=value["planner"], memory=value["memory"]),
        **common,
    )
    entities = [*lifecycle(inference, bridge), planner]
    if value["instruction"] or value["task_id"] != "-1":
        entities += one_task(value, starts_after=bridge)
    else:
        entities += [stop_all_when_one_ends(node) for node in (inference, bridge, planner)]
    if value["use_viewer"].lower() in ("1", "true", "yes"):
        entities.append(Node(package="py_trees_ros_viewer", executable="py-trees-tree-viewer", output="screen"))
    return entities


def lifecycle(first: LifecycleNode, second: LifecycleNode) -> list:
    """Configure and activate two nodes one after the other, each step when the one before has happened."""

    def change(node: LifecycleNode, transition: int) -> EmitEvent:
        return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))

    def when(node: LifecycleNode, state: str, before: str, do: list) -> RegisterEventHandler:
        handler = OnStateTransition(target_lifecycle_node=node, start_state=before, goal_state=state, entities=do)
        return RegisterEventHandler(handler)

    entities = []
    for node in (first, second):
        failed = [LogInfo(msg=f"{node.node_executable} could not be configured"), *end(1)]
        entities += [
            when(node, "unconfigured", "configuring", failed),
            when(node, "inactive", "configuring", [change(node, Transition.TRANSITION_ACTIVATE)]),
        ]
    configure_second = [change(second, Transition.TRANSITION_CONFIGURE)]
    configure_first = [change(first, Transition.TRANSITION_CONFIGURE)]
    entities += [
        when(first, "active", "activating", configure_second),
        RegisterEventHandler(OnProcessStart(target_action=second, on_start=configure_first)),
    ]
    return [*entities, first, second]


def one_task(value: dict[str, str], *, starts_after: LifecycleNode) -> list:
    """Carry the instruction out once the bridge is active, then end with what came of it."""
    client = Node(
        package="reactree_ros",
        executable="execute_task",
        namespace=value["namespace"],
        output="screen",
        emulate_tty=True,
        arguments=[value["instruction"], "--task-id", value["task_id"]],
    )
    ready = OnStateTransition(
        target_lifecycle_node=starts_after, start_state="activating", goal_state="active", entities=[client]
    )

    def ended(event: ProcessExited, context: LaunchContext) -> list:
        return end(event.returncode)

    return [
        RegisterEventHandler(ready),
        RegisterEventHandler(OnProcessExit(target_action=client, on_exit=ended)),
    ]


def stop_all_when_one_ends(node: Node) -> RegisterEventHandler:
    """Shut down when a node ends: half of the nodes carry nothing out."""
    return RegisterEventHandler(OnProcessExit(target_action=node, on_exit=lambda event, context: end(event.returncode)))


def end(code: int) -> list:
    """Shut down; any other code than 0 makes the launch end with 1."""

    def fail(context: LaunchContext) -> None:
        if not context.is_shutdown:
            raise RuntimeError(f"the task was not carried out (code {code})")

    shutdown = EmitEvent(event=Shutdown(reason="done"))
    return [shutdown] if code == 0 else [SetLaunchConfiguration("failed", "1"), OpaqueFunction(function=fail), shutdown]
