"""What can be named: planners, worlds, language models and task suites, of this package and of others.

Each thing is one file with a spec in it. This package's specs are listed here; another distribution names its own as
entry points of the groups ``reactree_ros.planners``, ``.worlds``, ``.models`` and ``.suites``::

    [project.entry-points."reactree_ros.worlds"]
    garden = "my_package.garden:SPEC"

A spec's settings are one pydantic model; command line, ROS parameters, launch arguments and tables are made from it.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Generic, TypeVar

from reactree_ros.errors import UserError
from reactree_ros.installation import check_modules
from reactree_ros.settings import NoSettings, Settings, did_you_mean

if TYPE_CHECKING:
    from reactree_ros.bench.spec import SuiteSpec
    from reactree_ros.llm.spec import ModelSpec
    from reactree_ros.planners.spec import PlannerSpec
    from reactree_ros.world.spec import WorldSpec


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


S = TypeVar("S", bound=Spec)


class Registry(Generic[S]):
    """Specs of one kind by name.

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
        self._plugins: dict[str, metadata.EntryPoint] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name: this package's first, in order, then the others'."""
        return (*self._own, *(name for name in self._entry_points() if name not in self._own))

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
        modules = (*self._own.values(), *(point.value for point in self._entry_points().values()))
        parts = [module.partition(":")[0].strip().split(".") for module in modules]
        return frozenset(".".join(one[:end]) for one in parts for end in range(1, len(one) + 1))

    def __iter__(self) -> Iterator[S]:
        """Every spec that can be loaded; what is wrong with another one says :meth:`get`."""
        for name in self.names:
            with contextlib.suppress(UserError):
                yield self.get(name)

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
        point = self._entry_points().get(name)
        if point is None:
            raise UserError(f"{self.kind} '{name}' is unknown; {did_you_mean(name, self.names)}")
        try:
            spec = point.load()
        except Exception as error:
            where = point.dist.name if point.dist else point.value
            raise UserError(f"{self.kind} '{name}' of {where} cannot be loaded: {error}") from error
        if not isinstance(spec, Spec) or spec.name != name:
            raise UserError(f"{self.kind} '{name}': {point.value} is no spec of that name")
        return spec

    def _entry_points(self) -> Mapping[str, metadata.EntryPoint]:
        if self._plugins is None:
            self._plugins = {point.name: point for point in metadata.entry_points(group=self.group)}
        return self._plugins


PLANNERS: Registry[PlannerSpec] = Registry(
    "planner",
    "reactree_ros.planners",
    {
        "reactree": "reactree_ros.planners.reactree:SPEC",
        "react": "reactree_ros.planners.react:SPEC",
        "hiagent": "reactree_ros.planners.hiagent.planner:SPEC",
        "recode": "reactree_ros.planners.recode.planner:SPEC",
        "codeact": "reactree_ros.planners.codeact:SPEC",
        "adaplanner": "reactree_ros.planners.adaplanner:SPEC",
        "adapt": "reactree_ros.planners.adapt:SPEC",
        "zsp": "reactree_ros.planners.zsp:SPEC",
        "tree_planner": "reactree_ros.planners.tree_planner:SPEC",
    },
)
WORLDS: Registry[WorldSpec] = Registry(
    "world",
    "reactree_ros.worlds",
    {
        "virtualhome": "reactree_ros.world.virtualhome.symbolic:SPEC",
        "virtualhome_unity": "reactree_ros.world.virtualhome.unity:SPEC",
        "ai2thor": "reactree_ros.world.ai2thor.world:SPEC",
        "pddl": "reactree_ros.world.pddl.world:SPEC",
        "scienceworld": "reactree_ros.world.scienceworld.world:SPEC",
        "jericho": "reactree_ros.world.jericho.world:SPEC",
        "webshop": "reactree_ros.world.webshop.world:SPEC",
        "alfworld": "reactree_ros.world.alfworld.world:SPEC",
        "pyrobosim": "reactree_ros.world.pyrobosim.world:SPEC",
    },
)
MODELS: Registry[ModelSpec] = Registry(
    "language model",
    "reactree_ros.models",
    {
        "expert": "reactree_ros.llm.expert.model:SPEC",
        "openai": "reactree_ros.llm.openai.settings:SPEC",
        "vllm": "reactree_ros.llm.vllm_engine:SPEC",
        "transformers": "reactree_ros.llm.transformers_engine:SPEC",
        "small": "reactree_ros.llm.small.engine:SPEC",
        "fallback": "reactree_ros.llm.fallback:SPEC",
        "lapsing": "reactree_ros.llm.expert.lapses:SPEC",
    },
)
SUITES: Registry[SuiteSpec] = Registry(
    "task suite",
    "reactree_ros.suites",
    {
        "wah_nl": "reactree_ros.bench.suites:WAH_NL",
        "generated": "reactree_ros.bench.suites:GENERATED",
        "vague": "reactree_ros.bench.suites:VAGUE",
        "pddl": "reactree_ros.bench.pddl:SPEC",
        "scienceworld": "reactree_ros.bench.scienceworld:SPEC",
        "jericho": "reactree_ros.bench.jericho:SPEC",
        "webshop": "reactree_ros.bench.webshop:SPEC",
        "alfworld": "reactree_ros.bench.alfworld:SPEC",
        "pyrobosim": "reactree_ros.bench.pyrobosim:SPEC",
    },
)
