"""The semantic map as a YAML document: rooms, receptacles, how detections are taken in. Read, checked, refused."""

from __future__ import annotations

import difflib
import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, TypeVar

import pydantic
import yaml
from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat
from typing_extensions import Self

from reactree_ros.agent.parameters import Named, Person, Room, Thing
from reactree_ros.agent.text import check_template
from reactree_ros.errors import UserError
from reactree_ros.files import read_back
from reactree_ros.household.tasks import Name, parts_of
from reactree_ros.household.vocabulary import CLASSES, Use, class_of_word, correct, look_up, properties_of_word
from reactree_ros.plugins.settings import fault_of, or_nearest
from reactree_ros.robot.poses import Pose, surrounds

#: The properties that skills of a household look at; a map may have others of its own.
PROPERTIES = ("GRABBABLE", "SURFACES", "CONTAINERS", "CAN_OPEN", "HAS_SWITCH")
#: By what a parameter asks for things that the robot holds.
HELD = "held"
#: That of things which are carried about: a receptacle needs another one.
_CARRIED = "GRABBABLE"
_PROPERTY = re.compile(r"[A-Z][A-Z0-9_]*")
#: What the class of a detector has to be like to be a word: letters, and not too many.
_WORD = re.compile(r"[^\W\d_][^\W_]*(?: [^\W_]+){0,4}")
_LONGEST_WORD = 40
#: From which likeness on a property of one's own is a slip for one that is known.
_ALIKE = 0.8


def _is_property(text: str) -> str:
    if not _PROPERTY.fullmatch(text):
        raise ValueError("a property is in capitals, e.g. SURFACES, or one of your own, e.g. DOOR")
    if text not in PROPERTIES and (meant := difflib.get_close_matches(text, PROPERTIES, 1, cutoff=_ALIKE)):
        raise ValueError(f"did you mean {meant[0]}? call a property of your own otherwise")
    return text


Property = Annotated[str, AfterValidator(_is_property)]
Length = Annotated[FiniteFloat, Field(gt=0)]
#: Class of a detector; many use numbers.
ClassId = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]


class Document(pydantic.BaseModel):
    """A part of a file that a user writes: what it does not know, it refuses."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with the fields together, and what to do."""
        yield from ()

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> Self:
        for fault in self.faults():
            raise ValueError(fault)
        return self


class PoseEntry(Document):
    """A pose: metres, and radians about the vertical axis. Without a frame it is in the map's."""

    x: FiniteFloat
    y: FiniteFloat
    z: FiniteFloat = 0.0
    yaw: FiniteFloat = 0.0
    frame: str = ""

    def pose(self, frame: str) -> Pose:
        """Return it as a pose; in the given frame if it names none."""
        return Pose.upright(self.frame or frame, self.x, self.y, self.z, yaw=self.yaw)


class RoomEntry(Document):
    name: Name  # e.g. `kitchen 1`
    own: str = ""  # what the robot's own servers call it; empty: the name
    pose: PoseEntry  # where the robot stands to look around
    # corners on the floor in the map's frame, in order
    outline: Annotated[list[tuple[FiniteFloat, FiniteFloat]], Field(min_length=3)]
    floor: int | None = None  # the floor that it is on, which the goals of skills may name


class ReceptacleEntry(Document):
    """A piece of furniture or an appliance: anything that stays where it is."""

    name: Name  # e.g. `fridge 1`
    own: str = ""  # what the robot's own servers call it; empty: the name
    room: Name  # the room it is in
    pose: PoseEntry  # middle of its footprint, on the floor or at its lower edge
    # depth along its x axis, width along its y axis, height, in metres
    size: tuple[Length, Length, Length] = (0.6, 0.6, 0.8)
    approach: PoseEntry  # where the robot stands to use it
    open: bool = False  # whether it is open at the start; for what can be opened
    turned_on: bool = False  # whether it is turned on at the start; for what has a switch


