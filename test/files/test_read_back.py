"""Reading back what somebody else, or a crash, wrote: bounds, types, one line that says what is wrong; and writing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from recorded_runs import Kept, files_of_at_most, recorded_episode

from reactree_doors.trees.xml_in import read_routine
from reactree_lab.bench.jobs import read_contenders
from reactree_ros.agent.text import number_of
from reactree_ros.episode import EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import (
    DEEPEST,
    NoYaml,
    parse_json,
    parse_yaml,
    read_json,
    read_lines,
    read_yaml,
    text_of,
)
from reactree_ros.files.whole_file import whole_folder, write_whole
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.openai.connection import read_key
from reactree_ros.record import checking
from reactree_ros.record.reader import RecordError, follow, is_record, read_record
from reactree_ros.view.terminal import next_steps

MIB = 1 << 20
#: Memory that reading a hostile file may take beside what Python and this package need, in bytes.
MEMORY = 1 << 30
SCRIPT = {"root": ["Think: a", "Act: open fridge 1", "Act: done"]}


def kept() -> Kept:
    episode, kept = recorded_episode(SCRIPT)
    episode.run()
    return kept


def written(path: Path, events: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="ascii")
    return path


# ---------------------------------------------------------------------- records


def node(number: int, parent: int | None, **more: Any) -> dict[str, Any]:
    return {"node": number, "parent": parent, "kind": "goal", "name": "a"} | more


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"e": "grow", "nodes": [node(0, 0)]}, "the node 0 is there already"),
        ({"e": "grow", "nodes": [node(2, 2)]}, "the parent of the node 2 is the node 2, which is not there"),
        ({"e": "grow", "nodes": [node(2, 3), node(3, 2)]}, "the parent of the node 2 is the node 3"),
        ({"e": "grow", "nodes": [node(2, None)]}, "the node 2 has no parent"),
        ({"e": "grow", "nodes": [node(9, 0)]}, "the node 9 comes before the node 2"),
        ({"e": "grow", "nodes": [node(2, 0, kind="cat")]}, "nodes.0.kind should be 'agent', "),
        ({"e": "grow", "nodes": [node(2, 0, name=None)]}, "nodes.0.name should be a valid string, not None"),
        ({"e": "grow", "nodes": [node(10**400, 0)]}, "nodes.0.node should be less than or equal to"),
        ({"e": "status", "of": [[7, "running"]]}, "there is no node 7"),
        ({"e": "status", "of": [[0, "asleep"]]}, "'asleep' is none of the statuses running, "),
        ({"e": "turn", "node": 0, "told": "a"}, "is not a turn"),
        ({"e": "text", "id": 9, "turns": [{"told": "a", "about": "system", "examples": []}]}, "system lacks"),
        ({"e": "turn", "node": 0, "said": "a", "expand": "loop", "subgoals": []}, "control flow 'loop' is unknown"),
        ({"e": "turn", "node": 0, "said": "a", "expand": "sequence", "subgoals": True}, "expand: 'bool' object"),
        ({"e": "turn", "node": True, "said": "a"}, "node should be a valid integer, not True"),
        ({"e": "request", "node": 0, "id": "9", "may_say": {"kind": "text"}}, "turns lacks"),
        ({"e": "request", "node": 0, "id": "9", "own": [], "start": 5, "may_say": {"kind": "text"}}, "no text 5"),
        ({"e": "reply", "node": 0, "id": "nobody", "text": ""}, "there is no request 'nobody'"),
        ({"e": "observation", "node": 0, "of": "execute", "text": "", "outcome": "won"}, "outcome should be 'done'"),
        ({"e": "failed", "node": 0, "of": "reply", "type": "a b", "kind": "bug", "message": ""}, "is not a name"),
        ({"e": "counted", "tokens": ["9" * 5000]}, "tokens.0 should be a valid integer"),
        ({"e": "ended", "node": 0, "end": "", "failure": None, "feedback": ""}, "end should be 'success'"),
        ({"e": "held"}, "reason lacks"),
        ({"e": "unheard of", "node": 7}, "there is no node 7"),
        ({"e": "run"}, "schema lacks"),
        ({"e": 7}, "is not an event"),
        ({"e": "\ud83d"}, "is not an event"),
        ([], "is not an event"),
    ],
)  # fmt: skip
def test_an_event_that_does_not_hold_what_it_must_is_refused_where_it_stands(
    event: Any, message: str, tmp_path: Path
) -> None:
    events = [json.loads(line) for line in kept().lines][:-1]
    at = len(events)
    last = {**event, "t": 9.0} if isinstance(event, dict) else event
    path = written(tmp_path / "run.jsonl", [*events, last])
    for read in (read_record, lambda path: list(follow(path, goes_on=lambda: False))):
        with pytest.raises(RecordError) as raised:
            read(path)
        assert str(raised.value).startswith(f"{path}: line {at + 1} ")
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("time", [None, "soon", True, float("nan"), 1e300])
def test_the_time_of_an_event_is_a_number(time: Any, tmp_path: Path) -> None:
    events = [json.loads(line) for line in kept().lines]
    path = written(tmp_path / "run.jsonl", [events[0], {**events[1], "t": time}])
    with pytest.raises(RecordError, match=r"run\.jsonl: line 2 "):
        read_record(path)


def test_what_is_not_known_of_an_event_is_left_as_it_is(tmp_path: Path) -> None:
    events = [json.loads(line) for line in kept().lines]
    events[1]["later"] = {"version": [1]}
    events.insert(2, {"e": "of a later version", "t": 0.0, "what": "\ud83d"})
    assert read_record(written(tmp_path / "run.jsonl", events)).events == events


def test_nothing_comes_after_the_end(tmp_path: Path) -> None:
    events = [json.loads(line) for line in kept().lines]
    with pytest.raises(RecordError, match="comes after the end of the run"):
        read_record(written(tmp_path / "run.jsonl", [*events, events[2]]))


def test_a_tree_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [json.loads(kept().lines[0])]
    events += [{"e": "grow", "t": 0.0, "nodes": [node(one, one - 1 if one else None)]} for one in range(20)]
    path = written(tmp_path / "run.jsonl", events)
    assert len(read_record(path).events) == 21
    for name in ("MOST_NODES", "DEEPEST_NODE"):
        with monkeypatch.context() as patched:
            patched.setattr(checking, name, 10)
            with pytest.raises(RecordError, match="a tree has at most"):
                read_record(path)


_HEAD = kept().lines[0].encode() + b"\n"
#: What is packed small and would unpack to gigabytes, or to more values than fit into memory: a part, and how often.
BOMBS: dict[str, list[tuple[bytes, int]]] = {
    "one line": [(b" " * 16 * MIB, 128)],
    "events": [(b'{"e":"x","t":0}\n' * MIB, 128)],
    "lists": [(b'{"e":"x","t":0,"a":[' + b"[]," * 5 * MIB, 1), (b"0]}\n", 1)],
    "deep": [(b'{"e":"x","t":0,"a":' + b"[" * 9 * MIB + b"\n", 1)],
    "text": [(b'{"e":"heard","t":0,"text":"\\ud83d\\ude00' + b"a" * 15 * MIB + b'"}\n', 128)],
    "halves": [(b'{"e":"x","t":0,"a":["\\ud83d",' + b"[" * 9 * MIB + b"\n", 1)],
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_unpacks_to_gigabytes_takes_no_gigabytes(bomb: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.gz"
    parts = [(_HEAD, 1), *BOMBS[bomb]]
    path.write_bytes(b"".join(gzip.compress(part, 1) * times for part, times in parts))
    program = f"""
