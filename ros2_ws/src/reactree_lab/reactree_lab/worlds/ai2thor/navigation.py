"""The agent's ways in AI2-THOR: which poses it tries, and where it stands."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from reactree_lab.worlds.ai2thor.alfred import Trial
from reactree_lab.worlds.ai2thor.wording import Thing
from reactree_ros.world.port import WorldError

#: Number of poses tried for one ``go to``.
TRIES = 20

# Height of the camera above the agent's position, in metres.
_CAMERA_HEIGHT = 0.675
# Lowest and highest view, in degrees.
_DOWN, _UP = 60.0, -30.0
# Looking a little above a target shows more of its surroundings.
_TILT = 0.9

Pose = dict[str, Any]
Step = Callable[..., dict[str, Any]]


class Navigation:
    """The agent's positions in one scene, and how it gets there; for one thread.

    Args:
        step: Takes a simulator action, and returns the metadata.
        interactable_poses: First try the poses from which the simulator says that an object can be handled, then the
            nearest reachable positions.
    """

    def __init__(self, step: Step, *, interactable_poses: bool) -> None:
        self._step = step
        self._interactable_poses = interactable_poses
        self._reachable: list[Pose] | None = None

    def arrive(self, thing: Thing) -> bool:
        """Stand where the object is visible, or at the first possible pose if it is visible from nowhere."""
        first = None
        for pose in islice(self._poses(thing), TRIES):
            metadata = self._step("TeleportFull", **pose)
            if not metadata["lastActionSuccess"]:
                continue
            if any(other["visible"] for other in metadata["objects"] if other["objectId"] == thing["objectId"]):
                return True
            first = first or pose
        return first is not None and bool(self._step("TeleportFull", **first)["lastActionSuccess"])

    def stand(self, position: Pose, rotation: float, horizon: float) -> bool:
        """Stand at a position with a view (in degrees), or nearby; return whether it is exactly there."""
        if self._teleports(position, rotation, horizon):
            return True
        nearby = islice(self._by_distance(position), TRIES)
        next((near for near in nearby if self._teleports(near, rotation, horizon)), None)
        return False

    def _teleports(self, position: Pose, rotation: float, horizon: float) -> bool:
        return bool(self._step("TeleportFull", **_pose(position, rotation, horizon))["lastActionSuccess"])

    def _poses(self, thing: Thing) -> Iterator[Pose]:
        target = thing["position"]
        if self._interactable_poses:
            metadata = self._step("GetInteractablePoses", objectId=thing["objectId"])
            poses = [pose for pose in metadata["actionReturn"] or () if pose["standing"]]
            for pose in sorted(poses, key=lambda pose: _distance(pose, target)):
                yield _pose(pose, pose["rotation"], pose["horizon"])
        for near in self._by_distance(target):
            yield _pose(near, *_towards(near, target))

    def _by_distance(self, target: Pose) -> list[Pose]:
        if self._reachable is None:
            self._reachable = list(self._step("GetReachablePositions")["actionReturn"] or ())
        return sorted(self._reachable, key=lambda position: _distance(position, target))


def _pose(position: Pose, rotation: float, horizon: float) -> Pose:
    return {
        "position": {axis: position[axis] for axis in "xyz"},
        "rotation": {"x": 0.0, "y": rotation, "z": 0.0},
        "horizon": horizon,
        "standing": True,
    }


def _towards(position: Pose, target: Pose) -> tuple[float, float]:
    rotation = math.degrees(math.atan2(target["x"] - position["x"], target["z"] - position["z"])) % 360
    down = math.degrees(math.atan2(position["y"] + _CAMERA_HEIGHT - target["y"], _distance(position, target)))
    return rotation, min(max(down * _TILT, _UP), _DOWN)


def _distance(one: Pose, other: Pose) -> float:
    return math.hypot(one["x"] - other["x"], one["z"] - other["z"])


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
