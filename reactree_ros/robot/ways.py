"""Ways from room to room: by doors, stairs and elevators, each with what it costs and the skills that pass it."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reactree_ros.robot.map_file import ConnectionEntry, MapDocument


@dataclass(frozen=True)
class Passage:
    """A connection, passed from one of its rooms to the other."""

    to: str  # the room that it leads to
    by: str  # the door or the elevator on this side; empty: it has none
    cost: float  # what it costs, in seconds
    skills: tuple[str, ...]  # the skills that pass it, in order


class Ways:
    """The connections of a map.

    Where a map has none, or a room is in none of them, nobody says how it is reached: then it is reached freely.
    """

    def __init__(self, document: MapDocument) -> None:
        floors = {room.name: room.floor for room in document.rooms}
        self._from: dict[str, list[Passage]] = defaultdict(list)
        for one in document.connections:
            for side in (0, 1):
                self._from[one.between[side]].append(_passage(one, side, floors[one.between[1 - side]]))

    def shortest(self, start: str, to: str) -> Sequence[Passage] | None:
        """Return the cheapest way from room to room; nothing if nobody says how; None: there is no way."""
        if start == to or not (start in self._from and to in self._from):
            return ()
        waiting: list[tuple[float, int, str, tuple[Passage, ...]]] = [(0.0, 0, start, ())]
        been, count = set[str](), 0
        while waiting:
            cost, _, room, way = heapq.heappop(waiting)
            if room == to:
                return way
            if room in been:
                continue
            been.add(room)
            for passage in self._from[room]:
                count += 1
                heapq.heappush(waiting, (cost + passage.cost, count, passage.to, (*way, passage)))
        return None

    def leaving(self, room: str) -> Iterator[Passage]:
        yield from self._from.get(room, ())


def _passage(one: ConnectionEntry, side: int, floor: int | None) -> Passage:
    by, to = one.sides[side], one.between[1 - side]
    skills = tuple(text.format(by=by, to=to, floor="" if floor is None else floor) for text in one.pass_)
    return Passage(to, by, one.cost, skills)
