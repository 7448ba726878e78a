"""Made-up apartments with household tasks, in the schema of the WAH-NL task files.

An apartment is a set of rooms. A room is a few lines of furniture, e.g. along a wall; furniture within reach on one
line is close. The tasks of an apartment share rooms, furniture and clutter, but each places its own things anew. The
same arguments give the same documents on every machine.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from reactree_lab.household.everyday import draw_little, name_furniture, say_shortly
from reactree_lab.household.people import say_as_people
from reactree_lab.household.wording import Wish, say_errands
from reactree_ros.errors import UserError
from reactree_ros.household.vocabulary import CLASSES, NEVER_OPEN, plural, word_set
from reactree_ros.plugins.settings import check_names

Task = dict[str, Any]
"""One task document: task_id, task_name, nl_instructions, task_goal, env_id, init_room and init_graph."""


_TABLES: dict[str, Any] = json.loads((files(__package__) / "houses.json").read_text(encoding="utf-8"))
_AND = "_and_"  # between the task types of several places
_REACH = 1.3  # metres between the middles of two things on a line that still count as close
_WIDTHS: dict[str, float] = _TABLES["widths"]  # metres of a line that a class takes; others take 0.6
_DISHES, _FOOD = _TABLES["dishes"].split(), _TABLES["food"].split()


@dataclass(frozen=True, kw_only=True)
class _Kind:
    relation: str
    receptacle: str
    classes: Sequence[str]
    fewest: int
    most: int
    turn_on: bool = False


@dataclass(frozen=True, kw_only=True)
class Destination:
    name: str  # name of the task type
    inside: bool  # whether things go in it; otherwise on it
    kinds: Sequence[str]  # kinds of things that go there, as in :data:`KINDS`
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


_KINDS = {name: _Kind(**kind) for name, kind in _TABLES["tasks"].items()}
#: Kinds of things, with the classes of each.
KINDS: Mapping[str, Sequence[str]] = {name: classes.split() for name, classes in _TABLES["kinds"].items()}
#: Destinations, by class of furniture.
DESTINATIONS: Mapping[str, Destination] = {name: Destination(**one) for name, one in _TABLES["destinations"].items()}
#: Classes of furniture that only everyday tasks bring something to.
_MORE_PLACES = ("bookshelf", "nightstand", "closet", "washingmachine", "garbagecan")
#: Classes that may be turned on without bringing anything there.
SWITCHES: Sequence[str] = _TABLES["switches"]
#: Subjects of tasks: classes that goals may name, then types of task, including those of varied houses.
SUBJECTS: Sequence[str] = (
    *sorted(
        {*_DISHES, *_FOOD, "coffeepot", *itertools.chain(*KINDS.values())}
        | {*(kind.receptacle for kind in _KINDS.values()), *DESTINATIONS, *SWITCHES}
    ),
    *_KINDS,
    *(place.name for place in DESTINATIONS.values()),
    "turn_on",
)
_MOST_DRAWN = 5000  # unfitting tasks in a row, after which a house is given up
#: Places of a thing: "on" or "in" a class, with a weight. Places that an apartment lacks are left out. ``other`` ones
#: are taken if its usual places are the goal's, or are not there; a search never opens those ``out_of_sight``.
_AT: dict[str, str] = _TABLES["places"]
_PLACES = {
    **dict.fromkeys(_FOOD, _AT["food"]),
    **dict.fromkeys(_DISHES, _AT["dishes"]),
    "coffeepot": _AT["coffeepot"],
}
_CLUTTER: list[tuple[str, int, str]] = _TABLES["clutter"]  # classes, most of each, places
_CLUTTER_PLACES = {name: places for classes, _, places in _CLUTTER for name in classes.split()}
_ODD = 0.15  # share of a task's things that are in an odd place
_USUAL = 0.5  # share of varied tasks with WAH's types
_TOLD_WHERE = 0.2  # share of things whose place the instruction tells
_MOST_OUT_OF_SIGHT = 16  # of one class


@dataclass(frozen=True, kw_only=True)
class _Item:
    id: int
    class_name: str
    room: int
    close: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Thing:
    class_name: str
    inside: bool
    place: _Item

    @property
    def out_of_reach(self) -> bool:
        return self.inside and self.place.class_name in NEVER_OPEN


@dataclass(frozen=True, kw_only=True)
class _Apartment:
    rooms: dict[int, str]
    furniture: tuple[_Item, ...]
    clutter: tuple[_Thing, ...]


def check_subjects(given: str) -> str:
    """Refuse words, separated by commas, that cannot be subjects of tasks; no words are fine."""
    return check_names("object class or type of task", given, SUBJECTS) if given else ""


def generate_house(
    *,
    seed: int,
    rooms: int = 5,
    tasks: int = 5,
    varied: bool = False,
    without: str = "",
    about: str = "",
    nouns: str = "",
    people: bool = False,
    everyday: bool = False,
) -> list[Task]:
    """Make an apartment and its tasks.

    The five WAH task types take turns, so that five tasks show each of them once. Every task can be solved: its things
    are on or in something within reach, and never where the goal wants them. The goal's conditions are in the order
    of the instruction.

    Args:
        seed: Names the apartment; it becomes the ``env_id``.
        rooms: Number of rooms, 3 to 8: a kitchen, a living room, and bathrooms and bedrooms.
        tasks: Number of tasks, at least 1. More tasks do not change the first ones.
        varied: Half of the tasks have other types and may have several places. Instructions use many words. Things have
            numbers as high as in full houses.
        without: Subjects that no task may have, from :data:`SUBJECTS`, separated by commas: its type and the classes
            that its goal names; such things may still be clutter. The first fitting tasks are taken.
        about: Subjects of which each task must have at least one; empty allows any.
        nouns: What the house calls its things, ``taught`` or ``kept``; empty for the vocabulary's words.
        people: Whether instructions are said as people do. Neither changes anything else of the tasks.
        everyday: Whether each task is a small errand of a varied house, said in a few words.

    Raises:
        ValueError: The number of rooms or tasks is impossible, or a word is not a subject.
        UserError: The house has no such tasks.
    """
    if rooms not in range(3, 9):
        raise ValueError(f"an apartment has 3 to 8 rooms, not {rooms!r}")
    if tasks < 1:
        raise ValueError(f"an apartment needs at least 1 task, not {tasks!r}")
    none, some = (frozenset(filter(None, check_subjects(given).split(","))) for given in (without, about))
    names = _names_in(seed, rooms, nouns)
    apartment, errands = _everyday(seed, rooms) if everyday else (_varied if varied else _plain)(seed, rooms)
    if everyday and names:
        names |= name_furniture(random.Random(f"furniture {seed} {rooms}"), _places_in(apartment))
    house = replace(apartment, clutter=()) if varied or everyday else apartment  # each varied task places it anew
    documents: list[Task] = []
    fitting = _fitting(errands, without=none, about=some, house=f"house {seed} of {rooms} rooms")
    for number, (rng, drawn) in enumerate(itertools.islice(fitting, tasks), 1):
        room = rng.choice(list(apartment.rooms))
        errand, things, text = (_arrange_varied if varied or everyday else _arrange_plain)(rng, apartment, drawn, names)
        if people or everyday:
            own = random.Random(f"people {seed} {rooms} {number}")
            wishes = _wishes(own, apartment, errand, things, told_where=0 if everyday else _TOLD_WHERE)
            text = (say_shortly if everyday else say_as_people)(own, wishes, errand.switches, names)
        goal = {f"{_relation(place)}_{thing}_{place}": count for (thing, place), count in errand.wanted.items()}
        document = {
            "task_id": number,
            "task_name": errand.name,
            "nl_instructions": [text],
            "task_goal": goal | {f"turnOn_{name}": 1 for name in errand.switches},
            "env_id": seed,
            "init_room": apartment.rooms[room],
            "init_graph": _graph(house, things, room),
        }
        documents.append(document | ({"names": dict(names)} if names else {}))
    return documents


def _names_in(seed: int, rooms: int, nouns: str) -> dict[str, str]:
    """Draw the names of a house: all that training never uses, or many of the others."""
    rng = random.Random(f"names {seed} {rooms}")
    first = (*_DISHES, *_FOOD, "coffeepot")
    return draw_names(rng, nouns, first=first, share=1.0 if nouns == KEPT else 0.7) if nouns else {}


#: Errands without an end, each with its random generator.
_Errands = Iterator[tuple[random.Random, Errand]]


def _fitting(drawn: _Errands, *, without: frozenset[str], about: frozenset[str], house: str) -> _Errands:
    """Yield the fitting errands; a UserError if too many in a row do not fit."""
    others = 0
    for rng, errand in drawn:
        if not errand.subjects & without and (not about or errand.subjects & about):
            others = 0
            yield rng, errand
        elif (others := others + 1) == _MOST_DRAWN:
            given = (("about", about), ("without", without))
            asked = " ".join(f"{name}={','.join(sorted(words))}" for name, words in given if words)
            raise UserError(
                f"{house}: {_MOST_DRAWN} tasks were drawn and none of them fits {asked}; "
                "name fewer things in without or more in about, or take another first_seed, rooms or varied"
            )


def _plain(seed: int, rooms: int) -> tuple[_Apartment, _Errands]:
    rng = random.Random(f"apartment {seed} {rooms}")
    apartment = _make_apartment(rng, rooms)
    names = list(_KINDS)
    rng.shuffle(names)

    def errands() -> _Errands:
        for index in itertools.count():
            rng = random.Random(f"task {seed} {rooms} {index}")
            yield rng, _errand_of(rng, names[index % len(names)])

    return apartment, errands()


def _varied(seed: int, rooms: int) -> tuple[_Apartment, _Errands]:
    rng = random.Random(f"varied apartment {seed} {rooms}")
    apartment = _make_apartment(rng, rooms, plenty=rng.choice((1, 1, 2)))
    classes = {item.class_name for item in apartment.furniture}

    def errands() -> _Errands:
        for index in itertools.count():
            rng = random.Random(f"varied task {seed} {rooms} {index}")
            usual = rng.random() < _USUAL
            yield rng, _errand_of(rng, rng.choice(list(_KINDS))) if usual else draw_errand(rng, classes)

    return apartment, errands()


def _everyday(seed: int, rooms: int) -> tuple[_Apartment, _Errands]:
    apartment = _make_apartment(random.Random(f"everyday apartment {seed} {rooms}"), rooms)
    places = _places_in(apartment)
    switches = [name for name in SWITCHES if name in {item.class_name for item in apartment.furniture}]

    def errands() -> _Errands:
        for index in itertools.count():
            rng = random.Random(f"everyday task {seed} {rooms} {index}")
            wanted, turned_on = draw_little(rng, [*_PLACES, *_CLUTTER_PLACES], places, switches)
            yield rng, Errand(name="everyday", wanted=wanted, switches=turned_on)

    return apartment, errands()


def _places_in(apartment: _Apartment) -> list[str]:
    found = {item.class_name for item in apartment.furniture}
    return [name for name in (*DESTINATIONS, *_MORE_PLACES) if name in found]


#: An errand in the order of its words, the things of its task, and its instruction.
_Arranged = tuple[Errand, tuple[_Thing, ...], str]


def _arrange_plain(rng: random.Random, apartment: _Apartment, errand: Errand, names: Mapping[str, str]) -> _Arranged:
    wanted = list(errand.wanted.items())
    rng.shuffle(wanted)
    asked = {thing: count for (thing, _), count in wanted}
    plain = _instruct(rng, errand.name, asked, names)
    return replace(errand, wanted=dict(wanted)), _place_things(rng, apartment, _KINDS[errand.name], asked), plain


def _arrange_varied(rng: random.Random, apartment: _Apartment, errand: Errand, names: Mapping[str, str]) -> _Arranged:
    things = _place_varied(rng, apartment, errand)
    return errand, things, say_errands(rng, _wishes(rng, apartment, errand, things), errand.switches, names)


def _relation(place: str) -> str:
    return "inside" if "CONTAINERS" in CLASSES[place].properties else "on"


def _errand_of(rng: random.Random, name: str) -> Errand:
    kind = _KINDS[name]
    needed = _draw_goal(rng, kind)
    wanted = {(thing, kind.receptacle): count for thing, count in needed.items()}
    return Errand(name=name, wanted=wanted, switches=(kind.receptacle,) if kind.turn_on else ())


def _wishes(
    rng: random.Random,
    apartment: _Apartment,
    errand: Errand,
    things: Sequence[_Thing],
    told_where: float = _TOLD_WHERE,
) -> list[Wish]:
    wishes = []
    for (name, place), count in errand.wanted.items():
        one = rng.choice([thing for thing in things if thing.class_name == name and not thing.out_of_reach])
        at = "in" if one.inside else "on", one.place.class_name, apartment.rooms[one.place.room]
        source = at if rng.random() < told_where else None
        inside = _relation(place) == "inside"
        wishes.append(Wish(thing=name, count=count, place=place, inside=inside, source=source))
    return wishes


# ---- apartment ----------------------------------------------------------------------------------------------------


def _make_apartment(rng: random.Random, count: int, plenty: int = 1) -> _Apartment:
    others = count - 2
    bathrooms = rng.randint(0, 1) if others == 1 else rng.randint(1, others // 2)
    names = ["bathroom"] * bathrooms + ["bedroom"] * (others - bathrooms) + ["kitchen", "livingroom"]
    rooms = dict(enumerate(names, start=11))
    furniture = _furnish(rng, rooms)
    clutter = []
    for classes, most, places in _CLUTTER:
        for name in classes.split():
            for _ in range(rng.randint(0, most * plenty)):
                options = _options(places, furniture)
                if options:
                    clutter.append(_put(rng, name, options))
    return _Apartment(rooms=rooms, furniture=furniture, clutter=tuple(clutter))


def _furnish(rng: random.Random, rooms: Mapping[int, str]) -> tuple[_Item, ...]:
    order = list(rooms)
    rng.shuffle(order)  # decides whether sink 1 is in the kitchen or in a bathroom
    spots: list[tuple[str, int, int, float]] = []  # class name, room, line, metres along the line
    for room in order:
        lines = _lines(rng, rooms[room])
        rng.choice(lines).append(("lightswitch",))
        for number, line in enumerate(lines):
            at = 0.0
            for group in line:
                width = _WIDTHS.get(group[0], 0.6)
                spots.extend((name, room, number, at + width / 2) for name in group)
                at += width
    spots.sort(key=lambda spot: spot[0])  # stable: ids go by class, then by room and place
    return tuple(
        _Item(
            id=101 + index,
            class_name=name,
            room=room,
            close=tuple(
                101 + other
                for other, (_, its_room, its_line, its_at) in enumerate(spots)
                if other != index and (its_room, its_line) == (room, line) and abs(its_at - at) <= _REACH
            ),
        )
        for index, (name, room, line, at) in enumerate(spots)
    )


def _lines(rng: random.Random, room: str) -> list[list[tuple[str, ...]]]:
    """Draw the furniture of a room: lines of groups; furniture in one group shares its position."""

    def some(chance: float, *group: str) -> list[tuple[str, ...]]:
        return [group] if rng.random() < chance else []

    def mixed(*parts: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        line = [group for part in parts for group in part]
        rng.shuffle(line)
        return line

    desk = ("desk", "chair", "computer")
    if room == "kitchen":
        appliances: list[tuple[str, ...]] = [
            ("fridge",),
            ("dishwasher", "kitchencabinet"),
            ("stove", "kitchencabinet"),
            ("kitchencounter", "sink", "faucet", "kitchencabinet"),
            ("kitchencounter", "toaster", "kitchencabinet"),
            ("kitchencounter", "microwave", "kitchencabinet"),
        ]
        seats = rng.choice([("bench", "bench"), ("chair", "chair"), ("bench", "chair"), ("chair",) * 4])
        tables: list[tuple[str, ...]] = [("kitchentable", *seats)]
        wall = mixed(appliances, some(0.5, "kitchencabinet"), some(0.5, "kitchencabinet"), some(0.4, "garbagecan"))
        return [wall, tables + some(0.15, "kitchentable", "bench"), mixed(some(0.4, "bookshelf"), some(0.2, "chair"))]
    if room == "livingroom":
        wall = mixed(some(0.8, "bookshelf"), some(0.4, "bookshelf"), some(0.6, "cabinet"), some(0.4, *desk))
        return [[("sofa",), ("coffeetable",), ("tv",)], wall + some(0.3, "sofa") + some(0.3, "chair")]
    if room == "bathroom":
        counter: list[tuple[str, ...]] = [("bathroomcounter", "sink", "faucet", "bathroomcabinet")]
        racks: list[tuple[str, ...]] = [("towelrack",)] * rng.randint(1, 3)
        extras = some(0.6, "washingmachine") + some(0.3, "garbagecan") + some(0.2, "closet")
        return [mixed(counter, [("toilet",)], racks, extras)]
    sleeping = [("nightstand",), ("bed",), *some(0.5, "nightstand")]
    wall = mixed([("closet",)], some(0.6, *desk), some(0.6, "bookshelf"), some(0.4, "cabinet"), some(0.2, "bench"))
    return [sleeping, wall + some(0.2, "tv"), some(0.15, "coffeetable")]


# ---- things -------------------------------------------------------------------------------------------------------


def _options(places: str, furniture: Iterable[_Item]) -> dict[tuple[bool, str], tuple[float, list[_Item]]]:
    """Parse a line of places: (inside, class) -> its weight and the pieces of that class, if there are any."""
    pieces = defaultdict(list)
    for item in furniture:
        pieces[item.class_name].append(item)
    options = {}
    for entry in places.split(", "):
        preposition, name, weight = entry.split()
        if name in pieces:
            options[preposition == "in", name] = (float(weight), pieces[name])
    return options


def _put(rng: random.Random, class_name: str, options: Mapping[tuple[bool, str], tuple[float, list[_Item]]]) -> _Thing:
    inside, name = rng.choices(list(options), weights=[weight for weight, _ in options.values()])[0]
    return _Thing(class_name=class_name, inside=inside, place=rng.choice(options[inside, name][1]))


def _place_things(
    rng: random.Random, apartment: _Apartment, kind: _Kind, needed: Mapping[str, int]
) -> tuple[_Thing, ...]:
    """Place a task's things: at least the needed ones, and none of their classes where the goal wants it."""
    things = []
    for name, places in _PLACES.items():
        count = max(needed.get(name, 0), 1) + rng.randint(0, 1) if name in needed else rng.randint(0, 2)
        for _ in range(count):
            odd = rng.random() < _ODD
            options = _options(_AT["odd"] if odd else places, apartment.furniture)
            if name in needed:
                options.pop((kind.relation == "inside", kind.receptacle), None)
            things.append(_put(rng, name, options))
    return tuple(things)


