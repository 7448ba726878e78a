"""Draws with Pillow what the cameras of a simulated robot see, for worlds that have no pictures of their own.

Every class of things has a colour of its own, and each thing as many white marks as its number.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.household import named
from reactree_ros.agent.picture import Picture, picture_of
from reactree_ros.plugins.installation import check_modules

#: Size in pixels, and the line below which the robot's hand is.
WIDTH, HEIGHT, HAND = 640, 480, 400
#: The colour of marks; nothing else has it.
MARK = (255, 255, 255)
#: Side of a mark in pixels, and from one to the next.
MARK_SIDE, _STEP = 3, 5
_PAPER, _FLOOR, _LINE, _METAL = (238, 238, 238), (222, 222, 222), (0, 0, 0), (120, 120, 128)
_DARK, _LIGHT = (30, 30, 30), (225, 225, 225)  # of words
_SIDE = 36  # of a thing that is drawn as a square
_ROW = 60  # from one row of things to the next

Point = tuple[float, float]


@dataclass(frozen=True)
class Piece:
    word: str  # its class in words; empty: it is a floor
    number: int  # its number; 0: it has none
    outline: tuple[Point, ...]  # its corners in pixels

    @classmethod
    def square(cls, word: str, number: int, middle: Point, side: float = _SIDE) -> Piece:
        (x, y), half = middle, side / 2
        return cls(word, number, _rectangle(x - half, y - half, x + half, y + half))

    @property
    def name(self) -> str:
        return named(self.word, self.number)


@dataclass(frozen=True)
class Group:
    at: tuple[str, int] | None  # what they are on or in, by word and number; None: nothing
    things: Sequence[tuple[str, int]]  # the others, likewise


def colour_of(word: str) -> tuple[int, int, int]:
    red, green, blue = (40 + one % 176 for one in hashlib.sha256(word.encode()).digest()[:3])
    return red, green, blue


def drawn(pieces: Sequence[Piece], held: Sequence[tuple[str, int]], *, camera: str, title: str) -> Picture:
    """Draw pieces, the first at the bottom, and what the hand holds. Raises UserError: pillow is not installed."""
    check_modules("pictures", "reactree_ros[pictures]", ("PIL",))
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH, HEIGHT), _PAPER)
    draw = ImageDraw.Draw(image)
    for piece in pieces:
        _draw(draw, piece)
    draw.rectangle((0, HAND, WIDTH, HEIGHT), fill=_FLOOR, outline=_LINE)
    middle = WIDTH / 2 - 40 * (len(held) - 1)
    for number, (word, instance) in enumerate(held):
        x, y = middle + 80 * number, (HAND + HEIGHT) / 2 - 6
        for side in (-_SIDE, _SIDE - 8):
            draw.rectangle((x + side, y - 28, x + side + 8, y + 24), fill=_METAL)
        _draw(draw, Piece.square(word, instance, (x, y)))
    draw.text((4, HAND + 4), "hand", fill=_DARK)
    draw.text((4, 2), title, fill=_DARK)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return picture_of(file.getvalue(), camera=camera)


def arranged(groups: Sequence[Group]) -> list[Piece]:
    """Give things without places of their own some: each group in a row, what they are on or in behind them."""
    most = max((len(group.things) + 1 for group in groups), default=1)
    step = min(80.0, (WIDTH - 8) / most) if most <= (WIDTH - 8) / (_SIDE + 4) else _SIDE + 4.0
    pieces: list[Piece] = []
    x, y = 4.0, 16.0
    for group in groups:
        cells = [None, *group.things] if group.at else [*group.things]
        for begin in range(0, len(cells), int((WIDTH - 8) // step)):
            row = cells[begin : begin + int((WIDTH - 8) // step)]
            if x + step * len(row) > WIDTH - 2:
                x, y = 4.0, y + _ROW
            if group.at:
                pieces.append(Piece(*group.at, _rectangle(x, y, x + step * len(row) - 4, y + _ROW - 6)))
            middles = ((x + step * (number + 0.5), y + 32) for number in range(len(row)))
            pieces += (Piece.square(*one, middle) for one, middle in zip(row, middles, strict=True) if one is not None)
            x += step * len(row)
    return [piece for piece in pieces if piece.outline[2][1] < HAND]


def _draw(draw: Any, piece: Piece) -> None:
    corners = [(round(x), round(y)) for x, y in piece.outline]
    colour = colour_of(piece.word) if piece.word else _FLOOR
    draw.polygon(corners, fill=colour, outline=_LINE)
    (left, right), (top, bottom) = ((min(side), max(side)) for side in zip(*corners, strict=True))
    written = piece.name[: max(1, (right - left) // 6)]
    draw.text((left + 3, top + 2), written, fill=_LIGHT if sum(colour) < 360 else _DARK)
    row = max(1, (right - left - 4) // _STEP)
    for mark in range(piece.number if piece.word else 0):
        x, y = left + 4 + _STEP * (mark % row), bottom - 6 - _STEP * (mark // row)
        draw.rectangle((x, y, x + MARK_SIDE - 1, y + MARK_SIDE - 1), fill=MARK)


def _rectangle(left: float, top: float, right: float, bottom: float) -> tuple[Point, ...]:
    return (left, top), (right, top), (right, bottom), (left, bottom)
