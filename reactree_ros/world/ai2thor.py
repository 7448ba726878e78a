"""The AI2-THOR world: skills carried out by the simulator, observations made from its metadata."""

from __future__ import annotations

import importlib.util
import io
import logging
import math
import os
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from reactree_ros.agent.prompt import Domain
from reactree_ros.errors import UserError
from reactree_ros.pending import Pending
from reactree_ros.world.alfred import HouseState, Trial
from reactree_ros.world.port import GONE, Observation, Outcome, Score, World, WorldError
from reactree_ros.world.thor_simulator import GRID_SIZE, Simulator, SimulatorOptions, Stopped, Worker
from reactree_ros.world.thor_wording import RECALLABLE, VERBS, Thing, View, room_of, word_of

#: Poses that are tried for one ``go to``.
TRIES = 20
#: Steps that the agent goes back to let something open.
STEPS_BACK = 3

# How far the camera is above the agent's position, in metres.
_CAMERA_HEIGHT = 0.675
# How far it looks down and up, in degrees.
_DOWN, _UP = 60.0, -30.0
# Looking a little above a target shows more of what is around it.
_TILT = 0.9
# Nearer than this, in metres, the agent does not go to what it sees.
_NEAR = 0.5
_CLOSE_LIMIT = 5.0
_ACTIONS = {
    "pick up": "PickupObject",
    "close": "CloseObject",
    "turn on": "ToggleObjectOn",
    "turn off": "ToggleObjectOff",
    "slice": "SliceObject",
}
# What holds things where the object itself does not.
_BASINS = {"Sink": "SinkBasin", "Bathtub": "BathtubBasin", "Faucet": "SinkBasin"}

T = TypeVar("T")
Pose = dict[str, Any]
_log = logging.getLogger(__name__)


