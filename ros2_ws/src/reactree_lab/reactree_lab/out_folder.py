"""The folder of a bench, a dataset or a training: one process at a time writes it, always with the same settings."""

from __future__ import annotations

import errno
import fcntl
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from reactree_ros.errors import UserError
from reactree_ros.files import whole_file


def check_place(out: Path, what: str, *, begun: bool, leftovers: Collection[str] = ()) -> None:
    """Refuse a file, and a folder of something else; a kill right at the start may leave files of these names."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: is a file; name a folder")
    if not begun and out.is_dir() and {one.name for one in out.iterdir()} - set(leftovers):
        raise UserError(f"--out {out}: is not empty and holds no {what}; name a new folder")


def opened_alone(out: Path, file: Path) -> BinaryIO:
    """Open a file of a folder for writing, as long as no other process has it open in this way."""
    opened = file.open("ab")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        opened.close()
        raise UserError(f"--out {out}: another process is writing there; wait for its end") from error
    return opened


def check_same(out: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    different = [
        f"{name} was {json.dumps(before.get(name))[:200]}, now {json.dumps(now.get(name))[:200]}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if different:
        raise UserError(
            f"--out {out}: was started with other settings: {'; '.join(different)}; "
            "use the same ones to continue it, or name a new folder"
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write into an error with the way out; what was written before is intact."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "make room, then repeat the command to continue" if full else "repeat the command to continue"
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; {hint}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one go; if it cannot be written, the earlier file is still there."""
    with writing(path):
        whole_file.write_whole(path, content)
