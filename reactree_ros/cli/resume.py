"""``reactree resume``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reactree_ros.cli.going_on import go_on_from
from reactree_ros.cli.options import Chosen, OtherModel, takes

app = typer.Typer(add_completion=False)


@app.command()
@takes(llm=OtherModel())
def resume(
    run: Annotated[Path, typer.Argument(help="The record of a run that was killed, canceled or out of its budget.")],
    save: Annotated[Path | None, typer.Option(help="Write the new run's record into this new file.")] = None,
    max_decisions: Annotated[int, typer.Option(min=0, help="Decisions allowed; 0: twice the limit it met.")] = 0,
    max_steps: Annotated[int, typer.Option(min=0, help="Steps allowed; 0: twice the limit it met.")] = 0,
    memory: Annotated[Path | None, typer.Option(help="An episodic memory that examples come from.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    *,
    llm: Chosen | None,
) -> None:
    """Go on with a run where it stopped: its skills are carried out again, and what comes of them is compared.

    Exit codes as of `reactree run`.
    """
    from reactree_ros.record.going_on import more_than, stop_of
    from reactree_ros.record.reader import read_record

    record = read_record(run)
    given = {name: value for name, value in (("max_decisions", max_decisions), ("max_steps", max_steps)) if value}
    until, limits = stop_of(record), more_than(record, given)
    go_on_from(record, until, llm=llm, limits=limits, memory=memory, save=save, as_json=as_json)
