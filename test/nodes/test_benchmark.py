"""What the benchmarks of ROS make of what they have seen."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import LONGEST, Processes

MILLISECOND = 10**6


FOLDER = Path(__file__).parents[2] / "benchmarks"
if str(FOLDER) not in sys.path:  # they import one another
    sys.path.append(str(FOLDER))


def benchmark(name: str = "ros") -> Any:
    file = FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_benchmark", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("first", [0, 3, 10], ids=lambda late: f"the first {late} ms late")
def test_a_tick_that_is_late_makes_no_other_late(first: int) -> None:
    noise = [MILLISECOND // 10, -MILLISECOND // 10] * 50
    stamps = [20 * MILLISECOND * tick + about for tick, about in enumerate(noise)]
    stamps[0] += first * MILLISECOND
    late = benchmark().lateness(stamps, 20.0 * MILLISECOND)
    assert late[0] == pytest.approx(first + 0.2, abs=0.01)
    assert max(late[1:]) == pytest.approx(0.2, abs=0.01)


def test_another_version_is_the_one_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = tmp_path / "reactree_ros" / "nodes"
    nodes.mkdir(parents=True)
    for file in (nodes.parent / "__init__.py", nodes / "__init__.py"):
        file.touch()
    (nodes / "planner_node.py").write_text("print(__file__)")
    monkeypatch.chdir(Path(__file__).parents[2])  # where there is a reactree_ros, too
    bench = benchmark()
    told = subprocess.check_output(
        bench.node("planner_node"), **bench.taking(str(tmp_path)), text=True, timeout=LONGEST
    )
    assert Path(told.strip()) == nodes / "planner_node.py"


@pytest.mark.skipif(importlib.util.find_spec("nav2_msgs") is None, reason="needs nav2_msgs")
def test_every_skill_of_the_office_robot_ends_as_it_should_over_ros(processes: Processes, tmp_path: Path) -> None:
    own = benchmark("own_skills")
    office = own.Office(own.ROOT / "config/robots/office.yaml", tmp_path, processes.domain)
    try:
        rows = [own.Row(office, skill) for skill in office.config.declared]
        seen = {row.skill.name: dict(row.cells("done", "refused by", "failed", "cancelled")) for row in rows}
        assert [one for row in rows for one in row.wrong] == []
        assert all(", ".join(row.skill.parameters) in seen[row.skill.name]["refused by"] for row in rows)
        assert own.at_once(office.journal.read()) == []
    finally:
        office.close()


def test_what_a_planner_exchanges_is_exchanged_again_by_bare_programs(processes: Processes, tmp_path: Path) -> None:
    bench, kept = benchmark(), tmp_path / "exchange"
    houses = tmp_path / "houses.json"
    houses.write_text(json.dumps(bench.houses(1)))
    run = (sys.executable, bench.__file__, "--file", str(kept), "--serve")
    nodes = [processes.node("inference_node"), processes.start(*run, "planner")]
    nodes.append(processes.node("bridge_node", "--ros-args", "-p", f"tasks:={houses}"))
    assert processes.node("bring_up", "inference", "household_bridge").end() == 0
    task = processes.node("execute_task", "", "--task-id", "0")
    assert task.end() == 0, task.output
    decisions = re.findall(r"^\[[0-9]+\].*", task.output, re.MULTILINE)
    for node in nodes:
        node.interrupt()
        assert node.end() == 0, node.output
    steps = bench.ros_exchange.steps_of(kept)
    whats = {step.what for step in steps}
    assert whats == {"call", "answered", "heard", "publish", "feedback", "end"}
    for name in bench.AGAIN:
        processes.start(*run, name)
    task = processes.node("execute_task", "", "--task-id", "0")
    assert task.end() == 0, task.output
    assert re.findall(r"^\[[0-9]+\].*", task.output, re.MULTILINE) == decisions != []
