"""Semantic maps made of what others have drawn or measured, and of scene graphs as JSON in four forms.

- plain: nodes ``{"id", "class", "pose": [x, y, z, yaw], "box": [x, y, z], "room": true}``, edges ``{"from", "to",
  "relation"}`` with the relation ``in`` or ``on``; all but id, class and the first two of the pose may be missing.
- VirtualHome: ``class_name``, ``category``, ``properties``, ``bounding_box`` with ``center`` and ``size``, the second
  axis upwards; edges ``from_id``, ``relation_type`` (INSIDE, ON), ``to_id``.
- Hydra, as spark_dsg saves it: ``attributes`` with ``position``, ``semantic_label``, ``bounding_box``; edges ``source``
  (a room or a place) and ``target``. The names of its labels are in its metadata, or in a file of their own.
- ConceptGraphs: ``{"object_1": {"object_tag", "bbox_center", "bbox_extent"}}``, or a list of relations of such objects
  with ``object_relation`` ("a on b").
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json, shown
from reactree_ros.household.tasks import ROOMS, parts_of
from reactree_ros.household.vocabulary import class_of_word
from reactree_ros.robot.house import MARGIN, STANDOFF
from reactree_ros.robot.map_file import MapDocument, Source, map_of, read_yaml
from reactree_ros.robot.poses import Pose, surrounds

Corner = tuple[float, float]
Point = tuple[float, float, float]
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
    middle: Point  # the middle of its box, with its lower edge, in metres
    size: Point = (0.5, 0.5, 0.5)  # of its box along its x axis, its y axis and upwards, in metres
    yaw: float = 0.0  # how it is turned, in radians
    properties: frozenset[str] = frozenset()  # what can be done with it, as far as that is said; empty: by its word
    # what it is in or on, by its place in the list of things; None: in or on nothing that is known
    on: int | None = None
    own: str = ""  # what others call it; empty: nothing

    @property
    def pose(self) -> Pose:
        return Pose.upright("", *self.middle, yaw=self.yaw)


def word_of(label: str) -> str:
    """Return a class or a label as words: ``kitchen_table`` is a kitchen table; empty if it is not a word."""
    words = " ".join(re.sub(r"[^\w ]+|_+", " ", label).split())
    return words.casefold() if 0 < len(words) <= _LONGEST and words[0].isalpha() else ""


def map_values(rooms: Sequence[DrawnRoom], things: Sequence[DrawnThing], *, where: str) -> dict[str, Any]:
    """Return a semantic map as a document of :class:`~reactree_ros.robot.map_file.MapDocument`, once it is checked.

    What is in or on what is known by where both are, if nobody says it. What bears something stands where it is; so
    does what has the properties of furniture, and what is larger than half a metre and not in the vocabulary. The rest
    is carried about: it is expected where it is in or on something, and a detector may name its class. Raises
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
    outline = [[rounded(x), rounded(y)] for x, y in room.outline]
    return {"name": name, "pose": {"x": rounded(x), "y": rounded(y)}, "outline": outline}


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


#: How far around what is in a room without a box its walls are taken to be, in metres.
_AROUND = 0.5
#: The size of what nobody knows the size of.
_NO_SIZE = (0.0, 0.0, 0.0)
#: The most nodes of a graph.
_MOST = 20_000
#: What a node is, whatever a label calls it: the attributes of Hydra's layers.
_HYDRA_ROOM, _HYDRA_OBJECT = "RoomNodeAttributes", ("ObjectNodeAttributes", "KhronosObjectAttributes")


@dataclass(frozen=True, kw_only=True)
class _Node(DrawnThing):
    """A room or a thing; its size is 0 where nobody says it."""

    id: str
    is_room: bool = False


@dataclass(frozen=True)
class _Graph:
    nodes: Sequence[_Node]
    within: Mapping[str, str]
    ground: Mapping[str, Sequence[Corner]] = field(default_factory=dict)


def map_of_scene_graph(path: Path, *, labels: Path | None = None) -> dict[str, Any]:
    """Return the values of a semantic map; Hydra's ``labels`` are YAML with ``{7: chair}`` or ``label_names``.

    Raises UserError, in one line: it is not a scene graph that is known, or no map comes of it.
    """
    names = _labels_of(labels) if labels is not None else {}
    graph = read_json(path, "scene graph of a known form", lambda values: _read(values, names))
    if not graph.nodes:
        raise UserError(f"{path}: there is nothing in it whose class is a word; Hydra's labels are named by --labels")
    return map_values(*_drawn(graph), where=str(path))


