"""Decisions in JSON, and as calls of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.kinds import kinds
from reactree_ros.agent.reading.labels import Announced, Mark
from reactree_ros.agent.reading.refusal import Unreadable, shortened

_FLOW, _SUBGOALS = ("controlflow", "flow"), ("subgoals", "subtasks")
_WRAPPERS = ("decision", "nextdecision", "decisions", "response", "answer", "finalanswer", "output", "toolcalls")
_TYPES = ("type", "kind", "decisiontype", "actiontype")
NAMES = ("name", "tool", "toolname", "function", "functionname", "verb")
ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "actioninput", "toolinput", "argument", "target")
_CONTENTS = ("object", "content", "value", "text", "description")
#: Fields that say nothing of the decision.
_BESIDE = frozenset({"id", "callid", "confidence", "goal", "task", "observation", "state"})
_STRUCTURE = frozenset({"function", "toolcall", "tooluse", "functioncall"})
_DENYING = re.compile(r"not|avoid|except|without|exclude|instead|unless|forbid|previous|last|undo", re.IGNORECASE)
#: How deep values may lie.
_DEEPEST = 6

#: What a value says: the kind of decision, and its text; of an expansion, control flow and subgoals; of a kind with
#: several arguments, these by name.
Saying = tuple[Announced, Any]


def said_in(value: Any, depth: int = 0) -> list[Saying]:
    if depth > _DEEPEST:
        raise Unreadable("The JSON is nested too deeply; say one decision.")
    if isinstance(value, list):
        return [part for one in value for part in said_in(one, depth + 1)]
    if not isinstance(value, Mapping):
        raise _not_readable(value)
    fields = _fields_of(value)
    named, said = _take_kind(fields), list[Saying]()
    for kind in kinds().values():
        if kind.accompanies or kind.leads:
            said += [(kind, fields.pop(key)) for key in kind.keys if isinstance(fields.get(key), str)]
        elif named is None and not (kind.nests or kind.of_lines):
            held = _take(fields, kind.keys, kind.json_types())
            said += [] if held is None else [(kind, held)]
    said += _decision(fields, named, depth)
    left = next((name for name in fields if name not in _BESIDE), None)
    if left in (*_WRAPPERS, *_SUBGOALS, *_named_kinds()):
        raise Unreadable(f"Say one decision at a time; '{left}' is said as well.")
    if left is not None:
        raise Unreadable(f"What '{shortened(left, 40)}' means in the JSON is not known; leave it out.")
    if not said:
        raise _not_readable(value)
    return said


def argument_in(value: Any) -> str:
    return " ".join(_words(value))


def act_keys() -> tuple[str, ...]:
    return _kind_that("nests").keys


def key_in_json(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


@cache
def _kind_that(part: str) -> type[Decision]:
    return next(kind for kind in kinds().values() if getattr(kind, part))


@cache
def _named_kinds() -> Mapping[str, type[Decision]]:
    return {name: kind for kind in kinds().values() if not kind.leads for name in kind.keys}


def _fields_of(value: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, one in value.items():
        key = key_in_json(name)
        if one is not None and one not in ("", [], {}):
            fields[key if key not in fields else f"{key} (twice)"] = one
    return fields


def _take(fields: dict[str, Any], keys: Iterable[str], of: type | tuple[type, ...] = object) -> Any:
    key = next((key for key in keys if isinstance(fields.get(key), of) and key in fields), None)
    return None if key is None else fields.pop(key)


def _take_kind(fields: dict[str, Any]) -> type[Decision] | None:
    if key_in_json(str(fields.get("type"))) in _STRUCTURE:
        del fields["type"]
    alone = len(fields) == 1  # what is all that is said of an act is its skill, whatever it is called
    for key in (*_TYPES, *NAMES, "decision", *(() if alone else act_keys()[1::-1])):
        kind = _named_kinds().get(key_in_json(name)) if isinstance(name := fields.get(key), str) else None
        if kind is None:
            continue
        del fields[key]
        for held in (*ARGUMENTS, *_CONTENTS):
            inside = object_of(one) if isinstance(one := fields.get(held), str) else one
            if isinstance(inside, Mapping):
                del fields[held]
                for name, value in _fields_of(inside).items():
                    fields[name if name not in fields else f"{name} (twice)"] = value
        return kind
    return None


def _decision(fields: dict[str, Any], kind: type[Decision] | None, depth: int) -> list[Saying]:
    acts, expands = _kind_that("nests"), _kind_that("of_lines")
    inner = _take(fields, (*_WRAPPERS, "function", *acts.keys, *expands.keys), (Mapping, list))
    if inner is not None:
        return said_in(inner, depth + 1)
    if kind is expands or any(key in fields for key in _SUBGOALS):
        return [(expands, (_take(fields, _FLOW), _take(fields, _SUBGOALS)))]
    if kind is not None and kind is not acts:
        names = {key_in_json(name): name for name in kind.arguments()}
        if Mapping in kind.json_types():
            return [(kind, {name: fields.pop(key) for key, name in names.items() if key in fields})]
        keys = (*kind.keys, *names, *_CONTENTS, *ARGUMENTS)
        return [(kind, fields.pop(key)) for key in keys if isinstance(fields.get(key), str)]
    if kind is None and (text := _take(fields, _WRAPPERS, str)) is not None:
        return [(Mark.ANSWER, text)]
    skill = [*_words(_take(fields, (*acts.keys, *NAMES, *_TYPES)))]
    skill += _words(_take(fields, (*ARGUMENTS, *(_CONTENTS if kind else _CONTENTS[:1]))))
    return [(acts, " ".join(skill))] if skill else []


def _words(value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, str):
        held = object_of(value)
        yield from [value] if held is None else _words(held)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list):
        for one in value:
            yield from _words(one)
    elif isinstance(value, Mapping) and not any(_DENYING.search(str(key)) for key in value):
        for one in value.values():
            yield from _words(one)
    else:
        raise _not_readable(value)


def object_of(text: str) -> Any:
    value, end = value_at(text, 0) if text.startswith("{") else (None, 0)
    return value if isinstance(value, Mapping) and not text[end:].strip() else None


def value_at(text: str, begin: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None, begin + 1


def holds_an_object(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and bool(value) and all(map(holds_an_object, value))


def _unrepeated(fields: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, value in fields:
        named[str(name) if str(name) not in named else f"{name} (twice)"] = value
    return named


_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated)


def _not_readable(value: Any) -> Unreadable:
    said = shortened(json.dumps(value, ensure_ascii=False, default=str))
    return Unreadable(
        f"No decision can be read from {said}; say it in words, such as '{_kind_that('nests').opening}…'."
    )
