"""The nodes as processes of their own: killed and started again, watched while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import LOOK, Patience, Processes, release

#: `use_sim_time` without `/clock`: it holds up nothing that bounds an end.
CLOCK = ("--ros-args", "-p", "use_sim_time:=true")
#: How long a node may be silent if a test kills one, in seconds.
SILENT = 5.0
INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
#: A test run whose command has started another one, in a session of its own, as a bridge may start a simulator.
RUN = """
import sys
import time
from processes import Processes
starts = "import subprocess, time; one = subprocess.Popen(['sleep', '600'], start_new_session=True)"
started = Processes(99).start(sys.executable, "-c", f"{starts}; print('started', one.pid, flush=True); time.sleep(600)")
started.wait_for("\\n")
print(started.pid, started.output.split()[1], flush=True)
sys.stdin.read()
"""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_test_run_that_is_interrupted(end: int) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    here = Path(__file__).parent
    with subprocess.Popen([sys.executable, "-c", RUN], text=True, cwd=here, **pipes) as run:
        started = [int(pid) for pid in run.stdout.readline().split()]
        assert len(started) == 2
        assert not any(map(is_gone, started))
        os.kill(run.pid, end)
    patience = Patience()
    while not all(map(is_gone, started)):
        assert not patience.is_over(), f"{started} are left"
        time.sleep(LOOK)


@pytest.mark.parametrize("killed", ["bridge", "inference"])
def test_a_node_killed_in_the_middle_ends_the_task_and_the_next_goal_succeeds(
    processes: Processes, killed: str
) -> None:
    bridge, inference, planner = processes.household(server_timeout=1.0, silence=SILENT)
    held = {"bridge": bridge, "inference": inference}
    if killed == "bridge":
        release(held["inference"])

    task = processes.node("execute_task", INSTRUCTION)
    held[killed].wait_for("holds: ")
    held[killed].signal(signal.SIGKILL)
    assert task.end() == 1
    assert f"held_{killed}/" in task.output
    assert "has gone" in task.output

    held[killed] = processes.held(killed)
    assert processes.node("bring_up", f"held_{killed}").end() == 0
    for process in held.values():
        release(process)
    task = processes.node("execute_task", INSTRUCTION)
    assert task.end() == 0, task.output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in task.output
    assert "Traceback" not in planner.output


def test_a_decision_whose_inference_node_is_killed_and_started_again_is_asked_again(processes: Processes) -> None:
    bridge, inference, planner = processes.household(silence=SILENT)
    release(bridge)
    task = processes.node("execute_task", INSTRUCTION)
    inference.wait_for("holds: a decision")
    inference.signal(signal.SIGKILL)
    planner.wait_for(f"a decision is requested again: held_inference/generate has gone (silent for {SILENT:g} s)")
    inference = processes.held("inference")
    assert processes.node("bring_up", "held_inference").end() == 0
    inference.wait_for("holds: a decision")
    release(inference)
    assert task.end() == 0, task.output
    assert "[1] " in task.output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in task.output


def test_a_bridge_that_is_back_at_once_has_lost_the_skill_and_is_given_the_next_task(processes: Processes) -> None:
    bridge, inference, _ = processes.household(server_timeout=1.0)
    release(inference)
    task = processes.node("execute_task", INSTRUCTION)
    bridge.wait_for("holds: go to kitchen 1")
    bridge.signal(signal.SIGKILL)

    bridge = processes.held("bridge")
    assert processes.node("bring_up", "held_bridge").end() == 0
    assert task.end() == 1
    assert "(end: world_gone)" in task.output
    assert "'go to kitchen 1' failed: held_bridge/execute_skill " in task.output
    assert "holds: " not in bridge.output, "nothing else is tried"

    task = processes.node("execute_task", INSTRUCTION)
    bridge.wait_for("holds: go to kitchen 1")
    task.interrupt()
    bridge.wait_for("stopped: go to kitchen 1")
    assert task.end() == 130


# ---------------------------------------------------------------------- a clock that stands still


@pytest.mark.parametrize("node", ["bridge_node", "inference_node", "planner_node", "watchdog"])
def test_a_node_whose_clock_stands_still_ends_when_it_is_asked_to(processes: Processes, node: str) -> None:
    process = processes.node(node, *CLOCK, "--log-level", "debug")
    process.wait_for("[DEBUG]")
    process.signal(signal.SIGTERM)
    assert process.ended_cleanly(0)


def test_a_skill_and_a_task_are_cancelled_at_the_end_although_the_clock_stands_still(processes: Processes) -> None:
    bridge, inference, planner = processes.household(*CLOCK)
    release(inference)
    task = processes.node("execute_task", INSTRUCTION, *CLOCK)
    bridge.wait_for("holds: go to kitchen 1")
    planner.signal(signal.SIGTERM)
    assert planner.ended_cleanly(0)
    bridge.wait_for("stopped: go to kitchen 1")
    assert task.end() == 1


def test_a_skill_keeps_its_limit_although_the_clock_stands_still(processes: Processes) -> None:
    bridge = processes.held("bridge", *CLOCK, "-p", "skill_timeout:=1.0")
    assert processes.node("bring_up", "held_bridge", *CLOCK).end() == 0
    action = ("/held_bridge/execute_skill", "reactree_interfaces/action/ExecuteSkill", "{skill: go to kitchen 1}")
    goal = processes.start("ros2", "action", "send_goal", *action)
    bridge.wait_for("stopped: go to kitchen 1")
    goal.wait_for("took longer than 1 s and was stopped")


def test_the_watchdog_looks_on_although_the_clock_stands_still(processes: Processes) -> None:
    processes.node("watchdog", *CLOCK)
    bridge, inference, planner = processes.household(*CLOCK)
    release(inference)
    processes.node("execute_task", INSTRUCTION, *CLOCK)
    bridge.wait_for("holds: go to kitchen 1")
    planner.signal(signal.SIGKILL)
    bridge.wait_for("stopped: go to kitchen 1")


def test_a_launch_carries_its_task_out_although_the_clock_stands_still(processes: Processes) -> None:
    launch = processes.launch("use_sim_time:=true", f"instruction:={INSTRUCTION}")
    assert launch.ended_cleanly(0)
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in launch.output


def test_a_bridge_that_was_killed_is_started_and_brought_up_again(processes: Processes) -> None:
    launch = processes.launch("respawn:=true")
    launch.wait_until_up()
    os.kill(launch.pid_of("bridge_node"), signal.SIGKILL)
    launch.wait_until_up(7)
    task = processes.node("execute_task", INSTRUCTION)
    assert task.end() == 0, task.output
    launch.interrupt()
    assert launch.ended_cleanly(0)
