"""The classes of VirtualHome: their words, the actions that they allow, and where they may be listed.

``vocabulary.json`` has one line per group of classes that share a category, properties and how they appear (observed,
room item). A class is written as its word ("kitchen cabinet"). Its name is the word without spaces in lower case,
unless another name follows ("bowl=dishbowl").

People's words for them are phrases in ``lexicon.json``, looked up without spaces ("dish washer"), a plural as its
singular, and an unknown word as a known one that differs by a single slip. The own words of a house (:func:`with_own`)
come first.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
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


def class_in_graph(name: str, category: str, properties: Iterable[str]) -> ObjectClass:
    """Return the class of a scene graph's node; one that the table lacks has its own name as its word.

    ``water_glass`` is the table's ``waterglass``; ``floor_lamp`` is a floor lamp, which is furniture.
    """
    known = CLASSES.get(name) or CLASSES.get(name.replace("_", "")) or _BY_WORD.get(word := name.replace("_", " "))
    if known is not None:
        return known
    able, is_seen = frozenset(properties), category not in _BUILDING
    return ObjectClass(
        name=name,
        word=word,
        category=category,
        properties=able,
        observed=is_seen,
        room_item=is_seen and "GRABBABLE" not in able,
    )


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


#: What stands between a thing's word and where it is taken from, in the name of a goal's thing.
FROM = " from the "


def bare(name: str) -> str:
    """Return the word of a thing that is called by more than that: ``apple`` for ``apple 2 from the desk``."""
    name = name.partition(FROM)[0]
    word, _, number = name.rpartition(" ")
    return word if word and number.isdecimal() else name


def _find(name: str) -> ObjectClass | None:
    own, word = _OWN.get(), bare(name)
    called_so = (one for one in own if _own_words(own).kinds.get(one.word) == word)
    return next((one for one in own if one.word == word), None) or next(called_so, None) or _BY_WORD.get(word)


def means(name: str, word: str) -> bool:
    """Return whether a name is said of a class: its own word, or its kind's, if that is one of the house's own."""
    own = _own_words(own_classes())
    is_kind = name.replace(" ", "") in own.entries and (word.endswith(f" {name}") or meaning(name) == word)
    return name == word or is_kind or own.kinds.get(word) == name


def properties_of_word(word: str) -> frozenset[str]:
    """Return the properties of the class with this word; none for unknown words."""
    known = _find(word)
    return frozenset() if known is None else known.properties


def can_be_held(word: str) -> bool:
    return "GRABBABLE" in properties_of_word(word)


def is_known(word: str) -> bool:
    return _find(word) is not None


def is_room(word: str) -> bool:
    return (known := _find(word)) is not None and known.category == "Rooms"


def class_of_word(word: str) -> ObjectClass:
    """Return the class with this word of observations, e.g. ``kitchen cabinet``.

    Raises:
        ValueError: No class has this word.
    """
    if (known := _find(word)) is None:
        raise ValueError(f"no class is called {word!r}; `reactree list words` lists all words")
    return known


class Naming:
    """Translates texts between the vocabulary's words and the names in a house, which are given by class."""

    def __init__(self, names: Mapping[str, str]) -> None:
        words = {known.word: names.get(name, known.word) for name, known in CLASSES.items()}
        #: Returns a text of the vocabulary's words with the house's names.
        self.with_names = _replacing(words) if names else str
        #: Returns a text of the house's names with the vocabulary's words.
        self.with_words = _replacing({name: word for word, name in words.items()}) if names else str


def _replacing(words: Mapping[str, str]) -> Callable[[str], str]:
    any_of = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    pattern = re.compile(rf"\b(?:{any_of})\b")
    return lambda text: pattern.sub(lambda match: words[match[0]], text)


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Topic(enum.Enum):
    THING = "thing"
    PLACE = "place"
    ROOM = "room"
    GROUP = "group"


@dataclass(frozen=True)
class Entry:
    kind: Topic
    words: tuple[str, ...]  # words of the vocabulary; several for a group ("drinks")
    plural: bool = False  # whether the phrase was in the plural; the meaning is in the singular


