"""Draws the method: a tree of agent nodes as it stands after two expansions, and what its nodes ask.

python docs/figures/method.py FILE.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 540
INK, GREY, PAPER, LINE = "#1f2937", "#6b7280", "#ffffff", "#9ca3af"
#: Fill and edge by how a node stands.
LOOK = {"running": ("#dbeafe", "#2563eb"), "done": ("#dcfce7", "#16a34a"), "waiting": ("#f3f4f6", "#9ca3af")}
MARK = {"running": "…", "done": "✓", "waiting": ""}


@dataclass(frozen=True)
class Agent:
    """An agent node: its goal in lines, what it said last, how it stands, and what it has expanded into."""

    goal: Sequence[str]
    said: str
    stands: str
    at: tuple[float, float]
    flow: str = ""
    below: Sequence[Agent] = field(default_factory=tuple)


TREE = Agent(
    ("Put 1 pudding and 1 apple", "on the coffee table"),
    "Expand: sequence",
    "running",
    (360, 56),
    "→",
    (
        Agent(("put the pudding", "on the coffee table"), "Act: done", "done", (180, 206)),
        Agent(
            ("put the apple", "on the coffee table"),
            "Expand: sequence",
            "running",
            (500, 206),
            "→",
            (
                Agent(("find and pick up", "the apple"), "Act: open fridge 1", "running", (380, 356)),
                Agent(("put it down on", "the coffee table"), "", "waiting", (612, 356)),
            ),
        ),
    ),
)
#: What nodes ask, beside the tree: title, text, place.
PORTS = (
    ("language model", "one request a decision", (20, 466)),
    ("world", "skills, observations", (255, 466)),
    ("memories", "where things are; examples", (490, 466)),
)
BOX, FLOW = (208, 78), 30


def figure() -> str:
    """Return the figure as SVG."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="14" role="img" aria-label="A tree of agent nodes">'
    )
    paper = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="{PAPER}"/>'
    return "\n".join([head, paper, *edges(TREE), *nodes(TREE), *decisions(), *ports(), "</svg>"]) + "\n"


def edges(agent: Agent) -> Iterator[str]:
    """Yield the lines below an agent node, first, so that they end under the boxes."""
    if not agent.below:
        return
    x, y = agent.at
    middle = y + 80
    yield line(x, y, x, middle)
    for one in agent.below:
        yield line(x, middle, *one.at, dashed=one.stands == "waiting")
        yield from edges(one)


def nodes(agent: Agent) -> Iterator[str]:
    """Yield an agent node, its control flow and what is below."""
    (x, y), (width, height) = agent.at, BOX
    fill, edge = LOOK[agent.stands]
    yield (
        f'<rect x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="39" '
        f'fill="{fill}" stroke="{edge}" stroke-width="2"/>'
    )
    lines = [*agent.goal, agent.said]
    top = y - 9 * (len(lines) - 1) + 4 if agent.said else y - 5
    for number, text in enumerate(filter(None, lines)):
        said = number == len(agent.goal)
        yield words(x, top + 19 * number, text, GREY if said else INK, mono=said)
    if MARK[agent.stands]:
        yield f'<circle cx="{x + width / 2 - 6}" cy="{y - height / 2 + 4}" r="12" fill="{edge}"/>'
        yield words(x + width / 2 - 6, y - height / 2 + 9, MARK[agent.stands], PAPER)
    if agent.flow:
        low = y + 80
        yield (
            f'<rect x="{x - FLOW / 2}" y="{low - FLOW / 2}" width="{FLOW}" height="{FLOW}" fill="{PAPER}" '
            f'stroke="{INK}" stroke-width="2"/>'
        )
        yield words(x, low + 6, agent.flow, INK)
    for one in agent.below:
        yield from nodes(one)


def decisions() -> Iterator[str]:
    """Yield what a decision is, beside the tree."""
    yield words(20, 322, "an agent node decides", INK, anchor="start")
    for number, (kind, rest) in enumerate(
        (("Think:", "a thought"), ("Act:", "a skill, done or failure"), ("Expand:", "subgoals"))
    ):
        y = 346 + 22 * number
        yield words(20, y, kind, LOOK["running"][1], mono=True, anchor="start")
        yield words(84, y, rest, GREY, anchor="start")


def ports() -> Iterator[str]:
    """Yield what nodes ask, below the tree."""
    yield words(20, 450, "every node asks", INK, anchor="start")
    for title, text, (x, y) in PORTS:
        yield f'<rect x="{x}" y="{y}" width="210" height="54" rx="6" fill="#fef3c7" stroke="#d97706"/>'
        yield words(x + 14, y + 22, title, INK, anchor="start")
        yield words(x + 14, y + 42, text, GREY, anchor="start")


def line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    """Return a line."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="2"' + (
        ' stroke-dasharray="6 5"/>' if dashed else "/>"
    )


def words(x: float, y: float, text: str, colour: str, *, mono: bool = False, anchor: str = "middle") -> str:
    """Return a text."""
    font = ' font-family="monospace" font-size="13"' if mono else ""
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}"{font}>{escape(text)}</text>'


def put(file: Path, svg: bytes) -> None:
    """Write a figure where it is not as it should be."""
    if not file.exists() or file.read_bytes() != svg:
        file.write_bytes(svg)


def write(file: Path) -> None:
    """Write this figure."""
    put(file, figure().encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
