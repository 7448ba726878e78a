"""Routines over ROS: learnt by one run, run by the next without a request, gone on from by the model when disturbed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from people import Answerer
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.srv import Hear, SayDecision
from ros_graph import Goal, Graph
from std_srvs.srv import Trigger

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode import assembly
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.memory.embedding import WordEmbedder
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.record.reader import read_record
from reactree_ros.routine.fitting import Kept
from reactree_ros.world.port import Observation, World
from reactree_ros.world.wrappers import WorldWrapper

#: The task of the house whose routine takes a thing from one place to another.
TASK = 2


class Requests(ExpertModel):
    """The expert, with what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        return super().decide(request)


class Held(WorldWrapper):
    """A house in which one skill stays under way: the first whose words begin so."""

    def __init__(self, inner: World, before: str, under: list[tuple[Pending[Observation], str]]) -> None:
        super().__init__(inner)
        self._before, self._under = before, under

    def execute(self, skill: str) -> Pending[Observation]:
        if not skill.startswith(self._before) or self._under:
            return self.inner.execute(skill)
        self._under.append((Pending(), skill))
        return self._under[0][0]


class House:
    """A planner with a memory, an inference node and a bridge to a generated house."""

    def __init__(self, graph: Graph, folder: Path, **parameters: Any) -> None:
        (folder / "house.json").write_text(json.dumps(generate_house(seed=1, rooms=5, tasks=8)), encoding="utf-8")
        self.graph, self.model, self.memory = graph, Requests(), folder / "memory.db"
        graph.inference(self.model)
        self.bridge: BridgeNode = graph.bridge(tasks=str(folder / "house.json"))
        known = {"planner": "reactree_wm", "routines": "on", "memory": str(self.memory)}
        known["save_to"] = str(folder / "runs")
        self.planner: PlannerNode = graph.planner(**(known | parameters))

    def begin(self) -> Goal:
        """Send the task; what was asked before is forgotten."""
        self.model.requests.clear()
        return self.graph.task("", task_id=TASK)

    def learn(self) -> Any:
        """Carry the task out by the model."""
        result = self.begin().result
        assert (result.gsr, len(self.model.requests) > 5) == (1.0, True)
        return result

    def hold(self, before: str) -> tuple[Goal, Pending[Observation], str]:
        """Begin the task; returns when a skill that begins so is under way, which stays so."""
        make, under = self.bridge.change_task, list[tuple[Pending[Observation], str]]()

        def change(task_id: int) -> World | None:
            world = make(task_id)
            assert world is not None
            return Held(world, before, under)

        self.bridge.change_task = change  # type: ignore[method-assign]
        goal = self.begin()
        self.graph.until(lambda: under, "the skill is under way")
        return goal, *under[0]


@pytest.fixture
def house(graph: Graph, tmp_path: Path) -> House:
    """A house whose task was carried out once, by the model."""
    house = House(graph, tmp_path)
    house.learn()
    return house


def skills_of(result: Any) -> list[str]:
    """What a run was asked to do, by its record."""
    return [event["skill"] for event in read_record(Path(result.saved_to)).events if event["e"] == "skill"]


def by_routine(house: House, result: Any) -> bool:
    return (result.gsr, result.decisions, house.model.requests) == (1.0, 0, [])


# ---------------------------------------------------------------------- learnt and run


def test_what_was_done_once_needs_no_request_and_every_place_says_so(graph: Graph, tmp_path: Path) -> None:
    from py_trees_ros_interfaces.msg import Behaviour
    from snapshots import Viewer

    house = House(graph, tmp_path)
    first = read_record(Path(house.learn().saved_to)).run["id"]
    viewer = Viewer(graph)
    goal = house.begin()
    assert by_routine(house, goal.result)
    with SqliteMemory(house.memory, WordEmbedder()) as memory:
        (routine,) = Kept(memory).all().values()
    assert (routine.origin.run, routine.counts.uses, routine.counts.successes) == (first, 1, 1)
    named = f"routine '{routine.name}' (learnt from run {first}"
    graph.until(lambda: viewer.says("reactree_planner", "goal reached"), "the end is seen")
    (shown,) = {one.name for tree in viewer.trees for one in tree.behaviours if one.name.startswith(named)}
    assert {Behaviour.RUNNING, Behaviour.SUCCESS} <= {one.status for one in viewer.seen(shown)}
    assert {one.additional_detail.partition(":")[0] for one in viewer.seen(shown)} == {"routine"}
    assert {one.routine for one in goal.feedback} == {shown}
    (found,) = [event for event in read_record(Path(goal.result.saved_to)).events if event["e"] == "routine"]
    assert found["fits"][0]["routine"]["origin"]["run"] == first


