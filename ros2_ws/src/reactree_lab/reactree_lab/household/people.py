"""Requests as people make them: errands in many words, open ones that need an answer, and ones no robot can meet.

The tables in ``people.json`` add to those of ``wording.json``. A request is made of frames and words by rule, so that
hardly any two are the same.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from reactree_lab.household.wording import PLACES, THINGS, WORDS, Speaker, Wish, finished
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.household.vocabulary import CLASSES, TABLEWARE, listed, plural

#: The tables of ``people.json``.
PEOPLES: Mapping[str, Any] = json.loads((files(__package__) / "people.json").read_text(encoding="utf-8"))


def _both(own: Mapping[str, Sequence[str]], more: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: (*words, *more.get(name, ())) for name, words in own.items()}


_THINGS, _PLACES = _both(THINGS, PEOPLES["things"]), _both(PLACES, PEOPLES["places"])
_WORDS = {
    **PEOPLES,
    **{
        name: _both(words, PEOPLES[name]) if isinstance(words, dict) else [*words, *PEOPLES.get(name, ())]
        for name, words in WORDS.items()
        if name not in ("things", "places")
    },
}
#: What a drink or its glass may be called too: a glass of wine is to drink, or part of a laid table.
_SERVED = {
    "wine": "glass of wine",
    "juice": "glass of juice",
    "wineglass": "glass of wine",
    "waterglass": "glass of water",
}
_GLASSES = ("wineglass", "waterglass")


def say_as_people(
    rng: random.Random, wishes: Sequence[Wish], switches: Sequence[str], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Draw an instruction like :func:`~reactree_lab.household.wording.say_errands`, from many more ways to say it."""
    return Somebody(rng=rng, names=names).say(wishes, switches)


def say_impossible(rng: random.Random) -> str:
    """Draw an instruction that a household robot cannot carry out: a wish, a question or idle words."""
    table = PEOPLES["impossible"]
    text: str = rng.choice(table["frames"])
    while "{" in text:
        text = re.sub(r"\{(\w+)\}", lambda match: _filled(rng, match[1], table["slots"]), text, count=1)
    end = "?" if re.match(r"(?:[WH](?:h|ow|ill|as)|Is|Are|Am|Do|Did|Can)\w* ", text) else "."
    if rng.random() < 0.15:
        text = f"{rng.choice(PEOPLES['open']['before'])}{text[0].lower()}{text[1:]}"
    return finished(rng, f"{text[0].upper()}{text[1:]}{end}")


def _filled(rng: random.Random, slot: str, slots: Mapping[str, Sequence[str]]) -> str:
    if slot == "noise":
        signs = rng.choice((string.ascii_lowercase, string.ascii_lowercase, string.digits, "?!", "aeiou", "x#%&*"))
        return " ".join("".join(rng.choices(signs, k=rng.randint(2, 7))) for _ in range(rng.randint(1, 4)))
    if slot == "chore_low":
        return str(rng.choice(slots["chore"])).lower()
    if slot in ("thing", "place"):
        return rng.choice(rng.choice(list((_THINGS if slot == "thing" else _PLACES).values())))
    if slot in ("put", "in"):
        return str(
            rng.choice(PEOPLES["open"]["put"] if slot == "put" else ("in", "on", "into", "to", "onto", "inside"))
        )
    return rng.choice(slots[slot])


