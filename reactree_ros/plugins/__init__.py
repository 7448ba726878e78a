"""Registries: planners, worlds, language models and other things with names.

Each thing is one file with a spec, and one entry point that names the spec. This package's own things enter in the same
way as those of another distribution, in the group of their registry::

    [project.entry-points."reactree_ros.worlds"]
    garden = "my_package.garden:SPEC"

A spec's settings are one pydantic model, the source of command-line options, ROS parameters, launch arguments and
tables.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import check_modules, check_own_requirements, install_requirements

try:
    from reactree_ros.plugins.settings import NoSettings, Settings, did_you_mean, or_nearest
except ImportError:  # of Ubuntu's pydantic, for one
    check_own_requirements()
    raise

_log = logging.getLogger(__name__)
#: The distribution of this package.
DISTRIBUTION = "reactree_ros"
#: Those beside it, which bring more of everything.
BESIDE = ("reactree_lab", "reactree_local", "reactree_doors")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A thing with a name, and how to make it."""

    name: str
    summary: str  # its description, in one line
    settings: type[Settings] = NoSettings  # its own settings
    extra: str = ""  # the extra to install for it, e.g. ``reactree_ros[openai]``; empty for none
    needs: tuple[str, ...] = ()  # the modules that it imports, e.g. ``openai``

    def check_installed(self) -> None:
        check_modules(self.name, self.extra, self.needs)


S = TypeVar("S")


class Registry(Generic[S]):
    """Things of one kind, by name. This package's take precedence over those of other distributions.

    ``base`` is the class of its things, or what they subclass; ``first`` are the names that come first, in this order,
    the first of them the default; ``check`` raises :class:`UserError` for a thing that is refused.
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
        self.kind, self.group, self.base, self.first, self._check = kind, group, base, first, check
        self._loaded: dict[str, S] = {}
        self._told = set[str]()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name: those of ``first``, whoever brings them, then this package's, then those of others."""
        every = (*self.own, *self._brought[0])
        return tuple(dict.fromkeys((*(name for name in self.first if name in every), *every)))

    @property
    def default(self) -> str:
        return self.first[0]

    @property
    def own(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*(name for name in self.first if name in self._own), *sorted(self._own))))

    @property
    def packages(self) -> frozenset[str]:
        """The modules of all things, with their packages; this imports nothing."""
        points = (*self._own.values(), *self._brought[0].values())
        parts = [point.value.partition(":")[0].strip().split(".") for point in points]
        return frozenset(".".join(one[:end]) for one in parts for end in range(1, len(one) + 1))

    @property
    def brought(self) -> Mapping[str, str]:
        """The names of plug-ins, each with its distribution."""
        return {name: _origin(point) for name, point in self._brought[0].items()}

    def __iter__(self) -> Iterator[S]:
        return (one for _, one in self.items())

    def items(self) -> Iterator[tuple[str, S]]:
        for name in self.names:
            with contextlib.suppress(UserError):
                yield name, self.get(name)

    def every(self) -> Iterator[S]:
        """Yield every thing that can be loaded, for who uses all and names none; the log tells of each other, once."""
        for problem in self.problems():
            if problem not in self._told:
                self._told.add(problem)
                _log.warning("%s", problem)
        return iter(self)

    def problems(self) -> list[str]:
        """Load every plug-in; return the problems, one line each: hidden by another, or unusable."""
        points, found = self._brought
        found = [*found]
        for name in points:
            try:
                self.get(name)
            except UserError as error:
                found.append(str(error))
        return found

    def get(self, name: str) -> S:
        """Return the thing with a name. Raises UserError."""
        if name not in self._loaded:
            one = self._load(name)
            self._check(one)
            self._loaded[name] = one
        return self._loaded[name]

    def _load(self, name: str) -> Any:
        if name in self._own:
            return _load_own(self._own[name])
        point = self._brought[0].get(name)
        if point is None:
            raise UserError(f"{self.kind} '{name}' is unknown; {did_you_mean(name, self.names)}{more_come()}")
        try:
            with contextlib.redirect_stdout(sys.stderr):  # plug-ins must not print into a command's output
                spec = point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise SystemExit, too
            raise UserError(f"{self.kind} '{name}' of {_origin(point)} cannot be loaded: {one_line(error)}") from error
        is_one = issubclass(spec, self.base) if isinstance(spec, type) else isinstance(spec, self.base)
        if not is_one or getattr(spec, "name", name) != name:
            said = f"{point.value} is not a {self.kind} of that name"
            raise UserError(f"{self.kind} '{name}' of {_origin(point)}: {said}")
        if missing := sorted(getattr(spec, "__abstractmethods__", ())):
            raise UserError(f"{self.kind} '{name}' of {_origin(point)} does not define {', '.join(missing)}")
        return spec

    @property
    def _own(self) -> Mapping[str, metadata.EntryPoint]:
        own = _own_points()
        if f"{DISTRIBUTION}.registries" not in own:
            raise UserError(f"no {self.kind} of {DISTRIBUTION} is installed here: {_install_again()}")
        return own.get(self.group, {})

    @cached_property
    def _brought(self) -> tuple[Mapping[str, metadata.EntryPoint], list[str]]:
        """Return the plug-ins with unique names, and the problems of others."""
        found: dict[str, metadata.EntryPoint] = {}
        problems = []
        for point in _all_points().select(group=self.group):
            mine = self._own.get(point.name)
            there = mine or found.setdefault(point.name, point)
            if there.value != point.value:
                whose = "this package" if mine else _origin(there)
                who = f"{self.kind} '{point.name}' of {_origin(point)}"
                problems.append(f"{who} is not used: {whose} has one of that name")
        return found, problems


