"""Settings: one pydantic model per thing, which checks texts, files and ROS parameters."""

from __future__ import annotations

import difflib
import enum
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import shown

M = TypeVar("M", bound="Settings")
#: Words that YAML 1.1 reads as these.
_SWITCHES = {"on": True, "off": False, "yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True)
class Harmless:
    """Declares that a text, path or mapping starts, opens, loads and sends nothing.

    It is part of a setting's annotation: ``house: Annotated[str, Harmless(is_shipped)]``. Without it such a value is
    *reaching*: a record cannot set it by itself.
    """

    when: Callable[[Any], bool] | None = None  # returns whether a value is harmless; None if every value is

    def holds(self, value: Any) -> bool:
        try:
            return self.when is None or self.when(value)
        except (AttributeError, TypeError, ValueError):  # a value of an unexpected type
            return False


def plain(value: object) -> bool:
    """Return whether a value is a short text of words and numbers, and so no path, address or code."""
    return isinstance(value, str) and re.fullmatch(r"[\w ,+-]{0,200}", value) is not None


class Settings(BaseModel):
    """Settings of one thing. Each field has a description, a default and its bounds, which are written only here.

    A field of texts, paths or mappings is *reaching* unless it is declared :class:`Harmless`; see :func:`reaching`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _as_it_was_written(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        known = cls.model_fields
        return {name: word_of(known[name], value) if name in known else value for name, value in values.items()}


class NoSettings(Settings):
    """For things without settings."""


def is_harmless(annotation: Any, value: Any, declared: Sequence[Any] = ()) -> bool:
    """Return whether a value can start, open, load and send nothing, by its type or by declaration."""
    if get_origin(annotation) is Annotated:
        annotation, *within = get_args(annotation)
        declared = (*declared, *within)
    if any(isinstance(one, Harmless) and one.holds(value) for one in declared):
        return True
    if get_origin(annotation) in (Union, types.UnionType, tuple, list, set, frozenset):
        parts = [one for one in get_args(annotation) if one is not Ellipsis]
        return bool(parts) and all(is_harmless(one, None) for one in parts)
    return get_origin(annotation) is Literal or (
        isinstance(annotation, type) and issubclass(annotation, (bool, int, float, enum.Enum, types.NoneType))
    )


def reaching(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that may start, open, load or send something.

    Unknown settings count, because other settings may take more than their fields. A field's default does not count.
    """
    fields = kind.model_fields
    return {
        name: value
        for name, value in values.items()
        if (field := fields.get(name)) is None
        or not (
            field.get_default(call_default_factory=True) == value
            or is_harmless(field.annotation, value, field.metadata)
        )
    }


def choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the allowed texts of a setting; empty if it is not a choice of a few."""
    annotation: Any = field.annotation
    found: list[str] = []
    for kind in get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,):
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            found += [str(one.value) for one in kind]
        elif get_origin(kind) is Literal:
            found += map(str, get_args(kind))
    return tuple(found)


def words_that_are_switches(field: FieldInfo) -> dict[bool, str]:
    """Return the choices of a setting that YAML, and so ROS, reads as true or false where they have no quotes."""
    return {switch: word for word in choices(field) if (switch := _SWITCHES.get(word)) is not None}


def word_of(field: FieldInfo, value: Any) -> Any:
    return words_that_are_switches(field).get(value, value) if isinstance(value, bool) else value


#: Longest name that is compared with others, in characters; most names that an error lists of all, and of some.
_LONGEST_NAME, _MOST_NAMES, _SUCH_AS = 80, 60, 8


def did_you_mean(name: str, known: Iterable[str]) -> str:
    if not (known := list(known)):
        return "there are none"
    near, more = nearest(name, known), f", and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    listed = f"{', '.join(known[:_MOST_NAMES])}{more}"
    return f"did you mean '{near}'? There are {listed}" if near else f"use one of {listed}"


def nearest_or_some(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    such = f"there are such as {', '.join(known[:_SUCH_AS])}" if known else "there are none"
    return f"did you mean '{near}'?" if near else such


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the nearest of some names, ignoring case; empty if none is near.

    One of the same letters is nearest: they change places most easily.
    """
    name, cased = name[:_LONGEST_NAME].lower(), {one.lower(): one for one in known}
    near = difflib.get_close_matches(name, cased)
    return next((cased[one] for one in sorted(near, key=lambda one: sorted(one) != sorted(name))), "")


def or_nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error that lists some names: the nearest one as a question; empty if none is near."""
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else ""


def check_names(kind: str, given: str, known: Collection[str]) -> str:
    for name in given.split(","):
        if name not in known:
            raise ValueError(f"there is no {kind} '{name}'; {did_you_mean(name, known)}")
    return given


def read_settings(kind: type[M], values: Mapping[str, Any], *, where: str, beside: Sequence[str] = ()) -> M:
    """Check settings. Raises UserError."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: holds no settings; they look like 'name: value', one a line")
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        fault = fault_of(error, kind, beside)
        name = ".".join(map(str, fault.path))
        if fault.unknown:
            raise UserError(f"{where}: {fault.said}") from None
        if not name:
            raise UserError(f"{where}: {fault.said}") from error
        raise UserError(f"{where}: {name} is {shown(name, fault.value)!r}: {fault.said}") from error