def _place_varied(rng: random.Random, apartment: _Apartment, errand: Errand) -> tuple[_Thing, ...]:
    """Place all movable things: at least the wanted ones, none where it is wanted, and some out of reach."""
    places: dict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for (name, place), count in errand.wanted.items():
        places[name].add(place)
        counts[name] += count
    things = [thing for thing in apartment.clutter if thing.class_name not in places]
    for name in dict.fromkeys((*_PLACES, *places)):
        count = counts[name] + rng.randint(0, 1) if name in places else rng.randint(0, 2)
        for _ in range(count):
            usual = _PLACES.get(name) or _CLUTTER_PLACES[name]
            for line in (_AT["odd"] if rng.random() < _ODD else usual, _AT["other"]):
                options = {
                    (inside, at): found
                    for (inside, at), found in _options(line, apartment.furniture).items()
                    if at not in places[name]
                }
                if options:
                    things.append(_put(rng, name, options))
                    break
    out_of_sight = _options(_AT["out_of_sight"], apartment.furniture)
    for name in rng.sample([*_PLACES, *_CLUTTER_PLACES], 10) if out_of_sight else ():
        things += [_put(rng, name, out_of_sight) for _ in range(rng.randint(1, _MOST_OUT_OF_SIGHT))]
    rng.shuffle(things)
    return tuple(things)


