"""The file of a kept map: things of houses, the places where each was found, and how often their kind moves.

A transaction holds one observation. ``synchronous=NORMAL``: a commit does not wait for the disk, as a robot's map is
written many times a minute. What was written outlives a kill of the process; a power failure may take the last seconds.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, shown
from reactree_ros.memory.sqlite_file import SqliteFile

#: Of one house the most things, and of one thing the most places: who was seen longest ago makes room.
MOST_THINGS, MOST_SPOTS = 10_000, 16

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
_COLUMNS = (
    "SELECT t.name, t.word, t.number, t.own, t.held, s.place, s.room, s.x, s.y, s.z, s.found, s.in_vain, s.missed, "
    "s.first, s.last, s.missed_at, s.sure, s.robot FROM thing t LEFT JOIN spot s ON s.thing = t.id"
)
_NONE = type(None)
#: What these hold in a file that is not damaged.
_KINDS: Sequence[type | tuple[type, type]] = (
    *(str, str, int, str),
    *[(str, _NONE)] * 3,
    *[(float, _NONE)] * 3,
    *[(int, _NONE)] * 3,
    *[(float, _NONE)] * 4,
    (str, _NONE),
)


class MapError(UserError, RuntimeError):
    """A kept map cannot be opened, read or written; the message is one line."""


class Place(NamedTuple):
    """Where something is."""

    name: str = ""
    room: str = ""
    pose: tuple[float, float, float] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.room


@dataclass
class Spot:
    place: Place  # where
    found: int = 0  # how many times it was found there
    in_vain: int = 0  # how many times it was looked for there in vain
    missed: int = 0  # how many of these were after it was found there last
    first: float = 0.0  # when it was found there first, in seconds since 1970
    last: float = 0.0  # when last
    missed_at: float = 0.0  # when it was missed there last
    sure: float = 1.0  # how certain the last sighting was, 0 to 1
    robot: str = ""  # who saw it


@dataclass
class Thing:
    name: str  # e.g. ``cup 1``
    word: str  # its class in words
    number: int  # its number within that; 0: its word is its own name
    own: str = ""  # what the robot's own detector calls it; empty: it has no name of its own
    held: str | None = None  # the robot that holds it; None: nobody
    spots: dict[tuple[str, str], Spot] = field(default_factory=dict)  # where it was found, by :attr:`Place.key`

    @property
    def latest(self) -> Spot | None:
        return max(self.spots.values(), key=lambda spot: spot.last, default=None)

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {**vars(self), "spots": []}
        for spot in self.spots.values():
            place, room, pose = spot.place
            known = {} if pose is None else {"pose": pose}
            data["spots"].append({**vars(spot), "place": place, "room": room, **known})
        return {name: value for name, value in data.items() if (name, value) not in (("own", ""), ("held", None))}

    @classmethod
    def from_data(cls, data: Any, *, where: str) -> Thing:
        """Read it back; the message of a MapError begins with `where`."""
        try:
            read = checked(_ThingData, data)
        except ValueError as error:
            raise MapError(f"{where}: {shown(data)} is no thing of a map: {error}") from None
        thing = cls(read.name, read.word, read.number, read.own, read.held)
        for one in read.spots:
            place = Place(one.place, one.room, one.pose)
            thing.spots[place.key] = Spot(place, **one.model_dump(exclude={"place", "room", "pose"}))
        return thing


_Text = Annotated[str, Field(max_length=200)]
_Name = Annotated[_Text, Field(pattern=r"\S")]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _SpotData(BaseModel):
    place: _Text
    room: _Text
    pose: tuple[_Number, _Number, _Number] | None = None
    found: int
    in_vain: int
    missed: int
    first: _Number
    last: _Number
    missed_at: _Number
    sure: _Number
    robot: _Text


class _ThingData(BaseModel):
    name: _Name
    word: _Name
    number: int
    own: _Text = ""
    held: _Text | None = None
    spots: list[_SpotData]


class HouseStore(SqliteFile):
    """The file. Its methods may be called from several threads."""

    what, application_id, version, schema = "a kept map", 0x5263486D, 1, _SCHEMA  # "RcHm"
    synchronous = "NORMAL"
    error = MapError

    def houses(self) -> list[str]:
        with self._reading() as database:
            return [name for (name,) in database.execute("SELECT name FROM house ORDER BY name")]

    @contextlib.contextmanager
    def writing(self, house: str) -> Iterator[House]:
        with self._writing() as database:
            database.execute("INSERT OR IGNORE INTO house (name) VALUES (?)", (house,))
            yield House(database, house)

    @contextlib.contextmanager
    def reading(self, house: str) -> Iterator[House]:
        with self._reading() as database:
            database.execute("BEGIN")
            try:
                yield House(database, house)
            finally:
                database.execute("COMMIT")


class House:
    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self._database = database
        row = database.execute("SELECT id FROM house WHERE name = ?", (name,)).fetchone()
        self._id = -1 if row is None else int(row[0])

    def thing(self, name: str) -> Thing | None:
        return next(self.things("t.name = ?", name), None)

    def things(
        self, which: str = "TRUE", *given: str, order: str = "t.id", only_latest: bool = False
    ) -> Iterator[Thing]:
        latest = "AND s.last = t.last" if only_latest else ""
        select = f"{_COLUMNS} {latest} WHERE t.house = {self._id} AND {which} ORDER BY {order}"
        found: dict[str, Thing] = {}
        for row in self._database.execute(select, given):
            if not all(isinstance(one, kind) for one, kind in zip(row, _KINDS, strict=True)):
                raise ValueError(shown(row))
            thing = found.setdefault(row[0], Thing(*row[:5]))
            place, room, x, y, z, *rest = row[5:]
            if place is not None:
                at = Place(place, room, None if x is None else (x, y, z))
                thing.spots[at.key] = Spot(at, *rest)
        return iter(found.values())

    def latest(self, most: int, names: Iterable[str] = ()) -> Iterator[Thing]:
        """Yield the things that were seen last, and those of some names, with where that was alone."""
        if named := list(filter(None, names)):
            yield from self.things(f"t.name IN ({', '.join('?' * len(named))})", *named, only_latest=True)
        newest = f"t.id IN (SELECT id FROM thing WHERE house = {self._id} ORDER BY last DESC LIMIT {most})"
        yield from self.things(newest, order="t.last DESC", only_latest=True)

    def words(self) -> list[str]:
        rows = self._database.execute("SELECT DISTINCT word FROM thing WHERE house = ? ORDER BY word", (self._id,))
        return [word for (word,) in rows]

    def put(self, thing: Thing, *changed: Spot) -> None:
        last = thing.latest
        at, when = ("", 0.0) if last is None else (last.place.name, last.last)
        (number,) = self._database.execute(
            "INSERT INTO thing (house, name, word, number, own, held, at, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (house, name) DO UPDATE SET word = excluded.word, number = excluded.number, "
            "own = excluded.own, held = excluded.held, at = excluded.at, last = excluded.last RETURNING id",
            (self._id, thing.name, thing.word, thing.number, thing.own, thing.held, at, when),
        ).fetchone()
        for spot in changed:
            place, room, pose = spot.place
            row = (number, place, room, *(pose or (None, None, None)), *list(vars(spot).values())[1:])
            self._database.execute(f"INSERT OR REPLACE INTO spot VALUES ({', '.join('?' * len(row))})", row)
        for key in sorted(thing.spots, key=lambda key: -thing.spots[key].last)[MOST_SPOTS:]:
            del thing.spots[key]
            self._database.execute("DELETE FROM spot WHERE thing = ? AND place = ? AND room = ?", (number, *key))
        if number > MOST_THINGS:  # nearly never
            self._make_room()

    def _make_room(self) -> None:
        (count,) = self._database.execute("SELECT count(*) FROM thing WHERE house = ?", (self._id,)).fetchone()
        self._database.execute(
            "DELETE FROM thing WHERE id IN (SELECT id FROM thing WHERE house = ? ORDER BY last LIMIT ?)",
            (self._id, max(0, count - MOST_THINGS)),
        )

    def remove(self, name: str) -> None:
        self._database.execute("DELETE FROM thing WHERE house = ? AND name = ?", (self._id, name))

    def in_vain(self, place: str, now: float, *, not_since: float) -> None:
        """Count that a place was looked at in vain for what was found there once, and is taken to be elsewhere."""
        self._database.execute(
            "UPDATE spot SET in_vain = in_vain + 1, missed = missed + 1, missed_at = ? "
            "WHERE place = ? AND missed_at < ? "
            "AND EXISTS (SELECT 1 FROM thing WHERE id = spot.thing AND house = ? AND at <> spot.place)",
            (now, place, not_since, self._id),
        )

    def count(self, word: str, stayed: float, moves: int) -> None:
        self._database.execute(
            "INSERT INTO habit VALUES (?, ?, ?, ?) ON CONFLICT (house, word) DO UPDATE "
            "SET stayed = stayed + excluded.stayed, moves = moves + excluded.moves",
            (self._id, word, max(0.0, stayed), moves),
        )

    def habits(self) -> dict[str, tuple[float, int]]:
        rows = self._database.execute("SELECT word, stayed, moves FROM habit WHERE house = ?", (self._id,))
        return {word: (float(stayed), int(moves)) for word, stayed, moves in rows}
