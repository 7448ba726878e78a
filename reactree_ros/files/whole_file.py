"""Files that are never half-written after a kill or on a full disk: the old one stays until the new one is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file in one go, a text as UTF-8; when this returns, it is on disk. Raises OSError."""
    with _finished(path) as new, new.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to write into, which gets its name at the end of ``with``, or is removed after an error."""
    with _finished(path) as new:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        yield new


@contextlib.contextmanager
def _finished(path: Path) -> Iterator[Path]:
    new = path.with_name(f"{path.name}.unfinished")
    try:
        yield new
        new.replace(path)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def home() -> Path:
    """Return the user's home; a relative ``$HOME`` is ignored: it would lead into somebody else's folder."""
    folder = Path.home()
    if not folder.is_absolute():
        import pwd  # Windows has none

        folder = Path(pwd.getpwuid(os.getuid()).pw_dir)
    return folder


def user_state() -> Path:
    """Return the package's folder for what is to last: in ``$XDG_STATE_HOME`` if absolute, or ``~/.local/state``."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else home() / ".local/state") / "reactree"
