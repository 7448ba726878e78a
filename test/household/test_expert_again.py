"""The expert where its expansion failed, and where it is told what was searched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reactree_lab.bench.lapses import LapsingModel, LapsingSettings
from reactree_lab.household.generator import generate_house
from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.prompt import start_turn, system_text
from reactree_ros.agent.turns import Place, Searched, Tried, told_failed, told_searched
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import decide
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, Reply, prompt_text
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import ParallelPolicy, TreeOptions

ROOMS = "bathroom (1), bedroom (1), kitchen (1), living room (1)"
SEES = "bench (1), fridge (1), kitchen cabinet (1, 2), kitchen table (1)"
PIE, MUG, JUICE = (f"move the {thing} in the fridge" for thing in ("pie", "mug", "juice"))
TASK = "Put the pie, the mug and the juice in the fridge"


def start(holding: str = "") -> str:
    held = f" You hold {holding}." if holding else ""
    return (
        f"You are in the house, and there are 4 rooms: {ROOMS}. You are in the middle of a kitchen (1). "
        f"Looking quickly around the room, you see {SEES}.{held}"
    )


def expansion(control_flow: str, *subgoals: str) -> str:
    return f"Expand:\n- control flow: {control_flow}\n- subgoals: {', '.join(subgoals)}"


def failed(*came: tuple[str, bool | None]) -> str:
    return told_failed([Tried(subgoal, so, "it is nowhere" if so is False else "") for subgoal, so in came]).text


def decided(task: str, *lines: str, system: str = system_text(WAH_NL), begin: str = "") -> str:
    """What the expert says at the end of a node, past what it thinks."""
    text = prompt_text([start_turn(system, ())])
    text += "\n".join([f"Your task is to: {task}", begin or start(), "Think: plan", "OK.", *lines, ""])
    while (decision := decide(text)).startswith("Think: "):
        text += f"{decision}\nOK.\n"
    return decision


# ---------------------------------------------------------------------- after an expansion that failed


def test_what_is_left_is_shared_out_anew() -> None:
    came = failed((PIE, True), (MUG, False), (JUICE, False))
    assert decided(TASK, expansion("parallel", PIE, MUG, JUICE), came, start()) == expansion("parallel", MUG, JUICE)


def test_the_last_one_that_is_left_it_moves_itself() -> None:
    came = failed((PIE, True), (MUG, False), (JUICE, True))
    decision = decided(TASK, expansion("parallel", PIE, MUG, JUICE), came, start())
    assert decision == "Act: recall location of mug"


def test_where_all_failed_it_does_not_say_the_same_again() -> None:
    came = failed((PIE, False), (MUG, False), (JUICE, False))
    assert decided(TASK, expansion("parallel", PIE, MUG, JUICE), came, start()) == "Act: recall location of pie"


def test_what_succeeded_in_an_earlier_expansion_stays_done() -> None:
    first, second = failed((PIE, True), (MUG, False), (JUICE, False)), failed((MUG, True), (JUICE, False))
    lines = [expansion("parallel", PIE, MUG, JUICE), first, start(), expansion("parallel", MUG, JUICE), second, start()]
    assert decided(TASK, *lines) == "Act: recall location of juice"
    third = failed((MUG, True), (JUICE, True))
    assert decided(TASK, *lines[:-2], third, start()) == "Act: done"


def test_a_refused_expansion_after_it_is_not_said_again() -> None:
    came = failed((PIE, True), (MUG, False), (JUICE, False))
    lines = [expansion("parallel", PIE, MUG, JUICE), came, start(), expansion("parallel", MUG, JUICE), "No."]
    assert decided(TASK, *lines) == "Act: recall location of mug"


def test_what_a_subgoal_left_in_the_hands_is_put_down() -> None:
    steps = "find and pick up the pie", "find the fridge and put down the pie"
    came = failed((steps[0], True), (steps[1], False))
    assert decided("Put the pie in the fridge", expansion("sequence", *steps), came, start("pie (1)")) == (
        "Act: go to fridge 1"
    )


def test_after_a_search_through_all_rooms_it_gives_up() -> None:
    rooms = [f"find and pick up the pie in {room}" for room in ("kitchen 1", "bedroom 1")]
    came = failed(*((room, False) for room in rooms))
    lines = ["Act: recall location of pie", "You have not seen pie before.", expansion("fallback", *rooms), came]
    assert decided("find and pick up the pie", *lines, start()) == "Act: failure"


def test_it_takes_in_where_it_is_after_a_hold_too() -> None:
    came = failed((PIE, True), (MUG, False), (JUICE, True))
    waited = f"You had to wait: somebody has paused it. You may go on. {start('mug (1)')}"
    assert decided(TASK, expansion("parallel", PIE, MUG, JUICE), came, waited) == "Act: go to fridge 1"


@pytest.mark.parametrize("came", ["Your expansion failed.", "Your expansion failed. Succeeded: . Go on otherwise."])
def test_other_words_are_taken_for_nothing_succeeded(came: str) -> None:
    assert decided(TASK, expansion("parallel", PIE, MUG), came, "hm").startswith("Act: ")


def test_in_ai2thor_it_gives_up() -> None:
    begin = (
        "You are in the house, and you arrive at the kitchen, Looking quickly around the room, you see CounterTop (1), "
        "Fridge (1), SinkBasin (1)."
    )
    steps = "find and pick up Apple", "place Apple in Fridge"
    came = failed((steps[0], False), (steps[1], None))
    lines = [expansion("sequence", *steps), came, begin]
    assert decided("Put an apple in the fridge", *lines, system=system_text(ALFRED), begin=begin) == "Act: failure"


class Spoilt(LapsingModel):
    """The expert, whose nodes of some goals give up at once, once each."""

    def __init__(self, goals: Sequence[str]) -> None:
        super().__init__(LapsingSettings())
        self.goals = list(goals)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        goal = request.prompt.rpartition("Your task is to: ")[2].partition("\n")[0]
        if any(goal.startswith(one) for one in self.goals):
            self.goals = [one for one in self.goals if not goal.startswith(one)]
            return Pending.ready(Reply("Act: failure"))
        return super().decide(request)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 64))
@pytest.mark.parametrize("goals", [("move ",), ("find and pick up",), ("find the",), ("move ", "find and", "find the")])
def test_with_re_expand_it_reaches_the_goal_although_nodes_give_up(goals: Sequence[str], seed: int) -> None:
    """A parallel has to fail with one of its subgoals; of a majority that succeeded nothing is decided again."""
    task, options = parse_tasks(generate_house(seed=seed, tasks=1))[0], TreeOptions(parallel=ParallelPolicy.ALL)
    for name, reached in (("reactree_wm", 0.0), ("reactree_wm:re_expand=1", 1.0), ("reactree_wm:re_expand=2", 1.0)):
        model, world = Spoilt(goals), SymbolicWorld(task)
        run = Episode(task.instruction, world=world, model=model, planner=planner(name), options=options)
        result = run.run()
        if any(node.failure is not None for node in run.context.nodes):
            assert result.gsr == reached


# ---------------------------------------------------------------------- what was searched


def searched(*names: str) -> str:
    places = [Place(name, "kitchen 1", name.rpartition(" ")[0], int(name.rpartition(" ")[2])) for name in names]
    return told_searched([Searched(place, "", 1) for place in places], ()).text


def test_it_does_not_search_where_others_have() -> None:
    asked = ["Act: recall location of mug", "You have not seen mug before."]
    task = "find and pick up the mug in kitchen 1"
    assert decided(task, *asked) == "Act: go to kitchen table 1"
    assert decided(task, *asked, searched("kitchen table 1")) == "Act: go to fridge 1"
    told = searched("kitchen table 1", "fridge 1", "kitchen cabinet 1", "bench 1")
    assert decided(task, *asked, told) == "Act: go to kitchen cabinet 2"


def test_what_another_robot_searched_and_what_was_searched_again_is_read_too() -> None:
    table, fridge = (Place(name, "kitchen 1", name[:-2], 1) for name in ("kitchen table 1", "fridge 1"))
    told = told_searched(
        [Searched(table, "robot_2", 3), Searched(fridge, "", 4)],
        [Place("bench 1", "kitchen 1", "bench", 1)],
        again=Searched(fridge, "", 2),
        step=4,
    )
    task = "find and pick up the mug in kitchen 1"
    assert decided(task, told.text) not in ("Act: go to kitchen table 1", "Act: go to fridge 1")
    assert "bench (1)" in told.text, "what was not looked into is told, and is no search"


def test_it_goes_where_it_brings_a_thing_although_that_was_searched() -> None:
    begin = start("mug (1)")
    task = "find the fridge and put down the mug"
    assert decided(task, searched("fridge 1"), begin=begin) == "Act: go to fridge 1"
