"""What is kept of a house from run to run: what was seen where and when, what was looked for in vain, how it moves.

A sighting is believed less as time passes: by a rate of its kind of thing, learnt from what was found again where it
was and what was not. So a cup is soon anywhere, and a sofa stays. How likely a thing is at a place is::

    last sighting    sure * exp(-rate * age), a fifth of that for each look in vain since
    anywhere else    the rest, shared out by how often such things were found there

The rate of a word is ``(moves + 1) / (time + 1 / rate of the house)``, and that of a house ``(moves + 1) / (time + a
day)``: what is known of one word only is the house's, and of nothing at all one move a day.

In the file a transaction holds one observation. ``synchronous=NORMAL``: a commit does not wait for the disk, as a
robot's map is written many times a minute. What was written outlives a kill of the process; a power failure may take
the last seconds.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field

from reactree_ros.agent.household import named
from reactree_ros.agent.observation import GONE, PERHAPS, REMEMBERED, Observation, Seen
from reactree_ros.agent.text import names
from reactree_ros.background.pending import Pending, Worker
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, in_a_line, shown
from reactree_ros.memory.sqlite_file import SqliteFile

T = TypeVar("T")
DAY = 86400.0
#: A thing that is seen again where it was seen within this time is not counted again, in seconds.
SAME_VISIT = 60.0
#: What is left of the belief in a sighting after a look in vain: detectors miss things.
AFTER_MISS = 0.2
#: From this likelihood on a thing is said to have been seen somewhere; below, such a place is one to look at.
LIKELY, LEAST = 0.3, 0.02
#: Most that one observation is told: of all, of the things of a word, and of further places to look at for it.
MOST_TOLD, MOST_OF_A_WORD, MOST_PLACES = 40, 12, 6
#: The shortest time between two sightings of a thing, in seconds.
_TICK = 0.001
#: Longest wait until all is written that was taken in, in seconds.
_CLOSING = 30.0
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


_Text = Annotated[str, Field(max_length=200)]
_Name = Annotated[_Text, Field(pattern=r"\S")]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class Place(NamedTuple):
    """Where something is."""

    name: _Text = ""
    room: _Text = ""
    pose: tuple[_Number, _Number, _Number] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.room


@dataclass
class Spot:
    place: Place  # where
    found: int = 0  # how many times it was found there
    in_vain: int = 0  # how many times it was looked for there in vain
    missed: int = 0  # how many of these were after it was found there last
    first: _Number = 0.0  # when it was found there first, in seconds since 1970
    last: _Number = 0.0  # when last
    missed_at: _Number = 0.0  # when it was missed there last
    sure: _Number = 1.0  # how certain the last sighting was, 0 to 1
    robot: _Text = ""  # who saw it


@dataclass
class Thing:
    name: _Name  # e.g. ``cup 1``
    word: _Name  # its class in words
    number: int  # its number within that; 0: its word is its own name
    own: _Text = ""  # what the robot's own detector calls it; empty: it has no name of its own
    held: _Text | None = None  # the robot that holds it; None: nobody
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
            spots = list(map(_spot, data["spots"]))
            thing = checked(cls, {**data, "spots": {}})
        except (ValueError, TypeError, LookupError) as error:
            raise MapError(f"{where}: {shown(data)} is not a thing of a map: {in_a_line(error)}") from None
        thing.spots = {spot.place.key: spot for spot in spots}
        return thing


def _spot(data: Mapping[str, Any]) -> Spot:
    given = dict(data)
    place = [given.pop("place"), given.pop("room"), given.pop("pose", None)]
    return checked(Spot, {**given, "place": place})


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


# ---------------------------------------------------------------------- the map of one house


@dataclass(frozen=True)
class Belief:
    thing: Thing  # what it is
    spot: Spot  # where it was seen last
    sure: float  # how likely it is there still, 0 to 1
    age: float  # how long ago it was seen there, in seconds


class HouseMap(SqliteFile):
    """The map of one house that is kept in a file, which several robots and processes share.

    All methods but :meth:`do` may wait for a disk; a tick calls that. They raise a :class:`MapError`.
    """

    what, application_id, version, schema = "a kept map", 0x5263486D, 1, _SCHEMA  # "RcHm"
    synchronous = "NORMAL"
    error = MapError

    def __init__(self, path: str | Path, house: str = "", *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(Path(path))
        self._house, self.clock = house, clock
        self._worker = Worker(f"map of {house or 'a house'}", MapError)

    def do(self, work: Callable[[], T]) -> Pending[T]:
        """Do something with it in the background, after what was asked of it before."""
        return self._worker.do(work)

    def close(self) -> None:
        wait([self.leave()], timeout=_CLOSING)

    def __enter__(self) -> HouseMap:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def leave(self) -> Pending[object]:
        return Pending.ready(None) if self._worker.lost else self._worker.close(super().close)

    def houses(self) -> list[str]:
        with self._reading() as database:
            return [name for (name,) in database.execute("SELECT name FROM house ORDER BY name")]

    @contextlib.contextmanager
    def writing(self) -> Iterator[House]:
        with self._writing() as database:
            database.execute("INSERT OR IGNORE INTO house (name) VALUES (?)", (self._house,))
            yield House(database, self._house)

    @contextlib.contextmanager
    def reading(self) -> Iterator[House]:
        with self._reading() as database:
            database.execute("BEGIN")
            try:
                yield House(database, self._house)
            finally:
                database.execute("COMMIT")

    def take(self, observation: Observation, name_of: Callable[[str, int], str] = named, *, robot: str = "") -> None:
        """Take an observation in: what is seen, held and gone, and what is missing where all was seen."""
        here = {name_of(seen.word, seen.instance): seen for seen in observation.seen}
        with self.writing() as house:
            now = self.clock()
            for name, seen in here.items():
                thing = house.thing(name) or Thing(name, seen.word, seen.instance)
                if GONE in seen.states:
                    house.remove(name)
                elif seen.held:
                    _taken(house, thing, robot, now)
                else:
                    at = "" if seen.place == name else seen.place or ""
                    _found(house, thing, Place(at, seen.room or ""), now, robot=robot)
            for thing in house.things("t.held = ?", robot):
                if not here.get(thing.name, _NOWHERE).held:
                    thing.held = None
                    house.put(thing)
            for place in observation.looked_at(name_of):
                for thing in house.things("t.at = ? AND t.held IS NULL", place):
                    if thing.name not in here:
                        _missed(house, thing, now)
                house.in_vain(place, now, not_since=now - SAME_VISIT)

    def found(
        self, name: str, word: str, number: int, place: Place, *, sure: float = 1.0, robot: str = "", own: str = ""
    ) -> None:
        """Note that a thing was seen at a place, as a detector tells."""
        with self.writing() as house:
            thing = house.thing(name) or Thing(name, word, number)
            thing.own = own or thing.own
            _found(house, thing, place, self.clock(), sure=sure, robot=robot)

    def missed(self, name: str) -> None:
        """Note that a thing was looked for where it was taken to be, and is not there."""
        with self.writing() as house:
            if (thing := house.thing(name)) is not None:
                _missed(house, thing, self.clock())

    def taken(self, name: str, robot: str = "") -> None:
        with self.writing() as house:
            if (thing := house.thing(name)) is not None:
                _taken(house, thing, robot, self.clock())

    def beliefs(self, word: str | None = None) -> list[Belief]:
        """Return where things are taken to be, the surest first; without what is held."""
        with self.reading() as house:
            now, rates = self.clock(), _Rates(house)
            return _ranked(
                house.things(only_latest=True) if word is None else house.things("t.word = ?", word), rates, now
            )

    def likely(self, word: str) -> list[tuple[Place, float]]:
        """Return the places where a thing of a word may be found, with how likely one is there, the likeliest first."""
        with self.reading() as house:
            things = list(house.things("t.word = ?", word))
            return _likely(things, _Rates(house), self.clock())

    def remembered(self, goal: str) -> tuple[Seen, ...]:
        """Return what is known for a goal, as :attr:`Observation.remembered` has it."""
        told, places = dict[tuple[str, int, str, str], Seen](), dict[str, None]()

        def tell(thing: Thing, at: Place, *states: str) -> None:
            if len(told) < MOST_TOLD:
                where = at.room or None, at.name or None
                seen = Seen(thing.word, thing.number, *where, states=(REMEMBERED, *states))
                told.setdefault((thing.word, thing.number, at.name, at.room), seen)

        with self.reading() as house:
            now, rates = self.clock(), _Rates(house)
            for word in house.words():
                if not any(names(goal, form) for form in (word, f"{word}s", f"{word}es")):
                    continue
                things = list(house.things("t.word = ?", word))
                for belief in _ranked(things, rates, now)[:MOST_OF_A_WORD]:
                    if belief.sure >= LIKELY:
                        tell(belief.thing, belief.spot.place, ago(belief.age))
                        places.setdefault(belief.spot.place.name)
                for place, _ in _likely(things, rates, now)[:MOST_PLACES]:
                    tell(things[0], place, PERHAPS)
                    places.setdefault(place.name)
            for thing in house.latest(max(0, MOST_TOLD - len(told)), places):
                for belief in _ranked([thing], rates, now):
                    if belief.sure >= LIKELY:
                        tell(thing, belief.spot.place, ago(belief.age))
        return tuple(told.values())

    def stays(self) -> dict[str, float]:
        with self.reading() as house:
            rates = _Rates(house)
            return {word: 1 / rates.moves(word) for word in house.words()}

    def forget(self, name: str) -> int:
        with self.writing() as house:
            gone = [thing.name for thing in house.things() if name in (thing.name, thing.word)]
            for one in gone:
                house.remove(one)
            return len(gone)

    def export(self) -> Iterator[dict[str, Any]]:
        """Yield every thing as JSON has it, with all places where it was found or looked for in vain."""
        with self.reading() as house:
            things = list(house.things())
        for thing in things:
            yield thing.as_data()

    def put(self, things: Iterable[Any], *, where: str = "things") -> int:
        read = [Thing.from_data(one, where=f"{where}:{number}") for number, one in enumerate(things, 1)]
        with self.writing() as house:
            for thing in read:
                house.remove(thing.name)
                house.put(thing, *thing.spots.values())
        return len(read)


_NOWHERE = Seen("", 0, None)


def ago(seconds: float) -> str:
    """Say how long ago something was, e.g. ``2 hours ago``."""
    for unit, length in (("day", DAY), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= length:
            count = int(seconds / length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


# ---------------------------------------------------------------------- how beliefs change


def _found(house: House, thing: Thing, at: Place, now: float, *, sure: float = 1.0, robot: str = "") -> None:
    last = thing.latest
    if not at.name and not at.room and at.pose is None:
        return
    if last is not None and thing.held is None and not last.missed:
        if at.pose is None and not at.name and last.place.room == at.room:
            at = last.place  # seen from the middle of the room: where in it is known
        if last.place == at and now - last.last < SAME_VISIT:
            return
    if last is not None:
        now = max(now, last.last + _TICK)  # the newest sighting counts, also where a clock was set back
    spot = thing.spots.get(at.key)
    if last is not None and thing.held is None and now > last.last:
        if last is spot and last.missed and last.missed_at >= last.last:
            house.count(thing.word, now - last.missed_at, -1)  # it was overlooked
        elif not last.missed:
            house.count(thing.word, now - last.last, int(_has_moved(last, at, now)))
    if spot is None:
        spot = thing.spots[at.key] = Spot(at, first=now)
    if not spot.found or spot is not last or spot.missed or now - spot.last >= SAME_VISIT:
        spot.found += 1
    spot.place, spot.last, spot.missed, spot.sure, spot.robot = at, now, 0, sure, robot
    thing.held = None
    house.put(thing, spot)


def _has_moved(last: Spot, at: Place, now: float) -> bool:
    # not if it is only seen better, or from another place
    same_room = last.place.room == at.room
    seen_better = same_room and (not last.place.name or now - last.last < SAME_VISIT)
    return last.place.key != at.key and not seen_better


def _missed(house: House, thing: Thing, now: float) -> None:
    last = thing.latest
    if last is None or thing.held is not None or (last.missed and now - last.missed_at < SAME_VISIT):
        return
    if not last.missed:
        house.count(thing.word, now - last.last, 1)
    last.missed, last.in_vain, last.missed_at = last.missed + 1, last.in_vain + 1, now
    house.put(thing, last)


def _taken(house: House, thing: Thing, robot: str, now: float) -> None:
    last, before = thing.latest, thing.held
    thing.held = robot
    if last is not None and not last.missed and before is None:
        last.missed, last.missed_at = 1, now  # who took it knows that it is not there; it has not moved by itself
        house.put(thing, last)
    elif before != robot:
        house.put(thing)


class _Rates:
    # how often things move, in moves a second

    def __init__(self, house: House) -> None:
        self._habits = house.habits()
        stayed, moves = (sum(each) for each in zip(*self._habits.values(), strict=True)) if self._habits else (0.0, 0)
        self._of_house = (max(0, moves) + 1) / (stayed + DAY)

    def moves(self, word: str) -> float:
        stayed, moves = self._habits.get(word, (0.0, 0))
        return (max(0, moves) + 1) / (stayed + 1 / self._of_house)


def _ranked(things: Iterable[Thing], rates: _Rates, now: float) -> list[Belief]:
    beliefs = []
    for thing in things:
        if thing.held is None and (spot := thing.latest) is not None:
            age = max(0.0, now - spot.last)
            left = math.exp(-rates.moves(thing.word) * age) * AFTER_MISS**spot.missed
            beliefs.append(Belief(thing, spot, float(spot.sure * left), age))
    return sorted(beliefs, key=lambda one: (-one.sure, one.thing.name))


def _likely(things: Sequence[Thing], rates: _Rates, now: float) -> list[tuple[Place, float]]:
    absent, elsewhere = defaultdict[tuple[str, str], float](lambda: 1.0), 1.0
    for belief in _ranked(things, rates, now):
        absent[belief.spot.place.key] *= 1 - belief.sure
        elsewhere *= 1 - belief.sure
    often = defaultdict[tuple[str, str], float](float)
    for thing in things:
        rate = rates.moves(thing.word)
        for key, spot in thing.spots.items():
            often[key] += spot.found * (1 - math.exp(-rate * max(0.0, now - spot.missed_at)) if spot.missed else 1)
    total = sum(often.values()) or 1.0
    found = {key: 1 - absent[key] * (1 - elsewhere * often[key] / total) for key in dict.fromkeys([*absent, *often])}
    ranked = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return [(Place(*key), sure) for key, sure in ranked if sure >= LEAST]
