"""A run as an SVG that moves: how its tree grew, with what was decided as the caption of each frame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from reactree_ros.agent.text import in_one_line
from reactree_ros.record.moment import Moment
from reactree_ros.record.schema import Event
from reactree_ros.view.drawing import draw, places_in

#: A place in a drawing.
Point = tuple[float, float]

#: Seconds of a frame, of all of them at most, and of the last one.
EACH, ALL, LAST = 0.55, 90.0, 4.0
#: Most characters of a caption, and the width that they need at their smallest size.
LONGEST, NARROWEST = 80, 720
_ASIDE, _ABOVE, _BELOW = 90, 60, 85


@dataclass(frozen=True)
class Frame:
    tree: list[str]  # the elements of the drawing
    caption: str
    at: Point | None  # the place of the node that decided; None: the run has ended


@dataclass(frozen=True)
class Box:
    """A part of the plane that has the tree, and below it a line for the caption."""

    left: float
    top: float
    width: float
    height: float

    @classmethod
    def around(cls, places: Mapping[int, Point]) -> Box:
        across = [x for x, _ in places.values()] or [0.0]
        middle = (min(across) + max(across)) / 2
        half = max((max(across) - min(across)) / 2 + _ASIDE, NARROWEST / 2)
        height = max((y for _, y in places.values()), default=0.0) + _ABOVE + _BELOW
        return cls(middle - half, -_ABOVE, 2 * half, height)

    @property
    def size(self) -> float:
        """The caption's size, which a wide tree does not make illegible."""
        return max(14.0, self.width / 64)

    @property
    def line(self) -> float:
        """The height of what is below the tree."""
        return 2.2 * self.size

    @property
    def whole_height(self) -> float:
        return self.height + self.line

    def drawn(self, parts: Sequence[str], title: str = "") -> str:
        box = f"{self.left:g} {self.top:g} {self.width:g} {self.whole_height:g}"
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="12" text-anchor="middle" role="img">',
            f"<title>{escape(title)}</title>",
            self.paper(self.top, self.whole_height),
        ]
        return "\n".join([*head, *parts, "</svg>"]) + "\n"

    def paper(self, top: float, height: float) -> str:
        place = f'x="{self.left:g}" y="{top:g}" width="{self.width:g}" height="{height:g}"'
        return f'<rect {place} rx="12" fill="#ffffff"/>'

    def caption(self, words: str) -> str:
        middle, line = self.left + self.width / 2, self.top + self.height + 1.2 * self.size
        font = f'font-size="{self.size:g}" font-family="monospace"'
        return f'<text x="{middle:g}" y="{line:g}" {font} fill="#1f2937">{escape(words)}</text>'


def as_growing_svg(events: Sequence[Event]) -> str:
    """Draw a frame for each decision, and the verdict; what stays the same from frame to frame is drawn once."""
    places = places_in(Moment.after(events))  # nodes have their place at the end from the beginning on
    box = Box.around(places)
    shown: dict[str, list[int]] = {}  # what is drawn, and in which frames
    last = -1
    for last, frame in enumerate(frames(events, places)):
        for part in (*frame.tree, box.caption(frame.caption)):
            shown.setdefault(part, []).append(last)
    each = min(EACH, ALL / max(1, last))
    parts: list[str] = []
    for part, seen in sorted(shown.items(), key=lambda one: not one[0].startswith("<path")):  # nodes over the edges
        parts += _timed(part, seen, last, each)
    return box.drawn(parts, in_one_line(events[0]["instruction"]))


def frames(events: Sequence[Event], places: Mapping[int, Point], most: float = math.inf) -> Iterator[Frame]:
    """Draw each decision and the end; of more than ``most`` decisions every second, every third, and so on."""
    said = [event for event in events if event["e"] == "turn" and "said" in event]
    every = math.ceil(len(said) / most) or 1
    shown, whole, moment = set(map(id, said[every - 1 :: every])), Moment.after(events).decisions, Moment()
    for event in events:
        moment.apply(event)
        if id(event) in shown:
            words = f"{moment.decisions} of {whole}: {in_one_line(event['said'])}"
            yield Frame(draw(moment, places), _short(words), places.get(event["node"], (0.0, 0.0)))
    yield Frame(draw(moment, places), _short(in_one_line(f"{moment.verdict}")), None)


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 2]} …"


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
