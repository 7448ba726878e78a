"""``reactree routine``: listed, shown, edited, removed, and kept of a recorded run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import rmtree

import pytest
from command_line import Cli

INSTRUCTION = "Put 1 apple on the coffee table"
NAME = "put-1-thing-on-the-place"


@pytest.fixture
def record(cli: Cli, tmp_path: Path) -> Path:
    """A run that claims to have done something; nobody has judged it."""
    path = tmp_path / "run.jsonl"
    cli("run", INSTRUCTION, "--llm", "expert", "--save", path)
    return path


@pytest.fixture
def kept(cli: Cli, tmp_path: Path, record: Path) -> Path:
    path = tmp_path / "memory.db"
    ended = cli("routine", "keep", record, "--memory", path)
    assert (ended.code, ended.err) == (0, "")
    assert "it is for 'Put 1 {thing_1} on the {place_2}'" in ended.out
    return path


def test_a_run_that_nobody_judged_is_kept_by_a_person(cli: Cli, kept: Path) -> None:
    ended = cli(
        "run", "Put 1 mug on the kitchen table", "--llm", "expert", "--memory", kept, "--routines", "on", "--json"
    )
    assert (ended.json["status"], ended.json["decisions"]) == ("success", 0)
    assert ended.json["steps"] > 0
    listed = cli("routine", "list", "--memory", kept).out
    assert "{thing_1}" in listed


def test_the_terminal_names_the_routine_and_its_run(cli: Cli, kept: Path, record: Path) -> None:
    run = json.loads(record.read_text(encoding="utf-8").splitlines()[0])["id"]
    shown = cli("run", INSTRUCTION, "--llm", "expert", "--memory", kept, "--routines", "on").out
    assert f"● routine '{NAME}' (learnt from run {run}" in shown
    assert "● pick up apple" in shown


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([INSTRUCTION, "--memory", "FILE"], "No routine is learnt: no task's goal and nobody has judged the run"),
        (["--task-id", 1, "--memory", "FILE"], "Learnt for the next time: routine 'put-1-thing-and-1-thing"),
        (["--task-id", 1], "No routine is learnt: there is no episodic memory of your own"),
    ],
)
def test_a_run_says_what_it_has_learnt_or_why_nothing(cli: Cli, tmp_path: Path, given: list[str], said: str) -> None:
    words = [tmp_path / "new.db" if word == "FILE" else word for word in given]
    assert said in cli("run", *words, "--llm", "expert", "--routines", "on").out
    assert "outine" not in cli("run", *words, "--llm", "expert").out


def test_a_run_says_why_a_routine_did_not_do_it_alone(cli: Cli, kept: Path, tmp_path: Path) -> None:
    file, goal = tmp_path / "paper.json", "refill it"
    waits = {"kind": "wait for", "condition": "the printer is out of paper"}
    file.write_text(json.dumps({"name": "paper", "goal": goal, "body": waits}))
    cli("routine", "edit", "paper", "--memory", kept, "--file", file)
    ended = cli("run", goal, "--llm", "expert", "--memory", kept, "--routines", "on")
    assert "Routine 'paper' did not do it alone: wait for: 'wait until the printer is out of paper" in ended.out


@pytest.mark.parametrize(
    ("goal", "limits", "said"),
    [
        ("Put the clean apple on the coffee table", [], "its goal says 'clean apple', and it takes any 'apple'"),
        (INSTRUCTION, ["--max-steps", 2], "did not reach its goal"),
    ],
)
def test_a_run_that_shows_not_what_its_goal_says_is_not_kept(
    cli: Cli, tmp_path: Path, goal: str, limits: list[object], said: str
) -> None:
    record = tmp_path / "other.jsonl"
    cli("run", goal, "--llm", "expert", *limits, "--save", record)
    ended = cli("routine", "keep", record, "--memory", tmp_path / "memory.db")
    assert ended.code == 2
    assert said in ended.err


def test_it_is_shown_in_words_and_as_json(cli: Cli, kept: Path) -> None:
    shown = cli("routine", "show", NAME, "--memory", kept).out
    for said in ("roles: thing_1 (thing), place_2 (place)", INSTRUCTION, "skill: pick up {found_1}, done", "search: "):
        assert said in shown
    assert cli("routine", "show", NAME, "--memory", kept, "--json").json["goal"] == "Put 1 {thing_1} on the {place_2}"


def test_it_is_edited_in_an_editor_or_by_a_file_and_begins_a_version(
    cli: Cli, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "sed -i 's/Put 1 {thing_1}/Lay 1 {thing_1}/'")
    ended = cli("routine", "edit", NAME, "--memory", kept)
    assert "version 2" in ended.out
    assert cli("routine", "show", NAME, "--memory", kept, "--json").json["goal"].startswith("Lay 1")
    file = tmp_path / "paper.json"
    file.write_text(json.dumps({"name": "paper", "goal": "refill it", "body": {"kind": "goal", "text": "refill"}}))
    assert cli("routine", "edit", "paper", "--memory", kept, "--file", file).code == 0
    assert "paper, version 1" in cli("routine", "show", "paper", "--memory", kept).out
    monkeypatch.setenv("VISUAL", "true")
    assert "nothing is changed" in cli("routine", "edit", "paper", "--memory", kept).out


@pytest.mark.parametrize(("editor", "said"), [("false", "ended with 1"), ("no-such-editor", "cannot be opened")])
def test_an_editor_that_fails_changes_nothing(
    cli: Cli, kept: Path, monkeypatch: pytest.MonkeyPatch, editor: str, said: str
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    ended = cli("routine", "edit", NAME, "--memory", kept)
    assert (ended.code, len(ended.err.strip().splitlines())) == (2, 1)
    assert said in ended.err


@pytest.mark.parametrize("written", [b"{", b"", b"[1e999]", b"\xff\xfe", b'{"name": "a", "goal": "b", "body": 3}'])
def test_what_an_editor_wrote_and_cannot_be_read_is_not_lost(
    cli: Cli, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bytes
) -> None:
    before = cli("routine", "show", NAME, "--memory", kept, "--json").out
    (file := tmp_path / "written").write_bytes(written)
    monkeypatch.setenv("VISUAL", f"cp {file}")
    ended = cli("routine", "edit", NAME, "--memory", kept)
    assert (ended.code, len(ended.err.strip().splitlines())) == (2, 1)
    left = Path(ended.err.split("--file ")[1].strip())
    assert left.read_bytes() == written
    rmtree(left.parent)
    assert cli("routine", "show", NAME, "--memory", kept, "--json").out == before


def test_what_others_wrote_into_a_memory_is_shown_safely(cli: Cli, kept: Path) -> None:
    goal = "Put \x1b[2J \u202e [bold] [/nothing] there"
    body = {"kind": "search", "finds": "x", "of": "apple \x1b[31m", "order": ["\x1b]0;x\x07"]}
    counts = {"uses": 1, "last_failure": "\x1b[31m"}
    evil = {"name": "evil", "goal": goal, "body": body, "counts": counts, "origin": {"run": "\x1b[2J"}}
    with closing(sqlite3.connect(kept)) as database, database:
        for name in ("evil", "\x1b[31mkey", "../up"):
            database.execute("INSERT INTO routine VALUES (?, ?)", (name, json.dumps(evil)))
    listed, shown = cli("routine", "list", "--memory", kept), cli("routine", "show", "evil", "--memory", kept)
    assert "[bold] [/nothing] there" in listed.out
    assert "from: run" in shown.out
    for ended in (listed, shown):
        assert ended.code == 0
        assert not {"\x1b", "\x07", "\u202e"} & {*ended.out}
    assert "key" not in listed.out  # nobody could have called one so
    assert "up:" not in listed.out


def test_it_is_removed(cli: Cli, kept: Path) -> None:
    assert cli("routine", "remove", NAME, "--memory", kept).code == 0
    assert NAME not in cli("routine", "list", "--memory", kept).out


@pytest.mark.parametrize("text", ["", "{", '{"name": "a", "goal": "b", "body": {"kind": "bomb"}}', "\x00"])
def test_a_bad_file_is_one_line(cli: Cli, kept: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    ended = cli("routine", "edit", "a", "--memory", kept, "--file", file)
    assert ended.code == 2
    assert len(ended.err.strip().splitlines()) == 1
    assert "bad.json" in ended.err


def test_what_is_not_there_is_one_line(cli: Cli, kept: Path, tmp_path: Path) -> None:
    for command in (["show", "puut"], ["remove", "puut"], ["edit", "puut"]):
        ended = cli("routine", *command, "--memory", kept)
        assert (ended.code, len(ended.err.strip().splitlines())) == (2, 1)
        assert "there is no routine 'puut'" in ended.err
    assert cli("routine", "list", "--memory", tmp_path / "none.db").code == 2
    assert "no routines" in cli("routine", "keep", tmp_path / "run.jsonl", "--memory", "none").err
