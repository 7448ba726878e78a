"""The words that the terminal, the page and the exports share."""

from __future__ import annotations

import json
from collections.abc import Mapping

from reactree_ros.agent.control_flow import known_flows
from reactree_ros.agent.kinds import kinds
from reactree_ros.record.verdict import SCORES, Judgement

#: Mark and name of each status of a behaviour.
STATUSES = {
    "running": ("●", "running"),
    "success": ("✓", "success"),
    "claimed": (Judgement.CLAIMED.mark, "claimed, not checked"),
    "partly": (Judgement.PARTLY.mark, "done in part"),
    "failure": ("✗", "failure"),
    "interrupted": ("◌", "interrupted"),
    "": ("○", "not reached"),
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


def flows() -> Mapping[str, tuple[str, str]]:
    return {flow.name: (flow.sign, flow.summary) for flow in known_flows()}


def sign_of(kind: str) -> str:
    return flows().get(kind, ("", ""))[0]


def decisions() -> dict[str, dict[str, str]]:
    """Return the page's display of each kind of decision, by its field name in a record."""
    return {name: kind.look._asdict() for name, kind in kinds().items()}


def as_script() -> str:
    shared = {
        "STATUSES": STATUSES,
        "FLOWS": flows(),
        "MARKS": MARKS,
        "COUNTS": COUNTS,
        "SCORES": SCORES,
        "KINDS": decisions(),
    }
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in shared.items())
