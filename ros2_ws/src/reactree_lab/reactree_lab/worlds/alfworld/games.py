"""ALFWorld's games: made up from seeds, made of ALFRED's trials, or a user's own files.

A game that is made here is a problem in ALFWorld's own domain: a room of ALFRED with things in it, and what is wanted.
Every one can be won, by how it is made; in ``test/simulators/test_alfworld.py`` ALFWorld's expert and a planner win
them.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from reactree_lab.worlds.ai2thor.alfred import TRAJ_DATA, Annotations, PddlParams, Trial
from reactree_lab.worlds.alfworld.rooms import (
    TREATMENTS,
    Receptacle,
    Room,
    can_be,
    carries_things,
    goals,
    may_hold,
    openable,
    package,
    plans_for,
    room_of,
)
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, parse_json, read_json
from reactree_ros.plugins.settings import fault_of

#: The types of tasks, in ALFWorld's order.
PLACE, LIGHT, TWO = "pick_and_place_simple", "look_at_obj_in_light", "pick_two_obj_and_place"
TASK_TYPES = (PLACE, LIGHT, *TREATMENTS, TWO)
#: File names of games.
GAME = "*.tw-pddl"
#: Most things of a kind in a made-up room.
MOST_OF_A_KIND = 3
_LAMP, _LAMP_PLACES = "DeskLamp", ("Desk", "SideTable", "Dresser", "Shelf", "CoffeeTable", "DiningTable")
#: The goal in ALFWorld's grammar.
_UNKNOWN_GOAL = "UNKNOWN GOAL"
_ASKED = re.compile(r'"rhs"\s*:\s*"Your task is to: ((?:[^"\\]|\\.)*?)\.?\s*"')
#: Kinds that the domain itself names.
_OF_THE_DOMAIN = {"objects": ("Knife", "ButterKnife"), "receptacles": ("SinkBasin", "Microwave", "Fridge")}


@dataclass(frozen=True)
class Wanted:
    task_type: str  # one of :data:`TASK_TYPES`
    #: The kind of thing, e.g. ``Apple``.
    item: str
    receptacle: str = ""  # the kind of receptacle it goes to; empty if it is looked at
    lamp: str = ""  # the kind of lamp it is looked at with; otherwise empty

    def worded(self, drawn: random.Random) -> str:
        """Ask for it in one of ALFRED's ways, e.g. ``put a clean apple in fridge``."""
        words = drawn.choice(goals()[self.task_type]["templates"])
        return str(words.format(obj=self.item.lower(), recep=self.receptacle.lower(), toggle=self.lamp.lower()))

    def in_pddl(self) -> str:
        """Return it as ALFRED's goal in PDDL, with the parenthesis that ends the problem."""
        goal = goals()[self.task_type]["pddl"].format(obj=self.item, recep=self.receptacle, toggle=self.lamp)
        return str(goal).replace("#", "-")


@dataclass(frozen=True)
class AlfworldTask:
    task_name: str  # the type of its task; empty if its files do not say
    instruction: str
    wanted: Wanted | None = (
        None  # the goal as data; None if the game's files do not say, or it is not a type of ALFWorld
    )
    house: str = ""  # its room; empty for a file
    problem: str = field(default="", repr=False)  # its problem in PDDL; empty for a file
    file: Path | None = None
    unplayable: str = ""  # why its file cannot be played; empty if it can

    def data(self) -> dict[str, Any]:
        """Return the game in the form that TextWorld loads."""
        if self.file is not None:
            return _read_json(self.file)
        return {
            "pddl_domain": _text("alfred.pddl"),
            "grammar": _text("alfred.twl2").replace(_UNKNOWN_GOAL, self.instruction),
            "pddl_problem": self.problem,
        }


def _text(name: str) -> str:
    return (package() / "data" / name).read_text(encoding="utf-8")


# ---------------------------------------------------------------------- made up


def made_up(task_type: str, seed: int) -> AlfworldTask:
    drawn = random.Random(f"{task_type} {seed}")
    plans = list(plans_for(task_type))
    drawn.shuffle(plans)
    rooms = map(room_of, plans)
    room, possible = next((room, found) for room in rooms if (found := _possible(task_type, room)))
    wanted = drawn.choice(possible)
    counts = {kind: drawn.randint(1, MOST_OF_A_KIND) for kind in room.things}
    counts[wanted.item] = drawn.randint(1 + (task_type == TWO), MOST_OF_A_KIND)
    things = [f"{kind}|{number}" for kind in room.things for number in range(1, counts[kind] + 1)]

    def place(thing: str, allowed: Sequence[Receptacle]) -> Receptacle:
        return drawn.choice(allowed)

    return _game(room, wanted, wanted.worded(drawn), _placed(room, wanted, things, place))


