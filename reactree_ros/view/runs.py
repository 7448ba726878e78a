"""The runs that a page shows: one record or a folder of them, and a table row for each."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LARGEST_FILE, LONGEST_LINE, in_a_line, parse_json, shown
from reactree_ros.record.checking import check_form
from reactree_ros.record.reader import OPENING, SUFFIXES, UNREADABLE, RecordError, opened, opened_as, read_header
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import verdict_of

#: Bytes at the end of a record that are searched first for its last event.
TAIL = 1 << 16
#: Flags to open a file in a folder without following links.
_INSIDE = getattr(os, "O_NOFOLLOW", 0)


@dataclass
class Runs:
    """The records at a path or in its folders; a table row is kept until its file changes.

    A folder shows only records inside of it: no link leads out.
    """

    path: Path
    _known: dict[Path, tuple[tuple[int, int], Event | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise UserError(f"{self.path}: does not exist; name a record or a folder of records")
        if not self.path.is_dir():
            self.open(self.path).close()

    @property
    def alone(self) -> bool:
        return self.path.is_file()

    def find(self, run: str) -> Path | None:
        path = dict(self._named()).get(run)
        if path is not None:
            with suppress(RecordError):
                self.open(path).close()
                return path
        return None

    def open(self, path: Path) -> BinaryIO:
        file = self._opened(path)
        try:
            read_header(path, file)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def table(self) -> list[Event]:
        """Return a row for each record, the latest first: its name, task, planner and ending.

        A file that looks like a record but cannot be shown has a row, too, with its ``problem``.
        """
        lines = [{"run": name} | line for name, path in self._named() if (line := self._line(path)) is not None]
        return sorted(lines, key=lambda line: str(line["started"]), reverse=True)

    def _named(self) -> Iterator[tuple[str, Path]]:
        if self.alone:
            yield _shown(self.path.name), self.path
            return
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name.endswith(SUFFIXES):
                    path = Path(folder, name)
                    yield _shown(path.relative_to(self.path).as_posix()), path

    def _opened(self, path: Path) -> BinaryIO:
        # in a folder, only what is really inside, even if links change meanwhile
        try:
            if not self.path.is_dir():
                return opened(path)
            folder, real = self.path.resolve(), path.resolve(strict=True)
            if not real.is_relative_to(folder):
                raise RecordError(f"{path}: is a link out of {self.path}, which is not followed; view {real} itself")
            return opened_as(_descriptor(folder, real.relative_to(folder).parts))
        except (OSError, RuntimeError) as error:  # RuntimeError: circular links before Python 3.13
            raise RecordError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error

    def _line(self, path: Path) -> Event | None:
        try:
            found = path.lstat()
        except OSError:  # it was deleted meanwhile
            return None
        version, (known, line) = (found.st_mtime_ns, found.st_size), self._known.get(path, (None, None))
        if known != version:
            line = self._looked(path)
            self._known[path] = version, line
        return line

    def _looked(self, path: Path) -> Event | None:
        # None of another kind of file, such as a bench's results
        try:
            with self._opened(path) as file:
                if _is_another(file):
                    return None
                header = read_header(path, file)
                return _summary(header, list(_last_events(file)))
        except RecordError as error:
            return _odd(str(error).removeprefix(f"{path}: "))
        except (*UNREADABLE, ValueError) as error:
            return _odd(f"cannot be read: {in_a_line(error)}")


def _shown(name: str) -> str:
    # a name that a page can ask for, with a sign for bytes that are not text
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _descriptor(folder: Path, parts: Sequence[str]) -> int:
    # from folder to folder, so that no link created meanwhile is followed
    if os.open not in os.supports_dir_fd:
        return os.open(folder.joinpath(*parts), OPENING)
    at = os.open(folder, OPENING)
    for part in parts:
        try:
            at, before = os.open(part, OPENING | _INSIDE, dir_fd=at), at
        except BaseException:
            os.close(at)
            raise
        os.close(before)
    return at


def _is_another(file: BinaryIO) -> bool:
    # a file of JSON lines that contains something else than events
    first = None
    with suppress(ValueError):
        first = parse_json(file.readline(LONGEST_LINE), halves=True)
    file.seek(0)
    return isinstance(first, dict) and "e" not in first


def _odd(problem: str) -> Event:
    # the row of a file that looks like a record but cannot be shown
    verdict = verdict_of(None).as_dict() | {"words": "cannot be read", "status": "failure"}
    return {"started": "", "problem": problem, "cause": problem, "verdict": verdict}


def _summary(header: Event, last: Sequence[Event]) -> Event:
    # the table row of a record from its header and last events, the last one first
    end = next((event for event in last if event["e"] == "end"), {})
    counts: Mapping[str, Any] = end.get("result") or next((event for event in last if "decisions" in event), {})
    verdict = verdict_of(end.get("result"))
    return {
        "started": header["started"],
        "instruction": header["instruction"],
        "task": header["task_id"],
        "planner": header["planner"]["name"],
        "llm": header["llm"].get("llm", ""),
        "parent": (header.get("parent") or {}).get("id"),
        "end": counts.get("end") or "no end yet",
        "verdict": verdict.as_dict(),
        "cause": verdict.because,
        "gsr": counts.get("gsr"),
        "ssr": counts.get("ssr"),
        "decisions": counts.get("decisions"),
        "steps": counts.get("steps"),
        "nodes": counts.get("agent_nodes"),
        "seconds": counts.get("seconds", last[0]["t"] if last else None),
    }


def _last_events(file: BinaryIO) -> Iterator[Event]:
    for line in reversed(_tail(file).split(b"\n")[1:-1]):
        try:
            event = parse_json(line, halves=True)
            check_form(event)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{shown(line)} is not an event") from error
        yield event


def _tail(file: BinaryIO) -> bytes:
    # the last part of a file, including its whole last line, and the part before that line
    if isinstance(file, gzip.GzipFile):  # a gzip file cannot seek to its end
        return _tail_of_packed(file)
    size = file.seek(0, os.SEEK_END)
    tail, begin = b"", size
    while begin and tail.count(b"\n") < 2:  # until the last line is complete
        if len(tail) > LONGEST_LINE:
            raise ValueError(f"its last line is longer than {LONGEST_LINE >> 20} MiB")
        begin = max(0, 2 * begin - size - TAIL)
        file.seek(begin)
        tail = file.read(size - begin)
    return tail if begin else b"\n" + tail


def _tail_of_packed(file: gzip.GzipFile) -> bytes:
    tail, read = b"\n", 0
    while part := file.read(TAIL):
        read += len(part)
        if read > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MiB")
        tail += part
        if len(tail) > 2 * LONGEST_LINE:
            tail = tail[-LONGEST_LINE:]
    return tail
