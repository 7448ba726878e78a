"""A recorded run as an MCAP file for Foxglove, without ROS: its events, a log of them, and its pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import Judgement, verdict_of

#: Levels of Foxglove's log.
INFO, WARNING, ERROR = 2, 3, 4
_TEXT = {"type": "string"}
_TIME = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
#: Foxglove's schemas that are used here.
LOG, IMAGE = "foxglove.Log", "foxglove.CompressedImage"
_FIELDS: dict[str, dict[str, Any]] = {
    LOG: {
        "timestamp": _TIME,
        "level": {"type": "integer"},
        "message": _TEXT,
        "name": _TEXT,
        "file": _TEXT,
        "line": {"type": "integer"},
    },
    IMAGE: {
        "timestamp": _TIME,
        "frame_id": _TEXT,
        "data": {"type": "string", "contentEncoding": "base64"},
        "format": _TEXT,
    },
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
    begin = round(datetime.fromisoformat(events[0]["started"]).timestamp() * 1e9)
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
    """Yield the messages of an event: topic, schema, and content."""
    stamp = {"sec": time // 10**9, "nsec": time % 10**9}
    pictures = event.get("pictures", ()) if event["e"] == "observation" else ()
    by_reference = [{name: value for name, value in one.items() if name != "data"} for one in pictures]
    kept = event | {"pictures": by_reference} if pictures else event
    yield f"/record/{event['e']}", f"reactree_ros.{event['e']}", kept
    for picture in (one for one in pictures if "data" in one):
        form = picture["media"].removeprefix("image/")
        image = {"frame_id": picture.get("frame") or "camera", "data": picture["data"], "format": form}
        yield "/picture", IMAGE, {"timestamp": stamp, **image}
    for level, words in _log_lines(event):
        name = f"node {event['node']}" if "node" in event else "run"
        log = {"timestamp": stamp, "level": level, "message": words, "name": name, "file": "record", "line": number}
        yield "/log", LOG, log


def _log_lines(event: Event) -> Iterator[tuple[int, str]]:
    """Yield an event's lines in the log, with their level."""
    kind = event["e"]
    if kind == "run":
        yield INFO, event["instruction"]
    elif kind == "turn" and "said" in event:
        yield INFO, event["said"]
    elif kind == "observation":
        yield INFO, event["text"]
    elif kind == "refused":
        yield WARNING, f"refused: {event['reason']}"
    elif kind == "answer":
        yield INFO, f"a person answers: {event['text']}"
    elif kind == "heard":
        yield INFO, f"a person says: {event['text']}"
    elif kind == "held":
        yield WARNING, f"held: {event['reason']}" if event["reason"] else "it goes on"
    elif kind == "failed":
        yield ERROR, f"{event['of']}: {event['message']}"
    elif kind == "interrupted":
        yield WARNING, "interrupted"
    elif kind == "end":
        verdict = verdict_of(event["result"])
        yield (INFO if verdict.judgement is Judgement.REACHED else WARNING), str(verdict)
