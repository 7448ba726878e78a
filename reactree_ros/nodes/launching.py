"""The common part of the launch files: planner, bridge and inference node are brought up and get an instruction."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from launch import LaunchContext, LaunchDescription, actions  # type: ignore[attr-defined]  # not the folder launch/
from launch.event_handlers import OnProcessExit, OnShutdown
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare
from pydantic.fields import FieldInfo
from rclpy.exceptions import InvalidNamespaceException
from rclpy.validate_namespace import validate_namespace

from reactree_ros.errors import UserError
from reactree_ros.llm.spec import MODELS
from reactree_ros.nodes.parameters import from_text, refuse_foreign
from reactree_ros.nodes.settings import InferenceNodeSettings, PlannerNodeSettings, TaskSettings
from reactree_ros.nodes.spinning import LAST_WATCH
from reactree_ros.nodes.start import SIGNALS
from reactree_ros.plugins import Registry
from reactree_ros.plugins.settings import Settings, choices
from reactree_ros.robot.config import RobotConfig, StartEntry, load_robot

WATCHDOG, COMPOSED = "watchdog", "composed"
VIEWER = "py-trees-tree-viewer"
YES_OR_NO = ("true", "false")
#: Time before a node that ended is started again, in seconds.
RESPAWN_DELAY = 1.0
#: Least similarity, up to 1, at which an argument counts as a slip of another one.
ALMOST = 0.85
#: Arguments of every launch: name, default, description, choices.
COMMON: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("params_file", "", "a parameter file for all nodes; launch arguments override it", ()),
    ("namespace", "", "namespace of all nodes", ()),
    ("log_level", "info", "log level of all nodes", ("debug", "info", "warn", "error", "fatal")),
    ("use_sim_time", "false", "take the time from /clock; time limits still use wall time", YES_OR_NO),
    ("respawn", "false", "restart a node that has ended, instead of ending the launch", YES_OR_NO),
)
#: Arguments of every launch with a planner.
DECIDING: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("instruction", "", "what to do; empty: the instruction of the task_id, or without one wait for goals", ()),
    ("start_inference", "true", "start an inference node; false: one runs elsewhere (inference.launch.py)", YES_OR_NO),
    ("composed", "false", "run planner, bridge and inference node in one process; decisions are faster", YES_OR_NO),
    ("view", "false", "also show the runs on a page in the browser; its address is printed", YES_OR_NO),
    ("view_port", "0", "the page's port on 127.0.0.1; 0: a free one", ()),
    ("use_viewer", "false", "also start py_trees_ros_viewer, if it is installed", YES_OR_NO),
)


def fields(kind: type[Settings], *names: str) -> dict[str, FieldInfo]:
    return {name: kind.model_fields[name] for name in names or kind.model_fields}


@dataclass(frozen=True)
class NodeArguments:
    """A node with the launch arguments that set its parameters; one that is not given sets nothing."""

    executable: str
    name: str
    own: Mapping[str, FieldInfo]  # settings of the node itself
    registry: Registry[Any] | None = None
    chosen_by: str = ""  # the setting that names the entry
    hosts: str = ""  # the entry that this launch hosts by default; empty: the registry's default
    derived: Mapping[str, FieldInfo] = field(default_factory=dict)

    def descriptions(self) -> dict[str, str]:
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
    {**fields(TaskSettings), **fields(PlannerNodeSettings, "memory", "silence")},
    derived=fields(PlannerNodeSettings, "robots", "triggers"),
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

    If two nodes have arguments of one name, the second node's is called ``llm_NAME``, with ``llm`` as the argument that
    names what it hosts.
    """

    def __init__(self, nodes: Sequence[NodeArguments], own: Sequence[tuple[str, str, str, Sequence[str]]]) -> None:
        self._own = {name for name, _, _, _ in own}
        self._of_nodes: dict[str, tuple[str, str]] = {}  # an argument's node and parameter
        self.declared = [
            actions.DeclareLaunchArgument(name, default_value=default, description=said, choices=list(few) or None)
            for name, default, said, few in own
        ]
        for node in nodes:
            for parameter, said in node.descriptions().items():
                taken = parameter in self._of_nodes or parameter in self._own
                name = f"{node.chosen_by}_{parameter}" if taken else parameter
                self._of_nodes[name] = node.name, parameter
                self.declared.append(actions.DeclareLaunchArgument(name, default_value="", description=said))

    def described(self, begin: actions.OpaqueFunction) -> LaunchDescription:
        """Return a launch with these arguments and no others; ``begin`` starts the nodes."""
        refuse = actions.OpaqueFunction(function=refuse_unknown, args=[[one.name for one in self.declared]])
        return LaunchDescription([refuse, *self.declared, begin])

    def own(self, context: LaunchContext, name: str) -> str:
        return str(LaunchConfiguration(name).perform(context))

    def given(self, context: LaunchContext, node: NodeArguments) -> dict[str, str]:
        values = {
            parameter: str(LaunchConfiguration(name).perform(context))
            for name, (owner, parameter) in self._of_nodes.items()
            if owner == node.name
        }
        return {name: value for name, value in values.items() if value}

    def parameters(
        self, context: LaunchContext, node: NodeArguments, files: Sequence[str], also: Mapping[str, str]
    ) -> list[Any]:
        file = self.own(context, "params_file")
        if file and not Path(file).is_file():
            raise ValueError(f"params_file: there is no file '{file}'")
        given = {**also, **self.given(context, node)}
        hosted = "" if file or node.registry is None else node.hosts or node.registry.default
        own: list[Any] = [PathJoinSubstitution([FindPackageShare("reactree_ros"), "config", name]) for name in files]
        if node.hosts:
            own.append({node.chosen_by: node.hosts})
        return [*own, *([file] if file else []), node.parameters(given, otherwise=hosted)]

    def launched(self, context: LaunchContext, part: Part) -> Node:
        return ours(
            part.node.executable,
            name=part.node.name,
            parameters=self.parameters(context, part.node, part.files, part.also),
            **self.kept(context, part.within),
        )

    def composed(self, context: LaunchContext, parts: Sequence[Part]) -> Node:
        if apart := [part.name for part in parts if part.within]:
            raise ValueError(f"composed:=true is for one robot; leave it out for {', '.join(apart)}")
        files: list[Any] = []
        for part in parts:
            for one in self.parameters(context, part.node, part.files, part.also):
                files.append(_file_of(context, part.name, one) if isinstance(one, dict) else one)
        beside = [part.node.executable for part in parts if part.node is not PLANNER]
        return ours(COMPOSED, arguments=beside, parameters=files, **self.kept(context))

    def watchdog(self, context: LaunchContext) -> Node:
        file, given = self.own(context, "params_file"), self.given(context, PLANNER)
        silence = PLANNER.parameters({name: text for name, text in given.items() if name == "silence"})
        return ours(
            WATCHDOG,
            name=WATCHDOG,
            parameters=[*([file] if file else []), silence],
            sigterm_timeout=str(LAST_WATCH + 2.0),  # it stays to cancel what killed nodes left
            **self.kept(context),
        )

    def supervised(self, context: LaunchContext, node: Node, *names: str) -> actions.RegisterEventHandler:
        """End the launch when a process ends; with ``respawn`` bring the nodes of these names up again."""
        if self.own(context, "respawn") != "true":
            return at_the_end_of(node, fail(f"{node.node_executable} has ended"))

        def bring_up_again(context: LaunchContext) -> list[Any]:
            if context.is_shutdown:
                return []
            again = ours("bring_up", arguments=[*names], **self.common(context))
            return [at_the_end_of(again, fail(f"{', '.join(names)} could not be brought up again"), well=[]), again]

        return at_the_end_of(node, [actions.OpaqueFunction(function=bring_up_again)] if names else [])

    def kept(self, context: LaunchContext, within: str = "") -> dict[str, Any]:
        given, respawn = self.common(context), self.own(context, "respawn") == "true"
        if within:
            given["namespace"] += f"/{within}"
        return {**given, "respawn": respawn, "respawn_delay": RESPAWN_DELAY}

    def common(self, context: LaunchContext) -> dict[str, Any]:
        clock = ["-p", "use_sim_time:=true"] if self.own(context, "use_sim_time") == "true" else []
        return {
            "package": "reactree_ros",
            "namespace": self.own(context, "namespace"),
            "output": "screen",
            "ros_arguments": ["--log-level", self.own(context, "log_level"), *clock],
        }


