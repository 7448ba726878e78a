"""A worker's job in any process: makes its language models once, then carries out runs."""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from reactree_lab.bench.jobs import BenchSettings, Job
from reactree_lab.bench.results import RunLine, broken_line, goal_as_json, line_of, told_by
from reactree_lab.household.person import SimulatedPerson, person_from_dict
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.errors import UserError
from reactree_ros.llm.port import LanguageModel, LanguageModelError
from reactree_ros.llm.spec import make_model, model_from_dict
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import memory
from reactree_ros.plugins.settings import read_settings
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import EpisodeEnd
from reactree_ros.record.writer import encoded
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import WorldError

#: Files of a run: its record, its goal at the end, and an exception outside of the run's own reports.
RECORD, GOAL, ERROR = "record.jsonl.gz", "goal.json", "error.txt"


@dataclass(frozen=True)
class Finished:
    line: RunLine
    files: Mapping[str, bytes]  # its saved files: content by name, in the run's folder


def ready_model(llm: Mapping[str, Any], *, where: str) -> LanguageModel:
    """Make a language model as :func:`~reactree_ros.llm.spec.model_to_dict` writes it, and wait until it is ready."""
    with ExitStack() as made:
        try:
            model = made.enter_context(closing(make_model(*model_from_dict(llm, where=where))))
            model.ready().result()
        except LanguageModelError as error:
            raise UserError(str(error)) from error
        made.pop_all()
    return model


class JobRunner:
    """Carries out runs, also several at the same time in threads, which share its language models.

    It returns a run's files instead of writing them. So the same code works on another machine, and a worker that
    outlives a killed bench cannot spoil the next one's results.
    """

    def __init__(self, settings: BenchSettings) -> None:
        self._settings = settings
        self._suite = settings.spec
        self._memories: dict[str, EpisodicMemory] = {}  # by name
        self._models: dict[str, LanguageModel] = {}  # by settings: planners may share one
        self._runs = Runs()
        try:
            for name in settings.planners:
                self._model_of(name)
                if (named := settings.memory_of(name)) and named not in self._memories:
                    self._memories[named] = memory(named).open()
        except BaseException:
            self.close()
            raise

    def carry_out(self, job: Job) -> Finished | str:
        """Carry out one run; an exception becomes its result, with the traceback among its files.

        Returns:
            The finished run, or a text if the user must fix something first (e.g. install a package for the planner).
        """
        begin, instruction = time.monotonic(), ""
        try:
            instruction = job.task.instruction
            finished = self._carry_out(job, instruction)
        except UserError as error:
            return str(error)
        except WorldError as error:  # it was gone before the run began
            finished = Finished(broken_line(job, instruction, str(error), EpisodeEnd.WORLD_GONE), {})
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            line = broken_line(job, instruction, message, EpisodeEnd.BUG)
            finished = Finished(line, {ERROR: traceback.format_exc().encode()})
        line = dataclasses.replace(finished.line, busy_seconds=round(time.monotonic() - begin, 4))
        return dataclasses.replace(finished, line=line)

    def close(self) -> None:
        self._runs.cancel()
        for model in self._models.values():
            model.close()
        for one in self._memories.values():
            one.close()

    def _model_of(self, name: str) -> LanguageModel:
        llm = self._settings.llm_of(name)
        key = json.dumps(llm, sort_keys=True)
        if key not in self._models:
            self._models[key] = ready_model(llm, where="settings of the bench")
        return self._models[key]

    def _carry_out(self, job: Job, instruction: str) -> Finished:
        key, task, events = job.key, job.task, list[Event]()
        person = self._person_for(job)
        with self._suite.make_world(task) as world:
            episode = assemble(
                self.spec_of(job),
                world=world,
                model=self._model_of(key.planner),
                person=person,
                memory=self._memories.get(self._settings.memory_of(key.planner)),
                telling=True,
                write=events.append,
            )
            result = self._runs.carry_out(episode)
            record = b"".join(encoded(event) + b"\n" for event in events)
            files = {RECORD: gzip.compress(record, mtime=0)}
            if self._suite.goal is not None and not result.broken:
                files[GOAL] = goal_as_json(self._suite.goal(task, world)).encode()
        told = told_by(events)
        needless = 0 if person is None else person.needless(instruction)
        named = str(events[0].get("memory", ""))
        return Finished(line_of(job, result, told.events, told.sizes, needless=needless, memory=named), files)

    def spec_of(self, job: Job) -> RunSpec:
        key, settings = job.key, self._settings
        suite = read_settings(self._suite.settings, settings.suite_settings, where=f"task suite '{key.suite}'")
        llm = model_from_dict(settings.llm_of(key.planner), where="settings of the bench")
        spec = RunSpec(
            planner=settings.planner_of(key.planner),
            options=TreeOptions(seed=key.seed, **settings.options),
            world=Selection.from_spec("suite", self._suite, suite),
            llm=Selection.from_spec("llm", *llm),
            memory=settings.memory_of(key.planner),
            person=self._person_for(job) is not None,
        )
        return spec.decided_by(llm[0].trained_for(llm[1])).of_task(job.task, key.task_id)

    def _person_for(self, job: Job) -> SimulatedPerson | None:
        """Return the person of a run; the draws depend on task and seed, not on the planner."""
        if not self._settings.person or self._suite.conditions is None:
            return None
        settings = person_from_dict(self._settings.person)
        return SimulatedPerson(self._suite.conditions(job.task), settings, of=f"{job.key.task_id} {job.key.seed}")


class Runs:
    """The runs under way; any thread may carry out one, or cancel all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a run begins before all are cancelled, or is cancelled itself
        self._under_way: set[Episode] = set()
        self._canceled = False

    def carry_out(self, episode: Episode) -> EpisodeResult:
        with self._lock:
            self._under_way.add(episode)
            if self._canceled:
                episode.cancel()
        try:
            return episode.run()
        finally:
            with self._lock:
                self._under_way.discard(episode)

    def cancel(self) -> None:
        with self._lock:
            self._canceled = True
            for episode in self._under_way:
                episode.cancel()
