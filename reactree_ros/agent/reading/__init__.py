"""Reading what a model said: leniently in form, strictly in meaning.

A reading is taken only where exactly one decision can be meant; everything else is refused with a reason that helps
the next reply to be right. What a skill does is never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from reactree_ros.agent.decision import Act, Ask, Think
from reactree_ros.agent.grammar import DecisionGrammar, Grammar, SubgoalGrammar
from reactree_ros.agent.reading.expansions import expansion_in_plain_words
from reactree_ros.agent.reading.labels import inline_label
from reactree_ros.agent.reading.parts import parts_of
from reactree_ros.agent.reading.reader import Reader, begin_subgoal
from reactree_ros.agent.reading.refusal import Unreadable
from reactree_ros.agent.reading.skills import Skills
from reactree_ros.agent.reading.turn import own_words
from reactree_ros.agent.turns import Said

__all__ = ["Unreadable", "own_words", "read", "read_call", "read_choice", "says_exactly"]

#: Longest reply that is read, in characters: many times what a decision takes.
LONGEST = 40_000
_SUBGOAL = re.compile(r"(?:(?P<number>\d+) Subgoal: (?P<subgoal>\S(?:[^\n<]*\S)?)\n)?Action: (?P<action>[^\n]+)")


def read(text: str, grammar: Grammar, *, cut: bool = False) -> tuple[Said, ...]:
    """Read a reply.

    Args:
        text: What the model said, without its reasoning.
        grammar: What may be said.
        cut: Whether the token limit ended it.

    Returns:
        The decision, with the words that stand for it in a prompt; a thought with the act or expansion after it is two.

    Raises:
        Unreadable: Not exactly one decision can be meant, or it may not be said; the message says why, in one line.
    """
    _check_length(text)
    if said := _as_the_grammar_has_it(text.strip("\n"), grammar, cut):
        return said
    words = own_words(text, asks=_asks(grammar))
    cut = cut and text.endswith(words)
    reader = Reader(grammar, cut=cut)
    return _as_the_grammar_has_it(words.strip(), grammar, cut) or reader.read(
        parts_of(words, reader.kinds, (), grammar.offers)
    )


def says_exactly(text: str, grammar: Grammar) -> bool:
    """Return whether a text is one decision in just the words or the schema of the grammar, and nothing else.

    For a text that may be something else, such as a thought: that one only mentions a decision does not count.
    """
    text = text.strip()
    if len(text) > LONGEST:
        return False
    if _as_the_grammar_has_it(text, grammar, cut=False):
        return True
    try:
        return json.loads(text).keys() == {"decision"} and len(read(text, grammar)) == 1
    except (ValueError, AttributeError, RecursionError, Unreadable):
        return False


def read_call(calls: Iterable[tuple[str, str]], grammar: Grammar, *, text: str = "") -> tuple[Said, ...]:
    """Read the calls of tools that a model made instead of saying something.

    Args:
        calls: Names with arguments in JSON.
        grammar: What may be said.
        text: What was said beside.

    Raises:
        Unreadable: As :func:`read`.
    """
    called = [{"name": name, "arguments": arguments} for name, arguments in calls]
    _check_length("".join([text, *map(str, called)]))
    reader = Reader(grammar, cut=False)
    return reader.read(parts_of(own_words(text, asks=_asks(grammar)), reader.kinds, called, grammar.offers))


def read_choice(text: str, options: Sequence[str], *, cut: bool = False) -> str:
    """Read which of some options was said, as a skill is read.

    Raises:
        Unreadable: None of them is, or it cannot be told which.
    """
    grammar = DecisionGrammar(options, ())
    if _may_be_said(text, grammar, cut):
        return text
    _check_length(text)
    reader = Reader(grammar, cut=cut, chooses=True)
    decision = reader.read(parts_of(own_words(text), reader.kinds))[-1].decision
    assert isinstance(decision, Act)  # nothing else may be said
    return decision.skill


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise Unreadable(f"The reply is too long to be read ({len(text)} characters); say one decision, and no more.")


def _as_the_grammar_has_it(text: str, grammar: Grammar, cut: bool) -> tuple[Said, ...]:
    """Return a decision in just the words of the grammar; nothing where it is in others, or is not allowed."""
    if isinstance(grammar, SubgoalGrammar):
        return _subgoal_as_the_grammar_has_it(text, grammar, cut)
    assert isinstance(grammar, DecisionGrammar)  # the two there are
    if text.startswith("Act: "):
        skill = text[len("Act: ") :]
        meant = _may_be_said(skill, grammar, cut)
        return () if meant is None else (Said(text, Act(meant)),)
    if text.startswith("Expand:"):
        expand = None if cut else expansion_in_plain_words(text, grammar.control_flows)
        return (Said(text, expand),) if expand is not None else ()
    kind, _, line = text.partition(": ")
    if not line or line != line.strip() or "<" in text or len(text.splitlines()) != 1:
        return ()
    if inline_label(text, asks=_asks(grammar)) is not None:
        return ()
    if kind == "Think":
        return (Said(text, Think(line)),)
    return (Said(text, Ask(line)),) if kind == "Ask" and grammar.questions and not cut else ()


def _asks(grammar: Grammar) -> bool:
    """Whether a person can be asked, though perhaps no more."""
    return isinstance(grammar, DecisionGrammar) and grammar.questions is not None


def _subgoal_as_the_grammar_has_it(text: str, grammar: SubgoalGrammar, cut: bool) -> tuple[Said, ...]:
    said = _SUBGOAL.fullmatch(text)
    if said is None or (action := _may_be_said(said["action"], grammar, cut)) is None:
        return ()
    if not (grammar.goes_on if said["subgoal"] is None else grammar.begins):
        return ()
    begun = (begin_subgoal(grammar, said["subgoal"]),) if said["subgoal"] is not None else ()
    return (*begun, Said(f"Action: {said['action']}", Act(action)))


def _may_be_said(skill: str, grammar: Grammar, cut: bool) -> str | None:
    """Return a skill that is said in just the words of the grammar; None if it is not, or may have been cut."""
    skills = Skills.of(grammar)
    meant = skills.exactly(skill)
    return None if meant is None or (cut and skills.may_go_on(meant)) else meant
