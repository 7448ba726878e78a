"""Parameters: what may stand at one place of something that is said, with its grammar, its schema and its reading.

What a decision kind, a control flow and a skill take is declared with these. Form is read leniently, meaning strictly:
`The CUP  1.` is `cup 1`; a number beside the steps is refused, and so is a name that may not stand there now.
"""

from __future__ import annotations

import abc
import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from reactree_ros.agent.text import LONGEST_TOLD, shortened_line, typed, without_articles, words
from reactree_ros.plugins.settings import nearest_or_some, or_nearest


@dataclass(frozen=True)
class Notation:
    """How a pattern is written."""

    literal: Callable[[str], str]  # writes a text that stands for itself
    begin: str  # begins a group
    joint: str  # stands between two parts that follow each other
    bar: str  # stands between two parts of which one is said

    def one_of(self, parts: Iterable[str]) -> str:
        return f"{self.begin}{self.bar.join(parts)})"

    def line_of(self, parts: Iterable[str]) -> str:
        return self.joint.join(filter(None, parts))

    def texts(self, texts: Iterable[str]) -> str:
        return self.one_of(map(self.literal, texts))

    def numerals(self, texts: frozenset[str]) -> str:
        """Write that one of very many texts of digits and signs is said: what begins alike is written once."""
        return _tails(texts, self)


REGEX = Notation(literal=re.escape, begin="(?:", joint="", bar="|")
GBNF = Notation(literal=functools.partial(json.dumps, ensure_ascii=False), begin="(", joint=" ", bar=" | ")


@functools.lru_cache(maxsize=256)
def _tails(texts: frozenset[str], notation: Notation) -> str:
    by_first: dict[str, set[str]] = {}
    for text in texts - {""}:
        by_first.setdefault(text[0], set()).add(text[1:])
    by_tails: dict[frozenset[str], list[str]] = {}
    for first, tails in by_first.items():
        by_tails.setdefault(frozenset(tails), []).append(first)
    parts = []
    for after, firsts in sorted(by_tails.items(), key=lambda one: sorted(one[1])):
        digits = "".join(sorted(one for one in firsts if one.isdigit()))
        heads = [notation.literal(one) for one in firsts if not one.isdigit()]
        heads += [notation.literal(digits) if len(digits) == 1 else f"[{digits}]"] if digits else []
        rest = "" if after == {""} else _tails(after, notation)
        parts += [notation.line_of((head, rest)) for head in heads]
    return notation.one_of(parts) + ("?" if "" in texts else "")


#: A value of a parameter: a name, an option or a text; a number; true or false; values of a list; numbers of a pose.
Value = str | bool | int | float | Sequence[str | bool | int | float] | Mapping[str, float]
#: The most values that a number may take, and the most texts that a wording lists.
MOST_VALUES = 10_000
_NUMBER = re.compile(r"(?P<number>[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20}))(?P<unit>\D{0,20})")
_POSE = re.compile(
    r"\(?x\s*[:=]?\s*(?P<x>\S+?)(?:\s*m)?[\s,;]+y\s*[:=]?\s*(?P<y>\S+?)(?:\s*m)?[\s,;]+"
    r"yaw\s*[:=]?\s*(?P<yaw>\S+?)(?:\s*(?:°|deg\w*))?\)?",
    re.IGNORECASE,
)
#: Names that a refusal lists at most.
_LISTED = 8
#: Most values of a list, and how many there may be if it is not said.
LONGEST_LIST, _FEW = 64, 8
#: What stands between two values of a list, where it is in no quotes.
_IN_QUOTES = re.compile(r'[",]|\band\b', re.IGNORECASE)
_BETWEEN = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|(?P<joint>(?:(?<!\s)\s+)?,\s*(?:and\s+)?|(?<!\s)\s+and\s+)|.',
    re.IGNORECASE | re.DOTALL,
)


