"""`reactree_ros.run`: an instruction carried out by one call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reactree_ros import run
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.record.reader import read_record


def test_one_call_carries_out_what_the_first_task_asks_and_saves_it(tmp_path: Path) -> None:
    result = run(save=tmp_path / "run.jsonl", seed=3)

    assert str(result.verdict) == "Goal reached (end: done, GSR 1.00, SSR 1.00)"
    record = read_record(tmp_path / "run.jsonl")
    assert (record.run["world"]["name"], record.run["llm"]) == ("virtualhome", {"llm": "expert"})
    assert replay(record).identical


def test_the_memory_is_named_as_on_the_command_line(tmp_path: Path) -> None:
    named = "household:planner=react_wm:index=words"
    run(planner="react_wm", memory=named, save=tmp_path / "run.jsonl")
    record = read_record(tmp_path / "run.jsonl")
    assert record.run["memory"] == named
    assert [len(event["experiences"]) > 0 for event in record.events if event["e"] == "retrieved"] == [True]


def test_a_house_a_planner_and_limits_are_named() -> None:
    result = run("Put the book on the bed", house="villa", planner="react_wm", max_decisions=3)

    assert (result.decisions, result.verdict.because) == (3, "out of decisions: all of the 3 decisions are used up")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"house": "vila"}, "vila"),
        ({"planner": "reactre"}, "did you mean 'reactree'"),
        ({"llm": "expart"}, "did you mean 'expert'"),
        ({"max_decision": 3}, "max_decision"),
        ({"llm": "openai", "llm_settings": {"base_ulr": "x"}}, "base_ulr"),
        ({"instruction": " "}, "the instruction is empty"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(**given)  # type: ignore[arg-type]


def test_the_package_loads_nothing_before_run_is_asked_for() -> None:
    code = "import sys, reactree_ros; print({'pydantic', 'py_trees', 'typer'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
