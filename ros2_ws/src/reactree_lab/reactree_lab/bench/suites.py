"""This package's task suites: tasks of a file in the WAH-NL schema, and tasks of made-up houses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from reactree_lab.bench import published
from reactree_lab.bench.results import Condition, Goal
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.household.generator import KEPT, check_subjects, generate_house
from reactree_lab.household.people import say_vaguely
from reactree_ros.errors import UserError
from reactree_ros.household import rules
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import GoalCondition, Task, load_tasks, parse_tasks
from reactree_ros.plugins.settings import Harmless, Settings, plain
from reactree_ros.world.spec import T, TasksOnDemand

#: Factor of a house's seed in the number of its tasks; the number in the house is added.
HOUSE_STRIDE = 100


class WahNlSettings(Settings):
    tasks: Path | None = Field(default=None, description="task file in the WAH-NL schema")


class VagueSettings(Settings):
    houses: int = Field(default=10, ge=1, description="number of houses")
    first_seed: int = Field(default=0, ge=0, description="seed of the first house; each next one is one more")
    rooms: int = Field(default=5, ge=3, le=8, description="rooms in each house")
    tasks_per_house: int = Field(default=5, ge=1, lt=HOUSE_STRIDE, description="tasks in each house")


class HousesSettings(VagueSettings):
    varied: bool = Field(default=False, description="more types of task, many more words, fuller houses")


class GeneratedSettings(HousesSettings):
    without: Annotated[str, Harmless(plain)] = Field(
        default="",
        description="object classes and types of task that no task may have, separated by commas, e.g. "
        "pudding,prepare_snack",
    )
    about: Annotated[str, Harmless(plain)] = Field(
        default="", description="likewise, but each task must have at least one of them; empty: any"
    )

    words: Literal["usual", "unseen"] = Field(
        default="usual", description="'unseen': the things of each house have names that no training has"
    )

    _known = field_validator("without", "about")(check_subjects)


def goal_at_the_end(task: Task, world: SymbolicWorld) -> Goal:
    """Return how far a task's goal is reached in the current world."""
    conditions = []
    for one in task.goal:
        share = rules.score((one,), world.scene).ssr
        item, target = task.word_of(one.item) if one.item else "", task.word_of(one.target)
        conditions.append(Condition(one.relation, item, target, one.count, round(share * one.count)))
    start = next(room.name for room in world.scene.rooms if room.class_name == task.init_room)
    return Goal(tuple(conditions), tuple(room.name for room in world.scene.rooms), start)


def _recorded(settings: WahNlSettings) -> Mapping[int, Task]:
    if settings.tasks is None:
        raise UserError("--suite wah_nl needs --tasks: a task file in the WAH-NL schema")
    return {task.task_id: task for task in load_tasks(settings.tasks)}


def _generated(settings: GeneratedSettings) -> Mapping[int, Task]:
    def house(seed: int) -> dict[int, Task]:
        made = generate_house(
            seed=seed,
            rooms=settings.rooms,
            tasks=settings.tasks_per_house,
            varied=settings.varied,
            without=settings.without,
            about=settings.about,
            nouns=KEPT if settings.words == "unseen" else "",
        )
        return {task.task_id: task for task in parse_tasks(made)}

    return tasks_of_houses(settings, house)


def _vague(settings: VagueSettings) -> Mapping[int, Task]:
    def house(seed: int) -> dict[int, Task]:
        made = parse_tasks(generate_house(seed=seed, rooms=settings.rooms, tasks=settings.tasks_per_house))
        rng = random.Random(f"vague {seed} {settings.rooms}")
        said = [task.model_copy(update={"nl_instructions": [say_vaguely(rng, task.goal)]}) for task in made]
        return {task.task_id: task for task in said}

    return tasks_of_houses(settings, house)


def tasks_of_houses(settings: VagueSettings, make: Callable[[int], Mapping[int, T]]) -> Mapping[int, T]:
    """Return the tasks of houses, each of which is made on demand from its seed, with its tasks numbered from 1."""
    house = lru_cache(maxsize=1)(make)  # the tasks of a house follow one another

    def task(task_id: int) -> T:
        seed, number = divmod(task_id, HOUSE_STRIDE)
        return house(seed)[number]

    seeds = range(settings.first_seed, settings.first_seed + settings.houses)
    numbers = range(1, settings.tasks_per_house + 1)
    return TasksOnDemand((seed * HOUSE_STRIDE + number for seed in seeds for number in numbers), task)


def conditions_of(task: Task) -> Sequence[GoalCondition]:
    return task.goal


_in_houses = partial(SuiteSpec, make_world=SymbolicWorld, goal=goal_at_the_end, conditions=conditions_of)
WAH_NL = _in_houses(
    name="wah_nl",
    summary="tasks of a file in the WAH-NL schema, in the symbolic VirtualHome",
    settings=WahNlSettings,
    tasks=_recorded,
    published=(published.WAH_NL, published.WAH_NL_MEMORIES, published.WAH_NL_CONTROL_FLOWS),
    flags=("tasks",),
)
GENERATED = _in_houses(
    name="generated",
    summary="tasks of houses made up from seeds, in the symbolic VirtualHome",
    settings=GeneratedSettings,
    tasks=_generated,
    flags=("houses",),
)
VAGUE = _in_houses(
    name="vague",
    summary="tasks of such houses, with instructions that leave things, numbers or places open",
    settings=VagueSettings,
    tasks=_vague,
    flags=("houses",),
)