class Ai2ThorWorld(World):
    """A room of AI2-THOR: an ALFRED trial, or a scene without a goal.

    The simulator is started, or waited for, on first use, and everything it does is done in one thread. Where it
    hangs, breaks or is gone, what was asked for fails with :class:`~reactree_ros.world.port.WorldError` within the
    limits, and so does everything until a :meth:`reset`, which starts anew.

    Something that is put down goes to the receptacle that the agent went to or opened last; where it went to an
    object, to the receptacle that the object is in or on. What cannot be put down there is dropped, as recorded.

    Args:
        scene: A scene of iTHOR, e.g. ``FloorPlan1``.
        trial: An ALFRED trial, which says its scene itself.
        host: Where this process listens for the simulator.
        port: The port; 0 takes a free one, see :attr:`port`.
        start_unity: Start the simulator; otherwise one that runs already connects to host and port.
        headless: Render without a display (CloudRendering).
        executable: A build of the simulator on this machine; by default the client downloads its own.
        x_display: The X display to render on, e.g. ``:0``.
        force: Force every action on an object; otherwise only opening and putting down are, as in ALFRED.
        interactable_poses: Go to the poses from which the simulator says that an object can be handled; otherwise
            to the nearest reachable positions.
        time_limit: Limit of one simulator action, in seconds.
        start_limit: Limit of the start, in seconds, with a download of the simulator.
        scored: Whether the trial's goal is what is asked for; otherwise there is no score.
        pictures: Whether observations carry what the agent's camera sees.
        width: Width of a picture in pixels.
        height: Height of a picture in pixels.

    Raises:
        UserError: Not exactly one of scene and trial, an unknown scene, a limit that is none, an executable that
            cannot be run, nothing to render on, or pictures without what makes them.
    """

    recallable = RECALLABLE
    domain = Domain.ALFRED

    def __init__(
        self,
        *,
        scene: str | None = None,
        trial: Trial | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        start_unity: bool = True,
        headless: bool = False,
        executable: str | None = None,
        x_display: str | None = None,
        force: bool = False,
        interactable_poses: bool = False,
        time_limit: float = 30.0,
        start_limit: float = 300.0,
        scored: bool = True,
        pictures: bool = False,
        width: int = 300,
        height: int = 300,
    ) -> None:
        if (scene is None) == (trial is None):
            raise UserError("give the AI2-THOR world a scene or a trial, and not both")
        for name, limit in (("time_limit", time_limit), ("start_limit", start_limit)):
            if not (math.isfinite(limit) and limit > 0):
                raise UserError(f"{name} must be a positive number of seconds, not {limit}")
        if pictures and importlib.util.find_spec("PIL") is None:
            raise UserError("pictures need the package pillow: pip install 'reactree_ros[ai2thor]'")
        self.scene = trial.scene.floor_plan if trial is not None else str(scene)
        self.trial = trial
        self._room = room_of(self.scene)
        if start_unity:
            _check_start(executable, x_display or os.environ.get("DISPLAY"), headless)
        self._options = SimulatorOptions(
            host=host,
            port=port or _free_port(host),
            start_unity=start_unity,
            headless=headless,
            executable=executable,
            x_display=x_display,
            time_limit=time_limit,
            start_limit=start_limit,
            width=width,
            height=height,
        )
        self._scored, self._pictures = scored, pictures
        self._force = force
        self._interactable_poses = interactable_poses
        self._lock = threading.Lock()
        self._closed = False
        self._worker: Worker | None = None
        self._simulator: Simulator | None = None
        self._forget()

    def _forget(self) -> None:
        self._ready = False
        self._reachable: list[Pose] | None = None
        self._place = ""  # id of the receptacle that a put down goes to
        self._stand = ""  # name of the place that working memory keeps for what is seen
        self._treated: dict[str, set[str]] = defaultdict(set)  # ids of what was cleaned, heated, cooled

    @property
    def port(self) -> int:
        """The port on which this process listens for the simulator."""
        return self._options.port

    def reset(self) -> Pending[None]:
        """Bring the scene back to where its trial starts; after the simulator was lost, start it anew."""
        return self._submit(self._start, anew=True)

    def observe(self) -> Pending[Observation]:
        """Look around: the fixed receptacles of the room, and what is held."""
        return self._submit(self._observe)

    def available_skills(self) -> Pending[Sequence[str]]:
        """List the skills for the fixed receptacles of the room and for what the agent sees."""
        return self._submit(lambda turn: self._view(turn).available_skills())

    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill, e.g. ``pick up Book (1)``; what it says and refuses is worded as recorded."""
        return self._submit(lambda turn: self._pictured(self._execute(turn, skill)))

    def score(self) -> Pending[Score | None]:
        """Score the trial's goal as ALFRED does; None where there is none."""
        trial = self.trial
        if trial is None or not self._scored:
            return Pending.of(None)
        return self._submit(lambda turn: trial.goal.score(self._house_state(turn)))

    def frame(self) -> Any:
        """Return the latest picture, an RGB array of height by width by 3 bytes; None where there is none yet."""
        return None if self._simulator is None else self._simulator.frame

    def at_rest(self) -> Pending[None]:
        """Settle when the simulator action that ran when a skill was cancelled has ended."""
        with self._lock:
            worker = self._worker
        return Pending.of(None) if worker is None or self._closed else worker.submit(lambda turn: None)

    def close(self) -> None:
        """End the simulator; one that hangs is killed."""
        with self._lock:
            worker, self._worker, closed, self._closed = self._worker, None, self._closed, True
        if worker is None or closed:
            return
        ended = worker.submit(lambda turn: self._stop())
        try:
            ended.result(timeout=_CLOSE_LIMIT)
        except Exception:
            self._stop()
        worker.give_up("the AI2-THOR world was closed")

    def _stop(self) -> None:
        if self._simulator is not None:
            self._simulator.stop()

    def _submit(self, work: Callable[[Pending[T]], T], *, anew: bool = False) -> Pending[T]:
        with self._lock:
            if self._closed:
                return Pending.failed(WorldError("the AI2-THOR world was closed"))
            if self._worker is None or (self._worker.lost and anew):
                self._worker = Worker(f"ai2thor {self.scene}")
                self._simulator = Simulator(self._options, self._worker.give_up, before=self._simulator)
                self._forget()
            return self._worker.submit(work)

    # ------------------------------------------------------------ from here on: in the worker's thread

    def _step(self, turn: Pending[Any], action: str, **arguments: Any) -> dict[str, Any]:
        """Take one simulator action, unless what it is for was cancelled."""
        if turn.cancelled():
            raise Stopped
        assert self._simulator is not None
        return self._simulator.step(action, **arguments)

    def _forced(self, turn: Pending[Any], action: str, thing: Thing) -> dict[str, Any]:
        return self._step(turn, action, objectId=thing["objectId"], forceAction=True)

    def _view(self, turn: Pending[Any]) -> View:
        if not self._ready:
            self._start(turn)
        assert self._simulator is not None
        metadata = self._simulator.metadata
        held = [thing["objectId"] for thing in metadata["inventoryObjects"]]
        return View(metadata["objects"], held=held, room=self._room)

    def _observe(self, turn: Pending[Any]) -> Observation:
        text = self._view(turn).starting_text()
        return self._pictured(Observation(text, rooms=(self._room,)))

    def _pictured(self, observation: Observation) -> Observation:
        frame = self.frame() if self._pictures else None
        return observation if frame is None else replace(observation, picture=_png(frame))

    def _house_state(self, turn: Pending[Any]) -> HouseState:
        view = self._view(turn)
        cleaned, heated, cooled = (frozenset(self._treated[how]) for how in ("cleaned", "heated", "cooled"))
        return HouseState(tuple(view.objects.values()), view.held, cleaned, heated, cooled)

    def _start(self, turn: Pending[Any]) -> None:
        self._forget()
        if turn.cancelled():
            raise Stopped
        assert self._simulator is not None
        metadata = self._simulator.load(self.scene)
        if self.trial is not None:
            self._restore(turn, self.trial, metadata["objects"])
        self._ready = True

    def _restore(self, turn: Pending[Any], trial: Trial, objects: Sequence[Thing]) -> None:
        """Set the scene as the trial says.

        The simulator of ALFRED could set all toggles, or dirty everything, at once; the present one cannot, so that
        it is done object by object.
        """
        setup = trial.scene
        poses = _restored_poses(trial, objects)
        if poses and not (metadata := self._step(turn, "SetObjectPoses", objectPoses=poses))["lastActionSuccess"]:
            raise WorldError(f"{trial.trial}: the objects cannot be set as the trial says: {metadata['errorMessage']}")
        assert self._simulator is not None
        objects = self._simulator.metadata["objects"]
        wanted = {toggle.type: toggle.is_on for toggle in setup.object_toggles}
        for thing in objects:
            on = wanted.get(thing["objectType"])
            if on is not None and thing["toggleable"] and thing["isToggled"] != on:
                self._forced(turn, "ToggleObjectOn" if on else "ToggleObjectOff", thing)
            if setup.dirty_and_empty and thing["dirtyable"] and not thing["isDirty"]:
                self._forced(turn, "DirtyObject", thing)
            if setup.dirty_and_empty and thing["canFillWithLiquid"] and thing["isFilledWithLiquid"]:
                self._forced(turn, "EmptyLiquidFromObject", thing)
        begin, height = setup.init_action, self._simulator.metadata["agent"]["position"]["y"]
        pose = _pose({"x": begin.x, "y": height, "z": begin.z}, begin.rotation, begin.horizon)
        if not self._step(turn, "TeleportFull", **pose)["lastActionSuccess"]:
            _log.warning("%s: the agent cannot stand where the trial starts; it starts nearby", trial.trial)
            for near in islice(self._by_distance(turn, pose["position"]), TRIES):
                if self._step(turn, "TeleportFull", **_pose(near, begin.rotation, begin.horizon))["lastActionSuccess"]:
                    break

    def _execute(self, turn: Pending[Any], skill: str) -> Observation:
        view = self._view(turn)
        verb = next((verb for verb in VERBS if skill.startswith(f"{verb} ")), None)
        if verb is None:
            known = f"A skill starts with {', '.join(VERBS[:-1])} or {VERBS[-1]}."
            return Observation(f"'{skill}' is no skill. {known}", Outcome.UNKNOWN_SKILL)
        name = skill[len(verb) + 1 :]
        thing = view.by_name.get(name)
        if thing is None:
            text = f"Cannot find {name}{'' if verb == 'go to' else f' to {verb}'}.{view.holding_text()}"
            return Observation(text, Outcome.UNKNOWN_SKILL)
        if verb == "go to":
            return self._go_to(turn, view, thing)
        if verb == "put down":
            return self._put_down(turn, view, thing)
        return self._handle(turn, view, verb, thing)

    def _go_to(self, turn: Pending[Any], view: View, thing: Thing) -> Observation:
        self._place = self._receptacle(view, thing)
        already = thing["visible"] and thing["distance"] < _NEAR and not thing["receptacle"]
        there = already or self._arrive(turn, thing)
        view = self._view(turn)
        thing = view.objects[thing["objectId"]]
        if not there:
            text = view.no_way_text(thing) + view.holding_text()
            return Observation(text, Outcome.EXECUTION)
        self._stand = view.place_of(thing)
        into = thing["receptacle"] and thing["openable"] and thing["isOpen"]
        return Observation(
            view.arrival_text(thing, already=already) + view.holding_text(),
            seen=view.seen_at(self._stand),
            looked_into=view.name(thing) if into else None,
        )

    def _arrive(self, turn: Pending[Any], thing: Thing) -> bool:
        """Stand where the object is visible; where it is from nowhere, stand at the first pose that is possible."""
        first = None
        for pose in islice(self._poses(turn, thing), TRIES):
            metadata = self._step(turn, "TeleportFull", **pose)
            if not metadata["lastActionSuccess"]:
                continue
            if _visible(metadata, thing):
                return True
            first = first or pose
        return first is not None and bool(self._step(turn, "TeleportFull", **first)["lastActionSuccess"])

    def _poses(self, turn: Pending[Any], thing: Thing) -> Iterator[Pose]:
        """Yield poses to try, the nearest first."""
        target = thing["position"]
        if self._interactable_poses:
            metadata = self._step(turn, "GetInteractablePoses", objectId=thing["objectId"])
            poses = [pose for pose in metadata["actionReturn"] or () if pose["standing"]]
            for pose in sorted(poses, key=lambda pose: _distance(pose, target)):
                yield _pose(pose, pose["rotation"], pose["horizon"])
        for near in self._by_distance(turn, target):
            yield _pose(near, *_towards(near, target))

    def _by_distance(self, turn: Pending[Any], target: Pose) -> list[Pose]:
        if self._reachable is None:
            metadata = self._step(turn, "GetReachablePositions")
            self._reachable = list(metadata["actionReturn"] or ())
        return sorted(self._reachable, key=lambda position: _distance(position, target))

    def _receptacle(self, view: View, thing: Thing) -> str:
        """Choose where a put down at an object goes: the object, its basin, or what it is in or on."""
        if word_of(thing) in _BASINS:
            basin = _nearest(view, _BASINS[word_of(thing)], thing)
            if basin is not None:
                return str(basin["objectId"])
        if thing["receptacle"]:
            return str(thing["objectId"])
        parents = (view.objects[id] for id in thing["parentReceptacles"] or () if id in view.objects)
        return next((str(parent["objectId"]) for parent in parents if word_of(parent) != "Floor"), "")

    def _put_down(self, turn: Pending[Any], view: View, thing: Thing) -> Observation:
        if not view.held:
            return Observation("You do not holding any object.", Outcome.PRECONDITION)
        if thing["objectId"] not in view.held:
            held = view.listed(view.objects[id] for id in view.held)
            return Observation(f"You are currently holding {held}.{view.holding_text()}", Outcome.PRECONDITION)
        name, place = view.name(thing), view.objects.get(self._place)
        if place is not None and place is not thing and self._forced(turn, "PutObject", place)["lastActionSuccess"]:
            view = self._view(turn)
            text = view.done_text("put down", name, place=view.names[self._place]) + view.holding_text()
            return Observation(text, seen=(view.sighting(view.by_name[name], place=view.names[self._place]),))
        dropped = self._step(turn, "DropHandObject", forceAction=True)["lastActionSuccess"]
        view = self._view(turn)
        text = view.dropped_text() if dropped else f"Drop action failed. {view.see_text()}"
        return Observation(text + view.holding_text(), Outcome.EXECUTION)

    def _handle(self, turn: Pending[Any], view: View, verb: str, thing: Thing) -> Observation:
        id, name, before = thing["objectId"], view.name(thing), view
        if verb == "open":
            metadata = self._opened(turn, thing)
        else:
            metadata = self._step(turn, _ACTIONS[verb], objectId=id, forceAction=self._force)
        if not metadata["lastActionSuccess"]:
            refusal = view.refusal_text(verb, thing)
            text = refusal or view.failure_text(verb, thing, metadata["errorMessage"])
            outcome = Outcome.EXECUTION if refusal is None else Outcome.PRECONDITION
            return Observation(text + view.holding_text(), outcome)
        self._note(turn, verb, thing)
        view = self._view(turn)
        text = view.done_text(verb, name) + view.holding_text()
        if verb == "pick up":
            return Observation(text, seen=(view.sighting(view.objects[id], held=True),))
        if verb == "open":
            self._stand = view.place_of(view.objects[id])
            if view.objects[id]["visible"]:  # forced, it opens from afar, too
                self._place = self._receptacle(view, view.objects[id])
            return Observation(text, seen=view.seen_at(self._stand), looked_into=name)
        if verb == "slice":
            whole = replace(before.sighting(thing), states=(GONE,))
            return Observation(text, seen=(whole, *view.seen_at(self._stand or name)))
        return Observation(text)

    def _opened(self, turn: Pending[Any], thing: Thing) -> dict[str, Any]:
        """Open something; where the agent stands in the way, a few steps back and forth again."""
        metadata = opened = self._forced(turn, "OpenObject", thing)
        steps = 0
        while not opened["lastActionSuccess"] and steps < STEPS_BACK and thing["openable"] and not thing["isOpen"]:
            if not self._step(turn, "MoveBack", moveMagnitude=GRID_SIZE)["lastActionSuccess"]:
                break
            steps += 1
            opened = self._forced(turn, "OpenObject", thing)
        for _ in range(steps):
            self._step(turn, "MoveAhead", moveMagnitude=GRID_SIZE)
        return opened if opened["lastActionSuccess"] else metadata

    def _note(self, turn: Pending[Any], verb: str, thing: Thing) -> None:
        """Note what was cleaned, heated or cooled, which ALFRED's goals ask for."""
        view = self._view(turn)
        what = word_of(thing)
        if (verb, what) == ("turn on", "Faucet"):
            basin = _nearest(view, "SinkBasin", thing)
            inside = list(basin["receptacleObjectIds"] or ()) if basin is not None else []
            self._treated["cleaned"].update(inside)
            for id in inside:  # the water itself reaches only what lies under it
                if id in view.objects and view.objects[id]["dirtyable"] and view.objects[id]["isDirty"]:
                    self._forced(turn, "CleanObject", view.objects[id])
        elif (verb, what) in (("turn on", "Microwave"), ("close", "Fridge")):
            inside = list(view.objects[thing["objectId"]]["receptacleObjectIds"] or ())
            self._treated["heated" if what == "Microwave" else "cooled"].update(inside)


