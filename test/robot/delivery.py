"""The delivery robot of an owner (`../shared/data/delivery_robot`), with its owner's rules in YAML."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

SHARED = Path(__file__).parents[3] / "shared/data/delivery_robot"
#: What the owner adds to some skills.
RULES: Mapping[str, Mapping[str, Any]] = {
    "navigate": {
        "description": "drives to a place, and stops before obstacles",
        "requires": [
            {"number": {"speed": {"at_most": 0.8, "while": "people"}}},
            {"while": {"not": {"open": "drawer"}}},
        ],
        "uses": ["base"],
    },
    "open drawer": {"effect": {"open": "drawer {number}"}, "uses": ["drawers"]},
    "close drawer": {"effect": {"closed": "drawer {number}"}, "uses": ["drawers"]},
    "load": {
        "description": "takes something from the counter and lays it into a drawer",
        "requires": {"at": "counter", "open": "drawer {drawer}"},
        "effect": {"held": "item"},
        "uses": ["arm", "drawers"],
    },
    "hand over": {"requires": {"held": "{item}"}, "effect": {"released": "item", "place": "person"}, "uses": ["arm"]},
    "move arm": {"uses": ["arm"]},
    "say": {"uses": ["voice"]},
    "wait for person": {"uses": ["eyes"]},
}


def delivery_robot(
    folder: Path, rules: Mapping[str, Mapping[str, Any]] = RULES, *, without: Collection[str] = (), **more: Any
) -> Path:
    """Copy the robot into a folder and return its `robot.yaml`, with rules for its skills."""
    if not SHARED.is_dir():
        pytest.skip(f"needs {SHARED}")
    shutil.copytree(SHARED, folder, dirs_exist_ok=True)
    file = folder / "robot.yaml"
    config = yaml.safe_load(file.read_text().replace("@DIR@", str(folder)))
    config.pop("mcp")  # a server of another process, which no rule is about
    for name, added in rules.items():
        config["skills"][name] |= added
    for name in without:
        del config["skills"][name]
    file.write_text(yaml.safe_dump(config | more, sort_keys=False))
    policy = folder / "policy.yaml"
    known = yaml.safe_load(policy.read_text())["rules"]
    policy.write_text(yaml.safe_dump({"rules": [rule for rule in known if rule["skill"] != "who_is_in"]}))
    return file


COUNTER, DESK, CHARGER = (f"navigate to {place} at 0.5 m/s" for place in ("counter", "nurse desk", "charger"))


def loading(item: str, drawer: int) -> Sequence[str]:
    return f"open drawer {drawer}", f"load the {item} into drawer {drawer}", f"close drawer {drawer}"


def brings(item: str, drawer: int, person: str, *way: str) -> Sequence[str]:
    return COUNTER, *loading(item, drawer), *way, f"hand the {item} over to {person}"


def measures(room: str, way: str) -> Sequence[str]:
    return f"measure the temperature of {room}", way, "say It is 21 degrees, Anna"


def shows(drawer: int, way: str) -> Sequence[str]:
    return way, f"open drawer {drawer}", "move the arm to reach", f"close drawer {drawer}", CHARGER, "dock"


BRING = brings("pills", 3, "Anna", DESK)
#: Errands with how they are done, each with one that is to be done by the same routine: another drawer, another person.
ERRANDS: Mapping[str, tuple[Sequence[str], str, Sequence[str]]] = {
    "Bring the pills to Anna": (BRING, "Bring the bandages to Bob", brings("bandages", 3, "Bob", DESK)),
    "Load the bandages into drawer 2 at the counter for Anna": (
        brings("bandages", 2, "Anna"),
        "Load the blood sample into drawer 4 at the counter for Bob",
        brings("blood sample", 4, "Bob"),
    ),
    "Give the pills in drawer 3 to Anna at the nurse desk": (
        BRING,
        "Give the pills in drawer 5 to Bob at the charger",
        brings("pills", 5, "Bob", CHARGER),
    ),
    "Measure the temperature of the nursery, then say it to Anna at the charger": (
        measures("nursery", CHARGER),
        "Measure the temperature of ward A, then say it to Anna at the nurse desk",
        measures("ward A", DESK),
    ),
    "Show drawer 1 at the nurse desk, then dock at the charger": (
        shows(1, DESK),
        "Show drawer 6 at the counter, then dock at the charger",
        shows(6, COUNTER),
    ),
}


def without_needless(way: Sequence[str], at: str) -> list[str]:
    """Leave out drives to where the robot stands, which a drive of these words has led to."""
    kept = []
    for skill in way:
        if not skill.startswith("navigate") or skill.split(" at ")[0] != at.split(" at ")[0]:
            kept.append(skill)
        at = skill if skill.startswith(("navigate", "dock")) else at
    return kept
