"""How the registry describes a store of episodic memory, and how a memory is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.plugins import Registry, Spec
from reactree_ros.plugins.installation import Diagnosis
from reactree_ros.plugins.settings import Settings, named_settings, read_settings


@dataclass(frozen=True, kw_only=True)
class MemorySpec(Spec):
    """A store of episodic memory.

    Attributes:
        prepare: Loads what finding needs, such as an embedder, before anything is opened.
        diagnose: Yields what `reactree doctor` says of it, and changes nothing. It may raise an OSError or a UserError.
        ships: Returns the settings with which it has examples for a household and a planner, both by name, if a run
            names no memory; None if it has none.
    """

    make: Callable[[Any], EpisodicMemory]  # opens the memory that its settings name, and makes it if it is not there
    exists: Callable[[Any], bool]  # returns whether it is there
    prepare: Callable[[Any], object] = lambda settings: None
    diagnose: Callable[[Any], Iterator[Diagnosis]]
    installed: bool = False  # whether it holds only what a package brings, so that a record may name it, too
    ships: Callable[[str, str], Settings | None] = lambda household, planner: None


#: The store without experiences, by which a user says that there shall be no examples.
NONE = "none"
MEMORIES: Registry[MemorySpec] = Registry("memory", "reactree_ros.memories", MemorySpec, first=("sqlite",))


@dataclass(frozen=True)
class NamedMemory:
    """A chosen memory: ``household.db``, or a store with its settings, e.g. ``sqlite:path=household.db``."""

    name: str
    spec: MemorySpec
    settings: Settings
    is_path: bool  # whether its name is a path, which the default store opens

    def __str__(self) -> str:
        return self.name

    def prepare(self) -> None:
        """Load what finding needs, so that a UserError tells what is missing before anything is opened."""
        self.spec.check_installed()
        self.spec.prepare(self.settings)

    def open(self) -> EpisodicMemory:
        self.spec.check_installed()
        return self.spec.make(self.settings)

    def check_exists(self) -> None:
        if not self.spec.exists(self.settings):
            raise UserError(
                f"{self.name}: no such memory; `reactree memory import` or `reactree lab bootstrap` makes one"
            )

    def absolute(self) -> str:
        """Return a name that means the same from every folder, for workers."""
        values = {name: os.path.abspath(one) if isinstance(one, Path) else one for name, one in self.settings}
        if self.is_path:
            return str(values["path"])
        return ":".join([self.spec.name, *(f"{name}={one}" for name, one in values.items() if one is not None)])


def memory(name: str | Path) -> NamedMemory:
    """Return the memory of a name; it is not opened yet.

    A name is a path, which the default store opens; or a store's name, then ``:setting=value`` for each of its
    settings. A file that is called like a store is written ``./NAME``.

    Raises:
        UserError: There is no such store, or no such setting.
    """
    name = str(name)
    is_path = name.partition(":")[0] not in MEMORIES.names and not re.match(r"[\w-]+:\w+=", name)
    store, values = (MEMORIES.default, {"path": name}) if is_path else named_settings(name, "memory")
    spec = MEMORIES.get(store)
    return NamedMemory(name, spec, read_settings(spec.settings, values, where=f"memory '{spec.name}'"), is_path)


def is_brought(name: str) -> bool:
    return any(spec.installed and spec.name == name.partition(":")[0] for spec in MEMORIES)


def shipped(household: str, planner: str) -> NamedMemory | None:
    """Return the memory that a package brings for a household and a planner, both by name; None if none does."""
    for spec in MEMORIES:
        if (settings := spec.ships(household, planner)) is not None:
            named = NamedMemory(spec.name, spec, settings, is_path=False)
            return replace(named, name=named.absolute())
    return None
