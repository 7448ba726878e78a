"""Reads an instruction in the style of ALFRED, in people's own words, as steps in AI2-THOR."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from reactree_lab.worlds.ai2thor.thor_steps import KNIVES, Step

# People's names for things, and the classes that each may mean, the likeliest first.
_THINGS: dict[str, tuple[str, ...]] = {
    "alarm clock|clock": ("AlarmClock",),
    "apple": ("Apple",),
    "baseball bat|bat": ("BaseballBat",),
    "basketball|basket ball|ball": ("BasketBall",),
    "book|notebook|textbook": ("Book",),
    "bowl": ("Bowl",),
    "box|cardboard box": ("Box",),
    "bread|loaf of bread|loaf": ("Bread",),
    "butter knife|dinner knife": ("ButterKnife", "Knife"),
    "candle": ("Candle",),
    "cd|disc|disk": ("CD",),
    "cell phone|cellphone|phone|mobile": ("CellPhone",),
    "cloth|rag|wash cloth|washcloth": ("Cloth", "HandTowel"),
    "credit card|card": ("CreditCard",),
    "cup|glass|drinking glass|wine glass": ("Cup", "Mug"),
    "coffee mug|coffee cup|mug": ("Mug", "Cup"),
    "sponge|dish sponge|scrubber": ("DishSponge",),
    "egg": ("Egg",),
    "fork": ("Fork",),
    "glass bottle|glass vase": ("Glassbottle", "Vase"),
    "hand towel|towel": ("HandTowel", "Cloth"),
    "kettle|tea kettle|teapot": ("Kettle",),
    "keys|key|key chain|keychain|set of keys|sets of keys|key ring": ("KeyChain",),
    "knife|kitchen knife": KNIVES,
    "ladle|laddle|large metal spoon": ("Ladle",),
    "laptop|lap top|computer|laptop computer": ("Laptop",),
    "lettuce|head of lettuce|cabbage|green vegetable": ("Lettuce",),
    "newspaper|paper": ("Newspaper",),
    "pan|frying pan|skillet|sauce pan|saucepan|metal pan": ("Pan", "Pot"),
    "pen": ("Pen",),
    "pencil": ("Pencil",),
    "pepper shaker|pepper": ("PepperShaker",),
    "pillow|cushion": ("Pillow",),
    "plate|dish": ("Plate",),
    "plunger": ("Plunger",),
    "pot|cooking pot": ("Pot", "Pan"),
    "potato": ("Potato",),
    "remote control|remote|controller": ("RemoteControl",),
    "salt shaker|salt": ("SaltShaker",),
    "bar of soap|soap bar|bar soap|pink bar": ("SoapBar",),
    "soap": ("SoapBar", "SoapBottle"),
    "soap bottle|lotion bottle|bottle of lotion|soap dispenser|lotion|pump bottle|dispenser|soap container": (
        "SoapBottle",
    ),
    "spatula": ("Spatula",),
    "spoon": ("Spoon", "Ladle"),
    "spray bottle|spray": ("SprayBottle",),
    "statue|figurine|sculpture": ("Statue",),
    "tennis racket|tennis racquet|racket|racquet": ("TennisRacket",),
    "tissue box|box of tissues|tissues|tissue": ("TissueBox",),
    "toilet paper roll|toilet paper|toilet roll|roll": ("ToiletPaper",),
    "tomato": ("Tomato",),
    "vase|jar": ("Vase", "Glassbottle"),
    "watch|wrist watch": ("Watch",),
    "watering can|watering pot|pitcher": ("WateringCan",),
    "wine bottle|bottle of wine|wine": ("WineBottle",),
    "bottle": ("SoapBottle", "SprayBottle", "WineBottle", "Glassbottle"),
}
_PLACES: dict[str, tuple[str, ...]] = {
    "arm chair|armchair|chair|recliner": ("ArmChair",),
    "bath tub|bathtub|tub|bath": ("BathtubBasin", "Bathtub"),
    "bed": ("Bed",),
    "cabinet|cupboard": ("Cabinet",),
    "cart|rack|metal rack": ("Cart", "Shelf"),
    "coffee machine|coffee maker|coffeemaker": ("CoffeeMachine",),
    "coffee table": ("CoffeeTable", "SideTable", "DiningTable"),
    "counter|counter top|countertop|kitchen counter|kitchen island|island": ("CounterTop", "DiningTable"),
    "desk": ("Desk", "SideTable", "Dresser"),
    "dining table|kitchen table": ("DiningTable", "SideTable"),
    "drawer": ("Drawer",),
    "dresser|bureau|tv stand|television stand|chest|chest of drawers": ("Dresser", "TVStand", "SideTable"),
    "fridge|refrigerator": ("Fridge",),
    "garbage can|garbage|garbage bin|trash can|trash|trash bin|waste basket|bin|rubbish bin|wastebasket": (
        "GarbageCan",
    ),
    "hamper|laundry hamper": ("LaundryHamper",),
    "microwave|microwave oven": ("Microwave",),
    "night stand|nightstand|side table|end table|bedside table|stand": ("SideTable", "CoffeeTable", "Dresser"),
    "ottoman|foot stool|footstool": ("Ottoman",),
    "safe": ("Safe",),
    "shelf|bookshelf": ("Shelf",),
    "sink|sink basin|basin": ("SinkBasin", "Sink"),
    "sofa|couch": ("Sofa",),
    "stove|burner|stove top|stovetop": ("StoveBurner",),
    "table": ("DiningTable", "SideTable", "CoffeeTable", "Desk"),
    "toilet|toilet tank": ("Toilet",),
    "toilet paper holder|toilet paper hanger": ("ToiletPaperHanger",),
    "towel holder|towel rack": ("TowelHolder", "HandTowelHolder"),
}
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
class _Named:
    """A thing or place in an instruction: its position in the text, its possible classes, and its kind."""

    start: int
    end: int
    classes: tuple[str, ...]
    plural: bool
    place: bool


def _pattern(words: dict[str, tuple[str, ...]]) -> tuple[re.Pattern[str], dict[str, tuple[str, ...]]]:
    by_word = {word: classes for names, classes in words.items() for word in names.split("|")}
    longest_first = sorted(by_word, key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(longest_first)})(e?s)?\b"), by_word


_ALL, _BY_WORD = _pattern({**_THINGS, **_PLACES})
_PLACE_WORDS = frozenset(word for names in _PLACES for word in names.split("|"))


@lru_cache(maxsize=256)
def read_thor_instruction(text: str, fixed: tuple[str, ...]) -> tuple[Step, ...]:
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
