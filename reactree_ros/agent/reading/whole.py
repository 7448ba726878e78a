"""Where a reply that is still being generated may end: at a decision that nothing after it makes another one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.reading.lines import Part, first_turn, own_words
from reactree_ros.agent.reading.reader import Reader
from reactree_ros.agent.reading.refusal import Unreadable
from reactree_ros.agent.reading.values import object_of

#: With one of these a line, a value in JSON or the mark of a turn ends; how far back one is looked for, in characters.
_ENDS, _REACH = re.compile(r"[\n}>\]]"), 48
#: A model that says the same so often in a row will say nothing else; its shortest and longest text, in characters.
_ROUNDS, _SHORTEST, _LONGEST = 4, 4, 200
#: So many words show who speaks in a line that has not ended.
_WORDS = 4


def whole_part(text: str, grammar: Grammar) -> str:
    reader = Reader(grammar)
    try:
        if _goes_round(text, reader):
            return text
        return _whole_part(text, reader) if _ENDS.search(text[-_REACH:]) else ""
    except Unreadable:
        return ""


def _goes_round(text: str, reader: Reader) -> bool:
    ends = (text[-length:] for length in range(_SHORTEST, _LONGEST + 1))
    said = next((end for end in ends if text.endswith(end * _ROUNDS)), "")
    return any(map(str.isalpha, said)) and not any(part.decides for part in reader.parts_of(text))


def _whole_part(text: str, reader: Reader) -> str:
    if object_of(text.strip()) is not None:
        return _decided([text], text, reader)
    lines = text.splitlines(keepends=True)
    last = "" if text.endswith("\n") else lines.pop()
    shown = text if len(last.split()) > _WORDS else text.removesuffix(last)
    own = own_words(shown, reader.grammar)
    if first_turn(text)[1] or not shown.strip().endswith(own.strip()):
        return own
    return _decided(lines, shown, reader)


def _decided(lines: Sequence[str], shown: str, reader: Reader) -> str:
    more = reader.parts_of(shown)
    if not any(part.decides for part in more):
        return ""
    in_json = shown.count("{") > shown.count("}")
    for words in itertools.accumulate(lines):
        if words.count("{") > words.count("}"):
            continue
        if said := reader.grammar.read_exactly(words.strip(), cut=False):
            if (decision := said[-1].decision) is not None and not decision.accompanies:
                return words
            continue
        parts = reader.parts_of(words)
        at = next((number for number, part in enumerate(parts) if part.decides), None)
        if at is None or not parts[at].text or (not parts[at].whole and parts[at].has_lines):
            continue
        if _is_taken(parts, reader) or (not in_json and any(part.text or part.kind for part in more[at + 1 :])):
            return words
    return ""


def _is_taken(parts: Sequence[Part], reader: Reader) -> bool:
    try:
        return bool(reader.read(parts))
    except Unreadable:
        return False
