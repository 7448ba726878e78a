"""A small shop of our own: its things, what is asked for, and WebShop's reward, after its published definition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Product:
    """Something to buy; ``price`` in dollars, ``kind`` the search that it was found by."""

    asin: str
    name: str
    kind: str
    category: str
    price: float
    attributes: tuple[str, ...]
    features: tuple[str, ...]
    description: str
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    """What is asked for, and what counts."""

    asin: str
    asked: str
    attributes: tuple[str, ...]
    price: float
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def instruction(self) -> str:
        wanted = ", and ".join(f"{name}: {value}" for name, value in self.options.items())
        return f"{self.asked}{' with ' if wanted else ''}{wanted}, and price lower than {self.price:.2f} dollars"


_SHOES, _LAMPS = "Sports / Shoes / Running", "Home / Lighting / Lamps"
_KITCHEN, _AUDIO = "Home / Kitchen / Drinkware", "Electronics / Audio / Headphones"
_SIZES = ("7", "8", "9", "10")
PRODUCTS = (
    Product(
        "B0AAA00001", "Meadowlark Trail Running Shoes for Women", "running shoes", _SHOES, 64.5,
        ("water resistant", "rubber sole", "machine washable"),
        ("A rubber sole with deep lugs", "Water resistant upper that is machine washable"),
        "Shoes for wet paths and long mornings.",
        {"color": ("moss green", "slate | grey", "coral"), "size": _SIZES},
    ),
    Product(
        "B0AAA00002", "Meadowlark Road Running Shoes for Women", "running shoes", _SHOES, 58.0,
        ("rubber sole", "lightweight"), ("A rubber sole", "Lightweight mesh"), "Shoes for dry roads.",
        {"color": ("coral", "white"), "size": _SIZES},
    ),
    Product(
        "B0AAA00003", "Tarn Running Shoes for Men", "running shoes", _SHOES, 71.25,
        ("rubber sole", "arch support"), ("Arch support", "A rubber sole"), "Shoes with room for the toes.",
        {"color": ("black", "navy"), "size": ("9", "10", "11")},
    ),
    Product(
        "B0AAA00004", "Tarn Sandals for Men", "sandals", "Sports / Shoes / Sandals", 33.0,
        ("open toe", "rubber sole"), ("Open toe", "A rubber sole"), "Sandals for the lake.", {"size": ("9", "10")},
    ),
    Product(
        "B0AAA00005", "Quillon Desk Lamp with Clamp", "desk lamps", _LAMPS, 27.9,
        ("dimmable", "space saving"), ("Dimmable in five steps", "The clamp makes it space saving"),
        "A lamp that holds on to the edge of a table.",
        {"color": ("warm white", "cool white"), "finish": ("brass", "black [matt]", "nickel")},
    ),
    Product(
        "B0AAA00006", "Quillon Floor Lamp", "floor lamps", _LAMPS, 84.0,
        ("dimmable", "easy assemble"), ("Dimmable by foot", "Easy to assemble"), "A lamp to read by.",
        {"finish": ("brass", "nickel")},
    ),
    Product(
        "B0AAA00007", "Pebble Night Light", "night lights", _LAMPS, 12.4,
        ("battery powered",), ("Battery powered", "Soft glow"), "A small light for a long corridor.",
        {"pack": ("2-pack", "2 pack, rechargeable")},
    ),
    Product(
        "B0AAA00008", "Brindle Travel Mug, Stainless Steel", "travel mugs", _KITCHEN, 19.95,
        ("stainless steel", "leak proof", "bpa free"), ("Leak proof lid", "BPA free", "Stainless steel"),
        "A mug that may lie in a bag.", {"color": ("rust", "cream"), "size": ("12 ounce", "16 ounce")},
    ),
    Product(
        "B0AAA00009", "Brindle Coffee Mug, Stoneware", "coffee mugs", _KITCHEN, 14.0,
        ("dishwasher safe", "lead free"), ("Dishwasher safe", "Lead free glaze"), "A mug that is heavy on purpose.",
        {"color": ("rust", "cream", "ink")},
    ),
    Product(
        "B0AAA00010", "Brindle Tea Glass with Handle", "tea glasses", _KITCHEN, 16.5,
        ("heat resistant", "dishwasher safe"), ("Heat resistant glass", "Dishwasher safe"), "A glass for tea.",
    ),
    Product(
        "B0AAA00011", "Larkspur Wireless Headphones", "headphones", _AUDIO, 89.0,
        ("noise cancelling", "wireless bluetooth"), ("Noise cancelling", "Wireless by bluetooth"),
        "Headphones that fold.", {"color": ("black", "sand")},
    ),
    Product(
        "B0AAA00012", "Larkspur Earbuds in a Case", "earbuds", "Electronics / Audio / Earbuds", 42.0,
        ("wireless bluetooth", "water resistant"), ("Wireless by bluetooth", "Water resistant"), "Earbuds to run with.",
        {"color": ("black", "mint")},
    ),
    Product(
        "B0AAA00013", "Fallow Wool Blanket", "blankets", "Home / Bedding / Blankets", 95.0,
        ("machine washable",), ("Machine washable wool",), "A blanket with fringes.",
        {"size": ("twin", "queen"), "color": ("oat", "moss green")},
    ),
    Product(
        "B0AAA00014", "Fallow Running Socks, Wool", "running socks", "Sports / Clothing / Socks", 17.8,
        ("machine washable", "moisture wicking"), ("Moisture wicking", "Machine washable"), "Socks for running shoes.",
        {"size": ("small", "medium", "large")},
    ),
    Product(
        "B0AAA00015", "Harrow Garden Gloves", "garden gloves", "Garden / Clothing / Gloves", 11.0,
        ("water resistant",), ("Water resistant palms",), "Gloves for roses.", {"size": ("small", "medium", "large")},
    ),
    Product(
        "B0AAA00016", "Harrow Watering Can", "watering cans", "Garden / Tools / Watering", 29.0,
        ("rust resistant",), ("Rust resistant", "Holds a gallon"), "A can with a long spout.",
    ),
)  # fmt: skip
GOALS = (
    Goal("B0AAA00001", "Find me water resistant running shoes for women with rubber sole",
         ("water resistant", "rubber sole"), 80.0, {"color": "moss green", "size": "9"}),
    Goal("B0AAA00008", "Find me a leak proof travel mug", ("leak proof",), 30.0, {"color": "rust", "size": "16 ounce"}),
    Goal("B0AAA00005", "i need a dimmable, space saving desk lamp", ("dimmable", "space saving"), 40.0,
         {"color": "warm white", "finish": "nickel"}),
    Goal("B0AAA00011", "i am looking for noise cancelling headphones", ("noise cancelling",), 100.0,
         {"color": "sand"}),
    Goal("B0AAA00016", "Find me a rust resistant watering can", ("rust resistant",), 40.0),
    Goal("B0AAA00013", "i want a machine washable blanket", ("machine washable",), 100.0,
         {"size": "queen", "color": "oat"}),
)  # fmt: skip
BY_ASIN = {one.asin: one for one in PRODUCTS}
_FILLERS = frozenset({"a", "for", "in", "of", "the", "with"})


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def found(keywords: str) -> list[Product]:
    """The things in which a word of the keywords is, those with the most of them first."""
    asked = set(words(keywords)) - _FILLERS

    def hits(one: Product) -> int:
        return len(asked & set(words(" ".join((one.name, one.kind, one.description, *one.features)))))

    return sorted(filter(hits, PRODUCTS), key=hits, reverse=True)


def type_reward(bought: Product, wanted: Product) -> float:
    """How near the kind of thing is, by the search that finds it, its categories and the words of its name."""
    names = set(words(wanted.name)) - _FILLERS
    share = len(names & set(words(bought.name))) / len(names)
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    categories = set(bought.category.split(" / ")) & set(wanted.category.split(" / "))
    return 1.0 if bought.kind == wanted.kind or len(categories) >= 2 or share > 0.2 else 0.5


def reward(bought: Product, options: Mapping[str, str], goal: Goal) -> float:
    """The share of attributes, options and price that are as wanted, times how near the kind is."""
    told = " ".join((bought.name, *bought.features, bought.description)).lower()
    attributes = sum(one in bought.attributes or one in told for one in goal.attributes)
    chosen = sum(value in options.values() for value in goal.options.values())
    share = (attributes + chosen + (bought.price <= goal.price)) / (len(goal.attributes) + len(goal.options) + 1)
    return share * type_reward(bought, BY_ASIN[goal.asin])


#: Results on a page.
PER_PAGE = 10


def way_to(goal: Goal) -> list[str]:
    """What is said by who knows the catalogue, and buys what a goal asks for."""
    product = BY_ASIN[goal.asin]
    turns = found(product.kind).index(product) // PER_PAGE
    skills = [f"search[{product.kind}]", *["click[next >]"] * turns, f"click[{goal.asin}]"]
    skills += [f"click[{value}]" for value in goal.options.values()]
    return [*(f"Act: {skill}" for skill in skills), "Act: click[Buy Now]", "Act: done"]
