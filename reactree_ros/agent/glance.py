"""Glances: what a second language model, the eyes of a run, was asked about a picture, and what it said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reactree_ros.agent.foreign import cleaned
from reactree_ros.agent.picture import LONGEST_WORDS
from reactree_ros.agent.text import LONGEST_ERROR, bounded, in_one_line

#: What may be answered to a question with an answer. The last: the picture does not show it.
YES, NO, CANNOT_SEE = ANSWERS = "yes", "no", "cannot see"
#: The most looks at one thing.
MOST_LOOKS = 9


@dataclass(frozen=True)
class Glance:
    """A question about a picture, and what came of it.

    Attributes:
        box: Where something is: left, top, right and bottom, as shares of the picture's width and height.
    """

    question: str
    answer: str = ""  # one of :data:`ANSWERS`, or what was said; empty: nobody could look
    picture: str = ""  # the picture's id
    box: tuple[float, ...] = ()
    error: str = ""  # why nobody could look; empty: somebody did
    answered_by: str = ""  # who looked
    prompt_tokens: int | None = None  # tokens of the question with its picture; None if the model does not count
    cached_tokens: int | None = None  # how many of them a prefix cache served; None if unknown
    output_tokens: int | None = None  # generated tokens; None if the model does not count
    picture_tokens: int = 0  # about how many tokens of the question are the picture's
    seconds: float = 0.0  # time from question to answer

    def __post_init__(self) -> None:
        for name, most in (("question", LONGEST_WORDS), ("answer", LONGEST_WORDS), ("error", LONGEST_ERROR)):
            object.__setattr__(self, name, bounded(in_one_line(cleaned(getattr(self, name))), most))
        object.__setattr__(self, "box", tuple(round(float(side), 4) for side in self.box))


@dataclass(frozen=True)
class PictureCheck:
    """How eyes see whether a skill has done what it reports.

    Attributes:
        necessary: Whether a skill fails that nobody has seen to be done; otherwise the observation says so, and it
            counts as done.
    """

    question: str  # what they are asked, with the skill's values in braces, e.g. ``Is {thing} in the hand?``
    answer: str = YES  # what they answer if it was done: ``yes`` or ``no``
    necessary: bool = False
    looks: int = 1  # how many pictures they are asked about, at most; what more than half of these answers say counts
    camera: str = ""  # which camera's pictures; empty: any

    def asked(self, values: Mapping[str, object]) -> str:
        return self.question.format_map({name: str(value) for name, value in values.items()})

    def found(self, glances: Sequence[Glance]) -> str | None:
        """Return what was seen, one of :data:`ANSWERS`; None: it takes another look."""
        for answer in (YES, NO):
            if 2 * sum(one.answer == answer for one in glances) > self.looks:
                return answer
        over = len(glances) >= self.looks or any(one.error for one in glances)
        return CANNOT_SEE if over else None

    def holds(self, answer: str) -> bool | None:
        """Return whether an answer says that the skill was done; None: it does not say."""
        return None if answer == CANNOT_SEE else answer == self.answer


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
