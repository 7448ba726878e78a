"""Boxes and points in pictures, in the forms in which models that see say them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reactree_ros.agent.text import LONGEST_ERROR

#: Where something is in a picture: left, top, right and bottom, as shares of its size. Empty: it is not there.
Box = tuple[float, ...]

_NUMBER = r"-?\d{1,5}(?:\.\d{1,6})?"
_SIDES = rf"({_NUMBER})\D{{1,9}}?({_NUMBER})(?:\D{{1,9}}?({_NUMBER})\D{{1,9}}?({_NUMBER}))?"
_ABSENT = re.compile(
    r"\W{0,9}(?:\w{1,9}\W{1,4}:\s{0,4})?(?:(?:it |there )?(?:is |are )?(?:no|none|nothing|not "
    r"(?:there|visible|found|present|in the (?:picture|image)))\b|null\b|\[\s*\]|\{\s*\})",
    re.IGNORECASE,
)
#: Each form that says its own scale: how it begins, what its numbers are a part of, and whether upright comes first.
_FORMS = (
    (re.compile(r"<loc(\d{4})><loc(\d{4})><loc(\d{4})><loc(\d{4})>"), 1024.0, True),  # PaliGemma
    (re.compile(r"<loc_(\d{1,3})><loc_(\d{1,3})><loc_(\d{1,3})><loc_(\d{1,3})>"), 1000.0, False),  # Florence
    (re.compile(rf'<points?\s[^<>]{{0,40}}?x1?="({_NUMBER})"\s+y1?="({_NUMBER})"'), 100.0, False),  # Molmo
    (re.compile(rf"(?:<\|box_start\|>|<box>)\D{{0,4}}{_SIDES}"), 1000.0, False),  # Qwen-VL, InternVL
    (re.compile(rf'"(?:box_2d|point)"\s*:\s*\[\s*{_SIDES}'), 1000.0, True),  # Gemini
)
#: Any other box or point: in brackets, as two fields, or as numbers alone.
_PLAIN = re.compile(rf'(?:[\[(]\s*{_SIDES}\s*[\])]|"x1?"\s*:\s*{_SIDES}|^\s*{_SIDES})')
_THIRDS = (1 / 3, 2 / 3)


def read_box(text: str, width: int, height: int) -> Box | None:
    """Read where something is in a picture; empty if it is said not to be there, None if nothing can be read.

    Numbers that do not say their scale are shares up to 1, thousandths up to 1,000, and pixels of the picture beyond.
    """
    text = text[:LONGEST_ERROR]
    for form, whole, upright in _FORMS:
        if (found := form.search(text)) is not None:
            return _box(_numbers(found), (whole, whole), upright=upright)
    if (plain := _PLAIN.search(text)) is not None:
        numbers = _numbers(plain)
        most = max(numbers)
        whole_of = (1.0, 1.0) if most <= 1 else (1000.0, 1000.0) if most <= 1000 else (float(width), float(height))
        return _box(numbers, whole_of)
    return () if _ABSENT.match(text) else None


def place_in_words(box: Sequence[float]) -> str:
    """Say where in a picture a box is, e.g. ``at the top left``."""
    across = _third((box[0] + box[2]) / 2, "left", "right")
    upright = _third((box[1] + box[3]) / 2, "top", "bottom")
    if not (across or upright):
        return "in the middle"
    return f"at the {' '.join(filter(None, (upright, across)))}"


def _numbers(found: re.Match[str]) -> list[float]:
    return [float(number) for number in found.groups() if number is not None]


def _box(numbers: Sequence[float], whole: tuple[float, float], *, upright: bool = False) -> Box | None:
    pairs = [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
    corners = [pair[::-1] if upright else pair for pair in pairs]
    (left, top), (right, bottom) = ([x / whole[0], y / whole[1]] for x, y in (corners[0], corners[-1]))
    fits = 0 <= left <= right <= 1 and 0 <= top <= bottom <= 1
    return (left, top, right, bottom) if fits else None


def _third(at: float, low: str, high: str) -> str:
    return low if at < _THIRDS[0] else high if at > _THIRDS[1] else ""
