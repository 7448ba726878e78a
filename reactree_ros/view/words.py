"""Words that terminal, page and exports share; and safe display of words from models and worlds."""

from __future__ import annotations

import json

from reactree_ros.verdict import SCORES, Judgement

#: Mark and name of each status of a behaviour.
STATUSES = {
    "running": ("●", "running"),
    "success": ("✓", "success"),
    "claimed": (Judgement.CLAIMED.mark, "claimed, not checked"),
    "failure": ("✗", "failure"),
    "interrupted": ("◌", "interrupted"),
    "": ("○", "not reached"),
}
#: Sign and meaning of each control flow.
FLOWS = {
    "sequence": ("→", "one after the other, until one fails"),
    "fallback": ("?", "one after the other, until one succeeds"),
    "parallel": ("⇉", "each to its end; with several robots at the same time"),
}
#: Marks on the time line: sign, name for one, name for several.
MARKS = {
    "expansion": ("■", "expansion", "expansions"),
    "refusal": ("▲", "refusal", "refusals"),
    "failure": ("◆", "failure", "failures"),
    "hold": ("‖", "hold", "holds"),
    "person": ("●", "word of a person", "words of a person"),
}
#: Counts of a run.
COUNTS = {"decisions": "decisions", "steps": "steps", "agent_nodes": "agent nodes"}


def as_script() -> str:
    """Return the shared words as a module of the page."""
    shared = {"STATUSES": STATUSES, "FLOWS": FLOWS, "MARKS": MARKS, "COUNTS": COUNTS, "SCORES": SCORES}
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in shared.items())


_KEPT = "\n\t"
#: Characters that would reverse the text around them; shown as their numbers.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """Return a text in which control characters are visible characters."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def in_one_line(text: str) -> str:
    """Return a text as one safe line."""
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
