"""Episodic memory from nothing: what reaches its goal is kept, once, also when it is broken off in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from memory.word_hash_embedder import WordHashEmbedder

from reactree_lab.bootstrap import Attempt, Bootstrap
from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, Reply, ServerUnavailable
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, World, WorldError
from reactree_ros.world.spec import Task

TASKS = {task.task_id: task for task in parse_tasks(generate_house(seed=5, tasks=5))}
FIRST, SECOND, THIRD, *_ = TASKS.values()


def first(count: int) -> dict[int, Task]:
    return dict(islice(TASKS.items(), count))


class Counting(ExpertModel):
    """The expert, which keeps what it was asked; it dies over an instruction, for good."""

    def __init__(self, dies_over: str = "") -> None:
        super().__init__()
        self.prompts: list[str] = []
        self.dies_over = dies_over

    @property
    def instructions(self) -> list[str]:
        """The instructions that it was asked about, each once."""
        asked = [prompt.rpartition("Target_domain:\n")[2] for prompt in self.prompts]
        return [one.instruction for one in TASKS.values() if any(f": {one.instruction}\n" in text for text in asked)]

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.prompts.append(request.prompt)
        if self.dies_over and self.dies_over in self.instructions:
            return Pending.failed(ServerUnavailable("connection refused"))
        return super().decide(request)


class Burning(SymbolicWorld):
    """Where no skill can be carried out any more."""

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.failed(WorldError("the simulator has exited"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SqliteMemory]:
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as one:
        yield one


def bootstrap(
    memory: SqliteMemory,
    name: str = "reactree_wm",
    *,
    model: Counting | None = None,
    make_world: Callable[[Any], World] = SymbolicWorld,
    max_decisions: int = 0,
) -> Bootstrap:
    spec = RunSpec(planner=name, options=TreeOptions(max_decisions=max_decisions))
    return Bootstrap(memory, spec, model=model or Counting(), make_world=make_world)


@pytest.mark.slow
def test_a_tree_leaves_what_every_agent_node_went_through(memory: SqliteMemory) -> None:
    attempts = list(bootstrap(memory).attempts(TASKS))
    assert [one.task_id for one in attempts] == list(TASKS)
    assert all(one.achieved and one.added > 1 for one in attempts)
    assert len(memory) == sum(one.added for one in attempts)
    assert {task.instruction for task in TASKS.values()} < {experience.subgoal for experience in memory}


@pytest.mark.slow
def test_a_flat_planner_leaves_its_runs_as_a_whole(memory: SqliteMemory) -> None:
    assert [one.added for one in bootstrap(memory, "react").attempts(TASKS)] == [1] * len(TASKS)
    assert sorted(experience.subgoal for experience in memory) == sorted(task.instruction for task in TASKS.values())


def test_what_misses_its_goal_leaves_nothing(memory: SqliteMemory) -> None:
    attempts = list(bootstrap(memory, max_decisions=3).attempts(TASKS))
    assert [(one.achieved, one.added, one.end) for one in attempts] == [(False, 0, "out_of_decisions")] * len(TASKS)
    assert len(memory) == 0


def test_later_tasks_have_earlier_ones_as_examples(memory: SqliteMemory) -> None:
    one = bootstrap(memory)
    list(one.attempts(first(2)))
    model = one._model
    assert isinstance(model, Counting)
    earliest, latest = (model.prompts[at].partition("Target_domain:\n")[0] for at in (0, -1))
    assert f"Your task is to: {FIRST.instruction}\n" not in earliest
    assert f"Your task is to: {FIRST.instruction}\n" in latest


@pytest.mark.slow
def test_a_model_that_is_gone_twice_in_a_row_ends_it_and_it_goes_on_with_the_first_of_them(
    memory: SqliteMemory,
) -> None:
    dying = Counting(dies_over=SECOND.instruction)
    attempts = bootstrap(memory, model=dying).attempts(first(4))
    assert next(attempts).task_id == FIRST.task_id
    kept = len(memory)
    assert next(attempts) == Attempt(SECOND.task_id, "reactree_wm", False, 0, "model_gone")
    with pytest.raises(
        UserError, match=f"task {THIRD.task_id}: the language model does not answer: .*connection refused; "
    ):
        next(attempts)
    assert dying.instructions == [FIRST.instruction, SECOND.instruction, THIRD.instruction]
    assert len(memory) == kept

    revived = Counting()
    again = list(bootstrap(memory, model=revived).attempts(first(4)))
    assert [one.task_id for one in again] == list(first(4))
    assert all(one.achieved for one in again)
    assert revived.instructions == [task.instruction for task in list(TASKS.values())[1:4]]


def test_a_model_that_is_gone_over_one_task_loses_only_that(memory: SqliteMemory) -> None:
    class Choking(Counting):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if f": {SECOND.instruction}\n" in request.prompt.rpartition("Target_domain:\n")[2]:
                return Pending.failed(ServerUnavailable("HTTP 500"))
            return super().decide(request)

    attempts = list(bootstrap(memory, model=Choking()).attempts(first(3)))
    assert [one.end for one in attempts] == ["done", "model_gone", "done"]


@pytest.mark.slow
def test_what_broke_off_in_its_world_is_told_and_carried_out_again(memory: SqliteMemory) -> None:
    def make(task: Any) -> World:
        return Burning(task) if task is SECOND else SymbolicWorld(task)

    attempts = list(bootstrap(memory, make_world=make).attempts(first(3)))
    assert [(one.end, one.broken) for one in attempts] == [("done", False), ("world_gone", True), ("done", False)]
    revived = Counting()
    again = list(bootstrap(memory, model=revived).attempts(first(3)))
    assert [one.end for one in again] == ["done"] * 3
    assert revived.instructions == [SECOND.instruction]


@pytest.mark.slow
def test_what_was_broken_off_goes_on_where_it_was(memory: SqliteMemory) -> None:
    done = list(islice(bootstrap(memory).attempts(TASKS), 2))
    before = len(memory)
    again = bootstrap(memory)
    attempts = list(again.attempts(TASKS))
    assert attempts[:2] == done
    assert len(memory) == before + sum(one.added for one in attempts[2:])
    assert isinstance(again._model, Counting)
    last = {text.rpartition("Target_domain:\n")[2] for text in again._model.prompts}
    assert not any(f"Your task is to: {FIRST.instruction}\n" in text for text in last)


def test_a_kill_between_memory_and_record_adds_nothing_twice(memory: SqliteMemory) -> None:
    list(bootstrap(memory).attempts(first(1)))
    before = len(memory)
    record = memory.path.with_name("memory.db.bootstrap.jsonl")
    record.write_text(record.read_text(encoding="utf-8")[:20], encoding="utf-8")  # a torn last line
    (attempt,) = bootstrap(memory).attempts(first(1))
    assert (attempt.achieved, attempt.added, len(memory)) == (True, 0, before)
    assert len(record.read_text(encoding="utf-8").splitlines()) == 1


def test_every_planner_has_its_own_record(memory: SqliteMemory) -> None:
    list(bootstrap(memory, "react").attempts(first(1)))
    (attempt,) = bootstrap(memory, "react_wm").attempts(first(1))
    assert attempt.planner == "react_wm"


def test_a_broken_record_is_named(memory: SqliteMemory) -> None:
    memory.path.with_name("memory.db.bootstrap.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"memory\.db\.bootstrap\.jsonl: line 1 is broken"):
        list(bootstrap(memory).attempts(TASKS))


def test_the_seed_is_taken_over_once(memory: SqliteMemory, tmp_path: Path) -> None:
    with SqliteMemory(tmp_path / "seed.db", WordHashEmbedder()) as seed:
        list(bootstrap(seed, "react").attempts(first(2)))
        one = bootstrap(memory)
        assert (memory.keep(seed), memory.keep(seed)) == (2, 0)
    list(one.attempts({THIRD.task_id: THIRD}))
    assert isinstance(one._model, Counting)
    assert f"Your task is to: {FIRST.instruction}\n" in one._model.prompts[0]
