"""ADaPT: a goal is tried first, and broken up only where that fails, by steps that AND and OR join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from doubles import ScriptedModel, ScriptedWorld, goal_of
from hypothesis import given
from hypothesis import strategies as st
from py_trees.common import Status
from py_trees.composites import Selector
from py_trees.composites import Sequence as InSequence

from reactree_lab.planners.adapt import Order, read_plan
from reactree_lab.planners.plan import PROMPTS
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.tree.flows import FallbackFlow, SequenceFlow
from reactree_ros.tree.options import TreeOptions

#: As what a scripted model knows a request for a plan.
PLAN = prompt(PROMPTS, "adapt.txt").partition("\n")[0]
CUP, TABLE = "find a cup and take it", "put the cup on the table"
ALL = f"Step 1: {CUP}\nStep 2: {TABLE}\nExecution Order: (Step 1 AND Step 2)"
ANY = "Step 1: look on the shelf\nStep 2: look in the sink\nExecution Order: (Step 1 OR Step 2)"
AND, OR = SequenceFlow(), FallbackFlow()


def run(script: Mapping[str, Sequence[str]], *, name: str = "adapt", **options: int) -> tuple[EpisodeResult, Episode]:
    model = ScriptedModel(script)
    with ScriptedWorld() as world:
        episode = Episode("move a cup", world=world, model=model, planner=planner(name), options=TreeOptions(**options))
        return episode.run(), episode


def test_what_the_node_does_by_itself_is_not_broken_up() -> None:
    result, _ = run({"move a cup": ["Act: go to kitchen 1", "Act: done"]})
    assert (result.status, result.agent_nodes, result.decisions) == ("success", 1, 1)


def test_a_goal_that_fails_is_broken_up_as_needed() -> None:
    """The paper's example (its figure 2): the task fails, then its first step does, which has two ways."""
    script = {
        "move a cup": ["Act: failure"],
        CUP: ["Think: there are many places", "Act: failure"],
        "look on the shelf": ["Act: failure"],
        "look in the sink": ["Act: done"],
        TABLE: ["Act: done"],
        PLAN: [ALL, ANY],
    }
    result, episode = run(script)
    assert (result.status, result.agent_nodes, result.steps) == ("success", 5, 0)
    assert result.decisions == 3  # a thought and two plans
    steps = episode.root.children[-1]
    assert isinstance(steps, InSequence)
    cup, table = steps.children
    assert (cup.name, table.name, cup.status, table.status) == (CUP, TABLE, Status.SUCCESS, Status.SUCCESS)
    ways = cup.children[-1]
    assert isinstance(ways, Selector)
    assert [way.status for way in ways.children] == [Status.FAILURE, Status.SUCCESS]
    assert episode.root.text.endswith(f"Act: failure\n{Expand(AND, (CUP, TABLE))}\n")


def test_no_deeper_than_allowed() -> None:
    script = {"move a cup": ["Act: failure"], CUP: ["Act: failure"], PLAN: [ALL]}
    result, _ = run(script, name="adapt:depth=2")
    assert (result.status, result.agent_nodes) == ("failure", 2)
    result, _ = run({"move a cup": ["Act: failure"]}, name="adapt:depth=1")
    assert (result.status, result.agent_nodes) == ("failure", 1)


def test_a_node_that_comes_to_no_end_is_broken_up_too() -> None:
    around = ["Act: go to kitchen 1"] * 4
    script = {"move a cup": around, CUP: ["Act: done"], TABLE: ["Act: done"], PLAN: [ALL]}
    result, _ = run(script, name="adapt:tries=4")
    assert (result.status, result.steps, result.decisions) == ("success", 4, 5)


def test_the_plan_is_asked_for_with_what_the_robot_can_do() -> None:
    model = ScriptedModel({"move a cup": ["Act: failure"], CUP: ["Act: done"], TABLE: ["Act: done"], PLAN: [ALL]})
    with ScriptedWorld() as world:
        Episode("move a cup", world=world, model=model, planner=planner("adapt")).run()
    (asked,) = [request for request in model.requests if isinstance(request.may_say, FreeText)]
    assert asked.prompt.endswith(
        "The robot can: go to, pick up, put down, open, close, turn on.\n\nTask: move a cup\nPlan:\n"
    )
    assert "Expand" not in "".join(request.prompt for request in model.requests)


def test_a_plan_that_cannot_be_read_is_asked_for_again_and_then_given_up() -> None:
    script = {"move a cup": ["Act: failure"], PLAN: ["I would look around.", "Step 1: a\nStep 1: b", "", ALL]}
    result, episode = run(script)
    assert (result.status, result.decisions) == ("failure", 3)
    assert episode.root.feedback_message == "no plan that could be read"
    script = {"move a cup": ["Act: failure"], CUP: ["Act: done"], TABLE: ["Act: done"], PLAN: ["Hm.", ALL]}
    result, episode = run(script)
    assert (result.status, result.decisions) == ("success", 2)
    refused = [turn for turn in episode.root.turns if isinstance(turn, Said) and turn.decision is None]
    assert [turn.text for turn in refused] == ["Hm."]


