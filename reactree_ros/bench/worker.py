"""What a worker does, in whatever process: makes its language model once, then carries out one run after another."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reactree_ros.agent.budget import Budget
from reactree_ros.bench.events import EventRecorder, write_events
from reactree_ros.bench.goal import goal_at_the_end, write_goal
from reactree_ros.bench.jobs import BenchSettings, Job
from reactree_ros.bench.metered_model import MeteredModel
from reactree_ros.bench.results import RunLine, broken_line, line_of
from reactree_ros.errors import UserError
from reactree_ros.llm.models import make_model, settings_of
from reactree_ros.llm.port import LanguageModelError
from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.planners.variants import variant
from reactree_ros.run import Run
from reactree_ros.saved_run import save_run
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.symbolic import SymbolicWorld

#: Files of a saved run that a bench adds to those of :func:`reactree_ros.saved_run.save_run`.
EVENTS, GOAL, ERROR = "events.jsonl", "goal.json", "error.txt"
_IN_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Finished:
    """A run that came to its end, whatever that was.

    Attributes:
        line: What came of it.
        files: The saved run: content by path, relative to the run's folder.
    """

    line: RunLine
    files: Mapping[str, bytes]


class Worker:
    """Carries out runs, one at a time.

    It writes nothing where the results are: a saved run is returned, so that the same worker serves from another
    machine, and one that outlives a killed bench cannot spoil what the next one writes.

    Args:
        settings: Which language model, which memory, which limits.

    Raises:
        UserError: The language model does not get ready, or the memory cannot be opened.
    """

    def __init__(self, settings: BenchSettings) -> None:
        self._settings = settings
        self._memory: EpisodicMemory | None = None
        self._model = make_model(settings_of(settings.llm, where="settings of the bench"))
        try:
            self._model.ready().result()
            if settings.memory:
                self._memory = _open_memory(settings.memory)
        except LanguageModelError as error:
            self.close()
            raise UserError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def carry_out(self, job: Job) -> Finished | str:
        """Carry out one run; an exception on the way becomes its result, with the traceback among its files.

        Returns:
            What came of it; in words, where the user has to put something right before anything can (install what the
            planner needs).
        """
        begin = time.monotonic()
        try:
            finished = self._carry_out(job)
        except UserError as error:
            return str(error)
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            finished = Finished(broken_line(job, message), {ERROR: traceback.format_exc().encode()})
        line = dataclasses.replace(finished.line, busy_seconds=round(time.monotonic() - begin, 4))
        return dataclasses.replace(finished, line=line)

    def close(self) -> None:
        """Release the language model and the memory."""
        self._model.close()
        if self._memory is not None:
            self._memory.close()

    def _carry_out(self, job: Job) -> Finished:
        settings, chosen = self._settings, variant(job.key.planner)
        model = MeteredModel(self._model)
        with contextlib.closing(SymbolicWorld(job.task)) as world:
            context = RunContext(
                model=model,
                world=world,
                budget=Budget(max_decisions=settings.max_decisions, max_steps=settings.max_steps),
                options=TreeOptions(seed=job.key.seed),
                working_memory=WorkingMemory() if chosen.working_memory else None,
            )
            context.listener = recorder = EventRecorder(model, context)
            run = Run(job.task.instruction, context, task_id=job.key.task_id, planner=chosen.build)
            result = run.run(self._memory)
            sizes = [size for _, _, reply in context.replies if (size := model.size(reply)) is not None]
            line = line_of(job, result, recorder.events, sizes)
            with tempfile.TemporaryDirectory(prefix="reactree-run-", dir=_temporary_place()) as temporary:
                folder = Path(temporary, "run")
                save_run(run, result, folder, task_name=job.task.task_name)
                write_events(recorder.events, folder / EVENTS)
                write_goal(goal_at_the_end(job.task, world), folder / GOAL)
                return Finished(line, _files(folder))


def _temporary_place() -> str | None:
    """Return a folder in memory where there is one: on the disk, each run would wait for the results to be synced."""
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _open_memory(path: str) -> EpisodicMemory:
    from reactree_ros.memory.embedding import default_embedder

    return EpisodicMemory(path, default_embedder())
