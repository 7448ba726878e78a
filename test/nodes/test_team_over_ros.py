"""Several robots over ROS: each behind a bridge in a namespace of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doubles import ScriptedModel, ScriptedWorld, expand
from people import Answerer, words_told
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from ros_graph import Graph, HeldWorld

from reactree_lab.household.generator import generate_house
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks

Result = ExecuteTask.Result


OPEN = "Act: open fridge 1"
BOTH = {"root": [expand("parallel", "a", "b")], "a": [OPEN, "Act: done"], "b": [OPEN, "Act: done"]}


def team(graph: Graph, script: dict[str, list[str]], *worlds: ScriptedWorld, **parameters: Any) -> list[Any]:
    """Make a planner with robots; returns their bridges."""
    graph.inference(ScriptedModel(script))
    names = [f"robot_{number}" for number in range(1, len(worlds) + 1)]
    bridges = [graph.bridge(world, namespace=name, alone=True) for name, world in zip(names, worlds, strict=True)]
    graph.planner(robots=",".join(names), **parameters)
    return bridges


def test_the_subgoals_of_a_parallel_run_at_the_same_time_each_on_a_robot_of_its_own(graph: Graph) -> None:
    one, two = HeldWorld(), HeldWorld()
    team(graph, BOTH, one, two)
    goal = graph.task()
    graph.until(lambda: one.held and two.held, "both robots are at work")
    one.finish()
    two.finish()
    result = goal.result
    assert (result.success, result.end, result.steps) == (True, "done", 2)


def test_a_cancel_stops_every_robot(graph: Graph) -> None:
    one, two = HeldWorld(), HeldWorld()
    team(graph, BOTH, one, two)
    goal = graph.task()
    graph.until(lambda: one.held and two.held, "both robots are at work")
    goal.cancel()
    assert goal.result.error_code == Result.CANCELED
    graph.until(lambda: one.cancelled and two.cancelled, "both robots have stopped")


def test_what_may_not_move_holds_its_own_subtree_only(graph: Graph) -> None:
    stopped = [""]

    class Stopped(ScriptedWorld):
        def halted(self) -> str:
            return stopped[0]

    one, two = HeldWorld(), Stopped()
    team(graph, BOTH, one, two)
    stopped[0] = "emergency stop"
    goal = graph.task()
    graph.until(lambda: one.held, "the other robot is at work")
    one.finish()
    graph.until(lambda: any("emergency stop" in str(msg) for msg in graph.decisions()) or not two.executed)
    assert two.executed == []
    stopped[0] = ""
    assert goal.result.success
    assert two.executed == ["open fridge 1"]


def test_where_a_bridge_dies_another_robot_goes_on_with_its_subgoal(graph: Graph) -> None:
    one, two = HeldWorld(), HeldWorld()
    script = BOTH | {"b": [OPEN, "Act: pick up apple 1", "Act: done"]}
    _, bridge = team(graph, script, one, two, server_timeout=3.0)
    goal = graph.task()
    graph.until(lambda: one.held and two.held, "both robots are at work")
    graph.kill(bridge)
    one.finish()
    graph.until(lambda: one.held, "the first robot goes on with what the second was at")
    one.finish()
    assert goal.result.success
    assert one.executed == ["open fridge 1", "pick up apple 1"]


def test_without_any_robot_the_world_is_gone(graph: Graph) -> None:
    one, two = HeldWorld(), HeldWorld()
    bridges = team(graph, BOTH, one, two, server_timeout=3.0)
    goal = graph.task()
    graph.until(lambda: one.held and two.held, "both robots are at work")
    for bridge in bridges:
        graph.kill(bridge)
    result = goal.result
    assert (result.success, result.end) == (False, "world_gone")


def test_a_household_of_two_robots_has_a_bridge_for_each_and_its_goal_is_reached(graph: Graph) -> None:
    task = next(task for task in parse_tasks(generate_house(seed=9000203, tasks=2)) if len(task.goal) > 1)
    graph.inference(ExpertModel())
    graph.bridge(SymbolicWorld(task, robots=2), namespace="robot_1", alone=True)
    graph.planner(robots="robot_1, robot_2")
    result = graph.task(task.instruction, planner="reactree_wm").result
    assert (result.gsr, result.end) == (1.0, "done")
    names = {name for name, namespace in graph.probe.get_node_names_and_namespaces() if namespace == "/robot_2"}
    assert names == {"household_bridge"}


def test_each_robots_bridge_asks_a_person_in_its_own_name(graph: Graph, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n- {skill: go to, verdict: confirm}\n")
    task = parse_tasks(generate_house(seed=9000203, tasks=1))[0]
    world = SymbolicWorld(task, robots=2)
    graph.bridge(world, namespace="robot_1", policy=str(policy), confirm_timeout=60.0)
    robots = [f"/robot_{number}/household_bridge" for number in (1, 2)]
    person = Answerer(graph, *robots)
    skill = f"go to {world.scene.agent_room.name}"
    goals = [graph.skill(skill, to=robot) for robot in robots]
    graph.until(lambda: len(person.desk.open) == 2, "both ask")
    person.says("yes", of=robots[1])
    person.says("no", of=robots[0])
    assert [goal.result.outcome for goal in goals] == [ExecuteSkill.Result.REFUSED_BY_POLICY, ExecuteSkill.Result.DONE]


def test_two_robots_ask_at_the_same_time_and_each_has_its_own_answer(graph: Graph) -> None:
    script = {
        "root": [expand("parallel", "a", "b")],
        "a": ["Ask: Which apple?", "Act: done"],
        "b": ["Ask: Which door?", "Act: done"],
    }
    team(graph, script, ScriptedWorld(), ScriptedWorld(), answer_timeout=60.0)
    person = Answerer(graph, "/reactree_planner")
    goal = graph.task(planner="reactree:questions=2")
    graph.until(lambda: len(person.desk.open) == 2, "both ask")
    person.says("the blue one", to="Which door?")
    person.says("the red one", to="Which apple?")
    result = goal.result
    assert (result.success, result.questions) == (True, 2)
    planner = next(node for node in graph.nodes if node.get_name() == "reactree_planner")
    assert 'The person answers: "the red one".' in words_told(planner, "a")[0]
    assert 'The person answers: "the blue one".' in words_told(planner, "b")[0]
