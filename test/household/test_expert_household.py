"""How far the rule-based expert gets from the instruction alone, and that it reads nothing but the prompt."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

import pytest

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks, parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.planners.spec import planner


def carry_out(
    tasks: Iterable[Task], model: LanguageModel, *, recall: bool = True, flat: bool = False
) -> list[EpisodeResult]:
    name = f"{'react' if flat else 'reactree'}{'_wm' if recall else ''}"
    results = []
    for task in tasks:
        world = SymbolicWorld(task)
        result = Episode(task.instruction, world=world, model=model, planner=planner(name), task_id=task.task_id).run()
        assert result.message == ""
        results.append(result)
    return results


def gsr(results: list[EpisodeResult]) -> float:
    return statistics.fmean(result.gsr or 0.0 for result in results)


def ssr(results: list[EpisodeResult]) -> float:
    return statistics.fmean(result.ssr or 0.0 for result in results)


def houses(count: int) -> list[Task]:
    return [parse_tasks(generate_house(seed=n, rooms=3 + n % 6, tasks=5)[n % 5])[0] for n in range(count)]


@pytest.mark.slow
def test_it_reaches_nine_of_ten_recorded_tasks(wah_nl: Path, sweep: int) -> None:
    results = carry_out(load_tasks(wah_nl / "tasks.json")[::sweep], ExpertModel())
    assert gsr(results) >= 0.90
    assert ssr(results) >= 0.95


@pytest.mark.slow
def test_it_reaches_nearly_every_generated_task(sweep: int) -> None:
    assert gsr(carry_out(houses(200 // sweep), ExpertModel())) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("recall", "flat"), [(False, False), (True, True), (False, True)])
def test_it_works_without_working_memory_and_without_expansion(recall: bool, flat: bool) -> None:
    assert gsr(carry_out(houses(30), ExpertModel(), recall=recall, flat=flat)) >= 0.9


class PromptOnly(LanguageModel):
    """Passes on the prompt's text and nothing else, to a policy that is new for every decision."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        text = request.prompt.removesuffix("\n")
        return ExpertModel().decide(DecisionRequest((Told(text),), request.may_say.__class__(())))


@pytest.mark.slow
def test_its_only_input_is_the_prompts_text() -> None:
    tasks = houses(15)
    renamed = [
        task.model_copy(update={"task_id": 999, "task_name": "?", "task_goal": {"on_book_sofa": 1}}) for task in tasks
    ]
    told = carry_out(tasks, ExpertModel())
    # Without the skills, ids and settings of the request, without memory of its own, and with another goal and name.
    blind = carry_out(renamed, PromptOnly())
    for one, other in zip(told, blind, strict=True):
        assert (one.status, one.decisions, one.steps, one.agent_nodes, one.end) == (
            other.status,
            other.decisions,
            other.steps,
            other.agent_nodes,
            other.end,
        )


@pytest.mark.slow
def test_the_same_prompt_gives_the_same_decision() -> None:
    tasks = houses(5)
    first, second = carry_out(tasks, ExpertModel()), carry_out(tasks, ExpertModel())
    assert [(r.decisions, r.steps, r.end) for r in first] == [(r.decisions, r.steps, r.end) for r in second]


@pytest.mark.parametrize(
    "instruction", ["Sing me a song", "Put the unicorn on the moon", "asdf", "Wie geht es dir?", "Put", "?", "1 1 1"]
)
def test_what_it_does_not_understand_it_gives_up_honestly(instruction: str) -> None:
    (task,) = houses(1)
    world = SymbolicWorld(task, scored=False)
    result = Episode(instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm")).run()
    assert (result.status, result.end, result.steps) == ("failure", "failure", 0)
