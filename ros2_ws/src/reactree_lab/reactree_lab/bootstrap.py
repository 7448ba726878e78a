"""Episodic memory from nothing: successful runs of training tasks become examples.

The paper begins with a few trajectories made by hand and lets a language model add to them (section 5.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import append_line, cut_torn_line, read_lines
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task as HouseTask
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.experience import Experience
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
        return [one for one in attempts if one.end in known]  # a line that is not a result is carried out again


#: Seeds of the houses, far from those of suites and datasets, which begin with 0.
SEEDS = range(900_000, 900_006)
#: Rooms of the houses; small houses make short experiences.
ROOMS = (3, 4)
TASKS_PER_HOUSE = 3
#: Most tokens of an experience: several must fit into a prompt.
LONGEST = 600
#: Likewise, of a planner that does a whole task in one node.
LONGEST_WHOLE = 1500


def make_examples(planner: str, advance: Callable[[float], None] = lambda share: None) -> list[Experience]:
    """Carry the tasks out, and choose from the experiences.

    Of all experiences with the same subgoal, but for its numbers, and the same end, the shortest one is chosen.
    """
    shortest: dict[tuple[str, str], Experience] = {}
    tasks = list(_tasks())
    for number, task in enumerate(tasks, 1):
        run = _experiences(task, number, planner)
        longest = LONGEST_WHOLE if len(run) == 1 else LONGEST
        for one in run:
            length, kind = approximate_tokens(one.text), (re.sub(r"\d+", "#", one.subgoal), one.end.value)
            known = shortest.get(kind)
            if length <= longest and (known is None or length < approximate_tokens(known.text)):
                shortest[kind] = one
        advance(number / len(tasks))
    return list(shortest.values())


def _tasks() -> Iterator[HouseTask]:
    for varied in (False, True):
        for rooms in ROOMS:
            for seed in SEEDS:
                made = generate_house(seed=seed, rooms=rooms, tasks=TASKS_PER_HOUSE, varied=varied)
                yield from parse_tasks(made)


def _experiences(task: HouseTask, number: int, planner: str) -> list[Experience]:
    spec = RunSpec(planner=planner).of_task(task, number)
    model = ExpertModel({spec.instruction: goals_of(task.goal)})
    with SymbolicWorld(task) as world:
        episode = assemble(spec, world=world, model=model)
        return episode.experiences() if episode.run().achieved else []
