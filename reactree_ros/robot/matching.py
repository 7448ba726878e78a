"""Which object on the map each detection is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reactree_ros.robot.house import House, Item
from reactree_ros.robot.poses import Pose


@dataclass(frozen=True)
class Detection:
    word: str  # its class in words
    pose: Pose  # where, in the map's frame
    own: str = ""  # the robot's own name for it; empty: it has none
    score: float = 1.0  # how certain it is, 0 to 1


def matched(house: House, word: str, found: list[Detection]) -> Iterator[tuple[Detection, Item | None]]:
    """Yield every detection of a word with the object that it is, None: a new one.

    By the detector's own name, by where what is taken to be held lay, or the nearest ones first.
    """
    free, left = {item for item in house.items() if item.word == word}, dict(enumerate(found))
    held = {item for item in free if item.id in house.held}
    for index, item in (*_known_again(left, free), *_not_taken(house, left, held)):
        free.discard(item)
        yield left.pop(index), item
    free -= held
    for index, item in _nearest(house, left, free):
        free.remove(item)
        yield left.pop(index), item
    for detection in left.values():
        place = house.receptacle_at(detection.pose)
        unseen = sorted((i for i in free if i.seen is None and not i.tracked), key=lambda i: i.id)
        there = [i for i in unseen if place is not None and house.place_of(i) is place]
        lost = [i for i in unseen if i.pose is None and house.place_of(i) is None]  # a person had it, or nobody knew
        if unseen := there or lost:
            free.remove(unseen[0])
            yield detection, unseen[0]
        elif not (house.in_hand(detection.pose) and any(not (detection.own and one.tracked) for one in held)):
            yield detection, None


def _known_again(found: Mapping[int, Detection], items: Iterable[Item]) -> list[tuple[int, Item]]:
    by_own = {item.own: item for item in items if item.tracked}
    return [(index, by_own[one.own]) for index, one in found.items() if one.own in by_own]


def _not_taken(house: House, found: Mapping[int, Detection], held: Iterable[Item]) -> list[tuple[int, Item]]:
    lying = {
        index: item
        for item in held
        if not item.tracked
        for index, one in found.items()
        if not one.own and _lies_where_it_lay(house, item, one)
    }
    return [(index, item) for item, index in {item: index for index, item in lying.items()}.items()]  # one each


def _nearest(house: House, found: Mapping[int, Detection], items: Iterable[Item]) -> Iterator[tuple[int, Item]]:
    pairs = sorted(
        (one.pose.distance(item.pose), index, item.id)
        for index, one in found.items()
        for item in items
        if item.pose is not None and not (one.own and item.tracked)
    )
    indices, ids = set[int](), set[int]()
    for distance, index, id in pairs:
        item = house.things[id]
        near = distance <= house.document.objects.same_within
        if near and index not in indices and id not in ids and isinstance(item, Item):
            indices.add(index)
            ids.add(id)
            yield index, item


def _lies_where_it_lay(house: House, item: Item, detection: Detection) -> bool:
    within = house.document.objects.still_within
    return item.taken_from is not None and item.taken_from.distance(detection.pose) <= within


def lies(house: House, item: Item, detection: Detection) -> bool:
    """Whether something that is taken to be held is detected where it lay, or far from the hand."""
    away = house.robot is not None and not house.in_hand(detection.pose)
    return away or _lies_where_it_lay(house, item, detection)
