"""People's words for things in a house, as phrases that lead to words of the VirtualHome vocabulary.

A phrase is looked up without spaces, so that "dish washer", "dishwasher" and "cup cake" need no own line. A plural is
looked up as its singular, and an unknown word as a known one that differs by a single slip. The own words of a house
(:func:`reactree_ros.household.vocabulary.with_own`) come first: if they mean a class of the vocabulary, that class is
called so, and people's other names for it lead there.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from reactree_ros.household.vocabulary import CLASSES, ObjectClass, own_classes


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

_TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("lexicon.json").read_text(encoding="utf-8"))
#: Things on a laid table and in a dishwasher.
TABLEWARE = frozenset(_TABLES["tableware"])
#: The place of a thing that should be in a room, if no place is named.
SURFACE_OF_ROOM: dict[str, str] = _TABLES["surface_of_room"]
#: Containers of a thing: a bottle of wine, a juice container.
CONTAINERS = word_set(_TABLES["containers"])
_COMMON = word_set(_TABLES["common"])  # English words that are no slips of a word here, although one letter differs
_SLIP_LENGTH = 4  # shorter words are not corrected


def _phrases(table: dict[str, str], kind: Topic) -> Iterator[tuple[str, Entry]]:
    for word, others in table.items():
        for phrase in (word.lower(), *filter(None, others.split(", "))):
            yield phrase, Entry(kind, (word,))


def _all_phrases() -> Iterator[tuple[str, Entry]]:
    for entry in CLASSES.values():
        if entry.category != "Characters":
            yield entry.word.lower(), Entry(Topic.ROOM if entry.category == "Rooms" else Topic.THING, (entry.word,))
    yield from _phrases(_TABLES["things"], Topic.THING)
    yield from _phrases(_TABLES["places"], Topic.PLACE)
    yield from _phrases(_TABLES["rooms"], Topic.ROOM)
    for words, others in _TABLES["groups"]:
        for phrase in others.split(", "):
            yield phrase, Entry(Topic.GROUP, tuple(words))
    yield TABLE, Entry(Topic.PLACE, (TABLE,))
    yield WASHER, Entry(Topic.PLACE, (WASHER,))
    yield "glass of wine", Entry(Topic.THING, (GLASS_OF_WINE,))
    yield "glass wine", Entry(Topic.THING, (GLASS_OF_WINE,))
    yield "glasses", Entry(Topic.THING, (GLASSES,))


_ENTRIES = {phrase.replace(" ", ""): entry for phrase, entry in _all_phrases()}
_LONGEST = max(len(phrase.split()) for phrase, _ in _all_phrases())
_PARTS = frozenset(part for phrase, _ in _all_phrases() for part in phrase.split()) | frozenset(_ENTRIES)


@dataclass(frozen=True)
class _OwnWords:
    entries: dict[str, Entry]
    parts: frozenset[str]
    called: dict[str, str]


@lru_cache(maxsize=64)
def _own_words(classes: tuple[ObjectClass, ...]) -> _OwnWords:
    entries, called = dict[str, Entry](), dict[str, str]()
    for one in classes:
        kind = Topic.ROOM if one.category == "Rooms" else Topic.THING if "GRABBABLE" in one.properties else Topic.PLACE
        parts = one.word.lower().split()
        for phrase in (parts, parts[::-1]):  # "counter left" and "left counter"
            entries.setdefault("".join(phrase), Entry(kind, (one.word,)))
        if known := meaning(one.word):
            called[known] = one.word
    return _OwnWords(entries, frozenset(part for one in classes for part in one.word.lower().split()), called)


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

    The first letter is assumed to be right, and common English words are no slips.
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
        if found := _entry(phrase, own.entries, own.parts) or _entry(phrase, _ENTRIES, _PARTS):
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


def listed(phrases: Sequence[str], conjunction: str = "and") -> str:
    """List phrases: ``the plate, the mug and the bowl``."""
    *first, last = phrases
    return f"{', '.join(first)} {conjunction} {last}" if first else last


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
