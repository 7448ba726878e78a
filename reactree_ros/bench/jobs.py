"""What a bench consists of: its settings, and one job for every task, planner and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reactree_ros.errors import UserError
from reactree_ros.planners.variants import variant
from reactree_ros.world.generator import generate_house
from reactree_ros.world.tasks import Task, load_tasks, parse_tasks

WAH_NL, GENERATED = "wah_nl", "generated"
#: Task suites that can be named.
SUITES = (WAH_NL, GENERATED)
#: A task of a generated house is numbered by the house's seed times this, and its number in the house.
HOUSE_STRIDE = 100


class Key(NamedTuple):
    """Names one run of a bench."""

    suite: str
    task_id: int
    planner: str
    seed: int

    def __str__(self) -> str:
        return f"{self.planner}, seed {self.seed}, task {self.task_id}"

    @property
    def folder(self) -> Path:
        """Where the run is saved, relative to the bench's folder."""
        return Path("runs", self.planner.replace("/", "_"), str(self.seed), str(self.task_id))


@dataclass(frozen=True)
class Job:
    """One run to be carried out: all that a worker needs to know, also on another machine.

    Attributes:
        key: Its name.
        task: The task, with the house it is in.
    """

    key: Key
    task: Task


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What is run. Two benches of the same settings have the same jobs.

    Attributes:
        suite: One of :data:`SUITES`.
        planners: Names of planner variants, e.g. ``reactree_wm``.
        seeds: How many seeds: 0, 1, …
        tasks: The task file of ``wah_nl``; empty for ``generated``.
        tasks_digest: SHA-256 of that file's content.
        houses: How many houses of ``generated``: their seeds are 0, 1, …
        limit: Only so many tasks, the first ones; 0: all.
        llm: Settings of the language model, see :class:`reactree_ros.llm.models.ModelSettings`.
        memory: The episodic memory that examples come from; empty: no examples.
        experiences: How many experiences it holds.
        max_decisions: Decisions allowed in a run.
        max_steps: Steps allowed in a run.
    """

    suite: str
    planners: tuple[str, ...]
    seeds: int = 1
    tasks: str = ""
    tasks_digest: str = ""
    houses: int = 0
    limit: int = 0
    llm: Mapping[str, Any] = field(default_factory=lambda: {"llm": "expert"})
    memory: str = ""
    experiences: int = 0
    max_decisions: int = 200
    max_steps: int = 200

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            UserError: One of them cannot be used.
        """
        if self.suite not in SUITES:
            raise UserError(f"--suite {self.suite}: is none of {', '.join(SUITES)}")
        if not self.planners:
            raise UserError("--planner names no planner; e.g. --planner react,reactree_wm")
        for name in self.planners:
            variant(name)
            if self.planners.count(name) > 1:
                raise UserError(f"--planner: {name} is named twice")
        if self.seeds < 1:
            raise UserError(f"--seeds {self.seeds}: must be at least 1")
        if self.suite == WAH_NL and not self.tasks:
            raise UserError("--suite wah_nl needs --tasks: a task file in the WAH-NL schema")
        if self.suite == WAH_NL and self.houses:
            raise UserError("--houses belongs to --suite generated; leave it out")
        if self.suite == GENERATED and self.tasks:
            raise UserError("--tasks belongs to --suite wah_nl; the houses of --suite generated are made up")
        if self.suite == GENERATED and self.houses < 1:
            raise UserError(f"--houses {self.houses}: must be at least 1")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as they are written into the bench's folder."""
        return {**asdict(self), "planners": list(self.planners), "llm": dict(self.llm)}


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def load_suite(settings: BenchSettings) -> list[Task]:
    """Return the tasks of a suite.

    Raises:
        UserError: The task file cannot be used.
    """
    if settings.suite == WAH_NL:
        tasks = load_tasks(settings.tasks)
    else:
        tasks = [
            task.model_copy(update={"task_id": seed * HOUSE_STRIDE + task.task_id})
            for seed in range(settings.houses)
            for task in parse_tasks(generate_house(seed=seed))
        ]
    return tasks[: settings.limit or None]


def jobs(settings: BenchSettings, tasks: Sequence[Task]) -> Iterator[Job]:
    """Yield every job, planners taking turns, so that what is there after a kill compares all of them."""
    for seed in range(settings.seeds):
        for task in tasks:
            for planner in settings.planners:
                yield Job(Key(settings.suite, task.task_id, planner, seed), task)