@dataclass(frozen=True)
class Part:
    """A node of a launch, with its files of parameters, derived arguments, and a namespace within the launch's."""

    node: NodeArguments
    files: Sequence[str]
    also: Mapping[str, str] = field(default_factory=dict)
    within: str = ""

    @property
    def name(self) -> str:
        return f"{self.within}/{self.node.name}".lstrip("/")


def _file_of(context: LaunchContext, node: str, parameters: Mapping[str, Any]) -> str:
    """Write parameters of one of several nodes of a process, as launch does with those of one."""
    values = {
        name: one.evaluate(context) if isinstance(one, ParameterValue) else one for name, one in parameters.items()
    }
    with tempfile.NamedTemporaryFile("w", prefix="launch_params_", suffix=".yaml", delete=False) as file:
        yaml.safe_dump({f"/**/{node}": {"ros__parameters": values}}, file)
    return file.name


def refuse_unknown(context: LaunchContext, declared: Sequence[str]) -> None:
    """Refuse arguments that a launch file does not have; to be called before it declares its own.

    A file shares its arguments with the files that include it. So an unknown argument that the command line did not
    give to this file is refused only if it is almost like one that was not given.
    """
    given = [name for name in context.launch_configurations if name not in declared]
    file = str(context.get_locals_as_dict().get("current_launch_file_path", ""))
    was_started = Path(file).name in (Path(word).name for word in sys.argv[1:])
    own = {one.partition(":=")[0] for one in context.argv if ":=" in one} if was_started else set()
    free = [name for name in declared if name not in context.launch_configurations]
    for name in given:
        if name in own or difflib.get_close_matches(name, free, n=1, cutoff=ALMOST):
            near = difflib.get_close_matches(name, declared, n=1)
            known = f"did you mean '{near[0]}'?" if near else "--show-args lists those that there are"
            raise ValueError(f"{name}:={context.launch_configurations[name]}: there is no argument '{name}'; {known}")


