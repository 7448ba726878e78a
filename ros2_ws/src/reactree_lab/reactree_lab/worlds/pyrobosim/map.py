"""The semantic map of a world of pyrobosim, made from its world file by pyrobosim's own loader."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reactree_lab.worlds.pyrobosim.scene import properties_of
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import check_modules
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.robot.made_maps import rounded
from reactree_ros.robot.map_file import Source, map_of, read_yaml
from reactree_ros.robot.poses import Pose

#: The frame of a world's coordinates.
FRAME = "map"


def map_of_pyrobosim(path: Path, *, robot: str = "") -> dict[str, Any]:
    """Return a semantic map as a document of :class:`reactree_ros.robot.map_file.MapDocument`.

    A receptacle is what things are put on there, an object spawn: the robot stands at one of those and sees what is on
    it. One that is open and locked stays as it is; any other can be opened and closed. Hallways are left out. Raises
    UserError: pyrobosim is not installed or cannot read the world, or the world is not the same at every start.

    Args:
        robot: Name of the robot that starts in the map's first room; empty: the first one.
    """
    check_modules("--from pyrobosim", "pyrobosim", ["pyrobosim"])
    source = read_yaml(path)
    _same_at_every_start(source)
    world, numbers = _loaded(path), Counter[str]()
    rooms = {room.name: _room(room, numbers) for room in world.rooms}
    spawns = [(location, spawn) for location in world.locations for spawn in location.children]
    classes = {category: in_words(category) for category in sorted({one.category for one in world.objects})}
    words = {word: ["GRABBABLE"] for word in classes.values()}
    for location, spawn in spawns:
        word, opens = _word(location, spawn), not (location.is_open and location.is_locked)
        words[word] = sorted({*words.get(word, ()), *properties_of(word, opens=opens)})
    document = {
        "frame": FRAME,
        "start": rooms[_start(world, source, robot)]["name"],
        "rooms": list(rooms.values()),
        "receptacles": [_receptacle(location, spawn, rooms, numbers, words) for location, spawn in spawns],
        "objects": {"classes": classes},
        "words": words,
    }
    map_of(Source(document, str(path)))
    return document


def in_words(name: str) -> str:
    """Return a name of pyrobosim in words, without its number: ``trash_can0`` is a trash can."""
    return " ".join(re.sub(r"[^A-Za-z]+", " ", name).split())


def _same_at_every_start(source: Source) -> None:
    values = source.values if isinstance(source.values, dict) else {}
    if not values.get("rooms"):
        raise UserError(f"{source.at('rooms')}: there are none; is this a world file of pyrobosim?")
    for index, location in enumerate(values.get("locations") or ()):
        if isinstance(location, dict) and not location.get("pose"):
            where = source.at("locations", index)
            raise UserError(f"{where}: it has no pose and is put somewhere else at every start; write a pose")


def _loaded(path: Path) -> Any:
    from pyrobosim.core import WorldYamlLoader

    loader = WorldYamlLoader()
    try:
        return loader.from_file(str(path.resolve()))
    except Exception as error:  # it checks nothing itself
        reason = " ".join(f"{type(error).__name__} {error}".split())
        raise UserError(f"{path}: pyrobosim cannot make this world: {reason}") from error
    finally:
        for robot in getattr(getattr(loader, "world", None), "robots", ()):
            robot.stop_sensor_threads()  # this process would never end


def _start(world: Any, source: Source, robot: str) -> str:
    robots = {one.name: one for one in world.robots}
    if robot and robot not in robots:
        there = f"{', '.join(robots) or 'none'}{or_nearest(robot, robots)}"
        raise UserError(f"{source.at('robots')}: there is no robot '{robot}'; there are {there}")
    if not robots:
        return str(world.rooms[0].name)
    pose = robots[robot or next(iter(robots))].get_pose()
    inside = (room.name for room in world.rooms if room.is_collision_free(pose))
    return str(next(inside, world.rooms[0].name))


def _room(room: Any, numbers: Counter[str]) -> dict[str, Any]:
    stand = (room.nav_poses or [room.pose])[0]
    return {
        "name": _numbered(in_words(room.name) or "room", numbers),
        "own": room.name,
        "pose": _pose(stand),
        "outline": [[rounded(x), rounded(y)] for x, y, *_ in list(room.polygon.exterior.coords)[:-1]],
    }


def _word(location: Any, spawn: Any) -> str:
    part = spawn.name.removeprefix(f"{location.name}_") if len(location.children) > 1 else ""
    return in_words(f"{location.category} {part}")


def _receptacle(
    location: Any, spawn: Any, rooms: Mapping[str, Any], numbers: Counter[str], words: Mapping[str, Any]
) -> dict[str, Any]:
    if not spawn.nav_poses:
        raise UserError(
            f"{spawn.name}: there is no free place where a robot could stand for it; give it other nav_poses"
        )
    word = _word(location, spawn)
    middle, size = _footprint(spawn)
    return {
        "name": _numbered(word, numbers),
        "own": spawn.name,
        "room": rooms[location.parent.name]["name"],
        "pose": {"x": middle.x, "y": middle.y, "yaw": rounded(spawn.pose.get_yaw())},
        "size": [*size, rounded(max(spawn.height or 0.0, 0.01))],
        "approach": _pose(spawn.nav_poses[0]),
        **({"open": True} if location.is_open and "CAN_OPEN" in words[word] else {}),
    }


def _footprint(spawn: Any) -> tuple[Pose, tuple[float, float]]:
    own = Pose.upright(FRAME, spawn.pose.x, spawn.pose.y, yaw=spawn.pose.get_yaw())
    corners = [own.seen_from_above(Pose(FRAME, x, y)) for x, y, *_ in spawn.polygon.exterior.coords]
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*corners, strict=True))
    middle = own.placed(Pose(FRAME, (left + right) / 2, (low + high) / 2))
    size = tuple(max(0.01, rounded(side)) for side in (right - left, high - low))
    return Pose(FRAME, rounded(middle.x), rounded(middle.y)), (size[0], size[1])


def _numbered(word: str, numbers: Counter[str]) -> str:
    numbers[word] += 1
    return f"{word} {numbers[word]}"


def _pose(pose: Any) -> dict[str, float]:
    yaw = rounded(math.remainder(pose.get_yaw(), math.tau))
    return {"x": rounded(pose.x), "y": rounded(pose.y), **({"yaw": yaw} if yaw else {})}
