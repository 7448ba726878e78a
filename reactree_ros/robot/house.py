"""A house as a map draws it: rooms, receptacles and objects, each with where it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from reactree_ros.agent.household import named
from reactree_ros.agent.observation import Spot
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.tasks import parts_of
from reactree_ros.robot.map_file import MapDocument, PersonEntry, ReceptacleEntry, RoomEntry
from reactree_ros.robot.poses import Pose, surrounds

#: How far outside the size of a receptacle an object may be detected and yet be at it, in metres.
MARGIN = 0.15
#: How far above a receptacle's upper edge an object on it may be detected, in metres.
ABOVE = 0.4
#: Where the robot stands before an object that is at no receptacle, in metres.
STANDOFF = 0.5


class MapThing(Thing):
    def __init__(
        self, id: int, word: str, number: int, properties: frozenset[str], pose: Pose | None, own: str = ""
    ) -> None:
        self.id, self.word, self.number, self.name = id, word, number, named(word, number)
        self.class_name = word.replace(" ", "").lower()
        self.own = own or self.name  # what the robot's own servers call it
        self.properties, self.states = properties, set[str]()
        self.is_room, self.contains = False, "CONTAINERS" in properties
        self.observed, self.room_item = True, False
        self.pose = pose  # where it is; None if that is not known


class Room(MapThing):
    def __init__(self, id: int, entry: RoomEntry, frame: str) -> None:
        super().__init__(id, *parts_of(entry.name), frozenset(), entry.pose.pose(frame), entry.own)
        self.outline, self.floor = entry.outline, entry.floor
        self.is_room = True

    def surrounds(self, pose: Pose) -> bool:
        return surrounds(self.outline, pose)


class Receptacle(MapThing):
    def __init__(self, id: int, entry: ReceptacleEntry, room: Room, frame: str, properties: frozenset[str]) -> None:
        super().__init__(id, *parts_of(entry.name), properties, entry.pose.pose(frame), entry.own)
        self.room, self.room_item = room, True
        self.approach = entry.approach.pose(frame)  # where the robot stands to use it
        self.size = entry.size  # depth, width and height in metres
        if "CAN_OPEN" in properties:
            self.states.add("OPEN" if entry.open else "CLOSED")
        if "HAS_SWITCH" in properties:
            self.states.add("ON" if entry.turned_on else "OFF")

    @property
    def top(self) -> Pose | None:
        return None if self.pose is None else replace(self.pose, z=self.pose.z + self.size[2])

    def outline(self, own: Pose) -> tuple[tuple[float, float], ...]:
        ahead, left = self.size[0] / 2, self.size[1] / 2
        corners = ((ahead, left), (-ahead, left), (-ahead, -left), (ahead, -left))
        placed = (own.placed(Pose(own.frame, *corner)) for corner in corners)
        return tuple((corner.x, corner.y) for corner in placed)

    def carries(self, at: Pose, own: Pose) -> bool:
        """Whether something at a position is in or on it where the receptacle itself is at another one."""
        ahead, left = self._outside(at, own)
        return max(ahead, left) <= MARGIN and -MARGIN <= at.z - own.z <= self.size[2] + ABOVE

    def distance(self, at: Pose, own: Pose) -> float:
        """Return how far a position is from its footprint as seen from above, in metres; 0 over it."""
        return math.hypot(*(max(0.0, one) for one in self._outside(at, own)))

    def _outside(self, at: Pose, own: Pose) -> tuple[float, float]:
        ahead, left = own.seen_from_above(at)
        return abs(ahead) - self.size[0] / 2, abs(left) - self.size[1] / 2


class Item(MapThing):
    seen: float | None = None  # when it was detected last, in seconds; None: not since it was put where it is
    score = 1.0  # how certain its last detection was
    taken_from: Pose | None = None  # where it was picked up, until the robot has gone somewhere else

    def __init__(
        self,
        id: int,
        word: str,
        number: int,
        properties: frozenset[str],
        pose: Pose | None,
        since: float,
        own: str = "",
    ) -> None:
        super().__init__(id, word, number, properties, pose, own)
        self.since = since  # when it was detected or put where it is, in seconds
        self.tracked = bool(own)  # whether the robot's detector has a name of its own for it


class MapPerson(MapThing):
    """A person, who is met where the robot stands for a room or a receptacle, or before where they were seen last."""

    seen: float | None = None  # when they were detected last, in seconds; None if they were not

    def __init__(self, id: int, entry: PersonEntry, house: House) -> None:
        place = house.by_name.get(entry.at)
        pose = place.approach if isinstance(place, Receptacle) else place.pose if isinstance(place, Room) else None
        super().__init__(id, entry.name, 0, frozenset(), pose, entry.own)
        self.observed = False  # nobody has looked
        room = place.room if isinstance(place, Receptacle) else place
        if room is not None:
            house.stand(self, room)


class House(Scene):
    """Where the things of a map are, and where the robot is among them; ``in_map`` turns poses into the map's frame."""

    def __init__(self, document: MapDocument, in_map: Callable[[Pose], Pose | None] | None) -> None:
        self.document, self.frame = document, document.frame
        self.in_map = in_map or (lambda pose: pose if pose.frame == document.frame else None)
        self.robot: Pose | None = None
        self.things: dict[int, Thing] = {}
        self.by_name: dict[str, Thing] = {}
        self._know_no_place()
        self._ids = itertools.count(1)
        rooms = {entry.name: Room(next(self._ids), entry, self.frame) for entry in document.rooms}
        self.rooms: list[Thing] = list(rooms.values())
        self.agent_room = rooms[document.start]
        for room in rooms.values():
            self._add(room)
        for entry in document.receptacles:
            properties = document.properties_of(entry.name)
            receptacle = Receptacle(next(self._ids), entry, rooms[entry.room], self.frame, properties)
            self._add(receptacle)
            self._room[receptacle.id] = receptacle.room.id
        self.persons = [MapPerson(next(self._ids), entry, self) for entry in document.persons]
        for person in self.persons:
            self._add(person)

    def meet(self, person: MapPerson, pose: Pose, seen: float) -> None:
        person.pose, person.seen = pose, seen
        self.lose(person)
        if room := self.room_around(pose):
            self.stand(person, room)

    def stand(self, thing: MapThing, room: Thing) -> None:
        self._near.clear()
        self._room[thing.id] = room.id

    def _add(self, thing: MapThing) -> None:
        self.things[thing.id] = self.by_name[thing.name] = thing

    def receptacles(self) -> Iterator[Receptacle]:
        return (thing for thing in self.things.values() if isinstance(thing, Receptacle))

    def items(self) -> Iterator[Item]:
        return (thing for thing in self.things.values() if isinstance(thing, Item))

    def place_of(self, thing: Thing) -> Receptacle | None:
        place = thing if isinstance(thing, Receptacle) else self.container_of(thing) or self.surface_of(thing)
        return place if isinstance(place, Receptacle) else None

    def pose_of(self, thing: Thing) -> Pose | None:
        """Return where a thing is; of an object that was put down and not detected since, the top of its receptacle."""
        if isinstance(thing, MapThing) and thing.pose is not None:
            return thing.pose
        place = self.place_of(thing)
        return None if place is None else place.top

    def approach(self, thing: Thing) -> Pose | None:
        """Return where the robot is to stand for a thing; None if that is not known."""
        place = self.place_of(thing)
        if place is not None:
            return place.approach
        pose = self.pose_of(thing)
        if pose is None or thing.is_room or (isinstance(thing, MapPerson) and thing.seen is None):
            return pose
        room = self.room_of(thing)
        start = self.robot or (room.pose if isinstance(room, Room) else None)
        return pose if start is None else _before(pose, start)

    def away_from(self, thing: Thing) -> float | None:
        """Return how far the robot is from where it stands for a thing, in metres; None if nobody knows.

        Before a receptacle it may stand on any side, and in a room anywhere.
        """
        place, room = self.place_of(thing), thing
        target = self.approach(thing)
        at = None if target is None else self.in_map(target)
        if self.robot is None or at is None:
            return None
        distance = self.robot.floor_distance(at)
        if isinstance(room, Room):
            return 0.0 if room.surrounds(self.robot) else distance
        own = None if place is None or place.pose is None else self.in_map(place.pose)
        return distance if place is None or own is None else min(distance, place.distance(self.robot, own))

    def robot_is_at(self, pose: Pose) -> None:
        self.robot, self.agent_room = pose, self.room_around(pose) or self.agent_room

    def room_around(self, pose: Pose) -> Room | None:
        return next((room for room in reversed(self.rooms) if isinstance(room, Room) and room.surrounds(pose)), None)

    # ------------------------------------------------------------------ what is at a position

    def receptacle_at(self, pose: Pose) -> Receptacle | None:
        """Return what a position is in or on; of several, the nearest."""
        carrying = []
        for receptacle in self.receptacles():
            own = None if receptacle.pose is None else self.in_map(receptacle.pose)
            if own is not None and receptacle.carries(pose, own):
                carrying.append((own.floor_distance(pose), receptacle.id, receptacle))
        return min(carrying)[2] if carrying else None

    def may_carry(self, receptacle: Receptacle, item: Item) -> bool:
        """Whether an object may be in or on a receptacle by where both are; so if one of them is unknown."""
        own = None if receptacle.pose is None else self.in_map(receptacle.pose)
        return own is None or item.pose is None or receptacle.carries(item.pose, own)

    def in_hand(self, pose: Pose) -> bool:
        """Whether something at a position may be in the robot's hand."""
        return self.robot is not None and self.robot.floor_distance(pose) <= self.document.objects.in_hand_within

    def _put(self, item: Item, place: Thing, *, inside: bool | None = None) -> None:
        self.place(item, place, inside="CONTAINERS" in place.properties if inside is None else inside)
        if isinstance(place, Receptacle):
            self._room[item.id] = place.room.id

    def _locate(self, item: Item) -> None:
        place = None if item.pose is None else self.receptacle_at(item.pose)
        if place is not None:
            self._put(item, place, inside="CONTAINERS" in place.properties and "CLOSED" not in place.states)
            return
        self.lose(item)
        if item.pose is not None and (room := self.room_around(item.pose)):
            self._room[item.id] = room.id

    def spots(self, things: Iterable[Thing]) -> tuple[Spot, ...]:
        spots = [] if self.robot is None else [Spot("", self.robot.x, self.robot.y, self.robot.yaw)]
        for thing in dict.fromkeys(things):
            pose = self.pose_of(thing)
            if pose is not None and (at := self.in_map(pose)) is not None:
                spots.append(_spot(thing, at))
        return tuple(spots)


def _spot(thing: Thing, at: Pose) -> Spot:
    if isinstance(thing, Room):
        return Spot(thing.name, at.x, at.y, outline=tuple(thing.outline))
    if isinstance(thing, Receptacle):
        return Spot(thing.name, at.x, at.y, at.yaw, thing.outline(at))
    return Spot(thing.name, at.x, at.y)


def _before(pose: Pose, start: Pose) -> Pose:
    distance, yaw = start.floor_distance(pose), math.atan2(pose.y - start.y, pose.x - start.x)
    if distance <= STANDOFF:
        return Pose.upright(pose.frame, start.x, start.y, yaw=yaw)
    share = STANDOFF / distance
    x, y = pose.x + share * (start.x - pose.x), pose.y + share * (start.y - pose.y)
    return Pose.upright(pose.frame, x, y, yaw=yaw)
