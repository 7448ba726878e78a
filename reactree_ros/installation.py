"""What this package needs of others: whether this process sees it, and the line that installs what it does not see.

The package is on no index, so a line names what an extra consists of, and the environment whose packages this process
sees: the one that it runs in, or one on ``PYTHONPATH``, as a sourced ROS workspace puts it there.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from reactree_ros.errors import UserError

#: The environment of a ROS workspace, in the workspace's folder; `resource/virtual_environment.dsv` looks for it there.
WORKSPACE_ENVIRONMENT = ".venv-ros"


def install_line(extra: str) -> str:
    """Return the line that installs an extra for this process.

    Args:
        extra: Of a distribution, e.g. ``reactree_ros[openai]``, or a distribution.
    """
    return install_requirements(*_requirements(extra))


def check_modules(what: str, extra: str, modules: Sequence[str]) -> None:
    """Look whether modules can be imported.

    Args:
        what: What needs them.
        extra: What to install for it.
        modules: The modules.

    Raises:
        UserError: One cannot; the message says what to install.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"'{what}' needs {module.replace('_', '-')}: {install_line(extra)}")


def install_requirements(*requirements: str) -> str:
    """Return the line that installs distributions for this process, e.g. ``openai>=1.40``."""
    pip = f"-m pip install {' '.join(map(shlex.quote, requirements))}"
    environment = _environment()
    if environment is not None:
        return f"{shlex.quote(str(environment))} {pip}"
    python = shlex.quote(sys.executable)
    if not _externally_managed():
        return f"{python} {pip}"
    return (  # nothing is on PYTHONPATH but what ROS put there
        f"{python} -m venv --system-site-packages {WORKSPACE_ENVIRONMENT} && "
        f"{WORKSPACE_ENVIRONMENT}/bin/python {pip} in the folder of the ROS workspace; then build and source it anew"
    )


def check_own_requirements() -> None:
    """Look whether this process sees what the package cannot do without, and none of it too old.

    Raises:
        ImportError: It does not; the message names what, which version there is, and the line that installs it.
    """
    wanted = _requirements("reactree_ros")
    lacking = [f"{one} ({found or 'not there'})" for one in wanted if (found := _too_old(one)) is not None]
    if lacking:
        line = install_requirements(*(one for one in wanted if _too_old(one) is not None))
        raise ImportError(f"reactree_ros needs {', '.join(lacking)}: {line}")


def _requirements(extra: str) -> list[str]:
    name, _, chosen = extra.rstrip("]").partition("[")
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # another one's, which is not here either
        return [extra]
    found = []
    for line in lines:
        requirement, _, marker = line.partition(";")
        extras = re.findall(r"""extra\s*==\s*["']([^"']+)""", marker)
        if extras == ([chosen] if chosen else []):
            found.append(requirement.replace(" ", "").strip("()"))
    return found or [extra]


def _too_old(requirement: str) -> str | None:
    """Return the version that is there of what is too old, empty where there is none; None: it is good."""
    name, _, bounds = re.split(r"([<>=!~]|$)", requirement, maxsplit=1)
    least = re.search(r"(?<![<!])=([\d.]+)", bounds)
    try:
        there = metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
    return there if least is not None and _numbers(there) < _numbers(least[1]) else None


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _environment() -> Path | None:
    """Return the interpreter of the virtual environment whose packages are seen here, if there is one."""
    if sys.prefix != sys.base_prefix:
        return Path(sys.executable)
    for folder in map(Path, sys.path):
        for root in folder.parents[2:3]:  # ROOT/lib/python3.12/site-packages
            if folder.name == "site-packages" and (root / "pyvenv.cfg").is_file():
                return root / "bin" / "python"
    return None


def _externally_managed() -> bool:
    return Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file()
