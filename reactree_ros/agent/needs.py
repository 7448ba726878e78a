"""What a skill needs: facts that have to hold when it begins, or as long as it runs, declared with it as data.

Offers, refusals, a bridge's checks and worlds made of declarations all ask the same needs; who answers is any
:class:`Facts`: what a robot knows of its house, a map, or a world itself.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from reactree_ros.agent.text import check_template, shortened_line
from reactree_ros.plugins.settings import did_you_mean

#: The states that something can be in, each with the one that it ends.
OPPOSITES: Mapping[str, str] = {
    one: other for pair in (("open", "closed"), ("on", "off"), ("empty", "full")) for one, other in (pair, pair[::-1])
}
#: What may have to hold, of a name, a word, or what a parameter says.
FACTS: Mapping[str, str] = {
    "at": "the robot stands at it",
    "near": "the robot can reach it from where it stands",
    "held": "the robot holds it",
    "free": "the robot has one free: a hand",
    **{state: f"it is {state}" for state in OPPOSITES},
    "condition": "the condition with this name holds",
}
#: What YAML takes two of them for without quotes.
SWITCHED: Mapping[bool, str] = {True: "on", False: "off"}
#: Stands for what the robot is at.
HERE = "here"
NUMBER = "number"
_NOT, _WHILE = "not", "while"
_BOUNDS = ("at_least", "at_most", _WHILE)
#: How it is said that a fact holds, and that it does not.
_SAID: Mapping[str, tuple[str, str]] = {
    "at": ("you are at {}", "you are not at {}"),
    "near": ("{} is near you", "{} is not near you"),
    "held": ("you hold {}", "you do not hold {}"),
    "free": ("you have an empty {}", "you do not have an empty {}"),
    **{state: (f"{{}} is {state}", f"{{}} is {other}") for state, other in OPPOSITES.items()},
    "condition": ("{}", "it is not so that {}"),
}


class Facts(Protocol):
    """Who can say what holds."""

    def holds(self, fact: str, about: str) -> bool | None:
        """Say whether one of :data:`FACTS` holds of a name, of anything of a word, or :data:`HERE`; None: unknown."""

    def those(self, fact: str, about: str) -> Sequence[str]:
        """Return the names of what it is known to hold for, of a name or a word."""


@dataclass(frozen=True)
class Limits:
    """What a number may be."""

    at_least: float | None = None
    at_most: float | None = None
    given: str = ""  # the condition while which alone it has to be so; empty: always

    def has(self, value: float) -> bool:
        low, high = self.at_least, self.at_most
        return (low is None or value >= low) and (high is None or value <= high)

    def words(self) -> str:
        each = (("at least", self.at_least), ("at most", self.at_most))
        said = " and ".join(f"{word} {bound:g}" for word, bound in each if bound is not None)
        return f"{said} while {self.given}" if self.given else said


@dataclass(frozen=True)
class Need:
    """One thing that has to hold."""

    fact: str  # of :data:`FACTS`, or ``number``
    #: Names, words, or parameters in braces, such as ``{place}``; it is enough if it holds of one.
    about: tuple[str, ...]
    is_so: bool = True  # False: it may hold of none
    lasts: bool = False  # whether it has to hold as long as the skill runs, too
    limits: Limits = Limits()  # of a ``number``, which names a parameter

    def holds(self, values: Mapping[str, Any], facts: Facts) -> bool | None:
        """Say whether it holds for a skill with some values; None: nobody knows."""
        if self.fact == NUMBER:
            return self._is_within(values, facts)
        each = [self._holds(one, facts) for one in _singles(values)]
        return False if False in each else None if None in each else True

    def _holds(self, values: Mapping[str, Any], facts: Facts) -> bool | None:
        known = [facts.holds(self.fact, filled(one, values)) for one in self.about]
        if True in known:
            return self.is_so
        return None if None in known else not self.is_so

    def _is_within(self, values: Mapping[str, Any], facts: Facts) -> bool | None:
        given = facts.holds("condition", self.limits.given) if self.limits.given else True
        if given is False or self.limits.has(float(values[self.about[0]])):
            return True
        return None if given is None else False

    def named(self, values: Mapping[str, Any]) -> list[str]:
        """Return what it is about, with the values in place of the parameters."""
        return list(dict.fromkeys(filled(one, each) for one in self.about for each in _singles(values)))

    def __str__(self) -> str:
        """Return it as a file declares it, e.g. ``not held pills``."""
        return f"{'' if self.is_so else 'not '}{self.fact} {' or '.join(self.about)}"

    def words(self) -> str:
        """Say what has to hold, e.g. ``you hold {item}``; empty: only a world knows what is meant."""
        if self.fact == NUMBER:
            return f"{self.about[0]} is {self.limits.words()}"
        is_told = HERE not in self.about and not any(one.isupper() for one in self.about)
        return _SAID[self.fact][not self.is_so].format(" or ".join(self.about)) if is_told else ""

    def reason(self, values: Mapping[str, Any], facts: Facts) -> str:
        """Say in words what keeps a skill from being done, e.g. ``drawer 3 is open``."""
        if self.fact == NUMBER:
            (name,), given = self.about, self.limits.given
            unknown = f", and nobody knows whether {given}" if self.holds(values, facts) is None else ""
            return f"{name} is {values[name]} and may be {self.limits.words()}{unknown}"
        holds = self.holds(values, facts)
        values = next((one for one in _singles(values) if self._holds(one, facts) is holds), values)
        if holds is None:
            return f"nobody knows whether {' or '.join(_SAID[self.fact][0].format(one) for one in self.named(values))}"
        if self.is_so:
            return _SAID[self.fact][1].format(" or ".join(self.named(values)))
        those = [name for one in self.named(values) for name in facts.those(self.fact, one)]
        return " and ".join(map(_SAID[self.fact][0].format, those or self.named(values)))

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The parameters that it is about; the one that a ``number`` names is none."""
        return frozenset(name for about in self.about for name in re.findall(r"{([^{}]*)}", about))

    @property
    def conditions(self) -> Sequence[str]:
        """The names of the conditions that it asks for."""
        given = (self.limits.given,) if self.limits.given else ()
        return self.about if self.fact == "condition" else given

    def as_data(self) -> dict[str, Any]:
        if self.fact == NUMBER:
            each = zip(_BOUNDS, (self.limits.at_least, self.limits.at_most, self.limits.given or None), strict=True)
            data: dict[str, Any] = {NUMBER: {self.about[0]: {name: one for name, one in each if one is not None}}}
        else:
            data = {self.fact: list(self.about)}
            data = data if self.is_so else {_NOT: data}
        return {_WHILE: data} if self.lasts and not self.limits.given else data

    def as_fields(self) -> dict[str, Any]:
        """Return it as a message has it: a bound that is none is NaN."""
        bounds = {name: math.nan if one is None else one for name, one in vars(self.limits).items()}
        return {"fact": self.fact, "about": list(self.about), "is_so": self.is_so, "lasts": self.lasts, **bounds}