def _draw_goal(rng: random.Random, kind: _Kind) -> dict[str, int]:
    total = rng.randint(kind.fewest, kind.most)
    needed = dict.fromkeys(rng.sample(kind.classes, total), 1)
    countable = [name for name in needed if name in _TABLES["plurals"]]
    if countable and total < 5 and rng.random() < 0.1:
        needed[rng.choice(countable)] = 2
    return needed


# ---- graph --------------------------------------------------------------------------------------------------------


def _node(node: int, class_name: str) -> dict[str, Any]:
    about = CLASSES[class_name]
    states = ["CLOSED"] if "CAN_OPEN" in about.properties else []
    if "HAS_SWITCH" in about.properties:
        states.append("ON" if class_name in ("lightswitch", "fridge") else "OFF")
    return {
        "id": node,
        "class_name": class_name,
        "category": about.category,
        "properties": sorted(about.properties),
        "states": states,
    }


def _edge(from_id: int, relation: str, to_id: int) -> dict[str, Any]:
    return {"from_id": from_id, "relation_type": relation, "to_id": to_id}


def _graph(apartment: _Apartment, things: Sequence[_Thing], start: int) -> dict[str, Any]:
    movable = dict(enumerate(sorted((*apartment.clutter, *things), key=lambda thing: thing.class_name), start=1001))
    nodes = [_node(1, "character")]
    nodes += [_node(room, name) for room, name in apartment.rooms.items()]
    nodes += [_node(item.id, item.class_name) for item in apartment.furniture]
    nodes += [_node(node, thing.class_name) for node, thing in movable.items()]
    edges = [_edge(1, "INSIDE", start)]
    edges += [_edge(item.id, "INSIDE", item.room) for item in apartment.furniture]
    at = defaultdict(list)  # things on or in each piece of furniture
    for node, thing in movable.items():
        at[thing.place.id].append(node)
        if thing.inside:
            edges.append(_edge(node, "INSIDE", thing.place.id))
        else:
            edges += [_edge(node, "INSIDE", thing.place.room), _edge(node, "ON", thing.place.id)]
    for item in apartment.furniture:
        reached = [node for place in (item.id, *item.close) for node in at[place]]
        edges += [_edge(item.id, "CLOSE", other) for other in (*item.close, *sorted(reached))]
    for node, thing in movable.items():
        here = sorted((thing.place.id, *thing.place.close, *at[thing.place.id]))
        edges += [_edge(node, "CLOSE", other) for other in here if other != node]
    return {"nodes": nodes, "edges": edges}