class PersonEntry(Document):
    name: Name  # e.g. `Anna`
    own: str = ""  # what the robot's own servers call them; empty: the name
    at: str = ""  # the room or receptacle where the robot meets them; empty: nobody knows


class ConnectionEntry(Document):
    """A connection of two rooms: a door, stairs, an elevator, or just a way."""

    between: tuple[Name, Name]
    # the door or elevator, a receptacle of the map; or one for each room. Empty: there is none
    by: str | tuple[str, str] = ""
    # what passing it costs, in seconds; of several ways the cheapest is taken
    cost: Annotated[FiniteFloat, Field(ge=0)] = 1.0
    # the skills that pass it, in order, with `{by}` on this side, `{to}` and its `{floor}`. A door that stands open is
    # passed without
    pass_: Annotated[
        list[Annotated[str, AfterValidator(lambda text: check_template(text, ("by", "to", "floor")))]],
        Field(alias="pass"),
    ] = []

    @property
    def sides(self) -> tuple[str, str]:
        return (self.by, self.by) if isinstance(self.by, str) else self.by


class ExpectedEntry(Document):
    """An object that is taken to be at a receptacle until it is detected; only a dry run picks it up unseen."""

    name: Name
    at: Name


class OthersEntry(Document):
    """How a detection of a class that the map has no word for becomes a thing, with the class as its word."""

    min_score: Annotated[float, Field(ge=0, le=1)] = 0.7  # less certain detections are ignored
    # how often such a thing is detected at about the same place before it is one
    times: Annotated[int, Field(ge=1, le=1000)] = 3
    never: list[str] = []  # classes that never become things
    # how many such things there are at most; the one detected longest ago makes room
    most: Annotated[int, Field(ge=1, le=10_000)] = 200

    def word(self, kind: str) -> str:
        """Return the word of a class: in small letters, with spaces; empty if it has none, or may have none."""
        word, *forbidden = (" ".join(re.sub(r"[_\-/]+", " ", one).casefold().split()) for one in (kind, *self.never))
        return word if len(word) <= _LONGEST_WORD and _WORD.fullmatch(word) and word not in forbidden else ""


class TrackingEntry(Document):
    classes: dict[ClassId, str] = {}  # class of the detector to word, e.g. `{"47": apple}`
    others: OthersEntry | None = None  # how other classes become objects; None: they are ignored
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.5  # less certain detections are ignored
    # a detection nearer than this to a known object of its word is that object, in metres
    same_within: Annotated[FiniteFloat, Field(gt=0)] = 0.3
    # what has not been detected for so long is forgotten, in seconds
    forget_after: Annotated[FiniteFloat, Field(gt=0)] = 600.0
    # what is to be picked up must have been detected within this time, in seconds
    fresh_for: Annotated[FiniteFloat, Field(gt=0)] = 10.0
    # what the robot holds is not taken for a new object this near to the robot, in metres
    in_hand_within: Annotated[FiniteFloat, Field(ge=0)] = 0.7
    # what is detected this near to where it lay right after a grasp was not picked up, in metres
    still_within: Annotated[FiniteFloat, Field(ge=0)] = 0.05

    def faults(self) -> Iterator[str]:
        if not self.classes and self.others is None:
            yield "name classes, or say others: {} for things of any class"

    def word_of(self, kind: str, score: float) -> str:
        """Return the word for what a detector says; empty: it is ignored."""
        if (word := self.classes.get(kind)) is not None:
            return word if score >= self.min_score else ""
        return self.others.word(kind) if self.others is not None and score >= self.others.min_score else ""


