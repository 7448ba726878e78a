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

_FLOW = ("controlflow", "flow")
_SUBGOALS = ("subgoals", "subtasks")
_WRAPPERS = ("decision", "nextdecision", "decisions", "response", "answer", "finalanswer", "output", "toolcalls")
_TYPES = ("type", "kind", "decisiontype", "actiontype")
NAMES = ("name", "tool", "toolname", "function", "functionname", "verb")
ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "actioninput", "toolinput", "argument", "target")
_CONTENTS = ("object", "content", "value", "text", "description")
#: Fields that say nothing of the decision.
_BESIDE = frozenset({"id", "callid", "confidence", "goal", "task", "observation", "state"})
_STRUCTURE = frozenset({"function", "toolcall", "tooluse", "functioncall"})
_DENYING = re.compile(r"not|avoid|except|without|exclude|instead|unless|forbid|previous|last|undo", re.IGNORECASE)
#: The texts and constants of Python; a quotation mark that nothing closes takes the rest of its line.
_PYTHON = re.compile(
    r"""'(?P<text>(?:[^'\\\n]|\\.)*)'|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*|"(?:[^"\\\n]|\\.)*|\b(?:True|False|None)\b"""
)
#: How deep values may lie, and how long one may be that Python wrote.
_DEEPEST = 6
_LONGEST = 4000

#: What a value says: the kind of decision, and its text; of an expansion, control flow and subgoals; of a kind with
#: several arguments, these by name.
Saying = tuple[Announced, Any]


class _Keys:
    """What stands for the kinds of decision in JSON.

    Attributes:
        beside: The kinds that may be said with another one.
        single: The kinds that are said in one field.
        acts: The kind whose skill may be said in several fields.
        expands: The kind that has control flow and subgoals.
        named: The kinds by the names of tools and types.
        decisive: The fields that hold a decision of which there may be one.
    """

    def __init__(self) -> None:
        said = [kind for kind in kinds().values() if kind.keys]
        self.beside = [kind for kind in said if kind.accompanies or kind.leads]
        rest = [kind for kind in said if kind not in self.beside]
        self.acts = next(kind for kind in rest if kind.nests)
        self.expands = next(kind for kind in rest if kind.of_lines)
        self.single = [kind for kind in rest if kind not in (self.acts, self.expands)]
        self.named = {name: kind for kind in said if not kind.leads for name in kind.tools or kind.keys}
        self.decisive = {key for kind in rest for key in kind.keys} | {*_WRAPPERS, *_SUBGOALS}


_keys = cache(_Keys)


def said_in(value: Any, depth: int = 0) -> list[Saying]:
    """Return what an object, or an array of objects, says."""
    if depth > _DEEPEST:
        raise Unreadable("The JSON is nested too deeply; say one decision.")
    if isinstance(value, list):
        return [part for one in value for part in said_in(one, depth + 1)]
    if not isinstance(value, Mapping):
        raise _not_readable(value)
    fields, keys = _Fields(value), _keys()
    kind = fields.take_kind()
    said: list[Saying] = [(one, text) for one in keys.beside for text in fields.take_texts(one.keys)]
    if kind is None:
        said += [
            (one, held) for one in keys.single if (held := fields.take(*one.keys, of=one.json_types())) is not None
        ]
    said += _decision(fields, kind, depth)
    fields.check_empty()
    if not said:
        raise _not_readable(value)
    return said


def argument_in(value: Any) -> str:
    """Return what a value says that an act is done to."""
    return " ".join(_words(value))


