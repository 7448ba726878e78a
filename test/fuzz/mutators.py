"""Damages what is read back, and makes documents up from what is declared; all of it follows from a seed."""

from __future__ import annotations

import dataclasses
import enum
import json
import random
import re
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import NotRequired, Required, get_type_hints, is_typeddict

#: What a value is replaced by, whatever it was.
STRANGE: Sequence[Any] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 10**30, 10**400, -0.0, 0.5, 1e308, float("inf"), float("nan"), "",
    "x", "\ud83d", "\x00", "done", "../../etc", "9" * 5000, "²", "{word.__class__}", "a" * 100_000, [], {}, [[]],
    [0, 0, 0], ["a", 1, None], {"a": {"b": []}},
)  # fmt: skip


def deep(levels: int, rng: random.Random) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def strange(rng: random.Random) -> Any:
    if rng.random() < 0.05:
        return deep(rng.choice((5, 120, 900)), rng)
    return rng.choice(STRANGE)


def flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not changed:
            break
        at = rng.randrange(len(changed))
        kind = rng.randrange(5)
        if kind < 2:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del changed[at : at + rng.choice((1, 10, 1000))]
        elif kind == 3:
            changed[at:at] = changed[at : at + rng.choice((1, 10, 1000))]
        else:
            del changed[at:]
    return bytes(changed)


def lines_moved(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 3))):
        one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(3)
        if kind == 0 and len(lines) > 1:
            del lines[one]
        elif kind == 1:
            lines.insert(other, lines[one])
        else:
            lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def value_changed(value: Any, rng: random.Random) -> Any:
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else list(range(len(one))) if isinstance(one, list) else []
        places += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    if not places or rng.random() < 0.02:
        return strange(rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        inside, key = rng.choice(places)
        kind = rng.randrange(6)
        if (isinstance(inside, dict) and key not in inside) or (isinstance(inside, list) and key >= len(inside)):
            continue
        if kind == 0:
            del inside[key]
        elif kind == 1 and type(inside[key]) is int:  # it stands for something else
            inside[key] = rng.choice((0, 1, 2, 3, inside[key] + 1, inside[key] - 1, 10**6))
        elif kind == 2:
            other, name = rng.choice(places)
            if (isinstance(other, dict) and name in other) or (isinstance(other, list) and name < len(other)):
                inside[key] = json.loads(json.dumps(other[name]))
        elif kind == 3 and isinstance(inside, dict):
            inside[rng.choice(("e", "node", "x", "parent", ""))] = strange(rng)
        else:
            inside[key] = strange(rng)
    return value


def json_changed(content: bytes, rng: random.Random) -> bytes:
    return json.dumps(value_changed(json.loads(content), rng)).encode()


def line_changed(content: bytes, rng: random.Random) -> bytes:
    lines = content.rstrip(b"\n").split(b"\n")
    at = 0 if rng.random() < 0.2 else rng.randrange(len(lines))
    lines[at] = json_changed(lines[at], rng)
    return b"\n".join(lines) + b"\n"


#: Words that YAML, TOML and what a model says are made of.
PIECES = (
    "[", "]", "{", "}", ": ", "- ", "\n", "\n  ", "&a ", "*a", "<<: *a", "!!binary x", "!!timestamp x", "!!int x",
    "!!bool x", "!!python/object:os.system x", "? ", "|", ">", "'", '"', "#", "\t", ".inf", ".nan", "1:2:3", "0x", "~",
    "null", "9" * 5000, "2001-99-99", "---\n", "%YAML 9.9\n", "=", "\x00", "\ud83d", "Act: ", "Think: ", "Expand:\n",
    "- control flow: ", "sequence", "- subgoals: ", "1. ", "```", "<think>", "</think>", "done", "( ", ")", "**", "²",
)  # fmt: skip


def pieces_moved(content: bytes, rng: random.Random) -> bytes:
    words = re.findall(r"\s+|\w+|[^\w\s]", content.decode(errors="replace")) or [""]
    for _ in range(rng.choice((1, 2, 5, 20))):
        at = rng.randrange(len(words) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del words[at : at + rng.choice((1, 3))]
        elif kind == 1:
            words[at:at] = words[rng.randrange(len(words) + 1) :][:20]
        elif kind == 2:
            words[at:at] = [rng.choice(PIECES)] * rng.choice((1, 1, 1, 3, 2000))
        else:
            words[at : at + 1] = [rng.choice(PIECES)]
    return "".join(words).encode(errors="surrogatepass")


# ---------------------------------------------------------------------- made up


def made_up(kind: Any, rng: random.Random, levels: int = 6) -> Any:
    if rng.random() < 0.01 or levels == 0:
        return strange(rng)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return made_up(arguments[0], rng, levels)
    if origin in (NotRequired, Required):
        return made_up(arguments[0], rng, levels)
    if origin is Literal:
        return rng.choice(arguments)
    if origin in (Union, types.UnionType):
        return made_up(rng.choice(arguments), rng, levels)
    if origin in (list, set, frozenset, tuple) or origin is Sequence:
        inside = arguments[0] if arguments else Any
        return [made_up(inside, rng, levels - 1) for _ in range(rng.randrange(4))]
    if origin in (dict, Mapping) or kind is dict:
        inside = arguments[1] if arguments else Any
        return {str(made_up(str, rng)): made_up(inside, rng, levels - 1) for _ in range(rng.randrange(3))}
    return _plain(kind, rng, levels)


_PLAIN: Mapping[Any, Callable[[random.Random], Any]] = {
    str: lambda rng: rng.choice(("apple", "apple 1", "kitchen 1", "0.1", "", "done", "Think: a", "\ud83d", "x" * 50)),
    int: lambda rng: rng.choice((0, 0, 1, 1, 2, 3, 7, 200)),
    float: lambda rng: rng.choice((0, 0.0, 1.0, 0.25, 3.5, -2.0)),
    bool: lambda rng: rng.random() < 0.5,
    type(None): lambda rng: None,
    Path: lambda rng: "nowhere.yaml",
}


def _plain(kind: Any, rng: random.Random, levels: int) -> Any:
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        needed = {name for name in hints if name in kind.__required_keys__}
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        hints = {name: field.annotation for name, field in kind.model_fields.items()}
        needed = {name for name, field in kind.model_fields.items() if field.is_required()}
    elif dataclasses.is_dataclass(kind):
        hints = {name: hint for name, hint in get_type_hints(kind).items() if name in kind.__dataclass_fields__}
        needed = {one.name for one in dataclasses.fields(kind) if one.default is one.default_factory}
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        return rng.choice([one.value for one in kind])
    else:
        return _PLAIN.get(kind, lambda rng: rng.choice(STRANGE[:30]))(rng)
    chosen = {name for name in hints if (name in needed and rng.random() < 0.98) or rng.random() < 0.4}
    return {name: made_up(hint, rng, levels - 1) for name, hint in hints.items() if name in chosen}
