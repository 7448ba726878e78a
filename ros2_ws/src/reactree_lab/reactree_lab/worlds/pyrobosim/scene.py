"""A robot's knowledge of a world of pyrobosim, as a scene for the household rules and their wording."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_lab.worlds.pyrobosim.tasks import in_words
from reactree_ros.agent.observation import Spot
from reactree_ros.agent.picture import Picture
from reactree_ros.household.pictures import ABOVE, OWN
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.vocabulary import properties_of_word
from reactree_ros.world.drawing import HAND, WIDTH, Piece, Point, drawn

#: The word for a passage between rooms that can be closed.
HALLWAY = "hallway"


@dataclass(frozen=True)
class Description:
    rooms: tuple[Mapping[str, Any], ...]  # the rooms: name, middle, outline
    #: Places of things: name, furniture's name, its category, its part if it has several, room, whether it is open and
    #: locked at the start, middle, outline.
    places: tuple[Mapping[str, Any], ...]
    hallways: tuple[Mapping[str, Any], ...]  # name, the two rooms, whether it is open and locked at the start
    things: tuple[Mapping[str, Any], ...]  # name and category

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Description:
        return cls(**{name: tuple(entries) for name, entries in told.items()})

    def words_of_places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*map(_word_of_place, self.places), HALLWAY)))

    def words_of_things(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(in_words(one["category"]) for one in self.things))


class HouseThing(Thing):
    __slots__ = ("middle", "outline", "own", "rooms")

    def __init__(self, id: int, own: str, word: str, number: int, properties: Iterable[str]) -> None:
        self.id = id
        self.own = own  # its name in pyrobosim
        self.class_name = self.word = word
        self.number = number
        self.name = f"{word} {number}"
        self.properties = frozenset(properties)
        self.states = set[str]()
        self.is_room = False
        self.contains = "CONTAINERS" in self.properties
        self.observed = True
        self.room_item = False
        self.rooms: tuple[HouseThing, ...] = ()  # for a passage, the rooms that it joins; for a place, its room
        self.middle: tuple[float, ...] = ()  # its position; empty if that changes
        self.outline: tuple[tuple[float, float], ...] = ()  # its corners on the floor, in order

    def set_open(self, is_open: bool) -> None:
        if "CAN_OPEN" in self.properties:
            self.states = {"OPEN" if is_open else "CLOSED"}


class HouseScene(Scene):
    """The known part of a world of pyrobosim: rooms and furniture from the start, things once they were seen.

    Numbers follow the order of the world's file, so that robots in one house use the same names.
    """

    hands = 1

    def __init__(self, description: Description) -> None:
        self.things: dict[int, Thing] = {}
        self.by_name: dict[str, Thing] = {}
        self.own: dict[str, HouseThing] = {}  # by pyrobosim's names; includes unseen things
        self.called: dict[str, str] = {}  # by pyrobosim's names
        self._know_no_place()
        self._numbers: Counter[str] = Counter()
        self.at: HouseThing | None = None  # the robot's place
        self.pose: tuple[float, float, float] | None = None
        for one in description.rooms:
            room = self._add(one["name"], re.sub(r"(?<![\s\d])[\s\d]+$", "", in_words(one["name"])) or "room", ())
            room.is_room = True
            room.middle, room.outline = tuple(one["pose"]), tuple((x, y) for x, y in one["outline"])
        self.rooms: list[Thing] = list(self.things.values())
        self.agent_room = self.rooms[0]  # until the first sensation
        for one in description.places:
            self._add_place(one)
        for one in description.hallways:
            always_open = one["open"] and one["locked"]
            hallway = (
                self._make(one["name"], HALLWAY, ()) if always_open else self._add(one["name"], HALLWAY, {"CAN_OPEN"})
            )
            hallway.rooms = tuple(self.own[name] for name in one["rooms"])
            hallway.room_item = True
            hallway.set_open(one["open"])
        for one in description.things:
            self._make(one["name"], in_words(one["category"]), {"GRABBABLE"})

    def _add_place(self, one: Mapping[str, Any]) -> None:
        word, opens = _word_of_place(one), not (one["open"] and one["locked"])
        place = self._add(one["name"], word, properties_of(word, opens=opens))
        self.called.setdefault(one["furniture"], place.name)
        place.rooms = (self.own[one["room"]],)
        place.room_item = True
        place.middle, place.outline = tuple(one["pose"]), tuple((x, y) for x, y in one["outline"])
        place.set_open(one["open"])
        self._room[place.id] = place.rooms[0].id

    def _make(self, own: str, word: str, properties: Iterable[str]) -> HouseThing:
        self._numbers[word] += 1
        made = self.own[own] = HouseThing(len(self.own) + 1, own, word, self._numbers[word], properties)
        self.called[own] = made.name
        return made

    def _add(self, own: str, word: str, properties: Iterable[str]) -> HouseThing:
        made = self._make(own, word, properties)
        self.things[made.id] = self.by_name[made.name] = made
        return made

    # ------------------------------------------------------------------ what is where

    def room_of(self, thing: Thing) -> Thing | None:
        """Return a thing's room; for a passage, the robot's room if it is one of its two."""
        if isinstance(thing, HouseThing) and thing.word == HALLWAY and thing.rooms:
            return self.agent_room if self.agent_room in thing.rooms else thing.rooms[0]
        return super().room_of(thing)

    @property
    def here(self) -> HouseThing | None:
        return self.at

    def place_of(self, thing: Thing) -> HouseThing | None:
        place = self.container_of(thing) or self.surface_of(thing) if "GRABBABLE" in thing.properties else thing
        return place if isinstance(place, HouseThing) else None

    def put(self, thing: HouseThing, place: HouseThing) -> None:
        self.things[thing.id] = self.by_name[thing.name] = thing
        self.place(thing, place, inside=place.contains)

    def lay(self, thing: HouseThing, place: HouseThing) -> None:
        """Record a thing's place for goals, which do not distinguish on and in."""
        self.put(thing, place)
        self._surface[thing.id] = self._container[thing.id] = place.id

    def see(self, place: str, detected: Iterable[str]) -> None:
        """Record the things detected at a place; earlier things that are missing now have no known place."""
        there, found = self.own[place], [self.own[name] for name in detected]
        for thing in self.known():
            if self.place_of(thing) is there and thing not in found:
                self.lose(thing)
        for thing in found:
            if thing.id not in self.held:
                self.put(thing, there)

    def feel(
        self, *, pose: tuple[float, float, float], room: str, at: str, held: str, doors: Mapping[str, bool]
    ) -> None:
        """Record the robot's state, and the doors that it sees open."""
        self.pose = pose
        if room:
            self.agent_room = self.own[room]
        self.at = self.own[at] if at and self.own[at].id in self.things else None
        for name, is_open in doors.items():
            self.own[name].set_open(is_open)
        thing = self.own.get(held)
        for id in [id for id in self.held if thing is None or id != thing.id]:
            self.lose(self.things[id])
        if thing is not None and thing.id not in self.held:
            self.things[thing.id] = self.by_name[thing.name] = thing
            self.take(thing)
        self.close = [one.id for one in self.near()]

    def near(self) -> list[Thing]:
        """List things next to the robot, without held ones: its place, and the things seen there."""
        if self.at is None:
            return []
        around = (one for one in self.known() if self.place_of(one) is self.at)
        return [self.at, *(one for one in around if one.id not in self.held and not self.hidden(one))]

    def known(self) -> Iterator[Thing]:
        return (one for one in self.things.values() if "GRABBABLE" in one.properties)

    # ------------------------------------------------------------------ for people who watch

    def spots(self, names: Iterable[str]) -> tuple[Spot, ...]:
        spots = [] if self.pose is None else [Spot("", *self.pose)]
        for thing in dict.fromkeys(self.by_name[name] for name in names if name in self.by_name):
            place = self.place_of(thing)
            if place is not None and place.middle:
                outline = place.outline if place is thing else ()
                spots.append(Spot(thing.name, place.middle[0], place.middle[1], outline=outline))
        return tuple(spots)


