"""``reactree robot``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.commands import add_more, over_ros
from reactree_ros.cli.opening import DEFAULT_PLANNER, chosen_planner, open_model, say
from reactree_ros.cli.options import Chosen, FromSettings, Options, OtherModel, RunOptionsGiven, takes
from reactree_ros.cli.output import print_diagnosis
from reactree_ros.cli.run import Planner, command_in
from reactree_ros.errors import UserError
from reactree_ros.files.whole_file import write_whole
from reactree_ros.memory.experience import Experience
from reactree_ros.plugins import Registry
from reactree_ros.plugins.installation import Level
from reactree_ros.robot.declared import SPEC, DeclaredSettings
from reactree_ros.tree.options import RunOptions, TreeOptions

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Look after a robot's map and configuration.")
HEADER = "# The semantic map of {source}, made by `reactree robot map --from {kind}`. Metres; yaw in radians.\n"
#: What a semantic map can be made from: functions from a file, and at most one option, to the values of a map.
MAPS: Registry[Callable[..., dict[str, Any]]] = Registry(
    "form of a map", "reactree_ros.maps", object, first=("nav2", "scene-graph", "pyrobosim")
)
#: Of what each of these options is.
OPTIONS = {"robot": "pyrobosim", "regions": "nav2", "labels": "scene-graph"}


@app.command(
    "map",
    epilog="reactree robot map semantic_map.yaml\nreactree robot map graph.json --from scene-graph --out map.yaml",
)
def robot_map(
    source: Annotated[Path, typer.Argument(help="The file: a semantic map, or what one is made from.")],
    kind: Annotated[
        str,
        typer.Option(
            "--from",
            help="What the file is: map; pyrobosim, a world of it (needs reactree_lab); nav2, map_server's YAML of a "
            "map of Nav2 with labelled regions; or scene-graph, JSON, plain or of VirtualHome, Hydra or ConceptGraphs.",
        ),
    ] = "map",
    out: Annotated[Path | None, typer.Option(help="Write the map into this file.")] = None,
    robot: Annotated[
        str, typer.Option(help="Of pyrobosim: whose start is the map's; by default the first robot's.")
    ] = "",
    regions: Annotated[
        Path | None, typer.Option(help="Of Nav2: labelme's file of the map's image; by default beside that, as .json.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Of Hydra: YAML with the names of its labels, unless the graph has them.")
    ] = None,
) -> None:
    """Check a semantic map, or make one from something else; what is wrong is said with its line and field.

    Where a robot would stand outside of the room that it is to look around or work in, a note says so: that may be
    right, as in a hallway that is not a room of the map. `reactree list words` has the words of furniture and objects.
    """
    import yaml

    from reactree_ros.robot.map_file import Source, map_of, notes_of, read_yaml

    if kind == "map" and out:
        raise UserError("--out is for a map that is made from something else; say from what with --from")
    given = {name: value for name, value in {"robot": robot, "regions": regions, "labels": labels}.items() if value}
    for name in given:
        if kind != OPTIONS[name]:
            raise UserError(f"--{name} is for --from {OPTIONS[name]}, not for {kind}")
    read = read_yaml(source) if kind == "map" else Source(MAPS.get(kind)(source, **given), str(source))
    document = map_of(read)
    if kind != "map":
        text = HEADER.format(source=source.name, kind=kind) + yaml.safe_dump(
            read.values, sort_keys=False, default_flow_style=None, width=120
        )
        if out is None:
            print(text, end="")  # noqa: T201
            return
        write_whole(out, text.encode())
    console = Console(soft_wrap=True)
    counts = len(document.rooms), len(document.receptacles), len(document.objects.classes)
    notes = notes_of(document, read)
    for note in notes:
        console.print(f"note: {note}", markup=False, highlight=False)
    verdict = f"{len(notes)} to look at" if notes else "all right"
    said = "{} rooms, {} receptacles, {} classes of objects; ".format(*counts)
    console.print(f"{out or source}: {said}{verdict}", markup=False, highlight=False)


@app.command("check", epilog="reactree robot check robot.yaml --policy skill_policy.yaml")
def robot_check(
    config: Annotated[Path, typer.Argument(help="The robot's configuration, a file like robot.yaml.")],
    patience: Annotated[float, typer.Option(min=0.1, help="Longest wait for whatever should be there, in s.")] = 5.0,
    namespace: Annotated[str, typer.Option(help="The robot's namespace.")] = "",
    policy: Annotated[Path | None, typer.Option(help="A skill policy, to see whether its rules fit the robot.")] = None,
) -> None:
    """Walk through what a robot needs before it is driven, and say what is wrong and how to mend it.

    Without ROS 2, only what the files tell. Nothing moves; the MCP servers of the robot are started to see their tools.
    Exit code 0 only if nothing is wrong, else 1.
    """
    from reactree_ros.robot.check import check_files

    try:
        there = over_ros("robot_check", "reactree robot check")
    except UserError:
        found = check_files(config, policy=policy)
    else:
        found = there.check_robot(config, policy=policy, patience=patience, namespace=namespace, args=[])
    for one in found:
        print_diagnosis(one)
    wrong = sum(one.level is Level.WRONG for one in found)
    typer.echo(f"{wrong} of {len(found)} wrong" if wrong else "nothing is wrong")
    raise typer.Exit(NOT_ACHIEVED if wrong else 0)


class _Tried(Options):
    """The robot as an argument, and the settings of its world as options."""

    _settings = FromSettings(DeclaredSettings, panel="The world", without=("robot", "task_id", "mcp"))

    def parameters(self) -> list[inspect.Parameter]:
        file = Annotated[str, typer.Argument(help="The robot's configuration, a file like robot.yaml.")]
        robot = inspect.Parameter("robot", inspect.Parameter.KEYWORD_ONLY, annotation=file)
        return [robot, *self._settings.parameters()]

    def read(self, given: Mapping[str, Any]) -> Chosen:
        return Chosen(SPEC, self._settings.read(given))


app.command(
    "try",
    help="Carry out an instruction in a world made of a robot's declarations, without ROS.\n\nSkills need what they "
    "require, and have their effects. You decide, unless --llm names what does. Exit codes: see `reactree run`.",
    epilog='reactree robot try robot.yaml "Bring the pills to Anna" --condition people=false --view',
)(command_in(_Tried(), "person"))


@app.command("examples", epilog="reactree robot examples robot.yaml tasks.yaml examples.jsonl")
@takes(llm=OtherModel(), options=RunOptionsGiven())
def robot_examples(
    robot: Annotated[str, typer.Argument(help="The robot's configuration, a file like robot.yaml.")],
    tasks: Annotated[Path, typer.Argument(help="A YAML file with tasks: instruction, goal, and replies if by hand.")],
    out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl.")],
    planner: Planner = "",
    *,
    llm: Chosen | None,
    options: RunOptions,
) -> None:
    """Make examples of the robot's own skills: runs in the world of its declarations that reach their goals.

    `--memory examples:path=FILE` shows them in prompts, and `reactree memory import` adds them to a memory. Exit code 1
    if a task did not reach its goal.
    """
    from reactree_ros.memory.recorded import export_experiences
    from reactree_ros.robot.examples import attempts, load_tasks

    todo, missed = load_tasks(tasks, robot), 0
    found: list[Experience] = []
    with open_model(*llm) if llm else nullcontext() as model:
        chosen = chosen_planner(planner, llm).name if llm else planner or DEFAULT_PLANNER
        for task, result, learnt in attempts(todo, planner=chosen, options=TreeOptions(**dict(options)), model=model):
            say(f"{'✓' if learnt else '✗'} {task.instruction}: {result.verdict}")
            found += learnt
            missed += not learnt
    say(f"{export_experiences(found, out)} experiences of {len(todo) - missed} runs written to {out}")
    raise typer.Exit(NOT_ACHIEVED if missed else 0)


@app.command(epilog="reactree robot answer")
def answer(
    planner_node: Annotated[
        str,
        typer.Option(help="Answer only this planner node and its bridges.", show_default="all planners and bridges"),
    ] = "",
) -> None:
    """Answer the questions of planners and bridges on ROS 2 at this terminal, until Ctrl-C.

    What you type while no question is open goes to the current run; 'stop' ends it. From a pipe, each line answers the
    next question, and it ends after the last one.
    """
    raise typer.Exit(over_ros("answer", "reactree robot answer").serve(planner_node, args=[]))


add_more("robot", app)
