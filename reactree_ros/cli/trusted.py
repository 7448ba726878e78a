"""Remembers which projects' files of defaults the user trusts, by path and content."""

from __future__ import annotations

import enum
import hashlib
import os
import stat
from pathlib import Path

import typer

from reactree_ros.errors import UserError
from reactree_ros.files.folders import home
from reactree_ros.files.whole_file import write_whole

NAME = "reactree.toml"
#: Largest file that is read, in bytes.
_LARGEST = 1 << 20


class Standing(enum.Enum):
    """The user's trust in a project's file; the value is its folder next to the user's own file."""

    TRUSTED = "trusted"
    """The user trusted its current content."""
    PASSED_OVER = "passed_over"
    """The user chose to ignore its current content."""
    UNKNOWN = ""
    """The user has not decided about its current content."""
    STRANGE = "strange"
    """A stranger could have put or changed it, so it can never count."""


def user_folder() -> Path:
    """Return the folder of the user's own file and of the trust decisions.

    A relative path in the environment is ignored: it would lead into the current folder, which may be somebody else's.
    """
    folder = Path(typer.get_app_dir("reactree"))
    return folder if folder.is_absolute() else home() / ".config" / "reactree"


def own_content(path: Path) -> bytes:
    """Return the content of a file that only the user can have written.

    Raises:
        UserError: It is a link, not a file, another user's, writable by others, or too large.
        OSError: It cannot be read.
    """
    if path.is_symlink():
        raise UserError(f"{path}: is a link; a project's file counts only if it is the file itself")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        is_now = os.fstat(file.fileno())
        if not stat.S_ISREG(is_now.st_mode):
            raise UserError(f"{path}: is not a file")
        if is_now.st_uid != os.getuid():
            raise UserError(f"{path}: belongs to another user (user {is_now.st_uid})")
        if is_now.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UserError(f"{path}: others may write to it; `chmod go-w {path}` changes that")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UserError(f"{path}: is larger than {_LARGEST} bytes")
    return content


def standing_of(path: Path, content: bytes) -> Standing:
    """Return the trust in a file with this content."""
    known = (Standing.TRUSTED, Standing.PASSED_OVER)
    return next((one for one in known if _note(one, path, content).is_file()), Standing.UNKNOWN)


def remember(path: Path, content: bytes, standing: Standing) -> None:
    """Store the trust in a file with this content; ``UNKNOWN`` deletes it."""
    try:
        for one in (Standing.TRUSTED, Standing.PASSED_OVER):
            _note(one, path, content).unlink(missing_ok=True)
        if standing is not Standing.UNKNOWN:
            note = _note(standing, path, content)
            note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(note, os.fsencode(path) + b"\n")
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be written: {error.strerror}") from None


def _note(standing: Standing, path: Path, content: bytes) -> Path:
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + content).hexdigest()
    return user_folder() / standing.value / digest
