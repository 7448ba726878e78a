"""A recorded run as the log file of BehaviorTree.CPP 4 (``.btlog``), which Groot2 replays.

The file has one tree: the one that the run had come to. What grew later is idle until then.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import datetime

from reactree_ros.agent.text import in_one_line
from reactree_ros.errors import UserError
from reactree_ros.files.xml import Element, as_xml
from reactree_ros.record.moment import Moment, Node
from reactree_ros.record.schema import Event

#: How the file begins: what it is, and the version of its format.
MAGIC = b"BTCPP4-FileLogger2\x01"
#: The most behaviours that it can number, from 1.
MOST = 2**16 - 1
#: Its number for each status of a behaviour; 0: idle.
_STATUSES = {"running": 1, "success": 2, "failure": 3}
#: The nodes of BehaviorTree.CPP that draw these kinds; another kind has its own name.
_TAGS = {"sequence": "Sequence", "fallback": "Fallback", "parallel": "ParallelAll"}


def as_btlog(events: Sequence[Event]) -> bytes:
    """Write a run as a log file of BehaviorTree.CPP 4."""
    moment = Moment.after(events)
    if len(moment.nodes) > MOST:
        raise UserError(f"a .btlog has at most {MOST:,} nodes, and this run has {len(moment.nodes):,}; export mcap")
    xml = as_xml(_file(moment)).encode()
    begun = round(datetime.fromisoformat(events[0]["started"]).timestamp() * 1e6)
    header = MAGIC + struct.pack("<i", len(xml)) + xml + struct.pack("<q", begun)
    return header + b"".join(_changes(events))


def _changes(events: Sequence[Event]) -> list[bytes]:
    """Return what changed, each in 9 bytes: microseconds since the start (6), the node (2), its status (1)."""
    return [
        struct.pack("<Q", round(event["t"] * 1e6))[:6] + struct.pack("<HB", number + 1, _STATUSES.get(status, 0))
        for event in events
        if event["e"] == "status"
        for number, status, *_ in event["of"]
    ]


def _file(moment: Moment) -> Element:
    kinds = {_kind_and_tag(node) for node in moment.nodes.values()} - {("Control", tag) for tag in _TAGS.values()}
    models = tuple(Element(kind, {"ID": tag}) for kind, tag in sorted(kinds))
    tree = Element("BehaviorTree", {"ID": "run", "_fullpath": ""}, children=_elements(moment))
    return Element("root", {"BTCPP_format": "4"}, children=(tree, Element("TreeNodesModel", children=models)))


def _elements(moment: Moment) -> tuple[Element, ...]:
    """Return the root's element; the deepest are made first, as a tree may be very deep."""
    made: dict[int, Element] = {}
    for number in sorted(moment.nodes, reverse=True):  # each has a higher number than the one above it
        node = moment.nodes[number]
        named: Mapping[str, str] = {"name": in_one_line(node.name), "_uid": str(number + 1)}
        made[number] = Element(_kind_and_tag(node)[1], named, children=tuple(made[child] for child in node.children))
    return (made[0],) if made else ()


def _kind_and_tag(node: Node) -> tuple[str, str]:
    """Return what a behaviour is for BehaviorTree.CPP; what has others below it is no action there."""
    tag = _TAGS.get(node.kind) or "".join(part.capitalize() for part in node.kind.split("_"))
    return ("Control", tag if node.kind in _TAGS else f"{tag}Node") if node.children else ("Action", tag)
