"""Signals at any moment of a node's life, any number of them: no traceback, no death by the signal, a code that fits.

The moments of the start are told by Python itself, which names every module that it has imported.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from processes import Process, Processes

from reactree_ros.nodes.start import INTERRUPTED

pytestmark = pytest.mark.ros

NODES = ("bridge_node", "inference_node", "planner_node", "robot_bridge_node", "watchdog", "view", "answer")
TOOLS = {"bring_up": ("nobody",), "execute_task": ("Put 1 apple on the coffee table",)}
#: How many modules of ours and of others are imported at a moment of the start.
MOMENTS = (1, 30, 100, 200, 400, 800)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def executable(name: str) -> str:
    """Return what `ros2 run` and a launch start."""
    from ament_index_python.packages import get_package_prefix

    return str(Path(get_package_prefix("reactree_ros"), "lib/reactree_ros", name))


def started(processes: Processes, name: str) -> Process:
    """Start a node that says what it imports."""
    return processes.start("env", "PYTHONPROFILEIMPORTTIME=1", executable(name), *TOOLS.get(name, ()))


def imported(process: Process) -> int:
    """Return how many modules were imported since the node's own code began; -1: it has not yet."""
    _, begun, since = process.output.partition("reactree_ros.nodes.start\n")
    return since.count("import time:") if begun else -1


def ended_well(process: Process, name: str) -> bool:
    assert process.end() == INTERRUPTED.get(name, 0), process.output[-3000:]
    said = [line for line in process.output.splitlines() if not line.startswith("import time:")]
    assert not [line for line in said if "Traceback" in line or "KeyboardInterrupt" in line], said
    return True


def test_every_executable_is_tried() -> None:
    assert {path.name for path in Path(executable("view")).parent.iterdir()} == {*NODES, *TOOLS}


@pytest.mark.parametrize("name", [*NODES, *TOOLS])
def test_a_signal_in_the_midst_of_the_start_ends_it_at_once(processes: Processes, name: str) -> None:
    for number, moment in enumerate(MOMENTS):
        process = started(processes, name)
        process.wait_until(lambda process=process, moment=moment: imported(process) >= moment)
        process.signal(SIGNALS[number % len(SIGNALS)])
        assert ended_well(process, name)


@pytest.mark.parametrize("name", [*NODES, *TOOLS])
@pytest.mark.parametrize("number", SIGNALS)
def test_any_number_of_signals_until_the_very_end_is_one(processes: Processes, name: str, number: int) -> None:
    """From the middle of the start to the end of the interpreter, and once it is up: there the node does not see it."""
    for moment in (MOMENTS[-1], 1200):
        process = started(processes, name)
        process.wait_until(lambda process=process, moment=moment: imported(process) >= moment or process.ended)
        while not process.ended:
            process.signal(number)
        assert ended_well(process, name)


@pytest.mark.parametrize("name", ["household_bridge", "planner"])
def test_a_node_that_is_up_ends_once_however_often_it_is_told(processes: Processes, name: str) -> None:
    node = processes.start(executable({"planner": "planner_node"}.get(name, "bridge_node")))
    full = {"planner": "reactree_planner"}.get(name, name)
    looks = processes.start("ros2", "node", "list", "--spin-time", "3")
    assert looks.end() == 0
    assert f"/{full}" in looks.output
    for _ in range(3):
        node.signal(signal.SIGINT)
    while not node.ended:
        node.signal(signal.SIGINT)
    assert ended_well(node, name)


def test_a_node_under_nohup_stays_where_its_terminal_is_closed(processes: Processes) -> None:
    node = processes.start("nohup", executable("watchdog"))
    assert processes.node("bring_up", "--also", "watchdog").end() == 0
    node.signal(signal.SIGHUP)
    assert processes.node("bring_up", "--also", "watchdog").end() == 0
    node.signal(signal.SIGTERM)
    assert node.end() == 0
