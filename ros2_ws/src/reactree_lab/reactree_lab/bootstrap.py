"""Episodic memory from nothing: successful runs of training tasks become examples.

The paper begins with a few trajectories made by hand and lets a language model add to them (section 5.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import append_line, cut_torn_line, read_lines
from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.record.export import experiences_of
from reactree_ros.record.moment import Moment
from reactree_ros.record.verdict import BROKEN, UNANSWERED, EpisodeEnd
from reactree_ros.world.port import World
from reactree_ros.world.spec import Task


@dataclass(frozen=True)
class Attempt:
    """The result of a training task: a line of the record next to the memory."""

    task_id: int
    planner: str  # name of the planner, with its options
    achieved: bool  # whether the goal was reached, by the world's score
    added: int  # experiences that the memory gained
    end: str  # how the run ended, a value of :class:`~reactree_ros.record.verdict.EpisodeEnd`

    @property
    def broken(self) -> bool:
        return EpisodeEnd(self.end) in BROKEN


class Bootstrap:
    """Fills an episodic memory, task by task; each result is on disk, so that you can resume at any time."""

    def __init__(
        self,
        memory: EpisodicMemory,
        spec: RunSpec,
        *,
        model: LanguageModel,
        make_world: Callable[[Task], World],
    ) -> None:
        self._memory = memory
        self._spec = spec
        self._model = model
        self._make_world = make_world
        self._record = memory.path.with_name(f"{memory.path.name}.bootstrap.jsonl")

    def begin_with(self, other: EpisodicMemory) -> int:
        """Copy missing experiences from another memory; return their number."""
        return self._memory.keep(other)

    def attempts(self, tasks: Mapping[int, Task]) -> Iterator[Attempt]:
        """Carry out every task; yield the results, earlier ones first.

        A run that broke off (the language model or the world was gone, a bug) is yielded but not recorded: a resumed
        bootstrap repeats it.
        """
        done = {one.task_id: one for one in self._recorded() if one.planner == self._spec.planner}
        yield from (done[task_id] for task_id in tasks if task_id in done)
        gone = False
        for task_id, task in tasks.items():
            if task_id in done:
                continue
            attempt, message = self._attempt(task_id, task)
            before, gone = gone, EpisodeEnd(attempt.end) in UNANSWERED
            if before and gone:
                raise UserError(
                    f"task {task_id}: {EpisodeEnd(attempt.end).words}: {message}; repeat the command to continue here"
                )
            yield attempt

    def _attempt(self, task_id: int, task: Task) -> tuple[Attempt, str]:
        """Carry a task out; return what came of it, and what went wrong in words."""
        moment, spec = Moment(), self._spec.of_task(task, task_id)
        with self._make_world(task) as world:
            episode = assemble(spec, world=world, model=self._model, memory=self._memory, write=moment.apply)
            result = episode.run()
        added = self._memory.keep(experiences_of(moment)) if result.whole and not result.broken else 0
        attempt = Attempt(task_id, self._spec.planner, result.achieved, added, result.end)
        if result.broken:
            return attempt, result.message
        with self._record.open("ab") as file:
            append_line(file, json.dumps(asdict(attempt)))
        return attempt, result.message

    def _recorded(self) -> list[Attempt]:
        cut_torn_line(self._record)
        if not self._record.exists():
            return []
        attempts = read_lines(self._record, Attempt)
        known = {end.value for end in EpisodeEnd}
        return [one for one in attempts if one.end in known]  # a line that is no result is carried out again
