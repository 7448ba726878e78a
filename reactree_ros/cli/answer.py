"""``reactree answer``."""

from __future__ import annotations

from typing import Annotated

import typer

from reactree_ros.cli.commands import over_ros

app = typer.Typer(add_completion=False)


@app.command()
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
    raise typer.Exit(over_ros("answer", "reactree answer").serve(planner_node, args=[]))
