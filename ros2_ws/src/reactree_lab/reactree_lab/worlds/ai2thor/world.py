"""The AI2-THOR world: the simulator carries out skills, and its metadata give observations."""

from __future__ import annotations

import base64
import contextlib
import math
import os
import socket
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from reactree_lab.worlds.ai2thor.alfred import HouseState, Trial, load_trials
from reactree_lab.worlds.ai2thor.navigation import Navigation, restore
from reactree_lab.worlds.ai2thor.wording import ALFRED, RECALLABLE, WORDS, Thing, View, room_of, word_of
from reactree_lab.worlds.running import LineProcess, WorkerWorld
from reactree_ros.agent.observation import Spot
from reactree_ros.agent.picture import picture_of
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Harmless, plain
from reactree_ros.world.port import GONE, Observation, Outcome, Score, WorldError
from reactree_ros.world.spec import WorldSettings, WorldSpec

#: Steps that the agent goes back to let something open.
STEPS_BACK = 3

# Distance, in metres, below which the agent does not approach a visible object.
_NEAR = 0.5
_ACTIONS = {
    "pick up": "PickupObject",
    "close": "CloseObject",
    "turn on": "ToggleObjectOn",
    "turn off": "ToggleObjectOff",
    "slice": "SliceObject",
}
# Parts that hold things in place of their object.
_BASINS = {"Sink": "SinkBasin", "Bathtub": "BathtubBasin", "Faucet": "SinkBasin"}


class Ai2ThorSettings(WorldSettings):
    """The scene or ALFRED trial, and how to reach AI2-THOR's simulator."""

    tasks: str = Field(
        default="", description="a file or folder of ALFRED trials, which are numbered by their position, from 0"
    )
    scene: Annotated[str, Harmless(plain)] = Field(
        default="", description="a scene without a goal, e.g. FloorPlan10, instead of tasks"
    )
    host: str = Field(default="127.0.0.1", description="address at which this process listens for the simulator")
    port: int = Field(default=0, ge=0, le=65535, description="its port; 0: a free one")
    executable: str = Field(
        default="", description="a build of the simulator on this machine; empty: the client downloads its own"
    )
    display: str = Field(default="", description="X display of the simulator, e.g. :0")
    headless: bool = Field(default=False, description="render without a display (CloudRendering)")
    start_simulator: bool = Field(
        default=True, description="start the simulator; false: a running one connects to host and port"
    )
    force: bool = Field(default=False, description="force every action on an object")
    interactable_poses: bool = Field(
        default=False, description="go to poses from which the simulator says that an object can be handled"
    )
    time_limit: float = Field(
        default=60.0, gt=0, le=3600, description="longest wait for one action of the simulator, in seconds"
    )
    pictures: bool = Field(default=False, description="take a picture after each skill")

    @property
    def of_many(self) -> bool:
        return bool(self.tasks)

    @model_validator(mode="after")
    def _one_of_them(self) -> Ai2ThorSettings:
        if bool(self.scene) == bool(self.tasks):
            raise ValueError("ai2thor needs either a scene, e.g. FloorPlan10, or tasks (ALFRED trials)")
        return self


