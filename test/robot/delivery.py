"""The delivery robot of an owner (`../shared/data/delivery_robot`), with its owner's rules in YAML."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
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
