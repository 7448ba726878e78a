"""The wording of something that takes parameters: a template such as ``drive forward by {distance} m``."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from string import Formatter
from typing import Any

from reactree_ros.agent.decision import as_object
from reactree_ros.agent.parameters import (
    MOST_VALUES,
    Boolean,
    Choice,
    List,
    Notation,
    Number,
    Parameter,
    ParameterError,
    Pose,
    Text,
    Value,
    quoted,
)
from reactree_ros.agent.text import check_template, shortened_line, words

#: The names that may stand now, by parameter; any, for one that is not in it.
Standing = Mapping[str, Sequence[str]]
#: A part of what is said: whether it is a word, and all that may stand there; empty: anything.
_Part = tuple[bool, set[tuple[str, ...]]]
#: The longest text that is read, in characters, and the most ways to take one apart.
_LONGEST, _MOST_WAYS = 2000, 200
#: A part with parameters that may be left out, and the most of them.
OPTIONAL = re.compile(r"\[([^\[\]]*\{[^\[\]]*)\]")
_MOST_OPTIONAL = 4
_GIVEN = re.compile(r"<([^<>\n]{1,60})>")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_APOSTROPHE = re.compile("(?<=\\w)['\u2019](?=\\w)")
#: Kinds whose end is known, whatever follows.
_CLOSED = (Choice, Boolean, Number, Pose)
#: Marks around a text, with those that end it.
QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "\u2018": "\u2019"}


@dataclass(frozen=True)
class Wording:
    """Words with parameters between them.

    A text that more words follow is written in quotes, so that its end is known; a text at the end is written as it is.
    A part in brackets, as in a man page, may be left out; what it says then is the default of each parameter in it. It
    is written if it says anything else, so that the same values have one text.

    Raises:
        ValueError: Template and parameters do not fit, or no word stands between two parameters of any words.
    """

    template: str  # the words, with each parameter's name in braces, once, e.g. ``go to {place}[ at {speed} m/s]``
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # what may stand in each place, by name
    # what ``<name>`` stands for in a place, such as ``<code>`` for what a skill has returned; None: nothing yet
    given: Mapping[str, Value | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_template(self.template, tuple(self.parameters))
        names = [name for _, name in self._pieces if name]
        if sorted(names) != sorted(self.parameters):
            raise ValueError(f"'{self.template}' has to name each of its parameters once: {', '.join(self.parameters)}")
        for (_, before), (literal, after) in itertools.pairwise(self._pieces):
            closed = any(isinstance(self.parameters.get(name or ""), _CLOSED) for name in (before, after))
            lists = any(isinstance(self.parameters.get(name or ""), List) for name in (before, after))
            says_more = literal.strip(" ,") not in ("", "and") if lists else literal.strip()
            if not (says_more or after is None or (literal and closed and not lists)):
                raise ValueError(f"'{self.template}' needs a word between {{{before}}} and {{{after}}}")
        for name, one in self.parameters.items():
            if one.default is not None and one.read(one.default) != one.default:
                raise ValueError(f"{name}: the default {one.default!r} is not as it is read, {one.read(one.default)!r}")
        if len(self._segments) > 1:
            self._check_optional()

    def _check_optional(self) -> None:
        parts = self._segments[1::2]
        if len(parts) > _MOST_OPTIONAL or {*"[]"} & {*"".join(self._segments)}:
            raise ValueError(
                f"'{self.template}' has more than {_MOST_OPTIONAL} parts in brackets, or one inside another"
            )
        for name in (name for part in parts for name in _names(part) if self.parameters[name].default is None):
            raise ValueError(f"'{self.template}': {{{name}}} may be left out, so it needs a default")
        if any(one.is_alike(other) for one, other in itertools.combinations(self.forms, 2)):
            raise ValueError(f"'{self.template}' can be read in two ways; say its parts in other words")

    @cached_property
    def _segments(self) -> list[str]:
        return OPTIONAL.split(self.template)  # in turn what is always said, and what may be left out

    @cached_property
    def forms(self) -> tuple[Wording, ...]:
        """The wordings with and without each part that may be left out, those with the most words first."""
        if len(self._segments) == 1:
            return (self,)
        said = itertools.product(*((part, "") if at % 2 else (part,) for at, part in enumerate(self._segments)))
        templates = dict.fromkeys("".join(parts) for parts in said)
        forms = [Wording(one, {name: self.parameters[name] for name in _names(one)}) for one in templates]
        return tuple(sorted(forms, key=lambda one: one.letters, reverse=True))

    def form_of(self, values: Mapping[str, Value]) -> str:
        """Return the template that some values are written in."""
        return "".join(
            part
            for at, part in enumerate(self._segments)
            if not at % 2 or any(values[name] != self.parameters[name].default for name in _names(part))
        )

    @cached_property
    def _pieces(self) -> list[tuple[str, str | None]]:
        return _pieces_of(self.template)

    @cached_property
    def _first(self) -> str:
        return _pieces_of(self._segments[0])[0][0] if self._segments[0] else ""

    @property
    def head(self) -> str:
        return self._first.strip()

    @cached_property
    def letters(self) -> int:
        return sum(len("".join(literal.split())) for literal, _ in self._pieces)

    @cached_property
    def _spelt(self) -> int:
        return sum(one.isalnum() for literal, _ in self._pieces for one in literal)

    def letters_in(self, said: str) -> int:
        """How many letters of its own words are said."""
        forms = self.forms
        return next((one.letters for one in forms[:-1] if one.says(said)), forms[-1].letters)

    def is_alike(self, other: Wording) -> bool:
        """Whether a text has the words of both, and what may stand in the places of either.

        What a free text or any name could hold does not count: the words of the other one are more.
        """
        pairs = itertools.product(self._said, other._said)
        return any(len(one) == len(two) and all(map(_share, one, two)) for one, two in pairs)

    @cached_property
    def _said(self) -> list[list[_Part]]:
        return [
            [(isinstance(one, str), _listed(one)) for one in said] for form in self.forms for said in form._worded()
        ]

    def _worded(self) -> Iterator[list[str | Parameter]]:
        choices = {name: one.options() for name, one in self.parameters.items() if isinstance(one, Choice | Boolean)}
        for chosen in itertools.islice(itertools.product(*choices.values()), _MOST_WAYS):
            said = dict(zip(choices, chosen, strict=True))
            form: list[str | Parameter] = []
            for literal, name in self._pieces:
                form += words(f"{literal} {said.get(name or '', '')}")
                form += [self.parameters[name]] if name and name not in said else []
            yield form

    # ------------------------------------------------------------------ what may be said

    def options(self, now: Standing | None = None) -> list[str] | None:
        """Return everything that may be said; None if only a pattern tells, or it is too much to list."""
        each = [(name, parameter.options(_at(now, name))) for name, parameter in self.parameters.items()]
        if any(options is None for _, options in each):
            return None
        if math.prod(len(options or ()) for _, options in each) > MOST_VALUES:
            return None
        chosen = itertools.product(*(options or () for _, options in each))
        return [self.write(dict(zip(self.parameters, values, strict=True))) for values in chosen]

    def possible(self, now: Standing | None = None) -> bool:
        each = (parameter.options(_at(now, name)) for name, parameter in self.parameters.items())
        return all(options is None or options for options in each)

    def pattern(self, notation: Notation, now: Standing | None = None) -> str:
        parts = [self._segment(part, notation, now) for part in self._segments]
        for at, part in enumerate(self._segments):
            if at % 2 and self._may_lack(part, now):
                parts[at] = f"{notation.one_of([parts[at]])}?"
        return notation.line_of(parts)

    def _segment(self, template: str, notation: Notation, now: Standing | None) -> str:
        parts = []
        for literal, name in _pieces_of(template):
            parts.append(notation.literal(literal) if literal else "")
            if name is not None:
                parts.append(self._part(notation, name, _at(now, name)))
        return notation.line_of(parts)

    def _may_lack(self, part: str, now: Standing | None) -> bool:
        try:
            return [self._taken(name, self.parameters[name].default, now) for name in _names(part)] != []
        except ParameterError:
            return False

    def _part(self, notation: Notation, name: str, now: Sequence[str] | None) -> str:
        parameter = self.parameters[name]
        if not isinstance(parameter, Text):
            pattern, given = parameter.pattern(notation, now), self._given_to(name, now)
            return notation.one_of((pattern, *map(notation.literal, given))) if given else pattern
        if not self._ends_with(name):
            return parameter.quoted(notation)
        rest = f"[^\\n]{{0,{parameter.longest - 1}}}" if parameter.longest > 1 else ""
        return notation.one_of((notation.line_of(('[^" \\n]', rest)), parameter.quoted(notation)))

    def _given_to(self, name: str, now: Sequence[str] | None) -> list[str]:
        """Return what stands for a value that has come and may stand in a place."""
        fits = []
        for given, value in self.given.items():
            with suppress(ParameterError):
                self.parameters[name].read(value, now)
                fits.append(f"<{given}>")
        return fits

    def _filled(self, name: str, said: str) -> object:
        def value_of(given: str) -> Value:
            if (value := self.given[given]) is None:
                raise ParameterError(f"<{given}> stands for nothing yet: no skill has returned it")
            return value

        def text_of(match: re.Match[str]) -> str:
            value = value_of(match[1]) if match[1] in self.given else match[0]
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ParameterError(f"{match[0]} is not text")
            return str(value)

        if isinstance(self.parameters[name], Text):
            return _GIVEN.sub(text_of, said)
        match = _GIVEN.fullmatch(said.strip())
        return value_of(match[1]) if match and match[1] in self.given else said

    def _ends_with(self, name: str) -> bool:
        return all(form._pieces[-1][1] == name for form in self.forms if name in form.parameters)

    def schema(self, now: Standing | None = None) -> dict[str, Any]:
        each = {name: one.schema(_at(now, name)) for name, one in self.parameters.items()}
        for name in (name for name, one in self.parameters.items() if self.given and not isinstance(one, Text)):
            if given := self._given_to(name, _at(now, name)):
                each[name] = {"anyOf": [each[name], {"type": "string", "enum": given}]}
        left = {name: one.default for name, one in self.parameters.items() if one.default is not None}
        takes = as_object(**each | {name: {**each[name], "default": value} for name, value in left.items()})
        return takes | {"required": [name for name in each if name not in left]} if left else takes

    def longest(self, now: Standing | None = None) -> int:
        return len(self.template) + sum(one.longest_of(_at(now, name)) for name, one in self.parameters.items())

    # ------------------------------------------------------------------ writing and reading

    def write(self, values: Mapping[str, Value]) -> str:
        pieces = _pieces_of(self.form_of(values))
        return "".join(literal + ("" if name is None else self.written(name, values[name])) for literal, name in pieces)

    def written(self, name: str, value: Value) -> str:
        parameter = self.parameters[name]
        text = parameter.write(value)
        if not isinstance(parameter, Text) or (self._ends_with(name) and not text.startswith((*QUOTES, ":", "(", "{"))):
            return text
        return quoted(text)

    def read(self, said: str | Mapping[str, object], now: Standing | None = None) -> dict[str, Value]:
        """Read the values, from words or from the fields of an object. Raises ParameterError."""
        if (fields := said if isinstance(said, Mapping) else self._fields_in(said)) is not None:
            return self._of_fields(fields, now)
        assert isinstance(said, str)
        if len(said) > _LONGEST:
            raise ParameterError(f"a text of {len(said)} characters is too long for '{self.template}'")
        readings: list[dict[str, Value]] = []
        refused: list[tuple[int, ParameterError]] = []
        spelt = 0  # letters of the longest form that is said
        for form in self.forms:
            for way in self._ways_in(form, said, now, hidden=bool(readings) or spelt > form._spelt):
                spelt = max(spelt, form._spelt)
                values: dict[str, Value] = {}
                wrong: list[ParameterError] = []
                for name in (*way, *(name for name in self.parameters if name not in way)):
                    try:
                        usual = self.parameters[name].default
                        values[name] = (
                            self._value(name, way[name], now) if name in way else self._taken(name, usual, now)
                        )
                    except ParameterError as error:
                        wrong.append(error)
                if wrong:
                    refused.append((len(values), wrong[0]))
                elif values not in readings:
                    readings.append(values)
        if len(readings) > 1:
            raise ParameterError(f"'{shortened_line(said, 80)}' can be read in several ways; put the text in quotes")
        if not readings:
            takes = "; ".join(f"{name} is {parameter.words()}" for name, parameter in self.parameters.items())
            other = f"'{shortened_line(said, 80)}' is not said as '{self.template}'" + (takes and f"; {takes}")
            raise max(refused, key=lambda one: one[0])[1] if refused else ParameterError(other)
        return readings[0]

    def _fields_in(self, said: str) -> Mapping[str, object] | None:
        head, known = _between(self._first).match(said.lstrip()), set(map(key_of, self.parameters))
        if head is None or not said.rstrip().endswith("}"):
            return None
        try:
            fields = json.loads(said.lstrip()[head.end() :], object_pairs_hook=list)
        except (ValueError, RecursionError):
            return None
        is_object = bool(fields) and isinstance(fields, list) and all(isinstance(one, tuple) for one in fields)
        keys = [key_of(key) for key, _ in fields] if is_object else [""]
        return dict(fields) if known.issuperset(keys) and len({*keys}) == len(keys) else None

    def says(self, said: str) -> bool:
        return len(said) <= _LONGEST and any(next(one._ways(said), None) is not None for one in self.forms)

    def begins(self, said: str) -> bool:
        return _between(self._first).match(said.lstrip()) is not None

    def is_open(self, said: str) -> bool:
        """Whether a quotation begins behind the first words and has no end, as if it went on in the next line."""
        head = _between(self._first).match(said.lstrip())
        text = "" if head is None else _APOSTROPHE.sub("", said.lstrip()[head.end() :].lstrip(" :("))
        return text[:1] in {*QUOTES} and QUOTES[text[0]] not in re.sub(r"\\.", "", text[1:])

    def ways(self, said: str) -> Iterator[dict[str, str]]:
        """Yield what stands in the places of a text, as words, in each way that it can be said so."""
        for way in (way for form in self.forms for way in itertools.islice(form._ways(said), _MOST_WAYS)):
            is_text = {name: isinstance(self.parameters[name], Text) for name in way}
            yield {name: _unquoted(text.strip()) if is_text[name] else text.strip() for name, text in way.items()}

    def _ways_in(self, form: Wording, said: str, now: Standing | None, *, hidden: bool) -> Iterator[dict[str, str]]:
        """Yield the ways in which a text says one of the forms.

        A name that nobody knows, or a text in no quotes, could hold the words of a longer form. It is ``hidden`` by it.
        """
        unknown = (one.named.options(_at(now, name)) is None for name, one in form.parameters.items() if one.named)
        for way in () if hidden and any(unknown) else itertools.islice(form._ways(said), _MOST_WAYS):
            if len(self.forms) == 1 or not self._goes_on(way, hidden):
                yield way

    def _goes_on(self, way: Mapping[str, str], hidden: bool) -> bool:
        texts = (text.strip() for name, text in way.items() if isinstance(self.parameters[name], Text))
        return any(_unquoted(text) == text and (hidden or text[:1] == '"') for text in texts)

    def _ways(self, said: str) -> Iterator[dict[str, str]]:
        latest = self._latest(said)
        if latest is not None:
            yield from self._ways_on(said, 0, latest, {})

    def _latest(self, said: str) -> list[int] | None:
        latest: list[int] = []
        for literal, name in reversed(self._pieces):
            after = said[: latest[-1]] if latest else said
            fits = [
                match.start()
                for match in _all(_between(literal), said)
                if (after[match.end() :].strip(" \n") if latest else name or not said[match.end() :].strip(" \n.!"))
            ]
            if not fits:
                return None
            latest.append(fits[-1])
        return latest[::-1]

    def _ways_on(
        self, said: str, begin: int, latest: Sequence[int], found: dict[str, str], last: str | None = None
    ) -> Iterator[dict[str, str]]:
        if not latest:
            rest = said[begin:]
            if last is not None or not rest.strip(" \n.!"):
                yield found if last is None else {**found, last: rest}
            return
        literal, name = self._pieces[-len(latest)]
        for match in _between(literal).finditer(said, begin):
            if match.start() > latest[0] or (last is None and said[begin : match.start()].strip(" \n")):
                return
            if last is not None and not said[begin : match.start()].strip(" \n"):
                continue
            if name is None and said[match.end() :].strip(" \n.!"):
                continue
            taken = found if last is None else {**found, last: said[begin : match.start()]}
            yield from self._ways_on(said, match.end(), latest[1:], taken, name)

    def _value(self, name: str, text: str, now: Standing | None) -> Value:
        if isinstance(self.parameters[name], Text):
            text = _unquoted(_called(text, name).strip(" \n"))
        return self._taken(name, text.strip(" \n"), now)

    def _taken(self, name: str, said: object, now: Standing | None) -> Value:
        try:
            said = self._filled(name, said) if self.given and isinstance(said, str) else said
            return self.parameters[name].read(said, _at(now, name))
        except ParameterError as error:
            raise ParameterError(f"{name}: {error}") from None

    def _of_fields(self, said: Mapping[str, object], now: Standing | None) -> dict[str, Value]:
        known = {key_of(name): name for name in self.parameters}
        named = [(known.get(key_of(key)), key, value) for key, value in said.items()]
        given: dict[str, Value] = {}
        for name, key, value in named:
            if name is not None and value is None and self.parameters[name].default is not None:
                continue
            if name is None or name in given:
                takes = ", ".join(self.parameters) or "nothing"
                raise ParameterError(
                    f"'{shortened_line(key, 40)}' is not a parameter of '{self.template}', which takes {takes}"
                )
            given[name] = self._taken(name, value, now)
        for name, parameter in self.parameters.items():
            if name not in given and parameter.default is not None:
                given[name] = self._taken(name, parameter.default, now)
            elif name not in given:
                raise ParameterError(f"{name}: it is not said, but {parameter.words()} has to be")
        return given


@lru_cache(maxsize=4096)
def _pieces_of(template: str) -> list[tuple[str, str | None]]:
    return [(literal, name) for literal, name, _, _ in Formatter().parse(template)]


def _names(template: str) -> list[str]:
    return [name for _, name in _pieces_of(template) if name]


def _share(one: _Part, other: _Part) -> bool:
    (is_word, ours), (is_word_too, theirs) = one, other
    return not ours.isdisjoint(theirs) if ours and theirs else not (is_word or is_word_too)


def _listed(one: str | Parameter) -> set[tuple[str, ...]]:
    if isinstance(one, str):
        return {(one,)}
    one = one.of if isinstance(one, List) else one
    values = one.values() if isinstance(one, Number) else one.options()
    return {words(one.write(value)) for value in values or ()}


def _at(now: Standing | None, name: str) -> Sequence[str] | None:
    return None if now is None else now.get(name)


def _called(text: str, name: str) -> str:
    if text.startswith(":"):
        return text[1:]
    if not (text.startswith("(") and text.rstrip().endswith(")")):
        return text
    inside = text.strip()[1:-1]
    return re.sub(rf"\A\s*{re.escape(name)}\s*[=:]\s*(?=[\"'])", "", inside)


def _unquoted(text: str) -> str:
    begin, end = text[:1], QUOTES.get(text[:1], "")
    quoted = text[:-1].rstrip(" ") if text.endswith((".", "!")) else text
    if begin == '"' and _QUOTED.fullmatch(quoted) is not None:
        try:
            return str(json.loads(quoted, strict=False))
        except ValueError:  # escapes of its own
            return re.sub(r"\\(.)", r"\1", quoted[1:-1])
    inside = _APOSTROPHE.sub("", quoted[1:-1])
    is_all = end and begin != '"' and len(quoted) > 2 and quoted.endswith(end) and not {begin, end} & {*inside}
    return quoted[1:-1] if is_all else text


def key_of(name: str) -> str:
    """Return a name without capitals, blanks and signs between its words."""
    return "".join(words(name)).replace("_", "")


def _all(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at <= len(text) and (match := pattern.search(text, at)) is not None:
        yield match
        at = match.start() + 1


@lru_cache(maxsize=4096)
def _between(literal: str) -> re.Pattern[str]:
    inner = r"\s+".join(map(re.escape, literal.split())) or (r"\s+" if literal else "")
    head = r"(?<![^\W\d_])" if literal.strip()[:1].isalpha() else ""
    tail = r"(?![^\W_])" if literal.strip()[-1:].isalnum() else ""
    return re.compile(f"{head}{inner}{tail}", re.IGNORECASE)
