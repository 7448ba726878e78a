"""Exports of a record: a drawing of the tree (SVG, PNG, dot, growing), the run as Markdown, MCAP or a Groot2 log."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from reactree_ros.agent.text import in_one_line, visible
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.errors import UserError
from reactree_ros.files.whole_file import whole_folder, write_whole
from reactree_ros.files.xml import Element, as_xml
from reactree_ros.plugins.installation import install_line
from reactree_ros.record.moment import Moment, Node
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import Judgement, verdict_of
from reactree_ros.view.drawing import as_dot, as_png, as_svg
from reactree_ros.view.growing import as_growing_svg


@dataclass(frozen=True)
class Export:
    suffix: str
    media_type: str
    make: Callable[[Sequence[Event]], str | bytes]


def export(record: Record, kind: str, at: int | None = None) -> bytes:
    events = record.events if at is None else record.events[: at + 1]
    content = EXPORTS[kind].make(events)
    return content if isinstance(content, bytes) else content.encode()


def write_exports(records: Sequence[Record], kind: str, out: Path) -> None:
    """Export runs: one into a file, several into a folder, each with a number and the name of its record."""
    if len(records) == 1:
        write_whole(out, export(records[0], kind))
        return
    with whole_folder(out) as folder:
        for number, record in enumerate(records, 1):
            name = Path(record.name).stem
            (folder / f"{number:04}_{name}.{EXPORTS[kind].suffix}").write_bytes(export(record, kind))


def _started(events: Sequence[Event]) -> float:
    return datetime.fromisoformat(events[0]["started"]).timestamp()


# ---------------------------------------------------------------------- Markdown

_COUNTS = ("decisions", "steps", "agent_nodes", "max_depth", "seconds", "message")


def as_markdown(moment: Moment) -> str:
    named = ("name", "llm", "suite")
    rows: dict[str, Any] = {
        what: next((str(moment.run[what][key]) for key in named if key in moment.run[what]), "")
        for what in ("planner", "llm", "world")
    }
    rows["outcome"] = f"{moment.verdict.judgement.mark} {moment.verdict}"
    if moment.result is None:
        rows |= {"decisions": moment.decisions, "steps": moment.steps}
    else:
        rows |= {name: moment.result[name] for name in _COUNTS if moment.result.get(name) is not None}
    lines = [f"# {_inline(moment.run['instruction'])}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name.replace('_', ' ')} | {_inline(value)} |" for name, value in rows.items() if value != ""]
    for node in moment.goal_nodes:
        lines += ["", *_section(node, moment)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(node: Node, moment: Moment) -> list[str]:
    lines = [f"## {(node.index or 0) + 1}. {_inline(node.name)}", ""]
    for number, turn in enumerate(node.turns):
        lines += _turn(turn)
        for picture in node.pictures.get(number, ()):
            if (data := moment.pictures.get(picture["id"])) is not None:
                lines += [f"![a picture](data:{picture['media']};base64,{data})", ""]
    if not node.turns:  # it decides nothing: what it did are the skills below it
        below = (moment.nodes[number] for number in node.children)
        skills = [f"- {_inline(one.name)}: *{one.status or 'not reached'}*" for one in below if one.kind == "skill"]
        lines += [*skills, ""] if skills else []
    feedback = f": {_inline(node.feedback)}" if node.feedback else ""
    return [*lines, f"*{node.status or 'not reached'}*{feedback}"]


def _turn(turn: Turn) -> list[str]:
    about = turn.about if isinstance(turn, Told) else None
    if about is About.REFUSAL:
        return [f"**Refused:** {_inline(turn.text)}", ""]
    title = "**A person**" if about is About.PERSON else "**Decision**" if isinstance(turn, Said) else ""
    fence = "`" * max(3, _most_ticks(turn.text) + 1)
    return [*([title, ""] if title else []), fence, *visible(turn.text).split("\n"), fence, ""]


def _inline(value: Any) -> str:
    # words as inline code, so that they contain no Markdown or HTML
    text = in_one_line(str(value)).replace("|", "¦")
    ticks = "`" * (_most_ticks(text) + 1)
    padded = f" {text} " if text.startswith("`") or text.endswith("`") else text
    return f"{ticks}{padded}{ticks}" if text else ""


def _most_ticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


# ---------------------------------------------------------------------- MCAP, for Foxglove

#: Levels of Foxglove's log.
INFO, WARNING, ERROR = 2, 3, 4
#: Foxglove's schemas that are used here.
LOG, IMAGE = "foxglove.Log", "foxglove.CompressedImage"
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_TIME = {"timestamp": {"type": "object", "properties": {"sec": _NUMBER, "nsec": _NUMBER}}}
_DATA = {"type": "string", "contentEncoding": "base64"}
_FIELDS: dict[str, dict[str, Any]] = {
    LOG: {**_TIME, "level": _NUMBER, "message": _TEXT, "name": _TEXT, "file": _TEXT, "line": _NUMBER},
    IMAGE: {**_TIME, "frame_id": _TEXT, "data": _DATA, "format": _TEXT},
}


def as_mcap(events: Sequence[Event]) -> bytes:
    """Write a run as MCAP: each kind of event on ``/record/KIND``, a readable log on ``/log``, and ``/picture``."""
    try:
        from mcap.writer import Writer
    except ImportError as error:
        raise UserError(f"an MCAP file needs mcap: {install_line('reactree_ros[view]')}") from error
    file = io.BytesIO()
    writer = Writer(file)
    writer.start()
    channels: dict[str, int] = {}
    begin = round(_started(events) * 1e9)
    for number, event in enumerate(events):
        time = begin + round(event["t"] * 1e9)
        for topic, schema, value in _messages(event, number, time):
            if topic not in channels:
                fields = {"type": "object", "title": schema, "properties": _FIELDS.get(schema, {})}
                known = writer.register_schema(schema, "jsonschema", json.dumps(fields).encode())
                channels[topic] = writer.register_channel(topic, "json", known)
            writer.add_message(channels[topic], time, json.dumps(value).encode(), time, number)
    writer.finish()
    return file.getvalue()


def _messages(event: Event, number: int, time: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    # topic, schema, and content
    stamp = {"sec": time // 10**9, "nsec": time % 10**9}
    pictures = event.get("pictures", ()) if event["e"] == "observation" else ()
    by_reference = [{name: value for name, value in one.items() if name != "data"} for one in pictures]
    kept = event | {"pictures": by_reference} if pictures else event
    yield f"/record/{event['e']}", f"reactree_ros.{event['e']}", kept
    for picture in pictures:
        if "data" in picture:
            form, frame = picture["media"].removeprefix("image/"), picture.get("frame") or "camera"
            yield "/picture", IMAGE, {"timestamp": stamp, "frame_id": frame, "data": picture["data"], "format": form}
    if (line := _log_line(event)) is not None:
        level, words = line
        name = f"node {event['node']}" if "node" in event else "run"
        log = {"timestamp": stamp, "level": level, "message": words, "name": name, "file": "record", "line": number}
        yield "/log", LOG, log


def _log_line(event: Event) -> tuple[int, str] | None:
    match event:
        case {"e": "run", "instruction": words} | {"e": "turn", "said": words} | {"e": "observation", "text": words}:
            return INFO, words
        case {"e": "refused", "reason": reason}:
            return WARNING, f"refused: {reason}"
        case {"e": "answer", "text": words}:
            return INFO, f"a person answers: {words}"
        case {"e": "heard", "text": words}:
            return INFO, f"a person says: {words}"
        case {"e": "held", "reason": reason}:
            return WARNING, f"held: {reason}" if reason else "it goes on"
        case {"e": "failed", "of": what, "message": words}:
            return ERROR, f"{what}: {words}"
        case {"e": "interrupted"}:
            return WARNING, "interrupted"
        case {"e": "end", "result": result}:
            verdict = verdict_of(result)
            return INFO if verdict.judgement is Judgement.REACHED else WARNING, str(verdict)
    return None


# ---------------------------------------------------------------------- the log of BehaviorTree.CPP 4, for Groot2

#: How the file begins: what it is, and the version of its format.
MAGIC = b"BTCPP4-FileLogger2\x01"
#: The most behaviours that it can number, from 1.
MOST = 2**16 - 1
#: Its number for each status of a behaviour; 0: idle.
_STATUSES = {"running": 1, "success": 2, "failure": 3}
#: The nodes of BehaviorTree.CPP that draw these kinds; another kind has its own name.
_TAGS = {"sequence": "Sequence", "fallback": "Fallback", "parallel": "ParallelAll"}


def as_btlog(events: Sequence[Event]) -> bytes:
    """Write a run as a log file of BehaviorTree.CPP 4 (``.btlog``).

    The file has one tree: the one that the run had come to. What grew later is idle until then. Each change has 9
    bytes: microseconds since the start (6), the node (2), its status (1).
    """
    moment = Moment.after(events)
    if len(moment.nodes) > MOST:
        raise UserError(f"a .btlog has at most {MOST:,} nodes, and this run has {len(moment.nodes):,}; export mcap")
    xml = as_xml(_tree(moment)).encode()
    changes = [
        struct.pack("<Q", round(event["t"] * 1e6))[:6] + struct.pack("<HB", number + 1, _STATUSES.get(status, 0))
        for event in events
        if event["e"] == "status"
        for number, status, *_ in event["of"]
    ]
    begun = struct.pack("<q", round(_started(events) * 1e6))
    return b"".join([MAGIC, struct.pack("<i", len(xml)), xml, begun, *changes])


def _tree(moment: Moment) -> Element:
    kinds = {_kind_and_tag(node) for node in moment.nodes.values()} - {("Control", tag) for tag in _TAGS.values()}
    models = tuple(Element(kind, {"ID": tag}) for kind, tag in sorted(kinds))
    made: dict[int, Element] = {}
    for number in sorted(moment.nodes, reverse=True):  # the deepest first, as a tree may be very deep
        node = moment.nodes[number]
        named: Mapping[str, str] = {"name": in_one_line(node.name), "_uid": str(number + 1)}
        made[number] = Element(_kind_and_tag(node)[1], named, children=tuple(made[child] for child in node.children))
    tree = Element("BehaviorTree", {"ID": "run", "_fullpath": ""}, children=(made[0],) if made else ())
    return Element("root", {"BTCPP_format": "4"}, children=(tree, Element("TreeNodesModel", children=models)))


def _kind_and_tag(node: Node) -> tuple[str, str]:
    # what has others below it is not an action for BehaviorTree.CPP
    tag = _TAGS.get(node.kind) or "".join(part.capitalize() for part in node.kind.split("_"))
    return ("Control", tag if node.kind in _TAGS else f"{tag}Node") if node.children else ("Action", tag)


EXPORTS = {
    "svg": Export("svg", "image/svg+xml", lambda events: as_svg(Moment.after(events))),
    "growing": Export("svg", "image/svg+xml", as_growing_svg),
    "png": Export("png", "image/png", lambda events: as_png(Moment.after(events))),
    "dot": Export("dot", "text/vnd.graphviz", lambda events: as_dot(Moment.after(events))),
    "markdown": Export("md", "text/markdown", lambda events: as_markdown(Moment.after(events))),
    "mcap": Export("mcap", "application/octet-stream", as_mcap),
    "btlog": Export("btlog", "application/octet-stream", as_btlog),
}