def test_it_remembers_where_things_were_seen() -> None:
    result, episode = run({"move a cup": ["Act: recall location of apple", "Act: done"]}, name="adapt_wm")
    assert result.status == "success"
    assert "recall" in episode.root.text


class FailsAtFirst(LanguageModel):
    """The expert, which gives the whole instruction up and then has it broken up."""

    def __init__(self, instruction: str, plan: str) -> None:
        self.instruction, self.plan, self.expert = instruction, plan, ExpertModel()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, FreeText):
            return Pending.ready(Reply(self.plan))
        if goal_of(request.prompt) == self.instruction:
            return Pending.ready(Reply("Act: failure"))
        return self.expert.decide(request)


def test_a_household_task_is_done_by_steps() -> None:
    task = next(iter(load_tasks(HOUSES["apartment"])))
    steps = [f"find and {do} the {thing}" for thing in ("pudding", "apple") for do in ("pick up", "put down")]
    steps[1], steps[3] = (f"find the coffee table and put down the {thing}" for thing in ("pudding", "apple"))
    plan = "\n".join(f"Step {number}: {step}" for number, step in enumerate(steps, 1))
    with SymbolicWorld(task) as world:
        model = FailsAtFirst(task.instruction, plan)
        result = Episode(task.instruction, world=world, model=model, planner=planner("adapt_wm")).run()
    assert (result.status, result.gsr, result.agent_nodes) == ("success", 1, 5)


# ---------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("Step 1: a\nStep 2: b\nExecution Order: (Step 1 AND Step 2)", Order(AND, (1, 2))),
        ("Step 1: a\nStep 2: b\nExecution Order: Step 1 OR Step 2.", Order(OR, (1, 2))),
        ("**Step 1:** a\n**Step 2:** b\n**Execution order:** step 1 and step 2", Order(AND, (1, 2))),
        ("# Think: so\nStep 1: a\nStep 2: b", Order(AND, (1, 2))),
        ("Step 1: a\nExecution Order: (Step 1)", Order(AND, (1,))),
        ("Step 1: a\nStep 2: b\n**Execution Order:**\nStep 1 AND Step 2", Order(AND, (1, 2))),
        (
            "Step 1: a\nStep 2: b\nStep 3: c\nExecution Order: ((Step 1 OR Step 2) AND Step 3)",
            Order(AND, (Order(OR, (1, 2)), 3)),
        ),
        (
            "Step 1: a\nStep 2: b\nStep 3: c\nExecution Order: (Step 3 OR (Step 1 AND Step 2))",
            Order(OR, (3, Order(AND, (1, 2)))),
        ),
    ],
)
def test_a_plan_is_read(text: str, order: Order) -> None:
    plan = read_plan(text)
    assert plan.order == order
    assert plan.steps == {number: name for number, name in enumerate("abc", 1) if number in plan.steps}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Go on.", "no line 'Step 1"),
        ("Step 1: a\nStep 1: b", "the same number"),
        ("Step 1: a\nStep 2: b\nExecution Order: Step 1", "each of the steps 1, 2 once, not 1"),
        ("Step 1: a\nExecution Order: (Step 1 AND Step 1)", "each of the steps 1 once, not 1, 1"),
        ("Step 1: a\nStep 2: b\nStep 3: c\nExecution Order: Step 1 AND Step 2 OR Step 3", "by parentheses"),
        ("Step 1: a\nStep 2: b\nExecution Order: (Step 1 AND Step 2", "closing parenthesis"),
        ("Step 1: a\nStep 2: b\nExecution Order: Step 1 AND Step 2)", "')' too many"),
        ("Step 1: a\nStep 2: b\nExecution Order: Step 1, Step 2", "cannot be read from ', Step 2' on"),
        ("Step 1: a\nStep 2: b\nExecution Order: (Step 1 AND OR Step 2)", "OR where a step is to be"),
        ("Step 1:\nStep 2: b", "each says something; these are: 2"),
        ("Step 2: a\nStep 3: b", "numbered from 1"),
        (f"Step 1: a\nExecution Order: {'(' * 5000}Step 1{')' * 5000}", "too many parentheses"),
        ("Step 1: a\nExecution Order:", "an end where a step is to be"),
        ("Step 1: a\nExecution Order: Step 1\nExecution Order: Step 1", "several lines"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^.*$") as refused:
        read_plan(text)
    assert reason in str(refused.value)


def test_a_plan_that_was_cut_is_not_taken() -> None:
    with pytest.raises(ValueError, match="was cut"):
        read_plan(ALL, cut=True)


PIECES = ("Step 1: a\n", "Step 2: b\n", "Execution Order: ", "(", ")", " AND ", " OR ", "Step 1", "Step 2", "x")


@given(st.lists(st.sampled_from(PIECES)))
def test_any_text_is_a_plan_or_refused(parts: list[str]) -> None:
    with suppress(ValueError):
        assert read_plan("".join(parts)).steps
