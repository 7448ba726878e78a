"""Recorded runs drive the real tree, and what comes of it is what was recorded."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from reactree_lab.recordings import VARIANTS, RecordedRun, Replay, load_outcomes, load_recording
from reactree_ros.errors import UserError
from reactree_ros.household.tasks import Task, load_tasks

TREES = ("reactree", "reactree_wm")


@pytest.fixture(scope="module")
def tasks(wah_nl: Path) -> dict[int, Task]:
    return {task.task_id: task for task in load_tasks(wah_nl / "tasks.json")}


@pytest.fixture(scope="module")
def recordings(wah_nl: Path) -> dict[str, list[RecordedRun]]:
    return {variant: load_recording(wah_nl / "trajectories" / f"{variant}.jsonl") for variant in VARIANTS}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_run_is_identical_in_the_recorded_world(
    tasks: dict[int, Task], recordings: dict[str, list[RecordedRun]], variant: str
) -> None:
    replay = Replay(tasks=tasks, variant=variant, symbolic=False)
    for run in recordings[variant]:
        replay.replay(run)
    report = replay.report
    assert report.differences == []
    assert (report.runs, report.runs_identical) == (144, 144)
    assert report.nodes == report.nodes_identical == sum(len(run.nodes) for run in recordings[variant])
    assert report.lines == report.lines_identical
    assert report.runs_overwritten == len(report.overwritten) == (3 if variant in TREES else 0)


@pytest.mark.slow
def test_the_symbolic_world_shows_what_the_simulator_showed(
    tasks: dict[int, Task], recordings: dict[str, list[RecordedRun]], wah_nl: Path, sweep: int
) -> None:
    lines, identical, successes = Counter[str](), Counter[str](), Counter[str]()
    for variant in VARIANTS:
        outcomes = load_outcomes(wah_nl / "recorded_outcomes.json", variant)
        replay = Replay(tasks=tasks, variant=variant, symbolic=True, outcomes=outcomes)
        runs = recordings[variant][::sweep]
        for run in runs:
            replay.replay(run)
        assert replay.report.runs_identical == len(runs)
        for kind, (count, same) in replay.report.by_kind.items():
            lines[kind] += count
            identical[kind] += same
        successes["recorded"] += replay.report.successes_recorded or 0
        successes["reproduced"] += replay.report.successes_reproduced or 0
    assert identical.total() / lines.total() >= 0.945
    for kind in ("node start", "room view"):
        assert identical[kind] / lines[kind] >= 0.98
    assert successes["reproduced"] / successes["recorded"] >= 0.99
    assert sweep > 1 or (len(runs), successes["recorded"]) == (144, 222)


def node(**changes: object) -> dict[str, object]:
    text = "Your task is to: a\nYou are in the house.\nAct: done"
    return {"file": "1_a_dec001_depth01.txt", "task_id": 1, "decision": 1, "depth": 1, "text": text} | changes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "holds no recorded agent node"),
        ("{", "line 1: the line: Invalid JSON"),
        ("[]", "line 1: the line: Input should be an object"),
        (json.dumps({k: v for k, v in node().items() if k != "text"}), "line 1: text: Field required"),
        (json.dumps(node(task_id="1")), "line 1: task_id: Input should be a valid integer"),
        (json.dumps(node(trial="a")), "line 1: the line: Value error, a line names a task_id or a trial"),
        (json.dumps(node(text="hello")), "line 1: text: no line starts with 'You are in the house'"),
        (json.dumps(node(text="You are in the house.\nhello")), "line 1: text: line 2: 'hello' belongs to no decision"),
    ],
)
def test_a_bad_recording_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(UserError) as refused:
        load_recording(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_recording_of_another_task_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(node()) + "\n", encoding="utf-8")
    (run,) = load_recording(path)
    with pytest.raises(UserError, match="the recording has task 1, the task file does not"):
        Replay(tasks={}, variant="react", symbolic=True).replay(run)


@pytest.mark.slow
def test_the_alfred_recordings_drive_the_tree_identically(alfred: Path) -> None:
    runs = load_recording(alfred / "reactree_wm.jsonl")
    replay = Replay(tasks={}, variant="reactree_wm", symbolic=False)
    for run in runs:
        replay.replay(run)
    report = replay.report
    assert report.differences == report.overwritten == []
    assert (report.runs, report.runs_identical) == (120, 120)
    assert report.nodes == report.nodes_identical == 502
    assert report.lines == report.lines_identical
    with pytest.raises(UserError, match="of ALFRED, which the symbolic world cannot replay"):
        Replay(tasks={}, variant="reactree_wm", symbolic=True).replay(runs[0])


@pytest.mark.parametrize("content", ["", "[]", '{"a": {"react": true}}', '{"1": 3}'])
def test_a_bad_file_of_outcomes_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "outcomes.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read as file of outcomes"):
        load_outcomes(path, "react")


@pytest.mark.slow
def test_a_difference_is_found_and_named(tasks: dict[int, Task], recordings: dict[str, list[RecordedRun]]) -> None:
    """A replay that could not fail would show nothing: drop one agent node from a recording."""
    whole = next(run for run in recordings["reactree"] if len(run.nodes) > 4)
    # The second node's decisions are then said by whoever asks next, so that the rest is not as recorded.
    broken = RecordedRun(whole.run, (whole.nodes[0], *whole.nodes[2:]))
    replay = Replay(tasks=tasks, variant="reactree", symbolic=False)
    replay.replay(broken)
    assert replay.report.runs_identical == 0
    assert replay.report.differences
