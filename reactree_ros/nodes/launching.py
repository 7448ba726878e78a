"""What the launch files of the package share: planner, bridge and inference node, brought up, given an instruction."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from pydantic.fields import FieldInfo

from reactree_ros.nodes.ending import SIGNALS, this_launch
from reactree_ros.nodes.parameters import from_text, refuse_foreign
from reactree_ros.nodes.settings import InferenceNodeSettings, PlannerNodeSettings, TaskSettings
from reactree_ros.nodes.spinning import LAST_WATCH
from reactree_ros.registry import MODELS, Registry
from reactree_ros.settings import Settings, choices

WATCHDOG = "watchdog"
VIEWER = "py-trees-tree-viewer"
YES_OR_NO = ("true", "false")
#: Time between the end of a node and its next life, in seconds.
RESPAWN_DELAY = 1.0
#: How alike two names of arguments are, at least, of which one is taken for a slip of the other; at most 1.
ALMOST = 0.85
#: Arguments of every launch: name, default, description, choices.
COMMON: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("params_file", "", "a parameter file for all nodes; arguments given here outrank it", ()),
    ("namespace", "", "namespace of all nodes", ()),
    ("log_level", "info", "log level of all nodes", ("debug", "info", "warn", "error", "fatal")),
    ("use_sim_time", "false", "take the time from /clock; bounds are kept by wall time all the same", YES_OR_NO),
    ("respawn", "false", "start a node that has ended again, instead of ending the launch", YES_OR_NO),
)
#: Arguments of whatever is launched with a planner.
DECIDING: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("instruction", "", "what to do; empty: wait for goals, or, where a task_id is given, that task's instruction", ()),
    ("start_inference", "true", "start an inference node; false: one runs elsewhere (inference.launch.py)", YES_OR_NO),
    ("view", "false", "also show the runs on a page in the browser, whose address is printed", YES_OR_NO),
    ("view_port", "0", "the page's port on 127.0.0.1; 0: a free one", ()),
    ("use_viewer", "false", "also start py_trees_ros_viewer, where it is installed", YES_OR_NO),
)


def fields(kind: type[Settings], *names: str) -> dict[str, FieldInfo]:
    """Return fields of settings by name: those that are named, or all."""
    return {name: kind.model_fields[name] for name in names or kind.model_fields}


@dataclass(frozen=True)
class NodeArguments:
    """A node, with the launch arguments that are parameters of it; one that is not given leaves the parameter alone.

    Attributes:
        executable: Its executable.
        name: Its name.
        own: Settings of the node itself.
        registry: What it hosts one of; the settings of all that are installed are arguments, too.
        chosen_by: The setting that names the one.
        hosts: What this launch hosts where nothing names it; empty: the first one of the registry.
        derived: Settings of the node that follow from other arguments, and are none themselves.
    """

    executable: str
    name: str
    own: Mapping[str, FieldInfo]
    registry: Registry[Any] | None = None
    chosen_by: str = ""
    hosts: str = ""
    derived: Mapping[str, FieldInfo] = field(default_factory=dict)

    def descriptions(self) -> dict[str, str]:
        """Say what each argument means, whose setting it is, and what holds where it is not given."""
        hosts = {self.chosen_by: self.hosts} if self.hosts else {}
        found = {name: _described(one, hosts.get(name)) for name, one in self.own.items()}
        hosted: dict[str, dict[str, list[str]]] = {}
        for spec in self.registry or ():
            for name, one in spec.settings.model_fields.items():
                hosted.setdefault(name, {}).setdefault(_described(one), []).append(spec.name)
        for name, meanings in hosted.items():
            said = [f"{', '.join(owners)}: {meaning}" for meaning, owners in meanings.items()]
            found.setdefault(name, "; ".join(said))
        if self.registry is not None:
            found[self.chosen_by] += f"; one of {', '.join(self.registry.names)}"
        return found

    def parameters(self, given: Mapping[str, str], *, otherwise: str = "") -> dict[str, Any]:
        """Return arguments as parameters.

        Args:
            given: The arguments.
            otherwise: What is hosted where the arguments do not say it; empty: nobody knows here.

        Raises:
            ValueError: One makes no sense; the message names it with its value.
        """
        known = {**self.own, **self.derived}
        chosen = given.get(self.chosen_by, otherwise)
        if self.registry is not None:
            if chosen:
                refuse_foreign(self.registry, chosen, {name: given[name] for name in given if name not in self.own})
                known = self.registry.get(chosen).settings.model_fields | known
            for spec in self.registry:
                known = spec.settings.model_fields | known
        return {name: _parameter(name, known[name], text) for name, text in given.items()}


INFERENCE = NodeArguments(
    "inference_node", "inference", fields(InferenceNodeSettings, "llm", "models_file"), MODELS, "llm"
)
PLANNER = NodeArguments(
    "planner_node",
    "reactree_planner",
    {**fields(TaskSettings), **fields(PlannerNodeSettings, "memory")},
    derived=fields(PlannerNodeSettings, "robots"),
)


def _described(one: FieldInfo, default: Any = None) -> str:
    default = default or one.get_default(call_default_factory=True)
    said = [one.description or "", *([f"one of {', '.join(choices(one))}"] if choices(one) else [])]
    return "; ".join([*said, *([] if default in (None, "", (), {}) else [f"by default {_text(default)}"])])


def _text(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool) else str(getattr(default, "value", default))


def _parameter(name: str, one: FieldInfo, text: str) -> Any:
    try:
        value = from_text(one, text)
    except ValueError as error:
        raise ValueError(f"{name} is '{text}'; {error}") from None
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value


class Arguments:
    """The arguments of a launch: those of its nodes, and its own.

    Where two nodes have an argument of one name, that of the second is called ``llm_NAME``, where ``llm`` says what
    the second hosts.

    Args:
        nodes: The nodes with their arguments.
        own: Further arguments: name, default, description, choices.
    """

    def __init__(self, nodes: Sequence[NodeArguments], own: Sequence[tuple[str, str, str, Sequence[str]]]) -> None:
        self._own = {name for name, _, _, _ in own}
        self._of_nodes: dict[str, tuple[str, str]] = {}  # an argument's node and parameter
        self.declared = [
            DeclareLaunchArgument(name, default_value=default, description=said, choices=list(few) or None)
            for name, default, said, few in own
        ]
        for node in nodes:
            for parameter, said in node.descriptions().items():
                taken = parameter in self._of_nodes or parameter in self._own
                name = f"{node.chosen_by}_{parameter}" if taken else parameter
                self._of_nodes[name] = node.name, parameter
                self.declared.append(DeclareLaunchArgument(name, default_value="", description=said))

    def described(self, begin: OpaqueFunction) -> LaunchDescription:
        """Return a launch of these arguments and no others.

        Args:
            begin: Starts the nodes.
        """
        refuse = OpaqueFunction(function=refuse_unknown, args=[[one.name for one in self.declared]])
        return LaunchDescription([refuse, *self.declared, begin])

    def own(self, context: LaunchContext, name: str) -> str:
        """Return the value of an argument of the launch itself."""
        return str(LaunchConfiguration(name).perform(context))

    def given(self, context: LaunchContext, node: NodeArguments) -> dict[str, str]:
        """Return what is given of a node's parameters."""
        values = {
            parameter: str(LaunchConfiguration(name).perform(context))
            for name, (owner, parameter) in self._of_nodes.items()
            if owner == node.name
        }
        return {name: value for name, value in values.items() if value}

    def launched(
        self,
        context: LaunchContext,
        node: NodeArguments,
        files: Sequence[str],
        also: Mapping[str, str] | None = None,
        *,
        within: str = "",
    ) -> Node:
        """Return a node with its parameters: from the package's files, a parameter file, and the arguments.

        Args:
            context: Of the launch.
            node: The node.
            files: Files in ``config/`` whose parameters it gets before all others.
            also: Further arguments; those that are given outrank them.
            within: A namespace within that of all nodes; empty: that one.

        Raises:
            ValueError: An argument makes no sense; the message names it with its value.
        """
        file = self.own(context, "params_file")
        if file and not Path(file).is_file():
            raise ValueError(f"params_file: there is no file '{file}'")
        given = {**(also or {}), **self.given(context, node)}
        hosted = "" if file or node.registry is None else node.hosts or node.registry.default
        own: list[Any] = [PathJoinSubstitution([FindPackageShare("reactree_ros"), "config", name]) for name in files]
        if node.hosts:
            own.append({node.chosen_by: node.hosts})
        return ours(
            node.executable,
            name=node.name,
            parameters=[*own, *([file] if file else []), node.parameters(given, otherwise=hosted)],
            **{**self.kept(context), **({"namespace": f"{self.own(context, 'namespace')}/{within}"} if within else {})},
        )

    def watchdog(self, context: LaunchContext) -> Node:
        """Return the watchdog."""
        file = self.own(context, "params_file")
        return ours(
            WATCHDOG,
            name=WATCHDOG,
            parameters=[file] if file else [],
            sigterm_timeout=str(LAST_WATCH + 2.0),  # it stays for what a node that was killed has left under way
            **self.kept(context),
        )

    def supervised(self, context: LaunchContext, node: Node, name: str = "") -> RegisterEventHandler:
        """End the launch when a node ends; or, where it is started again, bring it up again.

        Args:
            context: Of the launch.
            node: The node.
            name: Its name, where it is to be brought up.
        """
        if self.own(context, "respawn") != "true":
            return at_the_end_of(node, fail(f"{node.node_executable} has ended"))

        def bring_up_again(context: LaunchContext) -> list[Any]:
            if context.is_shutdown:
                return []
            again = ours("bring_up", arguments=[name], **self.common(context))
            return [at_the_end_of(again, fail(f"'{name}' could not be brought up again"), well=[]), again]

        return at_the_end_of(node, [OpaqueFunction(function=bring_up_again)] if name else [])

    def kept(self, context: LaunchContext) -> dict[str, Any]:
        """Return what all nodes have in common that stay."""
        respawn = self.own(context, "respawn") == "true"
        return {**self.common(context), "respawn": respawn, "respawn_delay": RESPAWN_DELAY}

    def common(self, context: LaunchContext) -> dict[str, Any]:
        """Return what all processes have in common."""
        clock = ["-p", "use_sim_time:=true"] if self.own(context, "use_sim_time") == "true" else []
        return {
            "package": "reactree_ros",
            "namespace": self.own(context, "namespace"),
            "output": "screen",
            "additional_env": this_launch(),
            "ros_arguments": ["--log-level", self.own(context, "log_level"), *clock],
        }