def _restored_poses(trial: Trial, objects: Sequence[Thing]) -> list[Pose]:
    """Return the poses for ``SetObjectPoses``, which removes whatever can be moved and is not in them.

    Names in ALFRED are those of the simulator it was made with: an object whose name is gone is taken from those of
    its class. Furniture, which ALFRED does not list, stays where it is.
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


def _pose(position: Pose, rotation: float, horizon: float) -> Pose:
    """Return the arguments of ``TeleportFull``."""
    return {
        "position": {axis: position[axis] for axis in "xyz"},
        "rotation": {"x": 0.0, "y": rotation, "z": 0.0},
        "horizon": horizon,
        "standing": True,
    }


def _towards(position: Pose, target: Pose) -> tuple[float, float]:
    """Return rotation and horizon, in degrees, that look from a position at a target."""
    rotation = math.degrees(math.atan2(target["x"] - position["x"], target["z"] - position["z"])) % 360
    down = math.degrees(math.atan2(position["y"] + _CAMERA_HEIGHT - target["y"], _distance(position, target)))
    return rotation, min(max(down * _TILT, _UP), _DOWN)


def _distance(one: Pose, other: Pose) -> float:
    return math.hypot(one["x"] - other["x"], one["z"] - other["z"])


def _visible(metadata: dict[str, Any], thing: Thing) -> bool:
    return any(other["visible"] for other in metadata["objects"] if other["objectId"] == thing["objectId"])


def _nearest(view: View, word: str, thing: Thing) -> Thing | None:
    """Return the nearest object of a class, one that is visible before any other."""

    def far(other: Thing) -> tuple[bool, float]:
        one, two = other["position"], thing["position"]
        return not other["visible"], math.dist([one[axis] for axis in "xyz"], [two[axis] for axis in "xyz"])

    return min((other for other in view.objects.values() if word_of(other) == word), key=far, default=None)


def _check_start(executable: str | None, display: str | None, headless: bool) -> None:
    """Refuse what the simulator's client would only trip over."""
    if executable is not None and not os.access(executable, os.X_OK):
        raise UserError(f"executable {executable!r} of AI2-THOR is no file that can be run")
    if not (headless or display) and sys.platform == "linux":
        raise UserError("AI2-THOR has no display: give x_display, e.g. ':0', or headless for CloudRendering")


def _png(frame: Any) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG")
    return file.getvalue()


def _free_port(host: str) -> int:
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UserError(f"cannot listen on {host!r} for AI2-THOR: {error}; give an address of this machine") from None
