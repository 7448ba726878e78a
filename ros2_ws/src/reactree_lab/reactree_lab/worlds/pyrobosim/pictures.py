"""A world of pyrobosim as pictures: the whole floor from above, and what the robot has before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from reactree_lab.worlds.pyrobosim.scene import HouseScene, HouseThing
from reactree_ros.agent.picture import Picture
from reactree_ros.household.pictures import ABOVE, OWN
from reactree_ros.world.drawing import HAND, WIDTH, Piece, Point, drawn

#: Pixels of a metre in the robot's own picture, and the side of a thing in either picture.
_SCALE, _SIDES = 100.0, {OWN: 36.0, ABOVE: 16.0}
_ROBOT = ((0.9, 0.0), (-0.6, 0.6), (-0.6, -0.6))  # its corners, in metres, before it turns: larger than it is

#: From metres on the floor to pixels.
_Projection = Callable[[Point], Point]


def drawn_floor(scene: HouseScene, truth: Mapping[str, str], *, camera: str) -> Picture:
    """Draw the floor with what is where in truth, but for what is in something closed."""
    at = _from_above(scene) if camera == ABOVE else _before(scene)
    rooms = [Piece("", 0, tuple(map(at, room.outline))) for room in scene.rooms if isinstance(room, HouseThing)]
    places = [one for one in scene.own.values() if one.outline and not one.is_room]
    pieces = [*rooms, *(Piece(one.word, one.number, tuple(map(at, one.outline))) for one in places)]
    if camera == ABOVE and scene.pose is not None:
        pieces.append(Piece("robot", 0, tuple(map(at, _turned(scene.pose)))))
    for place in places:
        if "CLOSED" not in place.states:
            lying = [scene.own[thing] for thing, where in truth.items() if where == place.own]
            pieces += _lying(lying, at((place.middle[0], place.middle[1])), _SIDES[camera])
    held = [(scene.things[id].word, scene.things[id].number) for id in scene.held]
    shown = [piece for piece in pieces if _is_shown(piece)]
    return drawn(shown, held, camera=camera, title=f"{scene.agent_room.name}, {camera}")


def _from_above(scene: HouseScene) -> _Projection:
    corners = [corner for room in scene.rooms if isinstance(room, HouseThing) for corner in room.outline]
    (left, right), (low, high) = ((min(side), max(side)) for side in zip(*corners, strict=True))
    scale = min((WIDTH - 8) / (right - left), (HAND - 24) / (high - low))
    return lambda point: (4 + (point[0] - left) * scale, 20 + (high - point[1]) * scale)


def _before(scene: HouseScene) -> _Projection:
    x, y, yaw = scene.pose or (0.0, 0.0, 0.0)

    def at(point: Point) -> Point:
        along = math.cos(yaw) * (point[0] - x) + math.sin(yaw) * (point[1] - y)
        aside = math.cos(yaw) * (point[1] - y) - math.sin(yaw) * (point[0] - x)
        return WIDTH / 2 - _SCALE * aside, 0.6 * HAND - _SCALE * along

    return at


def _turned(pose: tuple[float, float, float]) -> Iterable[Point]:
    x, y, yaw = pose
    for ahead, left in _ROBOT:
        yield x + math.cos(yaw) * ahead - math.sin(yaw) * left, y + math.sin(yaw) * ahead + math.cos(yaw) * left


def _lying(things: Sequence[HouseThing], middle: Point, side: float) -> Iterable[Piece]:
    """Yield things at a place side by side, four in a row, so that each can be seen."""
    for number, thing in enumerate(things):
        column, row = number % 4 - min(len(things) - 1, 3) / 2, number // 4
        at = (middle[0] + (side + 2) * column, middle[1] + (side + 2) * row)
        yield Piece.square(thing.word, thing.number, at, side)


def _is_shown(piece: Piece) -> bool:
    """Return whether a piece is in the picture; a floor may go on beyond it."""
    inside = [0 <= x < WIDTH and 0 <= y < HAND for x, y in piece.outline]
    return any(inside) if not piece.word else all(inside)
