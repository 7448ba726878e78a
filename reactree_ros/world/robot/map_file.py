"""The semantic map as a YAML document: rooms, receptacles, how detections are taken in. Read, checked, refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError

from reactree_ros.errors import UserError
from reactree_ros.world.robot.poses import Pose
from reactree_ros.world.virtualhome.vocabulary import class_of_word

Property = Literal["GRABBABLE", "SURFACES", "CONTAINERS", "CAN_OPEN", "HAS_SWITCH"]
_NAME = re.compile(r"[A-Za-z][A-Za-z ]*[A-Za-z] [1-9][0-9]*")


def _is_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a name is a word and a number, e.g. 'kitchen table 1'")
    return text


Name = Annotated[str, AfterValidator(_is_name)]
Length = Annotated[FiniteFloat, Field(gt=0)]
#: Class of a detector; many use numbers.
ClassId = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]


class Document(BaseModel):
    """A part of a file that a user writes: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PoseEntry(Document):
    """A pose: metres, and radians about the vertical axis. Without a frame it is in the map's."""

    x: FiniteFloat
    y: FiniteFloat
    z: FiniteFloat = 0.0
    yaw: FiniteFloat = 0.0
    frame: str = ""

    def pose(self, frame: str) -> Pose:
        """Return it as a pose; in the given frame where it names none."""
        return Pose.upright(self.frame or frame, self.x, self.y, self.z, yaw=self.yaw)


class RoomEntry(Document):
    """A room.

    Attributes:
        name: E.g. ``kitchen 1``.
        pose: Where the robot stands to look around.
        outline: Corners on the floor in the map's frame, in order.
    """

    name: Name
    pose: PoseEntry
    outline: Annotated[list[tuple[FiniteFloat, FiniteFloat]], Field(min_length=3)]


class ReceptacleEntry(Document):
    """A piece of furniture or an appliance: anything that stays where it is.

    Attributes:
        name: E.g. ``fridge 1``.
        room: The room it is in.
        pose: Middle of its footprint, on the floor or at its lower edge.
        size: Depth along its x axis, width along its y axis, height, in metres.
        approach: Where the robot stands to use it.
        open: Whether it is open at the start; for what can be opened.
        turned_on: Whether it is turned on at the start; for what has a switch.
    """

    name: Name
    room: Name
    pose: PoseEntry
    size: tuple[Length, Length, Length] = (0.6, 0.6, 0.8)
    approach: PoseEntry
    open: bool = False
    turned_on: bool = False


class ExpectedEntry(Document):
    """An object that is taken to be at a receptacle until it is detected; only a dry run picks it up unseen."""

    name: Name
    at: Name


class TrackingEntry(Document):
    """How detections become objects.

    Attributes:
        classes: Class of the detector to word, e.g. ``{"47": apple}``; other classes are ignored.
        min_score: Less certain detections are ignored.
        same_within: A detection nearer than this to a known object of its word is that object, in metres.
        forget_after: What has not been detected for so long is forgotten, in seconds.
        fresh_for: What is to be picked up must have been detected within this time, in seconds.
        in_hand_within: What the robot holds is not taken for a new object this near to the robot, in metres.
    """

    classes: Annotated[dict[ClassId, str], Field(min_length=1)]
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.5
    same_within: Annotated[FiniteFloat, Field(gt=0)] = 0.3
    forget_after: Annotated[FiniteFloat, Field(gt=0)] = 600.0
    fresh_for: Annotated[FiniteFloat, Field(gt=0)] = 10.0
    in_hand_within: Annotated[FiniteFloat, Field(ge=0)] = 0.7