def each_of(value: Any) -> tuple[Any, ...]:
    """Return the values of a list, and any other value as the only one."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


class ParameterError(ValueError):
    """A value that may not stand where it was said; the message is one line that says why."""


@dataclass(frozen=True)
class Parameter(abc.ABC):
    """What may stand at one place.

    ``now`` is everywhere the names that may stand there now; None: nobody knows, any name may. Numbers, choices and
    texts do without.
    """

    default: Any = field(default=None, kw_only=True)  # its value if nothing is said; None: it has to be said

    @property
    def named(self) -> Named | None:
        """The kind of the names that stand here, be it in a list; None if none do."""
        one = self.of if isinstance(self, List) else self
        return one if isinstance(one, Named) else None

    def options(self, now: Sequence[str] | None = None) -> Sequence[str] | None:
        """Return everything that may be said; None: so much that only a pattern tells."""
        return None

    @abc.abstractmethod
    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str: ...

    @abc.abstractmethod
    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]: ...

    @abc.abstractmethod
    def read(self, said: object, now: Sequence[str] | None = None) -> Value:
        """Read a value, from words or from JSON. Raises ParameterError."""

    def measured(self, came: object) -> Value | None:
        """Return what a skill brought back as it may stand here, and what may not as it came; None if nothing came.

        What was done stays done, whatever came back; ``Skill.describe`` says what is unlike.
        """
        try:
            return self.read(came)
        except ParameterError:
            if isinstance(came, int | float) and abs(came) < math.inf:
                return came
            return None if came is None else shortened_line(str(came), LONGEST_TOLD)

    def example(self, now: Sequence[str] | None = None) -> Value:
        return (self.options(now) or ("1",))[0]

    def longest_of(self, now: Sequence[str] | None = None) -> int:
        return max(map(len, self.options(now) or ()), default=2 * _LINE.longest)

    def write(self, value: Value) -> str:
        return str(value)

    @abc.abstractmethod
    def words(self) -> str:
        """Say what may stand here, e.g. ``a number from 0 to 2 m``."""

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        """Return the one that a file declares by what follows its word. Raises ValueError or TypeError."""
        return cls()

    @abc.abstractmethod
    def as_data(self) -> Any: ...

    def as_fields(self) -> dict[str, Any]:
        """Return what it declares, as a message with fields for every kind has it; ``most`` is 0 but for lists."""
        return {"kind": type(self).__name__.lower(), "options": list(self.options() or ()), "most": 0}

    @classmethod
    def settings_in(cls, msg: Any) -> Any:
        """Return from a message with such fields what follows its word in a file. Raises ValueError."""
        return list(msg.options)


class Enumerable(Parameter):
    """A parameter whose values can be listed, once it is known what may stand there."""

    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str:
        options = self.options(now)
        return _LINE.pattern(notation) if options is None else notation.texts(options)

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        options = self.options(now)
        return _LINE.schema() if options is None else {"type": "string", "enum": list(options)}

    def read(self, said: object, now: Sequence[str] | None = None) -> Value:
        """Return the option whose words are said, in any capitals, quotes and brackets. Raises ParameterError."""
        options, text = self.options(now), _text_of(said)
        if options is None:
            return _LINE.read(text)
        if text in options:
            return text
        for form in (words(text), words(without_articles(text))):
            meant = [option for option in options if words(option) == form]
            if len(meant) == 1:
                return meant[0]
        near = sorted(options, key=lambda option: set(words(text)).isdisjoint(words(option)))
        listed = ", ".join(near[:_LISTED]) + (", …" if len(options) > _LISTED else "")
        raise ParameterError(f"'{shortened_line(text, 80)}' may not stand here; what may: {listed or 'nothing now'}")


@dataclass(frozen=True)
class Named(Enumerable):
    """Something that has a name.

    Attributes:
        which: Which of them, in a word that the world knows: what they are called, what can be done with them, or
            ``held``; empty: all.
    """

    which: str = ""
    names: tuple[str, ...] = ()  # the only ones, by their names; empty: those of the world

    def options(self, now: Sequence[str] | None = None) -> Sequence[str] | None:
        return (self.names or None) if now is None else now

    def check_known(self, name: str, known: Sequence[str] | None) -> None:
        names, word = self.names or known, re.sub(r" \(?\d+\)?$", "", name) if isinstance(self, Thing) else name
        if names is not None and not {name, word} & {*names}:
            raise ParameterError(self.no_such(name, names))

    def no_such(self, name: str, known: Sequence[str]) -> str:
        return f"'{name}' is not a {type(self).__name__.lower()} here; {nearest_or_some(name, known)}"

    def words(self) -> str:
        kind = type(self).__name__.lower()
        return f"one of {', '.join(self.names)}" if self.names else f"a {kind}{self.which and f' ({self.which})'}"

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        if isinstance(settings, list):
            return cls(names=tuple(map(_named, settings)))
        return cls(which="" if settings is None else _named(settings))

    def as_data(self) -> Any:
        return {type(self).__name__.lower(): list(self.names) or self.which or None}

    def as_fields(self) -> dict[str, Any]:
        return {**super().as_fields(), "which": self.which}

    @classmethod
    def settings_in(cls, msg: Any) -> Any:
        return list(msg.options) or msg.which or None


#: Says which names can ever stand in a place, of things at least their words; None: nobody knows.
Names = Callable[[Named], "Sequence[str] | None"]


def any_name(_: Named) -> None:
    return None


class Thing(Named):
    """A thing, e.g. ``juice 1``."""


class Place(Named):
    """Where things are put, or where one stands, e.g. ``desk 2``."""


class Room(Named):
    """A room, e.g. ``kitchen 1`` or ``office 2B``."""


class Person(Named):
    """A person, e.g. ``Anna``."""


@dataclass(frozen=True)
class Choice(Enumerable):
    """One of some options.

    Raises:
        ValueError: There is none, or two differ by capitals, quotes and the like alone.
    """

    choices: tuple[str, ...]  # the options, in the order in which they are listed

    def __post_init__(self) -> None:
        if not self.choices or len({words(one) for one in self.choices} - {()}) < len(self.choices):
            raise ValueError(f"{list(self.choices)} is not a choice: name options that differ in their words")

    def options(self, now: Sequence[str] | None = None) -> Sequence[str]:
        return self.choices if now is None else [one for one in self.choices if one in now]

    def words(self) -> str:
        return f"one of {', '.join(self.choices)}"

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        if not isinstance(settings, list):
            raise TypeError(f"{shortened_line(repr(settings), 60)} is not a list of options")
        return cls(tuple(map(_named, settings)))

    def as_data(self) -> Any:
        return {"choice": list(self.choices)}


@dataclass(frozen=True)
class Boolean(Enumerable):
    """True or false, each said in a word of its own, such as ``open`` and ``closed``.

    Raises:
        ValueError: The two differ by capitals, quotes and the like alone.
    """

    true: str = "yes"  # what is said for true
    false: str = "no"

    def __post_init__(self) -> None:
        Choice(self.options())

    def options(self, now: Sequence[str] | None = None) -> tuple[str, str]:
        return self.true, self.false

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        return {"type": "boolean", "description": f"true: {self.true}, false: {self.false}"}

    def read(self, said: object, now: Sequence[str] | None = None) -> bool:
        if isinstance(said, bool):
            return said
        is_json = isinstance(said, str) and said.casefold() in ("true", "false")
        return str(said).casefold() == "true" if is_json else super().read(said, now) == self.true

    def example(self, now: Sequence[str] | None = None) -> bool:
        return True

    def write(self, value: Value) -> str:
        return self.true if value else self.false

    def words(self) -> str:
        return f"{self.true} or {self.false}"

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        if settings is not None and not (isinstance(settings, list) and len(settings) == 2):
            said = shortened_line(repr(settings), 60)
            raise TypeError(f"{said} are not two words; write the one for true first, like [open, closed]")
        return cls(*map(_named, settings or ()))

    def as_data(self) -> Any:
        return {"boolean": [self.true, self.false]}


@dataclass(frozen=True)
class Number(Parameter):
    """A number within bounds, in steps; a whole number if the least and the step are.

    Raises:
        ValueError: The bounds are not bounds, or there are more than :data:`MOST_VALUES` values between them.
    """

    least: float  # the least that may be said
    most: float
    step: float = 0  # from the least on; by default 1 between whole numbers, otherwise 0.01
    unit: str = ""  # what it counts, e.g. ``m``; it is part of the wording, not of the value

    def __post_init__(self) -> None:
        whole = isinstance(self.least, int) and isinstance(self.most, int)
        object.__setattr__(self, "step", self.step or (1 if whole else 0.01))
        if not all(map(math.isfinite, (self.least, self.most, self.step))) or self.step < 0 or self.least > self.most:
            said = f"from {self.least} to {self.most} by {self.step} are not numbers"
            raise ValueError(f"{said}; write the least first, and steps of more than 0")
        if (self.most - self.least) / self.step > MOST_VALUES:
            raise ValueError(
                f"from {self.least} to {self.most} by {self.step} are over {MOST_VALUES} numbers; use a larger step"
            )

    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str:
        return notation.numerals(self._numerals)

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        return {
            "type": "integer" if self._whole else "number",
            "minimum": self.least,
            "maximum": self.most,
            "description": self.words(),
        }

    def read(self, said: object, now: Sequence[str] | None = None) -> int | float:
        number = self._number(said)
        steps = (number - _exact(self.least)) / _exact(self.step)
        if not _exact(self.least) <= number <= _exact(self.most) or abs(steps - round(steps)) > Decimal("1e-6"):
            raise ParameterError(f"{shortened_line(str(said), 40)} may not stand here, but {self.words()}")
        return self._step(round(steps))

    def measured(self, came: object) -> Value | None:
        """Return what was measured at the nearest step, also beyond the bounds; see :meth:`Parameter.measured`."""
        try:
            steps = round((self._number(came) - _exact(self.least)) / _exact(self.step))
        except ParameterError:
            return super().measured(came)
        return self._step(steps)

    def example(self, now: Sequence[str] | None = None) -> int | float:
        return self.least

    def write(self, value: Value) -> str:
        text = f"{_exact(value):f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text

    def values(self) -> Iterator[int | float]:
        yield from map(self._step, range(self._last + 1))

    def near(self, number: float) -> Iterator[int | float]:
        """Yield the values next to a number; of one beyond the bounds, those at the bound."""
        count = round((min(max(number, self.least), self.most) - self.least) / self.step)
        yield from map(self._step, range(max(count - 1, 0), min(count + 1, self._last) + 1))

    @property
    def greatest(self) -> float:
        return float(self._step(self._last))

    def words(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"a number from {self.write(self.least)} to {self.write(self.most)}{unit} by {self.write(self.step)}"

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        given = dict(settings) if isinstance(settings, Mapping) else {}
        numbers: list[Any] = [given.pop("from", None), given.pop("to", None), given.pop("by", 0)]
        unit = given.pop("unit", "")
        if given or not isinstance(unit, str) or not all(map(_is_number, numbers)):
            said = shortened_line(repr(settings), 60)
            raise TypeError(f"{said} is not a number; write it like {{from: 0, to: 2.0, by: 0.1, unit: m}}")
        return cls(numbers[0], numbers[1], numbers[2], unit)

    def as_data(self) -> Any:
        bounds = {"from": self.least, "to": self.most, "by": self.step}
        return {"number": {**bounds, **({"unit": self.unit} if self.unit else {})}}

    def as_fields(self) -> dict[str, Any]:
        return {**super().as_fields(), "bounds": [self.least, self.most, self.step], "units": [self.unit]}

    @classmethod
    def settings_in(cls, msg: Any) -> Any:
        return _numbers_in(msg, ("number",))["number"]

    @functools.cached_property
    def _numerals(self) -> frozenset[str]:
        return frozenset(map(self.write, self.values()))

    @property
    def _last(self) -> int:
        return int((_exact(self.most) - _exact(self.least)) / _exact(self.step))

    @property
    def _whole(self) -> bool:
        return float(self.least).is_integer() and float(self.step).is_integer()

    def _step(self, count: int) -> int | float:
        value = _exact(self.least) + count * _exact(self.step)
        return int(value) if self._whole else float(value)

    def _number(self, said: object) -> Decimal:
        if isinstance(said, int | float) and not isinstance(said, bool) and abs(said) < 1e20:
            return _exact(said)
        match = _NUMBER.fullmatch(typed(said).strip(" \t\n\"'`.!")) if isinstance(said, str) else None
        if match is None or match["unit"].strip() not in ("", self.unit):
            raise ParameterError(f"{shortened_line(repr(said), 40)} may not stand here, but {self.words()}")
        return Decimal(match["number"])


@dataclass(frozen=True)
class Text(Parameter):
    """A text in one line, said freely."""

    longest: int = 500  # most characters; a longer one is refused, never cut

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ValueError(f"a text of at most {self.longest} characters says nothing")

    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str:
        rest = f"[^\\n]{{0,{self.longest - 1}}}" if self.longest > 1 else ""
        return notation.line_of(("[^ \\n]", rest))

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def read(self, said: object, now: Sequence[str] | None = None) -> str:
        text = " ".join(filter(None, (line.strip(" ") for line in _text_of(said).replace("\r\n", "\n").split("\n"))))
        if not text:
            raise ParameterError(f"nothing is said here, but {self.words()} may be")
        if len(text) > self.longest:
            raise ParameterError(f"a text of {len(text)} characters may not stand here, but {self.words()}")
        return text

    def words(self) -> str:
        return f"a text of at most {self.longest} characters"

    def longest_of(self, now: Sequence[str] | None = None) -> int:
        return 2 * self.longest

    def quoted(self, notation: Notation) -> str:
        """Write its pattern in quotes, for where something follows it."""
        one = notation.one_of(['[^"\\\\\\n]', notation.line_of((notation.literal("\\"), '["\\\\]'))])
        return notation.line_of((notation.literal('"'), f"{one}{{1,{self.longest}}}", notation.literal('"')))

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        if settings is None:
            return cls()
        if isinstance(settings, bool) or not isinstance(settings, int):
            raise TypeError(f"{shortened_line(repr(settings), 60)} is not a number of characters")
        return cls(settings)

    def as_data(self) -> Any:
        return {type(self).__name__.lower(): self.longest}

    def as_fields(self) -> dict[str, Any]:
        return {**super().as_fields(), "longest": self.longest}

    @classmethod
    def settings_in(cls, msg: Any) -> Any:
        return msg.longest


class Picture(Text):
    """A reference to a picture, such as a file's name or a topic; for what skills return."""

    def words(self) -> str:
        return "a reference to a picture"


