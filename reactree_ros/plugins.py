"""Plug-ins: specs that are found by name, of this package and, by entry points, of others."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Generic, Protocol, TypeVar

from reactree_ros.errors import UserError
from reactree_ros.installation import check_modules
from reactree_ros.settings import NoSettings, Settings, did_you_mean


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


class Named(Protocol):
    """What a registry holds: a spec, or a class that declares something."""

    @property
    def name(self) -> str:
        """How it is named."""


S = TypeVar("S", bound=Named)


class Registry(Generic[S]):
    """Specs of one kind by name. This package's outrank plug-ins of the same name.

    Args:
        kind: What they are, in one word, for errors.
        group: The entry points' group.
        own: Where the specs of this package are, as ``module:attribute``, by name; the first is the default.
    """

    def __init__(self, kind: str, group: str, own: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._own = own
        self._loaded: dict[str, S] = {}
        self._found: _Found | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name: this package's first, in order, then the plug-ins'."""
        return (*self._own, *self._plugins.points)

    @property
    def default(self) -> str:
        """The name that is taken where none is given."""
        return next(iter(self._own))

    @property
    def own(self) -> tuple[str, ...]:
        """The names of this package's."""
        return tuple(self._own)

    @property
    def packages(self) -> frozenset[str]:
        """The modules of all of them, with the packages that they are in; nothing is imported to tell."""
        modules = (*self._own.values(), *(point.value for point in self._plugins.points.values()))
        parts = [module.partition(":")[0].strip().split(".") for module in modules]
        return frozenset(".".join(one[:end]) for one in parts for end in range(1, len(one) + 1))

    @property
    def brought(self) -> Mapping[str, str]:
        """The names of the plug-ins', each with the distribution that brings it."""
        return {name: _origin(point) for name, point in self._plugins.points.items()}

    def __iter__(self) -> Iterator[S]:
        """Every spec that can be loaded; :meth:`problems` tells of the others."""
        for name in self.names:
            with contextlib.suppress(UserError):
                yield self.get(name)

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
        """Return a spec.

        Raises:
            UserError: There is none of that name, or the package that has it cannot be used.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> S:
        if name in self._own:
            module, _, attribute = self._own[name].partition(":")
            spec: S = getattr(importlib.import_module(module), attribute)
            return spec
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
        if not self._is_one(spec) or spec.name != name:
            raise UserError(f"{self.kind} '{name}' of {_origin(point)}: {point.value} is no {self.kind} of that name")
        return spec

    def _is_one(self, spec: object) -> bool:
        own = self.get(self.default)
        if isinstance(own, type):  # the base is what all of them have in common
            return isinstance(spec, type) and issubclass(spec, own.__mro__[1])
        return isinstance(spec, type(own))

    @property
    def _plugins(self) -> _Found:
        if self._found is None:
            self._found = _find(self.kind, self.group, self._own)
        return self._found


@dataclass
class _Found:
    """The plug-ins of a group that have a name of their own, and what is wrong with others."""

    points: dict[str, metadata.EntryPoint] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _find(kind: str, group: str, own: Collection[str]) -> _Found:
    found = _Found()
    for point in metadata.entry_points(group=group):
        first = found.points.get(point.name)
        if point.name in own:
            found.problems.append(
                f"{kind} '{point.name}' of {_origin(point)} is not used: this package has one of that name"
            )
        elif first is not None and first.value != point.value:
            found.problems.append(
                f"{kind} '{point.name}' of {_origin(point)} is not used: {_origin(first)} has one of that name"
            )
        else:
            found.points.setdefault(point.name, point)
    return found


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