class MapDocument(Document):
    frame: Annotated[str, Field(min_length=1)] = "map"  # frame of every pose that names none, and of the map itself
    start: Name  # room in which the robot is as long as tf does not say otherwise
    rooms: Annotated[list[RoomEntry], Field(min_length=1)]
    receptacles: list[ReceptacleEntry] = []  # what stays where it is
    objects: TrackingEntry  # how detections become objects
    # words besides those of the vocabulary, each with what can be done with such a thing
    words: dict[str, list[Property]] = {}
    expected: list[ExpectedEntry] = []  # objects that are taken to be somewhere
    persons: list[PersonEntry] = []  # whom skills may name
    connections: list[ConnectionEntry] = []  # the doors, stairs and elevators between rooms

    def properties(self, word: str) -> frozenset[str]:
        """Say what can be done with things of a word. Raises ValueError: the word is not known."""
        return frozenset(self.words[word]) if word in self.words else class_of_word(word).properties

    def person(self, *called: str) -> str:
        """Return who is called by one of these names, by the map or by the robot's own servers; empty: nobody."""
        known = {name.casefold(): one.name for one in self.persons for name in (one.own, one.name) if name}
        return next((known[name.casefold()] for name in called if name.casefold() in known), "")

    def names(self, kind: Named) -> Sequence[str] | None:
        """Return the names that may stand in a place of a skill, and of objects the words; None: any may."""
        rooms, receptacles = [one.name for one in self.rooms], [one.name for one in self.receptacles]
        persons = [one.name for one in self.persons]
        if not isinstance(kind, Thing):
            return rooms if isinstance(kind, Room) else persons if isinstance(kind, Person) else [*receptacles, *rooms]
        return None if self.objects.others is not None else [*rooms, *receptacles, *persons, *self._all_words]

    @property
    def asked_by(self) -> Sequence[str]:
        """By what the parameters of skills may ask for things: properties, and words of the map and the vocabulary."""
        own = [one for properties in self.words.values() for one in properties]
        return [*dict.fromkeys((HELD, *PROPERTIES, *own, *self._all_words))]

    @property
    def _all_words(self) -> Sequence[str]:
        parts: tuple[Sequence[RoomEntry | ReceptacleEntry | ExpectedEntry], ...]
        parts = self.rooms, self.receptacles, self.expected
        named = [parts_of(one.name)[0] for part in parts for one in part]
        return [*self.words, *named, *self.objects.classes.values(), *(known.word for known in CLASSES.values())]

    def properties_of(self, name: str) -> frozenset[str]:
        """Say what can be done with something by its name: of its own name's endings, the longest known word counts.

        Raises ValueError: none is known.
        """
        word, number = parts_of(name)
        parts = word.split()
        for ending in (" ".join(parts[begin:]) for begin in range(1 if number else len(parts))):
            with suppress(ValueError):
                return self.properties(ending)
        return self.properties(word)


@dataclass(frozen=True)
class Passage:
    """A connection, passed from one of its rooms to the other."""

    to: str  # the room that it leads to
    by: str  # the door or the elevator on this side; empty: it has none
    cost: float  # what it costs, in seconds
    skills: tuple[str, ...]  # the skills that pass it, in order


class Ways:
    """The connections of a map.

    Where a map has none, or a room is in none of them, nobody says how it is reached: then it is reached freely.
    """

    def __init__(self, document: MapDocument) -> None:
        floors = {room.name: room.floor for room in document.rooms}
        self._from: dict[str, list[Passage]] = defaultdict(list)
        for one in document.connections:
            for here, to, by in zip(one.between, one.between[::-1], one.sides, strict=True):
                named = {"by": by, "to": to, "floor": "" if floors[to] is None else floors[to]}
                skills = tuple(text.format(**named) for text in one.pass_)
                self._from[here].append(Passage(to, by, one.cost, skills))

    def shortest(self, start: str, to: str) -> Sequence[Passage] | None:
        """Return the cheapest way from room to room; nothing if nobody says how; None: there is no way."""
        if start == to or not (start in self._from and to in self._from):
            return ()
        waiting: list[tuple[float, int, str, tuple[Passage, ...]]] = [(0.0, 0, start, ())]
        been, count = set[str](), 0
        while waiting:
            cost, _, room, way = heapq.heappop(waiting)
            if room == to:
                return way
            if room in been:
                continue
            been.add(room)
            for passage in self._from[room]:
                count += 1
                heapq.heappush(waiting, (cost + passage.cost, count, passage.to, (*way, passage)))
        return None

    def leaving(self, room: str) -> Iterator[Passage]:
        yield from self._from.get(room, ())


