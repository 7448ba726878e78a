"""Episodic memory from nothing: what reaches its goal is kept, once, also when it is broken off in between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from memory.word_hash_embedder import WordHashEmbedder

from reactree_ros.agent.budget import Budget
from reactree_ros.bootstrap import Bootstrap
from reactree_ros.errors import UserError
from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.pending import Pending
from reactree_ros.planners.variants import variant
from reactree_ros.world.generator import generate_house
from reactree_ros.world.tasks import parse_tasks

TASKS = parse_tasks(generate_house(seed=5, tasks=5))


class Counting(ExpertModel):
    """The expert, which keeps what it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.prompts.append(request.prompt)
        return super().decide(request)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EpisodicMemory]:
    with EpisodicMemory(tmp_path / "memory.db", WordHashEmbedder()) as one:
        yield one


def bootstrap(memory: EpisodicMemory, planner: str = "reactree_wm", max_decisions: int = 200) -> Bootstrap:
    return Bootstrap(
        memory,
        model=Counting(),
        planner=variant(planner),
        budget=lambda: Budget(max_decisions=max_decisions),
    )


def test_a_tree_leaves_what_every_agent_node_went_through(memory: EpisodicMemory) -> None:
    attempts = list(bootstrap(memory).attempts(TASKS))
    assert [one.task_id for one in attempts] == [task.task_id for task in TASKS]
    assert all(one.achieved and one.added > 1 for one in attempts)
    assert len(memory) == sum(one.added for one in attempts)
    assert {task.instruction for task in TASKS} < {experience.subgoal for experience in memory}


def test_a_flat_planner_leaves_its_runs_as_a_whole(memory: EpisodicMemory) -> None:
    assert [one.added for one in bootstrap(memory, "react").attempts(TASKS)] == [1] * len(TASKS)
    assert sorted(experience.subgoal for experience in memory) == sorted(task.instruction for task in TASKS)


def test_what_misses_its_goal_leaves_nothing(memory: EpisodicMemory) -> None:
    attempts = list(bootstrap(memory, max_decisions=3).attempts(TASKS))
    assert [(one.achieved, one.added, one.end) for one in attempts] == [(False, 0, "out_of_decisions")] * len(TASKS)
    assert len(memory) == 0


def test_later_tasks_have_earlier_ones_as_examples(memory: EpisodicMemory) -> None:
    one = bootstrap(memory)
    list(one.attempts(TASKS[:2]))
    model = one._model
    assert isinstance(model, Counting)
    first, last = (model.prompts[at].partition("Target_domain:\n")[0] for at in (0, -1))
    assert f"Your task is to: {TASKS[0].instruction}\n" not in first
    assert f"Your task is to: {TASKS[0].instruction}\n" in last


def test_what_was_broken_off_goes_on_where_it_was(memory: EpisodicMemory) -> None:
    first = list(islice(bootstrap(memory).attempts(TASKS), 2))
    before = len(memory)
    again = bootstrap(memory)
    attempts = list(again.attempts(TASKS))
    assert attempts[:2] == first
    assert len(memory) == before + sum(one.added for one in attempts[2:])
    assert isinstance(again._model, Counting)
    last = {text.rpartition("Target_domain:\n")[2] for text in again._model.prompts}
    assert not any(f"Your task is to: {TASKS[0].instruction}\n" in text for text in last)


def test_a_kill_between_memory_and_record_adds_nothing_twice(memory: EpisodicMemory) -> None:
    list(bootstrap(memory).attempts(TASKS[:1]))
    before = len(memory)
    record = memory.path.with_name("memory.db.bootstrap.jsonl")
    record.write_text(record.read_text(encoding="utf-8")[:20], encoding="utf-8")  # a torn last line
    (attempt,) = bootstrap(memory).attempts(TASKS[:1])
    assert (attempt.achieved, attempt.added, len(memory)) == (True, 0, before)
    assert len(record.read_text(encoding="utf-8").splitlines()) == 1


def test_every_planner_has_its_own_record(memory: EpisodicMemory) -> None:
    list(bootstrap(memory, "react").attempts(TASKS[:1]))
    (attempt,) = bootstrap(memory, "react_wm").attempts(TASKS[:1])
    assert attempt.planner == "react_wm"


def test_a_broken_record_is_named(memory: EpisodicMemory) -> None:
    memory.path.with_name("memory.db.bootstrap.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"memory\.db\.bootstrap\.jsonl: line 1 is broken"):
        list(bootstrap(memory).attempts(TASKS))


def test_the_seed_is_taken_over_once(memory: EpisodicMemory, tmp_path: Path) -> None:
    with EpisodicMemory(tmp_path / "seed.db", WordHashEmbedder()) as seed:
        list(bootstrap(seed, "react").attempts(TASKS[:2]))
        one = bootstrap(memory)
        assert (one.begin_with(seed), one.begin_with(seed)) == (2, 0)
    list(one.attempts(TASKS[2:3]))
    assert isinstance(one._model, Counting)
    assert f"Your task is to: {TASKS[0].instruction}\n" in one._model.prompts[0]
