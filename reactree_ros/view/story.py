"""A recorded run as Markdown: the conversation of each goal node, in the order in which they started."""

from __future__ import annotations

import re
from typing import Any

from reactree_ros.agent.text import in_one_line, visible
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.record.moment import Moment, Node
from reactree_ros.record.schema import Event

_COUNTS = ("decisions", "steps", "agent_nodes", "max_depth", "seconds", "message")


def as_markdown(moment: Moment) -> str:
    """Write a run as Markdown."""
    lines = [f"# {_inline(moment.run['instruction'])}", ""]
    lines += _table({name: _named(moment.run[name]) for name in ("planner", "llm", "world")} | _counts(moment))
    for node in moment.goal_nodes:
        lines += _section(node, moment)
    return "\n".join(lines).rstrip("\n") + "\n"


def _counts(moment: Moment) -> dict[str, Any]:
    told = {"outcome": f"{moment.verdict.judgement.mark} {moment.verdict}"}
    if moment.result is None:
        return told | {"decisions": moment.decisions, "steps": moment.steps}
    return told | {name: moment.result[name] for name in _COUNTS if moment.result.get(name) not in (None, "")}


def _named(value: Event) -> str:
    return next((str(value[key]) for key in ("name", "llm", "suite") if key in value), "")


def _table(rows: dict[str, Any]) -> list[str]:
    cells = [f"| {name.replace('_', ' ')} | {_inline(value)} |" for name, value in rows.items() if value != ""]
    return ["| | |", "| --- | --- |", *cells, ""]


def _section(node: Node, moment: Moment) -> list[str]:
    lines = [f"## {(node.index or 0) + 1}. {_inline(node.name)}", ""]
    for number, turn in enumerate(node.turns):
        lines += _turn(turn)
        for picture in node.pictures.get(number, ()):
            lines += _picture(picture, moment)
    if not node.turns:  # it decides nothing: what it did are the skills below it
        below = (moment.nodes[number] for number in node.children)
        skills = [f"- {_inline(one.name)}: *{one.status or 'not reached'}*" for one in below if one.kind == "skill"]
        lines += [*skills, ""] if skills else []
    feedback = f": {_inline(node.feedback)}" if node.feedback else ""
    return [*lines, f"*{node.status or 'not reached'}*{feedback}", ""]


def _turn(turn: Turn) -> list[str]:
    if isinstance(turn, Told) and turn.about is About.REFUSAL:
        return [f"**Refused:** {_inline(turn.text)}", ""]
    if isinstance(turn, Told) and turn.about is About.PERSON:
        return ["**A person**", "", *_block(turn.text)]
    return [*(["**Decision**", ""] if isinstance(turn, Said) else []), *_block(turn.text)]


def _picture(picture: Event, moment: Moment) -> list[str]:
    """Return a picture as an image whose bytes are in the text; nothing if they are not in the record."""
    data = moment.pictures.get(picture["id"])
    return [] if data is None else [f"![a picture](data:{picture['media']};base64,{data})", ""]


def _block(text: str) -> list[str]:
    fence = "`" * max(3, _longest(text) + 1)
    return [fence, *visible(text).split("\n"), fence, ""]


def _inline(value: Any) -> str:
    """Return words as inline code, so that they contain no Markdown or HTML."""
    text = in_one_line(str(value)).replace("|", "¦")
    ticks = "`" * (_longest(text) + 1)
    padded = f" {text} " if text.startswith("`") or text.endswith("`") else text
    return f"{ticks}{padded}{ticks}" if text else ""


def _longest(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
