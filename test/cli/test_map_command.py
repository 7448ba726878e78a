"""``reactree memory map``, and runs with a kept map on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reactree_ros.memory.house_map import HouseMap, Place

if TYPE_CHECKING:
    from command_line import Cli

TASK = "Put 1 apple on the coffee table"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "house.map"
    with HouseMap(path, "home") as kept:
        kept.found("cup 1", "cup", 1, Place("table 1", "kitchen 1"), robot="anna")
        kept.found("cup 2", "cup", 2, Place("", "study 1"))
        kept.missed("cup 1")
    return path


def test_it_lists_shows_and_forgets(cli: Cli, file: Path) -> None:
    listed = cli("memory", "map", "list", file)
    assert listed.code == 0
    assert "cup 1" in listed.out
    assert "table 1" in listed.out
    shown = cli("memory", "map", "show", "cup 1", file).out.splitlines()
    assert shown[0] == "cup 1: 20% at table 1 in kitchen 1"
    assert shown[1] == "  at table 1 in kitchen 1: found once, last just now by anna, looked for once in vain"
    assert shown[2] == "where to look for cup:"
    assert cli("memory", "map", "forget", "cup", file).out == "2 forgotten\n"
    again = cli("memory", "map", "forget", "cup", file)
    assert (again.code, "nothing is known of 'cup'" in again.err) == (2, True)


def test_what_is_exported_is_imported_and_nothing_of_a_file_that_is_wrong(cli: Cli, file: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "things.jsonl", tmp_path / "other.map"
    assert cli("memory", "map", "export", out, file).out == f"2 things written to {out}\n"
    assert cli("memory", "map", "import", out, other, "--house", "home").out == f"2 things put into {other}\n"
    again = tmp_path / "again.jsonl"
    cli("memory", "map", "export", again, other)
    assert again.read_text() == out.read_text()
    for line, said in (("{", ":3: no JSON"), (json.dumps({"name": 7}), ":3: "), ("[]", "is no thing of a map")):
        wrong = tmp_path / "wrong.jsonl"
        wrong.write_text(out.read_text() + line + "\n", encoding="utf-8")
        ended = cli("memory", "map", "import", wrong, tmp_path / "new.map")
        assert (ended.code, said in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err
        assert HouseMap(tmp_path / "new.map").houses() == []


def test_a_house_has_to_be_named_where_there_are_several(cli: Cli, file: Path) -> None:
    with HouseMap(file, "office") as kept:
        kept.found("stapler 1", "stapler", 1, Place("desk 1", "office 1"))
    ended = cli("memory", "map", "list", file)
    assert (ended.code, "name one by --house: 'home', 'office'" in ended.err) == (2, True)
    assert "stapler 1" in cli("memory", "map", "list", file, "--house", "office").out
    assert "there is no house 'shed'" in cli("memory", "map", "list", file, "--house", "shed").err
    assert cli("memory", "map", "list", file.with_name("none.map")).code == 2


def test_a_run_feeds_its_map_and_the_next_one_is_told(cli: Cli, tmp_path: Path) -> None:
    path, record = tmp_path / "home.map", tmp_path / "run.jsonl"
    assert cli("run", TASK, "--map", path).code == 0
    assert cli("run", TASK, "--map", path, "--save", record).code == 0
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert any("remembered" in line for line in lines)
    assert cli("record", "replay", record).code == 0
    listed = cli("memory", "map", "show", "apple", path).out
    assert "coffee table 1" in listed


def test_a_run_without_a_map_has_the_same_record_as_ever(cli: Cli, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    assert cli("run", TASK, "--save", record).code == 0
    assert "remembered" not in record.read_text()


def test_a_map_that_is_none_ends_the_run_in_one_line(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "text.map"
    path.write_text("some other file " * 100, encoding="utf-8")
    ended = cli("run", TASK, "--map", path)
    assert (ended.code, "not an SQLite database" in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err
