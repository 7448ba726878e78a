"""The semantic map of a Nav2 map whose regions were labelled: map_server's YAML and image, and a file of labelme.

labelme is a common tool to label images. Its file has the shapes that were drawn on the map's image: a shape around
others, or around nothing, is a room; a shape within another one is a piece of furniture in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactree_ros.agent.picture import READ_FORMS, opened
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json, shown
from reactree_ros.household.tasks import parts_of
from reactree_ros.plugins.installation import check_modules
from reactree_ros.robot.drawn_map import Corner, DrawnRoom, DrawnThing, box_of, map_values, word_of
from reactree_ros.robot.map_file import Document, checked, read_yaml
from reactree_ros.robot.poses import Pose, surrounds

#: How high furniture is taken to be: an image says nothing of it, in metres.
HEIGHT = 0.8
#: The most pixels of an image, so that a small file of a huge image does not fill the memory.
_MOST_PIXELS = 64_000_000
_SHAPES = ("polygon", "rectangle")


class Nav2Map(Document):
    """The YAML of map_server.

    Attributes:
        image: The image, relative to the file.
        resolution: Of a pixel, in metres.
        origin: Where the lower left pixel is: x, y and yaw.
        negate: Whether dark is free.
        occupied_thresh: What is at least this much occupied is no place to stand.
        free_thresh: What is at most this much occupied is free.
        mode: How the image is read; free is what map_server calls free in trinary mode.
    """

    image: str
    resolution: float
    origin: tuple[float, float, float]
    negate: int = 0
    occupied_thresh: float = 0.65
    free_thresh: float = 0.25
    mode: str = "trinary"


@dataclass(frozen=True)
class _Shape:
    label: str
    outline: tuple[Corner, ...]
    number: int | None


def map_of_nav2(path: Path, *, regions: Path | None = None) -> dict[str, Any]:
    """Return a semantic map as a document of :class:`reactree_ros.robot.map_file.MapDocument`.

    In each room the robot stands on free ground, as far from everything as may be.

    Args:
        path: The YAML of map_server.
        regions: The file of labelme; by default that of the image's name with ``.json``.

    Raises:
        UserError: A file cannot be used, or they do not fit together; the message is one line.
    """
    check_modules("--from nav2", "reactree_ros[pictures]", ["PIL"])
    found = checked(Nav2Map, read_yaml(path))
    if not (0 < found.resolution < 100 and all(map(math.isfinite, found.origin))):
        raise UserError(f"{path}: resolution: {found.resolution} is no size of a pixel in metres")
    image = path.parent / found.image
    free = _free(image, found)
    labelled = regions or image.with_suffix(".json")
    if not labelled.exists():
        raise UserError(f"{labelled}: there is no such file; label the rooms in {image.name} with labelme, or name it")
    shapes = read_json(labelled, "file of labelme", lambda values: _shapes(values, free.shape))
    return _values(shapes, free, found, where=str(labelled))


def _values(shapes: Sequence[_Shape], free: Any, of: Nav2Map, *, where: str) -> dict[str, Any]:
    rows = free.shape[0]
    around = {one: [other for other in shapes if other is not one and _is_within(one, other)] for one in shapes}
    rooms = [
        DrawnRoom(
            one.label, [_in_metres(corner, rows, of) for corner in one.outline], _in_metres(_stand(one, free), rows, of)
        )
        for one in shapes
        if not around[one]
    ]
    things = []
    for one in (one for one in shapes if around[one]):
        (x, y), (width, height) = box_of(one.outline)
        mx, my = _in_metres((x, y), rows, of)
        size = (width * of.resolution, height * of.resolution, HEIGHT)
        known = frozenset({"SURFACES"}) if max(size[:2]) <= 0.5 else frozenset()
        things.append(DrawnThing(one.label, (mx, my, 0.0), size, of.origin[2], known))
    return map_values(rooms, things, where=where)


def _free(path: Path, of: Nav2Map) -> Any:
    """Return where the map's image is free, by rows from the top."""
    import numpy as np

    try:
        with opened(path, READ_FORMS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise UserError(f"{path}: has {image.width} x {image.height} pixels, more than {_MOST_PIXELS}")
            pixels = np.asarray(image.convert("L"), dtype=float) / 255.0
    except UserError:
        raise
    except Exception as error:  # of a damaged image, whatever its decoder raises
        raise UserError(
            f"{path}: is no image of a map: {' '.join(str(error).split()) or type(error).__name__}"
        ) from None
    occupied = pixels if of.negate else 1.0 - pixels
    return occupied <= of.free_thresh


def _shapes(values: Any, size: tuple[int, int]) -> list[_Shape]:
    if not isinstance(values, dict) or not isinstance(values.get("shapes"), list):
        raise ValueError("it has no shapes")
    height, width = values.get("imageHeight", size[0]), values.get("imageWidth", size[1])
    if (height, width) != size:
        raise ValueError(
            f"it is of an image of {shown(width)} x {shown(height)} pixels, the map's has {size[1]} x {size[0]}"
        )
    found = []
    for one in values["shapes"]:
        kind = one.get("shape_type", "polygon")
        if kind not in _SHAPES:
            continue
        points = [(float(x), float(y)) for x, y in one["points"]]
        if not all(math.isfinite(number) for point in points for number in point):
            raise ValueError(f"{shown(one['points'])} are no points")
        if kind == "rectangle":
            (ax, ay), (bx, by) = points
            points = [(ax, ay), (bx, ay), (bx, by), (ax, by)]
        label = word_of(str(one["label"]))
        if len(points) < 3 or not label:
            raise ValueError(f"{shown(one['label'])} is no region with a name")
        found.append(_Shape(_called(str(one["label"]), label), tuple(points), one.get("group_id")))
    if not found:
        raise ValueError("no polygon or rectangle is labelled")
    return found


def _called(said: str, word: str) -> str:
    """Return a label as a name; one with a number of its own, as `office 204`, keeps it."""
    kept = " ".join(said.replace("_", " ").split())
    return kept if parts_of(kept)[1] and kept.casefold() == word else word


def _is_within(one: _Shape, other: _Shape) -> bool:
    (x, y), _ = box_of(one.outline)
    return surrounds(other.outline, Pose("", x, y)) and _area(other.outline) > _area(one.outline)


def _area(outline: Sequence[Corner]) -> float:
    pairs = zip(outline, (*outline[1:], outline[0]), strict=True)
    return abs(sum(ax * by - bx * ay for (ax, ay), (bx, by) in pairs)) / 2


def _stand(room: _Shape, free: Any) -> Corner:
    """Return the pixel of a room that is free, as far from all that is not as may be; the middle if none is."""
    import numpy as np

    (x, y), (width, height) = box_of(room.outline)
    left, top = max(0, int(x - width / 2)), max(0, int(y - height / 2))
    part = free[top : int(y + height / 2) + 1, left : int(x + width / 2) + 1]
    rows, columns = np.mgrid[: part.shape[0], : part.shape[1]]
    inside = np.zeros(part.shape, dtype=bool)
    for (ax, ay), (bx, by) in zip(room.outline, (*room.outline[1:], room.outline[0]), strict=True):
        if ay == by:
            continue
        crosses = (ay > rows + top + 0.5) != (by > rows + top + 0.5)
        inside ^= crosses & (columns + left + 0.5 < (bx - ax) * (rows + top + 0.5 - ay) / (by - ay) + ax)
    left_over = np.pad(part & inside, 1)
    if not left_over.any():
        return x, y
    while True:
        worn = left_over.copy()
        worn[1:-1, 1:-1] &= left_over[:-2, 1:-1] & left_over[2:, 1:-1] & left_over[1:-1, :-2] & left_over[1:-1, 2:]
        if not worn.any():
            break
        left_over = worn
    ys, xs = np.nonzero(left_over)
    nearest = int(np.argmin((xs - 1 + left - x) ** 2 + (ys - 1 + top - y) ** 2))
    return float(xs[nearest] - 1 + left + 0.5), float(ys[nearest] - 1 + top + 0.5)


def _in_metres(pixel: Corner, rows: int, of: Nav2Map) -> Corner:
    x, y, yaw = of.origin
    right, up = pixel[0] * of.resolution, (rows - pixel[1]) * of.resolution
    return x + right * math.cos(yaw) - up * math.sin(yaw), y + right * math.sin(yaw) + up * math.cos(yaw)
