"""Pictures: what a camera saw, by reference. The bytes lie in one store; texts and prompts never hold them."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reactree_ros.agent.labels import as_seen, cleaned
from reactree_ros.agent.text import LONGEST_ERROR, bounded, in_one_line
from reactree_ros.plugins.installation import install_line

if TYPE_CHECKING:
    from PIL.Image import Image

#: Largest picture, and most bytes of all that are kept, be it in a process or in the record of a run.
LARGEST_PICTURE, ALL_PICTURES = 4 << 20, 64 << 20
#: What every model, browser and viewer reads; the name of a file ends with the second.
SUFFIXES = {"image/png": "png", "image/jpeg": "jpg"}
#: Forms that are kept, and those that Pillow reads by itself. For others it may start a program, as for PostScript.
KEPT_FORMS, READ_FORMS = ("PNG", "JPEG"), ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
#: The longest that is said of what is on a picture, and most pixels, whatever its bytes are.
LONGEST_WORDS, MOST_PIXELS = 2000, 64 << 20
#: A token of a model that sees stands for about so many pixels: a patch of 28 by 28.
_PATCH = 28


@dataclass(frozen=True)
class Picture:
    """A picture by reference; :func:`picture_of` makes one, :data:`PICTURES` has its bytes."""

    id: str  # digest of its bytes
    media: str  # ``image/png`` or ``image/jpeg``
    width: int  # in pixels
    height: int  # in pixels
    size: int  # in bytes
    camera: str = ""  # name of the camera; empty: the only one
    frame: str = ""  # coordinate frame of the camera; empty: unknown
    time: float | None = None  # when it was taken, in seconds since 1970; None: unknown
    words: str = ""  # what is on it, as a detector or another model has said; empty: nobody has

    def __post_init__(self) -> None:
        if self.time is not None:
            object.__setattr__(self, "time", round(self.time, 3))
        for name in ("camera", "frame", "words"):
            object.__setattr__(self, name, bounded(in_one_line(cleaned(getattr(self, name))), LONGEST_WORDS))

    @property
    def name(self) -> str:
        return f"picture of camera {self.camera}" if self.camera else "picture"

    @property
    def caption(self) -> str:
        return as_seen(f"{self.name[0].upper()}{self.name[1:]}: {self.words}") if self.words else ""

    def tokens(self, longest_side: int) -> int:
        width, height = fitted(self.width, self.height, longest_side)
        return -(-width // _PATCH) * -(-height // _PATCH)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class PictureStore:
    """Keeps the bytes of pictures under their digests, each once; the oldest give way to new ones.

    Args:
        most: Most bytes of all pictures together.
    """

    def __init__(self, most: int = ALL_PICTURES) -> None:
        self._most, self._size = most, 0
        self._kept: dict[str, bytes] = {}  # the one that was asked for last comes last
        self._lock = threading.Lock()

    def keep(self, data: bytes) -> str:
        """Keep bytes, and return their digest."""
        digest = digest_of(data)
        with self._lock:
            known = self._kept.pop(digest, None)
            self._kept[digest] = data if known is None else known
            self._size += len(data) if known is None else 0
            while self._size > self._most and len(self._kept) > 1:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        return digest

    def data(self, picture: Picture) -> bytes | None:
        """Return the bytes of a picture; None if they are not kept any more."""
        with self._lock:
            if (data := self._kept.pop(picture.id, None)) is not None:
                self._kept[picture.id] = data
            return data


#: The bytes of this process's pictures.
PICTURES = PictureStore()


def picture_of(
    data: bytes, *, camera: str = "", frame: str = "", time: float | None = None, words: str = ""
) -> Picture:
    """Keep the bytes of a PNG or JPEG, and return the picture. Raises ValueError."""
    if len(data) > LARGEST_PICTURE:
        raise ValueError(f"a picture of {len(data):,} bytes is too large: it may have {LARGEST_PICTURE:,}")
    media, width, height = _measured(data)
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"a picture of {width} by {height} pixels is too large: it may have {MOST_PIXELS:,}")
    return Picture(PICTURES.keep(data), media, width, height, len(data), camera, frame, time, words)


def opened(source: bytes | Path, forms: Sequence[str] = KEPT_FORMS) -> Image:
    """Open the bytes or the file of a picture with Pillow; nothing else opens one. Raises ImportError or Exception."""
    from PIL import Image as Pictures

    return Pictures.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=list(forms))


def needs_pillow(what: str) -> str:
    return f"{what} needs Pillow: {install_line('reactree_ros[pictures]')}"


def fitted(width: int, height: int, longest_side: int) -> tuple[int, int]:
    if (longest := max(width, height)) <= longest_side:
        return width, height
    return max(1, round(width * longest_side / longest)), max(1, round(height * longest_side / longest))


def _measured(data: bytes) -> tuple[str, int, int]:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":  # so that a record is read without Pillow
        return "image/png", int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    try:
        with opened(data) as found:
            return f"image/{str(found.format).lower()}", *found.size
    except ImportError:
        raise ValueError(needs_pillow("a picture that is not a PNG")) from None
    except Exception as error:  # Pillow's readers raise what they like
        raise ValueError(f"is not a PNG or JPEG ({len(data):,} bytes)") from error


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