def _possible(task_type: str, room: Room) -> list[Wanted]:
    things = room.things
    if task_type == LIGHT:
        lamps = [_LAMP] if _LAMP in things and set(_LAMP_PLACES) & set(room.kinds) else []
        return [Wanted(task_type, item, lamp=lamp) for item in things for lamp in lamps if item not in _lamps()]
    treatment, appliance = TREATMENTS.get(task_type, ("", ""))
    if appliance and appliance not in room.kinds:
        return []
    items = [item for item in things if not treatment or item in can_be(treatment)]
    return [
        Wanted(task_type, item, kind)
        for item, kind in product(items, room.kinds)
        if kind != appliance
        and item in may_hold(kind)
        and any(item in may_hold(other) for other in room.kinds if other != kind)
    ]


def _lamps() -> frozenset[str]:
    return frozenset(can_be("Toggleable"))


def _placed(
    room: Room,
    wanted: Wanted,
    things: Iterable[str],
    place: Callable[[str, Sequence[Receptacle]], Receptacle],
) -> dict[str, Receptacle]:
    found = {}
    for thing in things:
        kind = thing.partition("|")[0]
        taken = wanted.receptacle if kind == wanted.item else ""
        if allowed := [one for one in room.receptacles if one.kind != taken and _may_be_in(kind, one.kind)]:
            found[thing] = place(thing, allowed)
    return found


def _may_be_in(kind: str, receptacle: str) -> bool:
    return receptacle in _LAMP_PLACES if kind in _lamps() else kind in may_hold(receptacle)


# ---------------------------------------------------------------------- of ALFRED's trials


def of_trial(trial: Trial) -> AlfworldTask:
    """Make a game from an ALFRED trial: its room, its things, each in the nearest possible place, its task.

    A trial tells the positions of things, but not their receptacles; ALFWorld's own game of the same trial differs in
    that.
    """
    params, name = trial.pddl_params, f"{trial.task}/{trial.trial}"
    wanted = _wanted(trial.task_type.value, params)
    if wanted is None:
        raise UserError(f"{name}: ALFWorld has no tasks with slices, or of the type {trial.task_type.value}")
    room = room_of(trial.scene.floor_plan)
    if wanted.receptacle and wanted.receptacle not in room.kinds:
        raise UserError(f"{name}: ALFWorld does not know of a {wanted.receptacle} in {room.plan}")
    numbers: Counter[str] = Counter()
    positions = {}
    for pose in trial.scene.object_poses:
        kind = pose.name.partition("_")[0]
        numbers[kind] += 1
        positions[f"{kind}|{numbers[kind]}"] = (pose.position.x, pose.position.y, pose.position.z)
    lamps = [f"{wanted.lamp}|1"] if wanted.lamp else []

    def place(thing: str, allowed: Sequence[Receptacle]) -> Receptacle:
        told = [one for one in allowed if one.position is not None and thing in positions]
        return min(told, key=lambda one: math.dist(positions[thing], one.position or ())) if told else allowed[0]

    start = _placed(room, wanted, [*positions, *lamps], place)
    there = Counter(thing.partition("|")[0] for thing in start)
    if there[wanted.item] < 1 + (wanted.task_type == TWO) or (wanted.lamp and not there[wanted.lamp]):
        raise UserError(f"{name}: {room.plan} has no place for the wanted things")
    return _game(room, wanted, wanted.worded(random.Random(name)), start)


def _wanted(task_type: str, params: PddlParams) -> Wanted | None:
    if task_type not in TASK_TYPES or params.object_sliced:
        return None
    return Wanted(task_type, params.object_target, params.parent_target, params.toggle_target)


# ---------------------------------------------------------------------- in PDDL


def _game(room: Room, wanted: Wanted, instruction: str, start: Mapping[str, Receptacle]) -> AlfworldTask:
    return AlfworldTask(wanted.task_type, instruction, wanted, room.plan, _problem(room, wanted, start))


