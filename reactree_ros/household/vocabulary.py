"""The classes of VirtualHome: their words, the actions that they allow, and where they may be listed.

``vocabulary.json`` has one line per group of classes that share a category, properties and how they appear (observed,
room item). A class is written as its word ("kitchen cabinet"). Its name is the word without spaces in lower case,
unless another name follows ("bowl=dishbowl").
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ObjectClass:
    """A class of things."""

    name: str  # in a scene graph, e.g. ``dishbowl``
    word: str  # in text, e.g. ``bowl``; no two classes share one
    category: str  # of its nodes, e.g. ``Placable`` (the simulator's spelling)
    properties: frozenset[str]  # of GRABBABLE, SURFACES, CONTAINERS, CAN_OPEN, HAS_SWITCH and SITTABLE
    observed: bool  # whether an observation may list it; the authors' leave out walls, lamps, decor and more
    room_item: bool  # whether it counts as furniture in the quick look around a room, if it is observed


_TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("vocabulary.json").read_text(encoding="utf-8"))
_PROPERTIES: dict[str, str] = _TABLES["properties"]  # by the letter that stands for one in the table


def _read() -> Iterator[ObjectClass]:
    for category, letters, appearance, entries in _TABLES["classes"]:
        observed, room_item = _TABLES["appearances"][appearance]
        for entry in entries.split(", "):
            word, _, name = entry.partition("=")
            yield ObjectClass(
                name=name or word.replace(" ", "").lower(),
                word=word,
                category=category,
                properties=frozenset(_PROPERTIES[letter] for letter in letters),
                observed=observed,
                room_item=room_item,
            )


CLASSES: Mapping[str, ObjectClass] = MappingProxyType(
    {entry.name: entry for entry in sorted(_read(), key=lambda entry: entry.name)}
)
"""Every class by its name, in alphabetical order."""

_BUILDING = ("Ceiling", "Floor", "Walls", "Windows", "Characters")
WORDS: tuple[str, ...] = tuple(entry.word for entry in CLASSES.values() if entry.category not in _BUILDING)
"""The words of what something can be done with, in alphabetical order of the class names: no floor and no wall."""

RECALLABLE: tuple[str, ...] = tuple(entry.word for entry in CLASSES.values() if "GRABBABLE" in entry.properties)
"""The words that ``recall location of X`` takes, in alphabetical order of their class names."""

OPERATED: tuple[str, ...] = tuple(
    entry.word
    for entry in CLASSES.values()
    if "GRABBABLE" not in entry.properties and not entry.properties.isdisjoint({"CAN_OPEN", "HAS_SWITCH"})
)
"""The words of things that are opened or switched in place, in alphabetical order of their class names."""

NEVER_OPEN = frozenset({"book", "bookshelf", "closet", "folder", "milk", "nightstand", "washingmachine"})
"""Classes that the simulator reports as opened, but that stay closed."""

_BY_WORD = {entry.word: entry for entry in CLASSES.values()}
_HOLD = frozenset({"SURFACES", "CONTAINERS"})


class Use(enum.Enum):
    """What a class's word is for in a description of a house, in the order in which people ask."""

    RECEPTACLE = "a receptacle"
    APPLIANCE = "an appliance, opened or switched in place"
    OBJECT = "an object"
    NOTHING = "nothing can be done with it"
    ROOM = "a room"


def word_groups() -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return every word of the vocabulary except the person's, grouped by the actions that they allow.

    A group is the use, the properties in the table's order, without SITTABLE, which no skill uses, and the words.
    """
    groups: dict[tuple[Use, tuple[str, ...]], list[str]] = {}
    for entry in CLASSES.values():
        if entry.category != "Characters":
            can = tuple(one for one in _PROPERTIES.values() if one in entry.properties and one != "SITTABLE")
            groups.setdefault((_use(entry), can), []).append(entry.word)
    order = list(Use)
    found = sorted(groups.items(), key=lambda one: (order.index(one[0][0]), one[0][1]))
    return [(use.value, can, tuple(sorted(words))) for (use, can), words in found]


def _use(entry: ObjectClass) -> Use:
    if entry.category == "Rooms":
        return Use.ROOM
    if "GRABBABLE" in entry.properties:
        return Use.OBJECT
    if entry.properties & _HOLD:
        return Use.RECEPTACLE
    return Use.APPLIANCE if entry.properties & {"CAN_OPEN", "HAS_SWITCH"} else Use.NOTHING


_OWN: ContextVar[tuple[ObjectClass, ...]] = ContextVar("_OWN", default=())


@contextmanager
def with_own(classes: tuple[ObjectClass, ...]) -> Iterator[None]:
    """Know the classes of one house, too, that the table does not have, as long as this lasts."""
    before = _OWN.set(classes)
    try:
        yield
    finally:
        _OWN.reset(before)


def own_classes() -> tuple[ObjectClass, ...]:
    return _OWN.get()


def _find(word: str) -> ObjectClass | None:
    return next((one for one in _OWN.get() if one.word == word), None) or _BY_WORD.get(word)


def properties_of_word(word: str) -> frozenset[str]:
    """Return the properties of the class with this word; none for unknown words."""
    known = _find(word)
    return frozenset() if known is None else known.properties


def can_be_held(word: str) -> bool:
    return "GRABBABLE" in properties_of_word(word)


def is_known(word: str) -> bool:
    return _find(word) is not None


def class_of_word(word: str) -> ObjectClass:
    """Return the class with this word of observations, e.g. ``kitchen cabinet``.

    Raises:
        ValueError: No class has this word.
    """
    if (known := _find(word)) is None:
        raise ValueError(f"no class is called {word!r}; `reactree list words` lists all words")
    return known


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
    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        any_of = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        self._pattern = re.compile(rf"\b(?:{any_of})\b")

    def applied_to(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._words[match[0]], text)
