"""Sets a scene of AI2-THOR to the state of an ALFRED trial."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from reactree_lab.worlds.ai2thor.alfred import Trial
from reactree_lab.worlds.ai2thor.navigation import Navigation, Pose, Step
from reactree_lab.worlds.ai2thor.wording import Thing
from reactree_ros.world.port import WorldError

_log = logging.getLogger(__name__)


def restore(trial: Trial, metadata: Mapping[str, Any], step: Step, navigation: Navigation) -> None:
    """Set a newly loaded scene, with this metadata, to the trial's state by simulator actions.

    ALFRED's simulator could set all toggles, or make everything dirty, at once. The current one cannot, so objects are
    set one by one.
    """
    setup = trial.scene

    def force(action: str, thing: Thing) -> None:
        step(action, objectId=thing["objectId"], forceAction=True)

    if poses := _restored_poses(trial, metadata["objects"]):
        metadata = step("SetObjectPoses", objectPoses=poses)
        if not metadata["lastActionSuccess"]:
            raise WorldError(f"{trial.trial}: the objects cannot be set as the trial says: {metadata['errorMessage']}")
    wanted = {toggle.type: toggle.is_on for toggle in setup.object_toggles}
    for thing in metadata["objects"]:
        on = wanted.get(thing["objectType"])
        if on is not None and thing["toggleable"] and thing["isToggled"] != on:
            force("ToggleObjectOn" if on else "ToggleObjectOff", thing)
        if setup.dirty_and_empty and thing["dirtyable"] and not thing["isDirty"]:
            force("DirtyObject", thing)
        if setup.dirty_and_empty and thing["canFillWithLiquid"] and thing["isFilledWithLiquid"]:
            force("EmptyLiquidFromObject", thing)
    begin, height = setup.init_action, metadata["agent"]["position"]["y"]
    if not navigation.stand({"x": begin.x, "y": height, "z": begin.z}, begin.rotation, begin.horizon):
        _log.warning("%s: the agent cannot stand where the trial starts; it starts nearby", trial.trial)


def _restored_poses(trial: Trial, objects: Sequence[Thing]) -> list[Pose]:
    """Return the poses for ``SetObjectPoses``, which removes every movable object that is not in them.

    ALFRED uses the object names of its own simulator: an unknown name takes another object of its class. Furniture,
    which ALFRED does not list, stays in place.
    """
    known = {thing["name"]: thing for thing in objects if thing["pickupable"] or thing["moveable"]}
    spare: dict[str, list[str]] = defaultdict(list)
    for name in sorted(known):
        spare[name.partition("_")[0]].append(name)
    taken: dict[str, str] = {pose.name: pose.name for pose in trial.scene.object_poses if pose.name in known}
    poses = []
    for pose in trial.scene.object_poses:
        of_class = spare[pose.name.partition("_")[0]]
        if pose.name not in taken:
            if not of_class:
                _log.warning("%s: %s has no %s", trial.trial, trial.scene.floor_plan, pose.name)
                continue
            taken[pose.name] = next((name for name in of_class if name not in taken.values()), of_class[0])
        place, turned = pose.position.model_dump(), pose.rotation.model_dump()
        poses.append({"objectName": taken[pose.name], "position": place, "rotation": turned})
    if poses:
        stay = (thing for thing in known.values() if thing["moveable"] and thing["name"] not in taken.values())
        poses += ({"objectName": t["name"], "position": t["position"], "rotation": t["rotation"]} for t in stay)
    return poses
