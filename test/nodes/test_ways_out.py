"""However a node comes to its end, what it has in flight is cancelled first, and the robot stands."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest
from processes import Process, Processes, need_program, release

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "config"
INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
SKILL = ("/robot_bridge/execute_skill", "reactree_interfaces/action/ExecuteSkill", "{skill: go to bed 1}")
NAV2 = pytest.mark.skipif(importlib.util.find_spec("nav2_msgs") is None, reason="needs nav2_msgs")
STOPPED = "cancel: navigate_to_pose\nstopped: navigate_to_pose\n"


def robot(processes: Processes, behaviour: str = "hold") -> Process:
    return processes.start(sys.executable, str(HERE / "robot_servers.py"), "--behave", f"navigate_to_pose={behaviour}")


def faulty(processes: Processes, fault: str, node: str, **parameters: object) -> Process:
    given = itertools.chain(*[("-p", f"{name}:={value}") for name, value in parameters.items()])
    return processes.held(node, fault, "--ros-args", *given)


def robot_bridge(processes: Processes, fault: str = "raise", *, behaviour: str = "hold") -> tuple[Process, Process]:
    """Start a robot and its bridge; returns both when the robot drives."""
    body = robot(processes, behaviour)
    bridge = faulty(processes, fault, "robot_bridge", robot_config=CONFIG / "robot.yaml")
    assert processes.node("bring_up", "robot_bridge").end() == 0
    processes.start("ros2", "action", "send_goal", *SKILL)
    body.wait_for(f"navigate_to_pose: {behaviour}")
    return body, bridge


# ---------------------------------------------------------------------- the robot bridge


@NAV2
@pytest.mark.parametrize("fault", ["raise", "task", "exit", "lose"])
def test_a_bridge_that_comes_to_an_end_by_a_fault_stops_the_robot_first(processes: Processes, fault: str) -> None:
    body, bridge = robot_bridge(processes, fault)
    bridge.signal(signal.SIGUSR1)
    assert bridge.end() == 1
    body.wait_for(STOPPED)
    failed = "RuntimeError: a fault of the test"
    said = {"raise": failed, "task": failed, "exit": "SystemExit: 3", "lose": "ROS was shut down"}
    assert bridge.output.count(said[fault]) == 1


@NAV2
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_stops_the_robot_before_the_bridge_ends(processes: Processes, number: int) -> None:
    body, bridge = robot_bridge(processes)
    bridge.signal(number)
    assert bridge.end() == 0, bridge.output
    body.wait_for(STOPPED)


@NAV2
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_any_number_of_signals_stops_the_robot_and_ends_the_bridge_once(processes: Processes, number: int) -> None:
    body, bridge = robot_bridge(processes)
    while not bridge.ended:
        bridge.signal(number)
    assert bridge.end() == 0, bridge.output
    assert "Traceback" not in bridge.output
    body.wait_for(STOPPED)


@NAV2
def test_a_robot_that_does_not_stop_is_waited_for_within_a_bound_and_named(processes: Processes) -> None:
    _, bridge = robot_bridge(processes, behaviour="deaf")
    bridge.signal(signal.SIGTERM)
    assert bridge.end() == 1
    assert "error: what the node had in flight has not ended within 3 s" in bridge.output


# ---------------------------------------------------------------------- the watchdog


@NAV2
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_watchdog_stops_the_robot_of_a_bridge_that_is_killed_or_hangs(processes: Processes, number: int) -> None:
    watchdog = processes.node("watchdog")
    body, bridge = robot_bridge(processes)
    bridge.signal(number)
    body.wait_for(STOPPED)
    watchdog.wait_for("'/robot_bridge' (process ")
    watchdog.wait_for("on /navigate_to_pose is canceled")
    watchdog.signal(signal.SIGINT)
    assert watchdog.ended_cleanly(0)


@NAV2
def test_a_watchdog_that_is_asked_to_end_with_a_bridge_that_was_killed_stops_the_robot_first(
    processes: Processes,
) -> None:
    watchdog = processes.node("watchdog")
    body, bridge = robot_bridge(processes)
    bridge.signal(signal.SIGKILL)
    watchdog.signal(signal.SIGINT)
    assert watchdog.ended_cleanly(0)
    body.wait_for(STOPPED)


@NAV2
def test_a_launch_whose_bridge_is_killed_leaves_the_robot_standing(processes: Processes) -> None:
    body = robot(processes)
    file = "mobile_manipulator.launch.py"
    config = f"robot_config:={CONFIG / 'robot.yaml'}"
    launch = processes.start("ros2", "launch", "reactree_ros", file, config, f"instruction:={INSTRUCTION}")
    body.wait_for("navigate_to_pose: hold")
    os.kill(launch.pid_of("robot_bridge_node"), signal.SIGKILL)
    body.wait_for(STOPPED)
    assert launch.ended_cleanly(1)
    assert "robot_bridge_node has ended" in launch.output


# ---------------------------------------------------------------------- a launch that is killed


@NAV2
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGQUIT])
def test_a_launch_that_is_killed_leaves_the_robot_standing_and_no_node(processes: Processes, number: int) -> None:
    body = robot(processes)
    config = f"robot_config:={CONFIG / 'robot.yaml'}"
    launch = processes.start(
        "ros2", "launch", "reactree_ros", "mobile_manipulator.launch.py", config, f"instruction:={INSTRUCTION}"
    )
    body.wait_for("navigate_to_pose: hold")
    launch.signal(number)
    body.wait_for(STOPPED)
    launch.wait_until_nothing_is_left()


def test_the_nodes_of_a_launch_that_is_killed_end_and_others_stay(processes: Processes) -> None:
    other = processes.node("watchdog", "--ros-args", "-r", "__ns:=/other")
    launch = processes.launch("respawn:=true", "namespace:=one")
    launch.wait_until_up()
    launch.signal(signal.SIGKILL)
    launch.wait_until_nothing_is_left()
    assert not other.ended


def test_a_launch_within_a_shell_that_is_killed_ends_with_all_its_nodes(processes: Processes) -> None:
    """The launch's own end counts, not that of whoever has started it."""
    need_program("ros2")
    command = "ros2 launch reactree_ros household.launch.py; true"
    shell = processes.start("bash", "-c", command)
    shell.wait_until_up()
    os.kill(shell.child("ros2"), signal.SIGKILL)
    shell.wait_until_nothing_is_left()


