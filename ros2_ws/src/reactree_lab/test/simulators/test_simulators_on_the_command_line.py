"""`reactree run --world …` in front of the peers of the simulators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from virtualhome_peer import VirtualHomePeer

import reactree_ros
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.tasks import load_tasks

pytestmark = pytest.mark.worlds

PATIENCE = 120.0
TASK = load_tasks(HOUSES["apartment"])[0]


def reactree(*arguments: str) -> tuple[int, str, str]:
    """Run the command; returns exit code, output and errors."""
    path = str(Path(reactree_ros.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-m", "reactree_ros.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": path},
    )
    return ended.returncode, ended.stdout, ended.stderr


def unity(port: int, *options: str) -> list[str]:
    settings = [f"port={port}", "time_limit=5", *options]
    return ["--world", "virtualhome_unity", *(part for one in settings for part in ("--world-option", one))]


def test_a_task_is_carried_out_in_unity_and_saved_with_a_picture_per_skill(tmp_path: Path) -> None:
    with VirtualHomePeer([TASK]) as peer:
        arguments = unity(peer.port, "pictures=true")
        record, folder = str(tmp_path / "run.jsonl"), tmp_path / "pictures"
        code, output, errors = reactree("run", TASK.instruction, *arguments, "--json", "--save", record)
        lines = list(peer.lines)
    assert code == 0, errors
    result: dict[str, Any] = json.loads(output)
    assert result["gsr"] == 1.0
    code, _, errors = reactree("record", "export", record, "--as", "pictures", "--out", str(folder))
    assert code == 0, errors
    pictures = sorted(path.name for path in folder.iterdir())
    assert all(name.endswith(".png") for name in pictures)
    assert pictures[0] == "000_observe.png"
    assert len([name for name in pictures if not name.endswith("_observe.png")]) == len(lines)


@pytest.mark.parametrize(
    ("how", "said"),
    [("garbage", "sent an answer that VirtualHome never sends"), ("hang", "did not answer within 5 s")],
)
def test_a_simulator_that_fails_ends_the_run_with_its_reason(how: str, said: str) -> None:
    with VirtualHomePeer([TASK]) as peer:
        peer.misbehave["environment_graph"] = how
        code, output, errors = reactree("run", TASK.instruction, *unity(peer.port), "--json")
    assert code == 1
    assert "Traceback" not in errors
    result = json.loads(output)
    assert result["end"] == "world_gone"
    assert said in result["message"]


def test_a_wrong_executable_is_refused_before_anything_starts() -> None:
    code, output, errors = reactree("run", TASK.instruction, *unity(1, "executable=/nowhere/virtualhome"))
    assert (code, output) == (2, "")
    assert errors == "error: executable /nowhere/virtualhome: is not an executable file; name VirtualHome's\n"
