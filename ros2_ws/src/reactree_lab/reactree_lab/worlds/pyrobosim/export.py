"""Converts our houses to pyrobosim's worlds: its YAML, and our tasks with their goals.

The rooms are in a row, and hallways join neighbours. Furniture stands along the two long walls of its room, with one
place in front of it for a robot. pyrobosim has no switches: tasks that turn something on are left out. A piece of
furniture has its things either on it or, if it opens, in it. Furniture that VirtualHome's simulator never opens is
locked here, or a shelf if things can lie on it; its contents are left out.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from reactree_lab.household.generator import generate_house
from reactree_lab.worlds.pyrobosim.tasks import KEY, GoalEntry, PyrobosimTask, Source, TaskEntry
from reactree_ros.files.whole_file import write_whole
from reactree_ros.household.tasks import ROOMS, Task, parse_tasks
from reactree_ros.household.vocabulary import CLASSES, NEVER_OPEN

# Lengths in metres.
_ROOM_DEPTH = 3.4
_SHORTEST_ROOM = 3.0
_HALLWAY, _HALLWAY_WIDTH = 1.0, 0.8
_DEPTH = 0.6  # of all furniture
_WIDTH = 0.6  # of furniture not listed below
_WIDTHS = {"bed": 1.6, "coffeetable": 1.0, "kitchencounter": 1.0, "kitchentable": 1.4, "sofa": 1.4}
_GAP = 0.1  # between two pieces, and to the walls
_BEFORE = 0.6  # from the middle of a piece to the robot in front of it
_RADIUS = 0.15  # of a robot
_THING, _CELL, _EDGE = 0.05, 0.09, 0.02  # a thing, its space, and the free margin

_Entry = dict[str, Any]
LOCATIONS, OBJECTS = "locations.yaml", "objects.yaml"


@dataclass
class _Piece:
    class_name: str
    number: int
    things: list[tuple[str, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return _name(self.class_name, self.number)

    @property
    def width(self) -> float:
        rows = math.floor((_DEPTH - 2 * _EDGE) / _CELL)
        needed = math.ceil(len(self.things) / rows) * _CELL + 2 * _EDGE
        return max(_WIDTHS.get(self.class_name, _WIDTH), round(needed, 2))


@dataclass
class _Room:
    class_name: str
    number: int
    pieces: list[_Piece] = field(default_factory=list)

    @property
    def name(self) -> str:
        return _name(self.class_name, self.number)

    def walls(self) -> tuple[list[_Piece], list[_Piece]]:
        return self.pieces[::2], self.pieces[1::2]

    def length(self, widths: Mapping[str, float]) -> float:
        along = (sum(widths[piece.class_name] + _GAP for piece in wall) + _GAP for wall in self.walls())
        return max(_SHORTEST_ROOM, *along)


def tasks_as_pyrobosim(
    *, seed: int, rooms: int = 5, tasks: int = 5, varied: bool = False, robots: int = 1
) -> dict[int, PyrobosimTask]:
    """Make a house and its tasks, numbered from 1: the first ones that turn nothing on.

    See :func:`~reactree_lab.household.generator.generate_house`.
    """
    found: list[Task] = []
    for drawn in itertools.count(2 * tasks, 2 * tasks):
        documents = generate_house(seed=seed, rooms=rooms, tasks=drawn, varied=varied)
        usable = [
            document for document in documents if not any(key.startswith("turnOn_") for key in document["task_goal"])
        ]
        if len(usable) >= tasks:
            found = parse_tasks(usable[:tasks])
            break
    houses = [_house(task) for task in found]
    widths: dict[str, float] = defaultdict(float)
    for piece in (piece for house in houses for room in house for piece in room.pieces):
        widths[piece.class_name] = max(widths[piece.class_name], piece.width)
    metadata = _metadata(houses, widths)
    made = {}
    for number, (task, house) in enumerate(zip(found, houses, strict=True), start=1):
        entry = _entry(task, number)
        document = {**_document(house, task.init_room, widths, robots), KEY: entry.model_dump()}
        made[number] = PyrobosimTask(entry, Source(document=document, metadata=metadata))
    return made


def _entry(task: Task, number: int) -> TaskEntry:
    goal = [
        GoalEntry(
            relation="inside" if _shut_at_first(one.target) else "on",
            item=_category(one.item),
            target=_category(one.target),
            count=one.count,
        )
        for one in task.goal
    ]
    return TaskEntry(
        task_id=number,
        task_name=task.task_name,
        nl_instructions=task.nl_instructions,
        goal=goal,
        house=task.house,
    )


def write_house(tasks: Mapping[int, PyrobosimTask], folder: Path) -> list[Path]:
    """Write a world file per task, and their two shared files of categories; return the world files."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, key in ((LOCATIONS, "locations"), (OBJECTS, "objects")):
        _write(folder / file, next(iter(tasks.values())).source.metadata[key])
    files = []
    for number, task in tasks.items():
        metadata = {"locations": [f"$PWD/{LOCATIONS}"], "objects": [f"$PWD/{OBJECTS}"]}
        files.append(folder / f"task_{number}.yaml")
        _write(files[-1], {"metadata": metadata, **task.source.document})
    return files


