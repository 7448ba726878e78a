"""Draws how a run's tree grew, as an SVG that moves: one frame for each decision of a record.

python docs/figures/growing.py RECORD.jsonl FILE.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from reactree_ros.agent.text import in_one_line
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import read_record
from reactree_ros.view.drawing import draw, places_in

#: Seconds of a frame, and of the last one.
EACH, LAST = 0.55, 4.0
WIDE, DEEP, LONGEST = 90, 60, 78


def frames(record: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the tree after each decision, where its nodes have their place at the end, and what was decided."""
    events = read_record(record).events
    moment, places = Moment(), places_in(Moment.after(events))
    for event in events:
        moment.apply(event)
        if "said" in event:
            yield draw(moment, places), in_one_line(event["said"])
    yield draw(moment, places), f"{moment.verdict}"


def growing(record: Path) -> str:
    """Return the picture."""
    places = places_in(Moment.after(read_record(record).events)).values()
    left, right = min(x for x, _ in places) - WIDE, max(x for x, _ in places) + WIDE
    height = max(y for _, y in places) + 2 * DEEP
    found = list(frames(record))
    whole = EACH * (len(found) - 1) + LAST
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:g} {-DEEP} {right - left:g} {height + DEEP:g}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" text-anchor="middle" role="img">',
        "<title>A behaviour tree that grows with each decision</title>",
        f'<rect x="{left:g}" y="{-DEEP}" width="{right - left:g}" height="{height + DEEP:g}" rx="12" fill="#ffffff"/>',
    ]
    for number, (drawn, said) in enumerate(found):
        begins, ends = EACH * number / whole, min(1.0, EACH * (number + 1) / whole)
        is_last = number == len(found) - 1
        times, values = ("0", "hidden") if number else ("0", "visible")
        if number:
            times, values = f"{times};{begins:.4f}", f"{values};visible"
        if not is_last:
            times, values = f"{times};{ends:.4f}", f"{values};hidden"
        words = escape(said if len(said) <= LONGEST else f"{said[:LONGEST]} …")
        parts += [
            f'<g visibility="{"visible" if is_last else "hidden"}">',
            f'<animate attributeName="visibility" values="{values}" keyTimes="{times}" dur="{whole:g}s" '
            'calcMode="discrete" repeatCount="indefinite"/>',
            *drawn,
            f'<text x="{(left + right) / 2:g}" y="{height - 18:g}" font-size="14" font-family="monospace" '
            f'fill="#1f2937">{words}</text>',
            "</g>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(growing(Path(sys.argv[1])), encoding="utf-8")
