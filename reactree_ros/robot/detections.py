"""What is detected: which object on the map each detection is, when it was seen, and what a detector is asked for."""

from __future__ import annotations

import re
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reactree_ros.agent.text import names, words
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


#: By how many detections the other clock is judged.
RECENT = 20


class Stamps:
    """Measures how far the clock of somebody who stamps messages may be ahead of ours, by when they were heard.

    Nothing is heard before it was stamped. So where stamps come from the future, their clock is ahead, or ours lags as
    under load. How much these offsets differ among themselves is part of the margin: the next one may be as different.
    The greatest one alone counts for nothing, so that a single stamp from far in the future does not.
    """

    def __init__(self) -> None:
        self._ahead: deque[float] = deque(maxlen=RECENT)

    def heard(self, stamp: float, now: float) -> None:
        self._ahead.append(stamp - now)

    @property
    def margin(self) -> float:
        """How much later than by our clock something may be stamped, in seconds."""
        if not self._ahead:
            return 0.0
        most = sorted(self._ahead)[-2:][0]
        return max(0.0, most) + most - min(most, statistics.median(self._ahead))

    def ours(self, stamp: float, heard_at: float) -> float:
        """Return a time by our clock at which something that was heard then was there already, in seconds."""
        return min(heard_at, stamp - self.margin)

    def forget(self) -> None:
        """Forget what was measured: our clock was set."""
        self._ahead.clear()


#: The most names of one prompt, and of a name the most words.
MOST_NAMES, _MOST_WORDS = 100, 4
_BEFORE = words(
    "a an the my your his her its our their this that these those some any all both every each another of one two "
    "three four five six seven eight nine ten"
)
_BETWEEN = words(
    "i me you he she it we they him them us who which what where when if so as than not no yes please then and or but "
    "to from in into on onto at by with without for near next under over behind before after between up down off out "
    "back is are was were be been has have had do does did can could will would should may must there here again now "
    "thing things something anything everything everyone someone nobody"
)
_PARTS = re.compile(r"[^\W\d_][\w'-]*|\d+|[^\w\s]")


def named_in(goal: str, known: Iterable[str] = ()) -> list[str]:
    """Return what a goal names, as it stands there: what follows an article, a number or the like.

    Without any of these, every run of words is one but for the verb at the start. What the map has as a room, a place
    or a person is none.

    Args:
        known: The names of rooms, places and persons.
    """
    for name in sorted(known, key=len, reverse=True):
        if names(goal, name):
            goal = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " , ", goal, flags=re.IGNORECASE)
    runs: list[tuple[bool, list[str]]] = [(False, [])]
    for number, part in enumerate(_PARTS.findall(goal)):
        word = part.casefold()
        if word in _BEFORE or part.isdigit():
            runs.append((True, []))
        elif word in _BETWEEN or not part[0].isalpha():
            runs.append((False, []))
        elif number:  # the first word is what is to be done
            runs[-1][1].append(part)
    found = [(follows, " ".join(run[:_MOST_WORDS])) for follows, run in runs if run]
    named = [run for follows, run in found if follows] or [run for _, run in found]
    return list(dict.fromkeys(named))[:MOST_NAMES]