def test_the_planner_answers_while_a_routine_is_tried_out(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(graph, tmp_path)
    began, answered, waited = threading.Event(), threading.Event(), list[bool]()

    def tried_out(*_: object) -> str:
        began.set()
        waited.append(answered.wait(20.0))
        return ""

    monkeypatch.setattr(assembly, "tried_out", tried_out)
    goal = house.begin()
    graph.until(began.is_set, "it is tried out")
    graph.call(Trigger, "/reactree_planner/resume")
    answered.set()
    assert goal.result.gsr == 1.0
    assert waited == [True]


# ---------------------------------------------------------------------- disturbed


def stops(house: House, goal: Goal) -> None:
    assert house.graph.call(Hear, "/reactree_planner/hear", words="stop").success


def cancels(house: House, goal: Goal) -> None:
    goal.cancel()


@pytest.mark.parametrize("ends", [stops, cancels])
def test_a_stop_in_its_midst_ends_it_and_its_skill(house: House, ends: Callable[[House, Goal], None]) -> None:
    goal, under, skill = house.hold("put down")
    ends(house, goal)
    result = goal.result
    assert (result.error_code, result.end) == (ExecuteTask.Result.CANCELED, "interrupted")
    assert under.cancelled()
    assert (skills_of(result)[-1], house.model.requests) == (skill, [])


def test_a_run_that_was_broken_off_in_it_goes_on_in_it(house: House) -> None:
    goal, _, skill = house.hold("put down")
    goal.cancel()
    before = goal.result
    result = house.graph.task("", resume=before.saved_to).result
    assert by_routine(house, result)
    assert skills_of(result) == [*skills_of(before), skill]


def test_a_pause_in_its_midst_holds_it_and_a_person_may_say_something_then(house: House) -> None:
    goal, under, skill = house.hold("pick up")
    house.graph.call(Trigger, "/reactree_planner/pause")
    house.graph.until(lambda: goal.feedback and goal.feedback[-1].held, "it holds")
    house.graph.until(under.cancelled, "the skill is cancelled")
    assert house.model.requests == []
    house.graph.call(Trigger, "/reactree_planner/resume")
    result = goal.result
    assert (result.gsr, skills_of(result).count(skill)) == (1.0, 2)


def test_a_step_is_one_skill_of_it_and_what_is_said_while_it_holds_ends_it(house: House) -> None:
    graph = house.graph
    graph.call(Trigger, "/reactree_planner/pause")
    goal = house.begin()
    graph.until(lambda: goal.feedback and goal.feedback[-1].held, "it holds")

    for taken in (1, 2):
        assert graph.call(Trigger, "/reactree_planner/step").success
        graph.until(lambda n=taken: goal.feedback[-1].held and goal.feedback[-1].steps >= n, "it holds again")
        assert goal.feedback[-1].steps == taken
    answer = graph.call(SayDecision, "/reactree_planner/say", words="Act: go to kitchen 1")
    assert (answer.success, "a routine's skill came first" in answer.message) == (False, True)
    assert house.model.requests == []
    graph.call(Hear, "/reactree_planner/hear", words="not that one")
    graph.call(Trigger, "/reactree_planner/resume")
    result = goal.result
    assert result.gsr == 1.0
    prompt = next(one.prompt for one in house.model.requests if "Done for this by" in one.prompt)
    assert 'The person says: "not that one"' in prompt
    told = prompt[prompt.index("Done for this by") :]
    assert told.partition(": ")[2].partition(". Then")[0].split("; ") == skills_of(result)[:3]


# ---------------------------------------------------------------------- a person may say no before


def test_stop_before_it_begins_ends_the_run(graph: Graph, tmp_path: Path) -> None:
    house = House(graph, tmp_path, routines="propose")
    house.learn()
    goal, person = house.begin(), Answerer(graph)
    person.is_asked("May I do")
    stops(house, goal)
    result = goal.result
    graph.until(lambda: not person.desk.open, "nothing is asked any more")
    assert (result.error_code, skills_of(result), house.model.requests) == (ExecuteTask.Result.CANCELED, [], [])
