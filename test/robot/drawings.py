"""The same two rooms as scene graphs of several forms, and as a map of Nav2 with labelled regions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: What stands and lies in them: class, room, middle with lower edge, size.
TABLE, SHELF, STAPLER = (1.0, 1.0, 0.0), (5.0, 3.5, 0.0), (1.0, 1.2, 0.75)
TABLE_SIZE, SHELF_SIZE, STAPLER_SIZE = (0.8, 1.6, 0.75), (1.0, 0.4, 1.8), (0.05, 0.15, 0.05)

PLAIN: dict[str, Any] = {
    "nodes": [
        {"id": 1, "class": "office", "room": True, "pose": [2, 2], "box": [4, 4, 2.5]},
        {"id": 2, "class": "print_room", "room": True, "pose": [6, 2], "box": [4, 4, 2.5]},
        {"id": 3, "class": "meeting table", "pose": [1.0, 1.0, 0.0, 1.5708], "box": [1.6, 0.8, 0.75]},
        {"id": 4, "class": "Shelf", "pose": list(SHELF), "box": list(SHELF_SIZE)},
        {"id": 5, "class": "stapler", "pose": list(STAPLER), "box": list(STAPLER_SIZE)},
    ],
    "edges": [
        {"from": 3, "to": 1, "relation": "in"},
        {"from": 4, "to": 2, "relation": "in"},
        {"from": 5, "to": 1, "relation": "in"},
        {"from": 5, "to": 3, "relation": "on"},
        {"from": 4, "to": 3, "relation": "near"},
    ],
}


def _unity(id: int, name: str, category: str, at: tuple[float, ...], size: tuple[float, ...], *properties: str) -> Any:
    (x, y, z), (depth, width, height) = at, size
    box = {"center": [x, z + height / 2, y], "size": [depth, height, width]}
    node = {"id": id, "class_name": name, "category": category, "properties": list(properties), "states": []}
    return {**node, "bounding_box": box, "obj_transform": {"position": [x, z, y], "rotation": [0, 0, 0, 1]}}


VIRTUALHOME: dict[str, Any] = {
    "nodes": [
        _unity(1, "office", "Rooms", (2, 2, 0), (4, 4, 2.5)),
        _unity(2, "printroom", "Rooms", (6, 2, 0), (4, 4, 2.5)),
        _unity(3, "meetingtable", "Furniture", TABLE, TABLE_SIZE, "SURFACES"),
        _unity(4, "shelf", "Furniture", SHELF, SHELF_SIZE, "SURFACES"),
        _unity(5, "stapler", "Props", STAPLER, STAPLER_SIZE, "GRABBABLE", "MOVABLE"),
        _unity(6, "character", "Characters", (2, 2, 0), (0.5, 0.5, 1.7)),
        {"id": 7, "class_name": "floor", "category": "Floor", "properties": [], "states": [], "bounding_box": None},
    ],
    "edges": [
        {"from_id": 3, "relation_type": "INSIDE", "to_id": 1},
        {"from_id": 4, "relation_type": "INSIDE", "to_id": 2},
        {"from_id": 5, "relation_type": "INSIDE", "to_id": 1},
        {"from_id": 5, "relation_type": "ON", "to_id": 3},
        {"from_id": 6, "relation_type": "INSIDE", "to_id": 1},
    ],
}


def _hydra(
    id: int, layer: int, kind: str, at: tuple[float, ...], size: tuple[float, ...] | None, label: int = 0
) -> Any:
    x, y, z = at
    middle = [x, y, z + (size[2] / 2 if size else 0)]
    box = {"type": "AABB", "dimensions": list(size or (0, 0, 0)), "world_P_center": middle}
    turn = {"world_R_center": {"w": 1.0, "x": 0.0, "y": 0.0, "z": 0.0}}
    attributes = {"type": kind, "name": f"O({id})", "position": middle, "semantic_label": label}
    return {"id": id, "layer": layer, "attributes": {**attributes, "bounding_box": {**box, **turn}}}


HYDRA: dict[str, Any] = {
    "directed": False,
    "metadata": {"labelspaces": {"_l2p0": [[3, "meeting table"], [4, "shelf"], [5, "stapler"]]}},
    "nodes": [
        _hydra(10, 4, "RoomNodeAttributes", (2, 2, 1), None),
        _hydra(11, 4, "RoomNodeAttributes", (6, 2, 1), None),
        *(
            _hydra(20 + n, 3, "PlaceNodeAttributes", (x, y, 1), None)
            for n, (x, y) in enumerate([(0.5, 0.5), (3.4, 3.5)])
        ),
        *(
            _hydra(30 + n, 3, "PlaceNodeAttributes", (x, y, 1), None)
            for n, (x, y) in enumerate([(4.6, 0.5), (7.5, 3.5)])
        ),
        _hydra(3, 2, "ObjectNodeAttributes", TABLE, TABLE_SIZE, 3),
        _hydra(4, 2, "ObjectNodeAttributes", SHELF, SHELF_SIZE, 4),
        _hydra(5, 2, "ObjectNodeAttributes", STAPLER, STAPLER_SIZE, 5),
        _hydra(6, 2, "ObjectNodeAttributes", (2, 2, 0), (1, 1, 1), 99),
    ],
    "edges": [
        *({"source": 10, "target": 20 + n, "info": {"type": "EdgeAttributes"}} for n in range(2)),
        *({"source": 11, "target": 30 + n, "info": {"type": "EdgeAttributes"}} for n in range(2)),
        *({"source": place, "target": id, "info": {}} for place, id in ((20, 3), (31, 4), (20, 5), (21, 6))),
    ],
}


def _concept(id: int, tag: str, at: tuple[float, ...], size: tuple[float, ...]) -> Any:
    x, y, z = at
    box = {"bbox_extent": list(size), "bbox_center": [x, y, z + size[2] / 2]}
    return {"id": id, "object_tag": tag, "object_caption": "", **box, "bbox_volume": 0.1}


OBJECTS = {
    "object_1": _concept(1, "meeting table", TABLE, TABLE_SIZE),
    "object_2": _concept(2, "shelf", SHELF, SHELF_SIZE),
    "object_3": _concept(3, "stapler", STAPLER, STAPLER_SIZE),
}
RELATIONS = [
    {"object1": OBJECTS["object_3"], "object2": OBJECTS["object_1"], "object_relation": "a on b", "reason": "it is"},
    {"object1": OBJECTS["object_1"], "object2": OBJECTS["object_2"], "object_relation": "none of these", "reason": ""},
]
GRAPHS = {"plain": PLAIN, "virtualhome": VIRTUALHOME, "hydra": HYDRA, "objects": OBJECTS, "relations": RELATIONS}

#: Shapes on an image of 200 x 100 pixels of 5 cm: two rooms of 4 x 4 m beside each other, from the pixel (10, 10) on.
LABELLED: dict[str, Any] = {
    "version": "5.4.1",
    "flags": {},
    "imagePath": "floor.pgm",
    "imageHeight": 100,
    "imageWidth": 200,
    "shapes": [
        {"label": "office 204", "shape_type": "polygon", "points": [[10, 10], [90, 10], [90, 90], [10, 90]]},
        {"label": "print_room", "shape_type": "polygon", "points": [[90, 10], [170, 10], [170, 90], [90, 90]]},
        {"label": "meeting table", "shape_type": "rectangle", "points": [[14, 54], [46, 70]]},
        {"label": "shelf", "shape_type": "polygon", "points": [[100, 11], [120, 11], [120, 19], [100, 19]]},
        {"label": "entrance", "shape_type": "point", "points": [[50, 50]]},
    ],
}


def write_nav2(folder: Path, labelled: Any = LABELLED, *, text: str = "", kind: str = "pgm") -> Path:
    """Write a map of Nav2 with its image and its labels; the left half of the first room is occupied."""
    pixels = bytearray([254] * 20_000)
    for row in range(100):
        for column in range(200):
            wall = row in (9, 91) or column in (9, 90, 171)
            if wall or (10 <= column < 50 and 10 <= row < 90):
                pixels[200 * row + column] = 0
    image = folder / f"floor.{kind}"
    image.write_bytes(b"P5\n200 100\n255\n" + bytes(pixels))
    (folder / "floor.json").write_text(json.dumps(labelled), encoding="utf-8")
    path = folder / "floor.yaml"
    path.write_text(
        text
        or f"image: {image.name}\nmode: trinary\nresolution: 0.05\norigin: [-1.0, -2.0, 0.0]\nnegate: 0\n"
        "occupied_thresh: 0.65\nfree_thresh: 0.196\n",
        encoding="utf-8",
    )
    return path
