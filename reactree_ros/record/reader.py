"""Reads records: a whole one, one that a kill has torn, or one that is still written.

One that this user's own program wrote here is told from a stranger's by a keyed digest of its header.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE
from reactree_ros.files.whole_file import user_state
from reactree_ros.record.checking import Check, NoRecord
from reactree_ros.record.schema import Event

_log = logging.getLogger(__name__)
#: How long a follower sleeps where nothing new is written, in seconds.
FOLLOW_PERIOD = 0.1
#: How the name of a record ends; gzip may have packed one whose run has ended.
SUFFIXES = (".jsonl", ".jsonl.gz")
#: What is raised where a file cannot be read, or is not packed as a whole.
UNREADABLE = (OSError, EOFError, zlib.error)
_PACKED = b"\x1f\x8b"
_PART = 1 << 20
#: Bytes of the key of this user's records.
_LENGTH = 32
#: How a file is opened that somebody else may have put there: a pipe is not waited for.
OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class RecordError(UserError, ValueError):
    """A file is not a record, or an unusable one; the message names the file, the place and the reason."""


@dataclass(frozen=True)
class Record:
    events: Sequence[Event]  # its events, in order; the first is its ``run``
    path: Path | None = None  # where it was read from; None: it was never in a file
    torn: bool = False  # whether its last line is truncated, as after a kill or on a full disk

    @property
    def run(self) -> Event:
        return self.events[0]

    @property
    def end(self) -> Event | None:
        """Its ``end`` event; None if the run was broken off or has not ended."""
        return self.events[-1] if self.events[-1]["e"] == "end" else None

    @property
    def name(self) -> str:
        return str(self.path or self.run["id"])


class Reading:
    """Reads a record, perhaps while a run still writes it; its file is closed at the end of ``with``.

    ``read`` reads a line, or raises ValueError; None: each is checked, also against those before it.
    """

    def __init__(self, path: Path, file: BinaryIO, read: Callable[[bytes], Event] | None = None) -> None:
        self._path, self._file, self._event = path, file, read or Check().event
        self._lines, self._rest, self._size = 0, b"", -1
        self._problem: RecordError | None = None
        self.ended = False  # whether the run's end was read

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def torn(self) -> bool:
        return bool(self._rest)

    def grown(self) -> bool:
        return self._problem is not None or os.fstat(self._file.fileno()).st_size != self._size

    def more(self, most: int) -> list[tuple[bytes, Event]]:
        """Read the whole lines that are there, about so many bytes of them; returns each with its event."""
        if self._problem is not None:
            raise self._problem
        found: list[tuple[bytes, Event]] = []
        try:
            self._read(found, most)
        except UNREADABLE as error:
            self._problem = _unreadable(self._path, error)
        except ValueError as error:
            self._problem = _broken(self._path, self._lines, error)
        if self._problem is not None and not found:
            raise self._problem
        return found

    def _read(self, found: list[tuple[bytes, Event]], most: int) -> None:
        size, left = os.fstat(self._file.fileno()).st_size, most
        while left > 0:
            part = self._file.readline(LONGEST_LINE + 1 - len(self._rest))
            if not part:
                self._size = size
                return
            self._rest, left = self._rest + part, left - len(part)
            if self._rest.endswith(b"\n") or len(self._rest) > LONGEST_LINE:
                event = self._event(self._rest)
                found.append((self._rest, event))
                self._rest, self._lines, self.ended = b"", self._lines + 1, event["e"] == "end"


def read_record(path: str | Path, file: BinaryIO | None = None) -> Record:
    """Read a record, as far as it is whole; ``file`` is the record if it is open already, and is closed here."""
    path = Path(path)
    try:
        reading = Reading(path, file or opened(path))
    except IsADirectoryError:
        raise RecordError(f"{path}: is a folder; name a run's record, a .jsonl file in it") from None
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    events: list[Event] = []
    with reading:
        while reading.grown() and (found := reading.more(_PART)):
            events += [event for _, event in found]
    if not events:
        raise _no_record(path)
    return Record(events, path, torn=reading.torn)


def read_header(path: Path, file: BinaryIO) -> Event:
    try:
        line = file.readline(LONGEST_LINE + 1)
        if not line.endswith(b"\n") and len(line) <= LONGEST_LINE:
            raise NoRecord("its first line is not whole" if line else "it is empty")
        return Check().event(line)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise _broken(path, 0, error) from None


def follow(path: str | Path, *, goes_on: Callable[[], bool]) -> Iterator[Event]:
    """Yield a record's events as they are written, from its first on, until its ``end``; it is waited for.

    ``goes_on`` is called when there is no new event; if it returns False, following stops.
    """
    path = Path(path)
    while not path.exists():
        if not goes_on():
            return
        time.sleep(FOLLOW_PERIOD)
    try:
        reading = Reading(path, opened(path))
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    with reading:
        while not reading.ended:
            found = reading.more(1)
            yield from (event for _, event in found)
            if not found and not reading.grown():
                if not goes_on():
                    return
                time.sleep(FOLLOW_PERIOD)


def opened(path: Path) -> BinaryIO:
    """Open a record for reading, unpacked; an OSError if it is not a file: a pipe or a device would never end."""
    return opened_as(os.open(path, OPENING))


def opened_as(descriptor: int) -> BinaryIO:
    file = os.fdopen(descriptor, "rb") if stat.S_ISREG(mode := os.fstat(descriptor).st_mode) else None
    if file is None:
        os.close(descriptor)
        kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
        raise kind(errno.EINVAL, "it is not a file, but a folder, a pipe or a device")
    packed = file.read(len(_PACKED)) == _PACKED
    file.seek(0)
    if not packed:
        return file
    unpacked = gzip.GzipFile(fileobj=file)
    unpacked.myfileobj = file  # type: ignore[assignment]  # it is closed with the other
    return unpacked  # type: ignore[return-value]


def records_in(paths: Sequence[Path]) -> list[Path]:
    """Return the records that paths name: each file, and all records in each folder, which must hold one."""
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
    try:
        with opened(path) as file:
            begin = file.read(13).removeprefix(codecs.BOM_UTF8)
            return begin.replace(b" ", b"").startswith(b'{"e":"run"')
    except UNREADABLE:
        return False


def _broken(path: Path, lines: int, error: ValueError) -> RecordError:
    if isinstance(error, NoRecord):
        return RecordError(f"{path}: {error}") if str(error) else _no_record(path)
    return RecordError(f"{path}: line {lines + 1} {error}")


def _unreadable(path: Path, error: BaseException) -> RecordError:
    return RecordError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _no_record(path: Path) -> RecordError:
    return RecordError(f"{path}: is not a record of a run; `reactree run --save FILE.jsonl` writes one")


# ---------------------------------------------------------------------- whose record it is


def sealed(header: Event) -> Event:
    """Return a header with its digest; without one if no key can be kept for this user alone."""
    digest = _digest(header, make=True)
    return {**header, "seal": digest} if digest else header


def is_own(header: Event) -> bool:
    """Whether this user's own program wrote a header on this machine, and nobody has changed it since."""
    digest = _digest({name: value for name, value in header.items() if name != "seal"})
    return bool(digest) and hmac.compare_digest(digest.encode(), header.get("seal", "").encode(errors="replace"))


def _digest(header: Event, *, make: bool = False) -> str:
    key, machine = _key(make=make), b""
    with suppress(OSError):  # a home may be shared by several
        machine = Path("/etc/machine-id").read_bytes()
    return hmac.digest(key, machine + json.dumps(header, sort_keys=True).encode(), hashlib.sha256).hex() if key else ""


def _key(*, make: bool) -> bytes:
    path = user_state() / "record.key"
    try:
        if make and not path.exists():
            _make(path)
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            key, is_now = file.read(_LENGTH + 1), os.fstat(file.fileno())
    except OSError:
        return b""
    if len(key) == _LENGTH and is_now.st_uid == os.getuid() and not is_now.st_mode & 0o077:
        return key
    _log.warning("%s: is not a key that only this user can read; delete it, and a new one is made", path)
    return b""


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=path.parent) as new:
        new.write(secrets.token_bytes(_LENGTH))
        new.flush()
        os.fsync(new.fileno())
        with suppress(FileExistsError):  # another process was first
            os.link(new.name, path)
