"""The store ``sqlite``: experiences in one database file, with one matrix of their subgoals' embeddings in memory."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from pydantic import Field

from reactree_ros.background.pending import Pending, settle_as
from reactree_ros.memory import embedding
from reactree_ros.memory.embedding import DEFAULT_MODEL, Embedder, checked_vectors
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.memory.stores.database import ExperienceStore
from reactree_ros.memory.stores.index import ExperienceIndex
from reactree_ros.plugins.installation import Diagnosis, Level, install_line, lacking
from reactree_ros.plugins.settings import Settings

T = TypeVar("T")
FETCHED_AT_ONCE = 10  # about what fills the token limit, and the one that shows that it is full
KEPT_IN_MEMORY = 4096
_QUERIES_KEPT = 64
#: How long a diagnosis waits for a process that locks the file, in seconds.
PATIENCE = 2.0
_JOURNAL_BYTE, _WRITE_AHEAD = 18, 2  # byte in the header of a database file, and its value for a write-ahead log


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


class SqliteMemory(ExperienceStore, EpisodicMemory):
    """Experiences on disk, with one matrix of their subgoals' embeddings in memory; it keeps to its embedder.

    Experiences of equal similarity are drawn: an end evenly among success, failure and expand, then an experience of
    that end.
    """

    keeps_routines = True

    def __init__(self, path: str | Path, embedder: Embedder, *, busy_timeout: float = 10.0) -> None:
        self._index = ExperienceIndex(embedder.dimension)
        self._ids: list[int] = []  # of experiences, by their position in the index
        self._subgoals: dict[int, int] = {}  # position in the index by id, rising
        self._seen_version: int | None = None
        self._kept = Kept(self.fetch)
        self._lock = threading.RLock()  # of everything above; the database has locks of its own
        #: The same goal is asked for more than once: for routines that are near, then for examples.
        self.vector_of = lru_cache(_QUERIES_KEPT)(lambda text: checked_vectors(embedder, [text])[0])
        super().__init__(Path(path), embedder, busy_timeout=busy_timeout)

    def add_run(self, experiences: Sequence[Experience]) -> None:
        if not experiences:
            raise ValueError("a run has at least one experience")
        unknown = self.unknown_subgoals(experience.subgoal for experience in experiences)
        vectors = checked_vectors(self._embedder, unknown) if unknown else ()
        self.add(experiences, dict(zip(unknown, vectors, strict=True)))

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
        count, ended, first = self._remembering(count_tokens), Pending[None](), 0

        def read_some() -> bool:
            nonlocal first
            with self._lock:
                self._refresh()
                ids = self._ids[first : first + FETCHED_AT_ONCE]
                some = self._kept(ids)
                self._index.warm()
            for one in some:
                count(one.text)
            first += len(some)
            return bool(some) and len(self._ids) <= KEPT_IN_MEMORY

        def go_on(read: Future[bool]) -> None:
            if not ended.done() and not read.cancelled() and read.exception() is None and read.result():
                self.do(read_some).add_done_callback(go_on)
            else:
                settle_as(read, ended, lambda more: None)

        self.do(read_some).add_done_callback(go_on)
        return ended

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


class SqliteSettings(Settings):
    path: Path = Field(default=Path("memory.db"), description="the database file; made if it is not there")


def diagnose(path: Path) -> Iterator[Diagnosis]:
    """Yield diagnoses about the memory in a file, or raise OSError or EpisodicMemoryError; nothing is written."""
    try:
        with closing(_opened(path)) as database:
            ExperienceStore.check_schema(database, path)
            meta = dict(database.execute("SELECT key, value FROM meta"))
            count = "SELECT (SELECT count(*) FROM experience), (SELECT count(*) FROM run)"
            experiences, runs = database.execute(count).fetchone()
    except sqlite3.Error as error:
        is_held = "locked" in str(error)
        found = f"{path}: {'another process holds it' if is_held else 'cannot be read'} ({error})"
        remedy = "wait for that process, or end it" if is_held else "name an episodic memory that you may read"
        yield Diagnosis("memory", Level.WRONG, found, remedy)
        return
    held = f"{path}: {experiences} experiences of {runs} runs, schema {ExperienceStore.version}"
    yield Diagnosis("memory", Level.RIGHT, held)
    vectors = f"{meta.get('embedder')}, {meta.get('dimension')} dimensions"
    if meta.get("embedder") != DEFAULT_MODEL:
        remedy = (
            f"`reactree` embeds with {DEFAULT_MODEL}: export the memory with the embedder that made it, and import that"
        )
        yield Diagnosis("embedder", Level.WRONG, vectors, remedy)
    elif lacking("reactree_ros[memory]"):
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
    summary="one database file; examples by sentence embeddings",
    settings=SqliteSettings,
    extra="reactree_ros[memory]",
    make=lambda settings: SqliteMemory(settings.path, embedding.default_embedder()),
    exists=lambda settings: settings.path.exists(),
    prepare=lambda settings: embedding.default_embedder().encode(["Is the model there?"]),
    diagnose=lambda settings: diagnose(settings.path),
)
