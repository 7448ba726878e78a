"""Whether what a model said is what may be said, whatever its engine was held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reactree_ros.agent.decision import Act, Expand
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.parser import MalformedDecision, parse_decision
from reactree_ros.llm.port import Choice, FreeText


class Objection(Exception):
    """What was said is not what may be said; the message says why, for the model."""


def checked(text: str, may_say: DecisionGrammar | Choice | FreeText, *, cut: bool) -> str:
    """Return a reply as it is taken.

    Args:
        text: What was said.
        may_say: What may be said.
        cut: Whether the token limit ended it.

    Raises:
        Objection: It is not what may be said.
    """
    if isinstance(may_say, Choice):
        return _one_of(text, may_say.options, cut)
    if isinstance(may_say, DecisionGrammar):
        return _decision(text, may_say, cut)
    return text


def of_json(read: Callable[[str], str], text: str) -> str:
    """Return what a reply in JSON stands for.

    Raises:
        Objection: It is not of the schema.
    """
    try:
        return read(text)
    except ValueError as error:
        raise Objection(str(error)) from error


def _decision(text: str, grammar: DecisionGrammar, cut: bool) -> str:
    """Check a decision; one that was cut is taken only as a thought."""
    try:
        decision = parse_decision(text)
    except MalformedDecision as error:
        raise Objection(str(error)) from error
    if isinstance(decision, Act):
        _one_of(decision.skill, grammar.skills, cut)
    elif isinstance(decision, Expand):
        if decision.control_flow not in grammar.control_flows:
            raise Objection(f"The control flow '{decision.control_flow.value}' is not allowed here.")
        if cut or not decision.subgoals:
            raise Objection("The list of subgoals is empty or was cut; name fewer and shorter ones.")
    return text.strip("\n")


def _one_of(text: str, options: Sequence[str], cut: bool) -> str:
    if text not in options:
        raise Objection(f"'{text[:80]}' is not among what is available now.")
    if cut and any(option != text and option.startswith(text) for option in options):
        raise Objection(f"'{text[:80]}' was cut.")
    return text
