"""The world ``pddl``: Blocksworld, Gripper, Tyreworld and Barman, as in AgentBoard, or your own domain.

Everything is visible. A skill has its action's effects; an impossible one is answered with the reasons. The score is
AgentBoard's progress rate: the best share of the goal's facts that held at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.pddl.engine import DOMAIN, DOMAINS, MAKERS, Fact, PddlSimulator, Problem, Wording, wording_of
from reactree_lab.worlds.running import WorkerWorld
from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Pending
from reactree_ros.plugins.settings import Harmless, Settings, check_names, or_nearest, plain
from reactree_ros.world.port import Observation, Outcome, Score
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec

START_LINE = "This holds now:"


@dataclass(frozen=True)
class PddlTask:
    domain: Path  # the domain's file
    problem: Problem | Path = field(repr=False)  # the problem, or its file
    wanted: str  # the goal in words

    @property
    def instruction(self) -> str:
        return f"Make this hold: {self.wanted}"

    @property
    def task_name(self) -> str:
        return self.domain.parent.name


def made_up(domain: str, seed: int) -> PddlTask:
    problem, file = MAKERS[domain](seed), DOMAINS / domain / DOMAIN
    return PddlTask(file, problem, ", ".join(wording_of(file.parent).listed(problem.goal)))


class PddlWorld(WorkerWorld):
    def __init__(self, task: PddlTask, *, scored: bool = True) -> None:
        self._words = wording_of(task.domain.parent)
        self._engine = PddlSimulator(task.domain, task.problem, self._words)
        household = _household(task.domain.parent, self._words)
        self.household = replace(household, actions=self._engine.verbs(), rules=self._engine.rules())
        self._best = self._share(self._engine.facts())
        super().__init__("pddl", scored=scored)

    def survey(self) -> Pending[Observation]:
        return self.observe()

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None) -> None:
        self._engine.reset()
        self._best = self._share(self._engine.facts())

    def _skills(self) -> Sequence[str]:
        return self._engine.skills()

    def _rate(self) -> Score:
        return Score(float(self._best == 1), self._best)

    def _look(self) -> Observation:
        return Observation(f"{START_LINE} {', '.join(self._words.listed(self._engine.facts()))}.")

    def _take(self, skill: str) -> Observation:
        if not self._engine.knows(skill):
            return Observation(f"There is no way to {skill} here.", Outcome.UNKNOWN_SKILL)
        self._worker.check_wanted()
        before = self._engine.facts()
        if not self._engine.carry_out(skill):
            said = [self._words.fact(fact, holds=holds) for fact, holds in self._engine.objections(skill)]
            return Observation(f"You cannot {skill}: {', '.join(filter(None, said))}.", Outcome.PRECONDITION)
        now = self._engine.facts()
        self._best = max(self._best, self._share(now))
        changed = self._words.listed(fact for fact in now if fact not in before)
        changed += self._words.listed((fact for fact in before if fact not in now), holds=False)
        return Observation(f"You {skill}. Now: {', '.join(changed) or 'nothing else'}.")

    def _share(self, facts: Sequence[Fact]) -> float:
        return sum(fact in facts for fact in self._engine.goal) / len(self._engine.goal)


def _household(folder: Path, wording: Wording) -> Household:
    shipped = folder.parent == DOMAINS
    return Household(
        name=folder.name,
        actions=tuple(dict.fromkeys(skill.partition(" {")[0] for skill in wording.skills.values())),
        naming="",
        start_line=START_LINE,
        max_decisions=200,
        max_steps=100,
        prompts=f"reactree_lab.worlds.pddl:domains/{folder.name}/prompts" if shipped else "",
    )


class PddlSettings(WorldSettings):
    domain: Annotated[str, Harmless(MAKERS.__contains__)] = Field(
        default=next(iter(MAKERS)), description=f"a shipped domain ({', '.join(MAKERS)}), or a file of your own"
    )
    problem: str = Field(
        default="", description="a problem's file; without one, problems of a shipped domain are made up"
    )
    problems: int = Field(default=15, ge=1, description="number of made-up problems; the number of a task is its seed")

    @model_validator(mode="after")
    def _a_problem_of_its_own(self) -> PddlSettings:
        if self.domain not in MAKERS and not self.problem:
            known = f"{', '.join(MAKERS)}{or_nearest(self.domain, MAKERS)}"
            raise ValueError(f"domain '{self.domain}' is none of {known}; a file needs a problem, too")
        return self


def tasks_of(settings: PddlSettings) -> Mapping[int, PddlTask]:
    if not settings.problem:
        return TasksOnDemand(range(1, settings.problems + 1), partial(made_up, settings.domain))
    shipped = settings.domain in MAKERS
    domain = DOMAINS / settings.domain / DOMAIN if shipped else Path(settings.domain).resolve()
    problem = Path(settings.problem)
    wording = wording_of(domain.parent)
    goal = PddlSimulator(domain, problem, wording).goal
    return {1: PddlTask(domain, problem, ", ".join(wording.listed(goal)))}


SPEC = WorldSpec(
    name="pddl",
    summary="Blocksworld, Gripper, Tyreworld, Barman, and domains of your own, in PDDL",
    settings=PddlSettings,
    extra="reactree_lab[pddl]",
    needs=("unified_planning",),
    household=_household(DOMAINS / next(iter(MAKERS)), wording_of(DOMAINS / next(iter(MAKERS)))),
    load_tasks=tasks_of,
    make=lambda settings, task, **given: PddlWorld(task, **given),
    flags=("task_id",),
)


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


def _suite_tasks(settings: PddlSuiteSettings) -> Mapping[int, PddlTask]:
    seeds = range(settings.first_seed, settings.first_seed + settings.problems)
    return TasksOnDemand.by_kind(MAKERS, DOMAIN_STRIDE, dict.fromkeys(settings.domains.split(","), seeds), made_up)


SUITE = SuiteSpec.in_world(
    SPEC,
    summary="problems of Blocksworld, Gripper, Tyreworld and Barman, made up from seeds, in the world `pddl`",
    settings=PddlSuiteSettings,
    tasks=_suite_tasks,
    make_world=PddlWorld,
    ssr="progress rate",
    published=(published.PDDL,),
    flags=("domains",),
)