@dataclass(frozen=True)
class Robots:
    """The robots of a launch."""

    bridges: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"": {}})
    names: Sequence[str] = ()  # the robots' names, which are their namespaces; empty: there is one, without a namespace
    nodes: Sequence[Node] = ()  # further nodes; they are started first
    planner: Mapping[str, str] = field(default_factory=dict)  # derived arguments of the planner


def robots_of_household(context: LaunchContext, arguments: Arguments, bridge: NodeArguments) -> Robots:
    number = _parameter("robots", FieldInfo(annotation=int), arguments.given(context, bridge).get("robots", "1"))
    names = [f"robot_{one}" for one in range(1, number + 1)]
    return Robots({names[0]: {}}, names) if number > 1 else Robots()


def describe(
    bridge: NodeArguments,
    *,
    own: Sequence[tuple[str, str, str, Sequence[str]]] = (),
    robots: Callable[[LaunchContext, Arguments, NodeArguments], Robots],
) -> LaunchDescription:
    arguments = Arguments([PLANNER, bridge, INFERENCE], [*own, *DECIDING, *COMMON])
    return arguments.described(actions.OpaqueFunction(function=start, args=[arguments, bridge, robots]))


def start(
    context: LaunchContext,
    arguments: Arguments,
    of_bridge: NodeArguments,
    which: Callable[[LaunchContext, Arguments, NodeArguments], Robots],
) -> list[Any]:
    own, robots = f"{of_bridge.name}.yaml", which(context, arguments, of_bridge)
    of_planner = {**robots.planner, **({"robots": ",".join(robots.names)} if robots.names else {})}
    starts = arguments.own(context, "start_inference") == "true"
    parts = [
        *([Part(INFERENCE, ["inference.yaml"])] if starts else []),
        *(Part(of_bridge, [own], also, within) for within, also in robots.bridges.items()),
        Part(PLANNER, ["planner.yaml", own], of_planner),  # needs the others
    ]
    managed = [part.name for part in parts]
    if arguments.own(context, "composed") == "true":
        processes = {arguments.composed(context, parts): managed}
    else:
        processes = {arguments.launched(context, part): [part.name] for part in parts}
    watchdog = arguments.watchdog(context)
    common = arguments.common(context)
    instruction, task_id = arguments.own(context, "instruction"), arguments.given(context, of_bridge).get("task_id", "")
    page = ["--planner-node", PLANNER.name, "--port", arguments.own(context, "view_port")]
    bring_up = ours("bring_up", arguments=[*managed, "--also", WATCHDOG], **common)
    task = ours("execute_task", arguments=["--task-id", task_id or "-1", "--", instruction], **common)
    one_task = bool(instruction or task_id)
    end = [actions.EmitEvent(event=Shutdown(reason="goal reached"))]
    return [
        *([actions.RegisterEventHandler(OnShutdown(on_shutdown=interrupted))] if one_task else []),
        *[arguments.supervised(context, process, *names) for process, names in processes.items()],
        *[arguments.supervised(context, node) for node in (*robots.nodes, watchdog)],
        at_the_end_of(bring_up, fail("the nodes could not be brought up"), well=[task] if one_task else []),
        at_the_end_of(task, fail("the goal was not reached"), well=end),
        *where_absent([*managed, WATCHDOG], [*robots.nodes, *processes, bring_up, watchdog], common),
        *([ours("view", arguments=page, **common)] if arguments.own(context, "view") == "true" else []),
        *(viewer() if arguments.own(context, "use_viewer") == "true" else []),
    ]