def _singles(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the values with one of each list at a time: what is needed is needed of each."""
    each = itertools.product(*(one if isinstance(one, tuple) else (one,) for one in values.values()))
    return (dict(zip(values, one, strict=True)) for one in each)


def filled(about: str, values: Mapping[str, Any]) -> str:
    """Return what words with parameters in braces stand for, such as ``drawer {number}``."""
    return re.sub(r"\{([^{}]*)\}", lambda place: str(values.get(place[1], place[0])), about)


def needs_of(declared: Any, parameters: Mapping[str, Any]) -> tuple[Need, ...]:
    """Return the needs that a file declares, in their order. Raises ValueError, in one line."""
    each = declared if isinstance(declared, list) else [declared]
    return tuple(need for one in each for need in _read(one, parameters))


def need_in(msg: Any) -> Need:
    """Return the need of a message with :meth:`Need.as_fields`, which :func:`needs_of` has to take, too.

    Raises ValueError.
    """
    if not msg.about:
        raise ValueError(f"needs: about is empty; name what '{shortened_line(msg.fact, 40)}' has to hold of")
    low, high = (None if math.isnan(one) else one for one in (msg.at_least, msg.at_most))
    return Need(msg.fact, tuple(msg.about), msg.is_so, msg.lasts, Limits(low, high, msg.given))


def _read(declared: Any, parameters: Mapping[str, Any], *, is_so: bool = True) -> Iterator[Need]:
    for word, about in _mapping(declared).items():
        if word == _NOT and is_so:
            yield from _read(about, parameters, is_so=False)
        elif word == _WHILE:
            yield from (replace(need, lasts=True) for need in _read(about, parameters, is_so=is_so))
        elif word == NUMBER and is_so:
            yield from (_number(name, bounds, parameters) for name, bounds in _mapping(about).items())
        elif (fact := SWITCHED[word] if isinstance(word, bool) else word) in FACTS:
            each = about if isinstance(about, list) else [about]
            yield Need(fact, tuple(_about(one, parameters) for one in each), is_so)
        else:
            known = (*FACTS, _NOT, _WHILE, NUMBER)
            raise ValueError(
                f"'{shortened_line(str(word), 40)}' is nothing that can be needed; {did_you_mean(str(word), known)}"
            )


def _about(about: Any, parameters: Mapping[str, Any]) -> str:
    if not isinstance(about, str) or not about.strip():
        raise ValueError(
            f"{shortened_line(repr(about), 60)} is not a name; write a name, a word or a parameter in braces"
        )
    return check_template(about, tuple(parameters))


def _number(name: str, declared: Any, parameters: Mapping[str, Any]) -> Need:
    given = _mapping(declared)
    if name not in parameters:
        raise ValueError(f"number: '{name}' is not a parameter; {did_you_mean(str(name), parameters)}")
    for word in given:
        if word not in _BOUNDS:
            raise ValueError(f"number.{name}: '{word}' is not a bound; {did_you_mean(str(word), _BOUNDS)}")
    numbers = [given.get(word) for word in _BOUNDS[:2]]
    if numbers == [None, None] or not all(one is None or type(one) in (int, float) for one in numbers):
        raise ValueError(f"number.{name}: say at_least or at_most, such as {{at_most: 0.8}}")
    condition = given.get(_WHILE, "")
    if not isinstance(condition, str):
        raise ValueError(f"number.{name}.while: {condition!r} is not a condition; name one")
    limits = Limits(numbers[0], numbers[1], condition)
    return Need(NUMBER, (name,), lasts=bool(condition), limits=limits)


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{shortened_line(repr(value), 60)} says nothing; write it like {{at: counter}}")
    return value
