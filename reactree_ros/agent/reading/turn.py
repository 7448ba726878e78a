"""Where a reply ends: at the end of the model's turn, or where it makes somebody else speak."""

from __future__ import annotations

import re

from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.reading.free_text import TURNS, FreeText
from reactree_ros.agent.reading.hedging import taken_back
from reactree_ros.agent.reading.labels import Mark, label_of
from reactree_ros.agent.reading.markup import bare
from reactree_ros.agent.reading.values import object_of, objects_in

_ROLE = re.compile(r"\s*(?:assistant|model)(?:<\|end_header_id\|>|\s*\n)")
#: How the world and people speak, and nobody else.
_OTHERS = re.compile(
    r"you (?!should|must|could|can|may|might|would|will|need|ought|want|know|say|said|ask|told|don't|didn't|do not do"
    r"|did|are (?:right|wrong|not|to|asking)|have to)\w+"
    r"|your task is\b|(?:user|human|system|environment|world|person|owner)\s?:",
    re.IGNORECASE,
)
_ACT = re.compile(r"\bact(?:ion)?(?:\s?\d{1,2})?:", re.IGNORECASE)
_OBSERVATION = re.compile(r"\sobservation(?:\s?\d{1,2})?:", re.IGNORECASE)


def own_words(text: str, grammar: Grammar) -> str:
    """Return what of a reply is the model's own: its turn, up to where it makes the world speak after a decision.

    The answer to a question that may be asked is not its own, either.
    """
    if object_of(text.strip()) is not None:
        return text
    free = FreeText(text, grammar)
    turn, _ = _first_turn(free.words)
    if (role := _ROLE.match(turn)) is not None:
        turn = turn[role.end() :]
    lines = turn.split("\n")
    over = [Mark.OBSERVATION]
    decided = False
    for number, line in enumerate(lines):
        label = label_of(line)
        kind = None if label is None else label.kind
        if decided and (kind in over or _is_of_others(bare(line))):
            return free.restored("\n".join(lines[:number]))
        if kind in grammar.kinds and not kind.leads:
            decided = True
            over += [] if kind.ends_reply is None else [kind.ends_reply]
        if decided and (act := _ACT.search(line)) and (others := _OBSERVATION.search(line, act.end())):
            return free.restored("\n".join([*lines[:number], line[: others.start()]]))
    return free.restored(turn)


def is_over(text: str, shown: str, grammar: Grammar) -> bool:
    """Return whether the model's own words have ended in a reply that goes on: somebody else speaks in it.

    Args:
        text: The reply so far.
        shown: What of it shows who speaks: its last line may not do so yet.
        grammar: What may be said.
    """
    _, over = _first_turn(FreeText(text, grammar).words)
    return over or not shown.strip().endswith(own_words(shown, grammar).strip())


def _first_turn(text: str) -> tuple[str, bool]:
    """Return the first turn that says something, and whether it has an end; none ends inside a value of JSON."""
    values = [span for span, _ in objects_in(text)]
    marks = (mark.span() for mark in TURNS.finditer(text))
    begin = 0
    for start, end in (mark for mark in marks if not any(first <= mark[0] < last for first, last in values)):
        if text[begin:start].strip():
            return text[begin:start], True
        begin = end
    return (text[begin:], False) if text[begin:].strip() else ("", False)


def _is_of_others(line: str) -> bool:
    return _OTHERS.match(line) is not None and not taken_back(line)
