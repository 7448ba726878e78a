"""Reading what a model said: strict, but for the markup around it.

A reply is taken where it is one decision in full, perhaps after a thought; everything else is refused with a reason
that helps the next reply to be right. Neither what a skill does nor whether prose means it is ever guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.reading.labels import label_of, undressed
from reactree_ros.agent.reading.lines import own_words
from reactree_ros.agent.reading.reader import COURTESY, Reader
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.skills import Skills, said_exactly
from reactree_ros.agent.reading.whole import whole_part
from reactree_ros.agent.turns import Said

__all__ = ["Unreadable", "own_words", "read", "read_call", "read_choice", "says_exactly", "whole_part"]

#: Longest reply that is read, in characters: many times what a decision takes.
LONGEST = 40_000


def read(text: str, grammar: Grammar, *, cut: bool = False) -> tuple[Said, ...]:
    _check_length(text)
    if said := grammar.read_exactly(text.strip("\n"), cut=cut):
        return said
    words = own_words(text.replace("\r", ""), grammar)
    cut = cut and text.endswith(words)
    if said := grammar.read_exactly(words.strip(), cut=cut):
        return said
    reader = Reader(grammar, cut=cut)
    return reader.read(reader.parts_of(words))


def says_exactly(text: str, grammar: Grammar) -> bool:
    text = text.strip()
    if len(text) > LONGEST:
        return False
    if grammar.read_exactly(text, cut=False):
        return True
    try:
        return json.loads(text).keys() == {"decision"} and len(read(text, grammar)) == 1
    except (ValueError, AttributeError, RecursionError, Unreadable):
        return False


def read_call(calls: Iterable[tuple[str, str]], grammar: Grammar, *, text: str = "") -> tuple[Said, ...]:
    called = [{"name": name, "arguments": arguments} for name, arguments in calls]
    _check_length("".join([text, *map(str, called)]))
    reader = Reader(grammar)
    parts = reader.parts_of(own_words(text, grammar), called)
    return reader.read([part for part in parts if part.kind is not None or part.text.endswith((":", "?"))])


def read_choice(text: str, options: Sequence[str], *, cut: bool = False) -> str:
    grammar = DecisionGrammar(options, ())
    if said_exactly(text, grammar, cut) is not None:
        return text
    _check_length(text)
    lines = [line for line in map(undressed, own_words(text, grammar).split("\n")) if not COURTESY.fullmatch(line)]
    if len(lines) != 1:
        raise Unreadable(f"Say one of the options, and nothing else, not '{shortened(text, 40)}'.")
    label, skills = label_of(lines[0]), Skills(options)
    said = lines[0] if label is None else label.rest
    option = skills.find(said)
    if cut and skills.may_go_on(option, said):
        raise Unreadable(f"'{shortened(said)}' was cut. Say one of the options, and nothing else.")
    return option


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise Unreadable(f"The reply is too long to be read ({len(text)} characters); say one decision, and no more.")
