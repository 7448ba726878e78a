"""The semantic map of a Nav2 map whose regions were labelled: map_server's YAML and image, and a file of labelme.

labelme is a common tool to label images. Its file has the shapes that were drawn on the map's image: a shape around
others, or around nothing, is a room; a shape within another one is a piece of furniture in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat

from reactree_ros.agent.picture import READ_FORMS, opened
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json, shown
from reactree_ros.household.tasks import parts_of
from reactree_ros.plugins.installation import check_modules
from reactree_ros.robot.made_maps import Corner, DrawnRoom, DrawnThing, box_of, map_values, word_of
from reactree_ros.robot.map_file import Document, checked, read_yaml
from reactree_ros.robot.poses import Pose, surrounds

#: How high furniture is taken to be: an image says nothing of it, in metres.
HEIGHT = 0.8
#: The most pixels of an image, so that a small file of a huge image does not fill the memory.
_MOST_PIXELS = 64_000_000
_SHAPES = ("polygon", "rectangle")
#: How dark of 255 the grey is that map_saver writes for what nobody has seen.
_UNSEEN = 255 - 205


def _finite(origin: tuple[float, float, float]) -> tuple[float, float, float]:
    for name, number in zip(("x", "y", "yaw"), origin, strict=True):
        if not math.isfinite(number):
            raise ValueError(f"its {name} is {number}; write x and y in metres and the yaw in radians")
    return origin


class Nav2Map(Document):
    image: str  # the image, relative to the file
    resolution: Annotated[FiniteFloat, Field(gt=0, lt=100)]  # of a pixel, in metres
    # where the lower left pixel is: x, y and yaw
    origin: Annotated[tuple[float, float, float], AfterValidator(_finite)]
    negate: int = 0  # whether dark is free
    occupied_thresh: FiniteFloat = 0.65  # what is at least this much occupied is not a place to stand
    free_thresh: FiniteFloat = 0.196  # what is at most this much occupied is free
    # how the image is read
    mode: Annotated[Literal["trinary", "scale", "raw"], BeforeValidator(lambda said: str(said).lower())] = "trinary"


def map_of_nav2(path: Path, *, regions: Path | None = None) -> dict[str, Any]:
    """Return the values of a semantic map. Raises UserError, in one line: a file cannot be used, or they do not fit.

    The robot stands on free cells only: in a room as far from everything as may be, at furniture as near to it as the
    robot gets. ``regions`` is labelme's file, by default that of the image's name with ``.json``.
    """
    check_modules("--from nav2", "reactree_ros[pictures]", ["PIL"])
    found = checked(Nav2Map, read_yaml(path))
    image = path.parent / found.image
    free = _free(image, found)
    labelled = regions or image.with_suffix(".json")
    if not labelled.exists():
        raise UserError(f"{labelled}: there is no such file; label the rooms in {image.name} with labelme, or name it")
    shapes = read_json(labelled, "file of labelme", lambda values: _shapes(values, free.shape))
    return _values(shapes, free, found, where=str(labelled))


def _values(shapes: Sequence[DrawnRoom], free: Any, of: Nav2Map, *, where: str) -> dict[str, Any]:
    drawn = [one for one in shapes if any(other is not one and _is_within(one, other) for other in shapes)]
    rooms = [_room(one, drawn, free, of, where=where) for one in shapes if one not in drawn]
    things = []
    for one in drawn:
        middle, (width, height) = box_of(one.outline)
        mx, my = _in_metres(middle, free.shape[0], of)
        size = (width * of.resolution, height * of.resolution, HEIGHT)
        known = frozenset({"SURFACES"}) if max(size[:2]) <= 0.5 else frozenset()
        things.append(DrawnThing(one.name, (mx, my, 0.0), size, of.origin[2], known))
    return map_values(rooms, things, where=where)


def _free(path: Path, of: Nav2Map) -> Any:
    # map_saver writes 205 for what nobody has seen. With the threshold of 0.25 that it wrote beside it for years, the
    # same map read again would be free there.
    try:
        with opened(path, READ_FORMS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise UserError(f"{path}: has {image.width} x {image.height} pixels, more than {_MOST_PIXELS}")
            deep = image.mode.startswith("I")  # of 16 bits, which Pillow would cut off at 255
            grey = np.asarray(image) // 257 if deep else np.asarray(image.convert("L"))
            has_alpha = "A" in image.getbands() or "transparency" in image.info
            clear = has_alpha and np.asarray(image.convert("RGBA").getchannel("A")) < 255
    except UserError:
        raise
    except Exception as error:  # of a damaged image, whatever its decoder raises
        raise UserError(
            f"{path}: is not an image of a map: {' '.join(str(error).split()) or type(error).__name__}"
        ) from None
    if of.mode == "raw":
        return grey == 0
    dark = grey if of.negate else 255 - grey
    occupied = dark / np.float32(255)
    free = occupied <= np.float32(of.free_thresh)
    if of.mode == "trinary":
        free &= dark != _UNSEEN
    else:  # of the hundred steps between the thresholds, the first is free, too
        between = of.occupied_thresh - of.free_thresh
        free |= (occupied < of.occupied_thresh) & (100 * (occupied - of.free_thresh) < 0.5 * between)
    return free & ~np.asarray(clear)


def _shapes(values: Any, size: tuple[int, int]) -> list[DrawnRoom]:
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
            raise ValueError(f"{shown(one['points'])} are not points")
        if kind == "rectangle":
            (ax, ay), (bx, by) = points
            points = [(ax, ay), (bx, ay), (bx, by), (ax, by)]
        label = word_of(str(one["label"]))
        if len(points) < 3 or not label:
            raise ValueError(f"{shown(one['label'])} is not a region with a name")
        found.append(DrawnRoom(_called(str(one["label"]), label), points))
    if not found:
        raise ValueError("no polygon or rectangle is labelled")
    return found


def _called(said: str, word: str) -> str:
    kept = " ".join(said.replace("_", " ").split())
    return kept if parts_of(kept)[1] and kept.casefold() == word else word


def _is_within(one: DrawnRoom, other: DrawnRoom) -> bool:
    (x, y), _ = box_of(one.outline)
    return surrounds(other.outline, Pose("", x, y)) and _area(other.outline) > _area(one.outline)


def _area(outline: Sequence[Corner]) -> float:
    pairs = zip(outline, (*outline[1:], outline[0]), strict=True)
    return abs(sum(ax * by - bx * ay for (ax, ay), (bx, by) in pairs)) / 2


def _room(room: DrawnRoom, furniture: Sequence[DrawnRoom], free: Any, of: Nav2Map, *, where: str) -> DrawnRoom:
    rows = free.shape[0]
    (x, y), (width, height) = box_of(room.outline)
    left, top, right, bottom = (
        max(0, int(side)) for side in (x - width / 2, y - height / 2, x + width / 2 + 1, y + height / 2 + 1)
    )
    part = free[top:bottom, left:right]
    ys, xs = np.mgrid[: part.shape[0], : part.shape[1]] + np.array([top + 0.5, left + 0.5]).reshape(2, 1, 1)
    ground = part & _inside(room.outline, xs, ys)
    for one in furniture:
        ground &= ~_inside(one.outline, xs, ys)
    if not ground.any():
        raise UserError(
            f"{where}: '{room.name}': no cell of {of.image} in it is free, and the robot has to stand somewhere; "
            "draw it around free cells, or leave it out"
        )
    known_x, known_y = _in_metres((xs[ground], ys[ground]), rows, of)

    def nearest(at: Corner) -> Corner:
        found = int(np.argmin((known_x - at[0]) ** 2 + (known_y - at[1]) ** 2))
        return float(known_x[found]), float(known_y[found])

    widest = _widest(ground)
    found = int(np.argmin(np.where(widest, (xs - x) ** 2 + (ys - y) ** 2, np.inf)))
    stand = _in_metres((float(xs.flat[found]), float(ys.flat[found])), rows, of)
    return DrawnRoom(room.name, [_in_metres(one, rows, of) for one in room.outline], stand, ground=nearest)


def _inside(outline: Sequence[Corner], xs: Any, ys: Any) -> Any:
    inside = xs != xs
    for (ax, ay), (bx, by) in zip(outline, (*outline[1:], outline[0]), strict=True):
        if ay != by:
            inside ^= ((ay > ys) != (by > ys)) & (xs < (bx - ax) * (ys - ay) / (by - ay) + ax)
    return inside


def _widest(ground: Any) -> Any:
    left = np.pad(ground, 1)
    while True:
        worn = left.copy()
        worn[1:-1, 1:-1] &= left[:-2, 1:-1] & left[2:, 1:-1] & left[1:-1, :-2] & left[1:-1, 2:]
        if not worn.any():
            return left[1:-1, 1:-1]
        left = worn


def _in_metres(pixel: Any, rows: int, of: Nav2Map) -> Any:
    x, y, yaw = of.origin
    right, up = pixel[0] * of.resolution, (rows - pixel[1]) * of.resolution
    return x + right * math.cos(yaw) - up * math.sin(yaw), y + right * math.sin(yaw) + up * math.cos(yaw)
