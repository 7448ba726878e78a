"""What can be named: planners, worlds, language models and whatever else a registry is made for.

Each thing is one file with a spec in it and one entry point that names the spec. This package's own things enter by the
same door as those of another distribution, in the group of their registry::

    [project.entry-points."reactree_ros.worlds"]
    garden = "my_package.garden:SPEC"

A spec's settings are one pydantic model; command line, ROS parameters, launch arguments and tables are made from it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import check_modules, install_requirements
from reactree_ros.plugins.settings import NoSettings, Settings, did_you_mean

#: The distribution of this package.
DISTRIBUTION = "reactree_ros"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What can be named, and how it is made.

    Attributes:
        name: How it is named.
        summary: What it is, in one line.
        settings: Its own settings.
        extra: What to install for it, e.g. ``reactree_ros[openai]``; empty: nothing.
        needs: The modules that must be importable for it, e.g. ``openai``.
    """

    name: str
    summary: str
    settings: type[Settings] = NoSettings
    extra: str = ""
    needs: tuple[str, ...] = ()

    def check_installed(self) -> None:
        """Look whether what it needs is installed.

        Raises:
            UserError: It is not; the message says what to install.
        """
        check_modules(self.name, self.extra, self.needs)


S = TypeVar("S")


class Registry(Generic[S]):
    """Things of one kind by name. This package's outrank those of other distributions.

    Args:
        kind: What they are, in one or two words, for errors.
        group: The entry points' group.
        base: What each of them is an instance of, or a subclass of.
        first: Names of this package's that come first, in this order; the first of them is the default.
        check: Looks at one when it is registered; raises :class:`UserError` if it must not be.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        base: type[Any],
        *,
        first: tuple[str, ...],
        check: Callable[[S], None] = lambda one: None,
    ) -> None:
        self.kind = kind
        self.group = group
        self.base = base
        self.first, self._check = first, check
        self._loaded: dict[str, S] = {}
        self._brought: _Brought | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name: this package's first, then those of others."""
        return (*self.own, *self._plugins.points)

    @property
    def default(self) -> str:
        """The name that is taken if none is given."""
        return self.first[0]

    @property
    def own(self) -> tuple[str, ...]:
        """The names of this package's: those that come first, then the others by name."""
        return tuple(dict.fromkeys((*(name for name in self.first if name in self._own), *sorted(self._own))))

    @property
    def packages(self) -> frozenset[str]:
        """The modules of all of them, with the packages that they are in; nothing is imported to tell."""
        points = (*self._own.values(), *self._plugins.points.values())
        parts = [point.value.partition(":")[0].strip().split(".") for point in points]
        return frozenset(".".join(one[:end]) for one in parts for end in range(1, len(one) + 1))

    @property
    def brought(self) -> Mapping[str, str]:
        """The names of the plug-ins', each with the distribution that brings it."""
        return {name: _origin(point) for name, point in self._plugins.points.items()}

    def __iter__(self) -> Iterator[S]:
        """Every one that can be loaded; :meth:`problems` tells of the others."""
        return (one for _, one in self.items())

    def items(self) -> Iterator[tuple[str, S]]:
        """Yield the name and the thing of every one that can be loaded."""
        for name in self.names:
            with contextlib.suppress(UserError):
                yield name, self.get(name)

    def problems(self) -> list[str]:
        """Load every plug-in; return what is wrong with plug-ins, a line each: hidden by others, or not to be used."""
        found = list(self._plugins.problems)
        for name in self._plugins.points:
            try:
                self.get(name)
            except UserError as error:
                found.append(str(error))
        return found

    def get(self, name: str) -> S:
        """Return what has a name.

        Raises:
            UserError: There is none of that name, or the package that has it cannot be used.
        """
        if name not in self._loaded:
            one = self._load(name)
            self._check(one)
            self._loaded[name] = one
        return self._loaded[name]

    def _load(self, name: str) -> Any:
        if name in self._own:
            return _load_own(self._own[name])
        point = self._plugins.points.get(name)
        if point is None:
            raise UserError(f"{self.kind} '{name}' is unknown; {did_you_mean(name, self.names)}")
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what a command prints is for programs, too
                spec = point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise SystemExit, too
            raise UserError(f"{self.kind} '{name}' of {_origin(point)} cannot be loaded: {_said(error)}") from error
        is_one = issubclass(spec, self.base) if isinstance(spec, type) else isinstance(spec, self.base)
        if not is_one or getattr(spec, "name", name) != name:
            raise UserError(f"{self.kind} '{name}' of {_origin(point)}: {point.value} is no {self.kind} of that name")
        return spec

    @property
    def _own(self) -> Mapping[str, metadata.EntryPoint]:
        own = _own_points().get(self.group)
        if own is None:
            raise UserError(f"no {self.kind} of {DISTRIBUTION} is installed here: {_install_again()}")
        return own

    @property
    def _plugins(self) -> _Brought:
        if self._brought is None:
            self._brought = _find(self.kind, self.group, self._own)
        return self._brought


@dataclass
class _Brought:
    """The plug-ins of a group that have a name of their own, and what is wrong with others."""

    points: dict[str, metadata.EntryPoint] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _find(kind: str, group: str, own: Mapping[str, metadata.EntryPoint]) -> _Brought:
    found = _Brought()
    for point in _all_points().select(group=group):
        mine, first = own.get(point.name), found.points.get(point.name)
        if mine is not None and mine.value != point.value:
            found.problems.append(
                f"{kind} '{point.name}' of {_origin(point)} is not used: this package has one of that name"
            )
        elif first is not None and first.value != point.value:
            found.problems.append(
                f"{kind} '{point.name}' of {_origin(point)} is not used: {_origin(first)} has one of that name"
            )
        elif mine is None:
            found.points.setdefault(point.name, point)
    return found


@cache
def _own_points() -> Mapping[str, Mapping[str, metadata.EntryPoint]]:
    """Return this distribution's entry points by group and name; the others need not be looked through for them."""
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    with contextlib.suppress(metadata.PackageNotFoundError):
        for point in metadata.distribution(DISTRIBUTION).entry_points:
            found.setdefault(point.group, {})[point.name] = point
    return found


@cache
def _all_points() -> Any:
    """Return everybody's entry points: one look through what is installed serves every registry."""
    return metadata.entry_points()


def _load_own(point: metadata.EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != DISTRIBUTION:  # something else lacks
            raise
        raise UserError(f"{DISTRIBUTION} has no {error.name} any more: {_install_again()}") from error


def _install_again() -> str:
    """Return the line that makes a checkout's entry points known; of what is installed, what to do instead."""
    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"install {DISTRIBUTION} again"
    return install_requirements("-e", str(root))


def _said(error: BaseException) -> str:
    """Return what an error says, in one line; a SystemExit says a number, so it is named."""
    said = " ".join(str(error).split())
    return said if said and isinstance(error, Exception) else f"{type(error).__name__} {said}".rstrip()


def _origin(point: metadata.EntryPoint) -> str:
    """Return who brings a plug-in: its distribution, or where it is."""
    try:
        return str(point.dist.name) if point.dist else point.value
    except Exception:  # a distribution without a name
        return point.value


#: Every registry, as `reactree list` calls it.
REGISTRIES: Registry[Registry[Any]] = Registry(
    "registry", "reactree_ros.registries", Registry, first=("planners", "worlds", "models", "suites")
)