def _word_of_place(one: Mapping[str, Any]) -> str:
    return in_words(f"{one['category']} {one['part']}")


def properties_of(word: str, *, opens: bool) -> set[str]:
    """Return whether things are put on or in a place, by its word, and whether it opens."""
    known = properties_of_word(word) & {"SURFACES", "CONTAINERS"}
    inside = "CONTAINERS" in known and (opens or "SURFACES" not in known)
    takes = "CONTAINERS" if inside or (opens and not known) else "SURFACES"
    return {takes, "CAN_OPEN"} if opens else {takes}


#: Pixels of a metre in the robot's own picture, and the side of a thing in either picture.
_SCALE, _SIDES = 100.0, {OWN: 36.0, ABOVE: 16.0}
_ROBOT = ((0.9, 0.0), (-0.6, 0.6), (-0.6, -0.6))  # its corners, in metres, before it turns: larger than it is

#: From metres on the floor to pixels.
_Projection = Callable[[Point], Point]


def drawn_floor(scene: HouseScene, truth: Mapping[str, str], *, camera: str) -> Picture:
    """Draw the floor with what is where in truth, but for what is in something closed."""
    at = _from_above(scene) if camera == ABOVE else _before(scene)
    rooms = [Piece("", 0, tuple(map(at, room.outline))) for room in scene.rooms if isinstance(room, HouseThing)]
    places = [one for one in scene.own.values() if one.outline and not one.is_room]
    pieces = [*rooms, *(Piece(one.word, one.number, tuple(map(at, one.outline))) for one in places)]
    if camera == ABOVE and scene.pose is not None:
        pieces.append(Piece("robot", 0, tuple(map(at, _turned(scene.pose)))))
    for place in places:
        if "CLOSED" not in place.states:
            lying = [scene.own[thing] for thing, where in truth.items() if where == place.own]
            pieces += _lying(lying, at((place.middle[0], place.middle[1])), _SIDES[camera])
    held = [(scene.things[id].word, scene.things[id].number) for id in scene.held]
    shown = [piece for piece in pieces if _is_shown(piece)]
    return drawn(shown, held, camera=camera, title=f"{scene.agent_room.name}, {camera}")