import resource, sys
from reactree_ros.record.reader import RecordError, read_record
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
try:
    read_record(sys.argv[1])
except RecordError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    said = ended.stdout.splitlines()
    assert (ended.stderr, len(said)) == ("", 1)
    assert said[0].startswith(f"{path}: line ")


# ---------------------------------------------------------------------- JSON, YAML, numbers


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}}", "[NaN]", "[Infinity]", "[1e999]", f"[{'9' * 5000}]", "[" * 150 + "]" * 150, '{"a": tru}',
     "[" * 100_000, '["\\ud83d", ' + "[" * 5000 + "]" * 5000 + "]", '["\\ud83d", NaN]', '"\\ud83d'],
)  # fmt: skip
@pytest.mark.parametrize("halves", [False, True])
def test_json_that_is_none_or_has_no_bounds_is_refused(text: str, halves: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"file\.json: cannot be read as story: ."):
        read_json(path, "story", lambda values: pytest.fail("it was read"))
    if halves and text not in ("[1e999]", "[" * 150 + "]" * 150):
        with pytest.raises(ValueError, match=r"."):
            parse_json(text, halves=True)


ROUTINE = '<root BTCPP_format="4"><BehaviorTree ID="rest" _goal="rest"><Skill wording="rest"/></BehaviorTree></root>'
#: What reads each kind of file that a person gives, and such a file.
GIVEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a record": (lambda path: read_record(path).events, "".join(f"{line}\n" for line in kept().lines)),
    "a record's beginning": (is_record, f"{kept().lines[0]}\n"),
    "JSON": (lambda path: read_json(path, "values"), '{"a": 1}'),
    "YAML": (lambda path: read_yaml(path)[0], "a: 1"),
    "a text": (text_of, "Put 1 apple on the sofa"),
    "a key": (lambda path: read_key(str(path)), "sk-4711\n"),
    "tasks": (load_tasks, HOUSES["apartment"].read_text(encoding="utf-8")),
    "contenders": (read_contenders, "one: {planner: react}"),
    "a tree in XML": (read_routine, ROUTINE),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_byte_order_mark_says_nothing_in_any_file_that_a_person_gives(kind: str, tmp_path: Path) -> None:
    read, content = GIVEN[kind]
    path = tmp_path / "given.jsonl"
    path.write_text(content, encoding="utf-8")
    plain = read(path)
    path.write_text(content, encoding="utf-8-sig")
    assert read(path) == plain
    assert plain