def _write(file: Path, document: Mapping[str, Any]) -> None:
    text = yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    write_whole(file, text)


# ---- the house ----------------------------------------------------------------------------------------------------


def _house(task: Task) -> list[_Room]:
    """Read rooms, furniture and things from a scene graph; ids determine the numbers, as in the household."""
    graph = task.init_graph
    nodes = {node.id: node for node in sorted(graph.nodes, key=lambda node: node.id)}
    inside = {edge.from_id: edge.to_id for edge in graph.edges if edge.relation_type == "INSIDE"}
    place = inside | {edge.from_id: edge.to_id for edge in graph.edges if edge.relation_type == "ON"}
    counts: Counter[str] = Counter()

    def numbered(class_name: str) -> int:
        counts[class_name] += 1
        return counts[class_name]

    rooms, pieces = dict[int, _Room](), dict[int, _Piece]()
    for id, node in nodes.items():
        if node.category == ROOMS:
            rooms[id] = _Room(node.class_name, numbered(node.class_name))
        elif place.get(id) in rooms and {"SURFACES", "CONTAINERS"} & set(node.properties):
            pieces[id] = _Piece(node.class_name, numbered(node.class_name))
            rooms[place[id]].pieces.append(pieces[id])
    for id, node in nodes.items():
        at = pieces.get(place.get(id, 0))
        if at is not None and not (inside.get(id) == place[id] and at.class_name in NEVER_OPEN):
            at.things.append((node.class_name, numbered(node.class_name)))
    return list(rooms.values())


def _shut_at_first(class_name: str) -> bool:
    """Return whether furniture of a class is closed at first: if it opens, or never opens but has no top."""
    properties = CLASSES[class_name].properties
    if class_name in NEVER_OPEN:
        return "SURFACES" not in properties
    return {"CONTAINERS", "CAN_OPEN"} <= properties


def _category(class_name: str) -> str:
    return CLASSES[class_name].word.replace(" ", "_")


def _name(class_name: str, number: int) -> str:
    return f"{_category(class_name)}_{number}"


# ---- pyrobosim's documents ----------------------------------------------------------------------------------------


def _metadata(houses: Sequence[Sequence[_Room]], widths: Mapping[str, float]) -> dict[str, Any]:
    pieces = (piece for house in houses for room in house for piece in room.pieces)
    things = sorted({_category(name) for piece in pieces for name, _ in piece.things})
    thing = {"footprint": {"type": "box", "dims": [_THING, _THING], "height": 0.1}, "color": [0.8, 0.3, 0.1]}
    return {
        "locations": {_category(name): _location_category(name, width) for name, width in sorted(widths.items())},
        "objects": {name: dict(thing) for name in things},
    }


