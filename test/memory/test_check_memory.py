"""The check for authors of stores passes what keeps to the port and names what does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from word_hash_embedder import WordHashEmbedder

from reactree_ros.memory.check import check_memory
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import Counts
from reactree_ros.memory.spec import NamedMemory, memory
from reactree_ros.memory.stores.sqlite import SPEC, SqliteMemory


def named(path: Path, kind: type[SqliteMemory] = SqliteMemory, **changes: Any) -> NamedMemory:
    """The SQLite store with an embedder that needs nothing installed."""
    spec = dataclasses.replace(
        SPEC,
        make=lambda settings: kind(settings.path, WordHashEmbedder()),
        prepare=lambda settings: None,
        **changes,
    )
    return dataclasses.replace(memory(path), spec=spec)


def test_the_store_in_sqlite_keeps_to_the_port(tmp_path: Path) -> None:
    assert check_memory(named(tmp_path / "memory.db")) == []


class Forgetful(SqliteMemory):
    def add_run(self, experiences: Any) -> None:
        super().add_run(experiences[:1])


class Reversed(SqliteMemory):
    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        yield from list(super().ranked(text, seed=seed))[::-1]


class Again(SqliteMemory):
    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        for one in super().ranked(text, seed=seed):
            yield from (one, one)


class Lenient(SqliteMemory):
    def add_run(self, experiences: Any) -> None:
        if experiences:
            super().add_run(experiences)


class Miscounted(SqliteMemory):
    def counts(self) -> Counts:
        return dataclasses.replace(super().counts(), runs=0)


class Halving(SqliteMemory):
    """A run that cannot be written as a whole is there in part."""

    def add_run(self, experiences: Any) -> None:
        if len(experiences) == 2:
            super().add_run(experiences[:1])
        super().add_run(experiences)


class Own(SqliteMemory):
    """Does not find what others add while it is open."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._first: list[Experience] | None = None

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        if self._first is None:
            self._first = list(self)
        yield from (one for one in super().ranked(text, seed=seed) if one[1] in self._first)


class Immortal(SqliteMemory):
    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Forgetful, "yields others or another order"),
        (Reversed, "ranked does not yield the most similar first"),
        (Again, "ranked does not yield each one once"),
        (Lenient, "an empty run raises no ValueError"),
        (Miscounted, "counts gives"),
        (Halving, "yields others or another order"),
        (Own, "who has it open does not find what another one added"),
        (Immortal, "add_run of a closed memory raises no EpisodicMemoryError"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_does_not_keep_to_the_port_is_named(tmp_path: Path, kind: type[SqliteMemory], problem: str) -> None:
    problems = check_memory(named(tmp_path / "memory.db", kind))
    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"exists": lambda settings: True}, "exists is true before"),
        ({"exists": lambda settings: False}, "exists is false after"),
        ({"diagnose": lambda settings: iter(())}, "diagnose says nothing"),
        ({"diagnose": lambda settings: iter(["fine"])}, "no Diagnosis"),
    ],
)
def test_what_a_spec_says_wrongly_is_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    problems = check_memory(named(tmp_path / "memory.db", **changes))
    assert any(problem in one for one in problems), problems
