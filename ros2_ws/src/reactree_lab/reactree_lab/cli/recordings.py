"""``reactree lab recordings``."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import progress
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import or_nearest

app = typer.Typer(add_completion=False)


class ReplayWorld(str, enum.Enum):
    RECORDED = "recorded"
    SYMBOLIC = "symbolic"


@app.command()
def recordings(
    trajectories: Annotated[
        Path,
        typer.Argument(help="The authors' recorded runs of WAH-NL or ALFRED: JSON lines, one agent node per line."),
    ],
    tasks: Annotated[Path | None, typer.Option(help="The recordings' task file; needed for --world symbolic.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="react, react_wm, reactree or reactree_wm; by default the trajectories' file name."),
    ] = None,
    world: Annotated[ReplayWorld, typer.Option(help="Source of the observations.")] = ReplayWorld.RECORDED,
    outcomes: Annotated[
        Path | None,
        typer.Option(
            help="A file that says which runs succeeded; by default recorded_outcomes.json next to the task file."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Repeat the authors' recorded decisions with the real tree, and compare the result with the recording.

    The symbolic world reproduces the simulator's quirks that the task file records.
    Exit code 1 if a run in the recorded world is not identical.
    """
    from reactree_lab.recordings import VARIANTS, load_outcomes, load_recording
    from reactree_lab.replay_recordings import Replay
    from reactree_ros.household.tasks import load_tasks

    variant = variant or trajectories.stem
    if variant not in VARIANTS:
        raise UserError(f"--variant {variant}: is none of {', '.join(VARIANTS)}{or_nearest(variant, VARIANTS)}")
    if tasks is None and world is ReplayWorld.SYMBOLIC:
        raise UserError("--world symbolic needs --tasks: the recordings' task file")
    if outcomes is None and tasks is not None and (beside := tasks.with_name("recorded_outcomes.json")).exists():
        outcomes = beside
    one = Replay(
        tasks={} if tasks is None else {task.task_id: task for task in load_tasks(tasks)},
        variant=variant,
        symbolic=world is ReplayWorld.SYMBOLIC,
        outcomes=None if outcomes is None else load_outcomes(outcomes, variant),
    )
    recorded = load_recording(trajectories)
    with progress("Replaying", quiet=as_json) as advance:
        for number, run_ in enumerate(recorded, 1):
            one.replay(run_)
            advance(number / len(recorded))
    report = one.report
    if as_json:
        print(json.dumps(dataclasses.asdict(report)))  # noqa: T201
    else:
        console = Console()
        table = Table("kind of line", "lines", "identical", "%")
        for kind, (lines, identical) in [*report.by_kind.items(), ("all", [report.lines, report.lines_identical])]:
            table.add_row(kind, str(lines), str(identical), f"{100 * identical / lines:.1f}" if lines else "")
        console.print(table)
        for line in [*report.differences, *report.overwritten]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print(
            f"{report.runs_identical} of {report.runs} runs identical ({report.runs_overwritten} of them with "
            f"overwritten files), {report.nodes_identical} of {report.nodes} agent nodes",
            highlight=False,
        )
        if report.successes_recorded is not None:
            console.print(
                f"{report.successes_reproduced} of {report.successes_recorded} recorded successes reach their goal",
                highlight=False,
            )
    if world is ReplayWorld.RECORDED and report.runs_identical < report.runs:
        raise typer.Exit(NOT_ACHIEVED)
