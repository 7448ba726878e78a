"""``reactree routine export``, ``import`` and ``nodes``: routines as files of XML and as Python."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactree_ros.agent.parameters import Names, any_name
from reactree_ros.cli.options import memory_option
from reactree_ros.errors import UserError
from reactree_ros.files.whole_file import write_whole
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.world.spec import WORLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reactree_ros.agent.household import Household
    from reactree_ros.agent.skill import Skill


class Kind(str, enum.Enum):
    """What a routine is written as."""

    XML = "xml"
    PYTHON = "python"


Memory = Annotated[NamedMemory, memory_option("The episodic memory.", "--memory")]
World = Annotated[
    str,
    typer.Option("--world", help="The world whose skills the nodes are; see `reactree list worlds`."),
]
Tree = Annotated[Path, typer.Argument(help="A file of XML for BehaviorTree.CPP 4, by hand or of Groot2.")]
Goal = Annotated[
    str,
    typer.Option("--goal", help="What it is for, e.g. 'bring me the {thing}'; by default what it says itself."),
]
Out = Annotated[Path | None, typer.Option(help="The new file; without it, it is printed.")]


def routine_export(
    name: Annotated[str, typer.Argument(help="The routine, see `reactree routine list`.")],
    memory: Memory,
    kind: Annotated[
        Kind, typer.Option("--as", help="xml: for BehaviorTree.CPP 4 and Groot2; python: a module that makes the tree.")
    ] = Kind.XML,
    out: Out = None,
    world: World = WORLDS.default,
) -> None:
    """Write a routine as a file that a person can change; `import` reads the XML again."""
    from reactree_ros.routine.code import python_of
    from reactree_ros.routine.keeping import Kept
    from reactree_ros.routine.xml_out import xml_of

    memory.check_exists()
    with memory.open() as episodic:
        routine = Kept(episodic).named(name)
    _put(xml_of(routine, _household(world).skills) if kind is Kind.XML else python_of(routine), out)


def routine_import(
    file: Tree,
    memory: Memory,
    goal: Goal = "",
    world: World = WORLDS.default,
) -> None:
    """Keep a routine that a person wrote as XML; what cannot be carried over is said with node and line."""
    household = _household(world)
    typer.echo(keep_file(file, household.skills, memory, goal=goal, household=household.name))


def routine_nodes(out: Out = None, world: World = WORLDS.default) -> None:
    """Write the nodes model for Groot2: this package's nodes, and the skills of a world with their ports."""
    put_nodes(_household(world).skills, out)


def keep_file(
    file: Path,
    skills: Sequence[Skill],
    memory: NamedMemory,
    *,
    goal: str,
    household: str = "",
    names: Names = any_name,
) -> str:
    """Keep a routine of a file of XML; returns what is said of it."""
    from reactree_ros.routine.keeping import Kept
    from reactree_ros.routine.model import Origin
    from reactree_ros.routine.xml_in import read_routine

    routine = read_routine(file, skills, goal=goal, names=names)
    with memory.open() as episodic:
        if not episodic.keeps_routines:
            raise UserError(f"{memory}: this memory keeps no routines; name a file of your own")
        kept = Kept(episodic)
        there = kept.all().get(routine.name)
        version = 1 if there is None else there.next_version
        changed = {"version": version, "origin": Origin(household=household)}
        kept.replace(routine.name, routine.model_copy(update=changed))
    text = next((role.name for role in routine.roles if role.kind == "text"), "")
    never = f"; no goal fills {{{text}}}, a text: use it as a skill, see `routine_skills`" if text else ""
    return f"{routine.name}: version {version} is kept in {memory}; it is for '{routine.goal}'{never}"


def put_nodes(skills: Sequence[Skill], out: Path | None) -> None:
    """Write the nodes model of some skills into a new file, or print it."""
    from reactree_ros.routine.xml_out import nodes_model

    _put(nodes_model(skills), out)


def _household(world: str) -> Household:
    return WORLDS.get(world).household


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
