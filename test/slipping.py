"""A robot whose reports are not true: it says that it has grasped something, and it has not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from reactree_ros.background.pending import Pending
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task
from reactree_ros.world.port import Observation, Outcome, World


class SlippingWorld(SymbolicWorld):
    """The symbolic house with cameras, in which grasps that are reported as done are not, at a rate.

    Attributes:
        reports: What was reported as grasped, in order, and whether it was true.
    """

    def __init__(self, task: Task, *, share: float, seed: int = 0, **others: Any) -> None:
        super().__init__(task, pictures=True, **others)
        self._share, self._random = share, random.Random(seed)
        self.reports: list[tuple[str, bool]] = []

    def execute(self, skill: str) -> Pending[Observation]:
        if not skill.startswith("pick up "):
            return super().execute(skill)
        places = (self.scene._room, self.scene._container, self.scene._surface, self._moved)
        before, held, taken = [dict(place) for place in places], list(self.scene.held), set(self._taken)
        pending = super().execute(skill)
        if pending.take().outcome is not Outcome.DONE:
            return pending
        slips = self._random.random() < self._share
        if slips:  # it lies again where it lay
            for place, were in zip(places, before, strict=True):
                place.clear()
                place.update(were)  # type: ignore[arg-type]
            self.scene.held[:], self._taken = held, taken
        self.reports.append((skill, not slips))
        return pending


def grasps(robot: SlippingWorld, world: World, count: int, chance: random.Random) -> Iterator[Observation]:
    """Have a robot grasp things that it sees, one after the other; yields what a world around it says of each."""
    done = 0
    while done < count:
        robot.reset()
        world.execute(f"go to {chance.choice(robot.scene.rooms).name}").take()
        may_be = [one for one in robot.available_skills().take() if str(one).startswith("pick up ")]
        if not may_be:
            continue
        skill = str(chance.choice(may_be))
        world.execute(f"go to {skill.removeprefix('pick up ')}").take()
        before = len(robot.reports)
        seen = world.execute(skill).take()
        if len(robot.reports) > before:  # otherwise it was refused
            done += 1
            yield seen
