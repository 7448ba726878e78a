"""The words that the terminal, the page and the exports share; and words of models and worlds, made fit to be shown."""

from __future__ import annotations

import json
from collections.abc import Mapping

from reactree_ros.agent.control_flow import known_flows
from reactree_ros.verdict import SCORES, Judgement

#: Of a behaviour's status: the mark that stands before it, and what it is called.
STATUSES = {
    "running": ("●", "running"),
    "success": ("✓", "success"),
    "claimed": (Judgement.CLAIMED.mark, "claimed, not checked"),
    "failure": ("✗", "failure"),
    "interrupted": ("◌", "interrupted"),
    "": ("○", "not reached"),
}
#: Of a mark on the time line: what it looks like, and what it stands for, once and several times.
MARKS = {
    "expansion": ("■", "expansion", "expansions"),
    "refusal": ("▲", "refusal", "refusals"),
    "failure": ("◆", "failure", "failures"),
    "hold": ("‖", "hold", "holds"),
    "person": ("●", "word of a person", "words of a person"),
}
#: What is counted of a run.
COUNTS = {"decisions": "decisions", "steps": "steps", "agent_nodes": "agent nodes"}


def flows() -> Mapping[str, tuple[str, str]]:
    """Return of each control flow, by name, its sign and what it does with what is below it."""
    return {flow.name: (flow.sign, flow.does) for flow in known_flows()}


def sign_of(kind: str) -> str:
    """Return the sign of a kind of behaviour; empty when it is no control flow."""
    return flows().get(kind, ("", ""))[0]


def as_script() -> str:
    """Return the shared words as a module of the page."""
    shared = {"STATUSES": STATUSES, "FLOWS": flows(), "MARKS": MARKS, "COUNTS": COUNTS, "SCORES": SCORES}
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in shared.items())


_KEPT = "\n\t"
#: What would turn the text around it; it is shown as its number.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """Return a text in which what a terminal or a browser obeys is a character to look at."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def in_one_line(text: str) -> str:
    """Return a text that can be shown, in one line."""
    return " ".join(visible(text).split())


def _shown(character: str) -> str:
    number = ord(character)
    if character in _KEPT:
        return character
    if number < 0x20:
        return chr(0x2400 + number)
    if number == 0x7F:
        return "\u2421"
    if character in _TURNING or 0x80 <= number < 0xA0:
        return f"<{number:04X}>"
    return "\ufffd" if 0xD800 <= number <= 0xDFFF or number in (0xFFFE, 0xFFFF) else character