class Ai2ThorWorld(WorkerWorld):
    """A room of AI2-THOR: an ALFRED trial, or a scene without a goal.

    The simulator starts on first use, or is awaited then. If it hangs, crashes or is gone, the current call fails with
    :class:`~reactree_ros.world.port.WorldError` within the limits. So does every later call until a :meth:`reset`,
    which starts it again.

    A put down goes to the receptacle that the agent went to or opened last; at another object, to the object's own
    receptacle. A thing that cannot be put down there is dropped, as recorded.
    """

    household = ALFRED
    recallable = RECALLABLE
    words = WORDS

    def __init__(self, settings: Ai2ThorSettings, trial: Trial | None = None, *, scored: bool = True) -> None:
        self.scene = trial.scene.floor_plan if trial is not None else settings.scene
        self._room = room_of(self.scene)
        if settings.start_simulator:
            _check_start(settings)
        self.port = _port_for(settings)
        self._settings, self._trial = settings, trial
        self._simulator: Simulator | None = None
        self._navigation: Navigation | None = None  # None: the scene is not set
        super().__init__("ai2thor", scored=scored and trial is not None)

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None = None) -> None:
        """Load the scene, and set it to the trial's state; nothing in it is random."""
        self._navigation = None
        self._place = ""  # id of the receptacle for a put down
        self._stand = ""  # the place in working memory for things seen now
        self._treated: dict[str, set[str]] = defaultdict(set)  # ids of objects that were cleaned, heated, cooled
        if self._simulator is None or self._simulator.lost:
            self._simulator = Simulator(self._settings, self.port)
        self._simulator.load(self.scene)
        navigation = Navigation(self._step, interactable_poses=self._settings.interactable_poses)
        if self._trial is not None:
            restore(self._trial, self._simulator.metadata, self._step, navigation)
        self._navigation = navigation

    def _let_go(self) -> None:
        if self._simulator is not None:
            self._simulator.end()

    def _stop(self) -> None:
        if self._simulator is not None:
            self._simulator.stop()

    def _view(self) -> View:
        if self._navigation is None and (self._simulator is None or not self._simulator.lost):
            self._begin()
        assert self._simulator is not None
        if self._simulator.lost:
            raise WorldError(f"{self._simulator.lost}; a reset starts anew")
        metadata = self._simulator.metadata
        held = [thing["objectId"] for thing in metadata["inventoryObjects"]]
        return View(metadata["objects"], held=held, room=self._room)

    def _step(self, action: str, **arguments: Any) -> dict[str, Any]:
        self._worker.check_wanted()
        assert self._simulator is not None
        return self._simulator.step(action, **arguments)

    def _look(self) -> Observation:
        view = self._view()
        return self._told(Observation(view.starting_text(), rooms=(self._room,)), view.fixed())

    def _skills(self) -> list[str]:
        return self._view().available_skills()

    def _rate(self) -> Score:
        assert self._trial is not None
        view = self._view()
        cleaned, heated, cooled = (frozenset(self._treated[how]) for how in ("cleaned", "heated", "cooled"))
        return self._trial.goal.score(HouseState(tuple(view.objects.values()), view.held, cleaned, heated, cooled))

    def _take(self, skill: str) -> Observation:
        """Carry out a skill, e.g. ``pick up Book (1)``; observations and refusals are worded as recorded."""
        return self._told(self._execute(skill))

    def _told(self, observation: Observation, fixed: Iterable[Thing] = ()) -> Observation:
        assert self._simulator is not None  # a view exists
        view, agent = self._view(), self._simulator.metadata["agent"]
        position = agent["position"]
        spots = [Spot("", position["x"], position["z"], math.radians(90.0 - agent["rotation"]["y"]))]
        spots += (_spot(view.name(thing), thing) for thing in fixed)
        for seen in observation.seen:  # a cut object does not exist any more
            thing = view.by_name.get(f"{seen.word} ({seen.instance})")
            if thing is not None and not seen.held and GONE not in seen.states:
                spots.append(_spot(f"{seen.word} {seen.instance}", thing))
        held = (view.sighting(view.objects[id], held=True) for id in view.held)  # what is held is known in each look
        known = tuple(dict.fromkeys((*observation.seen, *map(view.sighting, fixed), *held)))
        png = self._simulator.picture
        return replace(observation, seen=known, spots=tuple(spots), pictures=(picture_of(png),) if png else ())

    def _execute(self, skill: str) -> Observation:
        view = self._view()
        verb, name = ALFRED.split_skill(skill)
        if not verb:
            *first, last = ALFRED.actions
            known = f"A skill starts with {', '.join(first)} or {last}."
            return Observation(f"'{skill}' is not a skill. {known}", Outcome.UNKNOWN_SKILL)
        thing = view.by_name.get(name)
        if thing is None:
            text = f"Cannot find {name}{'' if verb == 'go to' else f' to {verb}'}.{view.holding_text()}"
            return Observation(text, Outcome.UNKNOWN_SKILL)
        if verb == "go to":
            return self._go_to(view, thing)
        if verb == "put down":
            return self._put_down(view, thing)
        return self._handle(view, verb, thing)

    def _go_to(self, view: View, thing: Thing) -> Observation:
        assert self._navigation is not None  # a view exists
        self._place = self._receptacle(view, thing)
        already = thing["visible"] and thing["distance"] < _NEAR and not thing["receptacle"]
        there = already or self._navigation.arrive(thing)
        view = self._view()
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

    def _receptacle(self, view: View, thing: Thing) -> str:
        """Choose the target of a put down at an object: the object, its basin, or its own receptacle."""
        if word_of(thing) in _BASINS:
            basin = _nearest(view, _BASINS[word_of(thing)], thing)
            if basin is not None:
                return str(basin["objectId"])
        if thing["receptacle"]:
            return str(thing["objectId"])
        parents = (view.objects[id] for id in thing["parentReceptacles"] or () if id in view.objects)
        return next((str(parent["objectId"]) for parent in parents if word_of(parent) != "Floor"), "")

    def _put_down(self, view: View, thing: Thing) -> Observation:
        if refusal := view.refusal_text("put down", thing):
            return Observation(refusal + view.holding_text(), Outcome.PRECONDITION)
        id, name, place = thing["objectId"], view.name(thing), view.objects.get(self._place)
        if place is not None and place is not thing and self._forced("PutObject", place)["lastActionSuccess"]:
            view = self._view()
            where = view.names[self._place]
            if not view.contains(self._place, id):
                text = view.undone_text("put down", name, place=where) + view.holding_text()
                return Observation(text, Outcome.POSTCONDITION)
            text = view.done_text("put down", name, place=where) + view.holding_text()
            return Observation(text, seen=(view.sighting(view.objects[id], place=where),))
        dropped = self._step("DropHandObject", forceAction=True)["lastActionSuccess"]
        view = self._view()
        text = view.dropped_text() if dropped else f"Drop action failed. {view.see_text()}"
        return Observation(text + view.holding_text(), Outcome.EXECUTION)

    def _handle(self, view: View, verb: str, thing: Thing) -> Observation:
        id, name, before = thing["objectId"], view.name(thing), view
        if verb == "open":
            metadata = self._opened(thing)
        else:
            metadata = self._step(_ACTIONS[verb], objectId=id, forceAction=self._settings.force)
        if not metadata["lastActionSuccess"]:
            refusal = view.refusal_text(verb, thing)
            text = refusal or view.failure_text(verb, thing, metadata["errorMessage"])
            outcome = Outcome.EXECUTION if refusal is None else Outcome.PRECONDITION
            return Observation(text + view.holding_text(), outcome)
        self._note(verb, thing)
        view = self._view()
        if verb == "pick up" and id not in view.held:
            return Observation(view.undone_text(verb, name) + view.holding_text(), Outcome.POSTCONDITION)
        text = view.done_text(verb, name) + view.holding_text()
        if verb == "pick up":
            return Observation(text, seen=(view.sighting(view.objects[id], held=True),))
        if verb == "open":
            self._stand = view.place_of(view.objects[id])
            if view.objects[id]["visible"]:  # a forced action opens from afar, too
                self._place = self._receptacle(view, view.objects[id])
            return Observation(text, seen=view.seen_at(self._stand), looked_into=name)
        if verb == "slice":
            whole = replace(before.sighting(thing), states=(GONE,))
            return Observation(text, seen=(whole, *view.seen_at(self._stand or name)))
        return Observation(text)

    def _opened(self, thing: Thing) -> dict[str, Any]:
        """Open something; if the agent stands in the way, step back and return."""
        metadata = opened = self._forced("OpenObject", thing)
        steps = 0
        while not opened["lastActionSuccess"] and steps < STEPS_BACK and thing["openable"] and not thing["isOpen"]:
            if not self._step("MoveBack", moveMagnitude=GRID_SIZE)["lastActionSuccess"]:
                break
            steps += 1
            opened = self._forced("OpenObject", thing)
        for _ in range(steps):
            self._step("MoveAhead", moveMagnitude=GRID_SIZE)
        return opened if opened["lastActionSuccess"] else metadata

    def _note(self, verb: str, thing: Thing) -> None:
        view = self._view()
        what = word_of(thing)
        if (verb, what) == ("turn on", "Faucet"):
            basin = _nearest(view, "SinkBasin", thing)
            inside = list(basin["receptacleObjectIds"] or ()) if basin is not None else []
            self._treated["cleaned"].update(inside)
            for id in inside:  # the water itself reaches only objects below it
                if id in view.objects and view.objects[id]["dirtyable"] and view.objects[id]["isDirty"]:
                    self._forced("CleanObject", view.objects[id])
        elif (verb, what) in (("turn on", "Microwave"), ("close", "Fridge")):
            inside = list(view.objects[thing["objectId"]]["receptacleObjectIds"] or ())
            self._treated["heated" if what == "Microwave" else "cooled"].update(inside)

    def _forced(self, action: str, thing: Thing) -> dict[str, Any]:
        return self._step(action, objectId=thing["objectId"], forceAction=True)


