"""Tells a conversation in one form: what its system text says of a reply, and what was said before, agree with it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from reactree_ros.agent.decision import OK, Decision, MalformedDecision
from reactree_ros.agent.grammar import DecisionGrammar, Form, Grammar, parse_decision
from reactree_ros.agent.prompt import ONE_DECISION
from reactree_ros.agent.turns import About, Said, Told, ToldStart, Turn

#: What a refusal quotes of lines: their words, and the marks of a list.
_OF_LINES = re.compile(r"'(?:- |[A-Z]\w+:)")


def in_form(turns: Sequence[Turn], grammar: Grammar) -> tuple[Turn, ...]:
    """Return turns in the form of a grammar. What was said and taken for no decision is left out of all but lines."""
    if grammar.form is Form.LINES or not isinstance(grammar, DecisionGrammar):
        return tuple(turns)
    told: list[Turn] = []
    for turn in turns:
        if isinstance(turn, ToldStart):
            told.append(_start(turn, grammar.form, f"{ONE_DECISION} {grammar.steady.expected}." if turn.rule else ""))
        elif not isinstance(turn, Said):
            told.append(turn)
        elif (said := _said(turn, grammar.form)) is not None:
            # One message is one decision; a thought with the act after it was two.
            told += [Told(OK, About.ANSWER), said] if told and isinstance(told[-1], Said) else [said]
    return tuple(told)


def objection_in(reason: str, grammar: Grammar) -> str:
    """Return why a reply was refused, in no words of another form."""
    in_lines = grammar.form is not Form.LINES and _OF_LINES.search(reason)
    return f"What was said cannot be read. {grammar.expected}." if in_lines else reason


@lru_cache(maxsize=64)  # each request of a node has it
def _start(start: ToldStart, form: Form, rule: str) -> ToldStart:
    """Return a start with rule and examples in a form; the calls of an example are told in words: nobody made them."""

    def shown(turn: Turn) -> Turn | None:
        if not isinstance(turn, Said) or (said := _said(turn, form)) is None or said.decision is None:
            return None if isinstance(turn, Said) else turn
        return Said(f"You call {said.decision.name} with {said.text}") if form is Form.TOOLS else said

    system = "\n".join(filter(None, (start.system, rule)))
    examples = ([one for turn in example if (one := shown(turn)) is not None] for example in start.examples)
    return ToldStart(system=system, examples=tuple(map(tuple, examples)))


def _said(said: Said, form: Form) -> Said | None:
    # Examples and messages hold the words alone.
    if (decision := said.decision or _decision(said.text)) is None:
        return None
    value = decision.called if form is Form.TOOLS else {"decision": {decision.word: decision.value}}
    return Said(json.dumps(value, ensure_ascii=False), decision)


@lru_cache(maxsize=4096)
def _decision(text: str) -> Decision | None:
    try:
        return parse_decision(text)
    except MalformedDecision:
        return None
