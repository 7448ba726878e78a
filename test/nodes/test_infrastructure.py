"""A robot's servers that are away, late, restarted, or not ready yet: none of that is an observation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel
from navigation import Navigation
from processes import Processes
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from robot_house import House, in_skill
from robot_servers import VELOCITY_LASTS
from ros_graph import Goal, Graph

from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import AWAY

Result = ExecuteSkill.Result


CONFIG = Path(__file__).parents[2] / "config/robot.yaml"
ACTS = ("go to kitchen 1", "go to fridge 1", "open fridge 1", "pick up apple 1", "done")
SCRIPT = {"root": [f"Act: {skill}" for skill in ACTS]}


def task(house: House, **of_bridge: Any) -> tuple[Goal, ScriptedModel]:
    """Begin a task whose robot never arrives at first; returns goal and model when the robot is on its way."""
    robot = house.add_robot(alone=True, behave={"navigate_to_pose": ["hold"]})
    house.start(**{"server_timeout": 600.0, "stop_timeout": 600.0} | of_bridge)
    model = ScriptedModel(SCRIPT)
    house.graph.inference(model)
    house.graph.planner(bridge="robot_bridge")
    goal = house.graph.task()
    house.until(lambda: "navigate_to_pose: hold" in robot.log, "the robot is on its way")
    house.until(lambda: house.errand.underway.accepted, "the bridge has heard so")
    return goal, model


# ---------------------------------------------------------------------- restarted, gone


def test_a_task_whose_navigation_is_restarted_decides_as_if_nothing_had_been(house: House, tmp_path: Path) -> None:
    goal, disturbed = task(house)
    (waiting,) = house.parts._calls._waiting
    house.graph.kill(house.robot)
    house.until(lambda: waiting.sent_to == AWAY, "the bridge has seen it go")
    robot = house.add_robot(alone=True)
    assert (goal.result.success, goal.result.decisions, goal.result.steps) == (True, 4, 4)
    assert robot.house.held == "apple"
    house.graph.close()

    graph = Graph(house.graph.domain_id)
    other = House(graph, tmp_path)
    goal, undisturbed = task(other)
    other.robot._running[0][1].forever = False  # it arrives
    assert goal.result.success
    graph.close()
    assert [request.prompt for request in disturbed.requests] == [request.prompt for request in undisturbed.requests]


def test_a_base_whose_navigation_is_killed_stands_and_is_driven_on_by_the_next(house: House) -> None:
    robot = house.add_robot(nav=False)
    navigation = house.graph.add(Navigation(speed=1.0, context=house.graph.context), alone=True)
    house.start(server_timeout=600.0)
    goal = house.skill("go to kitchen 1")
    house.until(lambda: robot.x > 3.0, "the base is driven")
    house.graph.kill(navigation)
    house.until(lambda: steady.now() - robot.moved_at > VELOCITY_LASTS, "the base stands")
    assert robot.x < 7.0
    house.graph.add(Navigation(speed=20.0, context=house.graph.context), alone=True)
    assert goal.result.outcome == Result.DONE
    assert abs(robot.x - 7.5) < 0.1


def test_a_navigation_that_never_comes_back_ends_the_task_with_that_reason(house: House) -> None:
    goal, model = task(house, server_timeout=0.3)
    house.graph.kill(house.robot)
    assert (goal.result.end, goal.result.error_code) == ("world_gone", ExecuteTask.Result.WORLD_UNAVAILABLE)
    assert goal.result.message.endswith("navigate_to_pose has gone (for 0.3 s)")
    assert len(model.requests) == 1, "nothing is decided by it"


def test_an_arm_that_is_restarted_in_the_midst_is_not_told_the_same_again(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=600.0)
    house.does("go to kitchen table 1")
    goal = house.begins("pick up pudding 1", "arm", "hold")
    underway = house.errand.underway
    house.graph.kill(robot)
    house.until(lambda: underway.away, "the bridge sees that it has gone")
    robot = house.add_robot(alone=True)
    lost = "arm was restarted; what it was asked for is lost; nobody knows how far 'pick up pudding 1' got"
    assert (goal.result.outcome, goal.result.message) == (Result.WORLD_UNAVAILABLE, lost)
    assert robot.log == []


def test_a_server_that_ends_a_goal_without_a_word_and_then_itself_has_lost_it(house: House) -> None:
    robot = house.add_robot(alone=True, behave={"navigate_to_pose": ["quit"]})
    house.start(in_skill("go to", retries=0), server_timeout=600.0)
    goal = house.skill("go to bed 1")
    house.until(lambda: house.errand and house.errand.trouble, "it has ended the goal")
    house.graph.kill(robot)
    house.until(lambda: not house.errand or "has gone" in house.errand.trouble, "it has gone")
    house.add_robot(alone=True)
    assert goal.result.outcome == Result.DONE


def test_a_twin_of_a_server_that_comes_and_goes_does_not_end_a_goal(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=600.0)
    goal = house.goes("hold")
    house.until(lambda: house.errand.underway.accepted, "the bridge has heard so")
    twin = house.graph.add(type(robot)("twin", context=house.graph.context, button=False, body=False), alone=True)
    (waiting,) = house.parts._calls._waiting
    house.until(lambda: waiting.sent_to == 2, "the twin is seen")
    house.graph.kill(twin)
    house.until(lambda: waiting.sent_to == 1, "its end is seen")
    robot._running[0][1].forever = False  # it arrives
    assert goal.result.outcome == Result.DONE
    assert "cancel: navigate_to_pose" not in robot.log


def test_a_goal_that_is_answered_twice_ends_neither_skill_nor_bridge(house: House) -> None:
    """As where two servers of one action are there; rclpy raises where the second answer follows at once."""
    house.add_robot(alone=True)
    house.start()
    (client,) = {
        server._client for server in house.parts.servers._servers.values() if server.name == "navigate_to_pose"
    }
    take_in = client.execute

    async def take_in_twice(data: Any) -> None:
        await take_in(dict(data))
        await take_in({name: data[name] for name in ("goal",) if name in data})

    client.execute = take_in_twice
    house.does("go to kitchen 1", "go to fridge 1")


# ---------------------------------------------------------------------- bring-up


@pytest.mark.parametrize("comes", [False, True])
def test_bring_up_waits_for_the_servers_that_a_robot_lacks_and_names_them(processes: Processes, comes: bool) -> None:
    robot = (sys.executable, str(Path(__file__).parent / "robot_servers.py"))
    if not comes:
        processes.start(*robot, "--without", "nav")
    processes.node("robot_bridge_node", "--ros-args", "-p", f"robot_config:={CONFIG}")
    assert processes.node("bring_up", "--also", "robot_bridge").end() == 0  # a timeout is for what it needs
    bring_up = processes.node("bring_up", "robot_bridge", "--timeout", "60" if comes else "3")
    lack = "navigate_to_pose (nav2_msgs/action/NavigateToPose) is not there"
    if comes:
        bring_up.wait_for(f"'robot_bridge' waits: {lack}; arm (")
        processes.start(*robot)
        assert bring_up.end() == 0
    else:
        assert bring_up.end() == 1
        assert f"error: 'robot_bridge' lacks what it needs (for 3 s): {lack}\n" in bring_up.output


# ---------------------------------------------------------------------- not ready, late, not stopped yet


def test_a_server_that_rejects_because_it_starts_is_asked_again(house: House) -> None:
    robot = house.add_robot(behave={"navigate_to_pose": ["reject"] * 2})
    house.start(server_timeout=600.0)
    house.does("go to bed 1")
    assert robot.log[:3] == ["rejected: navigate_to_pose"] * 2 + ["navigates to 2.4 6.6"]
    robot.behave["navigate_to_pose"] = ["reject"] * 999
    goal = house.skill("go to bed 1")
    house.until(lambda: house.errand and house.errand.trouble, "it is tried again")
    house.press(True)
    assert goal.result.outcome == Result.HALTED


def test_a_server_that_goes_on_rejecting_is_named_within_its_bound(house: House) -> None:
    house.add_robot(behave={"navigate_to_pose": ["reject"] * 999})
    house.start(server_timeout=0.3)
    message = "navigate_to_pose rejected the goal (again and again for 0.3 s)"
    assert house.fails("go to bed 1") == (Result.WORLD_UNAVAILABLE, message)


def test_a_goal_that_is_accepted_late_is_waited_for(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=600.0)
    house.graph.halt(robot)
    goal = house.skill("go to bed 1")
    house.until(lambda: house.errand and house.errand.underway.sent_at, "the goal was sent")
    house.graph.resume(robot)
    assert goal.result.outcome == Result.DONE


def test_a_skill_waits_until_what_was_cancelled_has_stopped(house: House) -> None:
    robot = house.add_robot()
    house.start(stop_timeout=600.0)
    house.goes("deaf")
    world = house.world
    house.errand.pending.cancel()  # the bridge itself would wait: this is the world's own
    house.until(lambda: "cancel: navigate_to_pose" in robot.log, "it is told to stop")
    second = world.execute("go to sofa 1")
    house.until(lambda: world._next, "the second waits")
    robot._running[0][1].deaf = False
    house.until(second.done, "the second is carried out")
    assert second.take().text.startswith("You arrive at the sofa (1).")
    stopped, began = robot.log.index("stopped: navigate_to_pose"), robot.log.index("navigates to 1.5 2.0")
    assert stopped < began


def test_a_skill_that_waits_for_a_server_is_cancelled_and_never_sent(house: House) -> None:
    house.add_robot(nav=False)
    house.start(server_timeout=600.0)
    goal = house.skill("go to bed 1")
    house.until(lambda: house.errand or house.world._next, "it waits")
    goal.cancel()
    assert goal.result.outcome == Result.CANCELED
    late = house.graph.add(type(house.robot)("nav", context=house.graph.context, arm=False, button=False))
    house.does("go to sofa 1")
    assert late.log.count("navigate_to_pose: succeed") == 1


@pytest.mark.parametrize("stop", ["a cancel", "the emergency stop"])
def test_what_was_picked_up_although_it_was_to_be_stopped_is_known_to_be_held(house: House, stop: str) -> None:
    robot = house.add_robot()
    house.start(stop_timeout=600.0)
    house.does("go to kitchen table 1")
    goal = house.begins("pick up pudding 1", "arm", "deaf")
    if stop == "a cancel":
        goal.cancel()
    else:
        house.press(True)
    house.until(lambda: "cancel: arm" in robot.log, "it is told to stop")
    robot._running[0][1].forever = False  # it does what it was asked for
    assert goal.result.outcome == (Result.CANCELED if stop == "a cancel" else Result.HALTED)
    assert robot.house.held == "pudding"
    assert [thing.name for thing in map(house.map.things.get, house.map.held)] == ["pudding 1"]
    if stop != "a cancel":
        assert goal.result.observation.text.endswith(" You hold pudding (1).")
