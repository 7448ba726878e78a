"""``reactree tree check``, ``routine export``, ``import`` and ``nodes``, and those of ``robot``: routines as files."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactree_ros.agent.parameters import Names, any_name
from reactree_ros.agent.text import visible
from reactree_ros.cli.options import memory_option
from reactree_ros.errors import UserError
from reactree_ros.files.whole_file import write_whole
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.world.spec import WORLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reactree_ros.agent.skill import Skill


app = typer.Typer(add_completion=False, no_args_is_help=True, help="Look at behaviour trees in XML.")
routine = typer.Typer()
robot = typer.Typer()


class Kind(str, enum.Enum):
    XML = "xml"
    PYTHON = "python"


Memory = Annotated[NamedMemory, memory_option("The episodic memory.", "--memory")]
World = Annotated[
    str, typer.Option("--world", help="The world whose skills the nodes are; see `reactree list worlds`.")
]
Robot = Annotated[
    Path | None, typer.Option("--robot", help="The robot.yaml whose skills they are, in place of a world's.")
]
Tree = Annotated[Path, typer.Argument(help="A file of XML for BehaviorTree.CPP 4, by hand or of Groot2.")]
Goal = Annotated[
    str, typer.Option("--goal", help="What it is for, e.g. 'bring me the {thing}'; by default what it says itself.")
]
Config = Annotated[Path, typer.Argument(help="The robot's configuration, a file like robot.yaml.")]
Out = Annotated[Path | None, typer.Option(help="The new file; without it, it is printed.")]


@app.callback()
def trees() -> None:
    """Look at behaviour trees in XML."""


@app.command("check", epilog="reactree tree check fetch.xml")
def tree_check(
    files: Annotated[list[Path], typer.Argument(help="Files of XML, or folders of them.")],
    robot: Robot = None,
    world: World = WORLDS.default,
) -> None:
    """Say which trees can be run, what each has to be given, and what others lack, by node and line."""
    from reactree_doors.trees.xml_in import read_routine

    skills = WORLDS.get(world).household.skills if robot is None else _skills_of(robot)
    failed = False
    for file in [one for path in files for one in (sorted(path.rglob("*.xml")) if path.is_dir() else [path])]:
        missing: dict[str, str] = {}
        try:
            roles = read_routine(file, skills, goal=None, missing=missing).roles
            takes = " and ".join(f"{{{role.name}}}, a {role.kind}" for role in roles)
            lacks = ", ".join(f"'{name}' ({place.removeprefix(f'{file}:')})" for name, place in missing.items())
            fine = f"it can be run{f', given {takes}' if takes else ''}"
            typer.echo(visible(f"{file}: {f'no skill is declared for {lacks}' if lacks else fine}"))
        except UserError as error:
            typer.echo(visible(str(error)))
            lacks = str(error)
        failed |= bool(lacks)
    if failed:
        raise typer.Exit(1)


@routine.command("export", epilog="reactree routine export fetch --memory household.db --out fetch.xml")
def routine_export(
    name: Annotated[str, typer.Argument(help="The routine, see `reactree routine list`.")],
    memory: Memory,
    kind: Annotated[
        Kind, typer.Option("--as", help="xml: for BehaviorTree.CPP 4 and Groot2; python: a module that makes the tree.")
    ] = Kind.XML,
    out: Out = None,
    robot: Robot = None,
    world: World = WORLDS.default,
) -> None:
    """Write a routine as a file that a person can change; `import`, or `robot routine`, reads the XML again."""
    from reactree_doors.trees.code import python_of
    from reactree_doors.trees.xml_out import xml_of
    from reactree_ros.routine.fitting import Kept

    memory.check_exists()
    with memory.open() as episodic:
        kept = Kept(episodic).named(name)
    household = WORLDS.get(world).household
    known = household.skills if kept.origin.household == household.name else ()  # else they are said in whole
    skills = known if robot is None else _skills_of(robot)
    _put(xml_of(kept, skills) if kind is Kind.XML else python_of(kept), out)


@routine.command("import", epilog="reactree routine import fetch.xml --memory household.db")
def routine_import(file: Tree, memory: Memory, goal: Goal = "", world: World = WORLDS.default) -> None:
    """Keep a routine that a person wrote as XML; what cannot be carried over is said with node and line."""
    household = WORLDS.get(world).household
    _keep(file, household.skills, memory, goal=goal, household=household.name)


@routine.command("nodes", epilog="reactree routine nodes --out nodes.xml")
def routine_nodes(out: Out = None, world: World = WORLDS.default) -> None:
    """Write the nodes model for Groot2: this package's nodes, and the skills of a world with their ports."""
    _put_nodes(WORLDS.get(world).household.skills, out)


@robot.command("nodes", epilog="reactree robot nodes robot.yaml --out nodes.xml")
def robot_nodes(config: Config, out: Out = None) -> None:
    """Write the nodes model for Groot2: this package's nodes, and the robot's skills with their ports."""
    _put_nodes(_skills_of(config), out)


@robot.command("routine", epilog="reactree robot routine robot.yaml fetch.xml --memory robot.db")
def robot_routine(config: Config, file: Tree, memory: Memory, goal: Goal = "") -> None:
    """Keep a routine that a person wrote as XML of this robot's skills; see `reactree routine import`."""
    from reactree_ros.robot.config import load_robot
    from reactree_ros.robot.map_file import load_map

    declared = load_robot(config)
    names = load_map(declared.map).names if declared.map else any_name
    _keep(file, (*declared.declared, *declared.waits), memory, goal=goal, names=names)


def _skills_of(robot: Path) -> Sequence[Skill]:
    from reactree_ros.robot.config import load_robot

    declared = load_robot(robot)
    return *declared.declared, *declared.waits


def _keep(
    file: Path, skills: Sequence[Skill], memory: NamedMemory, *, goal: str, household: str = "", names: Names = any_name
) -> None:
    from reactree_doors.trees.xml_in import read_routine
    from reactree_ros.routine.fitting import Kept
    from reactree_ros.routine.model import Origin

    read = read_routine(file, skills, goal=goal, names=names)
    with memory.open() as episodic:
        kept = Kept(episodic)
        there = kept.all().get(read.name)
        version = 1 if there is None else there.next_version
        changed = {"version": version, "origin": Origin(household=household)}
        kept.replace(read.name, read.model_copy(update=changed))
    text = next((role.name for role in read.roles if role.kind == "text"), "")
    never = f"; no goal fills {{{text}}}, a text: use it as a skill, see `routine_skills`" if text else ""
    typer.echo(f"{read.name}: version {version} is kept in {memory}; it is for '{read.goal}'{never}")


def _put_nodes(skills: Sequence[Skill], out: Path | None) -> None:
    from reactree_doors.trees.xml_out import nodes_model

    _put(nodes_model(skills), out)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    if out.exists():
        raise UserError(f"--out {out}: exists already; name a new one")
    try:
        write_whole(out, text)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror or error}; make room there, or name another place") from error
