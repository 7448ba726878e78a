"""People's words for things in a house, as phrases that lead to words of the VirtualHome vocabulary.

A phrase is looked up without spaces, so that "dish washer", "dishwasher" and "cup cake" need no own line. A plural is
looked up as its singular, and an unknown word as a known one that differs by a single slip. The own words of a house
(:func:`reactree_ros.household.vocabulary.with_own`) come first: if they mean a class of the vocabulary, that class is
called so, and people's other names for it lead there.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from reactree_ros.household.vocabulary import CLASSES, ObjectClass, own_classes


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class Topic(enum.Enum):
    """Kinds of phrases."""

    THING = "thing"
    PLACE = "place"
    ROOM = "room"
    GROUP = "group"


@dataclass(frozen=True)
class Entry:
    """The meaning of a phrase."""

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

# Other names of things. "X bottle", "a piece of X" and the like need no line here.
_THINGS = {
    "alcohol": "liquor, whisky, whiskey, spirits",
    "bananas": "banana",
    "bar soap": "soap, bar of soap",
    "bell pepper": "pepper, capsicum, paprika",
    "bottled water": "water bottle, bottle of water, mineral water",
    "bowl": "dish bowl, soup bowl, cereal bowl, salad bowl",
    "candy bar": "chocolate bar, candy, chocolate",
    "cell phone": "phone, cellphone, mobile, mobile phone, smartphone",
    "cereal": "cereals, cornflakes",
    "chips": "crisps, chip",
    "chocolate syrup": "syrup, chocolate sauce",
    "Chinese food": "chinese",
    "coffee pot": "coffee, pot of coffee, cup of coffee, mug of coffee, coffee jug, coffee carafe, pot coffee",
    "computer": "laptop, pc",
    "condiment bottle": "condiment, ketchup, sauce, sauce bottle, mustard",
    "condiment shaker": "salt, salt shaker, pepper shaker, shaker",
    "cooking pot": "pot, saucepan, stockpot",
    "creamy buns": "bun, buns, creamy bun",
    "cupcake": "cup cake, muffin, fairy cake",
    "cutlets": "cutlet",
    "cutlery fork": "fork, cutlery, utensil, eating utensil, silverware, flatware, dinner fork, table fork",
    "cutlery knife": "knife, table knife, dinner knife, butter knife, kitchen knife",
    "cutting board": "chopping board",
    "dishwashing liquid": "dish soap, washing up liquid, dishwasher liquid, detergent",
    "face cream": "cream",
    "faucet": "tap, water tap",
    "frying pan": "pan, skillet, fry pan",
    "glasses": "eyeglasses, spectacles, reading glasses, sunglasses",
    "juice": "fruit juice, orange juice, apple juice, fruit drink, juice drink",
    "light switch": "light, lights, lamp switch",
    "lotion bottle": "lotion",
    "minced meat": "mince, ground beef, ground meat, meat",
    "mug": "cup, coffee cup, coffee mug, tea cup, tea mug",
    "notes": "note, notebook, notepad",
    "pancake": "pan cake, flapjack, hotcake, griddle cake",
    "pants": "trousers, jeans, pair of pants",
    "pie": "apple pie",
    "pile of clothes": "clothes, laundry, clothing",
    "plate": "dinner plate, dish, platter, side plate",
    "pound cake": "cake, pound of cake, loaf cake, sponge cake, chocolate cake, birthday cake, lb cake",
    "pudding": "chocolate pudding, custard",
    "remote control": "remote, controller, tv remote",
    "salmon": "fish",
    "shirt": "t shirt, tshirt, blouse",
    "slice of bread": "bread, toast, bread slice",
    "sports ball": "ball, football, basketball",
    "sundae": "ice cream, ice cream sundae",
    "table lamp": "lamp, desk lamp, bedside lamp",
    "teddy bear": "teddy, stuffed bear",
    "toilet paper": "toilet roll",
    "tv": "television, telly, tv set",
    "washing sponge": "sponge",
    "water glass": (
        "glass, glass cup, drinking glass, tumbler, glass of water, glass for water, water cup, cup of water, drinking "
        "cup, water"
    ),
    "wine": "bottle of wine, wine bottle, red wine, white wine, bottle wine",
    "wine glass": "goblet, wine goblet, glass for wine, wine cup, stem glass",
}

# Places to put or look for things.
_PLACES = {
    "bathroom cabinet": "medicine cabinet",
    "bathroom counter": "vanity, bathroom sink counter",
    "bathtub": "bath, tub",
    "bed": "",
    "bench": "kitchen bench",
    "bookshelf": "bookcase, book case, shelf, shelves, book shelves",
    "cabinet": "sideboard",
    "chair": "seat, armchair, kitchen chair, dining chair",
    "closet": "wardrobe",
    "coffee table": "living room table, lounge table, sofa table, tea table, side table, low table, snack table",
    "coffee maker": "coffee machine, coffeemaker, espresso machine",
    "desk": "work desk, writing desk, computer desk, study desk",
    "dishwasher": "dish washing machine, dishwashing machine, dishes washer",
    "fridge": "refrigerator, icebox, freezer, fridge freezer, cooler",
    "garbage can": "trash can, trash, trash bin, bin, garbage, garbage bin, rubbish bin, dustbin, waste bin",
    "kitchen cabinet": "cupboard, kitchen cupboard, dishes cupboard, dish cupboard, pantry, larder, wall cupboard",
    "kitchen counter": (
        "counter, countertop, counter top, kitchen countertop, worktop, work top, kitchen worktop, work surface, "
        "kitchen top, kitchen surface, kitchen island"
    ),
    "kitchen table": (
        "dining table, dinner table, dining room table, breakfast table, lunch table, eating table, table in the "
        "kitchen, diner table"
    ),
    "microwave oven": "microwave",
    "nightstand": "night stand, bedside table, night table, bedside cabinet",
    "sink": "basin, kitchen sink, wash basin, bathroom sink",
    "sofa": "couch, settee",
    "stove": "oven, cooker, hob, stovetop, stove top",
    "toaster": "",
    "toilet": "",
    "tv stand": "",
    "washing machine": "laundry machine, clothes washer",
}

_ROOMS = {
    "bathroom": "bath room, restroom, washroom",
    "bedroom": "bed room",
    "kitchen": "kitchen room",
    "living room": "livingroom, lounge, sitting room, family room, front room",
}

# Names of several kinds at once, limited to the kinds in household tasks.
_GROUPS = {
    ("wine glass", "water glass"): (
        "wine and water glass, water and wine glass, wine glass and water glass, glassware, drinking glassware"
    ),
    ("plate", "cutlery fork", "water glass", "wine glass"): "dishes, tableware, dishware, dinnerware, crockery",
    ("pudding", "cupcake", "pound cake"): "dessert, treat, sweets",
    ("cupcake", "pound cake"): "cakes, baked good",
    ("juice", "wine"): "drink, beverage, drinks",
    ("apple",): "fruit, fruits",
    ("apple", "cupcake", "pudding"): "snack, food, meal, foodstuff",
}

TABLEWARE = frozenset({"bowl", "cutlery fork", "cutlery knife", "mug", "plate", "water glass", "wine glass"})
"""Things on a laid table and in a dishwasher."""

SURFACE_OF_ROOM = {
    "bathroom": "bathroom counter",
    "bedroom": "bed",
    "kitchen": "kitchen table",
    "living room": "coffee table",
}
"""The place of a thing that should be in a room, if no place is named."""

CONTAINERS = word_set(
    "bag bar bottle bowl box bunch can carton container cup dish drink glass jar jug loaf mug pack packet piece "
    "portion pot roll scoop serving slice tin tub"
)
"""Containers of a thing: a bottle of wine, a juice container."""

# Common English words that are no slips of a word above, although they differ by a single letter.
_COMMON = word_set(
    "ample apply bake baker balanced bandana based basic basil batter battle beach bead beard beside besides better "
    "bitter black boar bored brain brake brand break breed broad buckle bunch butler cares chain charm chart chimp "
    "chops click cloak close closed closer closes clothe coach cooked cookie cooled corset cough country cradle "
    "cramp crisis crisp crispy crouch curtain desert dine diver diving drain drank dresser drunk fair fairly fame "
    "fiery flame flood flour folded freeze fringe frost froth frown garage glove gobble grass hunger island juicer "
    "juicy ladder launch leader lining loader longer lunge make makes marker mice mine mined miner moose mousse "
    "muse noted paint painter paste pastry patch pate pattern peace pearl place places plane plans plant planter "
    "plants plaster pleat pointer poker pond popper powder preach produce prone proud remove roller sack salon "
    "saloon sand saucer scald self setter setting settle shack shake shaken shall shaver sheet shell shift short "
    "shove since skirt slack slicer slick slide slime smack small snake sneak sneaker solve space spice spirit "
    "splice sport stack stain stale stalk stead steal still stitch stole stone store stud sturdy sunday swatch "
    "sweet tablet tale taste tasty tell thirst thirty thrash tower trait tread treaty trowel tumble wafer wager "
    "waist waiter waiting washed watery waver while whine whisk whisker widow wishing write"
)

_SLIP_LENGTH = 4  # shorter words are not corrected


def _phrases(table: dict[str, str], kind: Topic) -> Iterator[tuple[str, Entry]]:
    for word, others in table.items():
        for phrase in (word.lower(), *filter(None, others.split(", "))):
            yield phrase, Entry(kind, (word,))


def _all_phrases() -> Iterator[tuple[str, Entry]]:
    for entry in CLASSES.values():
        if entry.category != "Characters":
            yield entry.word.lower(), Entry(Topic.ROOM if entry.category == "Rooms" else Topic.THING, (entry.word,))
    yield from _phrases(_THINGS, Topic.THING)
    yield from _phrases(_PLACES, Topic.PLACE)
    yield from _phrases(_ROOMS, Topic.ROOM)
    for words, others in _GROUPS.items():
        for phrase in others.split(", "):
            yield phrase, Entry(Topic.GROUP, words)
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
    """The own words of a house: entries by phrase, their parts, and what a class of the vocabulary is called there."""

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
    """Map each part of a phrase, whole or with one letter missing, to that part; the shorter part wins."""
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
    """Return a plural's singular in the lexicon's spelling; the word itself if it is no plural."""
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
    """Return the entry of a phrase, or of its singular."""
    if (entry := entries.get("".join(phrase))) is not None:
        return entry
    singular = entries.get("".join([*phrase[:-1], _singular(phrase[-1], parts)]))
    return None if singular is None else replace(singular, plural=True)


def named(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the names in a text: for each phrase of the lexicon, the vocabulary words that it may mean."""
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