#: What stands where any name may.
_LINE = Text(120)


@dataclass(frozen=True)
class List(Parameter):
    """Some values of one kind, none of them twice: ``a, b and c`` in words, an array in JSON.

    A value with a comma or an ``and`` is in quotes, as texts always are.

    Raises:
        ValueError: There may be no such list.
    """

    of: Parameter  # what each of them is
    most: int = _FEW  # how many there may be

    def __post_init__(self) -> None:
        if not isinstance(self.of, Named | Choice | Number | Text) or self.of.default is not None:
            raise ValueError(f"a list is of names, options, numbers or texts, without a default, not {self.of.words()}")
        if isinstance(self.most, bool) or not isinstance(self.most, int) or not 1 <= self.most <= LONGEST_LIST:
            raise ValueError(f"most: {self.most!r} is not a number from 1 to {LONGEST_LIST}")

    def options(self, now: Sequence[str] | None = None) -> Sequence[str] | None:
        return None if (options := self.of.options(now)) is None or options else ()  # (): nothing may be listed

    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str:
        options = self.of.options(now)
        one = self.of.quoted(notation) if isinstance(self.of, Text) else self.of.pattern(notation, now)
        one = notation.texts(map(self._item, options)) if options is not None else one
        more = notation.one_of([notation.line_of((notation.texts((", ", " and ")), one))])
        return notation.line_of((one, f"{more}{{0,{self.most - 1}}}" if self.most > 1 else ""))

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        # not uniqueItems: servers refuse a schema that has it
        return {"type": "array", "items": self.of.schema(now), "minItems": 1, "maxItems": self.most}

    def read(self, said: object, now: Sequence[str] | None = None) -> tuple[Any, ...]:
        each = self._parts(said) if isinstance(said, str) else said if isinstance(said, list | tuple) else [said]
        if not 1 <= len(each) <= self.most:
            raise ParameterError(f"{len(each)} values may not stand here, but {self.words()}")
        values = tuple(self.of.read(one, now) for one in each)
        for number, value in enumerate(values):
            if value in values[:number]:
                raise ParameterError(f"{self._item(value)} is named twice")
        return values

    def _parts(self, said: str) -> list[str]:
        parts = [""]
        for match in _BETWEEN.finditer(re.sub(r'(?<=")[ .!]+$', "", said.strip())):
            parts += [""] if match["joint"] else []
            parts[-1] += "" if match["joint"] else match[0]
        for number, part in enumerate(parts):
            if part[:1] == '"' == part[-1:] and len(part) > 2:
                parts[number] = re.sub(r"\\(.)", r"\1", part[1:-1])
            elif '"' in part or (isinstance(self.of, Text) and len(parts) > 1):
                raise ParameterError(f"{shortened_line(said, 80)} may be read in several ways; put each in quotes")
        return parts

    def measured(self, came: object) -> Value | None:
        """See :meth:`Parameter.measured`; what comes twice is kept."""
        if not isinstance(came, list | tuple):
            return super().measured(came)
        each = (self.of.measured(one) for one in came[:LONGEST_LIST])
        return [one for one in each if isinstance(one, str | int | float)]  # a list, as a record has it

    def example(self, now: Sequence[str] | None = None) -> Any:
        return (self.of.example(now),)

    def longest_of(self, now: Sequence[str] | None = None) -> int:
        return self.most * (self.of.longest_of(now) + len('"" and '))

    def write(self, value: Value) -> str:
        *before, last = map(self._item, each_of(value))
        return f"{', '.join(before)} and {last}" if before else last

    def _item(self, value: Value) -> str:
        text = self.of.write(value)
        return quoted(text) if isinstance(self.of, Text) or _IN_QUOTES.search(text) else text

    def words(self) -> str:
        return f"a list of at most {self.most}, each {self.of.words()}, said as 'a, b and c'"

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        return cls(parameter_of(settings))

    def as_data(self) -> Any:
        return {"list": self.of.as_data(), "most": self.most}

    def as_fields(self) -> dict[str, Any]:
        return {**self.of.as_fields(), "most": self.most}


