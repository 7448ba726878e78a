"""Other names of things in a house: nouns that training may use, and others that it never uses."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files

from reactree_ros.household.lexicon import word_set
from reactree_ros.household.vocabulary import CLASSES

#: Nouns by their use, then by the kind of room where such a thing is looked for first.
NOUNS: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    (files(__package__) / "nouns.json").read_text(encoding="utf-8")
)
TAUGHT, KEPT = NOUNS

#: Classes of movable things by the kind of room where such a thing is looked for first; all others: the living room.
_BATHROOM = word_set("barsoap facecream lotionbottle toiletpaper")
_LIVING_ROOM = word_set(
    "book box bucket cellphone clock clothespants clothesshirt folder glasses magazine notes remotecontrol sportsball "
    "teddybear toy"
)
_MOVABLE = tuple(
    name
    for name, known in CLASSES.items()
    if known.observed and "GRABBABLE" in known.properties and not known.room_item
)


def draw_names(rng: random.Random, nouns: str, *, first: Collection[str] = (), share: float = 1.0) -> dict[str, str]:
    """Draw other names for classes of movable things, each of the same kind as the thing.

    Args:
        rng: Draws them.
        nouns: ``taught`` or ``kept``.
        first: Classes that get a name before others do, where there are fewer nouns than classes.
        share: Share of the classes that get one.
    """
    left = {room: rng.sample(names, len(names)) for room, names in NOUNS[nouns].items()}
    named: dict[str, str] = {}
    for name in sorted(_MOVABLE, key=lambda one: one not in first):
        room = "bathroom" if name in _BATHROOM else "living room" if name in _LIVING_ROOM else "kitchen"
        if left[room] and rng.random() < share:
            named[name] = left[room].pop()
    return named