def refuse_unknown(context: LaunchContext, declared: Sequence[str]) -> None:
    """Refuse arguments that a launch file does not have; to be called before it declares those that it has.

    A file that includes another one shares its own arguments with it. So of those that the command line has not given
    to this file itself, only one is refused that is written almost like an argument which was not given.

    Raises:
        ValueError: There is such an argument; the message names the nearest.
    """
    given = [name for name in context.launch_configurations if name not in declared]
    file = str(context.get_locals_as_dict().get("current_launch_file_path", ""))
    own = {one.partition(":=")[0] for one in context.argv if ":=" in one} if _was_started(file) else set()
    free = [name for name in declared if name not in context.launch_configurations]
    for name in given:
        if name in own or difflib.get_close_matches(name, free, n=1, cutoff=ALMOST):
            near = difflib.get_close_matches(name, declared, n=1)
            known = f"did you mean '{near[0]}'?" if near else "--show-args lists those that there are"
            raise ValueError(f"{name}:={context.launch_configurations[name]}: there is no argument '{name}'; {known}")


def _was_started(file: str) -> bool:
    """Whether it is a launch file that the command line names, by itself or of a package."""
    return Path(file).name in (Path(word).name for word in sys.argv[1:])


@dataclass(frozen=True)
class Robots:
    """What follows for a launch from which robots it is for.

    Attributes:
        bridges: The namespace of each bridge within that of all nodes, with arguments that follow from others; empty:
            the one of all nodes.
        names: The robots, which are namespaces, too; empty: there is one, which has none.
        nodes: Further nodes; they are started first.
    """

    bridges: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"": {}})
    names: Sequence[str] = ()
    nodes: Sequence[Node] = ()