# ---- errands ------------------------------------------------------------------------------------------------------

_ODDLY = 0.1  # share of places that get things of any kind


def draw_errand(rng: random.Random, furniture: Collection[str]) -> Errand:
    """Draw an errand: one to five things in one to three places of these classes, some appliances turned on."""
    switches = [name for name in SWITCHES if name in furniture]
    if switches and rng.random() < 0.04:
        name = rng.choice(switches)
        return Errand(name="turn_on", wanted={}, switches=(name,))
    places = [name for name in DESTINATIONS if name in furniture]
    chosen = rng.sample(places, min(len(places), rng.choices((1, 2, 3), weights=(70, 24, 6))[0]))
    total = max(len(chosen), rng.choices(range(1, 6), weights=(20, 25, 25, 17, 13))[0])
    drawn = [*chosen, *(rng.choice(chosen) for _ in range(total - len(chosen)))]
    wanted: dict[tuple[str, str], int] = {}
    for place in chosen:
        for thing in _drawn_things(rng, place, drawn.count(place), taken={thing for thing, _ in wanted}):
            wanted[thing, place] = 1
    if rng.random() < 0.12:
        wanted[rng.choice(list(wanted))] = rng.choice((2, 2, 3))
    turned_on = tuple(place for place in chosen if DESTINATIONS[place].switch and rng.random() < 0.6)
    if not turned_on and switches and rng.random() < 0.05:
        turned_on = (rng.choice(switches),)
    names = _AND.join(DESTINATIONS[place].name for place in chosen)
    return Errand(name=names, wanted=wanted, switches=turned_on)


