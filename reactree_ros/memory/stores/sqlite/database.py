"""The database of an episodic memory: turns and vectors.

A run is written in one transaction, so that after a kill it is there as a whole or not at all. ``synchronous=FULL``: a
commit waits for the disk, once per run, which is nothing beside the minutes that a run takes, and a run that was added
outlives a power failure.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactree_ros.agent.turns import Turn, text_in, turn_from_dict, turn_to_dict
from reactree_ros.files.read_back import parse_json, shown
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import Counts, EpisodicMemoryError
from reactree_ros.memory.sqlite_file import SqliteFile

APPLICATION_ID = 0x52635472  # "RcTr", in the header of the database file
SCHEMA_VERSION = 3
ENDS = (End.SUCCESS, End.FAILURE, End.EXPAND)  # an end is stored as its position here
NUMBER = {end: number for number, end in enumerate(ENDS)}
VECTOR = np.dtype("<f4")
_UNIT_TOLERANCE = 1e-3
_LOAD_ROWS = 4096
_VARIABLES = 500  # SQLite takes at least 999 in one statement

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


@dataclass(frozen=True)
class Additions:
    """What was added to a store since it was last asked."""

    subgoals: Sequence[int]  # ids of new subgoals, rising
    vectors: NDArray[np.float32]  # their embeddings, float32, shape (number of new subgoals, dimension)
    experiences: Sequence[int]  # ids of new experiences, rising
    experience_subgoals: Sequence[int]  # the subgoal's id of each
    ends: NDArray[np.uint8]  # the end of each, as position in `ENDS`, uint8
    digests: NDArray[np.uint64]  # the digest of the content of each, uint64


class ExperienceStore(SqliteFile):
    """The database of one episodic memory. Its methods may be called from several threads."""

    what, application_id, version = "an episodic memory", APPLICATION_ID, SCHEMA_VERSION
    error = EpisodicMemoryError

    def __init__(self, path: Path, *, embedder: str, dimension: int, busy_timeout: float) -> None:
        self._embedder, self._dimension = embedder, dimension
        self._last_subgoal = 0
        self._last_experience = 0
        self._seen_version: int | None = None
        self._routines: Mapping[str, str] = {}
        self._routines_version: int | None = None
        super().__init__(path, busy_timeout=busy_timeout)

    def add(self, run: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Writes one run in one transaction, with the embedding of every subgoal that `unknown_subgoals` named."""
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            self._insert(database, run, vectors)

    def _insert(
        self, database: sqlite3.Connection, run: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]
    ) -> int:
        """Writes a run within a transaction; returns its id."""
        run_id = database.execute("INSERT INTO run (added) VALUES (?)", (time.time(),)).lastrowid
        assert run_id is not None
        subgoals = {
            subgoal: self._subgoal_id(subgoal, vectors)
            for subgoal in dict.fromkeys(experience.subgoal for experience in run)
        }
        database.executemany(
            'INSERT INTO experience (run, subgoal, "end", digest, task_id, task_name, decision, depth, turns) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    run_id,
                    subgoals[experience.subgoal],
                    NUMBER[experience.end],
                    digest_of(experience),
                    experience.task_id,
                    experience.task_name,
                    experience.decision,
                    experience.depth,
                    turns_column(experience),
                )
                for experience in run
            ),
        )
        return run_id

    def routines(self) -> Mapping[str, str]:
        """The routines by name; as long as nobody has changed anything, the same mapping."""
        with self._read_lock, self._explained("read"):
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version != self._routines_version:
                self._routines_version = version
                routines = dict(self._reader.execute("SELECT name, text FROM routine ORDER BY name"))
                self._routines = self._routines if routines == self._routines else routines
            return self._routines

    def change_routine(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Changes a routine in one transaction."""
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            row = database.execute("SELECT text FROM routine WHERE name = ?", (name,)).fetchone()
            if (text := change(None if row is None else row[0])) is None:
                database.execute("DELETE FROM routine WHERE name = ?", (name,))
            else:
                database.execute("INSERT OR REPLACE INTO routine VALUES (?, ?)", (name, text))

    def unknown_subgoals(self, subgoals: Iterable[str]) -> list[str]:
        """Those of the given subgoals that have no embedding in the store yet, each once."""
        wanted = dict.fromkeys(subgoals)
        with self._read_lock, self._explained("read"):
            for some in _batches(list(wanted)):
                marks = ",".join("?" * len(some))
                for (known,) in self._reader.execute(f"SELECT text FROM subgoal WHERE text IN ({marks})", some):
                    wanted.pop(known, None)
        return list(wanted)

    def additions(self) -> Additions | None:
        """What any process added since this was last called; None if nothing was committed since.

        Raises:
            EpisodicMemoryError: an embedding is not what was written; the message names its row.
        """
        with self._read_lock, self._explained("read"):
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version == self._seen_version:
                return None
            self._reader.execute("BEGIN")  # one snapshot for both tables
            try:
                subgoals, vectors = self._new_vectors()
                rows = self._reader.execute(
                    'SELECT e.id, s.id, e."end", e.digest FROM experience e LEFT JOIN subgoal s ON s.id = e.subgoal '
                    "WHERE e.id > ? ORDER BY e.id",
                    (self._last_experience,),
                ).fetchall()
            finally:
                self._reader.execute("COMMIT")
            experiences, owners, ends, digests = zip(*rows, strict=True) if rows else ((), (), (), ())
            if None in owners:
                raise EpisodicMemoryError(
                    f"{self.path}: the subgoal of row {experiences[owners.index(None)]} of table experience is gone"
                )
            added = Additions(
                subgoals=subgoals,
                vectors=vectors,
                experiences=experiences,
                experience_subgoals=owners,
                ends=np.array(ends, dtype=np.uint8),
                digests=np.array(digests, dtype=np.int64).view(np.uint64),
            )
            self._last_subgoal = subgoals[-1] if subgoals else self._last_subgoal
            self._last_experience = experiences[-1] if experiences else self._last_experience
            self._seen_version = version
            return added

    def fetch(self, ids: Sequence[int]) -> list[Experience]:
        """The experiences with these ids, in the order of the ids."""
        found: dict[int, Experience] = {}
        with self._read_lock, self._explained("read"):
            for some in _batches(ids):
                marks = ",".join("?" * len(some))
                for row in self._reader.execute(f"{EXPERIENCES} WHERE e.id IN ({marks})", some):
                    found[row[0]] = self._experience(row)
        missing = [number for number in ids if number not in found]
        if missing:
            raise EpisodicMemoryError(f"{self.path}: experience {missing[0]} is gone: another program deleted it")
        return [found[number] for number in ids]

    def all(self) -> Iterator[Experience]:
        """Every experience in the order in which they were added."""
        last = 0
        while True:
            with self._read_lock, self._explained("read"):
                rows = self._reader.execute(f"{EXPERIENCES} WHERE e.id > ? ORDER BY e.id LIMIT 256", (last,)).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield from map(self._experience, rows)

    def holds(self, experience: Experience) -> bool:
        """Whether the store has this very experience."""
        with self._read_lock, self._explained("read"):
            rows = self._reader.execute(f"{EXPERIENCES} WHERE e.digest = ?", (digest_of(experience),)).fetchall()
        return any(self._experience(row) == experience for row in rows)

    def counts(self) -> Counts:
        """What there is."""
        with self._read_lock, self._explained("read"):
            kinds = self._reader.execute('SELECT "end", task_name, count(*) FROM experience GROUP BY 1, 2').fetchall()
            (runs,) = self._reader.execute("SELECT count(*) FROM run").fetchone()
            (subgoals,) = self._reader.execute("SELECT count(*) FROM subgoal").fetchone()
            return Counts.of(((ENDS[end], name, count) for end, name, count in kinds), runs=runs, subgoals=subgoals)

    def _make(self, database: sqlite3.Connection) -> None:
        for statement in _SCHEMA:
            database.execute(statement)
        made_with = (("embedder", self._embedder), ("dimension", str(self._dimension)))
        database.executemany("INSERT INTO meta VALUES (?, ?)", made_with)

    def _check(self, database: sqlite3.Connection) -> None:
        meta = dict(database.execute("SELECT key, value FROM meta"))
        if meta.get("embedder") != self._embedder or meta.get("dimension") != str(self._dimension):
            raise EpisodicMemoryError(
                f"{self.path}: its embeddings are by {meta.get('embedder')!r} with {meta.get('dimension')} dimensions, "
                f"not by {self._embedder!r} with {self._dimension}: open it with that embedder, or export and import"
            )

    def _subgoal_id(self, subgoal: str, vectors: Mapping[str, NDArray[np.float32]]) -> int:
        row = self._writer.execute("SELECT id FROM subgoal WHERE text = ?", (subgoal,)).fetchone()
        if row is not None:
            return int(row[0])
        blob = np.ascontiguousarray(vectors[subgoal], dtype=VECTOR).tobytes()
        added = self._writer.execute("INSERT INTO subgoal (text, embedding) VALUES (?, ?)", (subgoal, blob)).lastrowid
        assert added is not None
        return added

    def _new_vectors(self) -> tuple[list[int], NDArray[np.float32]]:
        (count,) = self._reader.execute("SELECT count(*) FROM subgoal WHERE id > ?", (self._last_subgoal,)).fetchone()
        ids: list[int] = []
        vectors = np.empty((count, self._dimension), dtype=np.float32)
        rows = self._reader.execute("SELECT id, embedding FROM subgoal WHERE id > ? ORDER BY id", (self._last_subgoal,))
        while some := rows.fetchmany(_LOAD_ROWS):
            for number, blob in some:
                if not isinstance(blob, bytes) or len(blob) != self._dimension * VECTOR.itemsize:
                    size = len(blob) if isinstance(blob, bytes) else type(blob).__name__
                    raise EpisodicMemoryError(
                        f"{self.path}: the embedding in row {number} of table subgoal is damaged: "
                        f"{self._dimension * VECTOR.itemsize} bytes expected, found {size}"
                    )
            part = vectors[len(ids) : len(ids) + len(some)]
            part[:] = np.frombuffer(b"".join(blob for _, blob in some), dtype=VECTOR).reshape(part.shape)
            wrong = np.flatnonzero(~(np.abs(np.sqrt(np.einsum("ij,ij->i", part, part)) - 1) < _UNIT_TOLERANCE))
            if wrong.size:
                raise EpisodicMemoryError(
                    f"{self.path}: the embedding in row {some[int(wrong[0])][0]} of table subgoal is damaged: "
                    "its length is not 1"
                )
            ids.extend(number for number, _ in some)
        return ids, vectors

    def _experience(self, row: tuple[Any, ...]) -> Experience:
        return experience_of(row, self.path)


def experience_of(row: tuple[Any, ...], where: object) -> Experience:
    """The experience in a row: its number, its subgoal, its turns, and the rest in the order of the class.

    Args:
        row: The row.
        where: Whose it is.

    Raises:
        EpisodicMemoryError: It is not what was written; the message says where it is, and its number. Damaged turns
            may raise it later, when they are asked for.
    """
    number, subgoal, turns, end, task_id, task_name, decision, depth = row
    with _undamaged(where, number):
        for value, kind in ((subgoal, str), (task_id, str), (task_name, str), (decision, int), (depth, int)):
            if not isinstance(value, kind):
                raise TypeError(f"{shown(value)} is no {kind.__name__}")
        return Experience.of_store(
            text=text_in(parse_json(turns, halves=True)),
            turns=partial(_read_turns, turns, where, number),
            subgoal=subgoal,
            end=ENDS[end],
            task_id=task_id,
            task_name=task_name,
            decision=decision,
            depth=depth,
        )


def _read_turns(column: str, where: object, number: int) -> tuple[Turn, ...]:
    with _undamaged(where, number):
        return tuple(map(turn_from_dict, parse_json(column, halves=True)))


@contextmanager
def _undamaged(where: object, number: int) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise EpisodicMemoryError(f"{where}: row {number} of table experience is damaged: {error}") from error


check_schema = ExperienceStore.check_schema


def _batches(items: Sequence[int] | Sequence[str]) -> Iterator[Sequence[int] | Sequence[str]]:
    return (items[first : first + _VARIABLES] for first in range(0, len(items), _VARIABLES))


def turns_column(experience: Experience) -> str:
    """The turns as one column of a database."""
    return json.dumps([turn_to_dict(turn) for turn in experience.turns], ensure_ascii=False, separators=(",", ":"))


def digest_of(experience: Experience) -> int:
    """64 bits of the content, as SQLite's signed integer; the same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    fields = (experience.subgoal, experience.text, experience.end.value, experience.task_id, experience.task_name)
    for field in itertools.chain(fields, (str(experience.decision), str(experience.depth))):
        encoded = field.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return int.from_bytes(digest.digest(), "big", signed=True)
