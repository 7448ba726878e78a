"""Objects as AI2-THOR's metadata has them, made for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reactree_lab.worlds.ai2thor.wording import RECALLABLE, View

LAMPS = {"DeskLamp", "FloorLamp"}
CARRIERS = {"Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot"}
NO_RECEPTACLES = {"Chair", "Faucet", "HousePlant", "LightSwitch", "StoveKnob", "Window", *LAMPS}


def thing(word: str, number: int = 1, **changes: Any) -> dict[str, Any]:
    """An object that is called `word (number)` where no other of its class has a number that is not given."""
    pickupable = word in RECALLABLE and word not in LAMPS
    return {
        "objectId": f"{word}|{number}",
        "objectType": word,
        "name": f"{word}_{999 - number:03}",
        "position": {"x": 0.0, "y": 0.0, "z": 0.0},
        "visible": False,
        "distance": 1.0,
        "pickupable": pickupable,
        "receptacle": word in CARRIERS or not (pickupable or word in NO_RECEPTACLES),
        "receptacleObjectIds": [],
        "parentReceptacles": None,
        "openable": False,
        "isOpen": False,
        "toggleable": False,
        "isToggled": False,
        "sliceable": False,
        "isSliced": False,
        **changes,
    }


def view(
    *, visible: Iterable[str] = (), present: Iterable[str] = (), held: Iterable[str] = (), **changes: dict[str, Any]
) -> View:
    """A view in which the named objects are visible, present or held, with changes to some of them.

    Args:
        visible: Names such as ``Book (2)``; lower numbers of the class are made, too, out of sight.
        present: The same for what is out of sight.
        held: The same for what is held.
        changes: Values of metadata by name, e.g. ``**{"Fridge (1)": {"openable": True}}``.
    """
    seen, all_held = set(visible), list(held)
    known = [split(name) for name in {*seen, *present, *all_held, *changes}]
    most = {word: max(number for other, number in known if other == word) for word, _ in known}
    objects = []
    for word, count in most.items():
        for number in range(1, count + 1):
            name = f"{word} ({number})"
            objects.append(thing(word, number, **{"visible": name in seen, **changes.get(name, {})}))
    ids = {f"{word} ({number})": f"{word}|{number}" for word, count in most.items() for number in range(1, count + 1)}
    return View(objects, held=[ids[name] for name in all_held], room="kitchen")


def split(name: str) -> tuple[str, int]:
    """`Book (2)` as class and number."""
    word, _, number = name[:-1].partition(" (")
    return word, int(number)
