"""Decisions in JSON, and as calls of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from reactree_ros.agent.decision import Decision, kinds
from reactree_ros.agent.labels import Announced, Mark, shortened
from reactree_ros.agent.reading.skills import Skills
from reactree_ros.agent.turns import Unreadable

_FLOW, _SUBGOALS = ("controlflow", "flow"), ("subgoals", "subtasks")
_WRAPPERS = ("decision", "nextdecision", "decisions", "response", "answer", "finalanswer", "output", "toolcalls")
_TYPES = ("type", "kind", "decisiontype", "actiontype")
_NAMES = ("name", "tool", "toolname", "function", "functionname", "verb")
_ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "actioninput", "toolinput", "argument", "target")
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


@cache
def _kinds() -> tuple[type[Decision], type[Decision], Mapping[str, type[Decision]]]:
    """Return the kind of acts, that of expansions, and all by the names of tools, types and fields."""
    every = kinds().values()
    acts, expands = (next(kind for kind in every if getattr(kind, part)) for part in ("nests", "of_lines"))
    return acts, expands, {name: kind for kind in every if not kind.leads for name in kind.keys}


def said_in(value: Any, skills: Skills, depth: int = 0) -> list[Saying]:
    """Return what an object, or an array of objects, says; a declared skill may be called by its name or its verb."""
    if depth > _DEEPEST:
        raise Unreadable("The JSON is nested too deeply; say one decision.")
    if isinstance(value, list):
        return [part for one in value for part in said_in(one, skills, depth + 1)]
    if not isinstance(value, Mapping):
        raise _not_readable(value)
    acts, expands, named = _kinds()
    fields = _fields_of(value, skills)
    kind, said = _take_kind(fields, skills), list[Saying]()
    for one in kinds().values():
        if one.accompanies or one.leads:
            said += [(one, fields.pop(key)) for key in one.keys if isinstance(fields.get(key), str)]
        elif kind is None and one not in (acts, expands):
            said += [(one, held)] if (held := _take(fields, one.keys, one.json_types())) is not None else []
    if inner := _take(fields, (*_WRAPPERS, "function", *acts.keys, *expands.keys), (Mapping, list)):
        said += said_in(inner, skills, depth + 1)
    elif kind is expands or any(key in fields for key in _SUBGOALS):
        said.append((expands, (_take(fields, _FLOW), _take(fields, _SUBGOALS))))
    elif kind is not None and kind is not acts:
        said += _arguments_of(kind, fields)
    elif kind is None and (text := _take(fields, _WRAPPERS, str)) is not None:
        said.append((Mark.ANSWER, text))
    else:
        parts = (*acts.keys, *_NAMES, *_TYPES), (*_ARGUMENTS, *(_CONTENTS if kind else _CONTENTS[:1]))
        skill = [word for keys in parts for word in _words(_take(fields, keys))]
        said += [(acts, " ".join(skill))] if skill else []
    left = next((name for name in fields if name not in _BESIDE), None)
    if left in (*_WRAPPERS, *_SUBGOALS, *named):
        raise Unreadable(f"Say one decision at a time; '{left}' is said as well.")
    if left is not None:
        raise Unreadable(f"What '{shortened(left, 40)}' means in the JSON is not known; leave it out.")
    if not said:
        raise _not_readable(value)
    return said


def argument_in(value: Any) -> str:
    """Return what a value says that an act is done to."""
    return " ".join(_words(value))


def object_in(text: str) -> Any:
    """Return the object that a text in JSON stands for, all of it; None if it stands for none."""
    value, end = value_at(text, 0) if text.startswith("{") else (None, 0)
    return value if isinstance(value, Mapping) and not text[end:].strip() else None


def value_at(text: str, begin: int) -> tuple[Any, int]:
    """Read the value of JSON that begins at a place; None, and the next place, without one."""
    try:
        return _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None, begin + 1


def holds_an_object(value: Any) -> bool:
    """Return whether a value is an object, or an array of such."""
    if isinstance(value, list):
        return bool(value) and all(map(holds_an_object, value))
    return isinstance(value, Mapping) and bool(value)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _once(fields: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return fields by their names; one that comes twice keeps a name that nothing takes."""
    named: dict[str, Any] = {}
    for name, value in fields:
        named[str(name) if str(name) not in named else f"{name} (twice)"] = value
    return named


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _fields_of(value: Mapping[str, Any], skills: Skills) -> dict[str, Any]:
    """Return the fields that say something, with the call of a declared skill in words."""
    value = _with_call_in_words(value, skills)
    return _once((_key(name), one) for name, one in value.items() if one is not None and one not in ("", [], {}))


