"""What another distribution brings (test/plugin), over ROS: planner, world and language model by name."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest
from processes import Processes

GARDEN = ("world:=garden", "llm:=gardener")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the distribution: the interpreter of the nodes need not be the one of the tests."""
    package = pytest.importorskip("reactree_garden", reason="needs test/plugin; .ci/run installs it")
    folder, brought = tmp_path_factory.mktemp("plugin"), metadata.distribution("reactree-garden")
    info = folder / "reactree_garden.dist-info"
    info.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (info / name).write_text(brought.read_text(name) or "", encoding="utf-8")
    (folder / "reactree_garden").symlink_to(Path(package.__file__).parent)
    return folder


@pytest.fixture
def garden(processes: Processes, installed: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Starts processes for which the distribution is installed."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]))
    return processes


@pytest.mark.parametrize("planner", ["pick", "reactree_wm", "react", "watering"])
def test_its_task_is_carried_out_by_name(garden: Processes, planner: str) -> None:
    launch = garden.launch(*GARDEN, f"planner:={planner}", "beds:=5", "task_id:=1")
    assert launch.ended_cleanly(0)
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in launch.output
    assert "take can-1" in launch.output


def test_its_settings_are_launch_arguments_and_parameters(garden: Processes) -> None:
    polite = garden.launch(*GARDEN, "polite:=true", "planting:=7", "instruction:=Water every bean")
    assert polite.ended_cleanly(0)
    assert "Think: Hello, garden." in polite.output
    shown = garden.start("ros2", "launch", "reactree_ros", "household.launch.py", "--show-args")
    assert shown.end() == 0
    for name in ("beds", "planting", "polite"):
        assert f"'{name}':" in shown.output
    assert "garden: how many beds the garden has" in shown.output


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("beds:=12", "Parameter beds"),
        ("beds:=many", "beds is 'many'; it must be a whole number"),
        ("house:=villa", "house is 'villa', but world 'garden' has no such setting; it is one of virtualhome"),
        ("planner:=pick:patience=0", "planner 'pick': patience is '0': input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_setting_of_it_is_named(garden: Processes, argument: str, said: str) -> None:
    launch = garden.launch(*GARDEN, argument, "instruction:=Water every bean")
    assert launch.ended_cleanly(1)
    assert said in launch.output


def test_the_limits_of_its_household_hold(garden: Processes) -> None:
    launch = garden.launch(*GARDEN, "planner:=react", "instruction:=Count the stars")
    assert launch.ended_cleanly(1)
    assert "Goal not reached (end: failure" in launch.output
