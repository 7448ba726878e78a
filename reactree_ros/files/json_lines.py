"""Files of JSON lines that a kill at any moment leaves usable: what was written before it is there, whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, TypeVar

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of, checked, in_a_line, parse_json, shown

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


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """Read a file line by line; a last line without its end, which may still be written, is left out.

    Args:
        path: The file.
        kind: What a line is, a dataclass; the types of its fields are looked at.

    Raises:
        UserError: The file cannot be read, or a line is broken.
    """
    found = []
    for number, line in enumerate(bytes_of(path).split(b"\n")[:-1], 1):
        try:
            found.append(checked(kind, parse_json(line)))
        except ValueError as error:
            said = f"{path}: line {number} is broken: {in_a_line(error)}: {shown(line)}; take it out to run it again"
            raise UserError(said) from error
    return found
