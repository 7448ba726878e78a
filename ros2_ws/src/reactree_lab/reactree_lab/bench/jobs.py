"""The settings of a bench, and its jobs: one for every task, planner and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from reactree_lab.bench.names import short_names
from reactree_lab.bench.spec import SUITES, SuiteSpec
from reactree_lab.household.person import person_from_dict, person_to_dict
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of, read_yaml
from reactree_ros.files.secrecy import without_credentials
from reactree_ros.llm.spec import MODELS, model_from_dict, model_to_dict, strange
from reactree_ros.memory.spec import memory
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import nearest, read_settings
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.spec import Task, TasksOnDemand


class Key(NamedTuple):
    suite: str
    task_id: int
    planner: str
    seed: int


@dataclass(frozen=True)
class Job:
    key: Key
    task: Task  # the task, with its house


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Settings of a bench. Benches with the same settings have the same jobs."""

    suite: str
    suite_settings: Mapping[str, Any] = field(default_factory=dict)  # its settings; missing ones have their defaults
    digests: Mapping[str, str] | None = None  # SHA-256 of each file that one of them names; None computes them now
    #: Names of planners with their options, e.g. ``reactree_wm``, or names of contenders.
    planners: tuple[str, ...]
    seeds: int = 1  # number of seeds: 0, 1, …
    limit: int = 0  # number of tasks, from the first; 0 for all
    #: The language model and its settings, as :func:`reactree_ros.llm.spec.model_to_dict` writes them.
    llm: Mapping[str, Any] = field(default_factory=lambda: {"llm": MODELS.default})
    memory: str = ""  # the episodic memory for examples; empty for the one that comes with the household
    experiences: int = 0  # number of experiences in it
    #: The options of each run except the seed; missing ones have their defaults.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: For each name that is not a planner's, its ``planner``, and its ``llm`` and ``memory`` if they differ, as
    #: :func:`read_contenders` reads them.
    contenders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The person who answers questions, as :func:`~reactree_lab.household.person.person_from_dict` reads it; empty for
    #: nobody.
    person: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.planners:
            raise UserError("--planner names no planner; e.g. --planner react,reactree_wm")
        for name in self.planners:
            planner(self.planner_of(name))
            if self.planners.count(name) > 1:
                raise UserError(f"--planner: {name} is named twice")
        if self.seeds < 1:
            raise UserError(f"--seeds {self.seeds}: must be at least 1")
        if "seed" in self.options:
            raise UserError(
                "a bench has no option 'seed': its runs have the seeds 0, 1, …; set their number with --seeds"
            )
        settings = read_settings(self.spec.settings, self.suite_settings, where=f"task suite '{self.suite}'")
        files = {name: value for name, value in settings if isinstance(value, Path)}
        if self.digests is None:
            self._set("digests", {name: digest(file) for name, file in files.items()})
        self._set("suite_settings", settings.model_dump(mode="json"))
        self._set("llm", model_to_dict(*model_from_dict(self.llm, where="settings of the bench")))
        if self.person:
            if self.spec.conditions is None:
                raise UserError(
                    f"--person: the suite '{self.suite}' does not give a person the goals of its tasks; leave it out"
                )
            self._set("person", person_to_dict(person_from_dict(self.person)))
        options = read_settings(RunOptions, self.options, where="options of the bench")
        self._set("options", options.model_dump(mode="json", exclude={"seed"}))

    @cached_property
    def short(self) -> dict[str, str]:
        """A short name for each of the planners."""
        return short_names(self.planners)

    def told(self, key: Key) -> str:
        return f"{self.short[key.planner]}, seed {key.seed}, task {key.task_id}"

    def planner_of(self, name: str) -> str:
        return str(self.contenders[name]["planner"]) if name in self.contenders else name

    def llm_of(self, name: str) -> Mapping[str, Any]:
        own: Mapping[str, Any] = self.contenders.get(name, {}).get("llm", self.llm)
        return own

    def memory_of(self, name: str) -> str:
        return str(self.contenders.get(name, {}).get("memory", self.memory))

    def strange(self) -> list[str]:
        said = []
        for name in self.planners:
            spec, settings = model_from_dict(self.llm_of(name), where="settings of the bench")
            said.append(strange(self.planner_of(name), spec.trained_for(settings)))
        return [one for one in said if one]

    def _set(self, name: str, value: Mapping[str, Any]) -> None:
        object.__setattr__(self, name, value)

    @property
    def spec(self) -> SuiteSpec:
        return SUITES.get(self.suite)

    def tasks(self) -> Mapping[int, Task]:
        spec = self.spec
        spec.check_installed()
        settings = read_settings(spec.settings, self.suite_settings, where=f"task suite '{self.suite}'")
        tasks = spec.tasks(settings)
        return TasksOnDemand(islice(tasks, self.limit), tasks.__getitem__) if self.limit else tasks

    def jobs(self, tasks: Mapping[int, Task] | None = None, *, done: Collection[Key] = ()) -> Iterator[Job]:
        """Yield every job; planners take turns, so that a killed bench still compares all of them.

        ``tasks`` is the result of :meth:`tasks`, if called before. A task that only jobs in ``done`` need is not made.
        """
        tasks = self.tasks() if tasks is None else tasks
        for seed in range(self.seeds):
            for task_id in tasks:
                left = [key for name in self.planners if (key := Key(self.suite, task_id, name, seed)) not in done]
                if left:
                    task = tasks[task_id]
                    yield from (Job(key, task) for key in left)

    def as_dict(self) -> dict[str, Any]:
        contenders = {name: without_credentials(one) for name, one in self.contenders.items()}
        written = {
            "suite_settings": without_credentials(self.suite_settings),
            "llm": without_credentials(self.llm),
            "contenders": contenders,
        }
        return {**asdict(self), "planners": list(self.planners), **written}


def read_contenders(path: Path) -> dict[str, dict[str, Any]]:
    """Read a YAML file of contenders: by name, a ``planner``, its ``memory``, and its ``llm`` with settings."""
    values, _ = read_yaml(path)
    if not isinstance(values, Mapping) or not values:
        raise UserError(f"--contenders {path}: names none; each looks like 'NAME: {{planner: react, llm: small, …}}'")
    found = {}
    for name, one in values.items():
        where = f"--contenders {path}: '{name}'"
        if not isinstance(one, Mapping) or not isinstance(one.get("planner"), str):
            slip = nearest("planner", map(str, one)) if isinstance(one, Mapping) else ""
            meant = (
                f"did you mean 'planner' by '{slip}'?" if slip else "it looks like '{planner: react, llm: small, …}'"
            )
            raise UserError(f"{where} names no planner; {meant}")
        if str(name).startswith(".") or "/" in str(name):
            raise UserError(f"{where}: a name with a slash or a leading dot cannot name a folder; change it")
        found[str(name)] = dict[str, Any](planner=one["planner"])
        if "memory" in one:
            named = memory(one["memory"])
            named.check_exists()
            found[str(name)]["memory"] = named.absolute()
        if others := {key: value for key, value in one.items() if key not in ("planner", "memory")}:
            found[str(name)]["llm"] = model_to_dict(*model_from_dict(others, where=where))
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(bytes_of(path)).hexdigest()
