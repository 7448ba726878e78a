"""``reactree view``."""

from __future__ import annotations

import os
import sys
import webbrowser
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reactree_ros.background.pending import in_a_thread
from reactree_ros.cli import ASKED
from reactree_ros.cli.commands import over_ros
from reactree_ros.cli.opening import say_where
from reactree_ros.errors import UserError
from reactree_ros.view import check_installed

app = typer.Typer(add_completion=False)
Host = Annotated[str, typer.Option(help="The interface; any other than the loopback is open to other machines.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")]


@app.command(epilog="reactree view run.jsonl")
def view(
    path: Annotated[
        Path | None,
        typer.Argument(help="The record of a run, or a folder of records.", show_default="the current folder"),
    ] = None,
    ros: Annotated[bool, typer.Option("--ros", help="Show the runs of a planner node on ROS 2, live.")] = False,
    planner_node: Annotated[str, typer.Option(help="With --ros: the planner node's name.")] = "reactree_planner",
    host: Host = "127.0.0.1",
    port: Port = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser, where there is a screen.")] = True,
) -> None:
    """Show runs on a page in the browser, finished and live ones, until Ctrl-C."""
    check_installed()
    if ros:
        if path is not None:
            raise UserError(f"{path}: --ros follows a planner node; leave the path out, or --ros")
        ASKED.number = over_ros("view").serve(planner_node, say=say_where, host=host, port=port, args=[])
        raise KeyboardInterrupt
    from reactree_ros.view.runs import Runs
    from reactree_ros.view.server import ViewServer

    with ViewServer(Runs(path or Path()), host=host, port=port) as server:
        say_where(server.url)
        if browser and _has_a_screen():
            in_a_thread(partial(webbrowser.open, server.url_for_once()), "browser")
        server.wait()


def _has_a_screen() -> bool:
    # without one, a browser of the terminal would take it over
    return sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
