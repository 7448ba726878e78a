"""Signals at any moment of a node's life, any number of them: no traceback, no death by the signal, a code that fits.

The moments of the start are told by Python itself, which names every module that it has imported.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from processes import Process, Processes

from reactree_ros.nodes.start import INTERRUPTED, SIGNALS

NODES = (
    *("bridge_node", "inference_node", "planner_node", "robot_bridge_node", "composed"),
    *("watchdog", "view", "answer", "voice"),
)
TOOLS = {"bring_up": ("nobody",), "execute_task": ("Put 1 apple on the coffee table",)}
#: How many modules are imported at a moment of the start, of some 550.
MOMENTS = (1, 30, 100, 200, 350, 500)


def executable(name: str) -> str:
    """Return what `ros2 run` and a launch start."""
    from ament_index_python.packages import get_package_prefix

    return str(Path(get_package_prefix("reactree_ros"), "lib/reactree_ros", name))


def started(processes: Processes, name: str, *, by: str = "") -> Process:
    """Start a node that says what it imports, by its executable or by something else."""
    command = by.split() or [executable(name)]
    return processes.start("env", "PYTHONPROFILEIMPORTTIME=1", *command, *TOOLS.get(name, ()))


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
    assert {path.name for path in Path(executable("view")).parent.iterdir()} == {*NODES, *TOOLS, "reactree"}


@pytest.mark.parametrize("name", [*NODES, *TOOLS])
def test_a_signal_in_the_midst_of_the_start_ends_it_at_once(processes: Processes, name: str) -> None:
    odd = len(name) % 2  # every moment is tried with some of the nodes
    for number, moment in enumerate(MOMENTS[odd::2], odd):
        process = started(processes, name)
        process.wait_until(lambda process=process, moment=moment: imported(process) >= moment)
        process.signal(SIGNALS[number % len(SIGNALS)])
        assert ended_well(process, name)


def test_a_signal_in_the_midst_of_the_start_of_a_module_ends_it_at_once(processes: Processes) -> None:
    for name in ("watchdog", "bring_up"):
        process = started(processes, name, by=f"{sys.executable} -m reactree_ros.nodes.{name}")
        process.wait_until(lambda process=process: imported(process) >= MOMENTS[1])
        process.signal(signal.SIGINT)
        assert ended_well(process, name)


@pytest.mark.parametrize("name", ["watchdog", "bring_up"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_first_line_of_a_launched_node_waits_for_it(
    processes: Processes, name: str, number: int
) -> None:
    """A launch starts its nodes with the signals blocked; they are told before Python itself is up."""
    from reactree_ros.nodes.launching import before_ours

    (before,) = [one for one in before_ours() if isinstance(one, str) and "block" in one]
    process = started(processes, name, by=f"{before} {executable(name)}")
    process.wait_for("import time:")  # Python says so first of all
    process.signal(number)
    assert ended_well(process, name)


def test_any_number_of_signals_until_the_very_end_is_one(processes: Processes) -> None:
    """The last of them come while the interpreter takes itself apart."""
    up = {"household_bridge": "bridge_node", "inference": "inference_node", "reactree_planner": "planner_node"}
    up |= {name: "robot_bridge_node" if name == "robot_bridge" else name for name in ("robot_bridge", "watchdog")}
    nodes = {executable_name: processes.start(executable(executable_name)) for executable_name in up.values()}
    assert processes.node("bring_up", "--also", *up).end() == 0
    for number, (name, node) in enumerate(nodes.items()):
        while not node.ended:
            node.signal(SIGNALS[number % len(SIGNALS)])
            node.signal(signal.SIGINT)
        assert ended_well(node, name)


def test_a_node_under_nohup_stays_where_its_terminal_is_closed(processes: Processes) -> None:
    node = processes.start("nohup", executable("watchdog"))
    assert processes.node("bring_up", "--also", "watchdog").end() == 0
    node.signal(signal.SIGHUP)
    assert processes.node("bring_up", "--also", "watchdog").end() == 0
    node.signal(signal.SIGTERM)
    assert node.end() == 0
