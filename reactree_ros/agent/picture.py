"""Pictures: what a camera saw, by reference. The bytes lie in one store; texts and prompts never hold them."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reactree_ros.agent.foreign import as_seen, cleaned
from reactree_ros.agent.text import bounded, in_one_line
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
    def told(self) -> str:
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
        raise ValueError(needs_pillow("a picture that is no PNG")) from None
    except Exception as error:  # Pillow's readers raise what they like
        raise ValueError(f"is no PNG or JPEG ({len(data):,} bytes)") from error