def named_settings(text: str, kind: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:SETTING=VALUE:SETTING=VALUE``; a value may have colons in it, too. Raises UserError."""
    name, _, given = text.partition(":")
    settings = [one.partition("=") for one in re.split(r":(?=\w+=)", given)] if given else []
    if wrong := [text for text, equals, _ in settings if not equals]:
        raise UserError(f"{kind} '{name}': write a setting as NAME=VALUE, not '{wrong[0]}'")
    return name, {setting: value for setting, _, value in settings}


@dataclass(frozen=True)
class Fault:
    """An error at one place of the input."""

    path: tuple[str | int, ...]  # the place: keys, and positions in lists
    said: str  # the problem, in a sentence that begins in lower case
    value: Any  # the value there
    unknown: bool = False  # whether the key is unknown. Its value may be a misplaced secret and must not be shown
    missing: bool = False  # whether the value is missing

    @property
    def with_value(self) -> str:
        if self.unknown or self.missing or isinstance(self.value, Mapping):  # a part that does not fit the others
            return self.said
        name = str(self.path[-1]) if self.path and self.path[-1] != "[key]" else ""  # a mapping's key itself
        return f"{self.said}, not {shown(name, self.value)[:60]!r}"


def fault_of(error: ValidationError, kind: Any, beside: Sequence[str] = ()) -> Fault:
    """Return the first error. An unknown key comes first: it may be a misspelt missing one."""
    found = error.errors(include_url=False)
    slips = [slip for one in found if (slip := _slip(one, kind, beside))]
    if slips:
        return next((one for one in slips if "did you mean" in one.said), slips[0])
    first = found[0]
    said = f"{first['msg'][:1].lower()}{first['msg'][1:]}".removeprefix("value error, ")
    if first["type"] in ("literal_error", "enum"):
        said = did_you_mean(str(first["input"]), re.findall("'([^']*)'", first["ctx"]["expected"]))
    is_empty = first["type"] in ("model_type", "dict_type", "list_type") and first["input"] is None
    if first["type"] in ("model_type", "dict_type"):
        such = next((f", such as '{name}: …'" for name in names_at(kind, first["loc"])), "")
        said = f"{'there is nothing' if is_empty else 'there are no names'}; write names with values{such}"
    elif is_empty:
        said = "there is nothing; write a list"
    return Fault(first["loc"], said, first["input"], missing=is_empty or first["type"] == "missing")


def _slip(one: Mapping[str, Any], kind: Any, beside: Sequence[str]) -> Fault | None:
    *place, name = one["loc"] or ("",)
    known = [*names_at(kind, place), *(() if place else beside)]
    if one["type"] == "missing" and isinstance(one["input"], Mapping):  # a misspelt name may be there
        others = [str(other) for other in one["input"] if other not in known]
        name = nearest(str(name), others)
    elif one["type"] != "extra_forbidden":
        return None
    if not name:
        return None
    path = (*place, name)
    hint = did_you_mean(str(name), known) if known else "it has none"
    return Fault(path, f"there is no setting '{'.'.join(map(str, path))}'; {hint}", None, unknown=True)


def names_at(annotation: Any, path: Sequence[str | int]) -> list[str]:
    """Return the possible keys of a mapping at a place within a type: those of every model that may be there."""
    origin, within = get_origin(annotation), [one for one in get_args(annotation) if one is not Ellipsis]
    if origin is Annotated:
        return names_at(within[0], path)
    if origin in (Union, types.UnionType):  # pydantic names the part of a union, unless there is only one
        said = [one for one in within if path and getattr(one, "__name__", "?") in str(path[0])]
        return [name for one in said or within for name in names_at(one, path[1:] if said else path)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        if not path:
            return list(fields)
        field = fields.get(str(path[0]))
        return [] if field is None else names_at(field.annotation, path[1:])
    return names_at(within[-1], path[1:]) if within and path else []
