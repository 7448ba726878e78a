"""The commands: values that say name, help line and place, so that the help imports no command.

A package brings a command by an entry point of the group ``reactree_ros.commands`` that names a :class:`Command`. The
module with that value should import little else: every `reactree --help` imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry

RUN_AND_WATCH, ROBOTS, LAB = "Run and watch", "Robots", "Lab"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, or a group of commands.

    Attributes:
        module: The module that is imported when it is called, with a typer ``app``; empty for a group of ``commands``.
    """

    name: str  # what is typed
    summary: str  # its line in the help of those above it
    panel: str = "Commands"  # its part of the help
    module: str = ""
    commands: tuple[Command, ...] = ()  # the commands of a group


COMMANDS: Registry[Command] = Registry(
    "command",
    "reactree_ros.commands",
    Command,
    first=(
        *("run", "resume", "view", "list", "record", "memory", "routine", "llm", "doctor"),
        *("robot", "mcp"),
    ),
)
#: The parts of commands that use ROS 2, one module each: the core imports no ROS.
OVER_ROS: Registry[Any] = Registry(
    "command over ROS 2", "reactree_ros.over_ros", object, first=("answer", "mcp", "resume", "view")
)

RUN = Command(
    name="run",
    summary="Carry out an instruction in a household.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.run",
)
RESUME = Command(
    name="resume",
    summary="Go on with a run where it stopped.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.resume",
)
VIEW = Command(
    name="view",
    summary="Show runs on a page in the browser, finished and live ones.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.view",
)
LIST = Command(
    name="list",
    summary="List planners, worlds, language models, memories, task suites, options and defaults.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.listing",
)
RECORD = Command(
    name="record",
    summary="Repeat recorded runs, go on from one of their decisions, or convert them.",
    panel=RUN_AND_WATCH,
    commands=(
        Command(
            name="fork", summary="Go on from a decision of a run with another one.", module="reactree_ros.cli.fork"
        ),
        Command(
            name="replay",
            summary="Repeat recorded decisions with the real tree, and compare the result.",
            module="reactree_ros.cli.replay",
        ),
        Command(name="export", summary="Convert records to another format.", module="reactree_ros.cli.export"),
    ),
)
MEMORY = Command(
    name="memory",
    summary="Manage an episodic memory, or the map that is kept of a house.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.memory",
)
ROUTINE = Command(
    name="routine",
    summary="Manage the routines of an episodic memory.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.routine",
)
LLM = Command(
    name="llm",
    summary="Try a language model.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.llm",
)
DOCTOR = Command(
    name="doctor",
    summary="Check everything that this package can use, and show a remedy for each problem.",
    panel=RUN_AND_WATCH,
    module="reactree_ros.cli.doctor",
)
ROBOT = Command(
    name="robot",
    summary="Look after a robot's map and configuration, or answer its questions.",
    panel=ROBOTS,
    module="reactree_ros.robot.command",
)


def over_ros(name: str, what: str = "--ros") -> Any:
    """Return the module of a command's part over ROS 2."""
    try:
        return OVER_ROS.get(name)
    except (ImportError, UserError) as error:
        missing = error if isinstance(error, ImportError) else error.__cause__  # of another distribution's
        if not isinstance(missing, ImportError):
            raise
        raise UserError(
            f"{what} needs ROS 2 and this package's workspace, built and sourced ({missing}): source "
            "/opt/ros/DISTRO/setup.bash, then ros2_ws/install/setup.bash"
        ) from error


def add_more(command: str, app: Any) -> None:
    """Add to a command's app what other distributions bring: apps in the group ``reactree_ros.commands.COMMAND``."""
    import typer

    more: Registry[typer.Typer] = Registry(
        f"part of `reactree {command}`", f"reactree_ros.commands.{command}", typer.Typer, first=()
    )
    for one in more.every():
        app.add_typer(one)
