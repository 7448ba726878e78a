"""Planner, bridge and inference node in one process, where the planner calls the others directly."""

from __future__ import annotations

import signal

import pytest
from action_msgs.msg import GoalStatus, GoalStatusArray
from doubles import ScriptedModel, ScriptedWorld
from processes import Processes
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import SkillEnded
from ros_graph import Graph
from test_planner import FAMILY

from reactree_ros.nodes.bridge.bridge_node import BridgeNode

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
STATUS = "/household_bridge/execute_skill/_action/status"


def test_a_task_is_carried_out_as_ever_and_none_of_its_skills_leaves_the_process(graph: Graph) -> None:
    graph.household(FAMILY, offers="all", composed=True)
    sent = graph.listen(GoalStatusArray, STATUS)
    ended = graph.listen(SkillEnded, "/household_bridge/skill_ended")
    result = graph.task().result
    assert (result.success, result.decisions, result.steps, result.agent_nodes, result.max_depth) == (True, 9, 4, 5, 5)
    graph.until(lambda: len(ended) == 3, "every skill's end is told")
    assert [one.skill for one in ended] == ["open fridge 1", "pick up apple 1", "go to kitchen 1"]
    assert not sent


def test_who_is_elsewhere_is_called_as_ever(graph: Graph) -> None:
    graph.bridge(ScriptedWorld())
    graph.planner(beside=[graph.inference(ScriptedModel(FAMILY))], offers="all")
    sent = graph.listen(GoalStatusArray, STATUS)
    assert graph.task().result.success
    graph.until(lambda: sent, "the skills are goals")


def test_a_cancel_reaches_the_skill_that_runs(graph: Graph) -> None:
    world, _, goal = graph.held(FAMILY, composed=True, offers="all")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert goal.result.error_code == ExecuteTask.Result.CANCELED
    assert not world.held


def test_a_bridge_that_is_busy_rejects_a_goal_also_from_beside_it(graph: Graph) -> None:
    world, _, goal = graph.held(FAMILY, composed=True, offers="all")
    graph.planner(name="second_planner", beside=[one for one in graph.nodes if hasattr(one, "serves")], offers="all")
    assert "is busy or not active" in graph.task(to="second_planner").result.message
    assert world.held
    goal.cancel()


def test_a_bridge_that_was_deactivated_says_so(graph: Graph) -> None:
    graph.household(FAMILY, offers="all", composed=True)
    next(one for one in graph.nodes if isinstance(one, BridgeNode)).trigger_deactivate()
    result = graph.task().result
    assert result.error_code == ExecuteTask.Result.WORLD_UNAVAILABLE
    assert "not active" in result.message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_process_carries_a_task_out_and_ends_when_it_is_asked_to(processes: Processes, number: int) -> None:
    process = processes.node("composed", "inference_node", "bridge_node")
    assert processes.node("bring_up", "inference", "household_bridge", "reactree_planner").end() == 0
    task = processes.node("execute_task", INSTRUCTION)
    assert task.end() == 0, task.output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in task.output
    process.signal(number)
    assert process.ended_cleanly(0)
