"""``reactree answer``."""

from __future__ import annotations

from typing import Annotated

import typer

from reactree_ros.cli.opening import no_ros

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
    try:
        from reactree_ros.nodes.answer import serve
    except ImportError as error:
        raise no_ros(error, "reactree answer") from error
    raise typer.Exit(serve(planner_node, args=[]))