def robots_of_household(context: LaunchContext, arguments: Arguments, bridge: NodeArguments) -> Robots:
    """Return the robots of a household: the first one's bridge has those of the others with it.

    Raises:
        ValueError: Their number is none.
    """
    number = _parameter("robots", FieldInfo(annotation=int), arguments.given(context, bridge).get("robots", "1"))
    names = [f"robot_{one}" for one in range(1, number + 1)]
    return Robots({names[0]: {}}, names) if number > 1 else Robots()


def describe(
    bridge: NodeArguments,
    *,
    own: Sequence[tuple[str, str, str, Sequence[str]]] = (),
    robots: Callable[[LaunchContext, Arguments, NodeArguments], Robots],
) -> LaunchDescription:
    """Describe a launch of planner, bridge and inference node.

    Args:
        bridge: The bridge; its parameters, and those of the planner with such a bridge, are in a file of its name in
            ``config/``.
        own: Further arguments of this launch: name, default, description, choices.
        robots: Says which robots it is for.
    """
    arguments = Arguments([PLANNER, bridge, INFERENCE], [*own, *DECIDING, *COMMON])
    return arguments.described(OpaqueFunction(function=start, args=[arguments, bridge, robots]))


def start(
    context: LaunchContext,
    arguments: Arguments,
    of_bridge: NodeArguments,
    which: Callable[[LaunchContext, Arguments, NodeArguments], Robots],
) -> list[Any]:
    """Start the nodes; when inference node and bridges are active, send the instruction."""
    own, robots = f"{of_bridge.name}.yaml", which(context, arguments, of_bridge)
    managed = {
        f"{within}/{of_bridge.name}".lstrip("/"): arguments.launched(context, of_bridge, [own], also, within=within)
        for within, also in robots.bridges.items()
    }
    of_planner = {"robots": ",".join(robots.names)} if robots.names else {}
    planner = arguments.launched(context, PLANNER, ["planner.yaml", own], of_planner)
    watchdog = arguments.watchdog(context)
    if arguments.own(context, "start_inference") == "true":
        managed = {INFERENCE.name: arguments.launched(context, INFERENCE, ["inference.yaml"]), **managed}
    nodes = [*managed.values(), planner]
    common = arguments.common(context)
    instruction, task_id = arguments.own(context, "instruction"), arguments.given(context, of_bridge).get("task_id", "")
    names = [*managed, PLANNER.name, WATCHDOG]
    bring_up = ours("bring_up", arguments=[*managed, "--also", PLANNER.name, WATCHDOG], **common)
    task = ours("execute_task", arguments=["--task-id", task_id or "-1", "--", instruction], **common)
    one_task = bool(instruction or task_id)
    return [
        *([RegisterEventHandler(OnShutdown(on_shutdown=interrupted))] if one_task else []),
        *[arguments.supervised(context, node, name) for name, node in managed.items()],
        *[arguments.supervised(context, node) for node in (*robots.nodes, planner, watchdog)],
        at_the_end_of(bring_up, fail("the nodes could not be brought up"), well=[task] if one_task else []),
        at_the_end_of(task, fail("the goal was not reached"), well=[EmitEvent(event=Shutdown(reason="goal reached"))]),
        *where_absent(names, [*robots.nodes, *nodes, bring_up, watchdog], common),
        *([page(context, arguments)] if arguments.own(context, "view") == "true" else []),
        *(viewer() if arguments.own(context, "use_viewer") == "true" else []),
    ]


