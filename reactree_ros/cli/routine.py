"""``reactree routine``."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated

import typer

from reactree_ros.agent.text import visible
from reactree_ros.cli.commands import add_more
from reactree_ros.cli.opening import say
from reactree_ros.cli.options import memory_option
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reactree_ros.episode.assembly import Again
    from reactree_ros.record.reader import Record
    from reactree_ros.routine.fitting import Kept
    from reactree_ros.routine.model import Node, Routine
    from reactree_ros.tree.goal_node import GoalNode

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage the routines of an episodic memory.")
Memory = Annotated[NamedMemory, memory_option("The episodic memory.", "--memory")]
Name = Annotated[str, typer.Argument(help="The routine, see `reactree routine list`.")]


def _say(text: str) -> None:
    say(visible(text))  # others may have written it


def _kept(memory: NamedMemory) -> Kept:
    from reactree_ros.routine.fitting import Kept

    memory.check_exists()
    return Kept(memory.open())


@app.command("list", epilog="reactree routine list --memory household.db")
def routine_list(memory: Memory) -> None:
    """List the routines: what each is for, and what came of it."""
    from reactree_ros.routine.fitting import is_trusted

    kept = _kept(memory)
    with kept.memory:
        routines = kept.all().values()
    for one in routines:
        counts = one.counts
        _say(f"{one.name}: {one.goal}")
        _say(f"  version {one.version}, from {counts.runs} runs, done {counts.successes} of {counts.uses} times")
        if counts.last_failure:
            _say(f"  {'last failure' if is_trusted(one) else 'not used any more'}: {counts.last_failure}")
    if not routines:
        _say("there are none yet")


@app.command("show", epilog="reactree routine show put-1-thing-on-the-place --memory household.db")
def routine_show(
    name: Name,
    memory: Memory,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON, as `edit --file` reads it.")] = False,
) -> None:
    """Show a routine: its roles, its tree, and where it comes from."""
    kept = _kept(memory)
    with kept.memory:
        routine = kept.named(name)
    if as_json:
        typer.echo(routine.to_json())
        return
    origin, counts = routine.origin, routine.counts
    _say(f"{routine.name}, version {routine.version}")
    _say(f"  for: {routine.goal}")
    _say(f"  roles: {', '.join(f'{role.name} ({role.kind})' for role in routine.roles) or 'none'}")
    _say(f"  from: {f'run {origin.run}, {origin.instruction!r}' if origin.run else 'a person'}")
    _say(f"  used {counts.uses} times, done {counts.successes} times")
    for line in _lines(routine.body, 1):
        _say(line)


@app.command("edit", epilog="reactree routine edit put-1-thing-on-the-place --memory household.db")
def routine_edit(
    name: Name,
    memory: Memory,
    file: Annotated[
        Path | None, typer.Option(help="A JSON file to take instead of opening an editor; a new name makes a new one.")
    ] = None,
) -> None:
    """Change a routine in your editor, as JSON; it begins a new version."""
    from reactree_ros.files.read_back import text_of
    from reactree_ros.routine.model import Counts, Routine

    kept = _kept(memory)
    with kept.memory:
        routine = _edited(kept.named(name)) if file is None else Routine.of_json(text_of(file), where=str(file))
        if (there := kept.all().get(name)) is not None:
            if routine == there:
                _say("nothing is changed")
                return
            changed = {"version": there.next_version, "counts": Counts(runs=there.counts.runs)}
            routine = routine.model_copy(update=changed)
        kept.replace(name, routine)
    _say(f"{routine.name}: version {routine.version} is kept in {memory}")


@app.command("remove", epilog="reactree routine remove put-1-thing-on-the-place --memory household.db")
def routine_remove(name: Name, memory: Memory) -> None:
    """Remove a routine."""
    kept = _kept(memory)
    with kept.memory:
        kept.remove(name)
    _say(f"{name} is removed from {memory}")


@app.command("keep", epilog="reactree routine keep run.jsonl --memory household.db")
def routine_keep(
    run: Annotated[Path, typer.Argument(help="The record of a run that ended as you wanted it.")],
    memory: Memory,
    robot: Annotated[
        Path | None, typer.Option(help="The robot's robot.yaml: the routine is tried in the world that it declares.")
    ] = None,
) -> None:
    """Keep the routine of a recorded run: you say that it did what was asked.

    A routine of `robot try`, or with --robot, is kept only if it comes to the same from the run's start, and never ends
    as if it had from another one.
    """
    from reactree_ros.record.reader import read_record
    from reactree_ros.routine.fitting import Kept

    record = read_record(run)
    routine = _routine_of(record, robot)
    with memory.open() as episodic:
        name = Kept(episodic).add(routine)
    _say(f"{name}: kept in {memory}; it is for '{routine.goal}'")


def _routine_of(record: Record, robot: Path | None) -> Routine:  # its tree is grown once more along it
    from py_trees.common import Status

    from reactree_ros.episode.assembly import tried_out
    from reactree_ros.episode.player import replay
    from reactree_ros.routine.fitting import Vocabulary
    from reactree_ros.routine.learn import learnt, overlooked

    replayed = replay(record)
    episode = replayed.episode
    if replayed.difference or episode is None:
        raise UserError(f"{record.name}: this version does not make the run again: {replayed.difference}")
    root, context = episode.root, episode.context
    if root.status != Status.SUCCESS:
        raise UserError(f"{record.name}: the run did not reach its goal; only one that did can be kept as a routine")
    standing = context.known.standing
    named = {*context.known.named}.difference(*standing.values())
    words = (*sorted(named), *context.world.words)
    known = Vocabulary(words, context.world.recallable, context.household.skills, standing.items())
    routine = learnt(root, known, run=str(record.run["id"]))
    worlds = _worlds(record, root, robot)
    if problem := overlooked(routine, known) or (worlds and tried_out(routine, root.subgoal, worlds)):
        raise UserError(f"{record.name}: no routine is kept: {problem}; write one by `reactree routine edit --file`")
    return routine


def _worlds(record: Record, root: GoalNode, robot: Path | None) -> Again | None:
    from reactree_ros.episode.assembly import again
    from reactree_ros.episode.run_spec import RunSpec, Selection
    from reactree_ros.plugins.settings import read_settings
    from reactree_ros.record.reader import is_own
    from reactree_ros.routine.learn import came_to
    from reactree_ros.world.spec import WORLDS

    spec = RunSpec.of_record(record)
    if robot is not None:
        known, chosen = root.context.known, WORLDS.get("declared")
        given = {"robot": str(robot), "condition": dict(known.conditions), "start": came_to(root)[0]}
        world = Selection.from_spec("world", chosen, read_settings(chosen.settings, given, where="--robot"))
        spec = spec.but(world=world, task_id=None)
    elif not is_own(record.run):  # somebody else's may name no file
        spec = spec.but(world=None)
    if (worlds := again(spec, root)) is None:
        _say("not tried out: its goal or its world is not known; a robot's is made of its robot.yaml, see --robot")
    return worlds


add_more("routine", app)


def _edited(routine: Routine) -> Routine:
    # as a person changes it in the editor of their own; what cannot be read is left for them
    from reactree_ros.files.read_back import text_of
    from reactree_ros.routine.model import Routine

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    folder = Path(mkdtemp(prefix="reactree-"))
    path = folder / "routine.json"
    path.write_text(routine.model_dump_json(indent=2), encoding="utf-8")
    try:
        ended = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except (OSError, ValueError) as error:
        rmtree(folder)
        raise UserError(f"the editor '{editor}' cannot be opened ({error}): set EDITOR, or use --file") from None
    if ended:
        rmtree(folder)
        raise UserError(f"the editor '{editor}' ended with {ended}; nothing is changed")
    try:
        changed = Routine.of_json(text_of(path), where=routine.name)
    except UserError as error:
        raise UserError(f"{error}; nothing is changed; mend your text and take it: --file {path}") from None
    rmtree(folder)
    return changed


def _lines(node: Node, depth: int) -> Iterator[str]:
    from reactree_ros.routine.model import children_of

    left_out = ("kind", "children", "child", "memory", "finds", "labels")
    fields = (value for name, value in node if name not in left_out and value not in (None, (), "", {}))
    texts = (" / ".join(one) if isinstance(one, tuple) else str(getattr(one, "value", one)) for one in fields)
    about = ", ".join(texts)
    finds = f" -> {node.finds}" if node.kind == "search" else ""
    yield f"{'  ' * depth}{node.kind}{about and f': {about}{finds}'}"
    for child in children_of(node):
        yield from _lines(child, depth + 1)
