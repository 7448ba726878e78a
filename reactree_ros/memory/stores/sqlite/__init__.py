"""The store ``sqlite``: experiences in one database file, with one matrix of their subgoals' embeddings in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from pydantic import Field

from reactree_ros.background.pending import Pending, settle_as
from reactree_ros.memory import embedding
from reactree_ros.memory.embedding import Embedder, checked_vectors
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import Counts, EpisodicMemory
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.memory.stores.sqlite.database import ExperienceStore
from reactree_ros.memory.stores.sqlite.diagnosis import diagnose
from reactree_ros.memory.stores.sqlite.index import ExperienceIndex
from reactree_ros.plugins.settings import Settings

T = TypeVar("T")
FETCHED_AT_ONCE = 10  # about what fills the token limit, and the one that shows that it is full
_KEPT_IN_MEMORY = 4096
_QUERIES_KEPT = 64


class Kept(Generic[T]):
    """Experiences by their ids, the lately used ones without reading them again; for one thread at a time."""

    def __init__(self, fetch: Callable[[Sequence[int]], Sequence[T]]) -> None:
        self._read = fetch
        self._kept: dict[int, T] = {}

    def __call__(self, ids: Sequence[int]) -> list[T]:
        """Return the experiences with these ids, in this order."""
        if missing := [number for number in ids if number not in self._kept]:
            self._kept.update(zip(missing, self._read(missing), strict=True))
        experiences = []
        for number in ids:
            experience = self._kept.pop(number)
            self._kept[number] = experience  # the latest used last
            experiences.append(experience)
        while len(self._kept) > _KEPT_IN_MEMORY:
            del self._kept[next(iter(self._kept))]
        return experiences


class SqliteMemory(EpisodicMemory):
    """Experiences on disk, with one matrix of their subgoals' embeddings in memory.

    Experiences of equal similarity are drawn: an end evenly among success, failure and expand, then an experience of
    that end.

    Args:
        path: The database file; made if it does not exist (its folder must).
        embedder: Embeds subgoals. A memory keeps to the embedder that it was made with.
        busy_timeout: How long to wait while another process writes, in seconds.

    Raises:
        EpisodicMemoryError: the file is no database, one of another program, of another schema version or embedder, or
            it cannot be opened.
    """

    keeps_routines = True
    _open: ClassVar[type[ExperienceStore]] = ExperienceStore

    def __init__(self, path: str | Path, embedder: Embedder, *, busy_timeout: float = 10.0) -> None:
        self._embedder = embedder
        self._store = self._open(
            Path(path), embedder=embedder.name, dimension=embedder.dimension, busy_timeout=busy_timeout
        )
        self._index = ExperienceIndex(embedder.dimension)
        self._ids: list[int] = []  # of experiences, by their position in the index
        self._subgoals: dict[int, int] = {}  # position in the index by id
        self._fetch = Kept(self._store.fetch)
        self._lock = threading.RLock()  # of everything above but the store, which has its own
        #: The same goal is asked for more than once: for routines that are near, then for examples.
        self.vector_of = lru_cache(_QUERIES_KEPT)(lambda text: checked_vectors(self._embedder, [text])[0])

    @property
    def path(self) -> Path:
        """The database file."""
        return self._store.path

    def add_run(self, experiences: Sequence[Experience]) -> None:
        """See :meth:`EpisodicMemory.add_run`; subgoals that are new are embedded."""
        run = tuple(experiences)
        if not run:
            raise ValueError("a run has at least one experience")
        unknown = self._store.unknown_subgoals(experience.subgoal for experience in run)
        vectors = checked_vectors(self._embedder, unknown) if unknown else ()
        self._store.add(run, dict(zip(unknown, vectors, strict=True)))

    def __contains__(self, experience: object) -> bool:
        return isinstance(experience, Experience) and self._store.holds(experience)

    def __iter__(self) -> Iterator[Experience]:
        return self._store.all()

    def counts(self) -> Counts:
        """See :meth:`EpisodicMemory.counts`."""
        return self._store.counts()

    def routines(self) -> Mapping[str, str]:
        """See :meth:`EpisodicMemory.routines`."""
        return self._store.routines()

    def change_routine(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """See :meth:`EpisodicMemory.change_routine`."""
        self._store.change_routine(name, change)

    def close(self) -> None:
        """Close the database."""
        super().close()
        self._store.close()

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        """See :meth:`EpisodicMemory.ranked`; reads only as many as are asked for."""
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
                experiences = self._fetch([number for _, number in some])
            if not some:
                return
            yield from zip((similarity for similarity, _ in some), experiences, strict=True)

    def read_ahead(self, count_tokens: Callable[[str], int]) -> Pending[None]:
        """See :meth:`EpisodicMemory.read_ahead`: the vectors, and of a small memory all experiences, else a few."""
        count, ended, worker, first = self._remembering(count_tokens), Pending[None](), self._thread(), 0

        def read_some() -> bool:
            nonlocal first
            with self._lock:
                self._refresh()
                ids = self._ids[first : first + FETCHED_AT_ONCE]
                some = self._fetch(ids)
                self._index.warm()
            for one in some:
                count(one.text)
            first += len(some)
            return bool(some) and len(self._ids) <= _KEPT_IN_MEMORY

        def go_on(read: Future[bool]) -> None:
            if not ended.done() and not read.cancelled() and read.exception() is None and read.result():
                worker.do(read_some).add_done_callback(go_on)
            else:
                settle_as(read, ended, lambda more: None)

        worker.do(read_some).add_done_callback(go_on)
        return ended

    def _refresh(self) -> None:
        """Takes in what this and other processes have added since the last time."""
        added = self._store.additions()
        if added is None:
            return
        first = self._index.subgoals
        self._subgoals.update((number, position) for position, number in enumerate(added.subgoals, start=first))
        self._index.extend_subgoals(added.vectors)
        self._index.extend_experiences(
            [self._subgoals[number] for number in added.experience_subgoals], ends=added.ends, digests=added.digests
        )
        self._ids.extend(added.experiences)


class SqliteSettings(Settings):
    """Where the database is."""

    path: Path = Field(default=Path("memory.db"), description="the database file; made if it is not there")


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
