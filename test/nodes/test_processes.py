"""The nodes as processes of their own: killed and started again, watched while they run."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import LOOK, Patience, Process, Processes, release

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


def start_planner(processes: Processes) -> Process:
    names = ("bridge:=held_bridge", "inference:=held_inference", "server_timeout:=1.0")
    return processes.node("planner_node", "--ros-args", *itertools.chain(*[("-p", name) for name in names]))


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
    held = {kind: processes.held(kind) for kind in ("bridge", "inference")}
    planner = start_planner(processes)
    assert processes.node("bring_up", "held_inference", "held_bridge").end() == 0
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
    bridge, inference = processes.held("bridge"), processes.held("inference")
    planner = processes.node(
        "planner_node", "--ros-args", "-p", "bridge:=held_bridge", "-p", "inference:=held_inference"
    )
    assert processes.node("bring_up", "held_inference", "held_bridge").end() == 0
    release(bridge)
    task = processes.node("execute_task", INSTRUCTION)
    inference.wait_for("holds: a decision")
    inference.signal(signal.SIGKILL)
    planner.wait_for("a decision is requested again: held_inference/generate has gone (silent for 1.5 s)")
    inference = processes.held("inference")
    assert processes.node("bring_up", "held_inference").end() == 0
    inference.wait_for("holds: a decision")
    release(inference)
    assert task.end() == 0, task.output
    assert "[1] " in task.output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in task.output


def test_a_bridge_that_is_back_at_once_has_lost_the_skill_and_is_given_the_next_task(processes: Processes) -> None:
    bridge, inference = processes.held("bridge"), processes.held("inference")
    start_planner(processes)
    assert processes.node("bring_up", "held_inference", "held_bridge").end() == 0
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
