"""The page for watching and steering runs, and drawings of them, made only from their records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

from reactree_ros.agent.control_flow import known_flows
from reactree_ros.agent.decision import kinds
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
from reactree_ros.record.verdict import SCORES, Judgement


def check_installed() -> None:
    for module in ("starlette", "uvicorn"):
        if find_spec(module) is None:
            raise UserError(f"the page needs {module}: {install_line('reactree_ros[view]')}")


class Status(NamedTuple):
    mark: str
    name: str
    style: str  # in a terminal
    colour: str  # in a drawing


STATUSES = {
    "running": Status("●", "running", "blue", "#2563eb"),
    "success": Status("✓", "success", "green", "#15803d"),
    "claimed": Status(Judgement.CLAIMED.mark, "claimed, not checked", "cyan", "#0f6f86"),
    "partly": Status(Judgement.PARTLY.mark, "done in part", "magenta", "#8f5d8a"),
    "failure": Status("✗", "failure", "red", "#c2260c"),
    "interrupted": Status("◌", "interrupted", "yellow", "#a15c07"),
    "": Status("○", "not reached", "dim", "#8a8f98"),
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


def as_script() -> str:
    shared = {
        "STATUSES": STATUSES,
        "FLOWS": flows(),
        "MARKS": MARKS,
        "COUNTS": COUNTS,
        "SCORES": SCORES,
        "KINDS": {name: kind.look._asdict() for name, kind in kinds().items()},
    }
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in shared.items())