TABLE = "table"
"""A table without saying which."""
WASHER = "washer"
"""A washing machine, or a dishwasher if dishes go in."""
GLASS_OF_WINE = "glass of wine"
"""The wine, or the glass on a laid table."""
GLASSES = "glasses"
"""Spectacles, or a wine glass and a water glass; also the vocabulary's word for spectacles."""

_LEXICON: dict[str, Any] = json.loads(Path(__file__).with_name("lexicon.json").read_text(encoding="utf-8"))
#: Things on a laid table and in a dishwasher.
TABLEWARE = frozenset(_LEXICON["tableware"])
#: The place of a thing that should be in a room, if no place is named.
SURFACE_OF_ROOM: dict[str, str] = _LEXICON["surface_of_room"]
#: Containers of a thing: a bottle of wine, a juice container.
CONTAINERS = word_set(_LEXICON["containers"])
_COMMON = word_set(_LEXICON["common"])  # English words that are not slips of a word here, although one letter differs
_SLIP_LENGTH = 4  # shorter words are not corrected


def _phrases(table: dict[str, str], kind: Topic) -> Iterator[tuple[str, Entry]]:
    for word, others in table.items():
        for phrase in (word.lower(), *filter(None, others.split(", "))):
            yield phrase, Entry(kind, (word,))


def _all_phrases() -> Iterator[tuple[str, Entry]]:
    for entry in CLASSES.values():
        if entry.category != "Characters":
            yield entry.word.lower(), Entry(Topic.ROOM if entry.category == "Rooms" else Topic.THING, (entry.word,))
    yield from _phrases(_LEXICON["things"], Topic.THING)
    yield from _phrases(_LEXICON["places"], Topic.PLACE)
    yield from _phrases(_LEXICON["rooms"], Topic.ROOM)
    for words, others in _LEXICON["groups"]:
        for phrase in others.split(", "):
            yield phrase, Entry(Topic.GROUP, tuple(words))


_ENTRIES = {phrase.replace(" ", ""): entry for phrase, entry in _all_phrases()}
_LONGEST = max(len(phrase.split()) for phrase, _ in _all_phrases())
_PARTS = frozenset(part for phrase, _ in _all_phrases() for part in phrase.split()) | frozenset(_ENTRIES)


@dataclass(frozen=True)
class _OwnWords:
    entries: dict[str, Entry]
    parts: frozenset[str]
    called: dict[str, str]
    kinds: dict[str, str]  # by its word, what else a class is called by its kind: a nurse desk is a desk


@lru_cache(maxsize=64)
def _own_words(classes: tuple[ObjectClass, ...]) -> _OwnWords:
    entries, called, kinds = dict[str, Entry](), dict[str, str](), dict[str, str]()
    for one in classes:
        kind = Topic.ROOM if one.category == "Rooms" else Topic.THING if "GRABBABLE" in one.properties else Topic.PLACE
        parts = one.word.lower().split()
        for phrase in (parts, parts[::-1]):  # "counter left" and "left counter"
            entries.setdefault("".join(phrase), Entry(kind, (one.word,)))
        if known := meaning(one.word):
            called[known] = one.word
        if kind is not Topic.ROOM and (called_so := kind_of(one.word, held=kind is Topic.THING)):
            kinds[one.word] = called_so
            entries.setdefault(called_so.replace(" ", ""), Entry(kind, (called_so,)))
    return _OwnWords(entries, frozenset(part for one in classes for part in one.word.lower().split()), called, kinds)


def kind_of(word: str, *, held: bool = False) -> str:
    """Return the last words in a word that name a place, or what is held: ``counter`` of ``counter left``; or ""."""
    parts, kinds = word.lower().split(), (Topic.THING, Topic.PLACE)
    for end in range(len(parts), 0, -1):
        for phrase in (parts[begin:end] for begin in range(int(end == len(parts)), end)):  # not the whole
            known = _ENTRIES.get("".join(phrase))
            if known is not None and known.kind in kinds and (known.words[0] in RECALLABLE) == held:
                return " ".join(phrase)
    return ""


