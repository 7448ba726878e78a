"""Experiences as in-context examples: what the expert goes through in generated houses, as short and diverse as can be.

The files of the memory ``household`` are made by this, and come out the same whenever they are made again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.memory.experience import Experience

#: Seeds of the houses, far from those of suites and datasets, which begin with 0.
SEEDS = range(900_000, 900_006)
#: Rooms of the houses; small houses make short experiences.
ROOMS = (3, 4)
TASKS_PER_HOUSE = 3
#: Most tokens of an experience: several must fit into a prompt.
LONGEST = 600
#: Likewise, of a planner that does a whole task in one node.
LONGEST_WHOLE = 1500


def make_examples(planner: str, advance: Callable[[float], None] = lambda share: None) -> list[Experience]:
    """Carry the tasks out, and choose from the experiences.

    Of all experiences with the same subgoal, but for its numbers, and the same end, the shortest one is chosen.
    """
    shortest: dict[tuple[str, str], Experience] = {}
    tasks = list(_tasks())
    for number, task in enumerate(tasks, 1):
        run = _experiences(task, number, planner)
        longest = LONGEST_WHOLE if len(run) == 1 else LONGEST
        for one in run:
            length, kind = approximate_tokens(one.text), (re.sub(r"\d+", "#", one.subgoal), one.end.value)
            known = shortest.get(kind)
            if length <= longest and (known is None or length < approximate_tokens(known.text)):
                shortest[kind] = one
        advance(number / len(tasks))
    return list(shortest.values())


def _tasks() -> Iterator[Task]:
    for varied in (False, True):
        for rooms in ROOMS:
            for seed in SEEDS:
                made = generate_house(seed=seed, rooms=rooms, tasks=TASKS_PER_HOUSE, varied=varied)
                yield from parse_tasks(made)


def _experiences(task: Task, number: int, planner: str) -> list[Experience]:
    """Return what the expert's nodes go through in a task of this number; nothing if it does not reach the goal."""
    spec = RunSpec(planner=planner).of_task(task, number)
    model = ExpertModel({spec.instruction: goals_of(task.goal)})
    with SymbolicWorld(task) as world:
        episode = assemble(spec, world=world, model=model)
        return episode.experiences() if episode.run().achieved else []
