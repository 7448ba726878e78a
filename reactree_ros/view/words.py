"""The words that the terminal, the page and the exports share."""

from __future__ import annotations

import json

from reactree_ros.record.verdict import SCORES, Judgement

#: Of a behaviour's status: the mark that stands before it, and what it is called.
STATUSES = {
    "running": ("●", "running"),
    "success": ("✓", "success"),
    "claimed": (Judgement.CLAIMED.mark, "claimed, not checked"),
    "failure": ("✗", "failure"),
    "interrupted": ("◌", "interrupted"),
    "": ("○", "not reached"),
}
#: Of a control flow: its sign, and what it does with what is below it.
FLOWS = {
    "sequence": ("→", "one after the other, until one fails"),
    "fallback": ("?", "one after the other, until one succeeds"),
    "parallel": ("⇉", "each to its end; with several robots at the same time"),
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


def as_script() -> str:
    """Return the shared words as a module of the page."""
    shared = {"STATUSES": STATUSES, "FLOWS": FLOWS, "MARKS": MARKS, "COUNTS": COUNTS, "SCORES": SCORES}
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in shared.items())
