"""Reading what a model said: strict, but for the markup around it.

A reply is taken where it is one decision in full, perhaps after a thought; everything else is refused with a reason
that helps the next reply to be right. Neither what a skill does nor whether prose means it is ever guessed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence

from reactree_ros.agent.grammar import DecisionGrammar, Form, Grammar
from reactree_ros.agent.labels import label_of, shortened, undressed
from reactree_ros.agent.reading.reader import COURTESY, Reader, first_turn, object_in, own_words
from reactree_ros.agent.reading.skills import Skills, said_exactly
from reactree_ros.agent.turns import Said, Unreadable

__all__ = ["Unreadable", "own_words", "read", "read_call", "read_choice", "says_exactly", "whole_part"]

#: Longest reply that is read, in characters: many times what a decision takes.
LONGEST = 40_000
#: With one of these a line, a value in JSON or the mark of a turn ends; how far back one is looked for, in characters.
_ENDS, _REACH = re.compile(r"[\n}>\]]"), 48
#: A model that says the same so often in a row will say nothing else; its shortest and longest text, in characters.
_ROUNDS, _SHORTEST, _LONGEST = 4, 4, 200
#: So many words show who speaks in a line that has not ended.
_WORDS = 4


def read(text: str, grammar: Grammar, *, cut: bool = False) -> tuple[Said, ...]:
    """Read a reply, without the model's reasoning.

    Returns:
        The decision, with the words that stand for it in a prompt; a thought with the act or expansion after it is two.

    Raises:
        Unreadable: It is not one decision in full, or that may not be said; the message says why, in one line.
    """
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
    """Return whether a text is one decision in just the words or the schema of the grammar, and nothing else.

    For a text that may be something else, such as a thought: that one only mentions a decision does not count.
    """
    text = text.strip()
    if len(text) > LONGEST:
        return False
    if grammar.read_exactly(text, cut=False):
        return True
    try:
        return json.loads(text).keys() == {"decision"} and len(read(text, grammar)) == 1
    except (ValueError, AttributeError, RecursionError):
        return False


def read_call(calls: Iterable[tuple[str, str]], grammar: Grammar, *, text: str = "") -> tuple[Said, ...]:
    """Read the calls of tools that a model made, with the text around them; refused as by :func:`read`."""
    called = [{"name": name, "arguments": arguments} for name, arguments in calls]
    if grammar.form is Form.TOOLS and any(object_in(one["arguments"].strip()) is None for one in called):
        raise Unreadable(f"The arguments of a call are one object in JSON. {grammar.expected}.")
    _check_length("".join([text, *map(str, called)]))
    reader = Reader(grammar)
    parts = reader.parts_of(own_words(text, grammar), called)
    return reader.read([part for part in parts if part.kind is not None or part.text.endswith((":", "?"))])


def read_choice(text: str, options: Sequence[str], *, cut: bool = False) -> str:
    """Read which of some options was said, as a skill is read; refused if it is not clear which."""
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


def whole_part(text: str, grammar: Grammar) -> str:
    """Return how much of a reply so far is one decision, whatever follows; empty as long as it may become another one.

    An act is whole at the end of its line, an expansion only in just the words of the grammar: a list may go on in
    others. A thought never is, as an act may follow it, unless somebody else speaks after it. A decision that may not
    be said is whole once something else follows. Where no decision is begun, a reply that goes round in circles ends.
    """
    if _goes_round(text) and not any(part.decides for part in Reader(grammar).parts_of(text)):
        return text
    if not _ENDS.search(text[-_REACH:]):
        return ""
    lines = text.splitlines(keepends=True) if object_in(text.strip()) is None else [text, ""]
    shown = text if text.endswith("\n") or len(lines[-1].split()) > _WORDS else "".join(lines[:-1])
    own = own_words(shown, grammar)
    if lines[-1] and (first_turn(text)[1] or not shown.strip().endswith(own.strip())):
        return own
    refused = "", ""
    for words in itertools.accumulate(lines if text.endswith("\n") else lines[:-1]):
        if words.count("{") > words.count("}"):
            continue
        try:
            decision = read(words, grammar)[-1].decision
        except Unreadable as error:
            line = words.removeprefix(refused[0]).strip()
            if refused[1] == str(error) and error.decision is not None and line and not line.endswith(":"):
                return refused[0]
            refused = words, str(error)
            continue
        in_lines = decision is not None and decision.of_lines
        whole = grammar.read_exactly(words.strip(), cut=False) if in_lines else decision
        if whole and decision is not None and not decision.accompanies:
            return words
    return ""


def _goes_round(text: str) -> bool:
    ends = (text[-length:] for length in range(_SHORTEST, _LONGEST + 1))
    return any(map(str.isalpha, next((end for end in ends if text.endswith(end * _ROUNDS)), "")))


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise Unreadable(f"The reply is too long to be read ({len(text)} characters); say one decision, and no more.")
