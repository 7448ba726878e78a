"""The store ``sqlite``: experiences in one database file, with one matrix of their subgoals' embeddings in memory.

A run is written in one transaction, so that after a kill it is there as a whole or not at all. ``synchronous=FULL``: a
commit waits for the disk, once per run, which is nothing beside the minutes that a run takes, and a run that was added
outlives a power failure.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from reactree_ros.agent.turns import Turn, text_in, turn_from_dict, turn_to_dict
from reactree_ros.background.pending import Pending, stepwise
from reactree_ros.files.read_back import parse_json, shown
from reactree_ros.memory.embedding import (
    DEFAULT_MODEL,
    Embedder,
    ExperienceIndex,
    IndexSettings,
    WordEmbedder,
    checked_vectors,
    wrong_lengths,
)
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import Counts, EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.memory.sqlite_file import SqliteFile
from reactree_ros.plugins.installation import Diagnosis, Level, install_line, lacking

T = TypeVar("T")
FETCHED_AT_ONCE = 10  # about what fills the token limit, and the one that shows that it is full
KEPT_IN_MEMORY = 4096
_QUERIES_KEPT = 64
#: How long a diagnosis waits for a process that locks the file, in seconds.
PATIENCE = 2.0
_JOURNAL_BYTE, _WRITE_AHEAD = 18, 2  # byte in the header of a database file, and its value for a write-ahead log
ENDS = (End.SUCCESS, End.FAILURE, End.EXPAND)  # an end is stored as its position here
NUMBER = {end: number for number, end in enumerate(ENDS)}
VECTOR = np.dtype("<f4")
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


class Kept(Generic[T]):
    """Experiences by their ids, not read again while they are few; for one thread at a time."""

    def __init__(self, fetch: Callable[[Sequence[int]], Sequence[T]]) -> None:
        self._fetch = fetch
        self._kept: dict[int, T] = {}

    def __call__(self, ids: Sequence[int]) -> list[T]:
        if missing := [number for number in ids if number not in self._kept]:
            found = zip(missing, self._fetch(missing), strict=True)
            if len(self._kept) + len(missing) > KEPT_IN_MEMORY:
                self._kept = {number: self._kept[number] for number in ids if number in self._kept}
            self._kept.update(found)
        return [self._kept[number] for number in ids]


class SqliteMemory(SqliteFile, EpisodicMemory):
    """Experiences on disk, with one matrix of their subgoals' embeddings in memory; it keeps to its embedder.

    Experiences of equal similarity are drawn: an end evenly among success, failure and expand, then an experience of
    that end.
    """

    what, application_id, version, schema = "an episodic memory", 0x52635472, 3, _SCHEMA  # "RcTr"
    error = EpisodicMemoryError
    keeps_routines = True

    def __init__(self, path: str | Path, embedder: Embedder, *, busy_timeout: float = 10.0) -> None:
        self._embedder = embedder
        self._routines: Mapping[str, str] = {}
        self._routines_version: int | None = None
        self._index = ExperienceIndex(embedder.dimension)
        self._ids: list[int] = []  # of experiences, by their position in the index
        self._subgoals: dict[int, int] = {}  # position in the index by id, rising
        self._seen_version: int | None = None
        self._kept = Kept(self.fetch)
        self._lock = threading.RLock()  # of everything above; the database has locks of its own
        #: The same goal is asked for more than once: for routines that are near, then for examples.
        self.vector_of = lru_cache(_QUERIES_KEPT)(lambda text: checked_vectors(embedder, [text])[0])
        super().__init__(Path(path), busy_timeout=busy_timeout)

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

    def add_run(self, experiences: Sequence[Experience]) -> None:
        if not experiences:
            raise ValueError("a run has at least one experience")
        unknown = self.unknown_subgoals(experience.subgoal for experience in experiences)
        vectors = checked_vectors(self._embedder, unknown) if unknown else ()
        with self._writing() as database:
            self._insert(database, experiences, dict(zip(unknown, vectors, strict=True)))

    def unknown_subgoals(self, subgoals: Iterable[str]) -> list[str]:
        known = "SELECT 1 FROM subgoal WHERE text = ?"
        with self._reading() as database:
            return [one for one in dict.fromkeys(subgoals) if database.execute(known, (one,)).fetchone() is None]

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

    def close(self) -> None:
        EpisodicMemory.close(self)
        super().close()

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        return self._ranked(text, seed, None)

    def _ranked(self, text: str, seed: int, only: Container[int] | None) -> Iterator[tuple[float, Experience]]:
        query = self.vector_of(text)
        with self._lock:
            self._refresh()
            found, ids = self._index.ranked(query, draw=f"{seed} {text}"), self._ids
        ranked = ((similarity, ids[at]) for similarity, at in found if only is None or ids[at] in only)
        while True:
            with self._lock:
                some = list(islice(ranked, FETCHED_AT_ONCE))
                experiences = self._kept([number for _, number in some])
            if not some:
                return
            yield from zip((similarity for similarity, _ in some), experiences, strict=True)

    def read_ahead(self, count_tokens: Callable[[str], int]) -> Pending[None]:
        """See :meth:`EpisodicMemory.read_ahead`: the vectors, and of a small memory all experiences, else a few."""
        count = self._remembering(count_tokens)

        def read_some(first: int) -> int:
            with self._lock:
                self._refresh()
                some = self._kept(self._ids[first : first + FETCHED_AT_ONCE])
                self._index.warm()
            for one in some:
                count(one.text)
            return len(some) if len(self._ids) <= KEPT_IN_MEMORY else 0

        def read_all() -> Generator[Pending[Any], Any, None]:
            first = 0
            while took := (yield self.do(partial(read_some, first))):
                first += took

        return stepwise(read_all())

    def _refresh(self) -> None:
        # what this and other processes have added since the last time; an error names a damaged embedding's row
        with self._reading() as database:
            (version,) = database.execute("PRAGMA data_version").fetchone()
            if version == self._seen_version:
                return
            database.execute("BEGIN")  # one snapshot for both tables
            try:
                look = "SELECT id, embedding FROM subgoal WHERE id > ? ORDER BY id"
                subgoals = database.execute(look, (next(reversed(self._subgoals), 0),)).fetchall()
                experiences = database.execute(
                    'SELECT e.id, s.id, e."end", e.digest FROM experience e LEFT JOIN subgoal s ON s.id = e.subgoal '
                    "WHERE e.id > ? ORDER BY e.id",
                    (self._ids[-1] if self._ids else 0,),
                ).fetchall()
            finally:
                database.execute("COMMIT")
            vectors, positions = self._vectors(subgoals), dict(self._subgoals)
            for number, _ in subgoals:
                positions[number] = len(positions)
            ids, owners, ends, digests = zip(*experiences, strict=True) if experiences else ((), (), (), ())
            if None in owners:
                gone = ids[owners.index(None)]
                raise EpisodicMemoryError(f"{self.path}: the subgoal of row {gone} of table experience is gone")
            self._index.extend(
                vectors, [positions[one] for one in owners], ends, np.array(digests, np.int64).view(np.uint64)
            )
            self._subgoals = positions
            self._ids.extend(ids)
            self._seen_version = version

    def _vectors(self, rows: Sequence[tuple[int, Any]]) -> NDArray[np.float32]:
        size = self._embedder.dimension * VECTOR.itemsize
        damaged = f"{self.path}: the embedding in row {{}} of table subgoal is damaged: {{}}"
        for number, blob in rows:
            found = len(blob) if isinstance(blob, bytes) else type(blob).__name__
            if found != size:
                raise EpisodicMemoryError(damaged.format(number, f"{size} bytes expected, found {found}"))
        vectors = np.frombuffer(b"".join(blob for _, blob in rows), VECTOR).reshape(len(rows), self._embedder.dimension)
        for row, _ in wrong_lengths(vectors):
            raise EpisodicMemoryError(damaged.format(rows[row][0], "its length is not 1"))
        return vectors

    def fetch(self, ids: Sequence[int]) -> list[Experience]:
        with self._reading() as database:
            rows = database.execute(f"{EXPERIENCES} WHERE e.id IN ({','.join('?' * len(ids))})", ids).fetchall()
        found = {row[0]: experience_of(row, self.path) for row in rows}
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
            yield from (experience_of(row, self.path) for row in rows)

    def __contains__(self, experience: object) -> bool:
        if not isinstance(experience, Experience):
            return False
        with self._reading() as database:
            rows = database.execute(f"{EXPERIENCES} WHERE e.digest = ?", (digest_of(experience),)).fetchall()
        return any(experience_of(row, self.path) == experience for row in rows)

    def counts(self) -> Counts:
        with self._reading() as database:
            kinds = database.execute('SELECT "end", task_name, count(*) FROM experience GROUP BY 1, 2').fetchall()
            count = "SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM subgoal)"
            runs, subgoals = database.execute(count).fetchone()
            named = ((ENDS[end], name, count) for end, name, count in kinds)
            return Counts.from_kinds(named, runs=runs, subgoals=subgoals)

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


def experience_of(row: tuple[Any, ...], where: object) -> Experience:
    """Return the experience in a row: its number, its subgoal, its turns, and the rest in the order of the class.

    An EpisodicMemoryError says where a damaged one is, and its number; of damaged turns when they are asked for.
    """
    number, subgoal, turns, end, task_id, task_name, decision, depth = row
    with _undamaged(where, number):
        for value, kind in ((subgoal, str), (task_id, str), (task_name, str), (decision, int), (depth, int)):
            if not isinstance(value, kind):
                raise TypeError(f"{shown(value)} is not of type {kind.__name__}")

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


class SqliteSettings(IndexSettings):
    path: Path = Field(default=Path("memory.db"), description="the database file; made if it is not there")

    @property
    def chosen(self) -> str:
        """See :attr:`IndexSettings.chosen`; a file that is there keeps to what it was made with."""
        if self.index == "auto" and self.path.exists():
            with suppress(OSError, EpisodicMemoryError, sqlite3.Error), closing(_opened(self.path)) as database:
                (made_with,) = database.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone() or ("",)
                return "words" if made_with == WordEmbedder.name else "embeddings"
        return super().chosen


def diagnose(path: Path) -> Iterator[Diagnosis]:
    """Yield diagnoses about the memory in a file, or raise OSError or EpisodicMemoryError; nothing is written."""
    try:
        with closing(_opened(path)) as database:
            SqliteMemory.check_schema(database, path)
            meta = dict(database.execute("SELECT key, value FROM meta"))
            count = "SELECT (SELECT count(*) FROM experience), (SELECT count(*) FROM run)"
            experiences, runs = database.execute(count).fetchone()
    except sqlite3.Error as error:
        is_held = "locked" in str(error)
        found = f"{path}: {'another process holds it' if is_held else 'cannot be read'} ({error})"
        remedy = "wait for that process, or end it" if is_held else "name an episodic memory that you may read"
        yield Diagnosis("memory", Level.WRONG, found, remedy)
        return
    held = f"{path}: {experiences} experiences of {runs} runs, schema {SqliteMemory.version}"
    yield Diagnosis("memory", Level.RIGHT, held)
    vectors = f"{meta.get('embedder')}, {meta.get('dimension')} dimensions"
    if meta.get("embedder") not in (DEFAULT_MODEL, WordEmbedder.name):
        ours = f"`reactree` embeds with {DEFAULT_MODEL} or by words"
        remedy = f"{ours}: export the memory with the embedder that made it, and import that"
        yield Diagnosis("embedder", Level.WRONG, vectors, remedy)
    elif meta["embedder"] == DEFAULT_MODEL and lacking("reactree_ros[memory]"):
        remedy = install_line("reactree_ros[memory]")
        yield Diagnosis("embedder", Level.WRONG, f"{vectors}, which is not installed here", remedy)
    else:
        yield Diagnosis("embedder", Level.RIGHT, vectors)


def _opened(path: Path) -> sqlite3.Connection:
    """Open a database read-only; as immutable if it has no log, because reading it otherwise creates one."""
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\0"):
        raise EpisodicMemoryError(f"{path}: not an SQLite database")
    has_log = Path(f"{path}-wal").exists()
    how = "immutable=1" if header[_JOURNAL_BYTE] == _WRITE_AHEAD and not has_log else "mode=ro"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, timeout=PATIENCE)


SPEC = MemorySpec(
    name="sqlite",
    summary="one database file; examples by sentence embeddings or by words",
    settings=SqliteSettings,
    make=lambda settings: SqliteMemory(settings.path, settings.embedder()),
    exists=lambda settings: settings.path.exists(),
    prepare=SqliteSettings.prepare,
    diagnose=lambda settings: diagnose(settings.path),
)
