"""``reactree record replay``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import progress

app = typer.Typer(add_completion=False)


@app.command()
def replay(
    runs: Annotated[
        list[Path], typer.Argument(help="Records of runs, or folders of them; `reactree run --save` writes one.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Repeat recorded decisions with the real tree, and compare everything but times with the record.

    Exit code 1 if a run is not identical.
    """
    from reactree_ros.episode.player import replay
    from reactree_ros.record.reader import read_record, records_in

    found, console = records_in(runs), Console()
    differences: dict[str, str] = {}
    with progress("Replaying", quiet=as_json) as advance:
        for number, path in enumerate(found, 1):
            replayed = replay(read_record(path))
            if not replayed.identical:
                differences[str(path)] = replayed.difference
            advance(number / len(found))
    identical = len(found) - len(differences)
    if as_json:
        print(json.dumps({"runs": len(found), "runs_identical": identical, "differences": differences}))  # noqa: T201
    else:
        for name, difference in differences.items():
            console.print(f"{name}: {difference}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"{identical} of {len(found)} runs identical", highlight=False)
    if differences:
        raise typer.Exit(NOT_ACHIEVED)
