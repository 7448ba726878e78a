"""Where a reply that is still being generated may end: at a decision that nothing after it makes another one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.reading.free_text import FreeText
from reactree_ros.agent.reading.labels import Mark
from reactree_ros.agent.reading.parts import Part, parts_of
from reactree_ros.agent.reading.reader import Reader
from reactree_ros.agent.reading.refusal import Unreadable
from reactree_ros.agent.reading.turn import is_over, own_words
from reactree_ros.agent.reading.values import object_of

#: With one of these a line, a value in JSON or the mark of a turn ends; how far back one is looked for, in characters.
_ENDS, _REACH = re.compile(r"[\n}>\]]"), 48
#: A model that says the same so often in a row will say nothing else; its shortest and longest text, in characters.
_ROUNDS, _SHORTEST, _LONGEST = 4, 4, 200
#: So many words show who speaks in a line that has not ended.
_WORDS = 4


def whole_part(text: str, grammar: Grammar) -> str:
    """Return how much of a reply so far is one decision, whatever follows; empty as long as it may become another one.

    An act is whole at the end of its line, an expansion only in just the words of the grammar: a list may go on in
    others. A thought never is, as an act may follow it, unless somebody else speaks after it. A decision that may not
    be said is whole once something else follows. Where no decision is begun, a reply that goes round in circles ends.
    """
    try:
        if _goes_round(text, grammar):
            return text
        return _whole_part(text, grammar) if _ENDS.search(text[-_REACH:]) else ""
    except Unreadable:
        return ""


def _goes_round(text: str, grammar: Grammar) -> bool:
    """Whether a text says the same again and again, and is no list of subgoals or skills."""
    ends = (text[-length:] for length in range(_SHORTEST, _LONGEST + 1))
    said = next((end for end in ends if text.endswith(end * _ROUNDS)), "")
    return any(map(str.isalpha, said)) and not any(part.decides for part in parts_of(text, grammar))


def _whole_part(text: str, grammar: Grammar) -> str:
    if object_of(text.strip()) is not None:
        return _decided([text], text, grammar)
    free = FreeText(text, grammar)
    if free.goes_on:
        return ""
    ended, last = free.words[: free.words.rfind("\n") + 1], free.words[free.words.rfind("\n") + 1 :]
    lines = [free.restored(line) for line in ended.splitlines(keepends=True)]
    ended, last = free.restored(ended), free.restored(last)
    shown = text if len(last.split()) > _WORDS else ended
    if is_over(text, shown, grammar):
        return own_words(shown, grammar)
    return _decided(lines, shown, grammar)


def _decided(lines: Sequence[str], shown: str, grammar: Grammar) -> str:
    """Return the first of the lines that are a decision; what is shown is these, and perhaps more."""
    more = parts_of(shown, grammar)
    if not any(part.decides for part in more):
        return ""
    for words in itertools.accumulate(lines):
        if words.count("{") > words.count("}"):
            continue
        if said := grammar.read_exactly(words.strip(), cut=False):
            if (decision := said[-1].decision) is not None and not decision.accompanies:
                return words
            continue
        parts = parts_of(words, grammar)
        at = next((number for number, part in enumerate(parts) if part.decides), None)
        if at is None or not parts[at].first or (parts[at].has_lines and not parts[at].whole):
            continue
        if _is_taken(parts, grammar) or _goes_on(more[at:]):
            return words
    return ""


def _is_taken(parts: Sequence[Part], grammar: Grammar) -> bool:
    try:
        return bool(Reader(grammar, cut=False).read(parts))
    except Unreadable:
        return False


def _goes_on(parts: Sequence[Part]) -> bool:
    """Whether something else was said after a decision, the first of the parts; its arguments are no such thing."""
    after = parts[1:2]
    if any(part.kind is Mark.ARGUMENT for part in after):
        return False
    return any(part.rest for part in parts[:1]) or any(part.text or part.kind for part in after)
