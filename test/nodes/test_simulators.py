"""The household launch in front of the peers of VirtualHome's simulator and of AI2-THOR."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Process, Processes

WORLDS = Path(__file__).parents[1] / "lab" / "simulators"
unity = pytest.mark.skipif(not importlib.util.find_spec("virtualhome"), reason="needs the client of VirtualHome")
ai2thor = pytest.mark.skipif(not importlib.util.find_spec("ai2thor"), reason="needs the client of AI2-THOR")
INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"


def ended(process: Process, code: int) -> str:
    assert process.end() == code, process.output
    assert "Traceback" not in process.output
    return process.output


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@unity
def test_a_task_is_carried_out_in_unity_with_pictures(processes: Processes) -> None:
    from virtualhome_peer import VirtualHomePeer

    from reactree_ros.household.houses import HOUSES
    from reactree_ros.household.tasks import load_tasks

    with VirtualHomePeer([load_tasks(HOUSES["apartment"])[0]]) as peer:
        topic = ("/household_bridge/image", "sensor_msgs/msg/Image")
        echo = processes.start("ros2", "topic", "echo", *topic, "--field", "encoding")
        world = ("world:=virtualhome_unity", f"port:={peer.port}", "pictures:=true")
        output = ended(processes.launch(f"instruction:={INSTRUCTION}", *world), 0)
        assert peer.lines
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in output
    echo.wait_for("rgb8")


@unity
def test_a_simulator_that_is_not_there_ends_the_task_with_its_reason(processes: Processes) -> None:
    world = ("world:=virtualhome_unity", f"port:={free_port()}")
    output = ended(processes.launch(f"instruction:={INSTRUCTION}", *world), 1)
    assert "cannot be reached: it is not running there" in output


@ai2thor
def test_an_instruction_is_carried_out_in_ai2thor(processes: Processes) -> None:
    port = free_port()
    peer = [sys.executable, str(WORLDS / "thor_peer.py"), "--port", str(port)]
    world = ("world:=ai2thor", "scene:=FloorPlan201", f"port:={port}", "start_simulator:=false")
    with subprocess.Popen(peer, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as simulator:
        output = ended(processes.launch("instruction:=Put a book on the sofa.", *world), 0)
        simulator.kill()
    assert "Act: put down Book (" in output
    assert "You put Book (" in output
    assert "Claimed, not checked (end: done)" in output