D = TypeVar("D", bound=Document)
_Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Source:
    values: Any  # what it says
    where: str  # the file, or whatever else it comes from; errors begin with it
    node: yaml.Node | None = None  # its parts with the lines that they are on; None if nobody knows

    def at(self, *path: str | int) -> str:
        """Say where a part is, e.g. ``map.yaml:12: rooms.0.name``; of what is missing, the line of what lacks it."""
        line = "" if self.node is None else f":{_line(self.node, path)}"
        return f"{self.where}{line}: {'.'.join(map(str, path)) or 'the document'}"


def _line(node: yaml.Node, path: Sequence[str | int]) -> int:
    line = node.start_mark.line
    for step in path:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(step)]
            if not found:
                break
            key, node = found[0]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
        else:
            break
    return int(line) + 1


def read_yaml(path: str | Path) -> Source:
    """Read a YAML file. Raises UserError: it cannot be read or is not YAML."""
    values, node = read_back.read_yaml(Path(path))
    return Source(values, str(path), node)


def parse_yaml(text: str, *, where: str) -> Source:
    """Read YAML. Raises UserError: it is none, or has a key twice; the message begins with `where` and the line."""
    values, node = read_back.yaml_of(text, where=where)
    return Source(values, where, node)


def checked(kind: type[D], source: Source, see: Mapping[str, str] = MappingProxyType({})) -> D:
    """Check what was read; ``see`` says where parts are explained. Raises UserError with file, line and value."""
    try:
        return kind.model_validate(source.values)
    except pydantic.ValidationError as error:
        fault = fault_of(error, kind)
        more = see.get(str(next(iter(fault.path), "")), "") if fault.unknown else ""
        raise UserError(f"{source.at(*fault.path)}: {fault.with_value}{more and f'; see {more}'}") from None


def load_map(path: str | Path) -> MapDocument:
    """Read a semantic map from a YAML file. Raises UserError, which names file, line, field and value."""
    return map_of(read_yaml(path))


def map_of(source: Source) -> MapDocument:
    """Check a semantic map. Raises UserError, which says where it is from and names line, field and value."""
    document = checked(MapDocument, source)
    for path, fault in _faults(document):
        raise UserError(f"{source.at(*path)}: {fault}")
    return document


def _faults(document: MapDocument) -> Iterator[tuple[_Path, str]]:
    yield from _named_twice(document)
    rooms, receptacles = [room.name for room in document.rooms], [one.name for one in document.receptacles]
    refers: list[tuple[_Path, str, list[str], str]] = [(("start",), document.start, rooms, "room")]
    for index, one in enumerate(document.receptacles):
        refers.append((("receptacles", index, "room"), one.room, rooms, "room"))
    for index, thing in enumerate(document.expected):
        refers.append((("expected", index, "at"), thing.at, receptacles, "receptacle"))
    for index, way in enumerate(document.connections):
        refers += [(("connections", index, "between"), name, rooms, "room") for name in way.between]
        refers += [(("connections", index, "by"), name, receptacles, "receptacle") for name in way.sides if name]
    for index, person in enumerate(document.persons):
        if person.at:
            refers.append((("persons", index, "at"), person.at, [*rooms, *receptacles], "room or receptacle"))
    for path, name, names, kind in refers:
        if name not in names:
            yield path, f"there is no {kind} '{name}'; there are {', '.join(names) or 'none'}{or_nearest(name, names)}"
    for index, one in enumerate(document.receptacles):
        path, word = ("receptacles", index), parts_of(one.name)[0]
        yield from _unknown(document, one.name, (*path, "name"), Use.RECEPTACLE)
        properties = document.properties_of(one.name)
        if not properties - {_CARRIED}:
            yield (
                (*path, "name"),
                f"nothing can be put on or in '{word}', and it is neither opened nor switched; describe it under "
                f"words, e.g. {_described(word, Use.RECEPTACLE)}",
            )
        if one.open and "CAN_OPEN" not in properties:
            yield (*path, "open"), f"a {word} cannot be opened"
        if one.turned_on and "HAS_SWITCH" not in properties:
            yield (*path, "turned_on"), f"a {word} has no switch"
    for id, word in document.objects.classes.items():
        yield from _unknown(document, f"{word} 1", ("objects", "classes", id), Use.OBJECT)
    for index, thing in enumerate(document.expected):
        yield from _unknown(document, thing.name, ("expected", index, "name"), Use.OBJECT)


