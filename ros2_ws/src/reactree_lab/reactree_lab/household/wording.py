"""The words of instructions: people's names for things and places, and ways to ask for errands.

A seeded generator draws everything, so that the same draws give the same words. No name stands for two classes of
things or of places: an instruction's words are always unambiguous.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, ClassVar

from reactree_ros.household.vocabulary import CLASSES, plural


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Some things of a class, wanted somewhere.

    Attributes:
        source: The current place of one of them: ``in`` or ``on``, the class of a piece of furniture, and that of a
            room; None if not told.
    """

    thing: str  # their class
    count: int  # number of things
    place: str  # class of their destination
    inside: bool  # whether they go in it; otherwise on it
    source: tuple[str, str, str] | None = None


#: The tables of words in ``wording.json``.
WORDS: Mapping[str, Any] = json.loads((files(__package__) / "wording.json").read_text(encoding="utf-8"))


def _named(table: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {class_name: (CLASSES[class_name].word, *names) for class_name, names in table.items()}


#: Names of things, in the singular, by class: first the class's own word, which is the likeliest.
THINGS: Mapping[str, tuple[str, ...]] = _named(WORDS["things"])
#: Names of pieces of furniture and appliances, likewise.
PLACES: Mapping[str, tuple[str, ...]] = _named(WORDS["places"])

_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
#: Words that begin no imperative.
_NO_VERBS = frozenset({"there", "we", "I'm", "{place}", "{it}"})
_TYPING = 0.22  # share of instructions with typing errors


def say_errands(
    rng: random.Random, wishes: Sequence[Wish], switches: Sequence[str], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Draw an instruction that asks for some things somewhere, and last for some appliances to be turned on.

    ``names`` are those of classes that the house calls otherwise.
    """
    return Speaker(rng=rng, names=names).say(wishes, switches)


def say_nonsense(rng: random.Random) -> str:
    """Draw an instruction that a household robot cannot carry out."""
    return finished(rng, rng.choice(WORDS["nonsense"]).rstrip("."))


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """Says what somebody wants, in the words of tables."""

    words: ClassVar[Mapping[str, Any]] = WORDS  # the tables
    things: ClassVar[Mapping[str, Sequence[str]]] = THINGS
    places: ClassVar[Mapping[str, Sequence[str]]] = PLACES
    rng: random.Random  # draws the words
    names: Mapping[str, str]  # names of classes that the house calls otherwise

    def say(self, wishes: Sequence[Wish], switches: Sequence[str]) -> str:
        """Draw an instruction that asks for some things somewhere, and last for appliances to be turned on."""
        groups: dict[tuple[str, bool], list[Wish]] = {}
        for wish in wishes:
            groups.setdefault((wish.place, wish.inside), []).append(wish)
        clauses = [self._clause(group) for group in groups.values()]
        named: list[str] = []
        for switch in switches:
            known = any(place == switch for place, _ in groups) or switch in named
            meant = known and len(groups) == 1 and self.rng.random() < 0.7
            it = "it" if meant else f"the {self._draw_name(self._named(switch))}"
            clauses.append(self._switch(it))
            named.append(switch)
        text = clauses[0]
        for clause in clauses[1:]:
            link = ".\n" if "\n" in text else self._one_of("links")
            text += link + clause
        return finished(self.rng, self._polite(text))

    def _switch(self, it: str) -> str:
        return self._one_of("switch").format(it=it)

    def _one_of(self, table: str) -> str:
        word: str = self.rng.choice(self.words[table])
        return word

    def _draw_name(self, names: Sequence[str]) -> str:
        name: str = names[0] if len(names) == 1 or self.rng.random() < 0.5 else self.rng.choice(names[1:])
        return name

    # ------------------------------------------------------------------ what is asked for

    def _clause(self, group: Sequence[Wish]) -> str:
        rng, first, several = self.rng, group[0], sum(wish.count for wish in group) > 1
        place = f"the {self._draw_name(self._names_of_place(group))}"
        style = rng.choice(("number", "word", "article", "the", "mixed"))
        things = self._phrases(group, style)
        bullet = self._one_of("bullets")
        kinds = [*["plain"] * 5, "both", "both", "state", "state", "fill" if first.inside else "lay"]
        kind = rng.choice([*kinds, "lists"] if several else kinds)
        on = ("in", "inside", "into") if first.inside else ("on", "on top of", "onto")
        words = {
            "put": self._one_of("put"),
            "get": self._one_of("get"),
            "things": self._joined(things),
            "list": "\n".join(bullet.format(number) + thing for number, thing in enumerate(things, 1)),
            "place": place,
            "at": f"{rng.choice(on if kind in ('plain', 'both') else on[:2])} {place}",
            "them": "them" if several else "it",
            "are": "are" if several else "is",
            "belong": "belong" if several else "belongs",
            "need": "need" if several else "needs",
            "end": "end" if several else "ends",
            "they": "they" if several else "it",
            "go": "go" if several else "goes",
            "have": "have" if several else "has",
        }
        return self._one_of(kind).format(**words)

    def _named(self, place: str) -> Sequence[str]:
        return (self.names[place],) if place in self.names else self.places[place]

    def _names_of_place(self, group: Sequence[Wish]) -> Sequence[str]:
        return self._named(group[0].place)

    def _names_of_thing(self, wish: Wish, group: Sequence[Wish]) -> Sequence[str]:
        return self.things[wish.thing]

    def _phrases(self, group: Sequence[Wish], style: str) -> list[str]:
        return [self._phrase(wish, group, style) for wish in group]

    def _phrase(self, wish: Wish, group: Sequence[Wish], style: str) -> str:
        drawn = self._draw_name(self._names_of_thing(wish, group))
        name = self.names.get(wish.thing, drawn)
        uncounted = wish.thing in self.words["uncounted"] and wish.thing not in self.names
        counts = self.words["counts"].get(str(wish.count), [str(wish.count)])
        number = {"number": counts[0], "word": counts[1 % len(counts)]}.get(style) or self.rng.choice(counts)
        if wish.count == 1 and style == "the":
            number = "the"
        elif wish.count == 1 and style == "article":
            number = "a"
        if number == "some":
            number = "some" if uncounted else "the"
        if wish.count > 1:
            name = CLASSES[wish.thing].word if uncounted else plural(name)
        elif name.endswith("s") and uncounted and number in ("a", "a single"):
            number = "the"
        if number == "a" and name[0] in "aeiou":
            number = "an"
        return f"{number} {name}{self._source(wish)}"

    def _source(self, wish: Wish) -> str:
        if wish.source is None or wish.count > 1:
            return ""
        where, place, room = wish.source
        names = {"room": self.rng.choice(self.words["rooms"][room])}
        if place in self.places and self.rng.random() < 0.6:
            name = f"the {self._draw_name(self.places[place])}"
            names |= {"at": f"{where} {name}", "place": name}
            return f" {self._one_of('lying')}".format(**names)
        return f" {self._one_of('in_room')}".format(**names)

    def _joined(self, phrases: Sequence[str]) -> str:
        *first, last = phrases
        if not first:
            return last
        joined: str = self.rng.choice((", ", ", ", " and ")).join(first)
        return f"{joined}{self._one_of('joints')}{last}"

    # ------------------------------------------------------------------ around what is asked for

    def _imperatives(self) -> set[str]:
        begin = {text.split()[0] for kind in ("put", "get", "fill", "lay", "switch") for text in self.words[kind]}
        return begin - _NO_VERBS

    def _polite(self, text: str) -> str:
        rng, body, end = self.rng, text, "."
        imperative = text.split(" ", maxsplit=1)[0] in self._imperatives()
        if imperative and rng.random() < 0.45:
            opener = self._one_of("openers")
            body = f"{opener} {body}"
            if re.search(r"\b(?:could|can|would|will|may)\b", opener) and rng.random() < 0.6:
                end = "?"
        if "\n" not in body and rng.random() < 0.2:
            body += f"{rng.choice((', ', ' '))}{self._one_of('closers')}"
        body = body[0].upper() + body[1:] + end
        if rng.random() < 0.12:
            reason = self._one_of("reasons")
            body = f"{reason} {body}" if rng.random() < 0.6 else f"{body} {reason}"
        return body


def finished(rng: random.Random, text: str) -> str:
    """Write a text as people type: with or without capitals and full stops, and with slips."""
    text = re.sub(r"([.?!] |\n)([a-z])", lambda match: match[1] + match[2].upper(), text)
    drawn = rng.random()
    if drawn < 0.12:
        text = text.lower()
    if drawn < 0.2 or 0.6 < drawn < 0.68:
        text = text.rstrip(".")
    if rng.random() < _TYPING:
        for _ in range(rng.choice((1, 1, 2))):
            text = _slip(rng, text)
    return text


def _slip(rng: random.Random, text: str) -> str:
    words = list(re.finditer("[A-Za-z]{4,}", text))
    if not words:
        return text
    word = rng.choice(words)
    at = rng.randrange(word.start() + 1, word.end())
    letter = text[at]
    drawn = rng.randrange(4)
    if drawn == 0:
        return text[:at] + text[at + 1 :]
    if drawn == 1:
        return text[:at] + letter + text[at:]
    if drawn == 2 and at > word.start() + 1:
        return text[: at - 1] + letter + text[at - 1] + text[at + 1 :]
    return text[:at] + rng.choice(list(_beside(letter)) or [letter]) + text[at + 1 :]


def _beside(letter: str) -> Iterator[str]:
    for row in _KEYS:
        at = row.find(letter.lower())
        if at >= 0:
            yield from (row[other] for other in (at - 1, at + 1) if 0 <= other < len(row))
