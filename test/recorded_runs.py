"""Runs that are recorded in memory, as they would be read from a file."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from doubles import Clock, ScriptedModel, ScriptedWorld

from reactree_ros.episode import Builder, Episode
from reactree_ros.episode.player import replay
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import Record
from reactree_ros.record.writer import Recorder, encoded


class Kept:
    """Keeps the lines of a record."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, event: dict[str, Any]) -> None:
        self.lines.append(encoded(event).decode())

    @property
    def record(self) -> Record:
        return Record([json.loads(line) for line in self.lines])

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.record.events if event["e"] == kind]


def recorded_episode(
    script: Mapping[str, Sequence[str]], *, name: str = "reactree_wm", builder: Builder | None = None, **given: Any
) -> tuple[Episode, Kept]:
    """An episode of a script, with its record."""
    kept = Kept()
    given = {"model": ScriptedModel(script), "world": ScriptedWorld(), "clock": Clock()} | given
    episode = Episode(
        given.pop("instruction", "root"),
        planner=builder or planner(name),
        record=Recorder(kept.write),
        **given,
    )
    return episode, kept


def assert_replays(kept: Kept, builder: Builder | None = None) -> None:
    """A record is played again identically."""
    replayed = replay(kept.record, builder=builder)
    assert replayed.identical, replayed.difference
    assert replayed.events == replayed.recorded == len(kept.lines)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # it would be cut, and kept
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode
