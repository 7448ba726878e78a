"""What a robot of a fleet keeps by itself: a memory in SQLite, and which of its runs the fleet has."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import Counts, EpisodicMemoryError
from reactree_ros.memory.stores.sqlite import EXPERIENCES, VECTOR, SqliteMemory, experience_of

#: The state of a run: the fleet has it, or it waits to be delivered; a copy of another robot's; refused by the server.
_DELIVERED, _WAITING, _COPY, _REFUSED = range(4)
_ONLY_HERE = f"state IN ({_WAITING}, {_REFUSED})"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS fleet_run (run INTEGER PRIMARY KEY REFERENCES run, id TEXT NOT NULL UNIQUE, "
    "state INTEGER NOT NULL)"
)


@dataclass(frozen=True)
class Row:
    subgoal: str
    vector: NDArray[np.float32]
    end: int
    digest: int
    task_id: str
    task_name: str
    decision: int
    depth: int
    turns: str


@dataclass(frozen=True)
class Waiting:
    """A run that waits to be delivered, by an id that it has everywhere."""

    id: str
    rows: Sequence[Row]


class OwnMemory(SqliteMemory):
    """The memory of a robot of a fleet; a run is marked as waiting by the commit that writes it."""

    def _prepare(self) -> None:
        super()._prepare()
        self._only_here: Mapping[int, Experience] = {}
        self._runs_only_here: dict[int, list[tuple[int, Experience]]] = {}
        with self._transaction() as database:
            database.execute(_TABLE)
            database.execute("CREATE INDEX IF NOT EXISTS fleet_experience ON experience (run)")
            database.execute(
                f"CREATE INDEX IF NOT EXISTS fleet_run_only_here ON fleet_run (run, state) WHERE {_ONLY_HERE}"
            )
        self.mark()

    def _insert(
        self, database: sqlite3.Connection, run: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]
    ) -> int:
        number = super()._insert(database, run, vectors)
        database.execute("INSERT INTO fleet_run VALUES (?, ?, ?)", (number, str(uuid4()), _WAITING))
        return number

    def mark(self) -> None:
        """Let those runs wait that were added while this was not a robot's of a fleet."""
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            rows = database.execute("SELECT id FROM run WHERE id NOT IN (SELECT run FROM fleet_run)").fetchall()
            new = [(number, str(uuid4()), _WAITING) for (number,) in rows]
            database.executemany("INSERT INTO fleet_run VALUES (?, ?, ?)", new)

    def waiting(self) -> list[str]:
        return self._names(f"WHERE {_ONLY_HERE} AND state = {_WAITING}")

    def refused(self) -> list[str]:
        return self._names(f"WHERE {_ONLY_HERE} AND state = {_REFUSED}")

    def undelivered(self) -> Mapping[int, Experience]:
        """The experiences by number of the runs that wait or are refused; as long as those stay, the same mapping."""
        with self._read_lock, self._explained("read"):
            look = f"SELECT run FROM fleet_run WHERE {_ONLY_HERE} ORDER BY run"
            runs = [number for (number,) in self._reader.execute(look)]
            if runs != list(self._runs_only_here):
                self._runs_only_here = {run: self._runs_only_here.get(run) or self._read(run) for run in runs}
                self._only_here = {number: one for run in self._runs_only_here.values() for number, one in run}
            return self._only_here

    def _read(self, run: int) -> list[tuple[int, Experience]]:
        rows = self._reader.execute(f"{EXPERIENCES} WHERE e.run = ? ORDER BY e.id", (run,)).fetchall()
        return [(row[0], experience_of(row, self.path)) for row in rows]

    def known(self) -> list[str]:
        return self._names(f"WHERE state != {_REFUSED}")

    def _names(self, which: str) -> list[str]:
        with self._read_lock, self._explained("read"):
            return [row[0] for row in self._reader.execute(f"SELECT id FROM fleet_run {which} ORDER BY run")]

    def run(self, name: str) -> Waiting:
        with self._read_lock, self._explained("read"):
            rows = self._reader.execute(
                'SELECT s.text, s.embedding, e."end", e.digest, e.task_id, e.task_name, e.decision, e.depth, e.turns '
                "FROM fleet_run f JOIN experience e ON e.run = f.run JOIN subgoal s ON s.id = e.subgoal "
                "WHERE f.id = ? ORDER BY e.id",
                (name,),
            ).fetchall()
            return Waiting(name, [Row(text, np.frombuffer(blob, VECTOR), *rest) for text, blob, *rest in rows])

    def delivered(self, name: str) -> None:
        self._set_state([name], _DELIVERED)

    def refuses(self, name: str) -> None:
        self._set_state([name], _REFUSED)

    def lacks(self, names: Iterable[str]) -> None:
        self._set_state(names, _WAITING)

    def _set_state(self, names: Iterable[str], state: int) -> None:
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            database.executemany("UPDATE fleet_run SET state = ? WHERE id = ?", [(state, name) for name in names])

    def copy(self, name: str, run: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep a copy of a run of another robot; what is here already stays as it is."""
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            if database.execute("SELECT 1 FROM fleet_run WHERE id = ?", (name,)).fetchone() is None:
                number = super()._insert(database, run, vectors)
                database.execute("INSERT INTO fleet_run VALUES (?, ?, ?)", (number, name, _COPY))

    def copies(self) -> int:
        with self._read_lock, self._explained("read"):
            count = "SELECT count(*) FROM experience e JOIN fleet_run f ON f.run = e.run WHERE f.state = ?"
            return int(self._reader.execute(count, (_COPY,)).fetchone()[0])

    def noted(self, key: str) -> str | None:
        with self._read_lock, self._explained("read"):
            row = self._reader.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def note(self, key: str, value: object) -> None:
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(value)))

    def join(self, fleet: str) -> None:
        joined = self.noted("fleet")
        if joined is None:
            self.note("fleet", fleet)
        elif joined != fleet:
            raise EpisodicMemoryError(
                f"{self.path}: belongs to the fleet {joined}, and this server is that of the fleet {fleet}: name "
                "another file by own=FILE, or the other server"
            )

    def counts(self) -> Counts:
        return self.with_only_here(super().counts())

    def with_only_here(self, counts: Counts) -> Counts:
        only_here = {
            "wait for the fleet's server": len(self.waiting()),
            "the fleet's server refuses": len(self.refused()),
        }
        return replace(counts, only_here={what: number for what, number in only_here.items() if number})

    def ranked_among(self, only: Container[int] | None, text: str, seed: int) -> Iterator[tuple[float, Experience]]:
        """Yield the experiences with some numbers, None: all; see :meth:`EpisodicMemory.ranked`."""
        return self._ranked(text, seed, only)
