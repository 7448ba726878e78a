"""Files of JSON lines that stay usable after a kill at any moment: earlier lines are complete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, TypeVar

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of, checked, in_a_line, parse_json, shown

T = TypeVar("T")


def append_line(file: BinaryIO, line: str) -> None:
    """Append a line to an open file; when this returns, it is on disk."""
    file.write(f"{line}\n".encode())
    file.flush()
    os.fsync(file.fileno())


def cut_torn_line(path: Path) -> None:
    """Remove an incomplete last line that a kill left in a file, if the file exists."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """Read a file line by line; skip a last line without its end, which may still be written."""
    found = []
    for number, line in enumerate(bytes_of(path).split(b"\n")[:-1], 1):
        try:
            found.append(checked(kind, parse_json(line)))
        except ValueError as error:
            said = f"{path}: line {number} is broken: {in_a_line(error)}: {shown(line)}; take it out to run it again"
            raise UserError(said) from error
    return found
