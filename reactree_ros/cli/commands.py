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


@dataclass(frozen=True)
class Command:
    name: str  # what is typed
    summary: str  # its line in the help of those above it
    panel: str = "Commands"  # its part of the help
    module: str = ""  # is imported when it is called; has a typer ``app``, or ``MODULE:APP``. Empty for a group
    commands: tuple[Command, ...] = ()  # the commands of a group


COMMANDS: Registry[Command] = Registry(
    "command",
    "reactree_ros.commands",
    Command,
    first=("run", "resume", "view", "list", "record", "memory", "routine", "llm", "doctor", "robot", "mcp"),
)
#: The parts of commands that use ROS 2, one module each: the core imports no ROS.
OVER_ROS: Registry[Any] = Registry(
    "command over ROS 2", "reactree_ros.over_ros", object, first=("answer", "mcp", "resume", "view")
)


def _command(name: str, summary: str, module: str = "") -> Command:
    return Command(name, summary, RUN_AND_WATCH, f"reactree_ros.cli.{module or name}")


RUN = _command("run", "Carry out an instruction in a household.")
RESUME = _command("resume", "Go on with a run where it stopped.", "record:resume_app")
VIEW = _command("view", "Show runs on a page in the browser, finished and live ones.")
LIST = _command(
    "list", "List planners, worlds, language models, memories, task suites, options and defaults.", "listing"
)
RECORD = _command("record", "Repeat recorded runs, go on from one of their decisions, or convert them.")
MEMORY = _command("memory", "Manage an episodic memory, or the map that is kept of a house.")
ROUTINE = _command("routine", "Manage the routines of an episodic memory.")
LLM = _command("llm", "Try a language model.")
DOCTOR = _command(
    "doctor", "Check everything that this package can use, and show a remedy for each problem.", "listing:doctor_app"
)
ROBOT = Command(
    "robot",
    "Look after a robot's map and configuration, or answer its questions.",
    ROBOTS,
    "reactree_ros.robot.command",
)


def over_ros(name: str, what: str = "--ros") -> Any:
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

    kind, group = f"part of `reactree {command}`", f"reactree_ros.commands.{command}"
    more: Registry[typer.Typer] = Registry(kind, group, typer.Typer, first=())
    for one in more.every():
        app.add_typer(one)