class _Fields:
    """The fields of an object, which are taken out of it one by one; their names without case, spaces and hyphens."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields: dict[str, Any] = {}
        self._put(fields)

    def _put(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            if value is not None and value not in ("", [], {}):
                key = key_in_json(name)
                self._fields[key if key not in self._fields else f"{key} (twice)"] = value

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def check_empty(self) -> None:
        """Look whether everything was taken that may change the meaning."""
        name = next((name for name in self._fields if name not in _BESIDE), None)
        if name in _keys().decisive:
            raise Unreadable(f"Say one decision at a time; '{name}' is said as well.")
        if name is not None:
            raise Unreadable(f"What '{shortened(name, 40)}' means in the JSON is not known; leave it out.")

    def take(self, *keys: str, of: type | tuple[type, ...] = object) -> Any:
        """Take the first of some fields that is there with a value of a type; None if none is."""
        key = next((key for key in keys if key in self._fields and isinstance(self._fields[key], of)), None)
        return None if key is None else self._fields.pop(key)

    def take_all(self, names: Iterable[str]) -> dict[str, Any]:
        """Take the fields of these names that are there."""
        return {name: self._fields.pop(key_in_json(name)) for name in names if key_in_json(name) in self._fields}

    def take_texts(self, keys: Iterable[str]) -> list[str]:
        """Take all of some fields that hold a text."""
        return [self._fields.pop(key) for key in keys if isinstance(self._fields.get(key), str)]

    def take_kind(self) -> type[Decision] | None:
        """Take the field that names the kind of the decision; what it comes with may lie in a field of its own."""
        if key_in_json(str(self._fields.get("type"))) in _STRUCTURE:
            del self._fields["type"]
        alone = len(self._fields) == 1  # what is all that is said of an act is its skill, whatever it is called
        for key in (*_TYPES, *NAMES, "decision", *([] if alone else _keys().acts.keys[1::-1])):
            if (
                isinstance(name := self._fields.get(key), str)
                and (kind := _keys().named.get(key_in_json(name))) is not None
            ):
                del self._fields[key]
                for held in (*ARGUMENTS, *_CONTENTS):
                    self._unwrap(held)
                return kind
        return None

    def _unwrap(self, key: str) -> None:
        held = self._fields.get(key)
        inside = object_of(held) if isinstance(held, str) else held
        if isinstance(inside, Mapping):
            del self._fields[key]
            self._put(inside)


def _decision(fields: _Fields, kind: type[Decision] | None, depth: int) -> list[Saying]:
    """Return what fields say besides thoughts and subgoals."""
    keys = _keys()
    inner = fields.take(*_WRAPPERS, "function", *keys.acts.keys, *keys.expands.keys, of=(Mapping, list))
    if inner is not None:
        return said_in(inner, depth + 1)
    if kind is keys.expands or any(key in fields for key in _SUBGOALS):
        return [(keys.expands, (fields.take(*_FLOW), fields.take(*_SUBGOALS)))]
    if kind is not None and kind is not keys.acts:
        if Mapping in kind.json_types():
            return [(kind, fields.take_all(kind.arguments()))]
        named = (*kind.keys, *kind.arguments()) if kind in keys.single else ()
        return [(kind, text) for text in fields.take_texts((*named, *_CONTENTS, *ARGUMENTS))]
    if kind is None and (text := fields.take(*_WRAPPERS, of=str)) is not None:
        return [(Mark.ANSWER, text)]
    skill = [*_words(fields.take(*keys.acts.keys, *NAMES, *_TYPES))]
    skill += _words(fields.take(*ARGUMENTS, *(_CONTENTS if kind else _CONTENTS[:1])))
    return [(keys.acts, " ".join(skill))] if skill else []


def _words(value: Any) -> Iterator[str]:
    """Return the words of a skill: a text, a name with arguments, or the arguments."""
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
    """Return the object that a text in JSON stands for, all of it; None if it stands for none."""
    value, end = value_at(text, 0) if text.startswith("{") else (None, 0)
    return value if isinstance(value, Mapping) and not text[end:].strip() else None


def value_at(text: str, begin: int) -> tuple[Any, int]:
    """Read the value that begins at a place, as JSON or as Python writes it; None, and the next place, without one."""
    try:
        return _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return _python(text, begin)


def _python(text: str, begin: int) -> tuple[Any, int]:
    """Read a value as Python writes it, up to the bracket that closes it."""
    depth = 0
    for at in range(begin, min(len(text), begin + _LONGEST)):
        depth += {"{": 1, "}": -1, "[": 1, "]": -1}.get(text[at], 0)
        if depth > _DEEPEST:
            break
        if depth == 0:
            try:
                return _DECODER.decode(_PYTHON.sub(_as_json, text[begin : at + 1])), at + 1
            except ValueError:
                break
    return None, begin + 1


def _as_json(literal: re.Match[str]) -> str:
    """Return a constant of Python in JSON."""
    if (text := literal["text"]) is not None:
        return '"' + text.replace("\\'", "'").replace('"', '\\"') + '"'
    return {"True": "true", "False": "false", "None": "null"}.get(literal[0], literal[0])


def _unrepeated(fields: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return fields by their names; one that comes twice keeps a name that nothing takes."""
    named: dict[str, Any] = {}
    for name, value in fields:
        named[str(name) if str(name) not in named else f"{name} (twice)"] = value
    return named


_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated)


def holds_an_object(value: Any) -> bool:
    """Return whether a value is an object, or an array of such."""
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and bool(value) and all(map(holds_an_object, value))


def act_keys() -> tuple[str, ...]:
    """Return the fields that hold a skill."""
    return _keys().acts.keys


def key_in_json(name: str) -> str:
    """Return the name of a field without capitals, blanks and hyphens."""
    return re.sub(r"[\s_-]", "", name).casefold()


def _not_readable(value: Any) -> Unreadable:
    said = shortened(json.dumps(value, ensure_ascii=False, default=str))
    words = " or ".join(f"'{kind.opening}…'" for kind in (*_keys().beside[:1], _keys().acts))
    return Unreadable(f"No decision can be read from {said}; say it in words, such as {words}.")
