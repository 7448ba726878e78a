"""The semantic map: what a robot knows of a house, as a scene that can be put into words."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reactree_ros.agent.observation import Spot
from reactree_ros.agent.parameters import Named
from reactree_ros.agent.skill import SkillCall
from reactree_ros.household import looking
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.robot.map_file import MapDocument, ReceptacleEntry, RoomEntry
from reactree_ros.robot.poses import Pose, surrounds
from reactree_ros.world.port import Observation

#: The states that effects bring about, each with the one that it ends.
_STATES = {"open": ("OPEN", "CLOSED"), "closed": ("CLOSED", "OPEN"), "on": ("ON", "OFF"), "off": ("OFF", "ON")}
#: How far outside the size of a receptacle an object may be detected and yet be at it, in metres.
MARGIN = 0.15
#: How far above a receptacle's upper edge an object on it may be detected, in metres.
ABOVE = 0.4
#: Where the robot stands before an object that is at no receptacle, in metres.
STANDOFF = 0.5


class MapThing(Thing):
    """Something on the map.

    Attributes:
        pose: Where it is; None where that is not known.
        own: What the robot's own servers call it.
    """

    __slots__ = ("own", "pose")

    def __init__(
        self, id: int, word: str, number: int, properties: frozenset[str], pose: Pose | None, own: str = ""
    ) -> None:
        self.id = id
        self.class_name = word.replace(" ", "").lower()
        self.word = word
        self.number = number
        self.name = f"{word} {number}"
        self.own = own or self.name
        self.properties = properties
        self.states = set[str]()
        self.is_room = False
        self.contains = "CONTAINERS" in properties
        self.observed = True
        self.room_item = False
        self.pose = pose


class Room(MapThing):
    """A room.

    Attributes:
        outline: Its corners in the map's frame, in order.
    """

    __slots__ = ("outline",)

    def __init__(self, id: int, entry: RoomEntry, frame: str) -> None:
        word, _, number = entry.name.rpartition(" ")
        super().__init__(id, word, int(number), frozenset(), entry.pose.pose(frame), entry.own)
        self.outline = entry.outline
        self.is_room = True

    def surrounds(self, pose: Pose) -> bool:
        """Whether a position in the map's frame is inside the outline."""
        return surrounds(self.outline, pose)


class Receptacle(MapThing):
    """A piece of furniture or an appliance.

    Attributes:
        room: The room it is in.
        approach: Where the robot stands to use it.
        size: Depth, width and height in metres.
    """

    __slots__ = ("approach", "room", "size")

    def __init__(self, id: int, entry: ReceptacleEntry, room: Room, frame: str, properties: frozenset[str]) -> None:
        word, _, number = entry.name.rpartition(" ")
        super().__init__(id, word, int(number), properties, entry.pose.pose(frame), entry.own)
        self.room = room
        self.approach = entry.approach.pose(frame)
        self.size = entry.size
        self.room_item = True
        if "CAN_OPEN" in properties:
            self.states.add("OPEN" if entry.open else "CLOSED")
        if "HAS_SWITCH" in properties:
            self.states.add("ON" if entry.turned_on else "OFF")

    @property
    def top(self) -> Pose | None:
        """Where its upper side is."""
        return None if self.pose is None else replace(self.pose, z=self.pose.z + self.size[2])

    def outline(self, own: Pose) -> tuple[tuple[float, float], ...]:
        """Return its corners on the floor where it is at a pose."""
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
    """An object.

    Attributes:
        seen: When it was detected last, in seconds; None where it was not detected since it was put where it is.
        since: When it was detected or put where it is, in seconds.
        tracked: Whether the robot's detector has a name of its own for it.
        taken_from: Where it was picked up, until the robot has gone somewhere else.
    """

    __slots__ = ("seen", "since", "taken_from", "tracked")

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
        self.seen: float | None = None
        self.since = since
        self.tracked = bool(own)
        self.taken_from: Pose | None = None


@dataclass(frozen=True)
class Detection:
    """An object that was detected.

    Attributes:
        word: Its class in words.
        pose: Where, in the map's frame.
        own: The robot's own name for it; empty: it has none.
    """

    word: str
    pose: Pose
    own: str = ""


