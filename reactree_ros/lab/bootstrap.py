"""Episodic memory from nothing: successful runs of training tasks become examples.

The paper begins with a few trajectories made by hand and lets a language model add to them (section 5.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.files.json_lines import append_line, cut_torn_line, read_lines
from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.planners.spec import Planner
from reactree_ros.record.export import experiences_of
from reactree_ros.record.moment import Moment
from reactree_ros.record.verdict import BROKEN, EpisodeEnd
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import World
from reactree_ros.world.spec import Task


@dataclass(frozen=True)
class Attempt:
    """The result of a training task: a line of the record next to the memory.

    Attributes:
        task_id: The task.
        planner: Name of the planner, with its options.
        achieved: Whether the goal was reached.
        added: Experiences that the memory gained.
        end: How the run ended, a value of :class:`~reactree_ros.record.verdict.EpisodeEnd`.
    """

    task_id: int
    planner: str
    achieved: bool
    added: int
    end: str

    @property
    def broken(self) -> bool:
        """Whether the run failed for another reason than the planner; such a run is repeated."""
        return EpisodeEnd(self.end) in BROKEN


class Bootstrap:
    """Fills an episodic memory, task by task; each result is on disk, so that you can resume at any time.

    Args:
        memory: The memory to fill; it also provides examples, so that later tasks profit from earlier ones.
        model: Decides.
        planner: The planner.
        make_world: Makes the world of a task.
        options: Options of the method.
    """

    def __init__(
        self,
        memory: EpisodicMemory,
        *,
        model: LanguageModel,
        planner: Planner,
        make_world: Callable[[Task], World],
        options: TreeOptions | None = None,
    ) -> None:
        self._memory = memory
        self._model = model
        self._planner = planner
        self._make_world = make_world
        self._options = options
        self._record = memory.path.with_name(f"{memory.path.name}.bootstrap.jsonl")

    def begin_with(self, other: EpisodicMemory) -> int:
        """Copy missing experiences from another memory; return their number."""
        return self._memory.keep(other)

    def attempts(self, tasks: Mapping[int, Task]) -> Iterator[Attempt]:
        """Carry out every task; yield the results, earlier ones first.

        A run that broke off (the language model or the world was gone, a bug) is yielded but not recorded: a resumed
        bootstrap repeats it.

        Raises:
            UserError: The record next to the memory cannot be read, or the language model is gone in two tasks in a
                row.
        """
        done = {one.task_id: one for one in self._recorded() if one.planner == self._planner.name}
        yield from (done[task_id] for task_id in tasks if task_id in done)
        gone = False
        for task_id, task in tasks.items():
            if task_id in done:
                continue
            attempt, message = self._attempt(task_id, task)
            before, gone = gone, attempt.end == EpisodeEnd.MODEL_GONE.value
            if before and gone:
                raise UserError(
                    f"task {task_id}: the language model is gone: {message}; repeat the command to continue here"
                )
            yield attempt

    def _attempt(self, task_id: int, task: Task) -> tuple[Attempt, str]:
        """Carry out a task; return its result, and its problem in words."""
        moment = Moment()
        with self._make_world(task) as world:
            episode = Episode(
                task.instruction,
                world=world,
                model=self._model,
                planner=self._planner,
                memory=self._memory,
                options=self._options,
                task_id=task_id,
                task_name=task.task_name,
                record=Recorder(moment.apply),
            )
            result = episode.run()
        added = self._memory.keep(experiences_of(moment)) if result.achieved and not result.broken else 0
        attempt = Attempt(task_id, self._planner.name, result.achieved, added, result.end)
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
        return [one for one in attempts if one.end in known]  # "error" of earlier versions was not the planner's fault
