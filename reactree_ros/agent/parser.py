"""The decision parser: from a reply's text to a decision, or to what is wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactree_ros.agent.decision import Decision
    from reactree_ros.agent.grammar import Grammar


class MalformedDecision(ValueError):
    """A reply that is no decision; the message says what is wrong, for the model and for people."""


def parse_decision(text: str, grammar: Grammar | None = None, *, keep_and: bool = False) -> Decision:
    """Read one decision. Raises MalformedDecision."""
    from reactree_ros.agent.grammar import DecisionGrammar, listed  # whose kinds are read with this module

    text = text.strip("\n")
    kinds = (grammar or DecisionGrammar(())).kinds
    word, colon, _ = text.partition(":")
    kind = next((kind for kind in kinds if colon and kind.word == word), None)
    if kind is None:
        openings = listed(kind.opening for kind in kinds)
        raise MalformedDecision(f"A decision starts with {openings}, not with {_start(text)}.")
    return kind.read_recorded(text, keep_and=keep_and)


def split_subgoals(line: str, *, keep_and: bool = False) -> tuple[str, ...]:
    """Split a subgoal line at ``, ``, or at ``;`` if there is one: then the subgoals may contain commas."""
    if keep_and:
        return tuple(subgoal for subgoal in line.split(", ") if subgoal)
    subgoals = [subgoal.strip() for subgoal in line.split(";" if ";" in line else ", ")]
    while subgoals and not subgoals[-1]:
        subgoals.pop()
    if subgoals:
        subgoals[-1] = re.sub(r"^and ", "", subgoals[-1]).rstrip(".")
    return tuple(subgoal for subgoal in subgoals if subgoal)


def _start(text: str) -> str:
    return repr(text[:40] + ("…" if len(text) > 40 else ""))
