"""The store ``postgresql``: one memory for a fleet of robots, each of which goes on alone while it cannot reach it."""

from __future__ import annotations

import heapq
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from reactree_doors.fleet import schema
from reactree_doors.fleet.link import Link
from reactree_doors.fleet.own import OwnMemory
from reactree_doors.fleet.server import Server, Unreachable, connected, demands, explained
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory import embedding
from reactree_ros.memory.embedding import Embedder
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import Counts, EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.memory.stores.sqlite import diagnose
from reactree_ros.plugins.installation import Diagnosis, Level
from reactree_ros.plugins.settings import Settings

T = TypeVar("T")
_log = logging.getLogger(__name__)


class FleetMemory(EpisodicMemory):
    """Experiences of a fleet, in PostgreSQL with pgvector, beside a memory of the robot's own in SQLite.

    A run is committed to the robot's own memory first, which is when it is acknowledged, then delivered to the server.
    While the server cannot be reached, what is asked for comes from the own memory: the robot's runs, and copies of
    others'. Routines stay in the own memory. Raises EpisodicMemoryError: the server refuses, its schema is not for this
    version, or the file cannot be opened. One that cannot be reached is not an error.
    """

    keeps_routines = True

    def __init__(self, url: str, own: str | Path, embedder: Embedder) -> None:
        self._own = OwnMemory(own, embedder)
        connect = partial(Server, url, embedder=embedder.name, dimension=embedder.dimension)
        self._link = Link(connect, self._own, embedder)
        try:
            self._link.open()
        except BaseException:
            self._own.close()
            raise
        if loosened := demands(url)[1]:
            _log.warning("%s: %s", url, loosened)

    @property
    def path(self) -> Path:
        return self._own.path

    def add_run(self, experiences: Sequence[Experience]) -> None:
        """See :meth:`EpisodicMemory.add_run`; waits some seconds for the server, if it can be reached."""
        self._own.add_run(experiences)
        self._link.deliver()

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        return self._each(
            lambda server: server.ranked(self._own.vector_of(text), draw=f"{seed} {text}"),
            lambda only: self._own.ranked_among(only, text, seed),
            lambda one: one[1],
            lambda one: -one[0],
        )

    def __iter__(self) -> Iterator[Experience]:
        return self._each(
            lambda server: server.all(),
            lambda only: iter(self._own if only is None else only.values()),
            lambda one: one,
            lambda one: 0,
        )

    def __contains__(self, experience: object) -> bool:
        if not isinstance(experience, Experience):
            return False
        return experience in self._own or self._read(lambda server: server.holds(experience), lambda: False)

    def counts(self) -> Counts:
        return self._read(lambda server: self._own.with_only_here(server.counts()), self._own.counts)

    def read_ahead(self, count_tokens: Callable[[str], int]) -> Pending[None]:
        return self._own.read_ahead(self._remembering(count_tokens))

    def routines(self) -> Mapping[str, str]:
        return self._own.routines()

    def change_routine(self, name: str, change: Callable[[str | None], str | None]) -> None:
        self._own.change_routine(name, change)

    def close(self) -> None:
        super().close()
        self._link.close()
        self._own.close()

    def _read(self, ask: Callable[[Server], T], own: Callable[[], T]) -> T:
        if (server := self._link.server) is not None:
            try:
                return ask(server)
            except EpisodicMemoryError as error:
                self._link.lost(server, error)
        return own()

    def _each(
        self,
        ask: Callable[[Server], Iterator[T]],
        own: Callable[[Mapping[int, Experience] | None], Iterator[T]],
        of: Callable[[T], Experience],
        order: Callable[[T], float],
    ) -> Iterator[T]:
        given = set[int]()  # their hashes: all that a fleet has would not fit
        if (server := self._link.server) is not None:
            waiting = self._own.undelivered()  # before the server is asked: it may be delivered meanwhile
            try:
                found = ask(server)
                if waiting:
                    found = heapq.merge(found, own(waiting), key=order)
                for one in found:
                    mark = hash(of(one))
                    if mark in given and any(of(one) == each for each in waiting.values()):
                        continue
                    given.add(mark)
                    yield one
                return
            except EpisodicMemoryError as error:
                self._link.lost(server, error)
        yield from (one for one in own(None) if hash(of(one)) not in given)


class FleetSettings(Settings):
    url: str = Field(
        default="postgresql://",
        description="the database, e.g. postgresql://robot@host/fleet; the password is in PGPASSWORD or ~/.pgpass",
    )
    own: Path = Field(
        default=Path("fleet.db"),
        description="the robot's own memory, also while it is offline; made if it is not there",
    )

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str) -> str:
        if urlsplit(url).password or re.search(r"\bpassword\s*=", url):
            raise ValueError("keep the password in PGPASSWORD, in ~/.pgpass or in a service file")
        return url


def _version(url: str) -> int:
    connection = connected(url)
    with connection, explained(url, "read"):
        return schema.version_of(connection, url)


def _exists(settings: FleetSettings) -> bool:
    try:
        return settings.own.exists() or _version(settings.url) > 0
    except Unreachable:
        return False


def _diagnose(settings: FleetSettings) -> Iterator[Diagnosis]:
    try:
        version = _version(settings.url)
    except Unreachable as error:
        yield Diagnosis(
            "fleet", Level.WRONG, str(error), "start the server, or look at the network; robots go on alone"
        )
    except UserError as error:
        yield Diagnosis("fleet", Level.WRONG, str(error), "name a server and a database for the fleet's memory")
    else:
        said = f"schema {version}" if version else "no memory yet, the first robot makes it"
        yield Diagnosis("fleet", Level.RIGHT, f"{settings.url}: {said}")
        if loosened := demands(settings.url)[1]:
            yield Diagnosis("fleet", Level.NOTE, f"{settings.url}: {loosened}", "leave it out where you can")
    if settings.own.exists():
        yield from diagnose(settings.own)
    else:
        yield Diagnosis("memory", Level.NOTE, f"{settings.own}: not there yet", "the first run makes it")


SPEC = MemorySpec(
    name="postgresql",
    summary="a fleet's memory on a PostgreSQL server with pgvector, and a robot's own beside it",
    settings=FleetSettings,
    extra="reactree_doors[fleet]",
    needs=("psycopg",),
    make=lambda settings: FleetMemory(settings.url, settings.own, embedding.default_embedder()),
    exists=_exists,
    prepare=lambda settings: embedding.default_embedder().encode(["Is the model there?"]),
    diagnose=_diagnose,
)
