"""Other names of things in a house: nouns that no class of the vocabulary has.

A house may call its pancakes waffles. Its tasks, its observations and its skills then say waffle, so that the name
has to be taken from the instruction. ``nouns.json`` has the nouns that training may use, and others that it never uses.
"""

from __future__ import annotations

import json
import random
import re
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


class Naming:
    """Translates texts between the vocabulary's words and the names in a house.

    Args:
        names: The names, by class; other classes have their own word.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        words = {known.word: names.get(name, known.word) for name, known in CLASSES.items()}
        self._to_names = _Table(words) if names else None
        self._to_words = _Table({name: word for word, name in words.items()}) if names else None

    def with_names(self, text: str) -> str:
        """Return a text of the vocabulary's words with the house's names."""
        return self._to_names.applied_to(text) if self._to_names else text

    def with_words(self, text: str) -> str:
        """Return a text of the house's names with the vocabulary's words."""
        return self._to_words.applied_to(text) if self._to_words else text


class _Table:
    """Replaces whole words, the longest first: ``wine glass`` is not about ``wine``."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        any_of = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        self._pattern = re.compile(rf"\b(?:{any_of})\b")

    def applied_to(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._words[match[0]], text)
