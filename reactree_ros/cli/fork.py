"""``reactree record fork``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.carry_out import carry_out, differs, terminal
from reactree_ros.cli.options import Chosen, ModelAgain, WorldAgain, memory_option, takes, vision_option
from reactree_ros.cli.said_again import said_again
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory

app = typer.Typer(add_completion=False)


@app.command()
@takes(world_option=WorldAgain(), llm=ModelAgain())
def fork(
    run: Annotated[Path, typer.Argument(help="The record of a run.")],
    at: Annotated[int, typer.Option(help="The decision that is to be another one, from 1.")],
    say: Annotated[str, typer.Option(help="What is said instead, e.g. 'Act: go to kitchen 1'.")] = "",
    planner: Annotated[str, typer.Option(help="Another planner, which begins anew where the run was then.")] = "",
    save: Annotated[Path | None, typer.Option(help="Write the new run's record into this new file.")] = None,
    memory: Annotated[NamedMemory | None, memory_option("An episodic memory that examples come from.")] = None,
    vision: Annotated[Chosen | None, vision_option("Without, the record's own is not asked.")] = None,
    policy: Annotated[
        Path | None, typer.Option(help="A skill policy, which holds instead of the record's own one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    *,
    world_option: Mapping[str, Any],
    llm: Chosen | Mapping[str, Any],
) -> None:
    """Go on from a decision of a run otherwise: its skills up to there are carried out again.

    Exit codes as of `reactree run`.
    """
    from reactree_ros.episode.going_on import decision_of, go_on
    from reactree_ros.episode.run_spec import RunSpec
    from reactree_ros.record.reader import read_record

    if say and planner:
        raise UserError("--say and --planner exclude each other: another planner makes its own decisions")
    record = read_record(run)
    until, anew = decision_of(record, at), bool(planner)
    said = partial(said_again, RunSpec.of_record(record), record.run, world=world_option, llm=llm)
    spec = said(policy=policy, memory=memory, vision=vision, planner=planner)
    if anew:
        spec = spec.but(person=terminal() is not None)
    begin = partial(go_on, record, until, differs=differs, **({"anew": True} if anew else {"says": say}))
    if not carry_out(spec, begin, save=save, as_json=as_json).whole:
        raise typer.Exit(NOT_ACHIEVED)
