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
from typing import Any

from reactree_ros.household.vocabulary import CLASSES


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Some things of a class, wanted somewhere.

    Attributes:
        thing: Their class.
        count: Number of things.
        place: Class of their destination.
        inside: Whether they go in it; otherwise on it.
        source: The current place of one of them: ``in`` or ``on``, the class of a piece of furniture, and that of a
            room; None if not told.
    """

    thing: str
    count: int
    place: str
    inside: bool
    source: tuple[str, str, str] | None = None


_WORDS: Mapping[str, Any] = json.loads((files(__package__) / "wording.json").read_text(encoding="utf-8"))


def _named(table: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {class_name: (CLASSES[class_name].word, *names) for class_name, names in table.items()}


#: Names of things, in the singular, by class: first the class's own word, which is the likeliest.
THINGS: Mapping[str, tuple[str, ...]] = _named(_WORDS["things"])
#: Names of pieces of furniture and appliances, likewise.
PLACES: Mapping[str, tuple[str, ...]] = _named(_WORDS["places"])

_IMPERATIVES = frozenset(text.split()[0] for kind in ("put", "get", "fill", "lay", "switch") for text in _WORDS[kind])
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_TYPING = 0.22  # share of instructions with typing errors


def say_errands(rng: random.Random, wishes: Sequence[Wish], switches: Sequence[str]) -> str:
    """Draw an instruction that asks for some things somewhere, and last for some appliances to be turned on."""
    groups: dict[tuple[str, bool], list[Wish]] = {}
    for wish in wishes:
        groups.setdefault((wish.place, wish.inside), []).append(wish)
    clauses = [_clause(rng, group) for group in groups.values()]
    named: list[str] = []
    for switch in switches:
        known = any(place == switch for place, _ in groups) or switch in named
        it = "it" if known and len(groups) == 1 and rng.random() < 0.7 else f"the {_draw_name(rng, PLACES[switch])}"
        clauses.append(rng.choice(_WORDS["switch"]).format(it=it))
        named.append(switch)
    text = clauses[0]
    for clause in clauses[1:]:
        link = ".\n" if "\n" in text else rng.choice(_WORDS["links"])
        text += link + clause
    return _finish(rng, _polite(rng, text))


def say_nonsense(rng: random.Random) -> str:
    """Draw an instruction that a household robot cannot carry out."""
    return _finish(rng, rng.choice(_WORDS["nonsense"]).rstrip("."))


def _clause(rng: random.Random, group: Sequence[Wish]) -> str:
    """Ask for some things at one place."""
    first, several = group[0], sum(wish.count for wish in group) > 1
    place = f"the {_draw_name(rng, PLACES[first.place])}"
    style = rng.choice(("number", "word", "article", "the", "mixed"))
    things = [_phrase(rng, wish, style) for wish in group]
    bullet = rng.choice(_WORDS["bullets"])
    kinds = [*["plain"] * 5, "both", "both", "state", "state", "fill" if first.inside else "lay"]
    kind = rng.choice([*kinds, "lists"] if several else kinds)
    on = ("in", "inside", "into") if first.inside else ("on", "on top of", "onto")
    words = {
        "put": rng.choice(_WORDS["put"]),
        "get": rng.choice(_WORDS["get"]),
        "things": _joined(rng, things),
        "list": "\n".join(bullet.format(number) + thing for number, thing in enumerate(things, 1)),
        "place": place,
        "at": f"{rng.choice(on if kind in ('plain', 'both') else on[:2])} {place}",
        "them": "them" if several else "it",
        "are": "are" if several else "is",
        "belong": "belong" if several else "belongs",
        "need": "need" if several else "needs",
        "end": "end" if several else "ends",
    }
    text: str = rng.choice(_WORDS[kind]).format(**words)
    return text


def _phrase(rng: random.Random, wish: Wish, style: str) -> str:
    name = _draw_name(rng, THINGS[wish.thing])
    counts = _WORDS["counts"].get(str(wish.count), [str(wish.count)])
    number = {"number": counts[0], "word": counts[1 % len(counts)]}.get(style) or rng.choice(counts)
    if wish.count == 1 and style == "the":
        number = "the"
    elif wish.count == 1 and style == "article":
        number = "a"
    if number == "some":
        number = "some" if wish.thing in _WORDS["uncounted"] else "the"
    if wish.count > 1:
        name = CLASSES[wish.thing].word if wish.thing in _WORDS["uncounted"] else plural(name)
    elif name.endswith("s") and wish.thing in _WORDS["uncounted"] and number in ("a", "a single"):
        number = "the"
    if number == "a" and name[0] in "aeiou":
        number = "an"
    return f"{number} {name}{_source(rng, wish)}"


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


def _source(rng: random.Random, wish: Wish) -> str:
    if wish.source is None or wish.count > 1:
        return ""
    where, place, room = wish.source
    names = {"room": rng.choice(_WORDS["rooms"][room])}
    if place in PLACES and rng.random() < 0.6:
        name = f"the {_draw_name(rng, PLACES[place])}"
        names |= {"at": f"{where} {name}", "place": name}
        return f" {rng.choice(_WORDS['lying'])}".format(**names)
    return f" {rng.choice(_WORDS['in_room'])}".format(**names)


def _draw_name(rng: random.Random, names: Sequence[str]) -> str:
    name: str = names[0] if len(names) == 1 or rng.random() < 0.5 else rng.choice(names[1:])
    return name


def _joined(rng: random.Random, phrases: Sequence[str]) -> str:
    *first, last = phrases
    if not first:
        return last
    joined: str = rng.choice((", ", ", ", " and ")).join(first)
    return f"{joined}{rng.choice(_WORDS['joints'])}{last}"


# ---- around what is asked for -------------------------------------------------------------------------------------


def _polite(rng: random.Random, text: str) -> str:
    """Add an opener, a closer and a reason, each or none."""
    body, end = text, "."
    imperative = text.split(" ", maxsplit=1)[0] in _IMPERATIVES
    if imperative and rng.random() < 0.45:
        opener = rng.choice(_WORDS["openers"])
        body = f"{opener} {body}"
        if re.search(r"\b(?:could|can|would|will|may)\b", opener) and rng.random() < 0.6:
            end = "?"
    if "\n" not in body and rng.random() < 0.2:
        body += f"{rng.choice((', ', ' '))}{rng.choice(_WORDS['closers'])}"
    body = body[0].upper() + body[1:] + end
    if rng.random() < 0.12:
        reason = rng.choice(_WORDS["reasons"])
        body = f"{reason} {body}" if rng.random() < 0.6 else f"{body} {reason}"
    return body


def _finish(rng: random.Random, text: str) -> str:
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
    """Make a typing error within a longer word."""
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
    """Yield a letter's neighbours on the keyboard."""
    for row in _KEYS:
        at = row.find(letter.lower())
        if at >= 0:
            yield from (row[other] for other in (at - 1, at + 1) if 0 <= other < len(row))