@dataclass(frozen=True)
class Pose(Parameter):
    """Where to be on a map, by numbers: ``x 1.2, y 3.4, yaw 90`` in words, an object in JSON."""

    frame: str = "map"  # that the numbers are in
    x: Number = Number(-100, 100, 0.05, "m")
    y: Number = Number(-100, 100, 0.05, "m")
    yaw: Number = Number(-180, 180, 1, "°")  # from the x axis to the left

    @property
    def _numbers(self) -> Mapping[str, Number]:
        return {"x": self.x, "y": self.y, "yaw": self.yaw}

    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str:
        each = enumerate(self._numbers.items())
        parts = [(notation.literal(f"{', ' if at else ''}{name} "), one.pattern(notation)) for at, (name, one) in each]
        return notation.line_of(part for both in parts for part in both)

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        each = {name: one.schema() for name, one in self._numbers.items()}
        return {"type": "object", "properties": each, "required": [*each], "additionalProperties": False}

    def read(self, said: object, now: Sequence[str] | None = None) -> Mapping[str, float]:
        match = _POSE.fullmatch(typed(said).strip(" \t\n\"'`.")) if isinstance(said, str) else None
        given = match.groupdict() if match else said
        if not isinstance(given, Mapping) or {*given} != {*self._numbers}:
            raise ParameterError(f"{shortened_line(repr(said), 60)} may not stand here, but {self.words()}")
        try:
            return {name: one.read(given[name]) for name, one in self._numbers.items()}
        except ParameterError:
            raise ParameterError(f"'{shortened_line(str(said), 60)}' is not within {self.words()}") from None

    def measured(self, came: object) -> Value | None:
        """See :meth:`Number.measured`."""
        if not isinstance(came, Mapping) or {*came} != {*self._numbers}:
            return super().measured(came)
        return {name: one.measured(came[name]) for name, one in self._numbers.items()}  # type: ignore[misc]

    def example(self, now: Sequence[str] | None = None) -> Mapping[str, float]:
        return {name: min((0, one.least, one.greatest), key=abs) for name, one in self._numbers.items()}

    def write(self, value: Value) -> str:
        assert isinstance(value, Mapping)
        return ", ".join(f"{name} {one.write(value[name])}" for name, one in self._numbers.items())

    def words(self) -> str:
        bounds = (f"{name} from {one.write(one.least)} to {one.write(one.most)}" for name, one in self._numbers.items())
        return f"a pose such as 'x 1.5, y -2, yaw 90', in m and degrees, {', '.join(bounds)}"

    @classmethod
    def from_data(cls, settings: Any) -> Parameter:
        given = {} if settings is None else dict(settings)
        frame = _named(given.pop("frame", "map"))
        if odd := {*given} - {"x", "y", "yaw"}:
            raise TypeError(f"'{min(odd, key=str)}' says nothing of a pose; name its frame, x, y and yaw")
        numbers: dict[str, Any] = {name: Number.from_data(one) for name, one in given.items()}
        return cls(frame, **numbers)

    def as_data(self) -> Any:
        return {"pose": {"frame": self.frame, **{name: one.as_data()["number"] for name, one in self._numbers.items()}}}

    def as_fields(self) -> dict[str, Any]:
        each = [one.as_fields() for one in self._numbers.values()]
        numbers = {name: [one for fields in each for one in fields[name]] for name in ("bounds", "units")}
        return {**super().as_fields(), "frame": self.frame, **numbers}

    @classmethod
    def settings_in(cls, msg: Any) -> Any:
        return {"frame": msg.frame, **_numbers_in(msg, ("x", "y", "yaw"))}


