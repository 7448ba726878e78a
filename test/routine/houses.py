"""Households for the tests of routines: a task carried out with and without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from recorded_runs import Kept

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.assembly import proof
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, moved, parse_tasks
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.wrappers import WorldWrapper


@cache
def tasks(seed: int, count: int = 5, *, varied: bool = False) -> Sequence[Task]:
    return parse_tasks(generate_house(seed=seed, rooms=5, tasks=count, varied=varied))


class Refusing(WorldWrapper):
    """Fails in some skills of certain words, so many times after the first ones."""

    def __init__(self, inner: World, words: str, outcome: Outcome, *, after: int = 0, times: int = 999) -> None:
        super().__init__(inner)
        self._words, self._outcome, self._after, self._times = words, outcome, after, times

    def execute(self, skill: str) -> Pending[Observation]:
        if self._words in skill and self._times:
            self._after -= 1
            if self._after < 0:
                self._times -= 1
                return Pending.ready(Observation("The gripper slipped.", self._outcome))
        return self.inner.execute(skill)


@dataclass
class Came:
    episode: Episode
    result: EpisodeResult
    kept: Kept

    @property
    def requests(self) -> int:
        return len(self.episode.context.replies)

    @property
    def skills(self) -> list[str]:
        return [event["skill"] for event in self.kept.events_of("skill")]

    @property
    def used(self) -> list[str]:
        used = self.episode.learning.used
        return [reason for _, reason in used]


def carry_out(
    task: Task,
    memory: EpisodicMemory | None,
    *,
    routines: Routines = Routines.ON,
    world: World | None = None,
    instruction: str = "",
    agreed: bool = False,
    routines_of: Callable[[Any], Any] | None = None,
    **given: Any,
) -> Came:
    """Carry a task out by the expert; ``routines_of`` makes what finds routines."""
    options = given.pop("options", TreeOptions()).model_copy(update={"routines": routines})
    kept = Kept()
    episode = Episode(
        instruction or task.instruction,
        world=world or SymbolicWorld(task),
        planner=planner("reactree_wm"),
        memory=memory,
        options=options,
        record=Recorder(kept.write),
        task_id=task.task_id,
        routines=routines_of,
        **(
            {
                "model": ExpertModel(),
                "examples": None,
                "proves": proof(lambda seed: SymbolicWorld(moved(task, seed) if seed else task)),
            }
            | given
        ),
    )
    result = episode.run()
    episode.remember(result, agreed=agreed)
    return Came(episode, result, kept)
