"""ALFRED's rooms and knowledge of things, from files of the package ``alfworld``.

The files are read directly: importing the package would make a folder in the user's home.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import check_modules

#: Treatments of things, and the appliances for them.
TREATMENTS: Mapping[str, tuple[str, str]] = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}


@dataclass(frozen=True)
class Receptacle:
    #: Its id in ALFRED, e.g. ``Drawer|-02.28|+00.79|+00.44``.
    id: str
    #: Its kind, e.g. ``Drawer``.
    kind: str
    position: tuple[float, float, float] | None  # its position, in metres; None if ALFRED does not tell


@dataclass(frozen=True)
class Room:
    #: Its name, e.g. ``FloorPlan6``.
    plan: str
    receptacles: tuple[Receptacle, ...]
    things: tuple[str, ...]  # kinds of things in it, without receptacles

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.kind for one in self.receptacles))


@cache
def package() -> Path:
    """Return the folder of the package ``alfworld``."""
    check_modules("alfworld", "reactree_lab[alfworld]", ["alfworld"])
    found = find_spec("alfworld")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0])


@cache
def _known() -> Mapping[str, Any]:
    return runpy.run_path(str(package() / "gen" / "constants.py"))


@cache
def goals() -> Mapping[str, Mapping[str, Any]]:
    """Return each type of task in PDDL, and its wordings, with ``{obj}``, ``{recep}``, ``{toggle}``."""
    known: Mapping[str, Mapping[str, Any]] = runpy.run_path(str(package() / "gen" / "goal_library.py"))["gdict"]
    return known


def openable(kind: str) -> bool:
    return kind in _known()["OPENABLE_CLASS_SET"]


def may_hold(receptacle: str) -> Collection[str]:
    held: Collection[str] = _known()["VAL_RECEPTACLE_OBJECTS"].get(receptacle, ())
    return held


def can_be(treatment: str) -> Collection[str]:
    """Return the kinds of things that allow a treatment, e.g. ``Heatable`` or ``Toggleable``."""
    kinds: Collection[str] = _known()["VAL_ACTION_OBJECTS"][treatment]
    return kinds


def carries_things(kind: str) -> bool:
    """Return whether a kind of thing may hold others, like a mug."""
    return kind in _known()["MOVABLE_RECEPTACLES_SET"]


@cache
def portable() -> tuple[str, ...]:
    return tuple(sorted({kind.lower() for held in _known()["VAL_RECEPTACLE_OBJECTS"].values() for kind in held}))


@cache
def plans_for(task_type: str) -> tuple[str, ...]:
    numbers = _known()["SCENE_TYPE"]
    rooms = sorted(_known()["GOALS_VALID"][task_type])
    return tuple(f"FloorPlan{number}" for room in rooms for number in numbers[room] if _layout(number).exists())


def _layout(number: object) -> Path:
    return package() / "gen" / "layouts" / f"FloorPlan{number}-openable.json"


@cache
def room_of(plan: str) -> Room:
    """Read a room.

    A kind of receptacle without known positions gets one receptacle.
    """
    file = _layout(plan.removeprefix("FloorPlan"))
    if not file.exists():
        raise UserError(f"ALFRED has no room '{plan}'; its rooms are in {file.parent}")
    placed = [_placed(name) for name in sorted(json.loads(file.read_text(encoding="utf-8")))]
    there = json.loads((file.parent / f"{plan}-objects.json").read_text(encoding="utf-8"))
    told = {one.kind for one in placed}
    fixed = _known()["RECEPTACLES"] - _known()["MOVABLE_RECEPTACLES_SET"]
    others = [Receptacle(f"{kind}|1", kind, None) for kind in sorted(set(there) & fixed - told) if may_hold(kind)]
    portable = set().union(*map(may_hold, fixed)) | set(can_be("Toggleable"))
    return Room(plan, (*placed, *others), tuple(sorted((set(there) & portable) - fixed)))


def _placed(name: str) -> Receptacle:
    kind, x, y, z, *part = name.split("|")
    return Receptacle(name, part[0] if part else kind, (float(x), float(y), float(z)))