def _drawn_things(rng: random.Random, place: str, count: int, *, taken: Collection[str]) -> list[str]:
    kinds = list(KINDS) if rng.random() < _ODDLY else DESTINATIONS[place].kinds
    classes = dict.fromkeys(name for kind in kinds for name in KINDS[kind] if name not in taken)
    return rng.sample(list(classes), min(count, len(classes)))


# ---- names --------------------------------------------------------------------------------------------------------

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
    """Draw other names for classes of movable things, each of the same kind as the thing."""
    left = {room: rng.sample(names, len(names)) for room, names in NOUNS[nouns].items()}
    named: dict[str, str] = {}
    for name in sorted(_MOVABLE, key=lambda one: one not in first):
        room = "bathroom" if name in _BATHROOM else "living room" if name in _LIVING_ROOM else "kitchen"
        if left[room] and rng.random() < share:
            named[name] = left[room].pop()
    return named


# ---- instruction --------------------------------------------------------------------------------------------------

# In the templates, {at} is "on(to) the coffee table", {on} the same without to, {then} ", then turn it on" or nothing.


def _phrase(rng: random.Random, class_name: str, count: int, style: str, names: Mapping[str, str]) -> str:
    """Name `count` things of a class: "1 apple", "one apple", "an apple", "the apple" or "apple"."""
    if count > 1:
        number = str(count) if style == "digit" else "two"
        several = plural(names[class_name]) if class_name in names else _TABLES["plurals"][class_name]
        return f"the {number} {several}" if style == "the" else f"{number} {several}"
    word = CLASSES[class_name].word
    if class_name in _TABLES["everyday"] and style != "bare" and rng.random() < 0.25:
        word = _TABLES["everyday"][class_name]
    word = names.get(class_name, word)
    article = "an" if word[0] in "aeiou" else "a"
    return {"digit": "1 ", "word": "one ", "article": f"{article} ", "the": "the ", "bare": ""}[style] + word