def where_absent(names: Sequence[str], start: list[Any], common: Mapping[str, Any]) -> list[Any]:
    look = ours("bring_up", arguments=["--absent", *names], **common)
    return [at_the_end_of(look, fail("nothing was started"), well=start), look]


def at_the_end_of(node: Node, badly: list[Any], *, well: list[Any] | None = None) -> actions.RegisterEventHandler:
    """Do ``badly`` when a process ends; if ``well`` is given, do that instead after exit code 0."""

    def ended(event: ProcessExited, context: LaunchContext) -> list[Any]:
        return badly if event.returncode or well is None else well

    return actions.RegisterEventHandler(OnProcessExit(target_action=node, on_exit=ended))


def interrupted(event: Shutdown, context: LaunchContext) -> None:
    if event.due_to_sigint:
        raise InterruptedError("interrupted before the goal was reached")


def fail(reason: str) -> list[Any]:
    def stop(context: LaunchContext) -> None:
        if not context.is_shutdown:
            raise RuntimeError(reason)

    return [actions.OpaqueFunction(function=stop)]


def ours(executable: str, **given: Any) -> Node:
    return Node(executable=executable, exec_name=executable, prefix=before_ours(), **given)


def before_ours() -> list[Any]:
    blocked = ",".join(one.name.removeprefix("SIG") for one in SIGNALS)
    return before_others("env", f"--block-signal={blocked}")


def before_others(*own: str) -> list[Any]:
    command = ("setpriv", "--pdeathsig", "TERM", *own)
    there = shutil.which(command[0]) is not None
    works = there and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    return [LaunchConfiguration("launch-prefix", default=""), " ", " ".join(command) if works else ""]


def viewer() -> list[Any]:
    if shutil.which(VIEWER) is None:
        return [actions.LogInfo(msg=f"use_viewer: there is no {VIEWER}; install the ROS package py_trees_ros_viewer")]
    return [actions.ExecuteProcess(cmd=[VIEWER], name=VIEWER, output="screen", prefix=before_others())]


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
        if len(voices := [path for path, config in loaded.items() if config.voice is not None]) > 1:
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
            raise ValueError(f"robots is '{robots}'; '{name}' is not a namespace: {error}") from None
        configs[name] = path
    if len(configs) < 2:
        raise ValueError(f"robots is '{robots}'; one robot alone is a robot_config")
    return configs


def _loaded(paths: Iterable[str]) -> Mapping[str, RobotConfig]:
    try:
        return {path: load_robot(path) for path in paths}
    except UserError as error:
        raise ValueError(str(error)) from None


def _started(loaded: Mapping[str, RobotConfig], context: LaunchContext, arguments: Arguments) -> list[Node]:
    entries: list[StartEntry] = []
    for config in loaded.values():
        entries += [entry for entry in config.start if entry not in entries]
    voices = (["--robot-config", path] for path, config in loaded.items() if config.voice is not None)
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
