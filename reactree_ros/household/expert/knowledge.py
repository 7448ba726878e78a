"""General knowledge about houses: the rooms of things, and the best places to look first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reactree_ros.household.expert.reading import word_of
from reactree_ros.household.vocabulary import own_classes


@dataclass(frozen=True)
class _Habit:
    """Usual places of some kinds of things, the likeliest first, weighed against the cost of a look.

    Attributes:
        places: Places of a quick search. A surface shows its things at once, a container has to be opened, and there
            are many kitchen cabinets.
    """

    things: frozenset[str]  # words of the vocabulary; other words follow the last habit
    rooms: tuple[str, ...]  # kinds of rooms
    places: tuple[str, ...]


_KITCHEN_PLACES = (
    "kitchen table",
    "coffee table",
    "fridge",
    "kitchen counter",
    "cabinet",
    "desk",
    "dishwasher",
    "kitchen cabinet",
    "kitchen cabinets",
    "bench",
    "stove",
    "microwave oven",
    "nightstand",
    "bookshelf",
    "sofa",
    "bed",
    "bathroom counter",
    "bathroom cabinet",
)
_KITCHEN_ROOMS = ("kitchen", "living room", "bedroom", "bathroom")

_HABITS = (
    _Habit(
        things=frozenset(
            {"bar soap", "face cream", "lotion bottle", "toilet paper", "toothbrush", "toothpaste", "towel"}
        ),
        rooms=("bathroom", "bedroom", "living room", "kitchen"),
        places=(
            "bathroom counter",
            "bathroom cabinet",
            "sink",
            "toilet",
            "towel rack",
            "washing machine",
            "nightstand",
        ),
    ),
    _Habit(
        things=frozenset(
            {"alcohol", "bananas", "bell pepper", "slice of bread", "candy bar", "carrot", "cereal", "chicken"}
            | {"Chinese food", "chips", "chocolate syrup", "crackers", "creamy buns", "cupcake", "cutlets", "juice"}
            | {"lime", "milk", "milkshake", "minced meat", "pancake", "pear", "pie", "plum", "pound cake", "pudding"}
            | {"salad", "salmon", "sundae", "whipped cream", "wine", "apple", "condiment bottle", "condiment shaker"}
            | {"cutlery fork", "cutlery knife", "bowl", "mug", "water glass", "wine glass", "plate", "coffee pot"}
            | {"cooking pot", "frying pan", "cutting board", "dishwashing liquid", "washing sponge", "oven tray"}
        ),
        rooms=_KITCHEN_ROOMS,
        places=_KITCHEN_PLACES,
    ),
    _Habit(
        things=frozenset(),
        rooms=("living room", "bedroom", "kitchen", "bathroom"),
        places=(
            *("coffee table", "desk", "nightstand", "bed", "sofa", "bookshelf", "tv stand", "kitchen table", "cabinet"),
            *("kitchen counter", "bench", "chair", "bathroom counter"),
        ),
    ),
)

# Rooms of furniture and appliances, the likeliest first; others follow the last habit.
_FURNITURE_ROOMS = {
    "bathroom": ("bathroom cabinet", "bathroom counter", "bathtub", "toilet", "towel rack", "washing machine"),
    "bedroom": ("bed", "closet", "nightstand"),
    "kitchen": (
        *("dishwasher", "fridge", "kitchen cabinet", "kitchen cabinets", "kitchen counter", "kitchen table"),
        *("microwave oven", "stove", "toaster", "coffee maker", "sink", "faucet", "garbage can", "bench"),
    ),
    "living room": ("coffee table", "sofa", "tv", "tv stand", "bookshelf", "desk", "computer", "cabinet"),
}

OPENABLE = frozenset(
    {"bathroom cabinet", "cabinet", "dishwasher", "fridge", "kitchen cabinet", "kitchen cabinets", "microwave oven"}
    | {"stove"}
)
"""Places that a search opens. Closets, nightstands, bookshelves and washing machines say "open" and stay closed."""

_WIDE = frozenset({"kitchen table", "coffee table", "kitchen counter", "bed"})
"""Surfaces that show only a part of their things to a neighbour."""

_NO_SPOTS = frozenset({"door", "faucet", "hallway", "light switch", "towel rack", "user"})
"""Nothing is kept on these, and their surroundings are seen from elsewhere."""


def _habit_of(thing: str) -> _Habit:
    return next((habit for habit in _HABITS if thing in habit.things), _HABITS[-1])


def _ranked(names: Iterable[str], order: tuple[str, ...]) -> list[str]:
    """Sort instances by the rank of their word; unranked words come before the last one."""
    return sorted(names, key=lambda name: order.index(word) if (word := word_of(name)) in order else len(order) - 1.5)


def rooms_for(thing: str, rooms: Iterable[str]) -> list[str]:
    """Return rooms in the order of a search for a thing or a piece of furniture."""
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
    return [*(spot for spot in view if spot not in quick and word_of(spot) not in _NO_SPOTS), *quick]


def shown_by_neighbours(spot: str) -> bool:
    """Return whether a spot counts as seen once it was next to the agent."""
    return word_of(spot) not in _WIDE
