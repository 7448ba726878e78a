"""The wordings of skills in routines, taken apart and put together; roles in braces may stand in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter

from reactree_ros.agent.parameters import Choice, ParameterError, Text, Value
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.wording import Wording
from reactree_ros.routine.model import Fact


def say(skill: Skill, values: Mapping[str, str]) -> str:
    """Return a skill's wording with values in its places; roles in braces may be in them.

    Raises ParameterError: a value may not stand in its place.
    """
    said: dict[str, Value] = {}
    places = dict(skill.parameters)
    for name, value in values.items():
        if has_role(value):
            said[name] = value
            if not isinstance(places[name], Text):
                places[name] = Choice((value,))  # a number would not be written in words
            continue
        try:
            said[name] = places[name].read(value)
        except ParameterError as error:
            raise ParameterError(f"{name}: {error}") from None
    return Wording(skill.wording, places).write(said)


def taken_apart(wording: str, skill: Skill) -> dict[str, str] | None:
    """Return the values that stand in a skill's places in a wording; None if the wording is another skill's."""
    values: dict[str, str] = {}
    pieces = [(literal, name) for literal, name, _, _ in Formatter().parse(skill.wording)]
    rest = wording
    for (literal, name), (after, _) in zip(pieces, [*pieces[1:], ("", None)], strict=True):
        if not rest.startswith(literal):
            return None
        rest = rest[len(literal) :]
        if name is not None:
            end = rest.find(after) if after else len(rest)
            quoted = isinstance(skill.parameters[name], Text) and rest.startswith('"')
            if quoted:  # its end is known, whatever is in it
                match = re.match(r'"(?:[^"\\]|\\.)*"', rest)
                end = match.end() if match else -1
            if end < 1:
                return None
            values[name] = re.sub(r"\\(.)", r"\1", rest[1 : end - 1]) if quoted else rest[:end]
            rest = rest[end:]
    try:
        return values if not rest and say(skill, values) == wording else None
    except ParameterError:
        return None


def has_role(text: str) -> bool:
    try:
        return any(name is not None for _, name, _, _ in Formatter().parse(text))
    except ValueError:
        return False


def effect_of(skill: Skill, values: Mapping[str, str]) -> tuple[Fact, ...]:
    """Return what holds after a skill, as it is declared."""
    return tuple(Fact(what, values[about]) for what, about in skill.effect.items() if values.get(about))
