"""The memory ``notebook``: one file with a line of JSON for each run; examples by the words that subgoals share."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from reactree_ros.agent.turns import turn_from_dict, turn_to_dict
from reactree_ros.files.read_back import append_line, bytes_of, cut_torn_line, in_a_line, parse_json
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import Counts, EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.plugins.installation import Diagnosis, Level
from reactree_ros.plugins.settings import Settings


class NotebookSettings(Settings):
    """Which notebook."""

    path: Path = Field(default=Path("notebook.jsonl"), description="the file")


class Notebook(EpisodicMemory):
    """Reads the file anew for each question."""

    def __init__(self, settings: NotebookSettings) -> None:
        self._path, self._closed = settings.path, False
        try:
            self._path.touch()
        except OSError as error:
            raise EpisodicMemoryError(f"{self._path}: cannot be made ({error.strerror}); name another file") from error

    @property
    def path(self) -> Path:
        return self._path

    def add_run(self, experiences: Sequence[Experience]) -> None:
        if not experiences:
            raise ValueError("a run has at least one experience")
        line = json.dumps([_to_dict(one) for one in experiences])
        self._check_open()
        with self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            cut_torn_line(self._path)
            append_line(file, line)

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        found = [(_likeness(text, one.subgoal), one) for one in self]
        yield from sorted(found, key=lambda each: (-each[0], _drawn(each[1], seed)))

    def __iter__(self) -> Iterator[Experience]:
        return iter([one for run in self._runs() for one in run])

    def counts(self) -> Counts:
        runs = self._runs()
        found = [one for run in runs for one in run]
        by_end, by_name = Counter(one.end for one in found), Counter(one.task_name for one in found)
        return Counts(
            experiences=len(found),
            runs=len(runs),
            subgoals=len({one.subgoal for one in found}),
            by_end={end: by_end[end] for end in End},
            by_task_name=dict(sorted(by_name.items())),
        )

    def close(self) -> None:
        super().close()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise EpisodicMemoryError(f"{self._path}: is closed")

    def _runs(self) -> list[list[Experience]]:
        self._check_open()
        lines = bytes_of(self._path).split(b"\n")[:-1]
        try:
            return [[_from_dict(one) for one in parse_json(line, halves=True)] for line in lines]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise EpisodicMemoryError(f"{self._path}: a line is damaged: {in_a_line(error)}") from error


def _to_dict(one: Experience) -> dict[str, Any]:
    plain = {name: getattr(one, name) for name in ("subgoal", "task_id", "task_name", "decision", "depth")}
    return {**plain, "end": one.end.value, "turns": [turn_to_dict(turn) for turn in one.turns]}


def _from_dict(values: dict[str, Any]) -> Experience:
    turns = tuple(map(turn_from_dict, values["turns"]))
    return Experience(**{**values, "end": End(values["end"]), "turns": turns})


def _likeness(text: str, other: str) -> float:
    ours, theirs = (Counter(re.findall(r"\w+", one.lower())) for one in (text, other))
    return (ours & theirs).total() / max(1, (ours | theirs).total())


def _drawn(one: Experience, seed: int) -> bytes:
    return hashlib.blake2b(repr((seed, one)).encode(), digest_size=8).digest()


def _diagnose(settings: NotebookSettings) -> Iterator[Diagnosis]:
    lines = bytes_of(settings.path).count(b"\n")
    yield Diagnosis("notebook", Level.RIGHT, f"{settings.path}: {lines} runs")


SPEC = MemorySpec(
    name="notebook",
    summary="one file with a line for each run; examples by words in common",
    settings=NotebookSettings,
    make=Notebook,
    exists=lambda settings: settings.path.exists(),
    diagnose=_diagnose,
)
