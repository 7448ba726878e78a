"""ALFRED: usable trials are read, goals are scored as its evaluation does, anything else is one clear line."""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactree_lab.worlds.ai2thor.alfred import (
    Goal,
    HouseState,
    TaskType,
    load_trials,
)
from reactree_ros.errors import UserError
from reactree_ros.world.port import Score

sys.path.insert(0, str(Path(__file__).parent))

from thor_metadata import thing

SHARED = Path(__file__).resolve().parents[6] / "shared" / "data" / "alfred"
POSE = {"objectName": "Apple_1", "position": {"x": 0.0, "y": 1.0, "z": 0}, "rotation": {"x": 0.0, "y": 0.0, "z": 0.0}}
LINE: dict[str, Any] = {
    "task": "pick_and_place_simple-Apple-None-Fridge-1",
    "trial": "trial_T1",
    "split": "valid_seen",
    "task_type": "pick_and_place_simple",
    "pddl_params": {
        "object_target": "Apple",
        "parent_target": "Fridge",
        "toggle_target": "",
        "mrecep_target": "",
        "object_sliced": False,
    },
    "scene": {
        "floor_plan": "FloorPlan1",
        "object_poses": [POSE],
        "object_toggles": [{"objectType": "DeskLamp", "isOn": False}],
        "dirty_and_empty": False,
        "init_action": {"action": "TeleportFull", "x": 1.0, "y": 0.9, "z": 1.0, "rotation": 90, "horizon": 30},
    },
    "task_descs": ["Put an apple in the fridge.", "put the apple away"],
}
TRAJ_DATA: dict[str, Any] = {
    **{key: LINE[key] for key in ("task_type", "pddl_params", "scene")},
    "task_id": "trial_T1",
    "turk_annotations": {"anns": [{"task_desc": text, "high_descs": []} for text in LINE["task_descs"]]},
    "images": [],
}


def test_the_trials_of_valid_seen_are_read_and_their_goals_are_built() -> None:
    path = SHARED / "valid_seen.jsonl"
    if not path.exists():
        pytest.skip("the test material ../shared/data/alfred is not here")
    trials = load_trials(path)
    assert len(trials) == 251
    assert Counter(trial.goal.task_type for trial in trials) == {
        TaskType.PLACE: 46,
        TaskType.PLACE_TWO: 33,
        TaskType.LOOK_IN_LIGHT: 29,
        TaskType.CLEAN: 37,
        TaskType.HEAT: 34,
        TaskType.COOL: 38,
        TaskType.STACK: 34,
    }
    assert sum(trial.goal.sliced for trial in trials) == 40
    totals = Counter(trial.goal.conditions_met(HouseState(()))[1] for trial in trials)
    assert all(met == 0 for met in (trial.goal.conditions_met(HouseState(()))[0] for trial in trials))
    assert totals == {1: 46, 2: 32 + 29, 3: 33 + 20 + 27 + 24, 4: 4 + 14 + 11 + 10 + 1}


