"""A clock that stands still (`use_sim_time` without `/clock`) holds up nothing that bounds an end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from processes import Processes, release

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
CLOCK = ("--ros-args", "-p", "use_sim_time:=true")
CONFIG = Path(__file__).parents[2] / "config"


@pytest.mark.parametrize("node", ["bridge_node", "inference_node", "planner_node", "watchdog"])
def test_a_node_ends_when_it_is_asked_to(processes: Processes, node: str) -> None:
    process = processes.node(node, *CLOCK, "--log-level", "debug")
    process.wait_for("[DEBUG]")
    process.signal(signal.SIGTERM)
    assert process.ended_cleanly(0)


def test_a_skill_and_a_task_are_cancelled_at_the_end(processes: Processes) -> None:
    bridge, inference = processes.held("bridge", *CLOCK), processes.held("inference", *CLOCK)
    names = ("-p", "bridge:=held_bridge", "-p", "inference:=held_inference")
    planner = processes.node("planner_node", *CLOCK, *names)
    assert processes.node("bring_up", "held_inference", "held_bridge", *CLOCK).end() == 0
    release(inference)
    task = processes.node("execute_task", INSTRUCTION, *CLOCK)
    bridge.wait_for("holds: go to kitchen 1")
    planner.signal(signal.SIGTERM)
    assert planner.ended_cleanly(0)
    bridge.wait_for("stopped: go to kitchen 1")
    assert task.end() == 1


def test_a_skill_keeps_its_limit(processes: Processes) -> None:
    bridge = processes.held("bridge", *CLOCK, "-p", "skill_timeout:=1.0")
    assert processes.node("bring_up", "held_bridge", *CLOCK).end() == 0
    action = ("/held_bridge/execute_skill", "reactree_interfaces/action/ExecuteSkill", "{skill: go to kitchen 1}")
    goal = processes.start("ros2", "action", "send_goal", *action)
    bridge.wait_for("stopped: go to kitchen 1")
    goal.wait_for("took longer than 1 s and was stopped")


def test_the_watchdog_looks_on(processes: Processes) -> None:
    processes.node("watchdog", *CLOCK)
    bridge, inference = processes.held("bridge", *CLOCK), processes.held("inference", *CLOCK)
    names = ("-p", "bridge:=held_bridge", "-p", "inference:=held_inference")
    planner = processes.node("planner_node", *CLOCK, *names)
    assert processes.node("bring_up", "held_inference", "held_bridge", *CLOCK).end() == 0
    release(inference)
    processes.node("execute_task", INSTRUCTION, *CLOCK)
    bridge.wait_for("holds: go to kitchen 1")
    planner.signal(signal.SIGKILL)
    bridge.wait_for("stopped: go to kitchen 1")


def test_a_launch_carries_its_task_out(processes: Processes) -> None:
    launch = processes.launch("use_sim_time:=true", f"instruction:={INSTRUCTION}")
    assert launch.ended_cleanly(0)
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in launch.output


# ---------------------------------------------------------------------- respawn


def test_a_bridge_that_was_killed_is_started_and_brought_up_again(processes: Processes) -> None:
    launch = processes.launch("respawn:=true")
    launch.wait_until_up()
    os.kill(launch.pid_of("bridge_node"), signal.SIGKILL)
    launch.wait_until_up(7)
    task = processes.node("execute_task", INSTRUCTION)
    assert task.end() == 0, task.output
    launch.interrupt()
    assert launch.ended_cleanly(0)
