"""General knowledge about houses: the rooms of things, and the best places to look first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reactree_ros.household.expert.reading import word_of
from reactree_ros.household.expert.words import TABLES
from reactree_ros.household.vocabulary import own_classes


class _Habit(NamedTuple):
    """Usual rooms and places of some kinds of things, the likeliest first, weighed against the cost of a look.

    A surface shows its things at once, a container has to be opened, and there are many kitchen cabinets.
    """

    things: Sequence[str]  # words of the vocabulary; other words follow the last habit
    rooms: Sequence[str]  # kinds of rooms
    places: Sequence[str]  # those of a quick search


_HABITS = [_Habit(**habit) for habit in TABLES["habits"]]
#: Rooms of furniture and appliances, the likeliest first; others follow the last habit.
_FURNITURE_ROOMS: Mapping[str, Sequence[str]] = TABLES["furniture"]
#: ``openable`` places are opened by a search: closets, nightstands, bookshelves, washing machines say "open" and stay
#: closed. ``wide`` surfaces show only a part of their things to a neighbour. Nothing is kept on ``no_spots``.
SEARCHED: Mapping[str, Sequence[str]] = TABLES["searched"]


def _habit_of(thing: str) -> _Habit:
    return next((habit for habit in _HABITS if thing in habit.things), _HABITS[-1])


def _ranked(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """Sort instances by the rank of their word; unranked words come before the last one."""
    return sorted(names, key=lambda name: order.index(word) if (word := word_of(name)) in order else len(order) - 1.5)


def rooms_for(thing: str, rooms: Iterable[str]) -> list[str]:
    for room, furniture in _FURNITURE_ROOMS.items():
        if thing in furniture:
            others = tuple(other for other in ("kitchen", "living room", "bedroom", "bathroom") if other != room)
            return _ranked(rooms, (room, *others))
    return _ranked(rooms, _habit_of(thing).rooms)


def quick_spots(thing: str, view: Iterable[str]) -> list[str]:
    """Return the spots of a room's view for a quick search for a thing, the best first."""
    places = _habit_of(thing).places
    own = {one.word for one in own_classes() if one.room_item}
    return _ranked((spot for spot in view if word_of(spot) in places or word_of(spot) in own), places)


def all_spots(thing: str, view: Iterable[str]) -> list[str]:
    """Return all spots of a room for a closer search, those outside of a quick search first."""
    quick = quick_spots(thing, view)
    return [*(spot for spot in view if spot not in quick and word_of(spot) not in SEARCHED["no_spots"]), *quick]


def shown_by_neighbours(spot: str) -> bool:
    """Return whether a spot counts as seen once it was next to the agent."""
    return word_of(spot) not in SEARCHED["wide"]
