"""A task that is held over ROS: by a bridge's emergency stop, or by a person who pauses the planner."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedModel
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from reactree_interfaces.msg import BridgeStatus
from ros_graph import Goal, Graph, HeldWorld
from std_srvs.srv import Trigger

Result = ExecuteTask.Result


PRESSED = "the emergency stop is engaged"
SCRIPT = {"root": ["Act: open fridge 1", "Act: open fridge 1", "Act: done"]}


class StopWorld(HeldWorld):
    """A world with an emergency stop."""

    stop = ""

    def halted(self) -> str:
        return self.stop


def held(goal: Goal, reason: str) -> bool:
    return bool(goal.feedback) and goal.feedback[-1].held == reason


def test_a_task_holds_while_the_bridge_is_halted_and_then_goes_on(graph: Graph) -> None:
    world, model = StopWorld(), ScriptedModel(SCRIPT)
    graph.household({}, model=model, world=world)
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    world.stop = PRESSED
    graph.until(lambda: held(goal, PRESSED), "the task holds")
    graph.until(lambda: world.cancelled["open fridge 1"] == 1, "the skill is cancelled")
    assert len(model.requests) == 1
    assert (goal.feedback[-1].decisions, goal.feedback[-1].steps) == (1, 1)
    world.stop = ""
    graph.until(lambda: held(goal, "") and world.held, "it goes on")
    world.finish()
    assert (goal.result.success, goal.result.decisions, goal.result.steps) == (True, 2, 2)
    assert PRESSED in model.requests[1].prompt


def test_a_task_that_begins_while_the_bridge_is_halted_asks_nothing(graph: Graph) -> None:
    world, model = StopWorld(), ScriptedModel({"root": ["Think: so", "Act: done"]})
    world.stop = PRESSED
    graph.household({}, model=model, world=world)
    goal = graph.task()
    graph.until(lambda: held(goal, PRESSED), "the task holds")
    assert model.requests == []
    goal.cancel()
    assert (goal.status, goal.result.error_code) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)


def test_a_skill_that_is_halted_before_the_status_says_so_holds_the_task_at_once(graph: Graph) -> None:
    from reactree_ros.background.pending import Pending
    from reactree_ros.world.port import Observation, Outcome

    class Halts(StopWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            self.stop = PRESSED
            self.executed.append(skill)
            return Pending.ready(Observation(f"You cannot {skill} now: {PRESSED}.", Outcome.HALTED))

    world, model = Halts(), ScriptedModel(SCRIPT)
    graph.household({}, model=model, world=world)
    goal = graph.task()
    graph.until(lambda: held(goal, PRESSED), "the task holds by the bridge's status")
    assert (len(model.requests), len(world.executed)) == (1, 1)
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED


def test_a_person_pauses_the_task_and_resumes_it(graph: Graph) -> None:
    world, model = StopWorld(), ScriptedModel(SCRIPT)
    graph.household({}, model=model, world=world)
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    answer = graph.call(Trigger, "reactree_planner/pause")
    assert (answer.success, answer.message) == (True, "the task holds until it is resumed")
    graph.until(lambda: held(goal, "somebody has paused it"), "the task holds")
    graph.until(lambda: not world.held, "the skill is cancelled")
    assert len(model.requests) == 1
    assert graph.call(Trigger, "reactree_planner/resume").message == "the task goes on"
    graph.until(lambda: world.held, "the skill is carried out anew")
    world.finish()
    assert goal.result.success


def test_a_pause_before_a_task_holds_it_and_a_stop_outlasts_a_resume(graph: Graph) -> None:
    world, model = StopWorld(), ScriptedModel({"root": ["Think: so", "Act: done"]})
    planner = graph.household({}, model=model, world=world)
    message = graph.call(Trigger, "reactree_planner/pause").message
    assert message == "no task runs; the next one holds until it is resumed"
    goal = graph.task()
    graph.until(lambda: held(goal, "somebody has paused it"), "the task holds")
    world.stop = PRESSED
    graph.until(planner._world.halted, "the planner hears of the stop")
    assert graph.call(Trigger, "reactree_planner/resume").message == f"the task goes on when it may: {PRESSED}"
    graph.until(lambda: held(goal, PRESSED), "it is the stop that holds it now")
    assert model.requests == []
    world.stop = ""
    assert goal.result.success


def test_a_hold_that_lasts_too_long_ends_the_task_with_that_reason(graph: Graph) -> None:
    world, model = StopWorld(), ScriptedModel({"root": ["Think: so", "Act: done"]})
    world.stop = PRESSED
    graph.household({}, model=model, world=world, hold_timeout=0.2)
    goal = graph.task()
    assert (goal.status, goal.result.end) == (GoalStatus.STATUS_ABORTED, "held")
    reason = f"it was held for too long: held for longer than 0.2 s: {PRESSED}"
    assert (goal.result.error_code, goal.result.message) == (Result.HELD, reason)
    assert model.requests == []


def test_a_bridge_tells_again_and_again_whether_anything_may_move(graph: Graph) -> None:
    world = StopWorld()
    graph.bridge(world)
    heard = graph.listen(BridgeStatus, "/household_bridge/status")
    graph.until(lambda: len(heard) > 1, "it is told again")
    assert {msg.halted for msg in heard} == {""}
    world.stop = PRESSED
    graph.until(lambda: heard[-1].halted == PRESSED, "the change is told")


@pytest.mark.skipif(not importlib.util.find_spec("nav2_msgs"), reason="needs nav2_msgs")
def test_a_pressed_stop_does_not_destroy_a_robots_task(graph: Graph, tmp_path: Path) -> None:
    from test_robot_bridge import House

    house: Any = House(graph, tmp_path)
    robot = house.add_robot()
    house.start()
    model = ScriptedModel({"root": ["Act: go to sofa 1", "Act: go to sofa 1", "Act: done"]})
    graph.inference(model)
    graph.planner(bridge="robot_bridge")
    robot.behave["navigate_to_pose"] = ["hold"]
    goal = graph.task()
    graph.until(lambda: "navigate_to_pose: hold" in robot.log, "the robot is on its way")
    house.press(True)
    graph.until(lambda: held(goal, PRESSED), "the task holds")
    graph.until(lambda: robot.log[-1] == "stopped: navigate_to_pose", "the robot has stopped")
    assert len(model.requests) == 1
    graph.until(house.bridge.stopped, "the bridge has ended the skill")
    assert house.skill("go to kitchen 1").result.outcome == ExecuteSkill.Result.HALTED
    house.press(False)
    assert (goal.result.success, goal.result.steps, len(model.requests)) == (True, 2, 3)
