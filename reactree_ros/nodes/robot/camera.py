"""Pictures of a robot's cameras, from the messages of its topics."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from sensor_msgs.msg import CompressedImage, Image

from reactree_ros.agent.picture import (
    LARGEST_PICTURE,
    MOST_PIXELS,
    READ_FORMS,
    Picture,
    fitted,
    needs_pillow,
    opened,
    picture_of,
)
from reactree_ros.nodes.messages import seconds_of

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

#: Encodings of raw images: Pillow's mode, how the bytes are ordered, and bytes of a pixel.
_ENCODINGS = {
    "rgb8": ("RGB", "RGB", 3),
    "bgr8": ("RGB", "BGR", 3),
    "rgba8": ("RGB", "RGBX", 4),
    "bgra8": ("RGB", "BGRX", 4),
    "mono8": ("L", "L", 1),
}
#: The longest side of a picture that is encoded here.
_LONGEST_SIDE = 2048


def picture_from_camera(msg: CompressedImage | Image, camera: str) -> Picture:
    """Keep the picture in a camera's message; JPEG and PNG stay as they are, all else becomes a JPEG."""
    about: dict[str, Any] = {
        "camera": camera,
        "frame": msg.header.frame_id,
        "time": seconds_of(msg.header.stamp) or None,
    }
    if isinstance(msg, Image):
        return picture_of(_encoded(_raw(msg)), **about)
    data = bytes(msg.data)
    try:
        return picture_of(data, **about)
    except ValueError:
        return picture_of(_encoded(_read(data)), **about)


def _read(data: bytes) -> Pixels:
    try:
        found = opened(data, READ_FORMS)
        if found.width * found.height > MOST_PIXELS:
            raise ValueError(f"{found.width} by {found.height} pixels are too many")
        return found.convert("RGB")
    except ImportError:
        raise ValueError(needs_pillow("a picture that is neither PNG nor JPEG, or is too large,")) from None
    except Exception as error:  # Pillow's readers raise what they like
        raise ValueError(f"{len(data):,} bytes that are no picture ({error})") from error


def _raw(msg: Image) -> Pixels:
    if msg.encoding not in _ENCODINGS:
        raise ValueError(f"its encoding is {msg.encoding[:40]!r}; it has to be one of {', '.join(_ENCODINGS)}")
    mode, order, size = _ENCODINGS[msg.encoding]
    width, height, step = msg.width, msg.height, msg.step or msg.width * size
    if not 0 < width * height <= MOST_PIXELS or step < width * size or len(msg.data) < step * height:
        raise ValueError(f"{width} by {height} pixels of {msg.encoding} in {len(msg.data):,} bytes")
    try:
        from PIL import Image as Pictures
    except ImportError:
        raise ValueError(needs_pillow("a raw image")) from None
    return Pictures.frombytes(mode, (width, height), bytes(msg.data), "raw", order, step, 1)


def _encoded(pixels: Pixels) -> bytes:
    side = _LONGEST_SIDE
    while True:
        file = io.BytesIO()
        pixels.resize(fitted(pixels.width, pixels.height, side)).save(file, "JPEG", quality=90)
        if file.tell() <= LARGEST_PICTURE:
            return file.getvalue()
        side //= 2
