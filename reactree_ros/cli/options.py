"""Options that are made from settings, so that none is written twice, and their completion in a shell.

A command takes groups of options::

    @app.command()
    @takes(world=Named(WORLDS, "world"), options=RunOptionsGiven())
    def run(instruction: str, *, world: Chosen, options: RunOptions) -> None: ...

``reactree run`` then has ``--world``, the flags of every world, ``--world-option``, and options of the run.
"""

from __future__ import annotations

import abc
import enum
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from reactree_ros.errors import UserError
from reactree_ros.llm.spec import MODELS, load_models_file, named_model
from reactree_ros.memory.spec import memory
from reactree_ros.planners.spec import PLANNERS, WM
from reactree_ros.plugins import REGISTRIES, Registry
from reactree_ros.plugins.settings import Settings, choices, read_settings
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.spec import WORLDS

#: Options of a run that are options of their own on the command line.
OWN_OPTIONS = ("max_decisions", "max_steps", "seed", "routines")
S = TypeVar("S", bound=Settings)


class Chosen(NamedTuple):
    spec: Any
    settings: Any


class Options(abc.ABC):
    """Some options of a command, which it gets as one value."""

    #: Whether the user's ``[all]`` does not hold for them: without them something else is meant.
    own_only = False

    @abc.abstractmethod
    def parameters(self) -> list[inspect.Parameter]:
        """Return them as typer reads them from a function; an option that is not given is None."""

    def with_defaults(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Add the user's defaults to what was given by hand, which wins; lists are joined."""
        lists = {
            name: [*defaults[name], *value] for name, value in given.items() if isinstance(defaults.get(name), list)
        }
        return {**defaults, **given, **lists}

    @abc.abstractmethod
    def read(self, given: Mapping[str, Any]) -> Any:
        """Make the value from those that were given."""


def takes(**groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add groups of options to a command, which gets each group's value under the group's name.

    A command that has ``ctx`` gets the context, too.
    """

    def extend(command: Callable[..., None]) -> Callable[..., None]:
        named = inspect.signature(command, eval_str=True).parameters
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [one.replace(kind=keyword) for one in named.values() if one.name not in (*groups, "ctx")]
        names, taken = {one.name for one in own}, {}
        # Fixed options come before those that a named thing adds.
        for group, options in sorted(groups.items(), key=lambda one: not isinstance(one[1], FromSettings)):
            taken[group] = [one for one in options.parameters() if one.name not in names]
            names |= {one.name for one in taken[group]}

        @functools.wraps(command)
        def called(*, ctx: typer.Context, **values: Any) -> None:
            read = {}
            for group, options in groups.items():
                given = {one.name: _plain(values.pop(one.name)) for one in taken[group]}
                given = {name: value for name, value in given.items() if value not in (None, [])}
                defaults = {name: given.pop(name) for name in options_from("DEFAULT_MAP", ctx, given)}
                for name, value in given.items():
                    if isinstance(value, list) and (listed := ctx.lookup_default(name)):
                        defaults[name] = listed
                read[group] = options.read(options.with_defaults(given, defaults))
            if "ctx" in named:
                values["ctx"] = ctx
            command(**values, **read)

        context = inspect.Parameter("ctx", keyword, annotation=typer.Context)
        of_groups = [one for group in groups for one in taken[group]]
        first = [one for one in of_groups if one.default is one.empty]  # arguments: what the others are about
        leading = [one for one in of_groups if one not in first and panel_of(one) is None]
        rest = [one for one in of_groups if one not in [*first, *leading]]
        parameters = [*first, *leading, *own, *rest, context]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.own_only = {  # type: ignore[attr-defined]
            one.name for group in groups if groups[group].own_only for one in taken[group]
        }
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return extend


def panel_of(parameter: inspect.Parameter) -> str | None:
    (info,) = get_args(parameter.annotation)[1:]
    return cast("str | None", info.rich_help_panel)


def options_from(source: str, ctx: typer.Context, names: Iterable[str]) -> set[str]:
    return {name for name in names if getattr(ctx.get_parameter_source(name), "name", "") == source}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def option(
    name: str, kind: Any, help: str, *, panel: str | None, shown: str | None = None, **others: Any
) -> inspect.Parameter:
    info = typer.Option(help=help, rich_help_panel=panel, show_default=shown or False, **others)
    annotation = Annotated[kind | None, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _setting(name: str, field: FieldInfo, panel: str) -> inspect.Parameter:
    kind, bounds = _kind(name, field), {}
    if kind in (int, float):
        limits = {"min": _bound(field, "ge"), "max": _bound(field, "le")}
        bounds = {side: kind(limit) for side, limit in limits.items() if limit is not None}
    said = str(field.description)
    return option(name, kind, f"{said[:1].upper()}{said[1:]}.", panel=panel, shown=_default(field), **bounds)


def _kind(name: str, field: FieldInfo) -> Any:
    # what typer reads a setting as; texts are left to the settings
    if values := choices(field):
        of_field = isinstance(field.annotation, enum.EnumMeta)
        return field.annotation if of_field else enum.Enum(name, {value: value for value in values}, type=str)
    if get_origin(field.annotation) is dict:
        return list[str]
    return field.annotation if field.annotation in (int, float, bool, Path) else str


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(one, name) for one in field.metadata if hasattr(one, name)), None)


def allowed_text(field: FieldInfo) -> str:
    if values := choices(field):
        return ", ".join(values)
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = {sign: _bound(field, name) for name, sign in signs.items()}
    return ", ".join(f"{sign} {bound:g}" for sign, bound in found.items() if bound is not None)


def default_text(field: FieldInfo) -> str:
    """Return a setting's default; of an empty one, the word under which the description says what it means."""
    words = (one for one in ("auto", "empty") if f"{one}:" in (field.description or ""))
    return _default(field) or next(words, "none")


def _default(field: FieldInfo) -> str:
    default = _plain(field.get_default(call_default_factory=True))
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None or default in ((), {}) else str(default)


def memory_option(help: str, *names: str) -> Any:
    """Return typer's option that names an episodic memory, as :func:`~reactree_ros.memory.spec.memory` reads it."""
    named = "MEMORY is a file, or STORE:SETTING=VALUE:…, see `reactree list memories`."
    return typer.Option(*names, help=f"{help} {named}", parser=memory, metavar="MEMORY")


def vision_option(more: str = "Without, none is asked.") -> Any:
    help = (
        "A language model that is asked about pictures, for planners and models that see none: it says what is on "
        f"them, and whether a skill was done. {more} MODEL is NAME:SETTING=VALUE:…, see `reactree list models`."
    )
    return typer.Option(help=help, parser=lambda text: Chosen(*named_model(text)), metavar="MODEL")


class FromSettings(Options, Generic[S]):
    """Settings as options; those that have none of their `own` are given as ``--option NAME=VALUE``."""

    def __init__(
        self,
        kind: type[S],
        *,
        panel: str = "The run",
        own: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._kind, self._panel, self._own, self._without = kind, panel, own, without

    def parameters(self) -> list[inspect.Parameter]:
        fields = {name: field for name, field in self._kind.model_fields.items() if name not in self._without}
        own = [name for name in fields if self._own is None or name in self._own]
        found = [_setting(name, fields[name], self._panel) for name in own]
        if len(own) < len(fields):
            help = "Another option of a run, see `reactree list options`; may be given several times."
            found.append(option("option", list[str], help, panel=self._panel, metavar="NAME=VALUE"))
        return found

    def read(self, given: Mapping[str, Any]) -> S:
        return read_settings(self._kind, self._given(given), where="options")

    def _given(self, given: Mapping[str, Any]) -> dict[str, Any]:
        # by name, those of --option among it
        values = {name: value for name, value in given.items() if name != "option"}
        for text in given.get("option", ()):
            written, value = named_value(text, "--option")
            name = written.replace("-", "_")
            if name in self._without and name in self._kind.model_fields:
                raise UserError(f"--option {name}: cannot be given here")
            values[name] = value
        return values


class RunOptionsGiven(FromSettings[RunOptions]):
    """The options of a run; the few that most runs need have an option of their own."""

    def __init__(self, *, panel: str = "The run", without: Collection[str] = ()) -> None:
        super().__init__(RunOptions, panel=panel, own=OWN_OPTIONS, without=without)


class Named(Options):
    """``--NAME`` of a registry, options of their own for the flags in it, ``--NAME-option`` for every setting.

    Without a default it is the registry's first; if it is empty, something must be named.
    """

    def __init__(self, registry: Registry[Any], name: str, *, default: str | None = None) -> None:
        self._registry, self._name = registry, name
        self._default = registry.default if default is None else default
        self._other = f"{name}_option"
        self._names = {name}  # of the options that name one

    def parameters(self) -> list[inspect.Parameter]:
        kind, panel = self._registry.kind, self._registry.kind.capitalize()
        flags: dict[str, dict[str, FieldInfo]] = {}
        for spec in self._registry:
            for flag in spec.flags:
                flags.setdefault(flag, {})[spec.name] = spec.settings.model_fields[flag]
        help = f"The {kind}: {', '.join(self._registry.names)}; see `reactree list`."
        more: dict[str, Any] = {"metavar": "NAME", "autocompletion": names_of(self._registry)}
        found = [option(self._name, str, help, panel=None, shown=self._default, **more)]
        for flag, fields in flags.items():
            named: dict[str, list[str]] = {}
            for name, field in fields.items():
                named.setdefault(field.description or "", []).append(name)
            help = "; ".join(f"{self._in_short(names)}: {text}" for text, names in named.items())
            kinds = {_kind(flag, field) for field in fields.values()}
            found.append(option(flag, kinds.pop() if len(kinds) == 1 else str, help, panel=panel))
        help = f"Another setting of the {kind}, see `reactree list`; may be given several times."
        return [*found, option(self._other, list[str], help, panel=panel, metavar="NAME=VALUE")]

    def _in_short(self, names: Sequence[str]) -> str:
        others = [name for name in self._registry.names if name not in names]
        return ", ".join(names) if len(names) <= len(others) else f"all but {', '.join(others)}" if others else "all"

    def with_defaults(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Add the user's defaults, unless another one is named by hand: its settings are not those of the file's."""
        return dict(given) if self._names & set(given) else super().with_defaults(given, defaults)

    def read(self, given: Mapping[str, Any]) -> Chosen:
        name, kind = given.get(self._name, self._default), self._registry.kind
        if not name:
            raise UserError(f"{dashed([self._name])} is missing; name one of {', '.join(self._registry.names)}")
        spec = self._registry.get(name)
        if foreign := [flag for flag in self._flags(given) if flag not in spec.settings.model_fields]:
            others = [one.name for one in self._registry if set(foreign) <= set(one.flags)]
            raise UserError(
                f"{dashed(foreign)}: the {kind} '{name}' takes none; "
                f"name another {dashed([self._name])}{f' ({_or(others)})' if others else ''}"
            )
        return Chosen(spec, read_settings(spec.settings, self._settings(given), where=f"{kind} '{name}'"))

    def _flags(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {flag: value for flag, value in given.items() if flag not in (self._name, self._other)}

    def _settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        # by flags of their own, or by --NAME-option
        others = (named_value(one, dashed([self._other])) for one in given.get(self._other, ()))
        return self._flags(given) | dict(others)


class NamedModel(Named):
    """``--llm`` and its settings, or ``--models FILE`` with all of them."""

    def __init__(self, name: str = "llm", *, default: str | None = None) -> None:
        super().__init__(MODELS, name, default=default)
        self._names.add("models")

    def parameters(self) -> list[inspect.Parameter]:
        help = "A YAML file with every setting of the language model (or several)."
        return [*super().parameters(), option("models", Path, help, panel=MODELS.kind.capitalize())]

    def read(self, given: Mapping[str, Any]) -> Chosen:
        if "models" not in given:
            return super().read(given)
        if others := [name for name in given if name != "models"]:
            raise UserError(
                f"--models {given['models']} and {dashed(others, ', ')} exclude each other; write them into the file"
            )
        return Chosen(*load_models_file(given["models"]))


class OtherModel(NamedModel):
    """As :class:`NamedModel`, but where nothing is named, nothing is chosen."""

    own_only = True

    def read(self, given: Mapping[str, Any]) -> Any:
        return super().read(given) if given else None


class ModelAgain(NamedModel):
    """Another language model than a record's where one is named; else what is said of the record's own one."""

    own_only = True

    def read(self, given: Mapping[str, Any]) -> Any:
        return super().read(given) if self._names & set(given) else self._settings(given)


class WorldAgain(Options):
    """``--world-option``: what is said of the world, or the task suite, that a record names."""

    own_only = True

    def parameters(self) -> list[inspect.Parameter]:
        help = (
            "A setting of the record's world or task suite; may be given several times. A record alone decides nothing "
            "that starts, opens, loads or sends something."
        )
        panel = WORLDS.kind.capitalize()
        return [option("world_option", list[str], help, panel=panel, metavar="NAME=VALUE")]

    def read(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return dict(named_value(text, "--world-option") for text in given.get("world_option", ()))


def named_value(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"{option} {text}: write it as NAME=VALUE")
    return name, value


def dashed(names: Iterable[str], between: str = "/") -> str:
    return between.join(f"--{name.replace('_', '-')}" for name in sorted(names))


def _or(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# ---------------------------------------------------------------------- completion: the shell itself completes files

Completed = list[tuple[str, str]]


def names_of(registry: Registry[Any]) -> Callable[[str], Completed]:

    def complete(incomplete: str) -> Completed:
        return [(spec.name, spec.summary) for spec in registry if spec.name.startswith(incomplete)]

    return complete


def complete_planner(incomplete: str) -> Completed:
    """Complete a planner's name, with ``_wm`` if it can use working memory; the last of several, between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [
        (f"{before}{comma}{name}", spec.summary)
        for spec in PLANNERS
        for name in (spec.name, *([f"{spec.name}{WM}"] if spec.remembers else []))
        if name.startswith(last)
    ]


def kinds() -> dict[str, Registry[Any]]:
    return {kind: registry for kind, registry in REGISTRIES.items() if hasattr(registry.base, "settings")}


def complete_listed(incomplete: str) -> Completed:
    found = [
        (kind, f"all {kind}") for kind in (*kinds(), "words", "options", "defaults") if kind.startswith(incomplete)
    ]
    return found + [one for registry in kinds().values() for one in names_of(registry)(incomplete)]
