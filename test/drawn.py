"""Pictures for tests, drawn without a library, so that they are read where there is none."""

from __future__ import annotations

import struct
import zlib

from reactree_ros.agent.picture import PICTURES, Picture, picture_of


def png(colour: tuple[int, int, int] = (255, 0, 0), width: int = 4, height: int = 4) -> bytes:
    """Draw a picture in one colour."""
    rows = b"".join(b"\0" + bytes(colour) * width for _ in range(height))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def drawn(shade: int = 0, *, width: int = 4, height: int = 4, **about: str) -> Picture:
    """Return a picture in a shade of its own."""
    return picture_of(png((255, shade % 256, shade // 256), width, height), **about)


def data_of(picture: Picture) -> bytes:
    """Return a picture's bytes, which are kept."""
    data = PICTURES.data(picture)
    assert data is not None
    return data
