"""The task suite ``scienceworld``: variations of ScienceWorld's thirty types of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.scienceworld.engine import check_java
from reactree_lab.worlds.scienceworld.tasks import VARIATIONS, ScienceTask, described, split
from reactree_lab.worlds.scienceworld.world import ScienceWorld, check_simplifications
from reactree_ros.plugins.settings import Harmless, Settings, check_names, plain
from reactree_ros.world.spec import TasksOnDemand

#: Factor of the type's number (from 1) in a task's number; the variation is added.
TYPE_STRIDE = 10_000


class ScienceWorldSuiteSettings(Settings):
    task_types: Annotated[str, Harmless(plain)] = Field(
        default="", description="types of tasks, separated by commas; empty: all thirty"
    )
    part: Literal["train", "dev", "test"] = Field(default="test", description="part of the variations")
    variations: int = Field(default=1, ge=1, description="variations of each type, from the first of the part")
    simplifications: Annotated[str, Harmless(plain)] = Field(
        default="", description="simplifications, separated by commas, e.g. easy"
    )

    _known = field_validator("simplifications")(check_simplifications)

    @field_validator("task_types")
    @classmethod
    def _are_tasks(cls, task_types: str) -> str:
        return check_names("task", task_types, VARIATIONS) if task_types else ""


def _tasks(settings: ScienceWorldSuiteSettings) -> Mapping[int, ScienceTask]:
    check_java()

    def task(name: str, variation: int) -> ScienceTask:
        return described(name, variation, settings.simplifications)

    chosen = settings.task_types.split(",") if settings.task_types else VARIATIONS
    variations = {name: split(name, settings.part)[: settings.variations] for name in chosen}
    return TasksOnDemand.by_kind(VARIATIONS, TYPE_STRIDE, variations, task)


SPEC = SuiteSpec(
    name="scienceworld",
    summary="variations of the thirty types of experiments of ScienceWorld, in the world `scienceworld`",
    settings=ScienceWorldSuiteSettings,
    extra="reactree_lab[scienceworld]",
    needs=("scienceworld", "py4j"),
    tasks=_tasks,
    make_world=ScienceWorld,
    ssr="score",
    published=(published.SCIENCEWORLD,),
    flags=("task_types",),
)
