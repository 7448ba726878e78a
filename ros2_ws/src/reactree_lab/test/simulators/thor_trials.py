"""ALFRED trials in the rooms of the peer."""

from __future__ import annotations

from typing import Any

import thor_peer

from reactree_lab.worlds.ai2thor.alfred import Trial
from reactree_lab.worlds.ai2thor.world import Ai2ThorSettings, Ai2ThorWorld


def setup_of(scene: str) -> dict[str, Any]:
    """A scene as the peer has it, in ALFRED's words."""
    house = thor_peer.House()
    house.load(scene)
    x, z, *_ = house.standing_at
    return {
        "floor_plan": scene,
        "object_poses": [
            {
                "objectName": thing.name,
                "position": {"x": thing.x, "y": thing.y, "z": thing.z},
                "rotation": {"x": 0.0, "y": 0.0, "z": 0.0},
            }
            for thing in house.present()
            if thing.pickupable
        ],
        "object_toggles": [],
        "dirty_and_empty": False,
        "init_action": {"action": "TeleportFull", "x": x, "y": 0.9, "z": z, "rotation": 180, "horizon": 30},
    }


def trial_of(
    task_type: str,
    scene: str,
    item: str,
    *,
    to: str = "",
    lamp: str = "",
    carrier: str = "",
    sliced: bool = False,
    instruction: str = "",
) -> Trial:
    """A trial of a type of task; without an instruction its words mean nothing."""
    params = {"object_target": item, "parent_target": to, "toggle_target": lamp, "mrecep_target": carrier}
    return Trial.model_validate(
        {
            "task": f"{task_type}-{item}-{carrier or None}-{to or lamp}-{scene[9:]}",
            "trial": "trial_T1",
            "split": "our_rooms",
            "task_type": task_type,
            "pddl_params": {**params, "object_sliced": sliced},
            "scene": setup_of(scene),
            "task_descs": [instruction or f"{task_type} with {item}"],
        }
    )


def world_of(*, trial: Trial | None = None, scored: bool = True, **options: Any) -> Ai2ThorWorld:
    tasks = "trials.jsonl" if trial else ""
    given = {"start_simulator": False, "time_limit": 10.0, "tasks": tasks, **options}
    return Ai2ThorWorld(Ai2ThorSettings.model_validate(given), trial, scored=scored)
