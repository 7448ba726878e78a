"""Where something is: a position and an orientation in a frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pose:
    """A pose, or, if it says how one frame lies in another, a transform."""

    frame: str  # frame that it is given in
    x: float  # in metres, like ``y`` and ``z``
    y: float  # see ``x``
    z: float = 0.0  # upwards
    orientation: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)  # unit quaternion x, y, z, w

    @classmethod
    def upright(cls, frame: str, x: float, y: float, z: float = 0.0, *, yaw: float = 0.0) -> Pose:
        return cls(frame, x, y, z, (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)))

    @property
    def yaw(self) -> float:
        """Angle about the vertical axis, in radians."""
        x, y, z, w = self.orientation
        return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))

    def distance(self, other: Pose) -> float:
        return math.dist((self.x, self.y, self.z), (other.x, other.y, other.z))

    def floor_distance(self, other: Pose) -> float:
        """Return the distance as seen from above, in metres."""
        return math.hypot(self.x - other.x, self.y - other.y)

    def seen_from_above(self, other: Pose) -> tuple[float, float]:
        """Return where another position in the same frame is, ahead of this pose and to its left, in metres."""
        dx, dy, turn = other.x - self.x, other.y - self.y, -self.yaw
        return dx * math.cos(turn) - dy * math.sin(turn), dx * math.sin(turn) + dy * math.cos(turn)

    def placed(self, inner: Pose) -> Pose:
        """Return a pose that is given in this one's axes in the frame that this one is given in."""
        x, y, z = _rotated(self.orientation, (inner.x, inner.y, inner.z))
        orientation = _product(self.orientation, inner.orientation)
        return Pose(self.frame, self.x + x, self.y + y, self.z + z, orientation)


def surrounds(outline: Sequence[tuple[float, float]], pose: Pose) -> bool:
    """Whether a position is inside an outline on the floor, whose corners are given in the same frame, in order."""
    inside = False
    for (ax, ay), (bx, by) in zip(outline, (*outline[1:], outline[0]), strict=True):
        if (ay > pose.y) != (by > pose.y) and pose.x < (bx - ax) * (pose.y - ay) / (by - ay) + ax:
            inside = not inside
    return inside


def _product(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    ax, ay, az, aw = one
    bx, by, bz, bw = other
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def _rotated(
    orientation: tuple[float, float, float, float], point: tuple[float, float, float]
) -> tuple[float, float, float]:
    x, y, z, w = orientation
    turned = _product(_product(orientation, (*point, 0.0)), (-x, -y, -z, w))
    return turned[:3]