def _spot(name: str, thing: Thing) -> Spot:
    return Spot(name, thing["position"]["x"], thing["position"]["z"])


def _nearest(view: View, word: str, thing: Thing) -> Thing | None:
    def far(other: Thing) -> tuple[bool, float]:
        one, two = other["position"], thing["position"]
        return not other["visible"], math.dist([one[axis] for axis in "xyz"], [two[axis] for axis in "xyz"])

    return min((other for other in view.objects.values() if word_of(other) == word), key=far, default=None)


def _check_start(settings: Ai2ThorSettings) -> None:
    if settings.executable and not os.access(settings.executable, os.X_OK):
        raise UserError(f"executable {settings.executable!r} of AI2-THOR is not a file that can be run")
    display = settings.display or os.environ.get("DISPLAY")
    if not (settings.headless or display) and sys.platform == "linux":
        raise UserError("AI2-THOR has no display: give display, e.g. ':0', or headless for CloudRendering")


def _port_for(settings: Ai2ThorSettings) -> int:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, settings.port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UserError(
            f"cannot listen on {settings.host}:{settings.port} for AI2-THOR: {error}; give another host or port"
        ) from None


SPEC = WorldSpec(
    name="ai2thor",
    summary="AI2-THOR: ALFRED trials, or a scene without a goal",
    settings=Ai2ThorSettings,
    extra="reactree_lab[ai2thor]",
    needs=("ai2thor",),
    household=ALFRED,
    load_tasks=lambda settings: dict(enumerate(load_trials(settings.tasks))) if settings.tasks else {},
    make=Ai2ThorWorld,
    flags=("tasks", "task_id"),
)


