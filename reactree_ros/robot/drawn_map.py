"""A semantic map made of what others have drawn or measured: rooms, what stands in them, and what lies there."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.household.tasks import parts_of
from reactree_ros.household.vocabulary import class_of_word
from reactree_ros.robot.house import MARGIN, STANDOFF
from reactree_ros.robot.map_file import MapDocument, Source, map_of
from reactree_ros.robot.poses import Pose, surrounds

Corner = tuple[float, float]
#: What can be done with a piece of furniture by itself, as far as a semantic map says.
_OF_FURNITURE = frozenset({"SURFACES", "CONTAINERS", "CAN_OPEN", "HAS_SWITCH"})
#: How many times larger than a thing its surface is at least, where only their boxes are known.
_LARGER = 2.0
#: Coordinates are written to the millimetre.
_DIGITS = 3
#: What a class or a label may be called at most, in characters.
_LONGEST = 40


@dataclass(frozen=True)
class DrawnRoom:
    name: str  # what it is called; several may have the same name
    outline: Sequence[Corner]  # its corners in order, in metres
    stand: Corner | None = None  # where the robot stands to look around; None: in its middle
    floor: int | None = None  # the floor that it is on
    # gives the nearest place in it where the robot may stand; by default it may stand anywhere
    ground: Callable[[Corner], Corner] = lambda at: at

    @property
    def middle(self) -> Corner:
        if self.stand is not None:
            return self.stand
        xs, ys = zip(*self.outline, strict=True)
        middle = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
        if surrounds(self.outline, Pose("", *middle)):
            return middle
        (ax, ay), (bx, by), (cx, cy) = self.outline[:3]  # of a bent room
        return (ax + bx + cx) / 3, (ay + by + cy) / 3


@dataclass(frozen=True)
class DrawnThing:
    name: str  # what it is called; several may have the same name
    middle: tuple[float, float, float]  # the middle of its box, with its lower edge, in metres
    size: tuple[float, float, float] = (0.5, 0.5, 0.5)  # of its box along its x axis, its y axis and upwards, in metres
    yaw: float = 0.0  # how it is turned, in radians
    properties: frozenset[str] = frozenset()  # what can be done with it, as far as that is said; empty: by its word
    # what it is in or on, by its place in the list of things; None: in or on nothing that is known
    on: int | None = None
    own: str = ""  # what others call it; empty: nothing

    @property
    def pose(self) -> Pose:
        return Pose.upright("", *self.middle, yaw=self.yaw)


def word_of(label: str) -> str:
    """Return a class or a label as words: ``kitchen_table`` is a kitchen table; empty if it is no word."""
    words = " ".join(re.sub(r"[^\w ]+|_+", " ", label).split())
    return words.casefold() if 0 < len(words) <= _LONGEST and words[0].isalpha() else ""


def map_values(rooms: Sequence[DrawnRoom], things: Sequence[DrawnThing], *, where: str) -> dict[str, Any]:
    """Return a semantic map as a document of :class:`~reactree_ros.robot.map_file.MapDocument`, once it is checked.

    What is in or on what is known by where both are, if nobody says it. What bears something stands where it is; so
    does what has the properties of furniture, and what is no word of the vocabulary and larger than half a metre. The
    rest is carried about: it is expected where it is in or on something, and a detector may name its class. Raises
    UserError: there is no room, or the map cannot be used; the message begins with `where`.
    """
    if not rooms:
        raise UserError(f"{where}: there is no room in it")
    things = [one if one.on is not None else replace(one, on=_under(one, things)) for one in things]
    bearing = {one.on for one in things if one.on is not None}
    furniture = {at: _furniture(one, at in bearing) for at, one in enumerate(things)}
    stands = {at: properties for at, properties in furniture.items() if properties}
    numbers, names = Counter[str](), dict[int, str]()
    called = _called([room.name for room in rooms], numbers)
    words: dict[str, set[str]] = {}
    receptacles = []
    for at, properties in stands.items():
        inside = next((i for i, room in enumerate(rooms) if surrounds(room.outline, things[at].pose)), None)
        if inside is None:
            continue
        (names[at],) = _called([things[at].name], numbers)
        words.setdefault(_word(names[at]), set()).update(properties)
        receptacles.append(_receptacle(things[at], names[at], called[inside], rooms[inside]))
    classes, expected = {}, []
    for at, one in enumerate(things):
        if at in stands:
            continue
        word = _word(one.name)
        classes[one.name if one.name == word else word] = word
        words.setdefault(word, {"GRABBABLE"})
        if one.on in names:
            (name,) = _called([word], numbers, numbered=True)
            expected.append({"name": name, "at": names[one.on]})
    known = {word: sorted(said) for word, said in sorted(words.items()) if not said <= _known(word)}
    values: dict[str, Any] = {
        "start": called[0],
        "rooms": [_room(room, name) for room, name in zip(rooms, called, strict=True)],
        "receptacles": receptacles,
        "objects": {"classes": classes} if classes else {"others": {}},
        **({"words": known} if known else {}),
        **({"expected": expected} if expected else {}),
    }
    map_of(Source(values, where))
    return {"frame": MapDocument.model_fields["frame"].default, **values}


def box_of(corners: Iterable[Corner]) -> tuple[Corner, tuple[float, float]]:
    xs, ys = zip(*corners, strict=True)
    return ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2), (max(xs) - min(xs), max(ys) - min(ys))


def _known(word: str) -> frozenset[str]:
    with suppress(ValueError):
        return class_of_word(word).properties
    return frozenset()


def _furniture(thing: DrawnThing, bears: bool) -> frozenset[str]:
    known = thing.properties or _known(_word(thing.name))
    able = known & _OF_FURNITURE
    if "GRABBABLE" in known and not bears:
        return frozenset()
    if able and "GRABBABLE" not in known:
        return able
    return (able or frozenset({"SURFACES"})) if bears or (not known and max(thing.size) > 0.5) else frozenset()


def _under(thing: DrawnThing, things: Sequence[DrawnThing]) -> int | None:
    x, y, z = thing.middle
    found = []
    for at, one in enumerate(things):
        area = one.size[0] * one.size[1]
        ahead, left = one.pose.seen_from_above(Pose("", x, y))
        over = abs(ahead) <= one.size[0] / 2 and abs(left) <= one.size[1] / 2
        high = one.middle[2] - MARGIN <= z <= one.middle[2] + one.size[2] + MARGIN
        if one is not thing and over and high and area >= _LARGER * thing.size[0] * thing.size[1]:
            found.append((area, at))
    return min(found)[1] if found else None


def _word(name: str) -> str:
    return parts_of(name)[0]


def _called(names: Iterable[str], numbers: Counter[str], *, numbered: bool = False) -> list[str]:
    given = list(names)
    found = []
    for name in given:
        word, number = parts_of(name)
        if numbered or not number or numbers[f"{word} {number}"]:
            numbers[word] += 1
            while numbers[f"{word} {numbers[word]}"]:
                numbers[word] += 1
            number = numbers[word]
        numbers[f"{word} {number}"] += 1
        found.append(f"{word} {number}")
    return found


def _room(room: DrawnRoom, name: str) -> dict[str, Any]:
    x, y = room.middle
    floor = {} if room.floor is None else {"floor": room.floor}
    outline = [[rounded(x), rounded(y)] for x, y in room.outline]
    return {"name": name, **floor, "pose": {"x": rounded(x), "y": rounded(y)}, "outline": outline}


def _receptacle(thing: DrawnThing, name: str, room: str, of: DrawnRoom) -> dict[str, Any]:
    x, y, z = thing.middle
    pose = {"x": rounded(x), "y": rounded(y), **({"z": rounded(z)} if rounded(z) else {})}
    if rounded(thing.yaw):
        pose["yaw"] = rounded(thing.yaw)
    sx, sy = of.middle
    away = math.atan2(sy - y, sx - x) if math.hypot(sx - x, sy - y) > 1e-6 else thing.yaw
    turned = away - thing.yaw
    depth, width = thing.size[0] / 2, thing.size[1] / 2
    edge = min(depth / max(abs(math.cos(turned)), 1e-6), width / max(abs(math.sin(turned)), 1e-6))
    reach = min(edge + STANDOFF, max(math.hypot(sx - x, sy - y), edge + 0.1))
    ax, ay = of.ground((x + reach * math.cos(away), y + reach * math.sin(away)))
    yaw = rounded(math.atan2(y - ay, x - ax))
    return {
        "name": name,
        **({"own": thing.own} if thing.own else {}),
        "room": room,
        "pose": pose,
        "size": [max(0.01, rounded(side)) for side in thing.size],
        "approach": {"x": rounded(ax), "y": rounded(ay), **({"yaw": yaw} if yaw else {})},
    }


def rounded(number: float) -> float:
    return round(float(number), _DIGITS) + 0.0  # no -0.0