class Somebody(Speaker):
    words, things, places = _WORDS, _THINGS, _PLACES

    def _draw_name(self, names: Sequence[str]) -> str:
        return names[0] if self.rng.random() < 0.3 else self.rng.choice(names)

    def _clause(self, group: Sequence[Wish]) -> str:
        drawn = self.rng.random() if len(group) > 1 else 1.0
        if drawn < 0.13:
            return self._one_by_one(group)
        if drawn < 0.2:
            return self._fetched_apart(group)
        if drawn < 0.28:  # some things, and then others to the same place
            at = self.rng.randrange(1, len(group))
            return f"{super()._clause(group[:at])}{self._one_of('links')}{super()._clause(group[at:])}"
        if drawn < 0.36:
            *first, last = group
            thing = self._phrase(last, group, self.rng.choice(("number", "article", "the")))
            joint = self.rng.choice((". ", ", ", " - "))
            return f"{super()._clause(first)}{joint}{self._one_of('too').format(thing=thing)}"
        return super()._clause(group)

    def _switch(self, it: str) -> str:
        return self._one_of("press") if it == "it" and self.rng.random() < 0.15 else super()._switch(it)

    def _fetched_apart(self, group: Sequence[Wish]) -> str:
        """Say a verb for some things and another for the others: "get a plum, grab a pear and put them on the desk"."""
        at, style = self.rng.randrange(1, len(group)), self.rng.choice(("number", "word", "article", "the"))
        first, last = (self._joined(self._phrases(some, style)) for some in (group[:at], group[at:]))
        joint = self.rng.choice((", ", " and ", ", then ", " then "))
        on = self.rng.choice(("in", "into") if group[0].inside else ("on", "onto"))
        place = f"{on} the {self._draw_name(self._names_of_place(group))}"
        get, other, put = self._one_of("get"), self._one_of("get"), self._one_of("put")
        them = self.rng.choice(("them", "them", "all of it", "everything"))
        return f"{get} {first}{joint}{other} {last} and {put} {them} {place}"

    def _one_by_one(self, group: Sequence[Wish]) -> str:
        """Say each thing with the place again: "…, then take the plum and put it there"."""
        style = self.rng.choice(("number", "word", "article", "the"))
        frame, put, get = (self._one_of(name) for name in ("one_by_one", "put", "get"))
        link = self.rng.choice(("\n", ". ", ".\n", ", ", " and then ", "; ", ", then "))
        on = self.rng.choice(("in", "into", "inside") if group[0].inside else ("on", "onto"))
        place = f"the {self._draw_name(self._names_of_place(group))}"
        again = place if self.rng.random() < 0.6 or "{place}" in frame else ""
        parts = list[str]()
        for wish in group:
            at = f"{on} {place if not parts else again}" if again or not parts else "there"
            thing = self._phrase(wish, group, style)
            parts.append(frame.format(thing=thing, put=put, get=get, at=at, place=place))
        return link.join(parts)

    def _names_of_place(self, group: Sequence[Wish]) -> Sequence[str]:
        names = super()._names_of_place(group)
        return (*names, "washer") if group[0].place == "dishwasher" and "dishwasher" not in self.names else names

    def _names_of_thing(self, wish: Wish, group: Sequence[Wish]) -> Sequence[str]:
        names = super()._names_of_thing(wish, group)
        if wish.thing not in _SERVED or wish.count > 1:
            return names
        laid = wish.place == "dishwasher" or (
            wish.place == "kitchentable" and all(CLASSES[one.thing].word in TABLEWARE for one in group)
        )
        return (*names, _SERVED[wish.thing]) if laid == (wish.thing in _GLASSES) else names

    def _phrases(self, group: Sequence[Wish], style: str) -> list[str]:
        both = [wish for wish in group if wish.thing in _GLASSES and wish.count == 1 and wish.thing not in self.names]
        if len(both) < 2 or group.index(both[1]) != group.index(both[0]) + 1 or self.rng.random() < 0.7:
            return super()._phrases(group, style)
        first, last = (wish.thing.removesuffix("glass") for wish in both)
        article = self.rng.choice(("the ", "a ", "1 ", ""))
        several = f"{article} {first} and {last} glasses" if article == "the " else f"{article}{first} and {last} glass"
        phrases = super()._phrases(group, style)
        at = group.index(both[0])
        return [*phrases[:at], " ".join(several.split()), *phrases[at + 2 :]]

    def _phrase(self, wish: Wish, group: Sequence[Wish], style: str) -> str:
        said = super()._phrase(wish, group, style)
        article, _, rest = said.partition(" ")
        if article in ("the", "one", "1", "my") and self.rng.random() < 0.07:
            return f"{article} {self._one_of('adjectives')} {rest}"
        return said

    def _joined(self, phrases: Sequence[str]) -> str:
        if self.rng.random() < 0.15:  # "apple, juice and pudding"
            phrases = [re.sub("^(?:the|an?|one|my) ", "", phrase) for phrase in phrases]
        return super()._joined(phrases)

    def _polite(self, text: str) -> str:
        said = super()._polite(text)
        if self.rng.random() < 0.1:
            reason = self._one_of("reasons")
            said = f"{reason} {said}" if self.rng.random() < 0.5 else f"{said} {reason}"
        drawn = self.rng.random()
        if drawn < 0.02:
            return said.upper()
        if drawn < 0.06:
            return said.replace(",", "").replace("'", "")
        return said.replace(". ", " ", 1) if drawn < 0.08 else said


