"""``reactree answer``."""

from __future__ import annotations

from typing import Annotated

import typer

from reactree_ros.cli.commands import over_ros

app = typer.Typer(add_completion=False)


@app.command()
def answer(
    planner_node: Annotated[
        str, typer.Option(help="Answer this planner node and its bridges only.", show_default="all that ask")
    ] = "",
) -> None:
    """Answer what planners and bridges on ROS 2 ask a person, at this terminal, until Ctrl-C.

    What is typed while nothing is asked goes to the run that goes on; 'stop' ends it.
    """
    raise typer.Exit(over_ros("answer", "reactree answer").serve(planner_node, args=[]))
