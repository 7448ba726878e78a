"""AI2-THOR in words: names of its objects, and the wording of every observation and refusal.

Made only from the simulator's metadata (paper, table 9; wording as in the recorded ALFRED runs, with their mistakes).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reactree_ros.agent.household import Household
from reactree_ros.agent.needs import HERE, OPPOSITES, Need
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.text import said_number
from reactree_ros.errors import UserError
from reactree_ros.household.household import handling
from reactree_ros.household.rules import which_of
from reactree_ros.world.port import Seen

_ASKED_FOR = """
    AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth CreditCard
    Cup DeskLamp DishSponge Egg FloorLamp Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug
    Newspaper Pan Pen Pencil PepperShaker Pillow Plate Plunger Pot Potato RemoteControl SaltShaker SoapBar
    SoapBottle Spatula Spoon SprayBottle Statue TennisRacket TissueBox ToiletPaper Tomato Vase Watch WateringCan
    WineBottle
"""
#: Words for ``recall location of <word>``: portable things of ALFRED, and lamps.
RECALLABLE = tuple(sorted(_ASKED_FOR.split()))

# Receptacles in the quick look around a room: those that stay in place.
_STAYING = """
    ArmChair Bathtub BathtubBasin Bed Cabinet Cart CoffeeMachine CoffeeTable CounterTop Desk DiningTable Drawer Dresser
    Fridge GarbageCan HandTowelHolder LaundryHamper Microwave Ottoman PaintingHanger Safe Shelf SideTable Sink
    SinkBasin Sofa StoveBurner TVStand Toaster Toilet ToiletPaperHanger TowelHolder
"""
_FIXED = frozenset(_STAYING.split())
_OTHER = """
    AluminumFoil Blinds Boots Bottle Chair Curtains Desktop DogBed Dumbbell Faucet Floor Footstool GarbageBag HousePlant
    LaundryHamperLid LightSwitch Mirror Painting PaperTowelRoll Poster RoomDecor ScrubBrush ShelvingUnit ShowerCurtain
    ShowerDoor ShowerGlass ShowerHead Stool StoveKnob TableTopDecor TargetCircle TeddyBear Television Towel
    VacuumCleaner Wall Window