class SemanticMap(Scene):
    """Rooms and receptacles of a map, and the objects that were detected.

    What is next to the robot is what it went to, with what is in or on that. What it holds is known by its own grasps
    and releases: a detection speaks against a grasp only until that is settled.

    Args:
        document: The map.
        now: Time in seconds, as for every method.
        hands: How many things the robot can hold.
        in_map: Turns a pose into one in the map's frame; None where that cannot be done.
        before: The map that this one takes the place of; what was known of objects, doors and switches stays.
    """

    def __init__(
        self,
        document: MapDocument,
        *,
        now: float = 0.0,
        hands: int = 1,
        in_map: Callable[[Pose], Pose | None] | None = None,
        before: SemanticMap | None = None,
    ) -> None:
        self.document, self.frame, self.hands = document, document.frame, hands
        self.in_map = in_map or (lambda pose: pose if pose.frame == document.frame else None)
        self.things: dict[int, Thing] = {}
        self.by_name: dict[str, Thing] = {}
        self.held: list[int] = []
        self.close: list[int] = []
        self._room: dict[int, int] = {}
        self._container: dict[int, int] = {}
        self._surface: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._numbers: dict[str, int] = defaultdict(int)
        self.robot: Pose | None = None  # where the robot is, in the map's frame
        self._anchor: MapThing | None = None  # what the robot stands at; None: at nothing that is known
        self._changed = float("-inf")  # when the robot changed something: what was detected before is out of date
        self._grasped: Item | None = None  # what was picked up last, until it is settled whether it was
        self._doubt: tuple[Detection, float] | None = None  # what speaks against that, and when it was detected
        rooms = {entry.name: Room(next(self._ids), entry, self.frame) for entry in document.rooms}
        self.rooms: list[Thing] = list(rooms.values())
        self.agent_room = rooms[document.start]
        for room in rooms.values():
            self._add(room)
        for entry in document.receptacles:
            word = entry.name.rpartition(" ")[0]
            receptacle = Receptacle(next(self._ids), entry, rooms[entry.room], self.frame, document.properties(word))
            self._add(receptacle)
            self._room[receptacle.id] = receptacle.room.id
        if before is not None:
            self._take_over(before)
        else:
            for expected in document.expected:
                word, _, number = expected.name.rpartition(" ")
                item = Item(next(self._ids), word, int(number), document.properties(word), None, now)
                self._numbers[word] = max(self._numbers[word], item.number)
                self._add(item)
                self._put(item, self.by_name[expected.at])

    def _add(self, thing: MapThing) -> None:
        self.things[thing.id] = self.by_name[thing.name] = thing

    def _take_over(self, before: SemanticMap) -> None:
        self._numbers, self.robot, self._changed = before._numbers, before.robot, before._changed
        for name in (thing.name for thing in before.receptacles()):
            if name in self.by_name:
                self.by_name[name].states = before.by_name[name].states
        if before.agent_room.name in self.by_name:
            self.agent_room = self.by_name[before.agent_room.name]
        for old in before.items():
            own = old.own if old.tracked else ""
            item = Item(next(self._ids), old.word, old.number, old.properties, old.pose, old.since, own)
            item.seen, item.taken_from = old.seen, old.taken_from
            at = before.place_of(old)
            if item.name in self.by_name:
                continue
            self._add(item)
            if old is before._grasped:
                self._grasped, self._doubt = item, before._doubt
            if old.id in before.held:
                self.held.append(item.id)
            elif at is not None and at.name in self.by_name:
                self._put(item, self.by_name[at.name], inside=before.container_of(old) is at)
            else:
                self._locate(item)

    # ------------------------------------------------------------------ what is where

    def receptacles(self) -> Iterator[Receptacle]:
        """Yield what stays where it is."""
        return (thing for thing in self.things.values() if isinstance(thing, Receptacle))

    def items(self) -> Iterator[Item]:
        """Yield the objects."""
        return (thing for thing in self.things.values() if isinstance(thing, Item))

    def place_of(self, thing: Thing) -> Receptacle | None:
        """Return what a thing is in or on; for a receptacle itself."""
        place = thing if isinstance(thing, Receptacle) else self.container_of(thing) or self.surface_of(thing)
        return place if isinstance(place, Receptacle) else None

    def things_of(self, call: SkillCall) -> dict[str, MapThing]:
        """Return what a skill names that is on the map, by parameter."""
        named = [name for name, one in call.skill.parameters.items() if isinstance(one, Named)]
        found = {name: self.by_name.get(str(call.values[name])) for name in named}
        return {name: thing for name, thing in found.items() if isinstance(thing, MapThing)}

    def thing_of(self, call: SkillCall) -> MapThing | None:
        """Return the first thing that a skill names; None if it names none that is on the map."""
        return next(iter(self.things_of(call).values()), None)

    def target(self, call: SkillCall) -> Receptacle | None:
        """Return the receptacle that a skill is about: of what is released, where it goes."""
        thing = self.thing_of(call)
        if "place" in call.skill.effect:
            place = self.by_name.get(call.value("place"))
            return place if isinstance(place, Receptacle) else None
        if "released" in call.skill.effect:
            return self._stands_at()
        return None if thing is None else self.place_of(thing)

    def pose_of(self, thing: Thing) -> Pose | None:
        """Return where a thing is; of an object that was put down and not detected since, the top of its receptacle."""
        if isinstance(thing, MapThing) and thing.pose is not None:
            return thing.pose
        place = self.place_of(thing)
        return None if place is None else place.top

    def approach(self, thing: Thing) -> Pose | None:
        """Return where the robot is to stand for a thing; None where that is not known."""
        place = self.place_of(thing)
        if place is not None:
            return place.approach
        pose = self.pose_of(thing)
        if pose is None or thing.is_room:
            return pose
        room = self.room_of(thing)
        start = self.robot or (room.pose if isinstance(room, Room) else None)
        return pose if start is None else _before(pose, start)

    def away_from(self, thing: Thing) -> float | None:
        """Return how far the robot is from where it stands for a thing, in metres; None where nobody knows.

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

    def not_as_reported(self, call: SkillCall) -> str:
        """Say what is seen that speaks against a skill which was reported to be done; empty where nothing does."""
        held, released = (self.by_name.get(call.value(effect)) for effect in ("held", "released"))
        if isinstance(held, Item) and held is self._grasped and self._doubt is not None:
            return f"the {held.word} is still detected {_where(self._receptacle_at(self._doubt[0].pose))}"
        if isinstance(released, Item) and released.seen is not None:  # a release leaves it unseen
            target = self.target(call)
            if target is not None and not self._carried(target, released):
                return f"the {released.word} is detected {_where(self.place_of(released))}"
        return ""

    def settle(self, call: SkillCall) -> str:
        """Settle whether a skill was done that was reported to be; returns what speaks against it.

        From now on no detection takes out of the hand what is in it.
        """
        told, item, doubt = self.not_as_reported(call), self._grasped, self._doubt
        self._grasped = self._doubt = None
        if told and item is not None and doubt is not None:
            self.held.remove(item.id)
            item.taken_from = None
            self._seen(item, *doubt)
            self.look()
        return told

    def _carried(self, receptacle: Receptacle, item: Item) -> bool:
        own = None if receptacle.pose is None else self.in_map(receptacle.pose)
        return own is None or item.pose is None or receptacle.carries(item.pose, own)

    def _stands_at(self) -> Receptacle | None:
        return None if self._anchor is None else self.place_of(self._anchor)

    def robot_is_at(self, pose: Pose) -> None:
        """Take in where the robot is, in the map's frame."""
        self.robot = pose
        for room in self.rooms:
            if isinstance(room, Room) and room.surrounds(pose):
                self.agent_room = room

    def leave(self) -> None:
        """Note that the robot is on its way: it stands at nothing that is known."""
        self._anchor, self.close = None, []

    # ------------------------------------------------------------------ objects

    def take_in(self, detections: Iterable[Detection], stamp: float) -> None:
        """Take in what was detected at one time; objects keep their numbers by where they are."""
        if stamp <= self._changed:
            return
        if self._doubt is not None and stamp >= self._doubt[1]:
            self._doubt = None  # unless it is seen once more
        by_word = defaultdict[str, list[Detection]](list)
        for detection in detections:
            by_word[detection.word].append(detection)
        for word, found in by_word.items():
            for detection, item in self._matched(word, found):
                if item.id not in self.held:
                    self._seen(item, detection, stamp)
                elif item is self._grasped and self._lies(item, detection):
                    self._doubt = detection, stamp

    def _matched(self, word: str, found: list[Detection]) -> Iterator[tuple[Detection, Item]]:
        """Yield every detection of a word with the object that it is: by its own name, or the nearest ones first."""
        free, left = {item for item in self.items() if item.word == word}, dict(enumerate(found))
        held = {item for item in free if item.id in self.held}
        for index, item in (*self._known_again(left, free), *self._not_taken(left, held)):
            free.discard(item)
            yield left.pop(index), item
        free -= held
        for index, item in self._nearest(left, free):
            free.remove(item)
            yield left.pop(index), item
        for detection in left.values():
            place = self._receptacle_at(detection.pose)
            unseen = sorted(
                (i for i in free if i.seen is None and not i.tracked and self.place_of(i) is place),
                key=lambda i: i.id,
            )
            if place is not None and unseen:
                free.remove(unseen[0])
                yield detection, unseen[0]
            elif not (self._in_hand(detection.pose) and any(not (detection.own and one.tracked) for one in held)):
                yield detection, self._new(word, detection)

    def _known_again(self, found: Mapping[int, Detection], items: Iterable[Item]) -> list[tuple[int, Item]]:
        by_own = {item.own: item for item in items if item.tracked}
        return [(index, by_own[one.own]) for index, one in found.items() if one.own in by_own]

    def _not_taken(self, found: Mapping[int, Detection], held: Iterable[Item]) -> list[tuple[int, Item]]:
        """Return detections of what is taken to be held and lies where it lay."""
        lying = {
            index: item
            for item in held
            if not item.tracked
            for index, one in found.items()
            if not one.own and self._lies_where_it_lay(item, one)
        }
        return [(index, item) for item, index in {item: index for index, item in lying.items()}.items()]  # one each

    def _lies_where_it_lay(self, item: Item, detection: Detection) -> bool:
        within = self.document.objects.still_within
        return item.taken_from is not None and item.taken_from.distance(detection.pose) <= within

    def _lies(self, item: Item, detection: Detection) -> bool:
        """Whether something that is taken to be held is detected where it lay, or far from the hand."""
        away = self.robot is not None and not self._in_hand(detection.pose)
        return away or self._lies_where_it_lay(item, detection)

    def _nearest(self, found: Mapping[int, Detection], items: Iterable[Item]) -> Iterator[tuple[int, Item]]:
        pairs = sorted(
            (one.pose.distance(item.pose), index, item.id)
            for index, one in found.items()
            for item in items
            if item.pose is not None and not (one.own and item.tracked)
        )
        indices, ids = set[int](), set[int]()
        for distance, index, id in pairs:
            item = self.things[id]
            near = distance <= self.document.objects.same_within
            if near and index not in indices and id not in ids and isinstance(item, Item):
                indices.add(index)
                ids.add(id)
                yield index, item

    def _new(self, word: str, detection: Detection) -> Item:
        self._numbers[word] += 1
        properties = self.document.properties(word)
        item = Item(next(self._ids), word, self._numbers[word], properties, detection.pose, 0.0, detection.own)
        self._add(item)
        return item

    def _in_hand(self, pose: Pose) -> bool:
        return self.robot is not None and self.robot.floor_distance(pose) <= self.document.objects.in_hand_within

    def _seen(self, item: Item, detection: Detection, stamp: float) -> None:
        item.pose, item.seen, item.since = detection.pose, stamp, stamp
        if detection.own:
            item.own, item.tracked = detection.own, True
        self._locate(item)

    def _locate(self, item: Item) -> None:
        """Work out what a detected object is in or on: in, where that is open, on, where it is seen though closed."""
        place = None if item.pose is None else self._receptacle_at(item.pose)
        if place is not None:
            self._put(item, place, inside="CONTAINERS" in place.properties and "CLOSED" not in place.states)
            return
        self._leave(item)
        for room in self.rooms:
            if item.pose is not None and isinstance(room, Room) and room.surrounds(item.pose):
                self._room[item.id] = room.id

    def _receptacle_at(self, pose: Pose) -> Receptacle | None:
        carrying = []
        for receptacle in self.receptacles():
            own = None if receptacle.pose is None else self.in_map(receptacle.pose)
            if own is not None and receptacle.carries(pose, own):
                carrying.append((own.floor_distance(pose), receptacle.id, receptacle))
        return min(carrying)[2] if carrying else None

    def _put(self, item: Item, place: Thing, *, inside: bool | None = None) -> None:
        self.place(item, place, inside="CONTAINERS" in place.properties if inside is None else inside)
        if isinstance(place, Receptacle):
            self._room[item.id] = place.room.id

    def forget(self, now: float) -> None:
        """Forget what has not been detected for too long."""
        for item in list(self.items()):
            if item.id not in self.held and now - item.since > self.document.objects.forget_after:
                self._leave(item)
                del self.things[item.id], self.by_name[item.name]
                if self._anchor is item:
                    self.leave()

    def clock_was_set_back(self, now: float) -> None:
        """Take in that the time begins anew, as where a simulation is started again: what was known is of now."""
        self._changed = min(self._changed, now)
        for item in self.items():
            item.since, item.seen = min(item.since, now), None

    # ------------------------------------------------------------------ skills

    def apply(self, call: SkillCall, now: float) -> None:
        """Change the map as a skill that went well has changed the house, by its effect."""
        of = {effect: self.by_name.get(call.value(effect)) for effect in call.skill.effect}
        target = self.target(call)
        self._grasped = self._doubt = None
        if "away" in of:
            self.leave()
        if (place := of.get("at")) is not None:
            self._arrive(place)
        if set(of) <= {"at", "away"}:
            return
        self._changed = now
        if isinstance(held := of.get("held"), Item):
            self.take(held)
            self._grasped = held
            held.taken_from = held.pose
            held.pose = held.seen = None
        if isinstance(released := of.get("released"), Item):
            self._leave(released)
            if target is not None:
                self._put(released, target)
            released.since, released.taken_from = now, None
        for effect, (state, other) in _STATES.items():
            if (thing := of.get(effect)) is not None:
                thing.states = thing.states - {state, other} | {state}
        self.look()

    def _arrive(self, thing: Thing) -> None:
        room = self.room_of(thing)
        if room is not None:
            self.agent_room = room
        self._anchor = thing if isinstance(thing, MapThing) and not thing.is_room else None
        for item in self.items():
            item.taken_from = None
        self.look()

    def look(self) -> list[Thing]:
        """Say what is next to the robot now, but for what it holds."""
        anchor = self._anchor
        place = None if anchor is None else self.place_of(anchor)
        if anchor is None:
            near: list[Thing] = []
        elif place is None:
            near = [anchor]
        else:
            near = [place, *(item for item in self.items() if self.place_of(item) is place and not self.hidden(item))]
        self.close = [thing.id for thing in near if thing.id not in self.held]
        return [self.things[id] for id in self.close]

    # ------------------------------------------------------------------ words

    def around(self) -> Observation:
        """Word what an agent node starts with, and say where everything is that stays where it is."""
        observation = looking.look_around(self)
        return self.located(observation, (*self.rooms, *self.receptacles()))

    def located(self, observation: Observation, things: Iterable[Thing] = ()) -> Observation:
        """Say of an observation where the robot is, and what is seen, and further things."""
        spots = [] if self.robot is None else [Spot("", self.robot.x, self.robot.y, self.robot.yaw)]
        seen = (self.by_name.get(f"{one.word} {one.instance}") for one in observation.seen if not one.held)
        for thing in dict.fromkeys((*things, *filter(None, seen))):
            pose = self.pose_of(thing)
            if pose is not None and (at := self.in_map(pose)) is not None:
                spots.append(_spot(thing, at))
        return replace(observation, spots=tuple(spots))


def _where(place: Receptacle | None) -> str:
    return "on the floor" if place is None else f"at the {place.word} ({place.number})"


def _spot(thing: Thing, at: Pose) -> Spot:
    if isinstance(thing, Room):
        return Spot(thing.name, at.x, at.y, outline=tuple(thing.outline))
    if isinstance(thing, Receptacle):
        return Spot(thing.name, at.x, at.y, at.yaw, thing.outline(at))
    return Spot(thing.name, at.x, at.y)


def _before(pose: Pose, start: Pose) -> Pose:
    """Return where to stand, coming from somewhere, to look at a position."""
    distance, yaw = start.floor_distance(pose), math.atan2(pose.y - start.y, pose.x - start.x)
    if distance <= STANDOFF:
        return Pose.upright(pose.frame, start.x, start.y, yaw=yaw)
    share = STANDOFF / distance
    x, y = pose.x + share * (start.x - pose.x), pose.y + share * (start.y - pose.y)
    return Pose.upright(pose.frame, x, y, yaw=yaw)