def _with_call_in_words(value: Mapping[str, Any], skills: Skills) -> Mapping[str, Any]:
    for name, one in value.items():
        if not isinstance(one, str) and (called := skills.named(name)):
            rest = {other: held for other, held in value.items() if other != name}
            return {**rest, "act": str(skills.call(called, one))}
    for name, one in value.items():
        is_name = isinstance(one, str) and _key(name) in (*_NAMES, *_kinds()[0].keys)
        if is_name and (called := skills.named(one)):
            rest = {other: held for other, held in value.items() if other != name}
            own = {parameter for offer in called for parameter in offer.skill.parameters}
            held = next((other for other in rest if _key(other) in _ARGUMENTS and other not in own), None)
            given = {other: rest.pop(other) for other in [*rest] if other in own} if held is None else rest.pop(held)
            inside = object_in(given) if isinstance(given, str) else None
            return {**rest, "act": str(skills.call(called, given if inside is None else inside))}
    return value


def _take(fields: dict[str, Any], keys: Iterable[str], of: type | tuple[type, ...] = object) -> Any:
    """Take the first of some fields that is there with a value of a type; None if none is."""
    key = next((key for key in keys if isinstance(fields.get(key), of) and key in fields), None)
    return None if key is None else fields.pop(key)


def _take_kind(fields: dict[str, Any], skills: Skills) -> type[Decision] | None:
    """Take the field that names the kind of the decision; what it comes with may lie in a field of its own."""
    acts, _, named = _kinds()
    if _key(str(fields.get("type"))) in _STRUCTURE:
        del fields["type"]
    alone = len(fields) == 1  # what is all that is said of an act is its skill, whatever it is called
    for key in (*_TYPES, *_NAMES, "decision", *(() if alone else acts.keys[1::-1])):
        kind = named.get(_key(name)) if isinstance(name := fields.get(key), str) else None
        if kind is None:
            continue
        del fields[key]
        for held in (*_ARGUMENTS, *_CONTENTS):
            inside = object_in(one) if isinstance(one := fields.get(held), str) else one
            if isinstance(inside, Mapping):
                del fields[held]
                merged = _once([*fields.items(), *_fields_of(inside, skills).items()])
                fields.clear()
                fields.update(merged)
        return kind
    return None


def _arguments_of(kind: type[Decision], fields: dict[str, Any]) -> list[Saying]:
    names = {_key(name): name for name in kind.arguments()}
    if Mapping in kind.json_types():
        return [(kind, {name: fields.pop(key) for key, name in names.items() if key in fields})]
    keys = (*kind.keys, *names, *_CONTENTS, *_ARGUMENTS)
    return [(kind, fields.pop(key)) for key in keys if isinstance(fields.get(key), str)]


def _words(value: Any) -> Iterator[str]:
    """Return the words of a skill: a text, a name with arguments, or the arguments."""
    if isinstance(value, str):
        held = object_in(value)
        yield from [value] if held is None else _words(held)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list) or (isinstance(value, Mapping) and not any(map(_DENYING.search, map(str, value)))):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _words(one)
    elif value is not None:
        raise _not_readable(value)


def _not_readable(value: Any) -> Unreadable:
    said = shortened(json.dumps(value, ensure_ascii=False, default=str))
    return Unreadable(f"No decision can be read from {said}; say it in words, such as '{_kinds()[0].opening}…'.")
