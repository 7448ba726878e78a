"""The planner's goals: cancelled in every phase, rejected, queued, preempted, shut down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedModel, ScriptedWorld, expand
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from reactree_interfaces.action import ExecuteTask
from ros_graph import Goal, Graph, HeldWorld

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.world.port import Observation

Result = ExecuteTask.Result


def assert_canceled(goal: Goal) -> None:
    assert (goal.status, goal.result.error_code) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    assert (goal.result.end, goal.result.success, goal.result.message) == ("interrupted", False, "canceled")


def assert_preempted(goal: Goal) -> None:
    assert (goal.status, goal.result.error_code) == (GoalStatus.STATUS_ABORTED, Result.PREEMPTED)
    assert (goal.result.end, goal.result.message) == ("interrupted", "a newer goal took over")


# ---------------------------------------------------------------------- cancel


def test_cancel_during_a_skill_stops_it_once_and_the_planner_goes_on(graph: Graph) -> None:
    world, _, goal = graph.held({"root": ["Act: open fridge 1", "Think: so", "Act: done"]})
    goal.cancel()
    goal.cancel()
    assert_canceled(goal)
    goal.cancel()
    assert (goal.result.decisions, goal.result.steps) == (1, 1)
    graph.until(lambda: world.cancelled)
    assert world.cancelled == {"open fridge 1": 1}
    assert graph.task().result.success


def test_cancel_during_a_generation_reaches_the_model_once(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Think: a", "Think: b", "Act: done"]}, settle=False)
    graph.household({}, model=model)
    goal = graph.task()
    graph.until(lambda: model.in_flight)
    goal.cancel()
    assert_canceled(goal)
    graph.until(lambda: model.cancelled)
    assert list(model.cancelled.values()) == [1]
    again = graph.task()
    graph.until(lambda: len(model.requests) == 2)
    model.settle = True
    model.settle_all()
    assert again.result.success


class Silent(LanguageModel):
    """Never answers; counts what it is asked and what is cancelled."""

    def __init__(self) -> None:
        self.asked = self.cancelled = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        return Pending(on_cancel=self._count)

    def _count(self) -> None:
        self.cancelled += 1


@pytest.mark.parametrize("planner", ["react", "hiagent", "recode"])
def test_cancel_reaches_the_model_whoever_plans(graph: Graph, planner: str) -> None:
    if planner == "recode":
        pytest.importorskip("pydantic_monty")
    model = Silent()
    graph.household({}, model=model)
    goal = graph.task(planner=planner)
    graph.until(lambda: model.asked)
    goal.cancel()
    assert_canceled(goal)
    graph.until(lambda: model.cancelled)
    assert (model.asked, model.cancelled) == (1, 1)


def test_cancel_in_an_expansion_stops_what_runs_in_it(graph: Graph) -> None:
    script = {"root": [expand("sequence", "a", "b")], "a": ["Act: open fridge 1", "Act: done"]}
    world, planner, goal = graph.held(script)
    goal.cancel()
    assert_canceled(goal)
    graph.until(lambda: world.cancelled)
    assert world.cancelled == {"open fridge 1": 1}
    assert all(behaviour.status.value == "INVALID" for behaviour in planner._reporter.tree.root.children[0].iterate())


def test_cancel_during_the_first_look_ends_the_task(graph: Graph) -> None:
    world = ScriptedWorld(settle=False)
    graph.household({}, world=world)
    goal = graph.task()
    graph.until(lambda: world.in_flight)
    goal.cancel()
    assert_canceled(goal)
    assert goal.result.decisions == 0


def test_cancel_during_the_reset_ends_the_task_at_once(graph: Graph) -> None:
    class Slow(ScriptedWorld):
        asked: Pending[Observation] | None = None

        def reset(self, seed: int | None = None) -> Pending[Observation]:
            self.asked = Pending()
            return self.asked

    world = Slow()
    graph.household({"root": ["Think: so", "Act: done"]}, world=world)
    goal = graph.task(task_id=0)
    graph.until(lambda: world.asked is not None)
    goal.cancel()
    assert_canceled(goal)
    assert graph.task().result.success


def test_cancel_as_soon_as_the_goal_is_accepted_ends_it(graph: Graph) -> None:
    graph.inference(ScriptedModel({"root": ["Think: so", "Act: done"] * 2}))
    graph.planner(server_timeout=600.0)  # the bridge is not there: nothing begins
    goal = graph.task()
    assert goal.accepted
    goal.cancel()
    assert goal.result.error_code == Result.CANCELED
    assert goal.status == GoalStatus.STATUS_CANCELED


# ---------------------------------------------------------------------- busy


def busy(graph: Graph, on_busy: str, **parameters: Any) -> tuple[HeldWorld, Goal]:
    """A planner whose first task is in the midst of a skill; every further one acts once and is done."""
    further = {name: ["Act: go to kitchen 1", "Act: done"] for name in "abcd"}
    script = {"root": ["Act: open fridge 1", "Act: done"]} | further
    world, _, goal = graph.held(script, on_busy=on_busy, **parameters)
    return world, goal


def settled(graph: Graph, world: HeldWorld, goal: Goal) -> Any:
    """Let the skill of a goal end, and with it the goal."""
    graph.until(lambda: world.held)
    world.finish()
    return goal.result


def test_reject_a_goal_that_comes_while_a_task_runs_is_not_accepted(graph: Graph) -> None:
    world, goal = busy(graph, "reject")
    for name in "abcd":
        assert not graph.task(name).accepted
    assert world.cancelled == {}
    assert settled(graph, world, goal).success
    assert settled(graph, world, graph.task("a")).success


def test_queue_goals_are_carried_out_in_the_order_in_which_they_came(graph: Graph) -> None:
    world, goal = busy(graph, "queue")
    decisions = graph.decisions()
    waiting = [graph.task(name) for name in "abc"]
    assert all(one.accepted for one in waiting)
    assert settled(graph, world, goal).success
    assert all(settled(graph, world, one).success for one in waiting)
    graph.until(lambda: len(decisions) == 7)
    assert [msg.subgoal for msg in decisions] == ["root", *"aabbcc"]


def test_queue_a_goal_that_waits_can_be_cancelled(graph: Graph) -> None:
    world, goal = busy(graph, "queue")
    first, second = graph.task("a"), graph.task("b")
    assert second.accepted
    first.cancel()
    assert_canceled(first)
    assert first.result.decisions == 0
    assert world.cancelled == {}, "what runs is left alone"
    assert settled(graph, world, goal).success
    assert settled(graph, world, second).success
    assert world.executed == ["open fridge 1", "go to kitchen 1"]


def test_queue_when_it_is_full_a_goal_is_not_accepted(graph: Graph) -> None:
    world, goal = busy(graph, "queue", queue_size=1)
    waits = graph.task("a")
    assert waits.accepted
    assert not graph.task("b").accepted
    assert settled(graph, world, goal).success
    assert settled(graph, world, waits).success


def test_queue_a_malformed_goal_does_not_hold_up_the_next_one(graph: Graph) -> None:
    world, goal = busy(graph, "queue")
    bad, good = graph.task("a", planner="zsp2"), graph.task("b")
    assert good.accepted
    assert settled(graph, world, goal).success
    assert bad.result.error_code == Result.INVALID_GOAL
    assert settled(graph, world, good).success


def test_preempt_a_newer_goal_takes_over(graph: Graph) -> None:
    world, goal = busy(graph, "preempt")
    newer = graph.task("a")
    assert_preempted(goal)
    assert world.cancelled == {"open fridge 1": 1}
    assert settled(graph, world, newer).success or newer.result.success


def test_preempt_of_several_goals_the_newest_is_carried_out(graph: Graph) -> None:
    world, goal = busy(graph, "preempt")
    newer = [graph.task(name) for name in "abc"]
    assert_preempted(goal)
    assert_preempted(newer[0])
    assert_preempted(newer[1])
    graph.until(lambda: "go to kitchen 1" in world.executed)
    assert settled(graph, world, newer[2]).success
    assert world.executed.count("go to kitchen 1") <= 3


# ---------------------------------------------------------------------- the end


def test_shutdown_stops_what_runs_and_what_waits(graph: Graph) -> None:
    world, planner, goal = graph.held({"root": ["Act: open fridge 1"]}, on_busy="queue")
    waits = graph.task("a")
    assert waits.accepted
    planner.begin_stop()
    graph.until(planner.stopped)
    for one in (goal, waits):
        assert (one.status, one.result.error_code) == (GoalStatus.STATUS_ABORTED, Result.SHUTDOWN)
        assert (one.result.end, one.result.message) == ("interrupted", "the planner was shut down")
    assert world.cancelled == {"open fridge 1": 1}
    assert not graph.task("b").accepted


def test_a_planner_that_is_interrupted_tells_its_client_before_it_goes(graph: Graph) -> None:
    world = HeldWorld()
    graph.inference(ScriptedModel({"root": ["Act: open fridge 1"]}))
    graph.bridge(world)
    command = [sys.executable, "-m", "reactree_ros.nodes.planner.planner_node"]
    environment = {**os.environ, "ROS_DOMAIN_ID": str(graph.domain_id)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as planner:
        for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
            asked = Transition(id=transition)
            assert graph.call(ChangeState, "reactree_planner/change_state", transition=asked).success
        goal = graph.task()
        graph.until(lambda: world.held and goal.feedback)
        planner.send_signal(signal.SIGINT)
        assert (goal.result.error_code, goal.result.end) == (Result.SHUTDOWN, "interrupted")
        graph.until(lambda: planner.poll() is not None)
        assert planner.stderr is not None
        said = planner.stderr.read().splitlines()
        assert (planner.returncode, [line for line in said if "[INFO]" not in line and "snapshots" not in line]) == (
            0,
            [],
        )
        assert said[-1].endswith("; the planner was shut down")
    assert world.cancelled == {"open fridge 1": 1}


def test_shutdown_during_a_generation_reaches_the_model(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Think: so", "Act: done"]}, settle=False)
    planner = graph.household({}, model=model)
    goal = graph.task()
    graph.until(lambda: model.in_flight)
    planner.begin_stop()
    assert goal.result.error_code == Result.SHUTDOWN
    graph.until(lambda: model.cancelled)
