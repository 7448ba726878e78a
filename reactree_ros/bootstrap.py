"""Episodic memory from nothing: runs over training tasks, of which those that reach their goal become examples.

The paper begins with a few trajectories made by hand and lets a language model add to them (section 5.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass

from reactree_ros.agent.budget import Budget
from reactree_ros.json_lines import append_line, cut_torn_line, read_lines
from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.planners.variants import Variant
from reactree_ros.run import Run
from reactree_ros.saved_run import experiences
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.symbolic import SymbolicWorld
from reactree_ros.world.tasks import Task


@dataclass(frozen=True)
class Attempt:
    """What came of a training task: a line of the record beside the memory.

    Attributes:
        task_id: The task.
        planner: Name of the planner's variant.
        achieved: Whether the goal was reached.
        added: Experiences that the memory gained.
        end: How the run ended, a value of :class:`~reactree_ros.run.RunEnd`.
    """

    task_id: int
    planner: str
    achieved: bool
    added: int
    end: str


class Bootstrap:
    """Fills an episodic memory, task by task; what is done is on disk, so that it can be gone on with at any time.

    Args:
        memory: Filled; examples come from it, so that later tasks profit from earlier ones.
        model: Decides.
        planner: Who plans.
        seed: Seed of the model and of the choice among equally similar examples.
        budget: Makes the budget of a run.
    """

    def __init__(
        self,
        memory: EpisodicMemory,
        *,
        model: LanguageModel,
        planner: Variant,
        seed: int = 0,
        budget: Callable[[], Budget] = Budget,
    ) -> None:
        self._memory = memory
        self._model = model
        self._planner = planner
        self._seed = seed
        self._budget = budget
        self._record = memory.path.with_name(f"{memory.path.name}.bootstrap.jsonl")

    def begin_with(self, other: EpisodicMemory) -> int:
        """Take over the experiences of another memory that are not there yet; return how many."""
        new = [experience for experience in other if experience not in self._memory]
        if new:
            self._memory.add_run(new)
        return len(new)

    def attempts(self, tasks: Sequence[Task]) -> Iterator[Attempt]:
        """Carry every task out; yield what came of each, first of those that were carried out before.

        Raises:
            UserError: The record beside the memory cannot be read.
        """
        done = {one.task_id: one for one in self._recorded() if one.planner == self._planner.name}
        for task in tasks:
            if task.task_id in done:
                yield done[task.task_id]
        for task in tasks:
            if task.task_id not in done:
                attempt = self._attempt(task)
                with self._record.open("ab") as file:
                    append_line(file, json.dumps(asdict(attempt)))
                yield attempt

    def _attempt(self, task: Task) -> Attempt:
        with closing(SymbolicWorld(task)) as world:
            context = RunContext(
                model=self._model,
                world=world,
                budget=self._budget(),
                options=TreeOptions(seed=self._seed),
                working_memory=WorkingMemory() if self._planner.working_memory else None,
            )
            run = Run(task.instruction, context, task_id=task.task_id, planner=self._planner.build)
            result = run.run(self._memory)
        found = []
        if result.achieved:
            found = experiences(context.nodes, task_id=str(task.task_id), task_name=task.task_name)
            found = [experience for experience in found if experience not in self._memory]  # of a kill after adding
            if found:
                self._memory.add_run(found)
        return Attempt(task.task_id, self._planner.name, result.achieved, len(found), result.end)

    def _recorded(self) -> list[Attempt]:
        cut_torn_line(self._record)
        if not self._record.exists():
            return []
        return read_lines(self._record, lambda line: Attempt(**json.loads(line)))
