"""Scripts of BehaviorTree.CPP: a small language of conditions and assignments, read and worked out here."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reactree_ros.agent.text import LONGEST, LONGEST_TEMPLATE, shortened_line

#: What an entry of the blackboard holds: a number, whether something is so, or a text.
Value = float | bool | str
Names = MutableMapping[str, Value]
_Term = Callable[[Names], Value]

#: The most brackets and signs in one another.
DEEPEST_SCRIPT = 50
_TOKEN = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?!\w))"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<name>@?[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>:=|\.\.|&&|\|\||[-=!<>+*/]=|[-+*/!<>=();])|(?P<space>\s+)"
)
_TRUTH: Mapping[str, bool] = {"true": True, "false": False}


class ScriptError(ValueError):
    """A script cannot be read, or worked out; the message is one line."""


@dataclass(frozen=True)
class Script:
    reads: frozenset[str]  # the entries that it reads
    writes: frozenset[str]  # the entries that it sets
    parts: tuple[_Term, ...]  # what works out each statement

    def run(self, names: Names) -> Value:
        """Carry it out, and return what its last statement comes to. Raises ScriptError."""
        return [part(names) for part in self.parts][-1]

    def holds(self, names: Names) -> bool:
        """Return whether what it comes to is so, or a number but 0. Raises ScriptError."""
        return bool(_number(self.run(names)))


@lru_cache(1000)
def script_of(code: str) -> Script:
    """Read a script: statements with ``;`` between. Raises ScriptError."""
    return _Reader(code).read()


def renamed(code: str, names: Callable[[str], str]) -> str:
    """Return a script with other names in it. Raises ScriptError."""
    return "".join(names(text) if kind == "name" and text not in _TRUTH else text for kind, text in _tokens(code))


def assign(names: Names, name: str, value: Value) -> Value:
    """Set an entry; it keeps the type of what it had first. Raises ScriptError."""
    if name in names and isinstance(names[name], str) != isinstance(value, str):
        if not isinstance(value, str):
            raise ScriptError(f"'{name}' is a text, and cannot become {as_text(value)}")
        value = _number(value)
    if isinstance(value, str) and len(value) > LONGEST:  # one that is put to itself doubles each time
        raise ScriptError(f"'{name}' would have {len(value):,} characters; a text has at most {LONGEST:,}")
    names[name] = value
    return value


def as_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).removesuffix(".0")


def _number(value: Value) -> float:
    try:
        return float(_TRUTH.get(value, value)) if isinstance(value, str) else value
    except ValueError:
        raise ScriptError(f"'{shortened_line(str(value), 40)}' is not a number") from None


def _entry(names: Names, name: str) -> Value:
    if name not in names:
        raise ScriptError(f"'{name}' is not set")
    return names[name]


# ---------------------------------------------------------------------- what its signs do


def _of_numbers(of: Callable[[Any, Any], Any], to: Callable[[float], Any] = float) -> Any:
    def result(one: Value, other: Value) -> Value:
        if isinstance(one, str) or isinstance(other, str):
            raise ScriptError(f"{_both(one, other)} are not both numbers")
        try:
            worked: Value = of(to(one), to(other))
        except ArithmeticError:
            raise ScriptError(f"{_both(one, other)}: this has no result") from None
        return worked

    return result


def _both(one: Value, other: Value) -> str:
    return shortened_line(f"'{as_text(one)}' and '{as_text(other)}'", 80)


def _plus(one: Value, other: Value) -> Value:
    texts = isinstance(one, str) and isinstance(other, str)
    return one + other if texts else _of_numbers(operator.add)(one, other)  # type: ignore[operator]


def _compares(of: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def result(one: Value, other: Value) -> bool:
        texts = isinstance(one, str) and isinstance(other, str)
        return of(one, other) if texts else of(_number(one), _number(other))

    return result


def _same(one: Any, other: Any) -> bool:
    return bool(one == other if isinstance(one, str) else abs(one - other) <= 2.0**-23)  # as BehaviorTree.CPP has it


_COMPARISONS: Mapping[str, Any] = {
    "==": _compares(_same),
    "!=": _compares(lambda one, other: not _same(one, other)),
    **{"<": _compares(operator.lt), ">": _compares(operator.gt)},
    **{"<=": _compares(operator.le), ">=": _compares(operator.ge)},
}
#: What binds two values, with how tightly it binds.
_BINARY: Mapping[str, tuple[int, Any]] = {
    "||": (6, _of_numbers(operator.or_, bool)),
    "&&": (8, _of_numbers(operator.and_, bool)),
    **{sign: (10, of) for sign, of in _COMPARISONS.items()},
    "+": (16, _plus),
    "-": (16, _of_numbers(operator.sub)),
    "..": (16, lambda one, other: as_text(one) + as_text(other)),
    "*": (18, _of_numbers(operator.mul)),
    "/": (18, _of_numbers(operator.truediv)),
}
_PREFIX: Mapping[str, Any] = {
    "-": lambda value: _BINARY["-"][1](0.0, value),
    "!": lambda value: not _BINARY["||"][1](value, 0.0),
}
_TIGHTEST = 20
#: What sets an entry, with how it comes from what was there; None: it does not.
_ASSIGNS: Mapping[str, Any] = {":=": None, "=": None, **{f"{sign}=": _BINARY[sign][1] for sign in "+-*/"}}


def _tokens(code: str) -> list[tuple[str, str]]:
    found, at = list[tuple[str, str]](), 0
    if len(code) > LONGEST_TEMPLATE:
        raise ScriptError(f"a script has at most {LONGEST_TEMPLATE} characters")
    while at < len(code):
        if (match := _TOKEN.match(code, at)) is None:
            raise ScriptError(f"'{shortened_line(code[at:], 20)}' is not understood in a script")
        found.append((str(match.lastgroup), match[0]))
        at = match.end()
    return found


class _Reader:
    def __init__(self, code: str) -> None:
        self._tokens = [token for token in _tokens(code) if token[0] != "space"]
        self._tokens += [("end", "the end")] * 2
        self._depth = 0
        self._tokens.reverse()
        self._reads, self._writes = set[str](), set[str]()

    def read(self) -> Script:
        parts = [self._statement()]
        while self._tokens[-1][0] != "end":
            parts.append(self._statement())
        return Script(frozenset(self._reads), frozenset(self._writes), tuple(parts))

    def _statement(self) -> _Term:
        (sign, name), kind = (self._tokens[-2][1], self._tokens[-1][1]), self._tokens[-1][0]
        part = self._assignment() if kind == "name" and name not in _TRUTH and sign in _ASSIGNS else self._value()
        while self._tokens[-1] == ("sign", ";"):
            self._tokens.pop()
        return part

    def _assignment(self) -> _Term:
        name, sign = self._tokens.pop()[1], self._tokens.pop()[1]
        change, value = _ASSIGNS[sign], self._value()
        self._writes.add(name)
        if sign == ":=":
            return lambda names: assign(names, name, value(names))
        self._reads.add(name)
        change = change or (lambda _, new: new)
        return lambda names: assign(names, name, change(_entry(names, name), value(names)))

    def _value(self, least: int = 0) -> _Term:
        self._depth += 1
        if self._depth > DEEPEST_SCRIPT:
            raise ScriptError(f"its brackets stand more than {DEEPEST_SCRIPT} deep")
        left = self._prefix()
        while self._tokens[-1][0] == "sign" and _BINARY.get(self._tokens[-1][1], (-1,))[0] >= least:
            sign = self._tokens.pop()[1]
            left = self._pair(left, *_BINARY[sign])
            if sign in _COMPARISONS and self._tokens[-1][1] in _COMPARISONS:
                raise ScriptError(f"only two values are compared; put && before another '{self._tokens[-1][1]}'")
        self._depth -= 1
        return left

    def _pair(self, left: _Term, tightness: int, of: Any) -> _Term:
        right = self._value(tightness + 1)
        return lambda names: of(left(names), right(names))

    def _prefix(self) -> _Term:
        kind, text = self._tokens.pop()
        if kind == "sign" and text in _PREFIX:
            of, value = _PREFIX[text], self._value(_TIGHTEST)
            return lambda names: of(value(names))
        if (kind, text) == ("sign", "("):
            inner = self._value()
            if (found := self._tokens.pop()[1]) != ")":
                raise ScriptError(f"')' is missing before {found}")
            return inner
        if kind == "name" and text not in _TRUTH:
            self._reads.add(text)
            return lambda names: _entry(names, text)
        if kind in ("sign", "end"):
            raise ScriptError(f"a value is missing before {text}")
        constant = _TRUTH[text] if kind == "name" else float(text) if kind == "number" else text[1:-1]
        return lambda _: constant