"""
#: Words of every type of object.
WORDS = tuple(sorted({*_ASKED_FOR.split(), *_STAYING.split(), *_OTHER.split()}))
# First number, last number, room.
_FLOOR_PLANS = ((1, 30, "kitchen"), (201, 230, "living room"), (301, 330, "bedroom"), (401, 430, "bathroom"))
# Distance, in metres, beyond which the distance explains a refused pick up.
_FAR = 2.5

# Flags of metadata: whether something is in a state, and whether it can be.
_STATES = {"open": ("isOpen", "openable"), "on": ("isToggled", "toggleable")}
_PAST = {"open": "opened", "close": "closed", "slice": "sliced"}

#: What is done in a room, with the flag of what it can be done to; what has to hold, in the recorded order.
SKILLS = (
    handling("go to", "goes to an object", "at"),
    handling("pick up", "takes an object into the empty hand", "held", "pickupable", near="{thing}", free="hand"),
    handling("put down", "puts it where you stand", "released", "", held="{thing}", **{"not": {"closed": HERE}}),
    handling("slice", "cuts an object into slices", "gone", "sliceable", near="{thing}"),
    handling("open", "opens something, to see what is in it", "open", "openable", closed="{thing}", near="{thing}"),
    handling("close", "closes something", "closed", "openable", open="{thing}", near="{thing}"),
    handling("turn on", "switches something on", "on", "toggleable", off="{thing}", near="{thing}"),
    handling("turn off", "switches something off", "off", "toggleable", on="{thing}", near="{thing}"),
)
_BY_VERB = {skill.verb: skill for skill in SKILLS}
# In the order in which they are offered, without what is done to held things alone.
_LISTED = [*(one for one in SKILLS if one.verb not in ("put down", "slice")), _BY_VERB["slice"]]

Thing = Mapping[str, Any]


def room_of(scene: str) -> str:
    """Return the kind of room of a scene, e.g. ``kitchen`` for ``FloorPlan1``."""
    match = re.fullmatch(r"FloorPlan([1-9][0-9]*)", scene)
    for first, last, room in _FLOOR_PLANS:
        if match is not None and first <= (said_number(match[1]) or 0) <= last:
            return room
    known = ", ".join(f"FloorPlan{first} to {last} ({room}s)" for first, last, room in _FLOOR_PLANS)
    raise UserError(f"unknown scene {scene!r}; there are {known}")


def word_of(thing: Thing) -> str:
    """Return the class that names an object: slices are named like the whole."""
    return re.sub(r"(Sliced|Cracked)$", "", thing["objectType"])


def is_slice(thing: Thing) -> bool:
    return str(thing["objectType"]).endswith("Sliced")


def names(objects: Iterable[Thing]) -> dict[str, str]:
    """Name every object, e.g. ``Book (1)``, by its id.

    Instances are numbered per class in reverse order of the simulator's own names. A number changes only when objects
    of its class appear or disappear, which is when something is sliced.
    """
    numbers: dict[str, int] = defaultdict(int)
    named = {}
    for thing in sorted(objects, key=lambda thing: (thing["name"], thing["objectId"]), reverse=True):
        word = word_of(thing)
        numbers[word] += 1
        named[thing["objectId"]] = f"{word} ({numbers[word]})"
    return named


def merged(named: Iterable[str]) -> str:
    """List names with the numbers of a class together: ``SideTable (1, 2), Bed (1)``."""
    numbers: dict[str, list[str]] = defaultdict(list)
    for name in named:
        word, number = name[:-1].split(" (")
        numbers[word].append(number)
    return ", ".join(f"{word} ({', '.join(instances)})" for word, instances in numbers.items())


class View:
    """One look at the simulator's metadata."""

    def __init__(self, objects: Sequence[Thing], *, held: Sequence[str] = (), room: str = "") -> None:
        by_id = {thing["objectId"]: thing for thing in objects}
        #: The room in words, e.g. ``bedroom``.
        self.room = room
        #: Their names by id, e.g. ``Book (1)``.
        self.names = names(objects)
        #: The objects by id, in the order of observations.
        self.objects: dict[str, Thing] = {id: by_id[id] for id in self.names}
        self.by_name = {name: by_id[id] for id, name in self.names.items()}  # the objects by name
        self.held = tuple(id for id in held if id in by_id)  # ids of held objects

    def name(self, thing: Thing) -> str:
        return self.names[thing["objectId"]]

    def visible(self) -> list[Thing]:
        return [thing for thing in self.objects.values() if thing["visible"]]

    def fixed(self) -> list[Thing]:
        """Return the receptacles that stay in place, wherever the agent stands."""
        return [thing for thing in self.objects.values() if thing["receptacle"] and word_of(thing) in _FIXED]

    def contains(self, receptacle: str, id: str) -> bool:
        """Return whether an object is in or on a receptacle, both by id; either of them may tell."""
        inside = self.objects[receptacle]["receptacleObjectIds"] or ()
        return id in inside or receptacle in (self.objects[id]["parentReceptacles"] or ())

    # ------------------------------------------------------------------ facts, see agent/needs.py

    def holds(self, fact: str, about: str) -> bool | None:
        if fact == "free":
            return not self.held
        if (thing := self.by_name.get(about)) is None:
            return None
        if fact == "held":
            return thing["objectId"] in self.held
        if fact == "near":
            return bool(thing["visible"]) and thing["distance"] <= _FAR
        state = fact if fact in _STATES else OPPOSITES.get(fact, "")
        flag, able = _STATES.get(state, ("", ""))
        if not flag or not (thing[flag] or thing[able]):
            return None
        return bool(thing[flag]) is (fact == state)

    def those(self, fact: str, about: str) -> Sequence[str]:
        return [about] if self.holds(fact, about) else []

    # ------------------------------------------------------------------ words

    def listed(self, things: Iterable[Thing]) -> str:
        """List objects: ``SideTable (1, 2), Bed (1)``."""
        return merged(self.name(thing) for thing in things)

    def holding_text(self) -> str:
        """Word held things, with a space before; empty if there are none."""
        return f" I am holding {self._held()} now." if self.held else ""

    def _held(self) -> str:
        return merged(self.names[id] for id in self.held)

    def starting_text(self) -> str:
        """Word the start of an agent node; the comma before ``Looking`` is as recorded."""
        return (
            f"You are in the house, and you arrive at the {self.room}, Looking quickly around the room, "
            f"you see {self.listed(self.fixed())}.{self.holding_text()}"
        )

    def see_text(self) -> str:
        return f"You see {self.listed(self.visible())}."

    def arrival_text(self, thing: Thing, *, already: bool = False) -> str:
        """Word an arrival, with the space at its end; a target without contents is not named, as recorded."""
        name, text = self.name(thing), f"{self.see_text() if self.visible() else 'There are no visible objects..'} "
        if already:
            text = f"You already arrive at {name}. {text}"
        elif thing["receptacle"]:
            text = f"You arrive at {name}. {text}"
        return text + self._state_text(thing)

    def no_way_text(self, thing: Thing) -> str:
        return f"Cannot move to {self.name(thing)}. {self._state_text(thing)}"

    def _state_text(self, thing: Thing) -> str:
        text = ""
        if thing["openable"]:
            text += f"{self.name(thing)} is {'open' if thing['isOpen'] else 'closed'}. "
        if thing["toggleable"] and thing["isToggled"]:
            text += f"{self.name(thing)} is already turned on. "
        return text

    def done_text(self, verb: str, name: str, *, place: str = "") -> str:
        """Word a successful skill other than ``go to``; `place` is the target of a put down."""
        what = f"put {name} on {place}" if verb == "put down" else f"{verb} {name}"
        text = f"You {what}. {self.see_text()}"
        if verb == "slice":
            text += f" {self.listed(thing for thing in self.objects.values() if is_slice(thing))} are sliced."
        return text

    def undone_text(self, verb: str, name: str, *, place: str = "") -> str:
        """Word that a ``pick up`` or ``put down`` was carried out but had no effect."""
        what = f"put {name} on {place}, but it is not there" if place else f"{verb} {name}, but it is not in your hand"
        return f"You tried to {what}. {self.see_text()}"

    def dropped_text(self) -> str:
        return f"You put down failed, drop it. {self.see_text()}"

    def refusal_text(self, verb: str, thing: Thing) -> str | None:
        """Word why a skill is refused; None if nothing is known to speak against it."""
        return next(filter(None, self._refusals(_BY_VERB[verb], thing)), None)

    def _refusals(self, skill: Skill, thing: Thing) -> Iterator[str]:
        name, unfit = self.name(thing), _unfit_text(skill, self.name(thing), thing)
        for need in skill.requires:
            refused = [self._refusal(need, skill, thing)] if need.holds({"thing": name}, self) is False else []
            if need.fact == "near":  # the kind is looked at with it, as recorded
                refused = [*refused, unfit] if skill.verb == "pick up" else [unfit, *refused]
            yield from refused

    def _refusal(self, need: Need, skill: Skill, thing: Thing) -> str:
        name, verb = self.name(thing), skill.verb
        if need.fact in ("free", "held"):
            return f"You are currently holding {self._held()}." if self.held else "You do not holding any object."
        if need.fact == "near":  # as recorded, only who picks up minds the distance
            return f"The {name} is not close to you." if verb == "pick up" or not thing["visible"] else ""
        return f"The {name} {f'is already {OPPOSITES[need.fact]}' if verb in _PAST else f'already {verb}'}."

    def failure_text(self, verb: str, thing: Thing, error: str = "") -> str:
        """Word that a skill failed although nothing spoke against it; `error` is the simulator's message."""
        name, said = self.name(thing), (error.splitlines() or [""])[0]
        if verb == "open":
            return f"The {name} is open failed."
        if verb == "close" and said:
            return said
        return f"The {name} {verb} failed{f': {said}' if said and verb != 'slice' else ''}."

    def available_skills(self) -> list[str]:
        """List the skills that may be tried: for the room's fixed receptacles and for visible things."""
        skills: dict[str, None] = {}
        fixed = self.fixed()
        for thing in fixed:
            skills.update(dict.fromkeys(self._skills_with(thing, far=True)))
        for thing in self.visible():
            skills.update(dict.fromkeys(self._skills_with(thing, far=False)))
        skills.update(dict.fromkeys(f"put down {self.names[id]}" for id in self.held))
        return list(skills)

    def _skills_with(self, thing: Thing, *, far: bool) -> list[str]:
        kinds = ((skill.verb, which_of(skill)) for skill in _LISTED if not (far and skill.verb in ("pick up", "slice")))
        return [f"{verb} {self.name(thing)}" for verb, kind in kinds if not kind or thing[kind]]

    def place_of(self, thing: Thing) -> str:
        """Name the place in working memory for things seen at an object.

        A receptacle that stays in place is its own place; any other object has the place of its first receptacle.
        """
        if thing["receptacle"] and not thing["pickupable"]:
            return self.name(thing)
        parents = (self.objects[id] for id in thing["parentReceptacles"] or () if id in self.objects)
        return next((self.name(parent) for parent in parents if word_of(parent) != "Floor"), self.name(thing))

    def seen_at(self, place: str) -> tuple[Seen, ...]:
        """Return the sightings of visible things from a place, without held things and fixed receptacles."""
        return tuple(
            self.sighting(thing, place=place)
            for thing in self.visible()
            if thing["objectId"] not in self.held and not (thing["receptacle"] and not thing["pickupable"])
        )

    def sighting(self, thing: Thing, *, place: str | None = None, held: bool = False) -> Seen:
        word, number = self.name(thing)[:-1].split(" (")
        return Seen(word, int(number), None, place, held=held, states=_states(thing))