def _labels_of(path: Path) -> dict[int, str]:
    values = read_yaml(path).values
    listed = values.get("label_names") if isinstance(values, dict) else None
    try:
        if listed is not None:
            return {int(one["label"]): str(one["name"]) for one in listed}
        return {int(label): str(name) for label, name in values.items()}
    except (TypeError, ValueError, LookupError, AttributeError):
        raise UserError(f"{path}: {shown(values)} are not names of labels; write 7: chair, one a line") from None


# ---------------------------------------------------------------------- forms


def _read(values: Any, labels: Mapping[int, str]) -> _Graph:
    nodes = values.get("nodes") if isinstance(values, dict) else None
    if isinstance(nodes, list):
        if len(nodes) > _MOST:
            raise ValueError(f"it has more than {_MOST} nodes")
        first = next((one for one in nodes if isinstance(one, dict)), {})
        form = _virtualhome if "class_name" in first else _hydra if "attributes" in first else _plain
        return form(values, labels)
    if isinstance(values, list) or (isinstance(values, dict) and any(map(_is_concept, values.values()))):
        return _concepts(values)
    raise ValueError("it has no nodes")


def _plain(values: Any, labels: Mapping[int, str]) -> _Graph:
    nodes = []
    for one in values["nodes"]:
        x, y, *rest = map(_number, one["pose"])
        z, yaw = (*rest, 0.0, 0.0)[:2]
        size = _NO_SIZE if one.get("box") is None else _three(one["box"])
        is_room, own = bool(one.get("room", False)), str(one.get("name", ""))
        nodes.append(_Node(str(one["class"]), (x, y, z), size, yaw, id=str(one["id"]), is_room=is_room, own=own))
    edges = [(one["from"], str(one["relation"]).casefold(), one["to"]) for one in values.get("edges", ())]
    return _graph(nodes, [(of, to) for of, relation, to in edges if relation in ("in", "on", "inside")])


def _virtualhome(values: Any, labels: Mapping[int, str]) -> _Graph:
    nodes = []
    for one in values["nodes"]:
        box = one.get("bounding_box")
        if not isinstance(box, dict) or one["class_name"] == "character":
            continue
        (x, up, y), (depth, height, width) = _three(box["center"]), _three(box["size"])
        middle, size = (x, y, up - height / 2), (depth, width, height)
        properties = frozenset(map(str, one.get("properties", ())))
        is_room = one.get("category") == ROOMS
        named = str(one["class_name"]), middle, size, 0.0, properties
        nodes.append(_Node(*named, id=str(one["id"]), is_room=is_room))
    edges = [(one["from_id"], one["relation_type"], one["to_id"]) for one in values.get("edges", ())]
    return _graph(nodes, [(of, to) for of, relation, to in edges if relation in ("INSIDE", "ON")])


def _hydra(values: Any, labels: Mapping[int, str]) -> _Graph:
    names = {**_hydra_labels(values.get("metadata")), **labels}
    nodes = []
    for one in values["nodes"]:
        attributes = one["attributes"]
        kind, box = attributes.get("type"), attributes.get("bounding_box")
        if kind not in (_HYDRA_ROOM, *_HYDRA_OBJECT) or None in attributes["position"]:
            continue
        middle, size, yaw = _hydra_box(box, _three(attributes["position"]))
        is_room = kind == _HYDRA_ROOM
        label = "room" if is_room else names.get(attributes.get("semantic_label"), "")
        own = str(attributes.get("name", ""))
        nodes.append(_Node(label, middle, size, yaw, id=str(one["id"]), is_room=is_room, own=own))
    rooms = {node.id for node in nodes if node.is_room}
    edges = [(str(one["source"]), str(one["target"])) for one in values.get("edges", ())]
    places = {to: of for of, to in edges if of in rooms and to not in rooms}  # of rooms and the places in them
    inside = [(to, of if of in rooms else places[of]) for of, to in edges if of in rooms or of in places]
    at = {str(one["id"]): _three(one["attributes"]["position"]) for one in values["nodes"] if str(one["id"]) in places}
    ground: dict[str, list[Corner]] = {}
    for place, (x, y, _) in at.items():
        ground.setdefault(places[place], []).append((x, y))
    return replace(_graph(nodes, inside), ground=ground)


def _hydra_labels(metadata: Any) -> dict[int, str]:
    spaces = metadata.get("labelspaces") if isinstance(metadata, dict) else None
    named: dict[int, str] = {}
    for space in spaces.values() if isinstance(spaces, dict) else ():
        pairs = space.items() if isinstance(space, dict) else space
        named |= {int(label): str(name) for label, name in pairs}
    return named


