"""The agent in AI2-THOR: the simulator carries out skills, and its metadata give observations."""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from reactree_lab.worlds.ai2thor.alfred import HouseState, Trial
from reactree_lab.worlds.ai2thor.household import ALFRED
from reactree_lab.worlds.ai2thor.navigation import Navigation
from reactree_lab.worlds.ai2thor.restore import restore
from reactree_lab.worlds.ai2thor.simulator import GRID_SIZE, Simulator
from reactree_lab.worlds.ai2thor.wording import Thing, View, room_of, word_of
from reactree_ros.agent.observation import Spot
from reactree_ros.agent.picture import picture_of
from reactree_ros.world.port import GONE, Observation, Outcome

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


class Agent:
    """The agent in one simulator, for one thread.

    Args:
        simulator: The simulator; the scene is loaded on first use.
        scene: The scene, e.g. ``FloorPlan1``.
        trial: The trial that sets the scene; None leaves it as it is.
        force: Force every action on an object; otherwise only opening and putting down, as in ALFRED.
        interactable_poses: Go to the poses from which the simulator says that an object can be handled.
        pictures: Whether observations contain the camera's picture.
    """

    def __init__(
        self,
        simulator: Simulator,
        scene: str,
        trial: Trial | None,
        *,
        force: bool,
        interactable_poses: bool,
        pictures: bool,
    ) -> None:
        self._simulator = simulator
        self._scene, self._trial, self._room = scene, trial, room_of(scene)
        self._force, self._interactable_poses, self._pictures = force, interactable_poses, pictures
        self._navigation: Navigation | None = None  # None: the scene is not set

    def start(self) -> Observation:
        """Load the scene, set it to the trial's state, and look around."""
        self._navigation = None
        self._place = ""  # id of the receptacle for a put down
        self._stand = ""  # the place in working memory for things seen now
        self._treated: dict[str, set[str]] = defaultdict(set)  # ids of objects that were cleaned, heated, cooled
        self._simulator.load(self._scene)
        navigation = Navigation(self._simulator, interactable_poses=self._interactable_poses)
        if self._trial is not None:
            restore(self._trial, self._simulator, navigation)
        self._navigation = navigation
        return self.observe()

    def observe(self) -> Observation:
        """Look around: the room's fixed receptacles, and held things."""
        view = self._view()
        return self._told(Observation(view.starting_text(), rooms=(self._room,)), view.fixed())

    def available_skills(self) -> list[str]:
        """List the skills for the room's fixed receptacles and for visible things."""
        return self._view().available_skills()

    def house_state(self) -> HouseState:
        """Return the state for scoring a goal."""
        view = self._view()
        cleaned, heated, cooled = (frozenset(self._treated[how]) for how in ("cleaned", "heated", "cooled"))
        return HouseState(tuple(view.objects.values()), view.held, cleaned, heated, cooled)

    def execute(self, skill: str) -> Observation:
        """Carry out a skill, e.g. ``pick up Book (1)``; observations and refusals are worded as recorded."""
        return self._told(self._execute(skill))

    def _view(self) -> View:
        if self._navigation is None:
            self.start()
        metadata = self._simulator.metadata
        held = [thing["objectId"] for thing in metadata["inventoryObjects"]]
        return View(metadata["objects"], held=held, room=self._room)

    def _told(self, observation: Observation, fixed: Iterable[Thing] = ()) -> Observation:
        """Add the agent's place, visible and fixed things, and the picture to an observation."""
        view, agent = self._view(), self._simulator.metadata["agent"]
        position = agent["position"]
        spots = [Spot("", position["x"], position["z"], math.radians(90.0 - agent["rotation"]["y"]))]
        spots += (_spot(view.name(thing), thing) for thing in fixed)
        for seen in observation.seen:  # a cut object does not exist any more
            thing = view.by_name.get(f"{seen.word} ({seen.instance})")
            if thing is not None and not seen.held and GONE not in seen.states:
                spots.append(_spot(f"{seen.word} {seen.instance}", thing))
        frame = self._simulator.frame if self._pictures else None
        return replace(observation, spots=tuple(spots), pictures=() if frame is None else (picture_of(_png(frame)),))

    def _execute(self, skill: str) -> Observation:
        view = self._view()
        verb, name = ALFRED.split_skill(skill)
        if not verb:
            *first, last = ALFRED.actions
            known = f"A skill starts with {', '.join(first)} or {last}."
            return Observation(f"'{skill}' is no skill. {known}", Outcome.UNKNOWN_SKILL)
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
        if not view.held:
            return Observation("You do not holding any object.", Outcome.PRECONDITION)
        id, name, place = thing["objectId"], view.name(thing), view.objects.get(self._place)
        if id not in view.held:
            held = view.listed(view.objects[id] for id in view.held)
            return Observation(f"You are currently holding {held}.{view.holding_text()}", Outcome.PRECONDITION)
        if place is not None and place is not thing and self._forced("PutObject", place)["lastActionSuccess"]:
            view = self._view()
            where = view.names[self._place]
            if not view.holds(self._place, id):
                text = view.undone_text("put down", name, place=where) + view.holding_text()
                return Observation(text, Outcome.POSTCONDITION)
            text = view.done_text("put down", name, place=where) + view.holding_text()
            return Observation(text, seen=(view.sighting(view.objects[id], place=where),))
        dropped = self._simulator.step("DropHandObject", forceAction=True)["lastActionSuccess"]
        view = self._view()
        text = view.dropped_text() if dropped else f"Drop action failed. {view.see_text()}"
        return Observation(text + view.holding_text(), Outcome.EXECUTION)

    def _handle(self, view: View, verb: str, thing: Thing) -> Observation:
        id, name, before = thing["objectId"], view.name(thing), view
        if verb == "open":
            metadata = self._opened(thing)
        else:
            metadata = self._simulator.step(_ACTIONS[verb], objectId=id, forceAction=self._force)
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
            if not self._simulator.step("MoveBack", moveMagnitude=GRID_SIZE)["lastActionSuccess"]:
                break
            steps += 1
            opened = self._forced("OpenObject", thing)
        for _ in range(steps):
            self._simulator.step("MoveAhead", moveMagnitude=GRID_SIZE)
        return opened if opened["lastActionSuccess"] else metadata

    def _note(self, verb: str, thing: Thing) -> None:
        """Record cleaned, heated or cooled objects, which ALFRED's goals ask for."""
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
        return self._simulator.force(action, thing["objectId"])


def _spot(name: str, thing: Thing) -> Spot:
    return Spot(name, thing["position"]["x"], thing["position"]["z"])


def _nearest(view: View, word: str, thing: Thing) -> Thing | None:
    """Return the nearest object of a class, visible ones first."""

    def far(other: Thing) -> tuple[bool, float]:
        one, two = other["position"], thing["position"]
        return not other["visible"], math.dist([one[axis] for axis in "xyz"], [two[axis] for axis in "xyz"])

    return min((other for other in view.objects.values() if word_of(other) == word), key=far, default=None)


def _png(frame: Any) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG")
    return file.getvalue()
