"""Reads an instruction in the style of ALFRED as steps in AI2-THOR, in people's own words or in those of a subgoal.

Things and places have the simulator's class names, several if a word may mean any of them: ``find and pick up Cup or
Mug``. The words of a step never contain a comma.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

#: ``things`` and ``places`` have people's names, and the classes that each may mean, the likeliest first. ``searched``
#: are places to search, the likeliest first; those that must be opened come late, above all if there are many.
TABLES: dict[str, Any] = json.loads((files(__package__) / "words.json").read_text(encoding="utf-8"))
#: Treatments of a thing before it is put somewhere.
TREATMENTS = ("clean", "heat", "cool")
KNIVES = ("Knife", "ButterKnife")


_CARRIERS = frozenset({"Bowl", "Plate", "Pan", "Pot", "Mug", "Cup", "Box"})
_LAMPS = ("DeskLamp", "FloorLamp")

_LIGHT = re.compile(r"\b(lamps?|lights?|lit|lamplight)\b")
_TWO = re.compile(r"\b(two|both|2|pair)\b")
_SLICED = re.compile(r"\b(slic\w*|cut|cutting|piece|pieces|chunk|wedge)\b")
_TREATED = {
    "clean": re.compile(r"\b(clean\w*|wash(ed|ing)?|rins\w*|wet)\b"),
    "heat": re.compile(r"\b(heat\w*|warm\w*|microwaved|microwaving|cook\w*|hot)\b|\bmicrowave (?:the|a|an)\b"),
    "cool": re.compile(r"\b(cool\w*|chill\w*|cold|refrigerat(?:ed|e)|frozen)\b"),
}
# A place after one of these words only says where something else is.
_ASIDE = re.compile(
    r"\b(?:from|off|of|under|underneath|beneath|below|near|nearest|next|by|beside|behind|above|against|closest|besides|"
    r"around|along|opposite|between)(?: to)?"
    r"(?: (?:the|a|an|of|left|right|side|to|its|their|top|edge|back)){0,8} (?:[a-z]+ )?$"
)


_BESIDE = re.compile(r"\b(?:left of|right of|next to|near|by|beside|behind|closest to|in front of) (?:the |a |an )?$")
#: What no step can honour, and what asks for none: an instruction with such words is not understood.
_REFUSED = re.compile(
    r"\b(?:not|don'?t|never|without|except|unless|if|until|instead)\b|^\W*(?:i|he|she|they) (?!need|want|would)"
    r"|^\W*(?:are|did|do you|does|has|have you|how|is|should i|was|were|wh(?:at|en|ere|ich|o|y))\b"
)
_THROWN = re.compile(r"\bthrow(?:ing|n)?\b.{0,200}\b(?:away|out)\b")


@dataclass(frozen=True)
class Step:
    verb: str  # ``take``, ``slice``, ``clean``, ``heat``, ``cool``, ``place`` or ``turn on``
    thing: tuple[str, ...]  # possible classes of the thing
    place: tuple[str, ...] = ()  # for ``place``, its destination; for ``take``, a place not to take it from
    near: tuple[str, ...] = ()  # for ``place``, what the destination stands near

    def __str__(self) -> str:
        thing, place, near = (" or ".join(classes) for classes in (self.thing, self.place, self.near))
        if self.verb == "take":
            return f"find and pick up {thing}{f' away from {place}' if place else ''}"
        if self.verb == "turn on":
            return f"find and turn on {thing}"
        if self.verb == "place":
            return f"place {thing} in {place}{f' near {near}' if near else ''}"
        return f"{self.verb} and pick up {thing}"


_CLASSES = r"([A-Z]\w*(?: or [A-Z]\w*)*)"
_FORMS = (
    (re.compile(rf"find and pick up {_CLASSES}(?: away from {_CLASSES})?"), "take"),
    (re.compile(rf"find and turn on {_CLASSES}"), "turn on"),
    (re.compile(rf"place {_CLASSES} in {_CLASSES}(?: near {_CLASSES})?"), "place"),
    *((re.compile(rf"{verb} and pick up {_CLASSES}"), verb) for verb in (*TREATMENTS, "slice")),
)


@lru_cache(maxsize=256)
def read_step(text: str) -> Step | None:
    """Read a step in this module's words; None for other words."""
    for form, verb in _FORMS:
        if match := form.fullmatch(text):
            classes = [tuple(group.split(" or ")) if group else () for group in match.groups()]
            return Step(verb, *classes)
    return None