# ---- requests that leave something open -----------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenRequest:
    """An instruction that leaves something open."""

    text: str  # the instruction
    questions: tuple[str, ...]  # questions to the person in order; their answers tell the rest
    hopeless: bool  # whether nobody can even guess what is meant without an answer
    goal: tuple[GoalCondition, ...]  # the conditions in the order in which the instruction and the answers tell them


def say_openly(rng: random.Random, goal: Sequence[GoalCondition]) -> OpenRequest | None:
    """Draw an instruction that leaves a part of a goal open; None if the goal has several places or moves nothing."""
    moved = [one for one in goal if one.item]
    switched = [one for one in goal if not one.item]
    targets = {one.target for one in goal}
    return _Opener(rng, moved, switched).request() if moved and len(targets) == 1 else None


@dataclass(frozen=True)
class _Opener:
    """Makes one open request; the questions name things and places in the vocabulary's words."""

    rng: random.Random
    moved: Sequence[GoalCondition]
    switched: Sequence[GoalCondition]

    def request(self) -> OpenRequest:
        kinds = ["group", "group", "either thing"] if len(self.moved) == 1 else ["group", "group", "hidden", "hidden"]
        kinds += [] if self.switched else ["nothing", "bring", "place", "place", "both", "either place"]
        kinds += ["number"] * 3 if self._uncertain(self.moved) else []
        kinds += ["table"] * 2 if self.moved[0].target.endswith("table") and not self.switched else []
        kind = self.rng.choice(kinds)
        told = self._told() if kind == "hidden" else self.moved
        text, questions, counted = self._of(kind, told)
        asks = [*questions, *([] if counted else self._numbers(self.moved))]
        imperative = text.split()[0] in PEOPLES["open"]["put"]
        before = self.rng.choice(PEOPLES["open"]["before"]) if imperative else ""
        end = "?" if re.match("(?:can|could|would)", before or text.lower()) else "."
        ending = self.rng.choice((" and turn it on", ", then start it", " and switch it on")) if self.switched else ""
        said = f"{before}{text}{ending}{end}"
        return OpenRequest(
            text=finished(self.rng, f"{said[0].upper()}{said[1:]}"),
            questions=tuple(asks),
            hopeless=kind in ("nothing", "bring", "place", "both")
            or (kind in ("group", "hidden") and self._names_anything(text)),
            goal=(*told, *(one for one in self.moved if one not in told), *self.switched),
        )

    def _told(self) -> Sequence[GoalCondition]:
        hidden = self.rng.sample(self.moved, self.rng.randint(1, len(self.moved) - 1))
        return [one for one in self.moved if one not in hidden]

    def _of(self, kind: str, told: Sequence[GoalCondition]) -> tuple[str, list[str], bool]:
        at, moved, rng = self._at(), self.moved, self.rng
        put, named = rng.choice(PEOPLES["open"]["put"]), self._named(moved)
        which, where = f"What should I put{at}?", f"Where should I put {named}?"
        if kind == "nothing":
            at = rng.choice([names[0] for name, names in _PLACES.items() if name != moved[0].target])
            tonight = rng.choice(PEOPLES["open"]["tonight"])
            text = rng.choice(PEOPLES["open"]["nothing"]).format(tonight=tonight, place=f"the {at}")
            return text, ["What should I put away?", where], False
        if kind == "bring":
            text = rng.choice(PEOPLES["open"]["bring"]).format(things=self._group(moved))
            return text, ["What should I bring?", where], False
        if kind == "group":
            return f"{put} {self._group(moved)} {self._said_at()}", [which], False
        if kind == "both":
            return f"{put} {self._group(moved)} {self._somewhere()}", ["What should I put away?", where], False
        if kind == "place":
            frame = rng.choice(PEOPLES["open"]["deal"])
            return frame.format(put=put, things=self._said(moved), somewhere=self._somewhere()), [where], True
        if kind == "table":
            return f"{put} {self._said(moved)} on the table", [f"On which table should I put {named}?"], True
        if kind == "number":
            return f"{put} {self._said(moved, open_number=True)} {self._said_at()}", self._numbers(moved), True
        if kind == "hidden":
            hidden = [one for one in moved if one not in told]
            text = f"{put} {self._said(told)} and {self._group(hidden)} {self._said_at()}"
            return text, [f"What else should I put{at} than {self._named(told)}?", *self._numbers(hidden)], True
        return self._either(kind, put, at)

    def _either(self, kind: str, put: str, at: str) -> tuple[str, list[str], bool]:
        one = self.moved[0]
        if kind == "either thing":
            other = self.rng.choice([name for name in self._like(one.item) if name != one.item])
            pair = self.rng.sample([CLASSES[one.item].word, CLASSES[other].word], 2)
            things = " or ".join(f"the {word}" for word in pair)
            return f"{put} {things} {self._said_at()}", [f"Should I put {things}{at}?"], False
        inside = one.relation == "inside"
        others = (
            ["fridge", "dishwasher", "microwave"] if inside else ["kitchentable", "coffeetable", "desk", "bed", "sofa"]
        )
        other = self.rng.choice([name for name in others if name != one.target])
        pair = self.rng.sample([_where(one.target, inside=inside), _where(other, inside=inside)], 2)
        return (
            f"{put} {self._said(self.moved)} {' or '.join(pair)}",
            [f"Should I put {self._named(self.moved)} {' or '.join(pair)}?"],
            True,
        )

    # ------------------------------------------------------------------ words

    def _at(self) -> str:
        return f" {_where(self.moved[0].target, inside=self.moved[0].relation == 'inside')}"

    def _said_at(self) -> str:
        one = self.moved[0]
        names = [name for name in _PLACES[one.target] if name != "table"]
        name = names[0] if self.rng.random() < 0.5 else self.rng.choice(names)
        return f"{'in' if one.relation == 'inside' else 'on'} the {name}"

    def _named(self, some: Sequence[GoalCondition]) -> str:
        return listed([f"the {CLASSES[one.item].word}" for one in some])

    def _numbers(self, some: Sequence[GoalCondition]) -> list[str]:
        return [f"How many {plural(CLASSES[one.item].word)} should I put{self._at()}?" for one in self._uncertain(some)]

    def _uncertain(self, some: Sequence[GoalCondition]) -> list[GoalCondition]:
        return [one for one in some if one.count > 1]

    def _said(self, some: Sequence[GoalCondition], *, open_number: bool = False) -> str:
        return listed([self._thing(one, open_number=open_number) for one in some])

    def _thing(self, one: GoalCondition, *, open_number: bool) -> str:
        name = self.rng.choice((_THINGS[one.item][0], self.rng.choice(_THINGS[one.item])))
        if one.count == 1:
            return f"{self.rng.choice(('the', 'the', 'one', 'my', 'that'))} {name}"
        name = CLASSES[one.item].word if one.item in WORDS["uncounted"] else name
        return f"{self.rng.choice(PEOPLES['open']['some']) if open_number else one.count} {plural(name)}"

    def _somewhere(self) -> str:
        several = len(self.moved) > 1 or self.moved[0].count > 1
        words = {"their": "their", "they": "they"} if several else {"their": "its", "they": "it"}
        return str(self.rng.choice(PEOPLES["open"]["somewhere"])).format(**words)

    def _group(self, some: Sequence[GoalCondition]) -> str:
        return _draw_kind(self.rng, PEOPLES["open"]["groups"], some)

    def _names_anything(self, text: str) -> bool:
        """Return whether a text's name for things may be that of any: "some items"."""
        _, one, several = PEOPLES["open"]["groups"][-1]
        return any(f" {name} " in text for name in (*one.split("|"), *several.split("|")))

    def _like(self, name: str) -> Iterator[str]:
        groups = [group[0].split() for group in PEOPLES["open"]["groups"]]
        return iter(next((group for group in groups if name in group), list(_THINGS)))


