"""Files that a kill or a full disk never leaves half written: the one before stays until the new one is whole."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one go; once this returns, it is on the disk.

    Raises:
        OSError: It cannot be written; what was there before is there still.
    """
    new = path.with_name(f"{path.name}.unfinished")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
