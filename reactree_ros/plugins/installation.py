"""Checks for required packages in this process, and the lines that install missing ones.

The package is on no index, so a line lists the contents of an extra. It uses the environment whose packages this
process sees: its own, or one on ``PYTHONPATH``, where a sourced ROS workspace puts it.
"""

from __future__ import annotations

import enum
import importlib.util
import re
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from reactree_ros.errors import UserError

#: Begins a requirement that is installed without those of its own: one of an extra ``NAME-no-deps``.
ALONE = "--no-deps "
#: Folder of a ROS workspace's environment, within the workspace; `resource/virtual_environment.dsv` looks there.
WORKSPACE_ENVIRONMENT = ".venv-ros"


def install_line(extra: str) -> str:
    """Return the line that installs an extra, e.g. ``reactree_ros[openai]``, or a distribution for this process."""
    return install_requirements(*_requirements(extra))


def check_modules(what: str, extra: str, modules: Sequence[str]) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"'{what}' needs {module.replace('_', '-')}: {install_line(extra)}")


def install_requirements(*requirements: str) -> str:
    environment = _environment()
    if environment is not None:
        return _pip_install(str(environment), requirements)
    if not _externally_managed():
        return _pip_install(sys.executable, requirements)
    return (  # only ROS's own entries are on PYTHONPATH
        f"{shlex.quote(sys.executable)} -m venv --system-site-packages {WORKSPACE_ENVIRONMENT} && "
        f"{_pip_install(f'{WORKSPACE_ENVIRONMENT}/bin/python', requirements)} in the folder of the ROS workspace; then "
        "build and source it again"
    )


def _pip_install(python: str, requirements: Sequence[str]) -> str:
    together = [shlex.quote(one) for one in requirements if not one.startswith(ALONE)]
    alone = [shlex.quote(one.removeprefix(ALONE)) for one in requirements if one.startswith(ALONE)]
    parts = [*filter(None, [" ".join(together)]), *([f"{ALONE}{' '.join(alone)}"] if alone else [])]
    return " && ".join(f"{shlex.quote(python)} -m pip install {part}" for part in parts)


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!~\[]", requirement.removeprefix(ALONE), maxsplit=1)[0]


def is_command(text: str) -> bool:
    """Return whether a text is a line for a shell: of :func:`install_requirements`, or one of `reactree`."""
    is_line = re.match(r"(\S+|'[^']+') -m pip install |reactree ", text) is not None
    return is_line and not re.search("[,;:] | in the ", re.sub("\"[^\"]*\"|'[^']*'", "", text))


def check_own_requirements() -> None:
    """Raise ImportError if a requirement has no fitting version here; a program of ours ends with that line alone."""
    if lacked := lacking("reactree_ros"):
        said = ", ".join(f"{one} ({found or 'not there'})" for one, found in lacked.items())
        said = f"reactree_ros needs {said}: {install_requirements(*lacked)}"
        scripts = metadata.entry_points(group="console_scripts", name=Path(next(iter(sys.argv), "")).name)
        if any(one.module.startswith("reactree_ros.") for one in scripts):
            sys.exit(f"error: {said}")
        raise ImportError(said)


def extras() -> list[str]:
    try:
        own = metadata.metadata("reactree_ros").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []
    points = metadata.entry_points()
    groups = [group for group in points.groups if group.startswith("reactree_ros.")]
    found = {point.dist for group in groups for point in points.select(group=group) if point.dist}
    others = sorted((one.name, name) for one in found for name in one.metadata.get_all("Provides-Extra") or [])
    names = own + [f"{one}[{name}]" for one, name in others if one != "reactree_ros"]
    return [name for name in names if not name.rstrip("]").endswith("-no-deps")]


def lacking(extra: str) -> dict[str, str]:
    """Return requirements without a fitting version here, e.g. ``openai>=1.40``, each with the installed version."""
    return {one: found for one in _requirements(extra) if (found := _unfit(one)) is not None}


def _requirements(extra: str) -> list[str]:
    name, _, chosen = extra.rstrip("]").partition("[")
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # another distribution's extra; those of this checkout are on no index
        return [f"./ros2_ws/src/{extra}" if extra.startswith("reactree_") else extra]
    found: dict[str, None] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        extras = re.findall(r"""extra\s*==\s*["']([^"']+)""", marker)
        before = re.search(r"""python_version\s*<\s*["']([\d.]+)""", marker)
        is_for_this_python = before is None or list(sys.version_info[:2]) < numbers(before[1])
        requirement = requirement.replace(" ", "").strip("()")
        if extras == ([chosen] if chosen else []) and is_for_this_python:
            found |= dict.fromkeys(_whole(requirement))
        elif extras == [f"{chosen}-no-deps"]:
            found[f"{ALONE}{requirement}"] = None
    return list(found) or [extra]


def _whole(requirement: str) -> list[str]:
    name, _, chosen = requirement.rstrip("]").partition("[")
    name = re.sub(r"[-_.]+", "_", name)
    if not chosen or not name.startswith("reactree_"):
        return [requirement]
    return [one for extra in chosen.split(",") for one in _requirements(f"{name}[{extra}]")]


def _unfit(requirement: str) -> str | None:
    least, below = re.search(r">=([\d.]+)", requirement), re.search(r"<([\d.]+)", requirement)
    try:
        there = metadata.version(name_of(requirement))
    except metadata.PackageNotFoundError:
        return ""
    too_old = least is not None and numbers(there) < numbers(least[1])
    return there if too_old or (below is not None and numbers(there) >= numbers(below[1])) else None


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _environment() -> Path | None:
    if sys.prefix != sys.base_prefix:
        return Path(sys.executable)
    for folder in map(Path, sys.path):
        for root in folder.parents[2:3]:  # ROOT/lib/python3.12/site-packages
            if folder.name == "site-packages" and (root / "pyvenv.cfg").is_file():
                return root / "bin" / "python"
    return None


def _externally_managed() -> bool:
    return Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file()


class Level(enum.Enum):
    """How serious a diagnosis is."""

    RIGHT = "right"
    NOTE = "note"
    """Nothing is wrong, but a person should know."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Diagnosis:
    """What a check says of one thing."""

    what: str  # the thing, e.g. ``emergency stop``
    level: Level
    said: str  # what the check found
    remedy: str = ""  # what to do; empty if nothing is wrong
