"""What a shell is told when somebody presses the tab key: the names in a registry. Files are left to the shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactree_ros.planners.spec import PLANNERS, WM
from reactree_ros.plugins import REGISTRIES, Registry, Spec

Named = list[tuple[str, str]]


def names_of(registry: Registry[Any]) -> Callable[[str], Named]:
    """Return what completes the name of something in a registry: each name, with what it is."""

    def complete(incomplete: str) -> Named:
        return [(spec.name, spec.summary) for spec in registry if spec.name.startswith(incomplete)]

    return complete


def planner(incomplete: str) -> Named:
    """Complete a planner's name, with ``_wm`` too where it remembers where things were seen."""
    return [
        (name, spec.summary)
        for spec in PLANNERS
        for name in (spec.name, *([f"{spec.name}{WM}"] if spec.remembers else []))
        if name.startswith(incomplete)
    ]


def planners(incomplete: str) -> Named:
    """Complete the last of several planners, with commas between them."""
    before, comma, last = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", summary) for name, summary in planner(last)]


def kinds() -> dict[str, Registry[Any]]:
    """Return the registries of what has settings, by the kinds that `reactree list` knows them as."""
    return {kind: registry for kind, registry in REGISTRIES.items() if issubclass(registry.base, Spec)}


def listed(incomplete: str) -> Named:
    """Complete what `reactree list` shows: a kind, or the name of anything that is registered."""
    found = [(kind, f"all {kind}, with their settings") for kind in (*kinds(), "words") if kind.startswith(incomplete)]
    return found + [one for registry in kinds().values() for one in names_of(registry)(incomplete)]
