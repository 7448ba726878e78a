"""A house in which somebody else moves things while the robot works: memory says a place, and the thing is gone."""

from __future__ import annotations

import random
from collections.abc import Iterator

from reactree_ros.background.pending import Pending
from reactree_ros.household import rules
from reactree_ros.household.scene import Thing
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task
from reactree_ros.household.vocabulary import NEVER_OPEN
from reactree_ros.world.port import Observation

#: How likely something is moved after each skill.
_MOVED = 0.15


class LivedInHouse(SymbolicWorld):
    """Now and then moves a thing that the task wants and the robot has seen, from another room to another place."""

    def __init__(self, task: Task, drawn: random.Random, *, scored: bool = True) -> None:
        self._drawn, self._seen = drawn, set[int]()
        super().__init__(task, scored=scored)

    def execute(self, skill: str) -> Pending[Observation]:
        observed = super().execute(skill)
        self._seen.update(self.scene.close)
        if self._drawn.random() < _MOVED:
            things, places = list(self._things()), list(self._places())
            if things and places:
                self._relocate(self._drawn.choice(things), self._drawn.choice(places))
        return observed

    def _things(self) -> Iterator[Thing]:
        """Yield what may be moved: it is seen, wanted elsewhere than where it is, and in another room."""
        wanted = {one.item: one.target for one in self._task.goal}
        for thing in self.scene.things.values():
            place = self.scene.container_of(thing) or self.scene.surface_of(thing)
            if place is None or thing.id not in self._seen or not self._is_elsewhere(thing):
                continue
            if thing.class_name in wanted and place.class_name not in (wanted[thing.class_name], *NEVER_OPEN):
                yield thing

    def _places(self) -> Iterator[Thing]:
        targets = {one.target for one in self._task.goal}
        for thing in self.scene.things.values():
            fits = thing.room_item and rules.can_take_things(thing) and "GRABBABLE" not in thing.properties
            if fits and thing.class_name not in (*targets, *NEVER_OPEN) and self._is_elsewhere(thing):
                yield thing

    def _is_elsewhere(self, thing: Thing) -> bool:
        return thing.id not in self.scene.held and self.scene.room_of(thing) is not self.scene.agent_room

    def _relocate(self, thing: Thing, place: Thing) -> None:
        self.scene.place(thing, place, inside="CONTAINERS" in place.properties)
        self._moved[thing.id] = place
        self._taken.add(thing.id)