@cache
def _own_points() -> Mapping[str, Mapping[str, metadata.EntryPoint]]:
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    with contextlib.suppress(metadata.PackageNotFoundError):
        for point in metadata.distribution(DISTRIBUTION).entry_points:
            found.setdefault(point.group, {})[point.name] = point
    return found


@cache
def _all_points() -> Any:
    return metadata.entry_points()


def _load_own(point: metadata.EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != DISTRIBUTION:  # another package is missing
            raise
        raise UserError(f"{DISTRIBUTION} has no {error.name} any more: {_install_again()}") from error


def more_come() -> str:
    """Say which distributions beside this one may bring what is unknown, if any are not installed."""
    absent = [one for one in BESIDE if not any(metadata.Distribution.discover(name=one))]
    return f". More come with {', '.join(absent)}: pip install ./ros2_ws/src/NAME in the checkout" if absent else ""


def _install_again() -> str:
    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"install {DISTRIBUTION} again"
    return install_requirements("-e", str(root))


def one_line(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return said if said and isinstance(error, Exception) else f"{type(error).__name__} {said}".rstrip()


def _origin(point: metadata.EntryPoint) -> str:
    try:
        return str(point.dist.name) if point.dist else point.value
    except Exception:  # a distribution without a name
        return point.value


#: Every registry, under its name in `reactree list`.
REGISTRIES: Registry[Registry[Any]] = Registry(
    "registry", "reactree_ros.registries", Registry, first=("planners", "worlds", "models", "suites")
)


def misspelt_groups() -> Iterator[str]:
    """Say which groups of entry points nobody reads, as their names are nearly those of others."""
    known = [group.removeprefix(f"{DISTRIBUTION}.") for group in {*_own_points(), *(one.group for one in REGISTRIES)}]
    for group in sorted(_all_points().groups):
        package, _, name = group.partition(".")
        if package == DISTRIBUTION and name.partition(".")[0] not in known and (hint := or_nearest(name, known)):
            (by, *_) = map(_origin, _all_points().select(group=group))
            yield f"nobody reads the entry points '{group}' of {by}{hint}"