def _document(house: Sequence[_Room], start: str, widths: Mapping[str, float], robots: int) -> dict[str, Any]:
    rooms, hallways, locations = list[_Entry](), list[_Entry](), list[_Entry]()
    objects = list[_Entry]()
    west = 0.0
    for before, room in zip([None, *house], house, strict=False):
        length = room.length(widths)
        rooms.append(_room_entry(room, west, length))
        if before is not None:
            hallways.append(
                {"room_start": before.name, "room_end": room.name, "width": _HALLWAY_WIDTH, "is_locked": True}
            )
        for piece, x, y in _placed(room, west, widths):
            locations.append(_location_entry(piece, room, x, y))
            objects += _object_entries(piece, x, y, widths[piece.class_name])
        west += length + _HALLWAY
    begin = next(room for room in rooms if room["name"].rpartition("_")[0] == _category(start))
    return {
        "params": {"name": "house", "object_radius": 0.0, "wall_height": 2.0},
        "robots": [_robot_entry(begin, number, robots) for number in range(robots)],
        "rooms": rooms,
        "hallways": hallways,
        "locations": sorted(locations, key=_in_order),
        "objects": sorted(objects, key=_in_order),
    }


def _in_order(entry: Mapping[str, Any]) -> tuple[str, int]:
    return entry["category"], int(entry["name"].rpartition("_")[2])


def _placed(room: _Room, west: float, widths: Mapping[str, float]) -> Iterator[tuple[_Piece, float, float]]:
    far = (_ROOM_DEPTH - _DEPTH) / 2 - _GAP
    middles = {}
    for wall, y in zip(room.walls(), (far, -far), strict=True):
        x = west + _GAP
        for piece in wall:
            width = widths[piece.class_name]
            middles[piece.name] = round(x + width / 2, 3), round(y, 3)
            x += width + _GAP
    for piece in room.pieces:
        yield piece, *middles[piece.name]


def _room_entry(room: _Room, west: float, length: float) -> dict[str, Any]:
    west, east, half = round(west, 3), round(west + length, 3), _ROOM_DEPTH / 2
    return {
        "name": room.name,
        "footprint": {"type": "polygon", "coords": [[west, -half], [east, -half], [east, half], [west, half]]},
        "nav_poses": [[round((west + east) / 2, 3), 0.0]],
        "wall_width": 0.2,
    }


def _location_entry(piece: _Piece, room: _Room, x: float, y: float) -> dict[str, Any]:
    shut = _shut_at_first(piece.class_name)
    return {
        "name": piece.name,
        "category": _category(piece.class_name),
        "parent": room.name,
        "pose": [x, y, 0.0, 0.0 if y > 0 else round(math.pi, 6)],
        "is_open": not shut,
        "is_locked": not shut or piece.class_name in NEVER_OPEN,
    }


def _location_category(class_name: str, width: float) -> dict[str, Any]:
    shut = _shut_at_first(class_name)
    return {
        "footprint": {"type": "box", "dims": [round(width, 3), _DEPTH], "height": 0.8},
        "nav_poses": [[0.0, -_BEFORE, 0.0, round(math.pi / 2, 6)]],
        "locations": [{"name": "inside" if shut else "top", "footprint": {"type": "parent"}}],
        "color": [0.5, 0.3, 0.1] if shut else [0.2, 0.4, 0.2],
    }


def _object_entries(piece: _Piece, x: float, y: float, width: float) -> Iterator[dict[str, Any]]:
    columns = math.floor((width - 2 * _EDGE) / _CELL + 1e-6)
    left, front = x - width / 2 + _EDGE + _CELL / 2, y - _DEPTH / 2 + _EDGE + _CELL / 2
    for index, (class_name, number) in enumerate(piece.things):
        row, column = divmod(index, columns)
        yield {
            "name": _name(class_name, number),
            "category": _category(class_name),
            "parent": piece.name,
            "pose": [round(left + column * _CELL, 3), round(front + row * _CELL, 3), 0.0, 0.0],
        }


def _robot_entry(room: Mapping[str, Any], number: int, robots: int) -> dict[str, Any]:
    x, y = room["nav_poses"][0]
    return {
        "name": "robot" if robots == 1 else f"robot_{number + 1}",
        "radius": _RADIUS,
        "location": room["name"],
        "pose": {"position": {"x": round(x + 3 * _RADIUS * (number - (robots - 1) / 2), 3), "y": y}},
        "path_planner": {"type": "world_graph", "collision_check_step_dist": 0.1, "max_connection_dist": 2.5},
        "path_executor": {"type": "constant_velocity", "linear_velocity": 1.0, "dt": 0.2},
        "partial_obs_objects": True,
    }
