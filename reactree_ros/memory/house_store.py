"""The file of a kept map: things of houses, the places where each was found, and how often their kind moves.

A transaction holds one observation. ``synchronous=NORMAL``: a commit does not wait for the disk, as a robot's map is
written many times a minute. What was written outlives a kill of the process; a power failure may take the last seconds.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import shown
from reactree_ros.memory.sqlite_file import SqliteFile

#: Of one house the most things, and of one thing the most places: who was seen longest ago makes room.
MOST_THINGS, MOST_SPOTS = 10_000, 16
#: The longest name or word.
_LONGEST = 200

_SCHEMA = (
    "CREATE TABLE house (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    """CREATE TABLE thing (
        id INTEGER PRIMARY KEY,
        house INTEGER NOT NULL REFERENCES house,
        name TEXT NOT NULL,
        word TEXT NOT NULL,
        number INTEGER NOT NULL,
        own TEXT NOT NULL,
        held TEXT,
        at TEXT NOT NULL,
        last REAL NOT NULL,
        UNIQUE (house, name))""",
    "CREATE INDEX thing_word ON thing (house, word)",
    "CREATE INDEX thing_at ON thing (house, at)",
    "CREATE INDEX thing_last ON thing (house, last)",
    """CREATE TABLE spot (
        thing INTEGER NOT NULL REFERENCES thing ON DELETE CASCADE,
        place TEXT NOT NULL,
        room TEXT NOT NULL,
        x REAL, y REAL, z REAL,
        found INTEGER NOT NULL,
        in_vain INTEGER NOT NULL,
        missed INTEGER NOT NULL,
        first REAL NOT NULL,
        last REAL NOT NULL,
        missed_at REAL NOT NULL,
        sure REAL NOT NULL,
        robot TEXT NOT NULL,
        PRIMARY KEY (thing, place, room)) WITHOUT ROWID""",
    "CREATE INDEX spot_place ON spot (place)",
    """CREATE TABLE habit (
        house INTEGER NOT NULL REFERENCES house,
        word TEXT NOT NULL,
        stayed REAL NOT NULL,
        moves INTEGER NOT NULL,
        PRIMARY KEY (house, word)) WITHOUT ROWID""",
)
_COLUMNS = "SELECT t.name, t.word, t.number, t.own, t.held, s.place, s.room, s.x, s.y, s.z, s.first, s.last"
_JOINED = "s.found, s.in_vain, s.missed, s.missed_at, s.sure, s.robot FROM thing t LEFT JOIN spot s ON s.thing = t.id"
_THINGS = f"{_COLUMNS}, {_JOINED} WHERE t.house = ?"
#: The same with no more than the place where each was seen last.
_LATEST = f"{_COLUMNS}, {_JOINED} AND s.last = t.last WHERE t.house = ?"


class MapError(UserError, RuntimeError):
    """A kept map cannot be opened, read or written; the message is one line."""


class Place(NamedTuple):
    """Where something is.

    Attributes:
        name: In or on what, or with whom; empty: nothing that has a name.
        room: The room; empty: unknown.
        pose: Its position in the house's frame, in metres; None if the world has none.
    """

    name: str = ""
    room: str = ""
    pose: tuple[float, float, float] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """By which it is known again."""
        return self.name, self.room


@dataclass
class Spot:
    """That a thing was found at a place."""

    place: Place  # where
    first: float = 0.0  # when it was found there first, in seconds since 1970
    last: float = 0.0  # when last
    found: int = 0  # how many times
    in_vain: int = 0  # how many times it was looked for there in vain
    missed: int = 0  # how many of these were after it was found there last
    missed_at: float = 0.0  # when the last of these was
    sure: float = 1.0  # how certain the last sighting was, 0 to 1
    robot: str = ""  # who saw it


@dataclass
class Thing:
    """A thing of the house, or a person.

    Attributes:
        name: E.g. ``cup 1``.
    """

    name: str
    word: str  # its class in words
    number: int  # its number within that; 0: its word is its own name
    own: str = ""  # what the robot's own detector calls it; empty: it has no name of its own
    held: str | None = None  # the robot that holds it; None: nobody
    spots: dict[tuple[str, str], Spot] = field(default_factory=dict)  # where it was found, by :attr:`Place.key`

    @property
    def latest(self) -> Spot | None:
        """Where it was seen last; None: nowhere."""
        return max(self.spots.values(), key=lambda spot: spot.last, default=None)

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        spots = [
            {
                **{"place": spot.place.name, "room": spot.place.room},
                **({} if spot.place.pose is None else {"pose": list(spot.place.pose)}),
                **{name: getattr(spot, name) for name in _OF_SPOT},
            }
            for spot in self.spots.values()
        ]
        own = {"own": self.own} if self.own else {}
        held = {} if self.held is None else {"held": self.held}
        return {"name": self.name, "word": self.word, "number": self.number, **own, **held, "spots": spots}

    @classmethod
    def of_data(cls, data: Any, *, where: str) -> Thing:
        """Read it back.

        Raises:
            MapError: It is none; the message begins with `where`.
        """
        try:
            thing = cls(
                _text(data["name"]),
                _text(data["word"]),
                int(data["number"]),
                _text(data.get("own", ""), empty=True),
                None if data.get("held") is None else _text(data["held"], empty=True),
            )
            for one in data["spots"]:
                x, y, z = map(_number, one["pose"]) if "pose" in one else (None, None, None)
                pose = None if x is None or y is None or z is None else (x, y, z)
                place = Place(_text(one["place"], empty=True), _text(one["room"], empty=True), pose)
                numbers = {
                    name: type(default)(_number(one[name])) for name, default in _OF_SPOT.items() if default != ""
                }
                thing.spots[place.key] = Spot(place, **numbers, robot=_text(one["robot"], empty=True))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            said = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else error
            raise MapError(f"{where}: {shown(data)} is no thing of a map: {said}") from None
        return thing


#: Fields of a spot besides its place, with their defaults.
_OF_SPOT: Mapping[str, Any] = {
    **{"found": 0, "in_vain": 0, "missed": 0},
    **{"first": 0.0, "last": 0.0, "missed_at": 0.0, "sure": 1.0},
    "robot": "",
}


def _text(value: Any, *, empty: bool = False) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST or not (value.strip() or empty):
        raise ValueError(f"{shown(value)} is no name")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{shown(value)} is no number")
    return value


class HouseStore(SqliteFile):
    """The file. Its methods may be called from several threads."""

    what, application_id, version = "a kept map", 0x5263486D, 1  # "RcHm"
    synchronous = "NORMAL"
    error = MapError

    def __init__(self, path: Path, *, busy_timeout: float = 10.0) -> None:
        super().__init__(path, busy_timeout=busy_timeout)

    def _make(self, database: sqlite3.Connection) -> None:
        for statement in _SCHEMA:
            database.execute(statement)

    def houses(self) -> list[str]:
        """The names of the houses."""
        with self._read_lock, self._explained("read"):
            return [name for (name,) in self._reader.execute("SELECT name FROM house ORDER BY name")]

    @contextlib.contextmanager
    def writing(self, house: str) -> Iterator[House]:
        """Change a house in one transaction."""
        with self._write_lock, self._explained("write to"), self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO house (name) VALUES (?)", (house,))
            yield self.House(database, house)

    @contextlib.contextmanager
    def reading(self, house: str) -> Iterator[House]:
        """Read of a house what is of one moment."""
        with self._read_lock, self._explained("read"):
            self._reader.execute("BEGIN")
            try:
                yield self.House(self._reader, house)
            finally:
                self._reader.execute("COMMIT")

    class House:
        """One house, within a transaction."""

        def __init__(self, database: sqlite3.Connection, name: str) -> None:
            self._database = database
            row = database.execute("SELECT id FROM house WHERE name = ?", (name,)).fetchone()
            self._id = -1 if row is None else int(row[0])

        def thing(self, name: str) -> Thing | None:
            """Return a thing by its name."""
            return next(self._of(f"{_THINGS} AND t.name = ?", name), None)

        def things(self, word: str | None) -> Iterator[Thing]:
            """Yield the things of a word, or all."""
            return self._of(f"{_THINGS} ORDER BY t.id") if word is None else self._of(f"{_THINGS} AND t.word = ?", word)

        def newest(self) -> Iterator[Thing]:
            """Yield all things, each with no more than the place where it was seen last."""
            return self._of(f"{_LATEST} ORDER BY t.id")

        def held_by(self, robot: str) -> list[Thing]:
            """Return what a robot holds."""
            return list(self._of(f"{_THINGS} AND t.held = ?", robot))

        def believed_at(self, place: str) -> list[Thing]:
            """Return what was seen last at a place."""
            return list(self._of(f"{_THINGS} AND t.at = ? AND t.held IS NULL", place))

        def in_vain(self, place: str, now: float, *, not_since: float) -> None:
            """Count that a place was looked at in vain for what was found there once, and is taken to be elsewhere."""
            self._database.execute(
                "UPDATE spot SET in_vain = in_vain + 1, missed = missed + 1, missed_at = ? "
                "WHERE place = ? AND missed_at < ? "
                "AND EXISTS (SELECT 1 FROM thing WHERE id = spot.thing AND house = ? AND at <> spot.place)",
                (now, place, not_since, self._id),
            )

        def latest(self, most: int, names: Iterable[str] = ()) -> Iterator[Thing]:
            """Yield the things that were seen last, and those of some names, with where that was alone."""
            if named := list(filter(None, names)):
                yield from self._of(f"{_LATEST} AND t.name IN ({', '.join('?' * len(named))})", *named)
            newest = f"t.id IN (SELECT id FROM thing WHERE house = {self._id} ORDER BY last DESC LIMIT {most})"
            yield from self._of(f"{_LATEST} AND {newest} ORDER BY t.last DESC")

        def words(self) -> list[str]:
            """Return the words of all things."""
            rows = self._database.execute("SELECT DISTINCT word FROM thing WHERE house = ? ORDER BY word", (self._id,))
            return [word for (word,) in rows]

        def _of(self, select: str, *given: str) -> Iterator[Thing]:
            """Yield things, each with its places, of which the rows follow one another."""
            thing: Thing | None = None
            for row in self._database.execute(select, (self._id, *given)).fetchall():
                if thing is None or thing.name != row[0]:
                    if thing is not None:
                        yield thing
                    thing = Thing(*row[:5])
                place, room, x, y, z, first, last, *rest = row[5:]
                if place is not None:
                    at = Place(place, room, None if x is None else (x, y, z))
                    thing.spots[at.key] = Spot(at, first, last, *rest)
            if thing is not None:
                yield thing

        def put(self, thing: Thing, *changed: Spot) -> None:
            """Write a thing, with those of its places that have changed."""
            last = thing.latest
            at, when = ("", 0.0) if last is None else (last.place.name, last.last)
            row = self._database.execute(
                "INSERT INTO thing (house, name, word, number, own, held, at, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (house, name) DO UPDATE SET word = excluded.word, number = excluded.number, "
                "own = excluded.own, held = excluded.held, at = excluded.at, last = excluded.last RETURNING id",
                (self._id, thing.name, thing.word, thing.number, thing.own, thing.held, at, when),
            ).fetchone()
            self._database.executemany(
                f"INSERT OR REPLACE INTO spot VALUES ({', '.join('?' * 14)})",
                (
                    (
                        *(row[0], *spot.place.key, *(spot.place.pose or (None, None, None))),
                        *(spot.found, spot.in_vain, spot.missed, spot.first, spot.last, spot.missed_at),
                        *(spot.sure, spot.robot),
                    )
                    for spot in changed
                ),
            )
            for key in sorted(thing.spots, key=lambda key: -thing.spots[key].last)[MOST_SPOTS:]:
                gone = "DELETE FROM spot WHERE thing = ? AND place = ? AND room = ?"
                self._database.execute(gone, (row[0], *thing.spots.pop(key).place.key))
            self._make_room()

        def _make_room(self) -> None:
            (highest,) = self._database.execute("SELECT max(id) FROM thing").fetchone()
            if highest <= MOST_THINGS:  # as nearly always, and quick to see
                return
            (count,) = self._database.execute("SELECT count(*) FROM thing WHERE house = ?", (self._id,)).fetchone()
            self._database.execute(
                "DELETE FROM thing WHERE id IN (SELECT id FROM thing WHERE house = ? ORDER BY last LIMIT ?)",
                (self._id, max(0, count - MOST_THINGS)),
            )

        def remove(self, name: str) -> None:
            """Remove a thing."""
            self._database.execute("DELETE FROM thing WHERE house = ? AND name = ?", (self._id, name))

        def count(self, word: str, stayed: float, moves: int) -> None:
            """Count that a thing of a word stayed where it was for so long, and moved."""
            self._database.execute(
                "INSERT INTO habit VALUES (?, ?, ?, ?) ON CONFLICT (house, word) DO UPDATE "
                "SET stayed = stayed + excluded.stayed, moves = moves + excluded.moves",
                (self._id, word, max(0.0, stayed), moves),
            )

        def habits(self) -> dict[str, tuple[float, int]]:
            """Return for how long things of each word stayed in all, and how often one moved."""
            rows = self._database.execute("SELECT word, stayed, moves FROM habit WHERE house = ?", (self._id,))
            return {word: (float(stayed), int(moves)) for word, stayed, moves in rows}