def test_the_watchdog_cancels_the_skill_of_a_planner_that_is_killed(processes: Processes) -> None:
    processes.node("watchdog")
    bridge, planner = held_household(processes, planner="raise")
    bridge.wait_for("holds: go to kitchen 1")
    planner.signal(signal.SIGKILL)
    bridge.wait_for("stopped: go to kitchen 1")


# ---------------------------------------------------------------------- household bridge, planner, inference node


def held_household(processes: Processes, **faults: str) -> tuple[Process, Process]:
    """Start a household that holds its first skill; returns bridge and planner, of which one is faulty."""
    bridge = faulty(processes, faults["bridge"], "bridge") if "bridge" in faults else processes.held("bridge")
    inference = processes.held("inference")
    planner = faulty(
        processes, faults.get("planner", "raise"), "planner", bridge="held_bridge", inference="held_inference"
    )
    assert processes.node("bring_up", "held_inference", "held_bridge", "reactree_planner").end() == 0
    release(inference)
    processes.node("execute_task", INSTRUCTION)
    return bridge, planner


@pytest.mark.parametrize("fault", ["raise", "task", "exit", "lose"])
def test_a_planner_that_comes_to_an_end_by_a_fault_cancels_its_skill(processes: Processes, fault: str) -> None:
    bridge, planner = held_household(processes, planner=fault)
    bridge.wait_for("holds: go to kitchen 1")
    planner.signal(signal.SIGUSR1)
    assert planner.end() == 1
    bridge.wait_for("stopped: go to kitchen 1")


@pytest.mark.parametrize("fault", ["raise", "task", "exit"])
def test_a_household_bridge_that_comes_to_an_end_by_a_fault_cancels_its_skill(processes: Processes, fault: str) -> None:
    bridge, _ = held_household(processes, bridge=fault)
    bridge.wait_for("holds: go to kitchen 1")
    bridge.signal(signal.SIGUSR1)
    assert bridge.end() == 1
    assert "stopped: go to kitchen 1" in bridge.output


def test_an_inference_node_that_comes_to_an_end_by_a_fault_cancels_its_generation(processes: Processes) -> None:
    inference = faulty(processes, "raise", "inference")
    assert processes.node("bring_up", "held_inference").end() == 0
    request = "{id: one, turns: [], max_tokens: 9, kind: 2}"
    processes.start("ros2", "service", "call", "/held_inference/generate", "reactree_interfaces/srv/Generate", request)
    inference.wait_for("holds: a decision")
    inference.signal(signal.SIGUSR1)
    assert inference.end() == 1
    assert "stopped: a decision" in inference.output