def notes_of(document: MapDocument, source: Source) -> list[str]:
    """Say what a map has that a house may have, but that is a slip more often: where the robot would stand elsewhere.

    A pose in a frame of its own is not looked at: where that frame lies is known to tf alone.
    """
    rooms = {room.name: room for room in document.rooms}
    stands = [("rooms", i, "pose", one.name, one.pose) for i, one in enumerate(document.rooms)]
    stands += [("receptacles", i, "approach", one.room, one.approach) for i, one in enumerate(document.receptacles)]
    notes = []
    for part, index, field, room, entry in stands:
        pose = entry.pose(document.frame)
        if pose.frame == document.frame and not surrounds(rooms[room].outline, pose):
            inside = next((one.name for one in document.rooms if surrounds(one.outline, pose)), "no room")
            at = f"({pose.x:g}, {pose.y:g})"
            notes.append(f"{source.at(part, index, field)}: {at} is in {inside}, by the outlines, not in {room}")
    return notes


def _named_twice(document: MapDocument) -> Iterator[tuple[_Path, str]]:
    """Yield names that two things have, also those by which the robot's own servers know two of them."""
    parts = {part: getattr(document, part) for part in ("rooms", "receptacles", "expected", "persons")}
    for field, what in (("name", "the name"), ("own", "the robot's own name")):
        each = [((part, at, field), one) for part, listed in parts.items() for at, one in enumerate(listed)]
        names = [(name, path) for path, one in each if (name := getattr(one, field, ""))]
        times = Counter(name.casefold() for name, _ in names)
        known = set[str]()
        for name, path in names:
            if name.casefold() in known:
                yield path, f"{what} '{name}' occurs {times[name.casefold()]} times"
            known.add(name.casefold())


def _unknown(document: MapDocument, name: str, path: _Path, of: Use) -> Iterator[tuple[_Path, str]]:
    try:
        document.properties_of(name)
    except ValueError:
        word = parts_of(name)[0]
        nearest = _nearest(word, of)
        use = f"'{nearest}', or another one" if nearest else "one"
        yield (
            path,
            f"the word '{word}' is not known; use {use} of `reactree list words`, or describe it under words, "
            f"e.g. {_described(word, of)}",
        )


def _described(word: str, of: Use) -> str:
    if of is Use.RECEPTACLE:
        return f"words: {{{word}: [SURFACES]}}, or [CONTAINERS] where things are put into it"
    return f"words: {{{word}: [GRABBABLE]}}"


def _nearest(word: str, of: Use) -> str:
    words = [correct(one) for one in word.lower().split()]
    found = look_up(words, 0) if words else None
    if found is None or found[1] < len(words) or len(found[0].words) > 1:
        return ""
    meant = found[0].words[0]
    fits = {"SURFACES", "CONTAINERS"} if of is Use.RECEPTACLE else {"GRABBABLE"}
    return meant if properties_of_word(meant) & fits else ""