def _numbers_in(msg: Any, names: Sequence[str]) -> dict[str, Any]:
    bounds, units = [int(one) if float(one).is_integer() else one for one in msg.bounds], msg.units
    if (len(bounds), len(units)) != (3 * len(names), len(names)):
        need = f"{3 * len(names)} and {len(names)}: least, greatest, step and unit of {', '.join(names)}"
        raise ValueError(f"{len(bounds)} bounds and {len(units)} units do not fit; give {need}")
    each = (dict(zip(("from", "to", "by"), bounds[at:], strict=False)) for at in range(0, len(bounds), 3))
    return {name: {**numbers, "unit": unit} for name, numbers, unit in zip(names, each, units, strict=True)}


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text_of(said: object) -> str:
    if isinstance(said, str):
        return said
    if isinstance(said, int | float) and not isinstance(said, bool):
        return str(said)
    raise ParameterError(f"{shortened_line(repr(said), 40)} may not stand here; say a text")


def _exact(number: Value) -> Decimal:
    return Decimal(str(number))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{shortened_line(repr(value), 60)} is not a name; put it in quotes")
    return value


#: The kinds of parameter by the word for each, as a file declares them.
PARAMETERS: Mapping[str, type[Parameter]] = {
    kind.__name__.lower(): kind
    for kind in (Thing, Place, Room, Person, Number, Choice, Text, Picture, Boolean, List, Pose)
}