def _instruct(rng: random.Random, task_name: str, needed: Mapping[str, int], names: Mapping[str, str]) -> str:
    kind = _KINDS[task_name]
    receptacle = CLASSES[kind.receptacle].word
    plain, *others = ("on", "on", "onto") if kind.relation == "on" else ("in", "in", "into", "inside")
    things = needed.items()
    several = sum(needed.values()) > 1
    if several and not kind.turn_on and max(needed.values()) == 1 and rng.random() < 0.1:
        sentence, between = rng.choice(_TABLES["sentence_each"]), rng.choice(("\n", " "))
        items = [_phrase(rng, name, 1, "the", names) for name, _ in things]
        return between.join(sentence.format(item=item, on=f"{plain} the {receptacle}") for item in items)
    template = rng.choice(
        (*_TABLES["templates"], *(_TABLES["list_templates"] if several else ()), *_TABLES["own_templates"][task_name])
    )
    style = rng.choice(("digit", "digit", "word", "article", "the", "bare" if several else "the"))
    then = rng.choice(_TABLES["then"]) if kind.turn_on else ""
    if kind.turn_on and template.endswith("{then}.") and rng.random() < 0.4:
        then = rng.choice(_TABLES["then_later"])
    text: str = template.format(
        items=_joined(rng, [_phrase(rng, name, count, style, names) for name, count in things]),
        list="\n".join(f"- {_phrase(rng, name, count, 'digit', names)}" for name, count in things),
        at=f"{rng.choice(others)} the {receptacle}",
        on=f"{plain} the {receptacle}",
        them="them" if several else "it",
        then=then,
    )
    return text


def _joined(rng: random.Random, phrases: Sequence[str]) -> str:
    *first, last = phrases
    if not first:
        return last
    if len(first) == 1:
        return f"{first[0]} and {last}"
    return ", ".join(first) + rng.choice((", and ", " and ")) + last