#: ALFRED's grid size, in metres.
GRID_SIZE = 0.25
VISIBILITY_DISTANCE = 1.5
#: Longest time until a simulator answers, in seconds, including its download.
START_LIMIT = 300.0
# Simulator actions of a reset: list the scenes, load one, set the quality, initialise.
_RESET_ACTIONS = 4
#: Seconds that a simulator has to end by itself.
_STOP_LIMIT = 1.0


class Simulator(LineProcess):
    """One AI2-THOR simulator, for one thread; any error except a refusal loses it."""

    module = "reactree_lab.worlds.ai2thor.player"
    fragile = True

    def __init__(self, settings: Ai2ThorSettings, port: int) -> None:
        self.name = f"AI2-THOR at {settings.host}:{port}"
        super().__init__()
        self.metadata: dict[str, Any] = {}  # what the simulator said last
        self.picture = b""  # its last picture, as PNG; empty for none
        self._settings, self._port, self._started = settings, port, False

    def load(self, scene: str) -> dict[str, Any]:
        """Load a scene and return the metadata; the first call starts the simulator."""
        settings, begins = self._settings, self._settings.start_simulator
        limit = _RESET_ACTIONS * settings.time_limit
        if self._started:
            return self._do(limit, "load", scene)
        self._started = True
        arguments: dict[str, Any] = {"scene": scene, "start_unity": begins, "host": settings.host, "port": self._port}
        arguments |= {"gridSize": GRID_SIZE, "visibilityDistance": VISIBILITY_DISTANCE}
        if begins:
            arguments |= {"local_executable_path": settings.executable or None, "x_display": settings.display or None}
        return self._do(START_LIMIT + limit, "start", arguments, settings.headless and begins, settings.pictures)

    def step(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Take one simulator action and return the metadata; ``lastActionSuccess`` says whether it was possible."""
        return self._do(self._settings.time_limit, "step", action, arguments)

    def end(self) -> None:
        if not self.lost and self._started:
            self.answer_limit = _STOP_LIMIT
            with contextlib.suppress(WorldError):
                self.ask("stop")
        self.kill()

    def _do(self, limit: float, *request: Any) -> dict[str, Any]:
        self.answer_limit = limit
        answer = self.ask(*request)
        if "refused" in answer:
            raise WorldError(f"{self.name} refuses '{request[1]}': {answer['refused']}")
        self.metadata, self.picture = answer["metadata"], base64.b64decode(answer["picture"])
        return self.metadata
