"""The task suite ``pddl``: problems of Blocksworld, Gripper, Tyreworld and Barman, made up from seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.pddl.problems import MAKERS
from reactree_lab.worlds.pddl.world import PddlTask, PddlWorld, made_up
from reactree_ros.plugins.settings import Harmless, Settings, check_names, plain
from reactree_ros.world.spec import TasksOnDemand

#: Factor of the domain's number in a task's number; the seed is added.
DOMAIN_STRIDE = 1_000_000


class PddlSuiteSettings(Settings):
    domains: Annotated[str, Harmless(plain)] = Field(
        default=",".join(MAKERS), description="the domains, separated by commas"
    )
    problems: int = Field(default=15, ge=1, lt=DOMAIN_STRIDE // 2, description="problems of each domain")
    first_seed: int = Field(default=1, ge=1, lt=DOMAIN_STRIDE // 2, description="seed of the first problem")

    @field_validator("domains")
    @classmethod
    def _known(cls, domains: str) -> str:
        return check_names("domain", domains, MAKERS)


def _tasks(settings: PddlSuiteSettings) -> Mapping[int, PddlTask]:
    seeds = range(settings.first_seed, settings.first_seed + settings.problems)
    return TasksOnDemand.by_kind(MAKERS, DOMAIN_STRIDE, dict.fromkeys(settings.domains.split(","), seeds), made_up)


SPEC = SuiteSpec(
    name="pddl",
    summary="problems of Blocksworld, Gripper, Tyreworld and Barman, made up from seeds, in the world `pddl`",
    settings=PddlSuiteSettings,
    extra="reactree_lab[pddl]",
    needs=("unified_planning",),
    tasks=_tasks,
    make_world=PddlWorld,
    ssr="progress rate",
    published=(published.PDDL,),
    flags=("domains",),
)