def _draw_kind(rng: random.Random, kinds: Sequence[Sequence[str]], some: Sequence[GoalCondition]) -> str:
    """Draw a common name of things: of the kinds that all of them are of, for one thing or for several."""
    classes = {one.item for one in some}
    _, one, several = rng.choice([kind for kind in kinds if classes <= set(kind[0].split()) or not kind[0]])
    return rng.choice((several if sum(each.count for each in some) > 1 else one).split("|"))


def _where(place: str, *, inside: bool) -> str:
    return f"{'in' if inside else 'on'} the {CLASSES[place].word}"


# ---- the same, in few words -----------------------------------------------------------------------------------------

#: ``kinds`` are common names of classes, for one thing and for several; those without classes are for any.
VAGUE: Mapping[str, Any] = json.loads((files(__package__) / "vague.json").read_text(encoding="utf-8"))


def say_vaguely(rng: random.Random, goal: Sequence[GoalCondition]) -> str:
    """Draw an instruction for a goal with one place; it leaves at least one part of the goal open."""
    moved = [one for one in goal if one.item]
    switched = [one for one in goal if not one.item]
    several = sum(one.count for one in moved) > 1
    parts = ["things"]
    parts += ["number"] if any(one.count > 1 for one in moved) else []
    parts += [] if switched else ["place"]
    left_out = {part for part in parts if rng.random() < 0.5} or {rng.choice(parts)}
    things = _vague_things(rng, moved, left_out)
    first = moved[0]
    there = _where(first.target, inside=first.relation == "inside")
    place = _vague_somewhere(rng, first, several) if "place" in left_out else there
    before, put = rng.choice(VAGUE["before"]), rng.choice(VAGUE["put"])
    text = f"{before}{put} {things} {place}{' and turn it on' if switched else ''}"
    return f"{text[:1].upper()}{text[1:]}{'?' if text.startswith(('could', 'can', 'would')) else '.'}"


def _vague_things(rng: random.Random, moved: Sequence[GoalCondition], left_out: set[str]) -> str:
    if "things" in left_out and (len(moved) == 1 or rng.random() < 0.6):
        return _draw_kind(rng, VAGUE["kinds"], moved)
    kept = list(moved)
    hidden = kept.pop(rng.randrange(len(kept))) if "things" in left_out else None
    phrases = [_vague_phrase(rng, one, open_number="number" in left_out) for one in kept]
    if hidden is not None:
        phrases.append(_draw_kind(rng, VAGUE["kinds"], [hidden]))
    return listed(phrases)


def _vague_phrase(rng: random.Random, one: GoalCondition, *, open_number: bool) -> str:
    word = CLASSES[one.item].word
    if one.count == 1:
        return f"{rng.choice(('the', 'one'))} {word}"
    return f"{rng.choice(VAGUE['some']) if open_number else one.count} {plural(word)}"


def _vague_somewhere(rng: random.Random, one: GoalCondition, several: bool) -> str:
    if one.target.endswith("table") and rng.random() < 0.5:
        return "on the table"
    they, their = ("they", "their") if several else ("it", "its")
    return str(rng.choice(VAGUE["somewhere"])).format(they=they, their=their, s="" if several else "s")