def _from_above(scene: HouseScene) -> _Projection:
    corners = [corner for room in scene.rooms if isinstance(room, HouseThing) for corner in room.outline]
    (left, right), (low, high) = ((min(side), max(side)) for side in zip(*corners, strict=True))
    scale = min((WIDTH - 8) / (right - left), (HAND - 24) / (high - low))
    return lambda point: (4 + (point[0] - left) * scale, 20 + (high - point[1]) * scale)


def _before(scene: HouseScene) -> _Projection:
    x, y, yaw = scene.pose or (0.0, 0.0, 0.0)

    def at(point: Point) -> Point:
        along = math.cos(yaw) * (point[0] - x) + math.sin(yaw) * (point[1] - y)
        aside = math.cos(yaw) * (point[1] - y) - math.sin(yaw) * (point[0] - x)
        return WIDTH / 2 - _SCALE * aside, 0.6 * HAND - _SCALE * along

    return at


def _turned(pose: tuple[float, float, float]) -> Iterable[Point]:
    x, y, yaw = pose
    for ahead, left in _ROBOT:
        yield x + math.cos(yaw) * ahead - math.sin(yaw) * left, y + math.sin(yaw) * ahead + math.cos(yaw) * left


def _lying(things: Sequence[HouseThing], middle: Point, side: float) -> Iterable[Piece]:
    """Yield things at a place side by side, four in a row, so that each can be seen."""
    for number, thing in enumerate(things):
        column, row = number % 4 - min(len(things) - 1, 3) / 2, number // 4
        at = (middle[0] + (side + 2) * column, middle[1] + (side + 2) * row)
        yield Piece.square(thing.word, thing.number, at, side)


def _is_shown(piece: Piece) -> bool:
    """Return whether a piece is in the picture; a floor may go on beyond it."""
    inside = [0 <= x < WIDTH and 0 <= y < HAND for x, y in piece.outline]
    return any(inside) if not piece.word else all(inside)
