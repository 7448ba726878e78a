"""Drawings of a recorded tree, as in the paper's figure 1: agent nodes are circles, control flow is squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from textwrap import wrap
from xml.sax.saxutils import escape

from reactree_ros.agent.text import in_one_line
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
from reactree_ros.record.moment import Moment, Node
from reactree_ros.view import STATUSES, sign_of

#: Longest side of a PNG, and its most pixels.
LONGEST, MOST = 12_000, 48_000_000
_WIDE, _NARROW, _LEVEL, _MARGIN = 150, 60, 100, 60
_LINE, _LINES = 22, 3


def as_svg(moment: Moment) -> str:
    places = places_in(moment)
    left = min((x for x, _ in places.values()), default=0) - _WIDE / 2 - _MARGIN
    right = max((x for x, _ in places.values()), default=0) + _WIDE / 2 + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _LEVEL + _MARGIN
    title = escape(in_one_line(moment.run["instruction"]))
    ending = _ending(moment, (left + right) / 2, right - left)
    top = _MARGIN + 16 * len(ending)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right - left:g}" height="{height + top:g}" '
        f'viewBox="{left:g} {-top} {right - left:g} {height + top:g}" role="img" '
        'font-family="Inter, Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12" text-anchor="middle">',
        f"<title>{title}</title>",
        f'<rect x="{left:g}" y="{-top}" width="100%" height="100%" fill="#ffffff"/>',
    ]
    return "\n".join([*parts, *draw(moment, places), *ending, "</svg>", ""])


def draw(moment: Moment, places: Mapping[int, tuple[float, float]]) -> list[str]:
    nodes = [node for node, _ in walk(moment)]
    edges = [_edge(places[node.parent], places[node.number]) for node in nodes if node.parent is not None]
    return edges + [_drawn(node, moment.status_of(node), *places[node.number]) for node in nodes]


def as_png(moment: Moment) -> bytes:
    """Draw a tree as PNG, at twice the size of the SVG unless that is too large."""
    try:
        import resvg_py  # noqa: F401
    except ImportError as error:
        raise UserError(f"a PNG needs resvg-py: {install_line('reactree_ros[view]')}; or export svg") from error
    check_font()
    svg = as_svg(moment)
    width, height = (float(svg.partition(f' {side}="')[2].partition('"')[0]) for side in ("width", "height"))
    scale = min(2.0, LONGEST / width, LONGEST / height, math.sqrt(MOST / (width * height)))
    return png_of(svg, max(1, int(scale * width)))


def png_of(svg: str, width: int) -> bytes:
    from resvg_py import svg_to_bytes

    return bytes(svg_to_bytes(svg_string=svg, width=width, background="#ffffff"))


def check_font() -> None:
    """Raise UserError if words would be missing in a picture."""
    words, nothing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20"><text y="15">{text}</text></svg>'
        for text in ("a", "")
    )
    if png_of(words, 20) == png_of(nothing, 20):
        raise UserError(
            "no font was found, so the picture would have no words: install one "
            "(Debian, Ubuntu: apt install fonts-dejavu-core), or export svg"
        )


def as_dot(moment: Moment) -> str:
    lines = ["digraph run {"]
    if moment.result is not None:
        lines.append(f"  label={_quoted(in_one_line(str(moment.verdict)))};")
    lines += ['  node [fontname="Helvetica", fontsize=11];', "  edge [arrowhead=none];"]
    for node, _ in walk(moment):
        status = moment.status_of(node)
        colour, mark = _shown(status)
        sign, style = sign_of(node.kind), "solid" if status else "dashed"
        label = _quoted(f"{mark} {sign or in_one_line(node.name)}".strip())
        shape = "box" if sign else "ellipse"
        lines.append(f'  n{node.number} [label={label}, shape={shape}, color="{colour}", style={style}];')
        if node.parent is not None:
            lines.append(f"  n{node.parent} -> n{node.number};")
    return "\n".join([*lines, "}", ""])


def _shown(status: str) -> tuple[str, str]:
    # what has no status has a dashed outline, and no mark
    return STATUSES[status].colour, STATUSES[status].mark if status else ""


def walk(moment: Moment) -> Iterator[tuple[Node, int]]:
    waiting = [(0, 0)] if moment.nodes else []
    while waiting:
        number, depth = waiting.pop()
        if moment.nodes[number].kind != "skill":
            yield moment.nodes[number], depth
            waiting += [(child, depth + 1) for child in reversed(moment.nodes[number].children)]


def places_in(moment: Moment) -> dict[int, tuple[float, float]]:
    """Place the nodes of a tree by their numbers: leaves in a row, parents above the middle of their children."""
    nodes = list(walk(moment))
    parents = {node.parent for node, _ in nodes}
    across, cursor = dict[int, float](), 0.0
    for node, _ in nodes:  # leaves come from left to right
        if node.number not in parents:
            width = _NARROW if sign_of(node.kind) else _WIDE
            across[node.number] = cursor + width / 2
            cursor += width
    for node, _ in reversed(nodes):  # children come before their parent
        below = [across[number] for number in node.children if number in across]
        across.setdefault(node.number, (below[0] + below[-1]) / 2 if below else 0.0)
    return {node.number: (across[node.number], float(depth * _LEVEL)) for node, depth in nodes}


def _edge(above: tuple[float, float], below: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = above, below
    middle = (y1 + y2) / 2 + 10
    curve = f"M{x1:g} {y1:g} C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
    return f'<path d="{curve}" fill="none" stroke="#c9ccd1" stroke-width="1.5"/>'


def _ending(moment: Moment, x: float, width: float) -> list[str]:
    if moment.result is None:
        return []
    colour, mark = _shown(moment.verdict.judgement.status)
    lines = wrap(in_one_line(f"{mark} {moment.verdict}"), max(24, int(width / 7)), max_lines=_LINES, placeholder=" …")
    return [
        f'<text x="{x:g}" y="{-_MARGIN + 16 * (number - len(lines) + 1):g}" font-size="13" font-weight="600" '
        f'fill="{colour}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]


def _drawn(node: Node, status: str, x: float, y: float) -> str:
    colour, mark = _shown(status)
    dashes = "" if status else ' stroke-dasharray="4 3"'
    outline = f'fill="#ffffff" stroke="{colour}" stroke-width="2.5"{dashes}'
    text = f'<text x="{x:g}" y="{y + 5.5:g}" font-size="16" fill="{colour}">'
    if sign := sign_of(node.kind):
        return f'<rect x="{x - 15:g}" y="{y - 15:g}" width="30" height="30" rx="3" {outline}/>{text}{sign}</text>'
    halo = 'fill="#1d2126" stroke="#ffffff" stroke-width="4" paint-order="stroke"'
    name = "".join(
        f'<text x="{x:g}" y="{y + 34 + 14 * number:g}" {halo}>{escape(line)}</text>'
        for number, line in enumerate(_lines(in_one_line(node.name)))
    )
    return f'<circle cx="{x:g}" cy="{y:g}" r="17" {outline}/>{text}{mark}</text>{name}'


def _lines(name: str) -> list[str]:
    lines = [""]
    for word in name[: _LINE * (_LINES + 1)].split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()[: _LINE + 1]
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"{lines[_LINES - 1]} …"]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