@dataclass(frozen=True)
class _Named:
    """A thing or place in an instruction: its position in the text, its possible classes, and its kind."""

    start: int
    end: int
    classes: tuple[str, ...]
    plural: bool
    place: bool


def _pattern(words: dict[str, list[str]]) -> tuple[re.Pattern[str], dict[str, tuple[str, ...]]]:
    by_word = {word: tuple(classes) for names, classes in words.items() for word in names.split("|")}
    longest_first = sorted(by_word, key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(longest_first)})(e?s)?\b"), by_word


_ALL, _BY_WORD = _pattern({**TABLES["things"], **TABLES["places"]})
_PLACE_WORDS = frozenset(word for names in TABLES["places"] for word in names.split("|"))


@lru_cache(maxsize=256)
def read_instruction(text: str, fixed: tuple[str, ...]) -> tuple[Step, ...]:
    """Read an instruction as steps, none if it is not understood; destinations are ``fixed`` classes only."""
    lower = _plain(text)
    named = list(_named(lower))
    things = [one for one in named if not one.place and not _BESIDE.search(lower[: one.start])]
    places = [one for one in named if one.place]
    sliced = bool(_SLICED.search(lower))
    target = _target(things)
    if target is None or _REFUSED.search(lower):
        return ()
    if _LIGHT.search(lower):
        return (Step("take", target.classes), Step("turn on", _LAMPS))
    where = ("GarbageCan",) if _THROWN.search(lower) else _destination(lower, places, fixed)
    if where is None:
        return ()
    prepared = [Step("take", target.classes)]
    if sliced:
        prepared = [Step("take", KNIVES), Step("slice", target.classes)]
    how = next((how for how, words in _TREATED.items() if words.search(_without(lower, places[-1:]))), None)
    if how is not None:
        return (*prepared, Step(how, target.classes), Step("place", target.classes, where))
    carrier = next((one for one in things if _CARRIERS & set(one.classes) and one is not target), None)
    if carrier is not None:
        into = tuple(one for one in carrier.classes if one in _CARRIERS)
        first = [Step("take", into), Step("place", into, where)]
        return (*first, *prepared, Step("place", target.classes, into, where))
    one = (*prepared, Step("place", target.classes, where))
    if _TWO.search(lower) or (target.plural and not sliced):
        return (*one, Step("take", target.classes, where), Step("place", target.classes, where))
    return one


def _plain(text: str) -> str:
    words = " ".join(re.sub(r"[^a-z0-9' ]", " ", text.lower()).split())
    for plural, singular in (("oes", "os"), ("knives", "knifes"), ("loaves", "loafs"), ("shelves", "shelfs")):
        words = re.sub(rf"{plural}\b", singular, words)
    return words


def _named(text: str) -> Iterator[_Named]:
    """Yield the names in a text; of adjacent names, such as "glass bowl", the last one counts."""
    found = [
        _Named(match.start(), match.end(), _BY_WORD[match[1]], bool(match[2]), match[1] in _PLACE_WORDS)
        for match in _ALL.finditer(text)
    ]
    for one, after in itertools.zip_longest(found, found[1:]):
        if after is None or after.start != one.end + 1 or after.place is not one.place:
            yield one


def _target(things: Sequence[_Named]) -> _Named | None:
    """Choose the thing to handle: the first that carries nothing, and cuts nothing if there is another one."""
    others = [one for one in things if not set(one.classes) & set(KNIVES)] or things
    held = [one for one in others if not _CARRIERS & set(one.classes)]
    return next(iter([*held, *others]), None)


def _destination(text: str, places: Sequence[_Named], fixed: Sequence[str]) -> tuple[str, ...] | None:
    """Choose the destination: the last place that is named for its own sake and that the room has."""
    here = [(one, tuple(name for name in one.classes if name in fixed)) for one in places]
    own = [classes for one, classes in here if classes and not _ASIDE.search(text[: one.start])]
    anywhere = [classes for _, classes in here if classes]
    return next(reversed(own or anywhere), None)


def _without(text: str, places: Sequence[_Named]) -> str:
    return text if not places else f"{text[: places[0].start]} {text[places[0].end :]}"
