"""The database of an episodic memory: turns and vectors.

A run is written in one transaction, so that after a kill it is there as a whole or not at all. ``synchronous=FULL``: a
commit waits for the disk, once per run, which is nothing beside the minutes that a run takes, and a run that was added
outlives a power failure.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactree_ros.agent.turns import Turn, text_in, turn_from_dict, turn_to_dict
from reactree_ros.files.read_back import parse_json, shown
from reactree_ros.memory.embedding import Embedder
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import Counts, EpisodicMemoryError
from reactree_ros.memory.sqlite_file import SqliteFile

ENDS = (End.SUCCESS, End.FAILURE, End.EXPAND)  # an end is stored as its position here
NUMBER = {end: number for number, end in enumerate(ENDS)}
VECTOR = np.dtype("<f4")
_UNIT_TOLERANCE = 1e-3
_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, added REAL NOT NULL)",
    "CREATE TABLE subgoal (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL UNIQUE, embedding BLOB NOT NULL)",
    f"""CREATE TABLE experience (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES run,
        subgoal INTEGER NOT NULL REFERENCES subgoal,
        "end" INTEGER NOT NULL CHECK ("end" BETWEEN 0 AND {len(ENDS) - 1}),
        digest INTEGER NOT NULL,
        task_id TEXT NOT NULL,
        task_name TEXT NOT NULL,
        decision INTEGER NOT NULL,
        depth INTEGER NOT NULL,
        turns TEXT NOT NULL)""",
    'CREATE INDEX experience_kind ON experience ("end", task_name)',  # counting reads this instead of the texts
    "CREATE INDEX experience_digest ON experience (digest)",
    "CREATE TABLE routine (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",
)
EXPERIENCES = (
    'SELECT e.id, s.text, e.turns, e."end", e.task_id, e.task_name, e.decision, e.depth '
    "FROM experience e JOIN subgoal s ON s.id = e.subgoal"
)


class ExperienceStore(SqliteFile):
    what, application_id, version, schema = "an episodic memory", 0x52635472, 3, _SCHEMA  # "RcTr"
    error = EpisodicMemoryError

    def __init__(self, path: Path, embedder: Embedder, *, busy_timeout: float) -> None:
        self._embedder = embedder
        self._routines: Mapping[str, str] = {}
        self._routines_version: int | None = None
        super().__init__(path, busy_timeout=busy_timeout)

    def _make(self, database: sqlite3.Connection) -> None:
        super()._make(database)
        made_with = (("embedder", self._embedder.name), ("dimension", str(self._embedder.dimension)))
        database.executemany("INSERT INTO meta VALUES (?, ?)", made_with)

    def _prepare(self) -> None:
        super()._prepare()
        meta = dict(self._writer.execute("SELECT key, value FROM meta"))
        name, dimension = self._embedder.name, self._embedder.dimension
        if meta.get("embedder") != name or meta.get("dimension") != str(dimension):
            raise EpisodicMemoryError(
                f"{self.path}: its embeddings are by {meta.get('embedder')!r} with {meta.get('dimension')} dimensions, "
                f"not by {name!r} with {dimension}: open it with that embedder, or export and import"
            )

    def add(self, run: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]) -> None:
        with self._writing() as database:
            self._insert(database, run, vectors)

    def _insert(
        self, database: sqlite3.Connection, run: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]
    ) -> int:
        run_id = database.execute("INSERT INTO run (added) VALUES (?) RETURNING id", (time.time(),)).fetchone()[0]
        for subgoal, vector in vectors.items():
            row = subgoal, np.ascontiguousarray(vector, dtype=VECTOR).tobytes()
            database.execute("INSERT OR IGNORE INTO subgoal (text, embedding) VALUES (?, ?)", row)
        for one in run:
            database.execute(
                'INSERT INTO experience (run, subgoal, "end", digest, task_id, task_name, decision, depth, turns) '
                "VALUES (?, (SELECT id FROM subgoal WHERE text = ?), ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(run_id, one.subgoal, NUMBER[one.end], digest_of(one), one.task_id, one.task_name),
                    *(one.decision, one.depth, turns_column(one)),
                ),
            )
        return int(run_id)

    def routines(self) -> Mapping[str, str]:
        with self._reading() as database:
            (version,) = database.execute("PRAGMA data_version").fetchone()
            if version != self._routines_version:
                self._routines_version = version
                routines = dict(database.execute("SELECT name, text FROM routine ORDER BY name"))
                self._routines = self._routines if routines == self._routines else routines
            return self._routines

    def change_routine(self, name: str, change: Callable[[str | None], str | None]) -> None:
        with self._writing() as database:
            row = database.execute("SELECT text FROM routine WHERE name = ?", (name,)).fetchone()
            if (text := change(None if row is None else row[0])) is None:
                database.execute("DELETE FROM routine WHERE name = ?", (name,))
            else:
                database.execute("INSERT OR REPLACE INTO routine VALUES (?, ?)", (name, text))

    def unknown_subgoals(self, subgoals: Iterable[str]) -> list[str]:
        known = "SELECT 1 FROM subgoal WHERE text = ?"
        with self._reading() as database:
            return [one for one in dict.fromkeys(subgoals) if database.execute(known, (one,)).fetchone() is None]

    def _vectors(self, rows: Sequence[tuple[int, Any]]) -> NDArray[np.float32]:
        size = self._embedder.dimension * VECTOR.itemsize
        damaged = f"{self.path}: the embedding in row {{}} of table subgoal is damaged: {{}}"
        for number, blob in rows:
            found = len(blob) if isinstance(blob, bytes) else type(blob).__name__
            if found != size:
                raise EpisodicMemoryError(damaged.format(number, f"{size} bytes expected, found {found}"))
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), VECTOR).reshape(len(rows), self._embedder.dimension)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        for wrong in np.flatnonzero(~(np.abs(lengths - 1) < _UNIT_TOLERANCE)):
            raise EpisodicMemoryError(damaged.format(rows[int(wrong)][0], "its length is not 1"))
        return vectors

    def fetch(self, ids: Sequence[int]) -> list[Experience]:
        with self._reading() as database:
            rows = database.execute(f"{EXPERIENCES} WHERE e.id IN ({','.join('?' * len(ids))})", ids).fetchall()
        found = {row[0]: self._experience(row) for row in rows}
        if missing := [number for number in ids if number not in found]:
            raise EpisodicMemoryError(f"{self.path}: experience {missing[0]} is gone: another program deleted it")
        return [found[number] for number in ids]

    def __iter__(self) -> Iterator[Experience]:
        last = 0
        while True:
            with self._reading() as database:
                rows = database.execute(f"{EXPERIENCES} WHERE e.id > ? ORDER BY e.id LIMIT 256", (last,)).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield from map(self._experience, rows)

    def __contains__(self, experience: object) -> bool:
        if not isinstance(experience, Experience):
            return False
        with self._reading() as database:
            rows = database.execute(f"{EXPERIENCES} WHERE e.digest = ?", (digest_of(experience),)).fetchall()
        return any(self._experience(row) == experience for row in rows)

    def counts(self) -> Counts:
        with self._reading() as database:
            kinds = database.execute('SELECT "end", task_name, count(*) FROM experience GROUP BY 1, 2').fetchall()
            count = "SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM subgoal)"
            runs, subgoals = database.execute(count).fetchone()
            named = ((ENDS[end], name, count) for end, name, count in kinds)
            return Counts.from_kinds(named, runs=runs, subgoals=subgoals)

    def _experience(self, row: tuple[Any, ...]) -> Experience:
        return experience_of(row, self.path)


def experience_of(row: tuple[Any, ...], where: object) -> Experience:
    """Return the experience in a row: its number, its subgoal, its turns, and the rest in the order of the class.

    An EpisodicMemoryError says where a damaged one is, and its number; of damaged turns when they are asked for.
    """
    number, subgoal, turns, end, task_id, task_name, decision, depth = row
    with _undamaged(where, number):
        for value, kind in ((subgoal, str), (task_id, str), (task_name, str), (decision, int), (depth, int)):
            if not isinstance(value, kind):
                raise TypeError(f"{shown(value)} is no {kind.__name__}")

        @cache
        def read() -> tuple[Turn, ...]:
            with _undamaged(where, number):
                return tuple(map(turn_from_dict, parse_json(turns, halves=True)))

        return Experience.from_store(
            text=text_in(parse_json(turns, halves=True)),
            read_turns=read,
            subgoal=subgoal,
            end=ENDS[end],
            task_id=task_id,
            task_name=task_name,
            decision=decision,
            depth=depth,
        )


@contextmanager
def _undamaged(where: object, number: int) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise EpisodicMemoryError(f"{where}: row {number} of table experience is damaged: {error}") from error


def turns_column(experience: Experience) -> str:
    return json.dumps([turn_to_dict(turn) for turn in experience.turns], ensure_ascii=False, separators=(",", ":"))


def digest_of(experience: Experience) -> int:
    """Return 64 bits of the content, as SQLite's signed integer; the same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    fields = (experience.subgoal, experience.text, experience.end.value, experience.task_id, experience.task_name)
    for field in (*fields, str(experience.decision), str(experience.depth)):
        encoded = field.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return int.from_bytes(digest.digest(), "big", signed=True)