def where_absent(names: Sequence[str], start: list[Any], common: Mapping[str, Any]) -> list[Any]:
    """Start nodes where none of their names lives already: whoever started that one would lose it."""
    look = ours("bring_up", arguments=["--absent", *names], **common)
    return [at_the_end_of(look, fail("nothing was started"), well=start), look]


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


def page(context: LaunchContext, arguments: Arguments) -> Node:
    """Return what shows the planner's runs on a page; the launch goes on without it."""
    given = ["--planner-node", PLANNER.name, "--port", arguments.own(context, "view_port")]
    return ours("view", arguments=given, **arguments.common(context))


def ours(executable: str, **given: Any) -> Node:
    """Return a node of this package; the launch calls its process as if nothing stood before its command."""
    return Node(executable=executable, exec_name=executable, prefix=before_ours(), **given)


def before_ours() -> list[Any]:
    """Return what stands before the command of a node of ours: signals wait until that has taken them over."""
    return _before("env", f"--block-signal={','.join(one.name.removeprefix('SIG') for one in SIGNALS)}")


def before_others() -> list[Any]:
    """Return what stands before the command of a node that is not ours, so that it ends with the launch, too."""
    return _before("setpriv", "--pdeathsig", "TERM")


def _before(*command: str) -> list[Any]:
    """Return a command that carries another one out, after what the user wants there; nothing if it fails here."""
    there = shutil.which(command[0]) is not None
    works = there and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    return [LaunchConfiguration("launch-prefix", default=""), " ", " ".join(command) if works else ""]


def viewer() -> list[Any]:
    """Start the viewer, or say that it is not there."""
    if shutil.which(VIEWER) is None:
        return [LogInfo(msg=f"use_viewer: there is no {VIEWER}; install the ROS package py_trees_ros_viewer")]
    return [ExecuteProcess(cmd=[VIEWER], name=VIEWER, output="screen", prefix=before_others())]
