"""The runs that a page shows: one record or a folder of them, and what a table says of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from reactree_ros.errors import UserError
from reactree_ros.record.reader import SUFFIXES, UNREADABLE, RecordError, is_record, opened
from reactree_ros.record.schema import SCHEMA, Event
from reactree_ros.verdict import verdict_of

#: Bytes at the end of a record in which its end is looked for first.
TAIL = 1 << 16


@dataclass
class Runs:
    """The records under a path; what was said of one is kept until its file changes.

    Attributes:
        path: A record, or a folder in which records are looked for at any depth.
    """

    path: Path
    _known: dict[Path, tuple[tuple[int, int], Event | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise UserError(f"{self.path}: is not there; name a record or a folder of records")
        if self.path.is_file() and not is_record(self.path):
            raise RecordError(f"{self.path}: is no record of a run; `reactree run --save` writes one")

    @property
    def alone(self) -> bool:
        """Whether it is one record, not a folder."""
        return self.path.is_file()

    def find(self, run: str) -> Path | None:
        """Return the record of a name that :meth:`table` gave; None where there is none."""
        return dict(self._named()).get(run)

    def table(self) -> list[Event]:
        """Return a line for each record: its name, who did what, how it ended; the latest first."""
        lines = [{"run": name} | line for name, path in self._named() if (line := self._line(path)) is not None]
        return sorted(lines, key=lambda line: str(line["started"]), reverse=True)

    def _named(self) -> Iterator[tuple[str, Path]]:
        if self.alone:
            yield self.path.name, self.path
            return
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name.endswith(SUFFIXES):
                    path = Path(folder, name)
                    yield path.relative_to(self.path).as_posix(), path

    def _line(self, path: Path) -> Event | None:
        try:
            found = path.stat()
            version = (found.st_mtime_ns, found.st_size)
            known = self._known.get(path)
            if known is None or known[0] != version:
                known = self._known[path] = (version, _summary(path))
        except UNREADABLE:  # it has gone meanwhile
            return None
        return known[1]


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _summary(path: Path) -> Event | None:
    """Read a record's first and last lines; None where it is no record."""
    with opened(path) as file:
        header = _event(file.readline())
        if header is None or header.get("e") != "run" or header.get("schema") != SCHEMA:
            return None
        last = list(_last_events(file))
    end = next((event for event in last if event["e"] == "end"), {})
    counts: Mapping[str, Any] = end.get("result") or next((event for event in last if "decisions" in event), {})
    model, planner = header.get("llm") or {}, header.get("planner") or {}
    return {
        "started": header.get("started", ""),
        "instruction": header.get("instruction", ""),
        "task": header.get("task_id"),
        "planner": planner.get("name", ""),
        "llm": model.get("llm", ""),
        "parent": (header.get("parent") or {}).get("id"),
        "end": counts.get("end") or "no end yet",
        "verdict": (verdict := verdict_of(end.get("result"))).as_dict(),
        "cause": verdict.because,
        "gsr": counts.get("gsr"),
        "ssr": counts.get("ssr"),
        "decisions": counts.get("decisions"),
        "steps": counts.get("steps"),
        "nodes": counts.get("agent_nodes"),
        "seconds": counts.get("seconds", last[0]["t"] if last else None),
    }


def _last_events(file: BinaryIO) -> Iterator[Event]:
    """Yield the whole events in the last part of a record, the last one first."""
    size = file.seek(0, os.SEEK_END)
    tail, begin = b"", size
    while begin and tail.count(b"\n") < 2:  # until the last line is whole
        begin = max(0, 2 * begin - size - TAIL)
        file.seek(begin)
        tail = file.read(size - begin)
    lines = tail.split(b"\n")[1 if begin else 0 : -1]
    for line in reversed(lines):
        event = _event(line)
        if event is not None and "e" in event:
            yield event