class MapDocument(Document):
    """A semantic map.

    Attributes:
        frame: Frame of every pose that names none, and of the map itself.
        start: Room in which the robot is as long as tf does not say otherwise.
        rooms: The rooms.
        receptacles: What stays where it is.
        objects: How detections become objects.
        words: Words besides those of the vocabulary, each with what can be done with such a thing.
        expected: Objects that are taken to be somewhere.
    """

    frame: Annotated[str, Field(min_length=1)] = "map"
    start: Name
    rooms: Annotated[list[RoomEntry], Field(min_length=1)]
    receptacles: list[ReceptacleEntry] = []
    objects: TrackingEntry
    words: dict[str, list[Property]] = {}
    expected: list[ExpectedEntry] = []

    def properties(self, word: str) -> frozenset[str]:
        """Say what can be done with things of a word.

        Raises:
            ValueError: The word is not known.
        """
        return frozenset(self.words[word]) if word in self.words else class_of_word(word).properties


D = TypeVar("D", bound=Document)


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file.

    Raises:
        UserError: It cannot be read or is no YAML.
    """
    try:
        return parse_yaml(Path(path).read_text(encoding="utf-8"), where=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def parse_yaml(text: str, *, where: str) -> Any:
    """Read YAML.

    Raises:
        UserError: It is none; the message begins with `where`.
    """
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{where}: is no YAML: {' '.join(str(error).split())}") from None


def checked(kind: type[D], values: Any, *, where: str) -> D:
    """Check what was read from YAML.

    Raises:
        UserError: A field is wrong; the message begins with `where` and names field and value.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        message = first["msg"].removeprefix("Value error, ")
        value = "" if first["type"] == "missing" else f", not {str(first['input'])[:60]!r}"
        raise UserError(f"{where}: {place}: {message[0].lower()}{message[1:]}{value}") from None


def load_map(path: str | Path) -> MapDocument:
    """Read a semantic map from a YAML file.

    Raises:
        UserError: The file cannot be used; the message names file, field and value.
    """
    return map_of(read_yaml(path), where=str(path))


def map_of(values: Any, *, where: str) -> MapDocument:
    """Check a semantic map.

    Raises:
        UserError: It cannot be used; the message begins with `where` and names field and value.
    """
    document = checked(MapDocument, values, where=where)
    rooms, receptacles = [room.name for room in document.rooms], [one.name for one in document.receptacles]
    names = [*rooms, *receptacles, *(one.name for one in document.expected)]
    for name, times in Counter(names).items():
        if times > 1:
            raise UserError(f"{where}: the name '{name}' occurs {times} times")
    _known(document.start, rooms, f"{where}: start", "room")
    for index, receptacle in enumerate(document.receptacles):
        place = f"{where}: receptacles.{index}"
        _known(receptacle.room, rooms, f"{place}.room", "room")
        properties = _properties(document, receptacle.name.rpartition(" ")[0], f"{place}.name")
        if receptacle.open and "CAN_OPEN" not in properties:
            raise UserError(f"{place}.open: a {receptacle.name.rpartition(' ')[0]} cannot be opened")
        if receptacle.turned_on and "HAS_SWITCH" not in properties:
            raise UserError(f"{place}.turned_on: a {receptacle.name.rpartition(' ')[0]} has no switch")
    for id, word in document.objects.classes.items():
        _properties(document, word, f"{where}: objects.classes.{id}")
    for index, expected in enumerate(document.expected):
        _known(expected.at, receptacles, f"{where}: expected.{index}.at", "receptacle")
        _properties(document, expected.name.rpartition(" ")[0], f"{where}: expected.{index}.name")
    return document


def _known(name: str, names: Sequence[str], place: str, kind: str) -> None:
    if name not in names:
        raise UserError(f"{place}: there is no {kind} '{name}'; there are {', '.join(names) or 'none'}")


def _properties(document: MapDocument, word: str, place: str) -> frozenset[str]:
    try:
        return document.properties(word)
    except ValueError:
        raise UserError(
            f"{place}: the word '{word}' is not known; use one of reactree_ros.world.virtualhome.vocabulary or "
            f"describe it under words, e.g. words: {{{word}: [GRABBABLE]}}"
        ) from None
