"""Declared skills that are called with fields of JSON, as models call tools, put into words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import act_of
from reactree_ros.agent.reading.values import ARGUMENTS, NAMES, act_keys, key_in_json, object_of
from reactree_ros.agent.skill import Offer, SkillCall

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar


def worded(value: Any, grammar: Grammar) -> Any:
    if not grammar.offers:
        return value
    if isinstance(value, list):
        return [worded(one, grammar) for one in value]
    if not isinstance(value, Mapping):
        return value
    for called, arguments, rest in _calls_in(value, grammar.offers):
        return {**rest, "act": str(call_of(called, arguments))}
    return {key: worded(one, grammar) for key, one in value.items()}


def named_by(name: str, offers: Sequence[Offer]) -> list[Offer]:
    return [offer for offer in offers if offer.is_called(name)]


def call_of(called: Sequence[Offer], arguments: Any) -> SkillCall:
    reasons = []
    for offer in called:
        try:
            return offer.read(_fields(offer, arguments))
        except ParameterError as error:
            reasons.append(str(error))
    name = called[0].skill.verb
    raise Unreadable(f"'{name}' cannot be done now: {reasons[0]}.", act_of(name))


def _fields(offer: Offer, arguments: Any) -> Mapping[str, Any]:
    if isinstance(arguments, str) and (held := object_of(arguments)) is not None:
        arguments = held
    if isinstance(arguments, Mapping):
        return arguments
    names = list(offer.skill.parameters)
    if len(names) == 1:
        return {names[0]: arguments}
    if arguments in (None, "", []):
        return {}
    raise ParameterError(f"{shortened(str(arguments), 40)} has no names; say {', '.join(names) or 'nothing'} by name")


def _calls_in(
    value: Mapping[str, Any], offers: Sequence[Offer]
) -> Iterator[tuple[list[Offer], Any, Mapping[str, Any]]]:
    for key, one in value.items():
        if not isinstance(one, str) and (called := named_by(key, offers)):
            yield called, one, {name: other for name, other in value.items() if name != key}
    for key, one in value.items():
        if key_in_json(key) in (*NAMES, *act_keys()) and isinstance(one, str) and (called := named_by(one, offers)):
            rest = {name: other for name, other in value.items() if name != key}
            parameters = {name for offer in called for name in offer.skill.parameters}
            arguments = [name for name in rest if key_in_json(name) in ARGUMENTS and name not in parameters]
            if arguments:
                yield called, rest.pop(arguments[0]), rest
            beside = {name: rest.pop(name) for name in list(rest) if name in parameters}
            yield called, beside, rest