def _unfit_text(skill: Skill, name: str, thing: Thing) -> str:
    kind, done = which_of(skill), _PAST.get(skill.verb, skill.verb)
    if skill.verb == "slice" and thing["isSliced"]:
        return f"The {name} already {done}."
    return "" if not kind or thing[kind] else f"The {name} cannot be {done}."


def _states(thing: Thing) -> tuple[str, ...]:
    states = {"OPEN" if thing["isOpen"] else "CLOSED"} if thing["openable"] else set()
    if thing["toggleable"]:
        states.add("ON" if thing["isToggled"] else "OFF")
    if is_slice(thing):
        states.add("SLICED")
    return tuple(sorted(states))


#: AI2-THOR's skills, with their prompts and fixed examples.
ALFRED = Household(
    name="alfred",
    skills=SKILLS,
    hands=1,
    solid=("Blinds", "Book", "Kettle", "Laptop", "ShowerCurtain", "ShowerDoor"),
    control_flows={
        "sequence": ('"sequence" (achieve subgoals sequentially. If any subgoal fails, the sequence is interrupted)'),
        "fallback": (
            '"fallback" (Attempt subgoals in order until one succeeds. If a subgoal is successful, the remaining '
            "subgoals are not attempted)"
        ),
    },
    naming="{word} ({instance})",
    max_decisions=100,
    max_steps=200,
    prompts="reactree_lab.worlds.ai2thor:prompts",
)
