"""``reactree mcp``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from reactree_ros.cli.commands import over_ros
from reactree_ros.cli.opening import chosen_planner, open_map, open_memory, open_model
from reactree_ros.cli.options import (
    Chosen,
    Named,
    NamedModel,
    RunOptionsGiven,
    memory_option,
    options_from,
    takes,
    vision_option,
)
from reactree_ros.cli.run import KeptMap, Planner, PolicyFile
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.tree.options import RunOptions, TreeOptions
from reactree_ros.world.spec import WORLDS

if TYPE_CHECKING:
    from reactree_doors.mcp.robot import Robot
    from reactree_ros.episode.run_spec import RunSpec
    from reactree_ros.world.spec import Place

#: Options that --ros may stand with.
WITH_ROS = ("ros", "planner_node", "http", "host", "port")
app = typer.Typer(add_completion=False)


@app.command(epilog="reactree mcp --house villa --llm small\nreactree mcp --ros --http --port 8765")
@takes(world=Named(WORLDS, "world"), llm=NamedModel(), options=RunOptionsGiven())
def mcp(
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Serve by streamable HTTP instead of stdin and stdout; clients bear the token of REACTREE_MCP_TOKEN, "
            "or a new one that is printed.",
        ),
    ] = False,
    host: Annotated[
        str, typer.Option(help="With --http: the interface; any other than the loopback is open to other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http: the port; 0: a free one.")] = 0,
    planner: Planner = "",
    memory: Annotated[
        NamedMemory | None,
        memory_option("An episodic memory: examples come from it, and runs that reach their goals are added."),
    ] = None,
    vision: Annotated[Chosen | None, vision_option()] = None,
    house_map: KeptMap = None,
    policy: PolicyFile = None,
    records: Annotated[
        Path | None, typer.Option(help="Keep each run's record in this folder; else they go when the server ends.")
    ] = None,
    ros: Annotated[
        bool,
        typer.Option("--ros", help="Serve the robot of a planner node on ROS 2, with its bridge's skills and policy."),
    ] = False,
    planner_node: Annotated[str, typer.Option(help="With --ros: the planner node's name.")] = "reactree_planner",
    *,
    ctx: typer.Context,
    world: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Serve the robot to an assistant by the Model Context Protocol, until the client leaves or Ctrl-C.

    Tools carry out instructions and skills, pause, stop and answer; resources show the tree, the record, the map and
    the camera's last picture, and can be subscribed to.
    """
    from reactree_doors.mcp import check_installed

    check_installed()
    from reactree_doors.mcp.server import Door
    from reactree_doors.mcp.serving import serve_http, serve_streams, token, wire
    from reactree_ros import __version__
    from reactree_ros.episode.run_spec import RunSpec, Selection
    from reactree_ros.world.skill_policy import load_policy
    from reactree_ros.world.spec import Place

    def serve(robot: Robot) -> None:
        door = Door(robot, version=__version__)
        if streams is not None:
            serve_streams(door, streams)
        else:
            serve_http(door, host, port, secret, say=_say(secret if is_new else ""))

    streams = None if http else wire()  # before anything can print
    secret, is_new = token() if http else ("", False)
    if ros:
        _check_alone(ctx)
        with over_ros("mcp").robot_of(planner_node) as robot:
            serve(robot)
        return
    place = Place.from_settings(*world)
    task, _ = place.choose(None, by_number=place.settings.of_many) if place.tasks else (None, None)
    spec = RunSpec.in_place(
        place,
        task.instruction if task else "what clients ask for",
        llm=llm,
        planner=chosen_planner(planner, llm).name,
        options=TreeOptions(**dict(options)),
        policy=load_policy(policy) if policy else None,
        memory="" if memory is None else memory.absolute(),
        vision=vision and Selection.from_spec("llm", *vision),
        person=True,
    ).but(task_id=None)
    with _in_process(spec, place, house_map, records) as robot:
        serve(robot)


def _check_alone(ctx: typer.Context) -> None:
    if said := sorted(options_from("COMMANDLINE", ctx, ctx.params) - set(WITH_ROS)):
        names = [one for name in said for one in next(one.opts for one in ctx.command.params if one.name == name)[:1]]
        raise UserError(
            f"--ros: the planner node and its bridge have settings of their own; leave {', '.join(names)} out"
        )


def _say(secret: str) -> Callable[[str], None]:
    def say(url: str) -> None:
        bearer = f" with the header 'Authorization: Bearer {secret}'" if secret else " with the token"
        console = Console(stderr=True, soft_wrap=True)
        console.print(f"MCP is served at {url}{bearer} (Ctrl-C ends)", markup=False, highlight=False)

    return say


@contextmanager
def _in_process(spec: RunSpec, place: Place, house_map: Path | None, records: Path | None) -> Iterator[Robot]:
    from reactree_doors.mcp.in_process import InProcess
    from reactree_doors.mcp.robot import Questions
    from reactree_ros.episode.assembly import make_world
    from reactree_ros.episode.eyes import Remembering
    from reactree_ros.episode.telemetry import exporting

    questions, named = Questions(), spec.chosen_memory()
    if records is not None:
        try:
            records.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--records {records}: {error.strerror or error}") from error
    with (
        exporting("reactree mcp"),
        open_model(*spec.chosen("llm")) as model,
        open_memory(named) if named else nullcontext() as memory,
        TemporaryDirectory() if records is None else nullcontext(str(records)) as folder,
        make_world(spec, place) as world,
        open_map(house_map, spec.where) if house_map else nullcontext() as kept,
    ):
        yield InProcess(
            spec,
            world=Remembering(world, kept) if kept else world,
            model=model,
            questions=questions,
            records=Path(folder),
            memory=memory,
            house_map=kept,
        )
