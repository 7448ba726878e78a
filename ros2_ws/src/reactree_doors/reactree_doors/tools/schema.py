"""Typed parameters from the JSON schema of a tool: what cannot be typed is refused, never passed on as it comes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from reactree_ros.agent.labels import as_seen
from reactree_ros.agent.parameters import (
    LONGEST_LIST,
    Boolean,
    Choice,
    List,
    Number,
    Parameter,
    Pose,
    Text,
    Value,
    each_of,
    parameter_of,
)
from reactree_ros.agent.skill import Skill, effect_of
from reactree_ros.agent.text import in_one_line, shortened_line
from reactree_ros.agent.wording import OPTIONAL
from reactree_ros.plugins.settings import did_you_mean
from reactree_ros.world.tool_servers import ToolSettings

#: Longest schema that is read, in characters, and the most references from one to the next.
_LONGEST_SCHEMA, _MOST_REFERENCES = 64_000, 8
#: What the options of a choice may be, by the type that a schema gives, and what may forbid some of them.
_TYPES: dict[str, Any] = {"string": str, "boolean": bool, "integer": int, "number": (int, float)}
_LIMITS = (
    *("enum", "not", "if", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern"),
)
#: Longest text that is said, and longest and most options of a choice.
_LONGEST_TEXT, _LONGEST_OPTION, _MOST_OPTIONS = 500, 80, 200
_HINT = "say which it may be, such as parameters: {limit: {number: {from: 1, to: 100}}}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
_PLAIN: Mapping[str, Any] = {"integer": int, "number": float, "boolean": bool, "string": str}


@dataclass(frozen=True)
class Typed:
    """A parameter of a skill, and how its values are those of the tool."""

    parameter: Parameter  # what may be said
    kind: str  # its type in JSON
    # what an option stands for, of booleans and numbers that are chosen from
    meant: Mapping[str, Any] = field(default_factory=dict)
    of: Typed | None = None  # what each of its values is, of an array

    def value(self, said: Any) -> Any:
        if self.of is not None:
            return [self.of.value(one) for one in said]
        return self.meant[str(said)] if self.meant else _PLAIN[self.kind](said)

    def with_default(self, usual: Any) -> Typed:
        if any(isinstance(one, str) and not (_is_plain(one) and len(one) <= _LONGEST_OPTION) for one in each_of(usual)):
            raise ValueError(f"has the default {_shown(usual)}, which cannot be said in a plain line; give another")
        said = next((said for said, one in self.meant.items() if one == usual), usual)
        return replace(self, parameter=replace(self.parameter, default=self.parameter.read(said)))


@dataclass(frozen=True)
class Tool:
    name: str  # what its server calls it
    skill: Skill
    schema: str  # what the tool takes, as its server said when the world was made
    takes: Mapping[str, Typed]  # its parameters
    settings: ToolSettings  # what the user says of it

    def arguments(self, values: Mapping[str, Value]) -> dict[str, Any]:
        return {name: self.takes[name].value(value) for name, value in values.items()}


def tool_of(name: str, schema: Any, settings: ToolSettings) -> Tool:
    """Return a tool as a skill.

    Every parameter that the tool needs stands in the wording, and of the others those that the user's wording names. In
    brackets it may be left out, if the user or the schema has a default. No description of the server's stands in any
    prompt. Raises ValueError: it cannot be one; the message names the parameter.
    """
    said = said_schema(schema)
    properties, required = _properties(schema)
    wanted = [one for one in properties if one in required or f"{{{one}}}" in settings.wording]
    for one in settings.parameters:
        if one not in wanted:
            known = f"; {did_you_mean(one, wanted)}" if wanted else "; it takes none"
            raise ValueError(f"parameters.{one}: is nothing that is said of this tool{known}")
    brackets = "".join(OPTIONAL.findall(settings.wording))
    takes = {
        one: _typed(one, properties[one], schema, settings.parameters.get(one), left_out=f"{{{one}}}" in brackets)
        for one in wanted
    }
    skill = Skill(
        name=settings.name or re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64],
        wording=settings.wording or _wording(name, wanted),
        parameters={one: typed.parameter for one, typed in takes.items()},
        effect=effect_of(settings.effect),
    )
    return Tool(name, skill, said, takes, settings)


def said_schema(schema: Any) -> str:
    """Return a schema as it is compared: a tool whose schema changes in mid-run is not called any more."""
    said = json.dumps(schema, sort_keys=True, separators=(",", ":"))
    if len(said) > _LONGEST_SCHEMA:
        raise ValueError(f"its schema has {len(said):,} characters; at most {_LONGEST_SCHEMA:,} are read")
    return said


def _properties(schema: Any) -> tuple[dict[str, Any], list[str]]:
    top = _resolved(schema, schema, "its schema")
    if top.get("type", "object") != "object":
        raise ValueError(f"its schema is of {_shown(top.get('type'))}, not of an object")
    properties, required = top.get("properties", {}), top.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise ValueError("its schema names no parameters")
    for name in required:
        if not isinstance(name, str) or name not in properties:
            raise ValueError(f"parameter '{_shown(name)}': is needed, but its schema does not say what it is")
    return dict(properties), required


def _wording(name: str, wanted: list[str]) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = " ".join(re.sub(r"[^A-Za-z0-9]+", " ", words).lower().split())
    if len(wanted) == 1:
        return f"{words} {{{wanted[0]}}}"
    return " ".join([words, *(f"{one.strip('_').replace('_', ' ')} {{{one}}}" for one in wanted)])


def _typed(name: str, declared: Any, root: Any, own: Any, *, left_out: bool) -> Typed:
    where = f"parameter '{_shown(name)}'"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{where}: its name may contain only letters, digits, - and _")
    try:
        schema = _resolved(declared, root, where)
        own = None if own is None else parameter_of(own)
        is_array = schema.get("type") == "array" and not {"enum", "const"} & schema.keys()
        typed = _array(schema, root, own) if is_array else _single(schema, own)
        usual = schema.get("default") if own is None or own.default is None else own.default
        return typed.with_default(usual) if left_out and usual is not None else typed
    except ValueError as error:
        said = str(error)
        raise ValueError(said if said.startswith(where) else f"{where}: {said}") from None


def _array(schema: Mapping[str, Any], root: Any, own: Parameter | None) -> Typed:
    most = schema.get("maxItems", LONGEST_LIST)
    if (least := schema.get("minItems", 0)) not in (0, 1) or type(most) is not int or most < 1:
        raise ValueError(f"takes {_shown(least)} to {_shown(most)} values; a skill takes lists of 1 or more")
    if odd := {"prefixItems", "contains", "unevaluatedItems"} & schema.keys():
        raise ValueError(f"has {min(odd)}; a skill takes lists of one kind of value")
    if own is not None and not (isinstance(own, List) and own.most <= most):
        raise ValueError(f"is a list of at most {most}; {own.words()} cannot stand there")
    of = _single(_resolved(schema.get("items"), root, "its values"), own.of if isinstance(own, List) else None)
    return Typed(own or List(of.parameter, min(most, LONGEST_LIST)), "array", of=of)


def _single(schema: Mapping[str, Any], own: Parameter | None) -> Typed:
    return _chosen(schema, own) if "enum" in schema or "const" in schema else _plain(schema, own)


def _plain(schema: Mapping[str, Any], own: Parameter | None) -> Typed:
    kind = schema.get("type")
    if kind == "boolean":
        if not isinstance(own, Boolean | None):
            raise ValueError(f"is true or false; {own.words()} cannot stand there")
        return Typed(own or Boolean(), "boolean")
    if kind == "string":
        return Typed(_text(schema, own), "string")
    if kind in ("integer", "number"):
        return Typed(_number(schema, own, whole=kind == "integer"), str(kind))
    said = _shown(kind) if kind else "anything"
    raise ValueError(f"takes {said}; a skill takes texts, numbers, yes or no, one of some options, and lists")


def _text(schema: Mapping[str, Any], own: Parameter | None) -> Parameter:
    longest = schema.get("maxLength", _LONGEST_TEXT)
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 1:
        raise ValueError(f"maxLength {_shown(longest)} leaves nothing to say")
    longest = int(min(longest, _LONGEST_TEXT))
    if own is None:
        return Text(longest)
    if isinstance(own, Number | Boolean | List | Pose):
        raise ValueError(f"is a text; {own.words()} cannot stand there")
    said = (len(one) for one in own.options() or ())
    most = own.longest if isinstance(own, Text) else max(said, default=0)
    if "maxLength" in schema and most > longest:
        raise ValueError(f"has at most {longest} characters, so {own.words()} cannot stand there")
    return own


def _number(schema: Mapping[str, Any], own: Parameter | None, *, whole: bool) -> Number:
    least, most = _bound(schema, "minimum", whole=whole), _bound(schema, "maximum", whole=whole)
    given = _number_in(schema, "multipleOf", least=1e-9)
    step = given or (1 if whole else 0)
    if own is None:
        if least is None or most is None:
            raise ValueError(f"is a number without bounds; {_HINT}")
        if given and not _fits(least, given):
            raise ValueError(f"its numbers are multiples of {given:g}, but do not begin with one; {_HINT}")
        try:
            if whole:
                own = Number(int(least), int(most), int(step) or 1)
            else:  # the next multiple of a step: a bound such as 1e-107 cannot be said, nor what is some steps above it
                exact = Decimal(str(step or 0.01))
                steps = (Decimal(str(least)) / exact - Decimal("1e-9")).to_integral_value(ROUND_CEILING)
                own = Number(float(steps * exact), float(most), step)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{error}; {_HINT}") from None
    if not isinstance(own, Number):
        raise ValueError(f"is a number; {own.words()} cannot stand there")
    if (least is not None and own.least < least) or (most is not None and own.greatest > most):
        raise ValueError(f"{own.words()}: is more than its schema allows")
    if not all((not whole or float(one).is_integer()) and _fits(one, given) for one in (own.least, own.step)):
        raise ValueError(f"{own.words()}: has steps that its schema does not allow")
    return own


def _fits(number: float, step: float | None) -> bool:
    return not step or abs(number / step - round(number / step)) < 1e-9


def _bound(schema: Mapping[str, Any], which: str, *, whole: bool) -> float | None:
    up = which == "minimum"
    bounds = [] if (bound := _number_in(schema, which)) is None else [bound]
    if (beyond := _number_in(schema, f"exclusive{which.capitalize()}")) is not None:  # the nearest number beside it
        beside = 0.01 if not whole else 1 if float(beyond).is_integer() else 0
        bounds.append(beyond + beside if up else beyond - beside)
    if not bounds:
        return None
    bound = max(bounds) if up else min(bounds)
    return float(bound) if not whole else math.ceil(bound) if up else math.floor(bound)


def _number_in(schema: Mapping[str, Any], key: str, least: float = -1e12) -> float | None:
    value = schema.get(key, 0)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (key not in schema or least <= value < 1e12)
    ):
        raise ValueError(f"{key} {_shown(value)} is not a number that can be said")
    return value if key in schema else None


def _chosen(schema: Mapping[str, Any], own: Parameter | None) -> Typed:
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(values, list) or not 0 < len(values) <= _MOST_OPTIONS:
        raise ValueError(f"names no options, or more than {_MOST_OPTIONS}")
    kind = schema.get("type")
    if "type" in schema and not (isinstance(kind, str) and kind in _TYPES):
        raise ValueError(f"takes {_shown(kind)}, of which its options are none")
    beside = [one for one in _LIMITS if one in schema and (one != "enum" or "const" in schema)]
    if beside:
        raise ValueError(f"has {beside[0]} beside its options, which may forbid some of them")
    meant = {}
    for value in (one for one in values if one is not None):
        if kind and not (isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")):
            raise ValueError(f"has the option {_shown(value)}, which is not of type {kind}")
        if not isinstance(value, str | int | float):
            raise ValueError(f"has the option {_shown(value)}; options are texts, numbers, true and false")
        option = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        if option in meant or not option.strip() or len(option) > _LONGEST_OPTION or not _is_plain(option):
            raise ValueError(f"has the option '{_shown(option)}', which cannot be said in one plain line by itself")
        meant[option] = value
    parameter = Choice(tuple(meant))
    if own is None:
        return Typed(parameter, "enum", meant)
    options = own.options()
    if not options or not set(options) <= set(meant):
        raise ValueError(f"is {parameter.words()}; {own.words()} cannot stand there")
    return Typed(own, "enum", meant)


def _is_plain(option: str) -> bool:
    return in_one_line(option) == option and as_seen(option) == option and not set("{}") & set(option)


def _resolved(schema: Any, root: Any, where: str) -> Mapping[str, Any]:
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            raise ValueError(f"{where}: has no schema that says what it is")
        if "$ref" in schema:
            schema = _at(root, schema["$ref"], where)
            continue
        parts = [schema[one] for one in ("anyOf", "oneOf", "allOf") if one in schema]
        if not parts:
            kind = schema.get("type")
            if isinstance(kind, list) and len(left := [one for one in kind if one != "null"]) == 1:
                return {**schema, "type": left[0]}
            return schema
        some = [one for one in parts[0] if one != {"type": "null"}] if isinstance(parts[0], list) else []
        if len(parts) > 1 or len(some) != 1 or not isinstance(some[0], Mapping):
            raise ValueError(f"{where}: may be one of several kinds; a skill takes one")
        schema = {**{key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf")}, **some[0]}
    raise ValueError(f"{where}: its schema refers to others without an end")


def _at(root: Any, reference: Any, where: str) -> Any:
    found = root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise ValueError(f"{where}: its schema refers to {_shown(reference)}, which is not in it")
    for key in reference[2:].split("/"):
        if not isinstance(found, Mapping) or key not in found:
            raise ValueError(f"{where}: its schema refers to {_shown(reference)}, which is not in it")
        found = found[key]
    return found


def _shown(value: Any) -> str:
    return shortened_line(in_one_line(as_seen(str(value)[:200])), 60)
