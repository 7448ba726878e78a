"""Small errands in a few words, as people say them to a robot: one thing or two, one place, or something to turn on.

The tables in ``everyday.json`` add frames and names to those of people's requests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from reactree_lab.household.people import Somebody
from reactree_lab.household.wording import Wish

#: The tables of ``everyday.json``.
EVERYDAY: Mapping[str, Any] = json.loads((files(__package__) / "everyday.json").read_text(encoding="utf-8"))
#: Furniture that holds things in it, of which people say "on".
_ON = frozenset({"bookshelf", "nightstand"})
#: Share of the small errands with two things; of those to turn something on; of the furniture with another name.
_TWO, _SWITCHED, _RENAMED = 0.15, 0.12, 0.35


def say_shortly(rng: random.Random, wishes: Sequence[Wish], switches: Sequence[str], names: Mapping[str, str]) -> str:
    """Draw a short instruction; ``names`` are those of classes that the house calls otherwise."""
    return _InShort(rng=rng, names=names).say(wishes, switches)


def draw_little(
    rng: random.Random, things: Sequence[str], places: Sequence[str], switches: Sequence[str]
) -> tuple[dict[tuple[str, str], int], tuple[str, ...]]:
    """Draw what is wanted, (thing, place) to count, and what is turned on. Pairs that are kept back are left out."""
    drawn = rng.random()
    if switches and drawn < _SWITCHED:
        return {}, (rng.choice(switches),)
    place = rng.choice(places)
    wanted = {(thing, place): 1 for thing in rng.sample(things, 2 if drawn > 1 - _TWO else 1)}
    if len(wanted) == 2 and rng.random() < 0.3:
        wanted = {(thing, at): 1 for (thing, _), at in zip(wanted, rng.sample(places, 2), strict=True)}
    elif len(wanted) == 1 and rng.random() < 0.06:
        wanted = dict.fromkeys(wanted, 2)
    kept = any(f"{thing} {at}" in EVERYDAY["kept"] for thing, at in wanted)
    also = (place,) if place in switches and rng.random() < 0.3 else ()
    return draw_little(rng, things, places, switches) if kept else (wanted, also)


def name_furniture(rng: random.Random, classes: Collection[str]) -> dict[str, str]:
    """Draw other names for some classes of furniture."""
    renamed = [name for name in sorted(classes) if rng.random() < _RENAMED]
    return dict(zip(renamed, rng.sample(EVERYDAY["furniture"], len(renamed)), strict=True))


@dataclass(frozen=True, kw_only=True)
class _InShort(Somebody):
    def _clause(self, group: Sequence[Wish]) -> str:
        if self.rng.random() < 0.15:
            return super()._clause(group)
        rng, first, several = self.rng, group[0], sum(wish.count for wish in group) > 1
        kind = rng.choice(("plain", "plain", "plain", "wish", "fact"))
        place = f"the {self._draw_name(self._names_of_place(group))}"
        inside = first.inside and not (first.place in _ON and rng.random() < 0.7)
        on = rng.choice(("in", "in", "in", "into", "inside") if inside else ("on", "on", "on", "onto", "on top of"))
        style = rng.choice(("the", "the", "the", "article", "article", "number", "number", "word", "bare"))
        things = self._joined(self._phrases(group, style))
        return str(rng.choice(EVERYDAY["frames"][kind])).format(
            things=things.replace("the ", "my ") if style == "the" and rng.random() < 0.15 else things,
            put=rng.choice(EVERYDAY["verbs"]),
            place=place,
            at=f"{on if kind == 'plain' else on[:2]} {place}",
            **{word: word if several else one for word, one in EVERYDAY["one"].items()},
        )

    def _draw_name(self, names: Sequence[str]) -> str:
        return names[0] if self.rng.random() < 0.4 else super()._draw_name(names)

    def _phrase(self, wish: Wish, group: Sequence[Wish], style: str) -> str:
        said = super()._phrase(wish, group, "the" if style == "bare" else style)
        return said.removeprefix("the ") if style == "bare" else said

    def _switch(self, it: str) -> str:
        return str(self.rng.choice(EVERYDAY["switches"])).format(it=it)

    def _polite(self, text: str) -> str:
        rng, said, before = self.rng, text, ""
        if text.split(maxsplit=1)[0] in (*EVERYDAY["verbs"], *EVERYDAY["common_verbs"]):
            before = rng.choices(list(EVERYDAY["before"]), weights=list(EVERYDAY["before"].values()))[0]
            said = f"{before} {text}".strip()
        if rng.random() < 0.1:
            said += f"{rng.choice((', ', ' '))}{rng.choice(EVERYDAY['after'])}"
        asks = before.startswith(("could", "can", "would", "will")) or text.startswith(("can", "how", "why"))
        end = "?" if asks and rng.random() < 0.8 else rng.choice((".", ".", "", "!"))
        if rng.random() < 0.12:
            why = rng.choice(EVERYDAY["because"]).format(why=rng.choice(EVERYDAY["why"]))
            said = f"{said}, {why}" if rng.random() < 0.7 else f"{why}, {said}"
        elif rng.random() < 0.08:
            reason, said = self._one_of("reasons"), f"{said[0].upper()}{said[1:]}"
            return f"{reason} {said}{end}" if rng.random() < 0.5 else f"{said}{end or '.'} {reason}"
        return f"{said[0].upper()}{said[1:]}{end}"