def parameter_of(declared: Any) -> Parameter:
    """Return the parameter that a file declares. Raises ValueError."""
    if isinstance(declared, list):
        declared = {"choice": declared}
    elif isinstance(declared, str):
        declared = {declared: None}
    beside = ("default", "most") if isinstance(declared, Mapping) and "list" in declared else ("default",)
    kinds = [one for one in declared if one not in beside] if isinstance(declared, Mapping) else []
    if len(kinds) != 1 or kinds[0] not in PARAMETERS:
        known = ", ".join(PARAMETERS)
        said = shortened_line(", ".join(map(str, declared)) if isinstance(declared, Mapping) else repr(declared), 60)
        raise ValueError(f"'{said}' is not a kind of parameter; name one of {known}{or_nearest(said, PARAMETERS)}")
    try:
        one = PARAMETERS[kinds[0]].from_data(declared[kinds[0]])
        one = replace(one, most=declared["most"]) if isinstance(one, List) and "most" in declared else one
        return replace(one, default=one.read(declared["default"])) if "default" in declared else one
    except (ValueError, TypeError) as error:
        raise ValueError(str(error)) from None


def declared_in(msg: Any) -> dict[str, Any]:
    """Return as a file declares it what a message has of :meth:`Parameter.as_fields`, with its default as ``usual``."""
    one = {msg.kind: PARAMETERS[msg.kind].settings_in(msg) if msg.kind in PARAMETERS else None}
    one = {"list": one, "most": msg.most} if msg.most else one
    return {**one, "default": msg.usual} if msg.usual else one
