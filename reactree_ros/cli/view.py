"""``reactree view``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from reactree_ros.cli.commands import over_ros
from reactree_ros.cli.opening import say
from reactree_ros.cli.signals import ASKED
from reactree_ros.errors import UserError
from reactree_ros.view import check_installed

if TYPE_CHECKING:
    from reactree_ros.episode import Episode
    from reactree_ros.view.steering import Steering

app = typer.Typer(add_completion=False)
Host = Annotated[str, typer.Option(help="The interface; any other than the loopback is open to other machines.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")]


@app.command()
def view(
    path: Annotated[
        Path | None,
        typer.Argument(help="The record of a run, or a folder of records.", show_default="the current folder"),
    ] = None,
    ros: Annotated[bool, typer.Option("--ros", help="Show the runs of a planner node on ROS 2, live.")] = False,
    planner_node: Annotated[str, typer.Option(help="With --ros: the planner node's name.")] = "reactree_planner",
    host: Host = "127.0.0.1",
    port: Port = 0,
) -> None:
    """Show runs on a page in the browser, finished and live ones, until Ctrl-C."""
    check_installed()
    if ros:
        if path is not None:
            raise UserError(f"{path}: --ros follows a planner node; leave the path out, or --ros")
        ASKED.number = over_ros("view").serve(planner_node, say=_say_where, host=host, port=port, args=[])
        raise KeyboardInterrupt
    from reactree_ros.view.runs import Runs
    from reactree_ros.view.server import ViewServer

    with ViewServer(Runs(path or Path()), host=host, port=port) as server:
        _say_where(server.url)
        server.wait()


@contextmanager
def kept_for_the_page(save: Path | None) -> Iterator[Path]:
    """Yield the path of a run's record: the wanted one, or a temporary one for the page."""
    if save is not None:
        yield save
        return
    with TemporaryDirectory() as folder:
        yield Path(folder, "run.jsonl")


@contextmanager
def watched(episode: Episode, record: Path, steering: Steering) -> Iterator[None]:
    """Show an episode on a page while it runs, and then until Ctrl-C."""
    from reactree_ros.view.runs import Runs
    from reactree_ros.view.server import ViewServer

    steering.follow(episode)
    with ViewServer(Runs(record), steering=steering) as server:
        _say_where(server.url)
        yield
        steering.ended()
        with ASKED.until_ctrl_c():
            server.wait()


def _say_where(url: str) -> None:
    say(f"The page is at {url} (Ctrl-C ends)", err=True)
