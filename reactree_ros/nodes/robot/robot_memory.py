"""What a robot has seen is kept from start to start: its detections feed the kept map of the house."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from reactree_ros.background.pending import Pending
from reactree_ros.memory.house_map import LIKELY, HouseMap
from reactree_ros.memory.house_store import Place
from reactree_ros.robot.house import Item, MapThing
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap

#: Time between two equal warnings, in seconds.
WARNING_PERIOD = 10.0
#: After this time a thing that is still where it was is told again, and what is believed is looked up anew, in seconds.
TOLD_AGAIN, ASKED_AGAIN = 30.0, 30.0


class KeptSightings:
    """Tells a kept map what a robot detects, takes and misses; nothing of it waits for a disk but :meth:`recollect`."""

    def __init__(self, house_map: HouseMap, robot: str, warn: Callable[..., object]) -> None:
        self._map, self._robot, self._warn = house_map, robot, warn
        self._sent: dict[str, tuple[Place | None, float]] = {}  # by name: where, and when; nowhere: it is held
        self._asked = float("-inf")
        self.believed: Collection[str] = ()

    def recollect(self, map: SemanticMap, now: float) -> None:
        """Put what is known on a new semantic map; waits for the disk, as where a robot starts."""
        for belief in self._map.beliefs():
            if belief.sure < LIKELY:
                continue
            thing, place = belief.thing, belief.spot.place
            pose = None if place.pose is None else Pose(map.frame, *place.pose)
            map.recollect(*(thing.name, thing.word, thing.number), place=place.name, pose=pose, own=thing.own, now=now)

    def look(self, map: SemanticMap, now: float) -> None:
        """Tell what has changed; to be called regularly."""
        seen: Iterable[Any] = [*map.items(), *(person for person in map.persons if person.seen is not None)]
        for thing in seen:
            if thing.id in map.held:
                self._tell(thing, None, now)
            elif thing.seen is not None and thing.pose is not None:
                place, room = map.place_of(thing), map.room_of(thing)
                at = Place(
                    place.name if place is not None else map.borne.get(thing.id, ""),
                    "" if room is None else room.name,
                    tuple(round(one, 2) for one in (thing.pose.x, thing.pose.y, thing.pose.z)),
                )
                self._tell(thing, at, now)
            elif (bearer := map.borne.get(thing.id)) is not None:
                self._tell(thing, Place(bearer), now)
        if now - self._asked >= ASKED_AGAIN or now < self._asked:
            self._asked = now
            self._do(self._map.beliefs).add_done_callback(self._take_beliefs)

    def missed(self, items: Iterable[Item]) -> None:
        """Tell that things were looked for and are not where they were taken to be."""
        for item in items:
            self._sent.pop(item.name, None)
            self._do(lambda name=item.name: self._map.missed(name))  # type: ignore[misc]

    def _tell(self, thing: MapThing, at: Place | None, now: float) -> None:
        before, when = self._sent.get(thing.name, (None, float("-inf")))
        same = thing.name in self._sent and _same(before, at)
        if same and 0 <= now - when < TOLD_AGAIN:
            return
        self._sent[thing.name] = at, now
        if at is None:
            if not same:
                self._do(lambda: self._map.taken(thing.name, self._robot))
            return
        named, sure = (thing.name, thing.word, thing.number), getattr(thing, "score", 1.0)
        own = thing.own if getattr(thing, "tracked", False) else ""
        self._do(lambda: self._map.found(*named, at, sure=sure, robot=self._robot, own=own))

    def _do(self, work: Callable[[], Any]) -> Pending[Any]:
        done = self._map.do(work)
        done.add_done_callback(lambda one: None if one.cancelled() else self._look_for_trouble(one.exception()))
        return done

    def _look_for_trouble(self, error: BaseException | None) -> None:
        if error is not None:
            self._warn(f"what is seen is not kept: {error}", throttle_duration_sec=WARNING_PERIOD)

    def _take_beliefs(self, done: Any) -> None:
        if not done.cancelled() and done.exception() is None:
            self.believed = frozenset(one.thing.name for one in done.result() if one.sure >= LIKELY)


def _same(before: Place | None, now: Place | None) -> bool:
    """Whether a thing is where it was: in or on the same, or on the floor less than half a metre away."""
    if before is None or now is None:
        return before is now
    if before.key != now.key:
        return False
    if now.name or before.pose is None or now.pose is None:
        return True
    return sum((one - other) ** 2 for one, other in zip(before.pose, now.pose, strict=True)) < 0.25
