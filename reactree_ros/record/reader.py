"""Reads records: a whole one, one that a kill has torn, or one that is still written."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from reactree_ros.errors import UserError
from reactree_ros.read_back import LONGEST_LINE
from reactree_ros.record.checking import Check, NoRecord
from reactree_ros.record.schema import Event

#: How long a follower sleeps where nothing new is written, in seconds.
FOLLOW_PERIOD = 0.1
#: How the name of a record ends; gzip may have packed one whose run has ended.
SUFFIXES = (".jsonl", ".jsonl.gz")
#: What is raised where a file cannot be read, or is not packed as a whole.
UNREADABLE = (OSError, EOFError, zlib.error)
_PACKED = b"\x1f\x8b"


class RecordError(UserError, ValueError):
    """A file is no record, or one that cannot be used; the message says which, where and why."""


@dataclass(frozen=True)
class Record:
    """What was read of a run's record.

    Attributes:
        events: Its events, in order; the first is its ``run``.
        path: Where it was read from; None: it was never in a file.
        torn: Whether its last line was cut off, as a kill or a full disk leaves it.
    """

    events: Sequence[Event]
    path: Path | None = None
    torn: bool = False

    @property
    def run(self) -> Event:
        """What the run is."""
        return self.events[0]

    @property
    def end(self) -> Event | None:
        """What came of it; None where it was broken off, or goes on."""
        return self.events[-1] if self.events[-1]["e"] == "end" else None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return str(self.path or self.run["id"])


def read_record(path: str | Path) -> Record:
    """Read a record, as far as it is whole.

    Raises:
        RecordError: It cannot be read, is no record, is of a later version, or a line other than the last is broken.
    """
    path, check, events, line = Path(path), Check(), list[Event](), b""
    try:
        with opened(path) as file:
            while (line := file.readline(LONGEST_LINE + 1)).endswith(b"\n") or len(line) > LONGEST_LINE:
                events.append(check.event(line))
    except IsADirectoryError:
        raise RecordError(f"{path}: is a folder; name a run's record, a .jsonl file in it") from None
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise _broken(path, check, error) from None
    if not events:
        raise _no_record(path)
    return Record(events, path, torn=bool(line))


def follow(path: str | Path, *, goes_on: Callable[[], bool]) -> Iterator[Event]:
    """Yield a record's events as they are written, from its first on, until its ``end``.

    Args:
        path: The record; it is waited for.
        goes_on: Asked whenever nothing new is there; where it says no, that is all.

    Raises:
        RecordError: It is no record, or cannot be read.
    """
    path, check, rest = Path(path), Check(), b""
    while not path.exists():
        if not goes_on():
            return
        time.sleep(FOLLOW_PERIOD)
    try:
        with opened(path) as file:
            while True:
                rest += (part := file.readline(LONGEST_LINE + 1))
                if rest.endswith(b"\n") or len(rest) > LONGEST_LINE:
                    event, rest = check.event(rest), b""
                    yield event
                    if event["e"] == "end":
                        return
                elif not part:
                    if not goes_on():
                        return
                    time.sleep(FOLLOW_PERIOD)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise _broken(path, check, error) from None


def opened(path: Path) -> BinaryIO:
    """Open a record for reading; what comes of one that is packed is what it was before.

    Raises:
        OSError: It cannot be opened.
    """
    with path.open("rb") as file:
        packed = file.read(len(_PACKED)) == _PACKED
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def records_in(paths: Sequence[Path]) -> list[Path]:
    """Return the records that paths name: files as they are, of folders all that is in them.

    Raises:
        RecordError: A path is not there, or a folder holds none.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        named = (one for suffix in SUFFIXES for one in path.rglob(f"*{suffix}"))
        inside = sorted(one for one in named if is_record(one))
        if not inside:
            raise RecordError(f"{path}: holds no record of a run; `reactree run --save FILE.jsonl` writes one")
        found += inside
    return found


def is_record(path: Path) -> bool:
    """Whether a file begins as a record does."""
    try:
        with opened(path) as file:
            return file.read(10).replace(b" ", b"").startswith(b'{"e":"run"')
    except UNREADABLE:
        return False


def _broken(path: Path, check: Check, error: ValueError) -> RecordError:
    if isinstance(error, NoRecord):
        return RecordError(f"{path}: {error}") if str(error) else _no_record(path)
    return RecordError(f"{path}: line {check.lines + 1} {error}")


def _unreadable(path: Path, error: BaseException) -> RecordError:
    return RecordError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _no_record(path: Path) -> RecordError:
    return RecordError(f"{path}: is no record of a run; `reactree run --save FILE.jsonl` writes one")
