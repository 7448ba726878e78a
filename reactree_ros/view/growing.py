"""A run as an SVG that moves: how its tree grew, with what was decided as the caption of each frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from reactree_ros.agent.text import in_one_line
from reactree_ros.record.moment import Moment
from reactree_ros.record.schema import Event
from reactree_ros.view.drawing import draw, places_in

#: Seconds of a frame, of all of them at most, and of the last one.
EACH, ALL, LAST = 0.55, 90.0, 4.0
WIDE, DEEP, LONGEST = 90, 60, 78
#: Width that the longest caption needs, at its smallest.
NARROWEST = 720


def as_growing_svg(events: Sequence[Event]) -> str:
    """Draw a frame for each decision, and the verdict; what stays the same from frame to frame is drawn once."""
    places = places_in(Moment.after(events))  # nodes have their place at the end from the beginning on
    across = [x for x, _ in places.values()] or [0.0]
    middle = (min(across) + max(across)) / 2
    half = max((max(across) - min(across)) / 2 + WIDE, NARROWEST / 2)
    left, right = middle - half, middle + half
    size = 14 * 2 * half / NARROWEST if half > NARROWEST else 14.0  # a caption that a wide tree does not make small
    height = max((y for _, y in places.values()), default=0.0) + DEEP + 4 * size
    caption = f'<text x="{middle:g}" y="{height - size:g}" font-size="{size:g}" font-family="monospace" '
    shown: dict[str, list[int]] = {}  # what is drawn, and in which frames
    last = -1
    for last, (drawn, said) in enumerate(_frames(events, places)):
        words = said if len(said) <= LONGEST else f"{said[:LONGEST]} …"
        for part in (*drawn, f'{caption}fill="#1f2937">{escape(words)}</text>'):
            shown.setdefault(part, []).append(last)
    each = min(EACH, ALL / max(1, last))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:g} {-DEEP} {right - left:g} {height + DEEP:g}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" text-anchor="middle" role="img">',
        f"<title>{escape(in_one_line(events[0]['instruction']))}</title>",
        f'<rect x="{left:g}" y="{-DEEP}" width="{right - left:g}" height="{height + DEEP:g}" rx="12" fill="#ffffff"/>',
    ]
    for part, frames in sorted(shown.items(), key=lambda one: not one[0].startswith("<path")):  # nodes over the edges
        parts += _timed(part, frames, last, each)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _frames(events: Sequence[Event], places: dict[int, tuple[float, float]]) -> Iterator[tuple[list[str], str]]:
    moment = Moment()
    for event in events:
        moment.apply(event)
        if event["e"] == "turn" and "said" in event:
            yield draw(moment, places), in_one_line(event["said"])
    yield draw(moment, places), in_one_line(f"{moment.verdict}")


def _timed(part: str, frames: Sequence[int], last: int, each: float) -> list[str]:
    # seen in these frames; a viewer that does not move shows the last frame
    if len(frames) == last + 1:
        return [part]
    whole, seen = each * last + LAST, set(frames)
    turns = [(0, 0 in seen)] + [(at, at in seen) for at in range(1, last + 1) if (at in seen) != (at - 1 in seen)]
    times = ";".join(f"{each * at / whole:.4f}" for at, _ in turns)
    values = ";".join("visible" if is_seen else "hidden" for _, is_seen in turns)
    return [
        f'<g visibility="{"visible" if last in seen else "hidden"}"><animate attributeName="visibility" '
        f'values="{values}" keyTimes="{times}" dur="{whole:g}s" calcMode="discrete" repeatCount="indefinite"/>',
        part,
        "</g>",
    ]
