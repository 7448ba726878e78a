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


def loading(item: str, drawer: int) -> tuple[str, ...]:
    return f"open drawer {drawer}", f"load the {item} into drawer {drawer}", f"close drawer {drawer}"


BRING = (COUNTER, *loading("pills", 3), DESK, "hand the pills over to Anna")
#: Errands with how they are done, each with one that is to be done by the same routine: another drawer, another person.
ERRANDS: Mapping[str, tuple[Sequence[str], str, Sequence[str]]] = {
    "Bring the pills to Anna": (
        BRING,
        "Bring the bandages to Bob",
        (COUNTER, *loading("bandages", 3), DESK, "hand the bandages over to Bob"),
    ),
    "Load the bandages into drawer 2 at the counter for Anna": (
        (COUNTER, *loading("bandages", 2), "hand the bandages over to Anna"),
        "Load the blood sample into drawer 4 at the counter for Bob",
        (COUNTER, *loading("blood sample", 4), "hand the blood sample over to Bob"),
    ),
    "Give the pills in drawer 3 to Anna at the nurse desk": (
        BRING,
        "Give the pills in drawer 5 to Bob at the charger",
        (COUNTER, *loading("pills", 5), CHARGER, "hand the pills over to Bob"),
    ),
    "Measure the temperature of the nursery, then say it to Anna at the charger": (
        ("measure the temperature of nursery", CHARGER, "say It is 21 degrees, Anna"),
        "Measure the temperature of ward A, then say it to Anna at the nurse desk",
        ("measure the temperature of ward A", DESK, "say It is 21 degrees, Anna"),
    ),
    "Show drawer 1 at the nurse desk, then dock at the charger": (
        (DESK, "open drawer 1", "move the arm to reach", "close drawer 1", CHARGER, "dock"),
        "Show drawer 6 at the counter, then dock at the charger",
        (COUNTER, "open drawer 6", "move the arm to reach", "close drawer 6", CHARGER, "dock"),
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
