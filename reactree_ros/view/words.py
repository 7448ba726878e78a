"""The words that the terminal, the page and the exports share."""

from __future__ import annotations

import json

from reactree_ros.record.verdict import SCORES, Judgement

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
