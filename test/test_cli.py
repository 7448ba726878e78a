"""The command line: what it prints, what it writes, how it ends, and what it refuses in one line."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reactree_ros.cli import main
from reactree_ros.replay import load_recording
from reactree_ros.world.houses import HOUSES
from reactree_ros.world.tasks import load_tasks

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
HAS_EMBEDDER = importlib.util.find_spec("sentence_transformers") is not None
KEYS = [
    "task_id",
    "instruction",
    "status",
    "gsr",
    "ssr",
    "decisions",
    "steps",
    "max_depth",
    "agent_nodes",
    "seconds",
    "end",
    "message",
]


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ended]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["reactree", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code: Any = 0
        except SystemExit as exit_:
            code = exit_.code or 0
        return Ended(code, *capsys.readouterr())

    return run


def test_the_demo_reaches_its_goal_and_shows_the_tree(cli: Cli) -> None:
    ended = cli("run", INSTRUCTION)
    assert ended.code == 0
    for text in ("⊕ parallel", "Act: ", "You arrive at the", "Success (end: done, GSR 1.00, SSR 1.00)", "decisions"):
        assert text in ended.out
    assert "pip install 'reactree_ros[memory]'" in " ".join(ended.out.split())


def test_json_is_one_object_with_the_documented_keys(cli: Cli) -> None:
    ended = cli("run", INSTRUCTION, "--json")
    assert list(ended.json) == KEYS
    assert ended.out.count("\n") == 1
    assert (ended.json["status"], ended.json["gsr"], ended.json["end"], ended.json["task_id"]) == (
        "success",
        1,
        "done",
        1,
    )


def test_the_instruction_of_a_task_file_is_its_tasks(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "house.json"
    assert cli("house", "--seed", 3, "--rooms", 4, "--tasks", 2, "--out", out).code == 0
    ended = cli("run", "--tasks", out, "--task-id", 2, "--json")
    assert ended.json["instruction"] == load_tasks(out)[1].instruction
    assert ended.json["task_id"] == 2


def test_an_instruction_that_is_no_task_of_the_house_has_no_score(cli: Cli) -> None:
    ended = cli("run", "Turn on the tv", "--house", "villa", "--json")
    assert (ended.code, ended.json["gsr"], ended.json["task_id"], ended.json["status"]) == (0, None, None, "success")


def test_a_goal_that_is_not_reached_ends_with_one(cli: Cli) -> None:
    ended = cli("run", "Sing a song", "--json")
    assert (ended.code, ended.json["status"], ended.json["end"]) == (1, "failure", "failure")


@pytest.mark.parametrize(("option", "end"), [("--max-decisions", "out_of_decisions"), ("--max-steps", "out_of_steps")])
def test_limits_end_the_run(cli: Cli, option: str, end: str) -> None:
    ended = cli("run", option, 3, "--json")
    assert (ended.code, ended.json["end"]) == (1, end)
    assert ended.json[option[6:]] == 3


def test_a_saved_run_holds_the_texts_and_the_tree(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    result = cli("run", INSTRUCTION, "--json", "--save", folder).json
    assert json.loads((folder / "result.json").read_text()) == result
    texts = sorted((folder / "agent_nodes").glob("*.txt"))
    assert len(texts) == result["agent_nodes"]
    assert texts[0].name == "1_prepare_snack_dec001_depth01.txt"
    assert texts[0].read_text().startswith(f"Your task is to: {INSTRUCTION}\nYou are in the house")
    tree = json.loads((folder / "tree.json").read_text())
    assert (tree["name"], tree["type"], tree["status"], tree["depth"]) == (INSTRUCTION, "AgentNode", "SUCCESS", 1)
    assert tree["children"][1]["type"] == "Parallel"
    assert (folder / "tree.dot").read_text().startswith("digraph")
    (run,) = load_recording(folder / "trajectory.jsonl")
    assert len(run.nodes) == result["agent_nodes"]


def test_a_saved_run_is_replayed_identically(cli: Cli, tmp_path: Path) -> None:
    cli("run", INSTRUCTION, "--json", "--save", tmp_path / "saved")
    for world in ("recorded", "symbolic"):
        arguments = ["--trajectories", tmp_path / "saved" / "trajectory.jsonl", "--variant", "reactree_wm"]
        ended = cli("replay", "--tasks", HOUSES["apartment"], *arguments, "--world", world, "--json")
        assert (ended.code, ended.json["runs"], ended.json["runs_identical"]) == (0, 1, 1)
        assert ended.json["lines"] == ended.json["lines_identical"]


def test_replay_prints_the_documented_keys(cli: Cli, wah_nl: Path) -> None:
    arguments = ["--tasks", wah_nl / "tasks.json", "--trajectories", wah_nl / "trajectories" / "react.jsonl"]
    ended = cli("replay", *arguments, "--world", "symbolic", "--json")
    assert {
        "runs",
        "runs_identical",
        "runs_overwritten",
        "nodes",
        "nodes_identical",
        "lines",
        "lines_identical",
        "by_kind",
        "successes_recorded",
        "successes_reproduced",
    } <= set(ended.json)
    assert ended.json["successes_recorded"] == 66
    assert "66 recorded successes" in cli("replay", *arguments, "--world", "symbolic").out


def test_without_the_memory_extra_the_way_out_is_named(cli: Cli, tmp_path: Path) -> None:
    if HAS_EMBEDDER:
        pytest.skip("sentence-transformers is installed here")
    ended = cli("run", INSTRUCTION, "--memory", tmp_path / "memory.db")
    assert (ended.code, ended.out) == (2, "")
    assert "pip install 'reactree_ros[memory]'" in ended.err


@pytest.mark.skipif(not HAS_EMBEDDER, reason="needs the memory extra; `make test-memory` has it")
def test_a_run_that_reached_its_goal_is_remembered_and_gives_examples(cli: Cli, tmp_path: Path) -> None:
    memory, saved = tmp_path / "memory.db", tmp_path / "saved"
    first = cli("run", INSTRUCTION, "--memory", memory, "--json").json
    shown = cli("memory", "show", "--memory", memory).out
    assert f"experiences │ {first['agent_nodes']} " in " ".join(shown.split())
    assert cli("run", "Sing a song", "--memory", memory, "--json").code == 1
    assert cli("memory", "show", "--memory", memory).out == shown
    found = cli("memory", "search", "find and pick up the pudding", "--memory", memory, "-k", 2).out
    assert "find and pick up the pudding" in found
    assert cli("memory", "export", tmp_path / "out.jsonl", "--memory", memory).code == 0
    again = tmp_path / "again.db"
    assert "1 runs" in cli("memory", "import", tmp_path / "out.jsonl", "--memory", again).out
    assert "0 runs" in cli("memory", "import", tmp_path / "out.jsonl", "--memory", again).out
    assert cli("run", INSTRUCTION, "--memory", memory, "--save", saved, "--json").code == 0


def bad_house(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "house.json"
    path.write_text(content, encoding="utf-8")
    return path


BAD: dict[str, tuple[list[str], str]] = {
    "empty instruction": (["run", " "], "the instruction is empty"),
    "house not there": (["run", "--house", "castle"], "--house castle: is neither a file nor one of apartment, villa"),
    "house and tasks": (["run", "--house", "villa", "--tasks", "x.json"], "exclude each other"),
    "tasks without id": (["run", "--tasks", "{house}"], "--tasks needs --task-id"),
    "tasks not there": (["run", "--tasks", "nothing.json", "--task-id", "1"], "nothing.json: cannot be read"),
    "no such task": (["run", "--tasks", "{house}", "--task-id", "7"], "has no task 7"),
    "house without the task": (["run", "--task-id", "7"], "has no task 7"),
    "house no JSON": (["run", "--house", "{bad}"], "is no JSON"),
    "unknown model": (["run", "--llm", "gpt"], "'gpt' is not"),
    "no decisions": (["run", "--max-decisions", "0"], "'--max-decisions'"),
    "no steps": (["run", "--max-steps", "-1"], "'--max-steps'"),
    "seed of words": (["run", "--seed", "one"], "'--seed'"),
    "unknown option": (["run", "--fast"], "No such option"),
    "save over something": (["run", "--save", "{full}"], "name a new folder, so that no saved run is lost"),
    "save over a file": (["run", "--save", "{house}"], "name a new folder, so that no saved run is lost"),
    "unknown command": (["fly"], "No such command 'fly'"),
    "replay without tasks": (["replay", "--trajectories", "x.jsonl"], "Missing option '--tasks'"),
    "replay variant": (["replay", "--tasks", "{house}", "--trajectories", "x.jsonl"], "--variant x: is none of react"),
    "replay file": (["replay", "--tasks", "{house}", "--trajectories", "react.jsonl"], "react.jsonl: cannot be read"),
    "replay world": (
        ["replay", "--tasks", "{house}", "--trajectories", "react.jsonl", "--world", "real"],
        "'real' is not one of 'recorded', 'symbolic'",
    ),
    "replay outcomes": (
        ["replay", "--tasks", "{house}", "--trajectories", "react.jsonl", "--outcomes", "{bad}"],
        "is no file of outcomes",
    ),
    "house of two rooms": (["house", "--seed", "1", "--rooms", "2", "--out", "x.json"], "'--rooms'"),
    "house of nine rooms": (["house", "--seed", "1", "--rooms", "9", "--out", "x.json"], "'--rooms'"),
    "house without file": (["house", "--seed", "1"], "Missing option '--out'"),
    "house into nowhere": (["house", "--seed", "1", "--out", "{nowhere}/x.json"], "No such file or directory"),
    "memory not there": (["memory", "show", "--memory", "{nowhere}/m.db"], "there is no such memory"),
    "search not there": (["memory", "search", "x", "--memory", "{nowhere}/m.db"], "there is no such memory"),
    "export not there": (["memory", "export", "x.jsonl", "--memory", "{nowhere}/m.db"], "there is no such memory"),
    "import not there": (["memory", "import", "{nowhere}/x.jsonl", "--memory", "{nowhere}/m.db"], "cannot be read"),
    "import of a house": (["memory", "import", "{house}", "--memory", "{nowhere}/m.db"], "line 1"),
    "memory without command": (["memory", "fly"], "No such command 'fly'"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_line_and_ends_with_two(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    places = {
        "house": HOUSES["apartment"],
        "bad": tmp_path / "bad.json",
        "full": tmp_path / "full",
        "nowhere": tmp_path / "nowhere",
    }
    before = sorted(tmp_path.rglob("*"))
    ended = cli(*(argument.format_map(places) for argument in arguments))
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert sorted(tmp_path.rglob("*")) == before