def _problem(room: Room, wanted: Wanted, start: Mapping[str, Receptacle]) -> str:
    kinds = {thing: thing.partition("|")[0] for thing in start}
    thing_kinds = sorted({*kinds.values(), *_OF_THE_DOMAIN["objects"], wanted.item})
    room_kinds = sorted({*room.kinds, *_OF_THE_DOMAIN["receptacles"]})
    places = {one: f"place_{number}" for number, one in enumerate(room.receptacles, 1)}
    names: dict[str, list[str]] = defaultdict(list)
    names["agent"] = ["agent1"]
    names["location"] = ["middle", *places.values()]
    names["receptacle"] = [_id(one.id) for one in room.receptacles]
    names["object"] = [_id(thing) for thing in start]
    names["rtype"] = [f"{kind}Type" for kind in room_kinds]
    names["otype"] = [f"{kind}Type" for kind in thing_kinds if kind not in room_kinds]
    facts = ["atLocation agent1 middle"]
    for one, place in places.items():
        facts += [f"receptacleType {_id(one.id)} {one.kind}Type", f"receptacleAtLocation {_id(one.id)} {place}"]
        facts += [f"openable {_id(one.id)}"] if openable(one.kind) else []
    for kind in room.kinds:
        facts += [f"canContain {kind}Type {held}Type" for held in thing_kinds if held in may_hold(kind)]
    for thing, one in start.items():
        facts += _of(thing, kinds[thing])
        facts += [f"inReceptacle {_id(thing)} {_id(one.id)}", f"objectAtLocation {_id(thing)} {places[one]}"]
    listed = "\n".join(f"    {' '.join(of_kind)} - {kind}" for kind, of_kind in names.items() if of_kind)
    init = "\n".join(f"    ({fact})" for fact in facts)
    return (
        f"(define (problem {room.plan})\n  (:domain alfred)\n  (:objects\n{listed}\n  )\n"
        f"  (:init\n    (= (total-cost) 0)\n{init}\n  )\n{wanted.in_pddl()}"
    )


def _of(thing: str, kind: str) -> list[str]:
    can = {
        "cleanable": kind in can_be("Cleanable"),
        "heatable": kind in can_be("Heatable"),
        "coolable": kind in can_be("Coolable"),
        "sliceable": kind in can_be("Sliceable"),
        "toggleable": kind in _lamps(),
        "pickupable": kind not in _lamps(),
        "isReceptacleObject": carries_things(kind),
    }
    return [f"objectType {_id(thing)} {kind}Type", *(f"{fact} {_id(thing)}" for fact, holds in can.items() if holds)]


def _id(name: str) -> str:
    for sign, word in (("|", "_bar_"), ("+", "_plus_"), ("-", "_minus_"), (".", "_dot_")):
        name = name.replace(sign, word)
    return name


# ---------------------------------------------------------------------- files


class _TrajData(BaseModel):
    model_config = ConfigDict(extra="ignore")
    task_type: str
    pddl_params: PddlParams
    turk_annotations: Annotations | None = None


def game_files(folder: Path) -> list[Path]:
    """Return the games in a folder, without those of tasks that ALFWorld itself leaves out."""
    if not folder.is_dir():
        raise UserError(f"games: no folder {folder}; alfworld-download fills one, json_2.1.1")
    found = [file for file in sorted(folder.rglob(GAME)) if "movable" not in str(file) and "Sliced" not in str(file)]
    if not found:
        raise UserError(
            f"games: {folder} has no {GAME}; name a folder of ALFWorld such as json_2.1.1/valid_seen, or a file or "
            "folder of ALFRED's trials"
        )
    return found


def type_of(file: Path) -> str:
    """Return the type of a game's task from its folders' names; empty if they do not say."""
    return next((kind for kind in TASK_TYPES for name in file.parts if name.startswith(f"{kind}-")), "")


def of_file(file: Path) -> AlfworldTask:
    """Read a game's goal; an unplayable game says why."""
    try:
        data, beside = _read_json(file), _beside(file)
        if data.get("solvable") is False:
            raise UserError(f"{file}: ALFWorld marks it as unsolvable; leave it out")
        instruction = _instruction(file, data, beside)
    except UserError as error:
        return AlfworldTask(type_of(file), f"play {file}", file=file, unplayable=str(error))
    wanted = _wanted(beside.task_type, beside.pddl_params) if beside else None
    return AlfworldTask(beside.task_type if beside else type_of(file), instruction, wanted, file=file)


def _instruction(file: Path, data: Mapping[str, Any], beside: _TrajData | None) -> str:
    asked = _ASKED.search(str(data.get("grammar", "")))
    if asked is not None and asked[1] != _UNKNOWN_GOAL:
        try:
            return str(parse_json(f'"{asked[1]}"'))
        except ValueError as error:
            raise UserError(f"{file}: the goal in its grammar is not text: {error}") from None
    if beside is not None and beside.turk_annotations is not None:
        return beside.turk_annotations.anns[0].task_desc
    raise UserError(f"{file}: neither its grammar nor {TRAJ_DATA} next to it names the goal")


def _beside(file: Path) -> _TrajData | None:
    """Read the trial next to a game; None if there is none."""
    beside = file.parent / TRAJ_DATA
    if not beside.exists():
        return None
    try:
        return _TrajData.model_validate(_read_json(beside))
    except ValidationError as error:
        fault = fault_of(error, _TrajData)
        raise UserError(f"{beside}: {'.'.join(map(str, fault.path))}: {fault.said}") from None


def _read_json(file: Path) -> dict[str, Any]:
    return read_json(file, "game of ALFWorld", lambda values: checked(dict[str, Any], values))
