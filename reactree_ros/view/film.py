"""A run as a film, GIF or MP4: the growing tree's frames as pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

from reactree_ros.agent.picture import opened
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
from reactree_ros.record.moment import Moment
from reactree_ros.record.schema import Event
from reactree_ros.view.drawing import check_font, places_in, png_of
from reactree_ros.view.growing import ALL, EACH, LAST, Box, Frame, Point, frames

if TYPE_CHECKING:
    from PIL.Image import Image

#: Pixels of the largest film.
WIDEST, HIGHEST = 1280, 800
#: Fewest pixels of a unit of the drawing: its smallest words have 12 units, and in a film 11 pixels.
SMALLEST = 11 / 12
#: Most decisions of a film.
MOST = int(ALL / EACH)
#: Fewest units between the node at work and the edge of the picture.
_NEAR = 90


def as_gif(events: Sequence[Event]) -> bytes:
    _check("a GIF", "PIL", "resvg_py")
    pictures, file = _pictures(events), io.BytesIO()
    next(pictures).save(file, "GIF", save_all=True, append_images=pictures, loop=0)
    return file.getvalue()


def as_mp4(events: Sequence[Event]) -> bytes:
    _check("an MP4", "PIL", "resvg_py", "av")
    import av

    pictures, file = _pictures(events), io.BytesIO()
    first = next(pictures)
    with av.open(file, "w", format="mp4") as film:
        stream = film.add_stream("libx264", 1 / Fraction(str(EACH)), {"tune": "animation", "crf": "20"})
        stream.width, stream.height, stream.pix_fmt = *first.size, "yuv420p"
        for picture in chain([first], pictures):
            for _ in range(round(picture.info["duration"] / 1000 / EACH)):
                film.mux(stream.encode(av.VideoFrame.from_image(picture)))
        film.mux(stream.encode())
    return file.getvalue()


def _check(what: str, *modules: str) -> None:
    if any(find_spec(module) is None for module in modules):
        raise UserError(
            f"{what} needs pillow, resvg-py and av: {install_line('reactree_ros[film]')}; or export growing"
        )
    check_font()


def _pictures(events: Sequence[Event]) -> Iterator[Image]:
    """Draw the frames: all of the tree, or the part around the node at work if its words would be too small."""
    from PIL import Image

    places = places_in(Moment.after(events))
    whole = Box.around(places)
    width = min(whole.width, WIDEST / SMALLEST)
    seen = replace(whole, width=width)
    seen = replace(seen, height=min(whole.height, HIGHEST / SMALLEST - seen.line))
    scale = min(WIDEST / seen.width, HIGHEST / seen.whole_height)
    size = 2 * int(scale * seen.width / 2), 2 * int(scale * seen.whole_height / 2)  # even, as MP4 needs
    for frame in frames(events, places, MOST):
        seen = _part(seen, whole, frame.at)
        png = png_of(seen.drawn(_drawn(frame, seen, seen.width / width)), size[0])
        picture = Image.new("RGB", size)
        picture.paste(opened(png))
        picture.info["duration"] = round(1000 * (LAST if frame.at is None else EACH))
        yield picture


def _drawn(frame: Frame, seen: Box, zoom: float) -> list[str]:
    parts = [
        f"<g>{''.join(frame.tree)}</g>",
        seen.paper(seen.top + seen.height, seen.line),
        seen.caption(frame.caption),
    ]
    if zoom > 1:  # words cannot be read, and lines would be too thin
        style = f"g text {{ display: none }} circle, rect {{ stroke-width: {min(30.0, 2.5 * zoom):g} }}"
        parts.insert(0, f"<style>{style}</style>")
    return parts


def _part(before: Box, whole: Box, at: Point | None) -> Box:
    """Return the part of the drawing that a frame shows: at the end all of it, in the middle."""
    if at is None:
        zoom = max(whole.width / before.width, whole.height / before.height)
        width, height = zoom * before.width, zoom * before.height
        return Box(whole.left - (width - whole.width) / 2, whole.top - (height - whole.height) / 2, width, height)
    left = _start(at[0], before.left, before.width, whole.left, whole.width)
    top = _start(at[1], before.top, before.height, whole.top, whole.height)
    return replace(before, left=left, top=top)


def _start(at: float, before: float, length: float, least: float, whole: float) -> float:
    # the picture moves only when the node at work comes near its edge
    if before + _NEAR <= at <= before + length - _NEAR:
        return before
    return min(max(least, at - length / 2), least + whole - length)
