"""The commands of this package and of others: entry points of the group ``reactree_ros.commands``.

Each names a module with a typer ``app``. The module's ``AFTER`` may name the command that it follows in the help.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast

import typer

from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry

COMMANDS: Registry[ModuleType] = Registry(
    "command",
    "reactree_ros.commands",
    ModuleType,
    first=(
        *("run", "list", "resume", "fork", "export", "view", "answer"),
        *("llm", "memory", "config", "doctor"),
    ),
)
#: The parts of commands that use ROS 2, one module each: the core imports no ROS.
OVER_ROS: Registry[ModuleType] = Registry(
    "command over ROS 2", "reactree_ros.over_ros", ModuleType, first=("answer", "mcp", "resume", "view")
)


def app_of(name: str) -> typer.Typer:
    """Return the typer app of a command."""
    module = COMMANDS.get(name)
    if not _has_app(module):
        raise UserError(f"command '{name}': {module.__name__} has no typer.Typer named 'app'")
    return cast("typer.Typer", module.app)


def in_order() -> list[str]:
    """Return the names of usable commands, in the order of the help."""
    after = {name: str(getattr(module, "AFTER", "")) for name, module in COMMANDS.items() if _has_app(module)}
    names: list[str] = []
    waiting = [name for name in after if after[name] not in after]
    while waiting:
        names.append(waiting.pop(0))
        waiting[:0] = [name for name in after if after[name] == names[-1]]
    return [*names, *(name for name in after if name not in names)]  # those in a cycle of AFTER


def _has_app(module: ModuleType) -> bool:
    return isinstance(getattr(module, "app", None), typer.Typer)


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


def add_more(command: str, app: typer.Typer) -> None:
    """Add to a command's app what other distributions bring: apps in the group ``reactree_ros.commands.COMMAND``."""
    more: Registry[typer.Typer] = Registry(
        f"part of `reactree {command}`", f"reactree_ros.commands.{command}", typer.Typer, first=()
    )
    for one in more.every():
        app.add_typer(one)