def test_a_trimmed_line_is_a_trial(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    path.write_text(json.dumps(LINE) + "\n\n", encoding="utf-8")
    [trial] = load_trials(path)
    assert (trial.instruction, len(trial.instructions)) == ("Put an apple in the fridge.", 2)
    assert trial.asks_for("Put the apple away.")
    assert trial.scene.object_poses[0].name == "Apple_1"
    assert trial.goal == Goal(TaskType.PLACE, "Apple", "Fridge")


def test_a_folder_of_the_original_is_searched_and_its_path_says_the_split(tmp_path: Path) -> None:
    folder = tmp_path / "json_2.1.0" / "valid_unseen" / "pick_and_place_simple-Apple-None-Fridge-1" / "trial_T1"
    folder.mkdir(parents=True)
    (folder / "traj_data.json").write_text(json.dumps(TRAJ_DATA), encoding="utf-8")
    for path in (tmp_path, folder, folder / "traj_data.json"):
        [trial] = load_trials(path)
        assert (trial.task, trial.trial) == (folder.parent.name, "trial_T1")
        assert trial.instructions == LINE["task_descs"]
        assert trial.goal == Goal(TaskType.PLACE, "Apple", "Fridge")


Change = Callable[[Any], object]
BAD: list[tuple[str, Change, str]] = [
    ("no type", lambda t: t.pop("task_type"), "task_type: field required"),
    ("unknown type", lambda t: t.update(task_type="pick_up"), "task_type: use one of pick_and_place_simple"),
    ("no parameters", lambda t: t.pop("pddl_params"), "pddl_params: field required"),
    ("no target", lambda t: t["pddl_params"].update(object_target=""), "pddl_params.object_target: string should have"),
    ("nowhere", lambda t: t["pddl_params"].update(parent_target=""), "pddl_params.parent_target is empty, but"),
    ("no scene", lambda t: t.pop("scene"), "scene: field required"),
    (
        "wrong scene",
        lambda t: t["scene"].update(floor_plan="FloorPlan99"),
        "scene.floor_plan: unknown scene 'FloorPlan99'",
    ),
    ("poses", lambda t: t["scene"].update(object_poses={}), "scene.object_poses: input should be a valid list"),
    ("pose", lambda t: t["scene"]["object_poses"][0].pop("position"), "scene.object_poses[0].position: field required"),
    (
        "infinite",
        lambda t: t["scene"]["object_poses"][0]["position"].update(x=float("inf")),
        "is not JSON: ",
    ),
    ("toggle", lambda t: t["scene"]["object_toggles"][0].update(isOn="no"), "scene.object_toggles[0].isOn: input"),
    (
        "start",
        lambda t: t["scene"]["init_action"].update(action="Fly"),
        "scene.init_action.action: use one of TeleportFull",
    ),
]
TRIMMED_ONLY: list[tuple[str, Change, str]] = [
    ("no instruction", lambda t: t.update(task_descs=[]), "task_descs: list should have at least 1 item"),
    ("empty instruction", lambda t: t["task_descs"].append(""), "task_descs[2]: string should have at least 1"),
    ("no trial", lambda t: t.pop("trial"), "trial: field required"),
]
ORIGINAL_ONLY: list[tuple[str, Change, str]] = [
    ("no instruction", lambda t: t["turk_annotations"].update(anns=[]), "turk_annotations.anns: list should have"),
    ("nobody", lambda t: t.pop("turk_annotations"), "turk_annotations: field required"),
    ("no words", lambda t: t["turk_annotations"]["anns"][1].pop("task_desc"), "anns[1].task_desc: field required"),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in BAD + TRIMMED_ONLY])
def test_a_bad_line_is_refused_with_its_number_and_field(tmp_path: Path, change: Change, message: str) -> None:
    bad = copy.deepcopy(LINE)
    change(bad)
    path = tmp_path / "trials.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n{json.dumps(bad)}\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_trials(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in BAD + ORIGINAL_ONLY])
