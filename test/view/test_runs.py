"""The table of runs: what is found, and what it says of each."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from view.writing import DEMO, Lines, Wide, demo

from reactree_ros.errors import UserError
from reactree_ros.view.runs import Runs


def test_a_folder_of_runs_is_a_table_with_a_line_for_each(tmp_path: Path) -> None:
    result = demo(tmp_path / "bench" / "one.jsonl").run()
    Lines(tmp_path / "broken_off.jsonl", "Wash a plate")
    (tmp_path / "other.jsonl").write_text('{"task_id": 1}\n', encoding="utf-8")
    first, second = Runs(tmp_path).table()
    assert (first["run"], first["instruction"], first["planner"], first["llm"]) == (
        "bench/one.jsonl",
        DEMO,
        "reactree_wm",
        "expert",
    )
    assert (first["end"], first["decisions"], first["steps"], first["gsr"]) == (
        "done",
        result.decisions,
        result.steps,
        1.0,
    )
    assert (second["run"], second["end"], second["decisions"]) == ("broken_off.jsonl", "no end yet", None)


def test_a_record_that_gzip_has_packed_has_the_same_line(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    demo(path).run()
    (line,) = Runs(tmp_path).table()
    (tmp_path / "one.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    (tmp_path / "half.jsonl.gz").write_bytes((tmp_path / "one.jsonl.gz").read_bytes()[:-300])
    assert Runs(tmp_path).table() == [line | {"run": "one.jsonl.gz"}]


def test_a_run_that_goes_on_has_the_counts_that_it_has_come_to(tmp_path: Path) -> None:
    pieces = Wide(tmp_path / "run.jsonl", 40).pieces()
    runs, counts = Runs(tmp_path / "run.jsonl"), []
    for _ in range(3):
        next(pieces)
        counts += [line["decisions"] for line in runs.table()]
    assert counts == [1, 2, 3]


def test_an_end_that_is_longer_than_what_is_read_at_once_is_found(tmp_path: Path) -> None:
    Lines(tmp_path / "run.jsonl", "Wash a plate").end(end="bug", message="x" * 1_000_000, decisions=3)
    (line,) = Runs(tmp_path).table()
    assert (line["end"], line["decisions"], len(line["cause"])) == ("bug", 3, 7 + 1_000_000)


def test_only_what_the_table_names_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    Lines(folder / "a.jsonl", "a").end()
    Lines(tmp_path / "secret.jsonl", "b").end()
    runs = Runs(folder)
    assert runs.find("a.jsonl") == folder / "a.jsonl"
    for name in ("../secret.jsonl", str(tmp_path / "secret.jsonl"), "", "b.jsonl"):
        assert runs.find(name) is None


@pytest.mark.parametrize(("name", "content"), [("gone.jsonl", None), ("other.jsonl", "{}\n"), ("empty.jsonl", "")])
def test_what_is_no_record_is_refused_with_its_name(tmp_path: Path, name: str, content: str | None) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=name):
        Runs(tmp_path / name)
