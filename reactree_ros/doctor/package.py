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
from reactree_ros.plugins.findings import Finding, Verdict
from reactree_ros.plugins.installation import extras, install_requirements, lacking

#: The oldest and the newest py_trees that the core is tested with: `.ci/compat`, `requirements.lock`.
TESTED_PY_TREES = "2.2.1", "2.6.0"
_PACKAGE = Path(here.__file__).resolve().parent


def python() -> Iterator[Finding]:
    """Yield findings about Python."""
    yield Finding("Python", Verdict.RIGHT, f"{platform.python_version()} ({sys.executable})")
    where = (
        f"virtual environment {sys.prefix}"
        if sys.prefix != sys.base_prefix
        else f"no virtual environment ({sys.prefix})"
    )
    yield Finding("environment", Verdict.RIGHT, where)
    if path := os.environ.get("PYTHONPATH"):
        yield Finding("PYTHONPATH", Verdict.RIGHT, path)
    yield Finding("platform", Verdict.RIGHT, platform.platform())


def reactree_ros() -> Iterator[Finding]:
    """Yield findings about this package and its requirements."""
    yield Finding("version", Verdict.RIGHT, here.__version__)
    yield _installed()
    for requirement, found in lacking("reactree_ros").items() if extras() else ():
        said = f"{found} does not fit" if found else "is missing"
        yield Finding(requirement, Verdict.WRONG, said, install_requirements(requirement))
    yield _py_trees()


def _installed() -> Finding:
    what, source = "installed", _PACKAGE.parent
    try:
        found = metadata.distribution("reactree_ros")
    except metadata.PackageNotFoundError:
        said = f"not installed, {source} is on the path: its plug-ins and requirements are unknown"
        return Finding(what, Verdict.NOTE, said, _install(source))
    folder = Path(str(found.locate_file(""))).resolve()
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    is_editable = origin.get("dir_info", {}).get("editable", False)
    if is_editable:
        folder, how = Path(unquote(urlsplit(origin["url"]).path)).resolve(), "editable"
    else:
        how = "as a wheel" if found.read_text("WHEEL") else "by setup.py or colcon"
    if folder != source:
        mend = "remove the other one from PYTHONPATH, or install the one that you want"
        return Finding(what, Verdict.NOTE, f"{how}, from {folder}, but what runs is {source}", mend)
    if found.version != here.__version__:
        said = f"{how}, from {folder}, when it was version {found.version}"
        return Finding(what, Verdict.NOTE, said, _install(source))
    return Finding(what, Verdict.RIGHT, f"{how}, {'from' if is_editable else 'in'} {folder}")


def _install(source: Path) -> str:
    return install_requirements("-e", str(source))


def _py_trees() -> Finding:
    oldest, newest = TESTED_PY_TREES
    try:
        version = metadata.version("py_trees")
    except metadata.PackageNotFoundError:
        return Finding("py_trees", Verdict.WRONG, "is missing", install_requirements(f"py_trees<={newest}"))
    said = f"{version} (tested with {oldest} to {newest})"
    if numbers(oldest) <= numbers(version) <= numbers(newest):
        return Finding("py_trees", Verdict.RIGHT, said)
    mend = f"if trees misbehave: {install_requirements(f'py_trees>={oldest},<={newest}')}"
    return Finding("py_trees", Verdict.NOTE, said, mend)


def numbers(version: str) -> tuple[int, ...]:
    """Return the parts of a version, e.g. ``2.6.0``, as comparable numbers."""
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def named(requirement: str) -> str:
    """Return the name of the distribution in a requirement."""
    return re.split(r"[<>=!~\[]", requirement, maxsplit=1)[0]


def installed_extras() -> Iterator[Finding]:
    """Yield the installed extras."""
    names = extras()
    if not names:
        said = "unknown: reactree_ros is not installed"
        yield Finding("extras", Verdict.NOTE, said, _install(_PACKAGE.parent))
    for name in names:
        lacked = lacking(f"reactree_ros[{name}]")
        if not lacked:
            yield Finding(name, Verdict.RIGHT, "installed")
            continue
        unfit = all(lacked.values())  # all packages exist, but not in fitting versions
        said = ", ".join(f"{one} ({found} is installed)" if found else named(one) for one, found in lacked.items())
        verdict = Verdict.WRONG if unfit else Verdict.NOTE
        yield Finding(name, verdict, f"lacks {said}", install_requirements(*lacked))


def plug_ins() -> Iterator[Finding]:
    """Yield the plug-ins of other packages, and their problems."""
    registries = list(REGISTRIES)
    found = [f"{registry.kind} '{name}' of {by}" for registry in registries for name, by in registry.brought.items()]
    problems = [problem for registry in registries for problem in registry.problems()]
    yield Finding("plug-ins", Verdict.RIGHT if found else Verdict.NOTE, ", ".join(found) or "none")
    for problem in dict.fromkeys(problems):
        yield Finding("plug-in", Verdict.WRONG, problem, "repair, rename or uninstall it")