def test_half_a_character_is_read_where_it_may_be() -> None:
    assert parse_json('["\\ud83d"]', halves=True) == ["\ud83d"]
    with pytest.raises(ValueError, match="hex escape"):
        parse_json('["\\ud83d"]')


BILLION = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))])
MERGED = "\n".join(["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40))])


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (BILLION, "stands for more than", 18),
        (MERGED, "stands for more than", 18),
        ("a: &a [*a]", "a value contains itself", 1),
        ("a: &a {b: *a}", "a value contains itself", 1),
        ("[" * 5000, "levels deep", None),
        ("[" * 110 + "]" * 110, "levels deep", 1),
        ("a: 1\nb: 2\na: 3", "'a' is there 2 times; leave one", 3),
        (f"\na: {'9' * 5000}", "a number of 5000 characters is too long", 2),
        (f"a: 0x{'f' * 5000}", "a number of 5002 characters is too long", 1),
        (f"a: 1{':59' * 2000}", "too long", 1),
        ("a: 2001-99-99", "a value does not match its tag", None),
        ("a: !!timestamp x", "a value does not match its tag", None),
        ("a: !!int x", "a value does not match its tag", None),
        ("a: !!bool x", "a value does not match its tag", None),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor", 1),
        ('a: "\\ud83d"', "half a character", 1),
        ("a: [", "expected the node content", 1),
        ("? [a]\n: b", "unhashable key", 1),
        ("a: \x00", "it cannot be read", None),
    ],
)
def test_yaml_that_is_none_or_has_no_bounds_is_refused(text: str, message: str, line: int | None) -> None:
    with pytest.raises(NoYaml, match=message) as raised:
        parse_yaml(text)
    if line is not None:
        assert raised.value.line == line
    assert "\n" not in str(raised.value)


