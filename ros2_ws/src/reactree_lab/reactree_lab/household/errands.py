"""Errands beyond the five task types of WAH-NL, drawn by seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_AND = "_and_"  # between the task types of several places


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The things that may go to a class of furniture."""

    name: str  # name of the task type
    inside: bool  # whether things go in it; otherwise on it
    kinds: tuple[str, ...]  # kinds of things that go there, as in :data:`KINDS`
    switch: bool = False  # whether it may be turned on afterwards


@dataclass(frozen=True, kw_only=True)
class Errand:
    """The contents of a task.

    Attributes:
        wanted: Number of things by class of thing and class of furniture: (thing, furniture) to count.
    """

    name: str  # type of the task
    wanted: Mapping[tuple[str, str], int]
    switches: tuple[str, ...] = ()  # classes to turn on after that

    @property
    def subjects(self) -> frozenset[str]:
        """Subjects of the task: the classes that its goal names, its type and, if it is composed, each type in it."""
        classes = (name for pair in self.wanted for name in pair)
        return frozenset((*classes, *self.switches, self.name, *self.name.split(_AND)))


#: Kinds of things, with the classes of each.
KINDS: Mapping[str, tuple[str, ...]] = {
    name: tuple(classes.split())
    for name, classes in {
        "snack": "apple cupcake juice pudding wine candybar creamybuns pie sundae chips crackers milkshake bananas",
        "food": "apple cupcake juice pancake poundcake pudding wine carrot pear plum lime bellpepper milk salad salmon "
        "chicken cutlets mincedmeat whippedcream breadslice cereal chocolatesyrup bananas alcohol chinesefood",
        "raw": "chicken cutlets mincedmeat salmon pancake pie poundcake breadslice",
        "dish": "cutleryfork cutleryknife dishbowl mug plate waterglass wineglass",
        "spice": "condimentbottle condimentshaker",
        "cookware": "cookingpot fryingpan oventray coffeepot cuttingboard",
        "cleaning": "bucket dishwashingliquid washingsponge",
        "toiletry": "barsoap facecream lotionbottle toiletpaper",
        "paper": "book magazine folder notes",
        "gadget": "cellphone glasses remotecontrol clock",
        "cloth": "clothespants clothesshirt",
        "toy": "teddybear toy sportsball box",
    }.items()
}

#: Destinations, by class of furniture.
DESTINATIONS: Mapping[str, Destination] = {
    "kitchentable": Destination(name="set_kitchen_table", inside=False, kinds=("food", "dish", "spice", "snack")),
    "coffeetable": Destination(name="set_coffee_table", inside=False, kinds=("snack", "dish", "paper", "gadget")),
    "kitchencounter": Destination(
        name="prepare_counter", inside=False, kinds=("food", "cookware", "dish", "spice", "cleaning")
    ),
    "desk": Destination(name="prepare_desk", inside=False, kinds=("paper", "gadget", "snack", "dish")),
    "bed": Destination(name="prepare_bed", inside=False, kinds=("cloth", "toy", "paper", "gadget")),
    "sofa": Destination(name="prepare_sofa", inside=False, kinds=("toy", "gadget", "paper", "snack")),
    "bench": Destination(name="put_bench", inside=False, kinds=("toy", "cloth", "paper")),
    "bathroomcounter": Destination(name="prepare_bathroom", inside=False, kinds=("toiletry", "cleaning")),
    "fridge": Destination(name="fill_fridge", inside=True, kinds=("food", "snack", "raw")),
    "dishwasher": Destination(name="fill_dishwasher", inside=True, kinds=("dish",), switch=True),
    "microwave": Destination(name="heat_food", inside=True, kinds=("raw", "snack"), switch=True),
    "stove": Destination(name="cook_food", inside=True, kinds=("raw", "cookware"), switch=True),
    "kitchencabinet": Destination(name="fill_kitchen_cabinet", inside=True, kinds=("dish", "spice", "snack")),
    "bathroomcabinet": Destination(name="fill_bathroom_cabinet", inside=True, kinds=("toiletry",)),
    "cabinet": Destination(name="fill_cabinet", inside=True, kinds=("toy", "paper", "gadget")),
    "sink": Destination(name="fill_sink", inside=True, kinds=("dish", "cleaning")),
}

#: Classes that may be turned on without bringing anything there.
SWITCHES = ("tv", "computer", "dishwasher", "microwave", "stove", "toaster")
_ODDLY = 0.1  # share of places that get things of any kind


def draw_errand(rng: random.Random, furniture: Collection[str], *, most: int = 5) -> Errand:
    """Draw an errand: one to ``most`` things in one to three places of these classes, some appliances turned on."""
    switches = [name for name in SWITCHES if name in furniture]
    if switches and rng.random() < 0.04:
        name = rng.choice(switches)
        return Errand(name="turn_on", wanted={}, switches=(name,))
    places = [name for name in DESTINATIONS if name in furniture]
    chosen = rng.sample(places, min(len(places), rng.choices((1, 2, 3), weights=(70, 24, 6))[0]))
    total = max(len(chosen), rng.choices(range(1, most + 1), weights=(20, 25, 25, 17, 13)[:most])[0])
    drawn = [*chosen, *(rng.choice(chosen) for _ in range(total - len(chosen)))]
    wanted: dict[tuple[str, str], int] = {}
    for place in chosen:
        for thing in _things(rng, place, drawn.count(place), taken={thing for thing, _ in wanted}):
            wanted[thing, place] = 1
    if rng.random() < 0.12:
        wanted[rng.choice(list(wanted))] = rng.choice((2, 2, 3))
    turned_on = tuple(place for place in chosen if DESTINATIONS[place].switch and rng.random() < 0.6)
    if not turned_on and switches and rng.random() < 0.05:
        turned_on = (rng.choice(switches),)
    names = _AND.join(DESTINATIONS[place].name for place in chosen)
    return Errand(name=names, wanted=wanted, switches=turned_on)


def _things(rng: random.Random, place: str, count: int, *, taken: Collection[str]) -> list[str]:
    kinds = list(KINDS) if rng.random() < _ODDLY else DESTINATIONS[place].kinds
    classes = dict.fromkeys(name for kind in kinds for name in KINDS[kind] if name not in taken)
    return rng.sample(list(classes), min(count, len(classes)))
