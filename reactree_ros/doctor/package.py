"""Python, the installed package, and its extras."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

import reactree_ros as here
from reactree_ros.plugins import REGISTRIES
from reactree_ros.plugins.diagnosis import Diagnosis, Level
from reactree_ros.plugins.installation import extras, install_requirements, lacking

#: The oldest and the newest py_trees that the core is tested with: `.ci/compat`, `requirements.lock`.
TESTED_PY_TREES = "2.2.1", "2.6.0"
_PACKAGE = Path(here.__file__).resolve().parent


def python() -> Iterator[Diagnosis]:
    """Yield diagnoses about Python."""
    yield Diagnosis("Python", Level.RIGHT, f"{platform.python_version()} ({sys.executable})")
    where = (
        f"virtual environment {sys.prefix}"
        if sys.prefix != sys.base_prefix
        else f"no virtual environment ({sys.prefix})"
    )
    yield Diagnosis("environment", Level.RIGHT, where)
    if path := os.environ.get("PYTHONPATH"):
        yield Diagnosis("PYTHONPATH", Level.RIGHT, path)
    yield Diagnosis("platform", Level.RIGHT, platform.platform())


def reactree_ros() -> Iterator[Diagnosis]:
    """Yield diagnoses about this package and its requirements."""
    yield Diagnosis("version", Level.RIGHT, here.__version__)
    yield _installed()
    for requirement, found in lacking("reactree_ros").items() if extras() else ():
        said = f"{found} does not fit" if found else "is missing"
        yield Diagnosis(requirement, Level.WRONG, said, install_requirements(requirement))
    yield _py_trees()


def _installed() -> Diagnosis:
    what, source = "installed", _PACKAGE.parent
    try:
        found = metadata.distribution("reactree_ros")
    except metadata.PackageNotFoundError:
        said = f"not installed, {source} is on the path: its plug-ins and requirements are unknown"
        return Diagnosis(what, Level.NOTE, said, _install(source))
    folder = Path(str(found.locate_file(""))).resolve()
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    is_editable = origin.get("dir_info", {}).get("editable", False)
    if is_editable:
        folder, how = Path(unquote(urlsplit(origin["url"]).path)).resolve(), "editable"
    else:
        how = "as a wheel" if found.read_text("WHEEL") else "by setup.py or colcon"
    if folder != source:
        remedy = "remove the other one from PYTHONPATH, or install the one that you want"
        return Diagnosis(what, Level.NOTE, f"{how}, from {folder}, but what runs is {source}", remedy)
    if found.version != here.__version__:
        said = f"{how}, from {folder}, when it was version {found.version}"
        return Diagnosis(what, Level.NOTE, said, _install(source))
    return Diagnosis(what, Level.RIGHT, f"{how}, {'from' if is_editable else 'in'} {folder}")


def _install(source: Path) -> str:
    return install_requirements("-e", str(source))


def _py_trees() -> Diagnosis:
    oldest, newest = TESTED_PY_TREES
    try:
        version = metadata.version("py_trees")
    except metadata.PackageNotFoundError:
        return Diagnosis("py_trees", Level.WRONG, "is missing", install_requirements(f"py_trees<={newest}"))
    said = f"{version} (tested with {oldest} to {newest})"
    if numbers(oldest) <= numbers(version) <= numbers(newest):
        return Diagnosis("py_trees", Level.RIGHT, said)
    remedy = f"if trees misbehave: {install_requirements(f'py_trees>={oldest},<={newest}')}"
    return Diagnosis("py_trees", Level.NOTE, said, remedy)


def numbers(version: str) -> tuple[int, ...]:
    """Return the parts of a version, e.g. ``2.6.0``, as comparable numbers."""
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def named(requirement: str) -> str:
    """Return the name of the distribution in a requirement."""
    return re.split(r"[<>=!~\[]", requirement, maxsplit=1)[0]


def installed_extras() -> Iterator[Diagnosis]:
    """Yield the installed extras."""
    names = extras()
    if not names:
        said = "unknown: reactree_ros is not installed"
        yield Diagnosis("extras", Level.NOTE, said, _install(_PACKAGE.parent))
    for name in names:
        lacked = lacking(name if "[" in name else f"reactree_ros[{name}]")
        if not lacked:
            yield Diagnosis(name, Level.RIGHT, "installed")
            continue
        unfit = all(lacked.values())  # all packages exist, but not in fitting versions
        said = ", ".join(f"{one} ({found} is installed)" if found else named(one) for one, found in lacked.items())
        level = Level.WRONG if unfit else Level.NOTE
        yield Diagnosis(name, level, f"lacks {said}", install_requirements(*lacked))


def plug_ins() -> Iterator[Diagnosis]:
    """Yield the plug-ins of other packages, and their problems."""
    registries = list(REGISTRIES)
    found = [f"{registry.kind} '{name}' of {by}" for registry in registries for name, by in registry.brought.items()]
    problems = [problem for registry in registries for problem in registry.problems()]
    yield Diagnosis("plug-ins", Level.RIGHT if found else Level.NOTE, ", ".join(found) or "none")
    for problem in dict.fromkeys(problems):
        yield Diagnosis("plug-in", Level.WRONG, problem, "repair, rename or uninstall it")