def test_yaml_may_name_a_value_and_use_it_again() -> None:
    assert parse_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}")[0] == {
        "a": {"x": 1},
        "b": {"x": 1},
        "c": {"x": 1, "y": 2},
    }
    assert parse_yaml("# nothing") == (None, None)
    assert parse_yaml("[" * (DEEPEST - 1) + "]" * (DEEPEST - 1))[0]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 5000, None), ("0" * 5000 + "1", 1), ("", None), ("-1", None), ("²", None),
     ("٣", None), ("1.0", None), (str(2**53), None), (" 1", None)],
)  # fmt: skip
def test_a_number_that_somebody_wrote_is_read_or_is_none(text: str, number: int | None) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000, "2001-99-99", "0x" + "f" * 9999, '"\\ud83d"', "1e999999"])
def test_defaults_that_are_no_toml_or_no_values_are_refused(value: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "reactree").mkdir()
    (tmp_path / "reactree" / "reactree.toml").write_text(f"[run]\nseed = {value}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path))
        ended = cli("run", "hello")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert str(tmp_path) in ended.err


def test_a_line_that_is_broken_is_named_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    from reactree_lab.bootstrap import Attempt

    path = tmp_path / "attempts.jsonl"
    path.write_text('{"task_id": "one"}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"attempts\.jsonl: line 1 is broken: task_id should be a valid integer"):
        read_lines(path, Attempt)


# ---------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    "command",
    [
        *(f"record export RUN --as {form} --out OUT" for form in ("svg", "markdown", "sft")),
        "record export RUN --as experiences --out OUT/e.jsonl",
        "record export RUN --as text --out OUT/t.jsonl",
        "record export RUN RUN --as dot --out OUT",
        "lab house --seed 1 --out OUT",
        "lab house --seed 1 --as pyrobosim --out OUT",
    ],
)
def test_on_a_full_disk_nothing_half_written_is_left(command: str, cli: Cli, tmp_path: Path) -> None:
    run, out = tmp_path / "run.jsonl", tmp_path / "out"
    run.write_text("".join(f"{line}\n" for line in kept().lines), encoding="ascii")
    if "OUT/" in command:
        out.mkdir()
    words = [word.replace("RUN", str(run)).replace("OUT", str(out)) for word in command.split()]
    with files_of_at_most(20):
        ended = cli(*words)
    assert ended.code == 2
    assert "File too large" in ended.err
    assert "out" in ended.err
    assert ended.err.count("\n") == 1
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path != run]
    assert left == []
    assert cli(*words).code == 0  # the same command does it once there is room


def test_what_was_there_before_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path, folder = tmp_path / "file", tmp_path / "folder"
    write_whole(path, "before")
    with files_of_at_most(20), pytest.raises(OSError, match=r"File too large.*file'"):
        write_whole(path, "after" * 20)
    with pytest.raises(ZeroDivisionError), whole_folder(folder) as new:
        (new / "one").write_text(str(1 // 0), encoding="ascii")
    assert [(one.name, one.read_text(encoding="utf-8")) for one in tmp_path.iterdir()] == [("file", "before")]


def result_of(kept: Kept) -> EpisodeResult:
    return EpisodeResult(**kept.record.events[-1]["result"])


@pytest.mark.parametrize("content", [b"", b"{", b'{"e":"run","schema":1', _HEAD[:-1]])
def test_a_record_that_holds_nothing_is_not_recommended(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    said = next_steps(result_of(kept()), path)
    assert "reactree view" not in said
    assert said.startswith(f"The run is not recorded: {path}: ")
    path.write_text("".join(f"{line}\n" for line in kept().lines), encoding="ascii")
    assert next_steps(result_of(kept()), path) == f"To look at it: reactree view {path}"


# ---------------------------------------------------------------------- terminals


def reactree(*words: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "from reactree_ros.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **env},
    )


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp437"])
def test_what_a_terminal_cannot_show_ends_nothing(encoding: str, tmp_path: Path) -> None:
    words = ("run", "Put 1 pudding and 1 apple on the coffee table", "--llm", "expert")
    process = reactree(*words, PYTHONIOENCODING=encoding)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert "parallel" in out.decode(encoding)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["list", "list words", "--help", "run --help", "doctor", "run hello --llm expert", "record replay RUN"],
)
def test_who_reads_no_more_ends_a_command_quietly(words: str, tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_text("".join(f"{line}\n" for line in kept().lines), encoding="ascii")
    process = reactree(*words.replace("RUN", str(run)).split())
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(120)) == (b"", 141)
