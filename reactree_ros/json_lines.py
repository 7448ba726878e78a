"""Files of JSON lines that a kill at any moment leaves usable: what was written before it is there, whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from reactree_ros.errors import UserError

T = TypeVar("T")


def append_line(file: BinaryIO, line: str) -> None:
    """Write a line to a file that is open for appending; once this returns, it is on the disk."""
    file.write(f"{line}\n".encode())
    file.flush()
    os.fsync(file.fileno())


def cut_torn_line(path: Path) -> None:
    """Cut off what a kill left of the last line of a file, if there is such a file."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def read_lines(path: Path, read: Callable[[str], T]) -> list[T]:
    """Read a file line by line; a last line without its end, which may still be written, is left out.

    Args:
        path: The file.
        read: Reads a line; raises ValueError or TypeError where it is broken.

    Raises:
        UserError: The file cannot be read, or a line is broken.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    found = []
    for number, line in enumerate(content.decode(errors="replace").split("\n")[:-1], 1):
        try:
            found.append(read(line))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}: line {number} is broken: {line[:60]!r}; take it out to run it again") from error
    return found