def _hydra_box(box: Any, at: Point) -> tuple[Point, Point, float]:
    if not isinstance(box, dict):
        return at, _NO_SIZE, 0.0
    turn, yaw = box.get("world_R_center"), 0.0
    if isinstance(turn, dict):
        x, y, z, w = (_number(turn[one]) for one in "xyzw")
        yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    middle = box.get("world_P_center", box.get("center", at))
    if "dimensions" in box:
        size = _three(box["dimensions"])
    else:
        low, high = _three(box["min"]), _three(box["max"])
        size = tuple(b - a for a, b in zip(low, high, strict=True))  # type: ignore[assignment]
        if "world_P_center" not in box:
            middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    if min(size) <= 0:
        return at, _NO_SIZE, yaw
    x, y, z = _three(middle)
    return (x, y, z - size[2] / 2), size, yaw


def _is_concept(value: Any) -> bool:
    return isinstance(value, dict) and "bbox_center" in value


def _concepts(values: Any) -> _Graph:
    relations = values if isinstance(values, list) else []
    objects = [one for each in relations for one in (each["object1"], each["object2"])] if relations else []
    objects += [one for one in values.values() if _is_concept(one)] if isinstance(values, dict) else []
    nodes = {}
    for one in objects:
        (x, y, z), size = _three(one["bbox_center"]), _three(one["bbox_extent"])
        label = str(one.get("object_tag") or one.get("object_caption") or "")
        nodes[str(one["id"])] = _Node(label, (x, y, z - size[2] / 2), size, id=str(one["id"]))
    edges = []
    for each in relations:
        relation, of, to = str(each["object_relation"]).casefold(), each["object1"]["id"], each["object2"]["id"]
        if relation in ("a on b", "a in b"):
            edges.append((of, to))
        elif relation in ("b on a", "b in a"):
            edges.append((to, of))
    return _graph(list(nodes.values()), edges)


def _graph(nodes: Sequence[_Node], edges: Sequence[tuple[Any, Any]]) -> _Graph:
    known = {node.id: replace(node, name=word) for node in nodes if (word := word_of(node.name))}
    within: dict[str, str] = {}
    for of, to in ((str(of), str(to)) for of, to in edges):
        if of in known and to in known and of != to and (of not in within or known[within[of]].is_room):
            within[of] = to  # what something is on says more than the room that it is in
    return _Graph(list(known.values()), within)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e6:
        raise ValueError(f"{shown(value)} is not a length")
    return float(value)


def _three(value: Any) -> Point:
    x, y, z = map(_number, value)
    return x, y, z


# ---------------------------------------------------------------------- rooms


def _drawn(graph: _Graph) -> tuple[list[DrawnRoom], Sequence[DrawnThing]]:
    things = [node for node in graph.nodes if not node.is_room]
    rooms = [_drawn_room(node, graph) for node in graph.nodes if node.is_room]
    left = [node for node in things if not any(surrounds(room.outline, Pose("", *node.middle)) for room in rooms)]
    if left and not rooms:
        rooms.append(DrawnRoom("room", _around(left, ())))
    places = {node.id: at for at, node in enumerate(things)}
    sized = [node if any(node.size) else replace(node, size=(0.1, 0.1, 0.1)) for node in things]
    drawn = [replace(node, on=places.get(graph.within.get(node.id, ""))) for node in sized]
    return rooms, drawn


def _drawn_room(node: _Node, graph: _Graph) -> DrawnRoom:
    if any(node.size):
        (x, y, _), (depth, width, _) = node.middle, node.size
        corners = [(x + a * depth / 2, y + b * width / 2) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
        return DrawnRoom(node.name, corners)
    inside = [one for one in graph.nodes if not one.is_room and _room_of(one.id, graph.within) == node.id]
    return DrawnRoom(node.name, _around([node, *inside], graph.ground.get(node.id, ())))


def _room_of(id: str, within: Mapping[str, str]) -> str:
    seen = {id}
    while (above := within.get(id)) is not None and above not in seen:
        seen.add(above)
        id = above
    return id


def _around(nodes: Sequence[_Node], ground: Sequence[Corner]) -> list[Corner]:
    corners = [*(corner for node in nodes for corner in _corners(node)), *ground]
    (x, y), (depth, width) = box_of(corners)
    dx, dy = depth / 2 + _AROUND, width / 2 + _AROUND
    return [(x + dx, y + dy), (x - dx, y + dy), (x - dx, y - dy), (x + dx, y - dy)]


def _corners(node: _Node) -> Iterator[Corner]:
    (x, y, _), (depth, width, _) = node.middle, node.size
    reach = math.hypot(depth, width) / 2 if node.yaw else 0.0
    dx, dy = (reach, reach) if node.yaw else (depth / 2, width / 2)
    yield from ((x - dx, y - dy), (x + dx, y + dy))
