"""Tree-Planner: plans are sampled at once, merged, and decided upon step by step, with a way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from chatting import Chatting, cut, saying
from doubles import Heard
from hypothesis import given
from hypothesis import strategies as st
from solving import solution

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.plan import steps_of, tidied
from reactree_lab.planners.tree_planner import ActionTree, TreePlannerNode, plan_of
from reactree_ros.agent.prompt import prompt
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.engine import Generation
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, LanguageModel, PromptTooLong, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions

HOUSE = generate_house(seed=11, tasks=1)
GOOD = [tidied(skill) for skill in solution(HOUSE[0])]
START = SymbolicWorld(parse_tasks(HOUSE)[0])
#: What cannot be tried at the start: no such thing is to be seen.
AWAY = next(
    step
    for step in steps_of(START.survey().take())
    if step.startswith("pick up ") and not any(s.startswith(f"{step} ") for s in START.available_skills().take())
)


class Sampler(LanguageModel):
    """Says one plan after the other, then chooses; with ``held`` it says nothing, and counts what is cancelled."""

    def __init__(
        self,
        plans: Sequence[Sequence[str]],
        choose: Callable[[DecisionRequest], str] = lambda request: request.may_say.options[0],  # type: ignore[union-attr]
        *,
        held: bool = False,
    ) -> None:
        self.plans = list(plans)
        self.choose = choose
        self.held = held
        self.sampled: list[DecisionRequest] = []
        self.chosen: list[DecisionRequest] = []
        self.in_flight = self.cancelled = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self.held:
            self.in_flight += 1
            return Pending(on_cancel=self._count)
        if isinstance(request.may_say, FreeText):
            self.sampled.append(request)
            return Pending.ready(Reply("\n".join(self.plans[(len(self.sampled) - 1) % len(self.plans)])))
        self.chosen.append(request)
        return Pending.ready(Reply(self.choose(request)))

    def _count(self) -> None:
        self.cancelled += 1


def run_of(
    model: LanguageModel, *, plans: int = 4, options: TreeOptions | None = None, listener: Listener | None = None
) -> Episode:
    task = parse_tasks(HOUSE)[0]
    chosen, world = planner(f"tree_planner:plans={plans}"), SymbolicWorld(task)
    return Episode(task.instruction, model=model, world=world, planner=chosen, options=options, listener=listener)


def carried_out(model: LanguageModel, *, plans: int = 4) -> tuple[EpisodeResult, TreePlannerNode]:
    run = run_of(model, plans=plans)
    result = run.run()
    assert isinstance(run.root, TreePlannerNode)
    return result, run.root


# ---------------------------------------------------------------------- the action tree


def paths(tree: ActionTree) -> set[tuple[str, ...]]:
    """Every way from the root to a leaf."""
    below = {(tree.step, *path) for child in tree.children.values() for path in paths(child)}
    return below or {(tree.step,)}


STEPS = st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(lambda steps: [*steps, "done"])


@given(st.lists(STEPS, max_size=8))
def test_the_action_tree_is_the_merge_of_its_plans(plans: list[list[str]]) -> None:
    tree = ActionTree.merge(plans)
    assert paths(tree) == ({("", *plan) for plan in plans} or {("",)})
    prefixes = {tuple(plan[:end]) for plan in plans for end in range(1, len(plan) + 1)}
    nodes = [tree]
    for node in nodes:
        nodes.extend(node.children.values())
    assert len(nodes) - 1 == len(prefixes)  # what two plans begin with is there once


def test_a_failed_step_leads_back_to_the_nearest_one_with_something_left() -> None:
    tree = ActionTree.merge(["abx", "aby", "ac", "d"])
    b = tree.children["a"].children["b"]
    assert b.children["x"].failed() is b
    assert b.children["y"].failed() is tree.children["a"]
    assert [branch.step for branch in tree.children["a"].branches] == ["c"]
    assert tree.children["a"].children["c"].failed() is tree
    assert tree.children["d"].failed() is None


# ---------------------------------------------------------------------- runs


def test_a_good_plan_among_others_reaches_the_goal_and_only_forks_are_asked_about() -> None:
    def choose(request: DecisionRequest) -> str:
        assert isinstance(request.may_say, Choice)
        return next(option for option in request.may_say.options if option in GOOD)

    model = Sampler([["go to bathroom 1", "go to kitchen 1"], GOOD, [*GOOD[:2], "go to bathroom 1"]], choose)
    result, root = carried_out(model, plans=3)
    assert (result.end, result.gsr) == ("done", 1.0), root.text
    assert result.steps == len(GOOD)
    assert len(model.chosen) == 2  # at the root, and after two steps
    assert result.decisions == 1 + len(model.chosen)


def test_the_plans_are_sampled_at_once_as_the_paper_says() -> None:
    model = Sampler([GOOD])
    carried_out(model, plans=25)
    assert len(model.sampled) == 25
    assert {(request.temperature, request.top_p) for request in model.sampled} == {(0.8, 0.95)}
    assert len({request.seed for request in model.sampled}) == len({request.id for request in model.sampled}) == 25
    assert len({request.prompt for request in model.sampled}) == 1


def test_steps_that_make_no_sense_are_left_out() -> None:
    _, root = carried_out(Sampler([["1. Go to kitchen 1", "fly to the moon", "2. go to fridge 9999"]]), plans=1)
    assert root.action_tree is not None
    assert paths(root.action_tree) == {("", "go to kitchen 1", "done")}


NUMBERED = "\n".join(f"{number}. **{step.capitalize()}**" for number, step in enumerate(GOOD, 1))

HABITS = {
    "a preamble": f"Here is the plan:\n\n{NUMBERED}\n\nLet me know if you need anything else!",
    "blank lines between": "\n\n".join(GOOD),
    "blank lines first": "\n\n\n" + "\n".join(GOOD),
    "a fence": "```\n" + "\n".join(GOOD) + "\ndone\n```\nThis plan does it.",
    "thinking": f"<think>\n1. go to bathroom 1\ndone\n</think>\n\n{NUMBERED}",
    "headings": "\n".join(f"### Step {number}: {step}" for number, step in enumerate(GOOD, 1)),
    "steps after done": "\n".join([*GOOD, "Done.", "go to bathroom 1"]),
    "windows line ends": "\r\n".join(["Plan:", *GOOD, "done"]),
}


@pytest.mark.parametrize("habit", HABITS)
def test_a_plan_is_found_in_what_a_model_says_around_it(habit: str) -> None:
    result, root = carried_out(Chatting(saying(HABITS[habit])), plans=1)
    assert (result.end, result.gsr) == ("done", 1.0), root.text
    assert root.action_tree is not None
    assert paths(root.action_tree) == {("", *GOOD, "done")}


def test_the_last_line_of_a_plan_that_was_cut_is_no_step_and_the_plan_has_no_end() -> None:
    said = ["go to kitchen 1\ngo to fridge 1", "go to kitchen 1\n", "go to kitchen 1\ndone\nThat is", "go to kitchen 1"]
    plans = [
        plan_of(Reply(text, finish_reason="length"), ["go to kitchen 1", "go to fridge 1", "done"]) for text in said
    ]
    assert plans == [["go to kitchen 1"], ["go to kitchen 1"], ["go to kitchen 1", "done"], []]


def test_where_a_plan_that_was_cut_goes_no_further_another_is_followed() -> None:
    rooms = [room for room in START.survey().take().rooms if not room.startswith("kitchen")]
    lost, found = f"go to {rooms[0]}", f"go to {rooms[1]}"
    model = Chatting(saying(cut(f"{lost}\ngo to kitch"), found, lost))  # two plans, then the choice
    result, root = carried_out(model, plans=2)
    assert (result.end, result.steps) == ("done", 2)
    assert "The plan that was followed goes no further." in root.text


def test_a_plan_without_an_end_alone_is_no_success() -> None:
    result, root = carried_out(Chatting(saying(cut("go to kitchen 1\ngo to fri"))), plans=1)
    assert (result.end, result.steps, root.feedback_message) == ("failure", 1, "no plan is left")


def test_a_plan_in_which_nothing_is_known_is_told() -> None:
    listener = Heard()
    run = run_of(Chatting(saying("I am sorry, I cannot do that.")), plans=1, listener=listener)
    assert run.run().end == "failure"
    assert listener.heard == ["I am sorry, I cannot do that. ✗ No step of this plan is known."]


@pytest.mark.slow
def test_a_choice_is_read_however_it_is_dressed() -> None:
    def say(generation: Generation) -> str:
        if not generation.begun:
            return "go to bathroom 1" if generation.seed % 2 else "\n".join(GOOD)
        return f"Sure! Here is my choice:\n\n**{GOOD[0].capitalize()}**"

    result, root = carried_out(Chatting(say), plans=2)
    assert (result.end, result.gsr) == ("done", 1.0), root.text


def test_an_error_is_told_with_what_is_left_to_choose_from() -> None:
    task = parse_tasks(HOUSE)[0]
    rooms = [room for room in SymbolicWorld(task).survey().take().rooms if room.startswith("bedroom")]
    model = Sampler([[AWAY], ["go to kitchen 1"], [f"go to {rooms[0]}"]])
    result, root = carried_out(model, plans=3)
    first, second = (request.prompt for request in model.chosen)
    assert first.endswith(
        "Among the following actions, which action would you take.\n"
        f"{AWAY}\ngo to kitchen 1\ngo to {rooms[0]}\nThe choosed action is: "
    )
    assert second == (
        f"{first}{AWAY}\nThe action: \"{AWAY}\" caused an error: '{AWAY}' is not executable now. "
        f"Among the following actions, which action would you take.\ngo to kitchen 1\ngo to {rooms[0]}\n"
        "A corrective choice of action would be: "
    )
    assert result.status == "success"
    assert "You move to the kitchen (1)." in root.text


@pytest.mark.parametrize(
    ("plans", "message"),
    [([["pick up apple"], ["pick up pie"]], "no plan is left"), ([["?"]], "no plan has a step that can be read")],
)
def test_without_a_plan_that_works_the_run_fails(plans: list[list[str]], message: str) -> None:
    result, root = carried_out(Sampler(plans), plans=2)
    assert (result.end, root.feedback_message) == ("failure", message)


def test_a_run_whose_plans_are_used_up_with_its_last_step_failed_by_its_plans() -> None:
    run = run_of(Sampler([["pick up apple"]]), plans=1, options=TreeOptions(max_steps=1))
    assert (run.run().end, run.root.feedback_message) == ("failure", "no plan is left")


@pytest.mark.parametrize(("narrow", "end"), [(False, "done"), (True, "context_full")])
def test_examples_are_left_out_where_the_prompt_is_too_long(narrow: bool, end: str) -> None:
    example = prompt(WAH_NL.prompts, "plan.txt")

    class Narrow(Sampler):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if example in request.prompt or narrow:
                return Pending.failed(PromptTooLong(7, 100))
            return super().decide(request)

    result = run_of(Narrow([GOOD])).run()
    assert (result.end, result.achieved) == (end, end == "done")


def test_an_interruption_cancels_every_plan_that_is_sampled() -> None:
    model = Sampler([GOOD], held=True)
    run = run_of(model, plans=7)
    for _ in range(10):
        run.tick()
    assert (model.in_flight, model.cancelled) == (7, 0)
    run.interrupt()
    assert model.cancelled == 7


def test_what_was_carried_out_is_kept_for_others() -> None:
    run = run_of(Sampler([GOOD]))
    run.run()
    (kept,) = run.experiences()
    assert kept.text.endswith("\n".join([f"Your task is to: {kept.subgoal}", *GOOD, "done"]))
