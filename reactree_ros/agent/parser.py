"""The decision parser: from a reply's text to a decision, or to what is wrong with it."""

from __future__ import annotations

import re

from reactree_ros.agent.control_flow import flow_of
from reactree_ros.agent.decision import Act, Decision, Expand, Think

_EXPAND = re.compile(r"Expand:[ \t]*\n- control flow: (?P<flow>[^\n]*)\n- subgoals: (?P<subgoals>[^\n]*)\n?")


class MalformedDecision(ValueError):
    """A reply that is no decision; the message says what is wrong, for the model and for people."""


def parse_decision(text: str, *, keep_and: bool = False) -> Decision:
    """Read one decision.

    Args:
        text: What the model said: ``Think: …``, ``Act: …`` or the three lines of ``Expand:``.
        keep_and: Leave a final ``and `` in the last subgoal, as the recordings do.

    Raises:
        MalformedDecision: The text is no decision.
    """
    text = text.strip("\n")
    kind, colon, rest = text.partition(":")
    if not colon or kind not in ("Think", "Act", "Expand"):
        raise MalformedDecision(f"A decision starts with 'Think: ', 'Act: ' or 'Expand:', not with {_start(text)}.")
    if kind == "Expand":
        return _parse_expand(text, keep_and)
    rest = rest.strip()
    if not rest:
        raise MalformedDecision(f"Nothing follows '{kind}:'.")
    if "\n" in rest:
        raise MalformedDecision(f"'{kind}:' is followed by one line, not by {rest.count(chr(10)) + 1}.")
    return Think(rest) if kind == "Think" else Act(rest)


def _parse_expand(text: str, keep_and: bool) -> Expand:
    match = _EXPAND.fullmatch(text)
    if match is None:
        raise MalformedDecision(
            "'Expand:' is followed by exactly two lines: '- control flow: …' and '- subgoals: …, …'."
        )
    try:
        flow = flow_of(match["flow"].strip())
    except ValueError as error:
        raise MalformedDecision(f"C{str(error)[1:]}.") from error
    return Expand(flow, split_subgoals(match["subgoals"], keep_and=keep_and))


def split_subgoals(line: str, *, keep_and: bool = False) -> tuple[str, ...]:
    """Split a subgoal line at ``, ``, or at ``;`` where there is one: then the subgoals may contain commas.

    Args:
        line: What follows ``- subgoals: ``.
        keep_and: As the recordings do: split at ``, `` alone, and leave a final ``and `` in the last subgoal; otherwise
            it is dropped.
    """
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