def test_a_bad_original_is_refused_with_its_path_and_field(tmp_path: Path, change: Change, message: str) -> None:
    bad = copy.deepcopy(TRAJ_DATA)
    change(bad)
    path = tmp_path / "traj_data.json"
    path.write_text(json.dumps(bad), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_trials(tmp_path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_trials_a_missing_file_and_no_json_are_one_line_each(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no traj_data\.json"):
        load_trials(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        load_trials(tmp_path / "nothing.jsonl")
    path = tmp_path / "trials.jsonl"
    path.write_text('{"task":', encoding="utf-8")
    with pytest.raises(UserError, match=r"trials\.jsonl:1: is not JSON"):
        load_trials(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="holds no trial"):
        load_trials(path)


def holding(place: dict[str, Any], *things: dict[str, Any]) -> dict[str, Any]:
    return {**place, "receptacleObjectIds": [inside["objectId"] for inside in things]}


APPLE, OTHER_APPLE, FRIDGE, PLATE, TABLE = (
    thing("Apple", 1),
    thing("Apple", 2),
    thing("Fridge", 1),
    thing("Plate", 1),
    thing("DiningTable", 1),
)
SLICE = thing("AppleSliced", 1, objectId="Apple|1|AppleSliced_0", pickupable=True)
LAMP = thing("DeskLamp", 1, toggleable=True, isToggled=True, visible=True)
ON_TABLE = {**PLATE, "parentReceptacles": ["DiningTable|1"]}


SLICE_IN_FRIDGE = Goal(TaskType.PLACE, "AppleSliced", "Fridge", sliced=True)


@pytest.mark.parametrize(
    ("goal", "state", "met"),
    [
        (Goal(TaskType.PLACE, "Apple", "Fridge"), HouseState([APPLE, FRIDGE]), (0, 1)),
        (Goal(TaskType.PLACE, "Apple", "Fridge"), HouseState([APPLE, holding(FRIDGE, APPLE)]), (1, 1)),
        # as in ALFRED a slice of an apple is an apple
        (Goal(TaskType.PLACE, "Apple", "Fridge"), HouseState([SLICE, holding(FRIDGE, SLICE)]), (1, 1)),
        (
            Goal(TaskType.PLACE, "AppleSliced", "Fridge", sliced=True),
            HouseState([APPLE, holding(FRIDGE, APPLE)]),
            (0, 2),
        ),
        (SLICE_IN_FRIDGE, HouseState([SLICE, FRIDGE]), (1, 2)),
        (
            Goal(TaskType.PLACE, "AppleSliced", "Fridge", sliced=True),
            HouseState([SLICE, holding(FRIDGE, SLICE)]),
            (2, 2),
        ),
        (Goal(TaskType.PLACE_TWO, "Apple", "Fridge"), HouseState([APPLE, OTHER_APPLE, holding(FRIDGE, APPLE)]), (1, 2)),
        (
            Goal(TaskType.PLACE_TWO, "Apple", "Fridge"),
            HouseState([APPLE, OTHER_APPLE, holding(FRIDGE, APPLE, OTHER_APPLE)]),
            (2, 2),
        ),
        # one in each of two receptacles is one in the best of them
        (
            Goal(TaskType.PLACE_TWO, "Apple", "Fridge"),
            HouseState([APPLE, OTHER_APPLE, holding(FRIDGE, APPLE), holding(thing("Fridge", 2), OTHER_APPLE)]),
            (1, 2),
        ),
        (Goal(TaskType.PLACE_TWO, "Apple", "Fridge"), HouseState([APPLE]), (0, 2)),
        (Goal(TaskType.PLACE_TWO, "AppleSliced", "Fridge", sliced=True), HouseState([SLICE, FRIDGE]), (1, 4)),
        (Goal(TaskType.LOOK_IN_LIGHT, "Apple", lamp="DeskLamp"), HouseState([APPLE, LAMP]), (1, 2)),
        (Goal(TaskType.LOOK_IN_LIGHT, "Apple", lamp="DeskLamp"), HouseState([APPLE, LAMP], ["Apple|1"]), (2, 2)),
        (
            Goal(TaskType.LOOK_IN_LIGHT, "Apple", lamp="DeskLamp"),
            HouseState([APPLE, {**LAMP, "visible": False}], ["Apple|1"]),
            (1, 2),
        ),
        (Goal(TaskType.CLEAN, "Apple", "Fridge"), HouseState([APPLE, holding(FRIDGE, APPLE)]), (1, 3)),
        (
            Goal(TaskType.CLEAN, "Apple", "Fridge"),
            HouseState([APPLE, holding(FRIDGE, APPLE)], cleaned=frozenset(["Apple|1"])),
            (3, 3),
        ),
        (
            Goal(TaskType.HEAT, "Apple", "Fridge"),
            HouseState([APPLE, OTHER_APPLE, holding(FRIDGE, APPLE)], heated=frozenset(["Apple|2"])),
            (2, 3),
        ),
        (Goal(TaskType.COOL, "Apple", "DiningTable"), HouseState([APPLE], cooled=frozenset(["Apple|1"])), (1, 3)),
        (Goal(TaskType.COOL, "Apple", "DiningTable"), HouseState([APPLE], heated=frozenset(["Apple|1"])), (0, 3)),
        (
            Goal(TaskType.STACK, "Apple", "DiningTable", carrier="Plate"),
            HouseState([APPLE, holding(PLATE, APPLE), TABLE]),
            (1, 3),
        ),
        (
            Goal(TaskType.STACK, "Apple", "DiningTable", carrier="Plate"),
            HouseState([APPLE, holding(ON_TABLE, APPLE), holding(TABLE, PLATE)]),
            (3, 3),
        ),
        (
            Goal(TaskType.STACK, "Apple", "DiningTable", carrier="Plate"),
            HouseState([APPLE, ON_TABLE, holding(TABLE, PLATE)]),
            (1, 3),
        ),
    ],
)
def test_goal_conditions_are_counted_as_in_alfred(goal: Goal, state: HouseState, met: tuple[int, int]) -> None:
    assert goal.conditions_met(state) == met
    assert goal.score(state) == Score(gsr=float(met[0] == met[1]), ssr=met[0] / met[1])
