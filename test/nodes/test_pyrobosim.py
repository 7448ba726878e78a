"""A robot that somebody else wrote: pyrobosim's own ROS node, driven by the configuration of this package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import yaml
from processes import Processes

NEEDED = ("pyrobosim", "pyrobosim_msgs", "pyrobosim_ros")
pytestmark = [
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, NEEDED)),
        reason="needs pyrobosim, and its ROS packages pyrobosim_msgs and pyrobosim_ros in a sourced workspace",
    ),
]
ROBOTS = Path(__file__).parents[2] / "config/robots"


@pytest.fixture
def hurried(tmp_path: Path) -> Path:
    """The shipped configuration of a robot that drives ten times as fast."""
    text = (ROBOTS / "pyrobosim.yaml").read_text()
    assert text.count("realtime_factor: 1.0") == 1
    (tmp_path / "pyrobosim_map.yaml").write_text((ROBOTS / "pyrobosim_map.yaml").read_text())
    (tmp_path / "pyrobosim.yaml").write_text(text.replace("realtime_factor: 1.0", "realtime_factor: 10.0"))
    return tmp_path / "pyrobosim.yaml"


def test_a_launch_brings_its_node_up_and_its_robot_puts_the_apple_on_the_desk(
    processes: Processes, hurried: Path
) -> None:
    whole = processes.start(
        *("ros2", "launch", "reactree_ros", "mobile_manipulator.launch.py"),
        *(f"robot_config:={hurried}", "instruction:=Put 1 apple on the desk"),
    )
    assert whole.ended_cleanly(0)
    assert "Claimed, not checked (end: done)" in whole.output
    assert "Action pick finished with status: SUCCESS" in whole.output
    assert "You put down apple on desk" in whole.output


def test_a_check_finds_the_robot_all_right_and_a_config_for_another_one_not(
    processes: Processes, tmp_path: Path
) -> None:
    parameters = yaml.safe_load((ROBOTS / "pyrobosim.yaml").read_text())["start"][0]["parameters"]
    given = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
    robot = processes.start(
        *("env", "QT_QPA_PLATFORM=offscreen", "ros2", "run", "pyrobosim_ros", "demo.py"), *("--ros-args", *given)
    )
    robot.wait_for("PyRoboSim ROS node ready!")
    check = (sys.executable, "-m", "reactree_ros.cli", "robot", "check")
    right = processes.start(*check, str(ROBOTS / "pyrobosim.yaml"))
    assert right.end() == 0, right.output
    assert "nothing is wrong" in right.output
    text = (ROBOTS / "pyrobosim.yaml").read_text()
    (tmp_path / "pyrobosim_map.yaml").write_text(
        (ROBOTS / "pyrobosim_map.yaml").read_text().replace("own: my_desk_desktop", "own: your_desk")
    )
    (tmp_path / "robot.yaml").write_text(text)
    wrong = processes.start(*check, str(tmp_path / "robot.yaml"))
    assert wrong.end() == 1, wrong.output
    assert "place 'desk 1'" in wrong.output
    assert "1 of " in wrong.output
