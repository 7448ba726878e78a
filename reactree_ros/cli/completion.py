"""Shell completion: the names in a registry. The shell itself completes files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactree_ros.planners.spec import PLANNERS, WM
from reactree_ros.plugins import REGISTRIES, Registry

Named = list[tuple[str, str]]


def names_of(registry: Registry[Any]) -> Callable[[str], Named]:
    """Return a function that completes names in a registry, each with its summary."""

    def complete(incomplete: str) -> Named:
        return [(spec.name, spec.summary) for spec in registry if spec.name.startswith(incomplete)]

    return complete


def planner(incomplete: str) -> Named:
    """Complete a planner's name, with ``_wm`` if it can use working memory."""
    return [
        (name, spec.summary)
        for spec in PLANNERS
        for name in (spec.name, *([f"{spec.name}{WM}"] if spec.remembers else []))
        if name.startswith(incomplete)
    ]


def planners(incomplete: str) -> Named:
    """Complete the last of several planners, separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", summary) for name, summary in planner(last)]


def kinds() -> dict[str, Registry[Any]]:
    """Return the registries of things with settings, by their kinds in `reactree list`."""
    return {kind: registry for kind, registry in REGISTRIES.items() if hasattr(registry.base, "settings")}


def listed(incomplete: str) -> Named:
    """Complete what `reactree list` shows: a kind, or any registered name."""
    found = [
        (kind, f"all {kind}") for kind in (*kinds(), "words", "options", "defaults") if kind.startswith(incomplete)
    ]
    return found + [one for registry in kinds().values() for one in names_of(registry)(incomplete)]
