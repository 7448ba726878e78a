"""The table of runs: what is found, and what it says of each."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from view.writing import DEMO, Lines, Wide, demo

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE
from reactree_ros.record.reader import RecordError
from reactree_ros.view import runs as runs_module
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
    packed, half = Runs(tmp_path).table()
    assert packed == line | {"run": "one.jsonl.gz"}
    assert (half["run"], "ended before" in half["problem"]) == ("half.jsonl.gz", True)


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


# ---------------------------------------------------------------------- odd files beside records


def header(**different: Any) -> bytes:
    """Return a record's first line."""
    return json.dumps(HEADER | different).encode() + b"\n"


def _header() -> dict[str, Any]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Lines(Path(folder, "run.jsonl"), "Wash a plate").path
        return dict(json.loads(path.read_bytes().splitlines()[0]))


HEADER = _header()
END = b'{"e":"end","t":1,"result":[1],"failures":[]}\n'


def bound(path: Path) -> None:
    """Put a socket there; its path has to be short."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.fchdir(before)
        os.close(before)


def folder_link(path: Path) -> None:
    (path.parent / "loop").symlink_to(path.parent)
    path.symlink_to(path)


#: What stands in the place of a record, and a word of what the table says of it.
ODD: dict[str, tuple[Callable[[Path], object] | bytes, str]] = {
    "the filed one": (b'{"e":"run","schema":1,"llm":[1],"planner":"x","parent":[1]}\n', "lacks"),
    "empty": (b"", "it is empty"),
    "torn": (header()[:-40], "its first line is not whole"),
    "binary": (bytes(range(256)) * 10 + b"\n", "is not a record"),
    "no JSON": (b"hello\n", "is not a record"),
    "a list": (b"[]\n", "is not a record"),
    "another event": (b'{"e":"grow","t":0,"nodes":[]}\n', "is not a record"),
    "deep": (b'{"e":"run","schema":1,"options":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "is not a record"),
    "no number": (header().replace(b'"schema": 1', b'"schema": NaN'), "is not a record"),
    "a later schema": (header(schema=99), "schema 99"),
    "a long header": (header(instruction="x" * (LONGEST_LINE + 1)), "longer than"),
    "an end of another type": (header() + END, "is not an event"),
    "an end that is too long": (header() + b'{"e":"' + b"x" * (3 * LONGEST_LINE) + b'"}\n', "longer than"),
    "an end that is not JSON": (header() + b"{{{\n", "is not an event"),
    "a pipe": (lambda path: os.mkfifo(path), "not a file"),
    "a socket": (bound, "cannot be read"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "a link out of"),
    "a link out": (lambda path: path.symlink_to(Path(__file__)), "a link out of"),
    "a link in a circle": (folder_link, "cannot be read"),
    "a link to nothing": (lambda path: path.symlink_to(path.parent / "nothing"), "cannot be read"),
    "torn by gzip": (gzip.compress(header())[:-4], "cannot be read"),
    "gzip of zeros": (gzip.compress(bytes(100 << 20)), "longer than"),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_is_a_line_that_says_what_is_wrong_and_is_not_served(tmp_path: Path, kind: str) -> None:
    make, said = ODD[kind]
    Lines(tmp_path / "right.jsonl", "Wash a plate").end()
    path = tmp_path / "odd.jsonl"
    if callable(make):
        make(path)
    else:
        path.write_bytes(make)
    runs = Runs(tmp_path)
    lines = {line["run"]: line for line in runs.table()}
    assert lines["right.jsonl"]["instruction"] == "Wash a plate"
    assert said in lines["odd.jsonl"]["problem"]
    assert "\n" not in lines["odd.jsonl"]["problem"]
    json.dumps(list(lines.values()), allow_nan=False)
    if not kind.startswith("an end") and kind != "torn by gzip":  # these have a header
        assert runs.find("odd.jsonl") is None
        with pytest.raises(RecordError):
            runs.open(path)


@pytest.mark.parametrize("name", sorted(HEADER))
def test_whatever_a_header_holds_the_table_is_one_of_texts_and_numbers(tmp_path: Path, name: str) -> None:
    Lines(tmp_path / "right.jsonl", "Wash a plate").end()
    values = [None, True, -1, 1.5, "", "x", "\ud800", [], [1], {}, {"name": 1}, {"id": [1]}, {"llm": 1}, 10**30, [[[]]]]
    for number, value in enumerate(values):
        (tmp_path / f"odd_{number}.jsonl").write_bytes(header(**{name: value}))
    without = {key: value for key, value in HEADER.items() if key != name}
    (tmp_path / "without.jsonl").write_bytes(json.dumps(without).encode() + b"\n")
    lines = Runs(tmp_path).table()
    assert "right.jsonl" in {line["run"] for line in lines}
    for line in lines:
        for key in {"instruction", "planner", "llm", "started", "end", "cause", "problem", "run"} & set(line):
            assert isinstance(line[key], str), (key, line)


def test_a_file_of_something_else_is_no_line(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"task_id": 1}\n', encoding="utf-8")
    assert Runs(tmp_path).table() == []


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    Lines(tmp_path / "one.jsonl", "Wash a plate").end()
    (tmp_path / "latest.jsonl").symlink_to("one.jsonl")
    runs = Runs(tmp_path)
    assert {line["instruction"] for line in runs.table()} == {"Wash a plate"}
    assert runs.find("latest.jsonl") is not None


def test_a_link_that_is_put_there_between_look_and_open_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "runs" / "deep", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        Lines(folder / "run.jsonl", folder.name).end()
    runs, real = Runs(tmp_path / "runs"), runs_module._descriptor

    def swapped(*given: Any) -> int:
        inside.rename(tmp_path / "away")
        inside.symlink_to(outside)
        return real(*given)

    monkeypatch.setattr(runs_module, "_descriptor", swapped)
    with pytest.raises(RecordError, match="cannot be read"):
        runs.open(inside / "run.jsonl")


def test_a_name_that_is_no_text_can_be_asked_for(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jsonl")
    Lines(tmp_path / name, "Wash a plate").end()
    runs = Runs(tmp_path)
    (line,) = runs.table()
    line["run"].encode()
    assert runs.find(line["run"]) == tmp_path / name
