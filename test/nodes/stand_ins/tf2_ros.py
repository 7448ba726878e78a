"""What the tests need of `tf2_ros`, where that is not installed: transforms are said, kept, and looked up.

Same names and same answers: `test_stand_ins.py` compares both wherever the real one is.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.time import Time
from tf2_msgs.msg import TFMessage

#: Nanoseconds for which transforms are kept.
KEPT = 10 * 10**9
DEPTH = 100
LATCHED = QoSProfile(depth=DEPTH, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class TransformException(Exception):
    """There is no such transform: a frame is not known, nothing joins the frames, or not at that time."""


class Link(NamedTuple):
    """How a frame lies in its parent: ``turn`` is a quaternion x, y, z, w."""

    parent: str
    at: tuple[float, ...]
    turn: tuple[float, ...]

    def after(self, first: Link) -> Link:
        """Return how what lies in this frame as ``first`` says lies in the parent."""
        moved = rotated(first.at, self.turn)
        return Link(self.parent, tuple(map(sum, zip(self.at, moved, strict=True))), times(self.turn, first.turn))

    def inverted(self, parent: str) -> Link:
        back = conjugate(self.turn)
        return Link(parent, rotated([-one for one in self.at], back), back)

    def towards(self, other: Link, share: float) -> Link:
        at = tuple(a + share * (b - a) for a, b in zip(self.at, other.at, strict=True))
        return Link(self.parent, at, between(self.turn, other.turn, share))


HERE = Link("", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def times(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def conjugate(turn: Sequence[float]) -> tuple[float, ...]:
    return (-turn[0], -turn[1], -turn[2], turn[3])


def rotated(at: Sequence[float], turn: Sequence[float]) -> tuple[float, ...]:
    return times(times(turn, (*at, 0.0)), conjugate(turn))[:3]


def between(a: Sequence[float], b: Sequence[float], share: float) -> tuple[float, ...]:
    """Return the rotation that is a share of the shorter way from one to another."""
    cosine = sum(one * other for one, other in zip(a, b, strict=True))
    angle = math.acos(min(1.0, abs(cosine)))
    if angle < 1e-9:
        return tuple(a)
    sign = math.copysign(1.0, cosine)
    first, second = (math.sin(part * angle) / math.sin(angle) for part in (1 - share, share))
    return tuple(first * one + sign * second * other for one, other in zip(a, b, strict=True))


class Buffer:
    """The transforms that were heard."""

    def __init__(self) -> None:
        self._still: dict[str, Link] = {}
        self._moving: dict[str, list[tuple[int, Link]]] = {}

    def set_transform_static(self, transform: TransformStamped, authority: str) -> None:
        self._still[transform.child_frame_id] = _link(transform)

    def set_transform(self, transform: TransformStamped, authority: str) -> None:
        links = self._moving.setdefault(transform.child_frame_id, [])
        stamp = Time.from_msg(transform.header.stamp).nanoseconds
        bisect.insort(links, (stamp, _link(transform)))
        del links[: bisect.bisect_left(links, (links[-1][0] - KEPT,))]

    def _up(self, frame: str) -> Iterator[tuple[str, str]]:
        """Yield each frame from one to the root, with its parent as far as that is known now."""
        seen = set[str]()
        while frame not in seen:
            seen.add(frame)
            link = self._still.get(frame) or (self._moving[frame][-1][1] if frame in self._moving else HERE)
            yield frame, link.parent
            if not link.parent:
                return
            frame = link.parent

    def _at(self, frame: str, stamp: int) -> Link:
        if frame in self._still:
            return self._still[frame]
        links = self._moving[frame]
        next_one = bisect.bisect_left(links, (stamp,))
        if next_one < len(links) and links[next_one][0] == stamp:
            return links[next_one][1]
        if not 0 < next_one < len(links):
            raise TransformException(f"'{frame}' is known from {links[0][0]} to {links[-1][0]}, not at {stamp}")
        (begin, before), (end, after) = links[next_one - 1 : next_one + 1]
        return before.towards(after, (stamp - begin) / (end - begin))

    def lookup_transform(self, target_frame: str, source_frame: str, time: Time) -> TransformStamped:
        parents = {parent for frame in self._frames() for _, parent in self._up(frame)}
        if unknown := {target_frame, source_frame} - {*self._still, *self._moving, *parents}:
            raise TransformException(f"unknown: {unknown}")
        ways = [[frame for frame, _ in self._up(one)] for one in (target_frame, source_frame)]
        common = next((frame for frame in ways[1] if frame in ways[0]), None)
        if common is None:
            raise TransformException(f"nothing joins '{source_frame}' and '{target_frame}'")
        down, up = (way[: way.index(common)] for way in ways)
        moving = [frame for frame in (*down, *up) if frame not in self._still]
        stamp = time.nanoseconds or min((self._moving[frame][-1][0] for frame in moving), default=0)
        found = self._along(up, stamp)
        if down:
            found = self._along(down, stamp).inverted(target_frame).after(found)
        return _message(found, target_frame, source_frame, stamp)

    def _along(self, way: Sequence[str], stamp: int) -> Link:
        found = HERE
        for frame in way:
            found = self._at(frame, stamp).after(found)
        return found

    def _frames(self) -> list[str]:
        return [*self._still, *(frame for frame in self._moving if frame not in self._still)]

    def all_frames_as_string(self) -> str:
        parents = ((frame, next(self._up(frame))[1]) for frame in self._frames())
        return "".join(f"Frame {frame} exists with parent {parent}.\n" for frame, parent in parents)


def _link(transform: TransformStamped) -> Link:
    at, turn = transform.transform.translation, transform.transform.rotation
    return Link(transform.header.frame_id, (at.x, at.y, at.z), (turn.x, turn.y, turn.z, turn.w))


def _message(link: Link, target: str, source: str, stamp: int) -> TransformStamped:
    message = TransformStamped(child_frame_id=source)
    message.header.frame_id, message.header.stamp = target, Time(nanoseconds=stamp).to_msg()
    at, turn = message.transform.translation, message.transform.rotation
    at.x, at.y, at.z = link.at
    turn.x, turn.y, turn.z, turn.w = link.turn
    return message


class TransformBroadcaster:
    """Says transforms on `/tf`."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(TFMessage, "/tf", DEPTH)

    def sendTransform(self, transform: Any) -> None:
        some = transform if isinstance(transform, list) else [transform]
        self._publisher.publish(TFMessage(transforms=some))


class StaticTransformBroadcaster:
    """Says all transforms that it was given on `/tf_static`, for those who come later, too."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._said: dict[str, TransformStamped] = {}

    def sendTransform(self, transform: Any) -> None:
        for one in transform if isinstance(transform, list) else [transform]:
            self._said[one.child_frame_id] = one
        self._publisher.publish(TFMessage(transforms=list(self._said.values())))