def meaning(word: str) -> str:
    """Return the one class of the vocabulary, by its word, that another word means; empty if it means none."""
    parts = word.lower().split()
    found = _entry(parts, _ENTRIES, _PARTS) if parts else None
    meant = found.words[0] if found is not None and len(found.words) == 1 else ""
    return meant if meant.replace(" ", "").lower() in _ENTRIES and meant not in (TABLE, WASHER, GLASS_OF_WINE) else ""


def _without_one(word: str) -> set[str]:
    return {word[:index] + word[index + 1 :] for index in range(len(word))}


def _slips() -> dict[str, str]:
    slips: dict[str, str] = {}
    for part in sorted(_PARTS, key=lambda part: (len(part), part)):
        if len(part) > _SLIP_LENGTH:
            for slip in (part, *sorted(_without_one(part))):
                slips.setdefault(slip, part)
    return slips


_SLIPS = _slips()


def correct(word: str) -> str:
    """Return the meant word: itself, or the lexicon's word that differs by a missing, added, changed or swapped letter.

    The first letter is assumed to be right, and common English words are not slips.
    """
    if (
        len(word) < _SLIP_LENGTH
        or word in _PARTS
        or _COMMON & {word, word.removesuffix("s")}
        or not word.isalpha()
        or _singular(word, parts := _PARTS | _own_words(own_classes()).parts) in parts
    ):
        return word
    meant = {
        part for slip in (word, *_without_one(word)) if (part := _SLIPS.get(slip)) is not None and part[0] == word[0]
    }
    return min(meant, key=lambda part: (len(part), part), default=word)


def _singular(word: str, parts: frozenset[str]) -> str:
    for ending, singular in (("ies", "y"), ("ves", "fe"), ("ves", "f"), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            candidate = word.removesuffix(ending) + singular
            if candidate in parts:
                return candidate
    return word


def look_up(words: list[str], start: int) -> tuple[Entry, int] | None:
    """Return the longest phrase of corrected lower-case words that starts at one: meaning, number of words; or None."""
    own = _own_words(own_classes())
    for length in range(min(_LONGEST, len(words) - start), 0, -1):
        phrase = words[start : start + length]
        if not all(word.isalpha() for word in phrase):
            continue
        found = _entry(phrase, own.entries, own.parts)
        if found is None and (found := _entry(phrase, _ENTRIES, _PARTS)) is not None:
            for end in range(1, length * bool(own.entries)):  # "the kitchen table": the house's own "table", in it
                room = _entry(phrase[:end], _ENTRIES, _PARTS)
                if room and room.kind is Topic.ROOM and _entry(phrase[end:], own.entries, own.parts):
                    return room, end
        if found is not None:
            return replace(found, words=tuple(own.called.get(word, word) for word in found.words)), length
    return None


def _entry(phrase: list[str], entries: dict[str, Entry], parts: frozenset[str]) -> Entry | None:
    if (entry := entries.get("".join(phrase))) is not None:
        return entry
    singular = entries.get("".join([*phrase[:-1], _singular(phrase[-1], parts)]))
    return None if singular is None else replace(singular, plural=True)


def named(text: str) -> Iterator[tuple[str, ...]]:
    words = [correct(word) for word in re.findall("[a-z]+", text.lower())]
    start = 0
    while start < len(words):
        found = look_up(words, start)
        if found is None:
            start += 1
            continue
        entry, length = found
        yield entry.words
        start += length


def listed(phrases: Sequence[str]) -> str:
    """List phrases: ``the plate, the mug and the bowl``."""
    *first, last = phrases
    return f"{', '.join(first)} and {last}" if first else last


def plural(name: str) -> str:
    """Return the plural of a name of several words: ``glasses for wine``, ``bottles of juice``."""
    head, joint, rest = name.partition(" of ")
    if not joint:
        head, joint, rest = name.partition(" for ")
    if re.search("(?:s|x|z|ch|sh)$", head):
        return f"{head}es{joint}{rest}"
    if head.endswith("fe"):
        return f"{head[:-2]}ves{joint}{rest}"
    if head.endswith(("lf", "af")):
        return f"{head[:-1]}ves{joint}{rest}"
    return f"{head}s{joint}{rest}"
