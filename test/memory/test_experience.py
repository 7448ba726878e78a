"""Experiences: a recorded text as turns, and the turns as that text again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_hash_embedder import LAST_LINES, experience

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import BeginSubgoal, Think, WriteCode
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn, render
from reactree_ros.memory.experience import End, Experience, ExperienceError, turns_in
from reactree_ros.memory.recorded import export_experiences, import_experiences, recorded_success

RECORDED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
HEADER = "Your task is to: open the fridge"
START = "You are in the house, and there is 1 room: kitchen (1)."


def opened_with(turns: tuple[Turn, ...], end: End = End.SUCCESS) -> Experience:
    return Experience(
        subgoal="open the fridge", turns=turns, end=end, task_id="1", task_name="put_fridge", decision=1, depth=1
    )


def read(text: str) -> Experience:
    return Experience.from_text(text, task_id="1", task_name="put_fridge", decision=1, depth=1)


def test_a_recorded_text_is_read_as_what_was_told_said_and_seen() -> None:
    said = read(f"{HEADER}\n{START}\nThink: It is shut.\nOK.\nAct: open fridge 1\nYou open it.\nAct: done")
    assert [turn for turn in said.turns if isinstance(turn, Said)] == [
        Said("Think: It is shut.", Think("It is shut.")),
        Said("Act: open fridge 1", Act("open fridge 1")),
        Said("Act: done", Act("done")),
    ]
    assert [turn.text for turn in said.turns if isinstance(turn, Saw)] == [START, "You open it."]
    assert said.end is End.SUCCESS


def test_a_text_that_is_no_transcript_is_one_turn() -> None:
    text = f"{HEADER}\r\n{START}\r\nAct: done\r\n"
    assert read(text).turns == (Told(text),)
    assert read(text).text == text


line_ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\u2028", ""])
lines = st.sampled_from(
    [
        *(HEADER, START, "OK.", "Think: look", "Think:", "Act: open fridge 1", "Act:  done", "Act: done", "Act: "),
        *("Expand:", "- control flow: fallback", "- subgoals: a, and b", "- subgoals: ", "Max steps", "Max decisions"),
        *("You see juice 1.", "", " ", "\x00", "Your primary goal is to: live"),
    ]
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(lines | st.text(max_size=8), line_ends), max_size=12))
def test_the_turns_of_any_text_give_that_text_again(parts: list[tuple[str, str]]) -> None:
    text = "".join(line + end for line, end in parts)
    assert render(turns_in(text)) == text


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"needs the recorded runs in {RECORDED}")
@pytest.mark.parametrize("file", ["wah_nl/trajectories/reactree_wm.jsonl", "alfred/reactree_wm.jsonl"])
def test_the_turns_of_every_recorded_text_give_that_text_again_and_are_told_apart(file: str) -> None:
    for line in (RECORDED / file).read_bytes().splitlines():
        text = json.loads(line)["text"]
        turns = turns_in(text)
        assert render(turns) == text
        assert any(isinstance(turn, Said) for turn in turns) or turns[-1] == Told(turns[-1].text, About.LIMIT)


def test_two_experiences_are_equal_where_their_texts_and_the_rest_are() -> None:
    thought = opened_with((Told(HEADER), Saw(START), Said("Think: look", BeginSubgoal("look", "look"))))
    assert thought == opened_with((Told(f"{HEADER}\n{START}\nThink: look"),))
    assert hash(thought) == hash(opened_with((Told(f"{HEADER}\n{START}\nThink: look"),)))
    assert thought != opened_with((Told(f"{HEADER}\n{START}\nThink: Look"),))
    assert thought != opened_with(thought.turns, End.FAILURE)


SHARED = Path(__file__).resolve().parents[2].parent / "shared"
WAH = SHARED / "data" / "wah_nl"
RECORDINGS = {
    "react": (WAH / "trajectories" / "react.jsonl", 144, 144),
    "react_wm": (WAH / "trajectories" / "react_wm.jsonl", 144, 144),
    "reactree": (WAH / "trajectories" / "reactree.jsonl", 144, 1861),
    "reactree_wm": (WAH / "trajectories" / "reactree_wm.jsonl", 144, 1815),
    "alfred": (SHARED / "data" / "alfred" / "reactree_wm.jsonl", 120, 502),
}

needs_recordings = pytest.mark.skipif(not WAH.is_dir(), reason=f"needs the recorded runs in {SHARED}")
GOOD = {
    "file": "1_put_fridge_dec001_depth01.txt",
    "task_id": 1,
    "task_name": "put_fridge",
    "decision": 1,
    "depth": 1,
    "text": experience().text,
}


@pytest.mark.slow
@needs_recordings
@pytest.mark.parametrize("variant", RECORDINGS)
def test_every_recorded_file_is_read_and_written_as_it_was(variant: str, tmp_path: Path) -> None:
    file, runs, count = RECORDINGS[variant]
    imported = import_experiences(file)
    before = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    assert [one.text for one in imported.experiences] == [one["text"] for one in before]
    assert (len(imported.runs), len(imported.experiences), imported.runs_left_out) == (runs, count, 0)
    written = tmp_path / "written.jsonl"
    assert export_experiences(imported.experiences, written) == count
    after = [json.loads(line) for line in written.read_bytes().split(b"\n") if line]
    for one in (*before, *after):
        # the authors' names of ReAct's files have no decision and depth, and those that were taken a time stamp
        one["file"] = re.sub(r"(_dec\d+_depth\d+)?(_\d{14})?\.txt$", ".txt", one["file"])
    assert after == before
    assert import_experiences(written) == imported


@pytest.mark.slow
@needs_recordings
@pytest.mark.parametrize(("variant", "runs"), [("react", 66), ("react_wm", 64), ("reactree", 36), ("reactree_wm", 56)])
def test_only_runs_kept_as_successes_are_imported_and_the_others_are_counted(variant: str, runs: int) -> None:
    succeeded = recorded_success(WAH / "recorded_outcomes.json", variant=variant)
    imported = import_experiences(RECORDINGS[variant][0], succeeded=succeeded)
    assert len(imported.runs) == runs
    assert imported.runs_left_out == 144 - runs
    assert all(succeeded(one.task_id) for one in imported.experiences)


def test_the_subgoal_may_have_several_lines_and_a_primary_goal_above_it() -> None:
    text = (
        "Your primary goal is to: Put the apple in the fridge.\nPut the pudding in the fridge.\n"
        "To achieve this, you should perform your sibling tasks in parallel. At this level, your sibling tasks are: "
        "a, and b.\nYour task is to: Put the apple\n in the fridge.\n"
        "You are in the house, and there are 5 rooms.\nAct: done"
    )
    one = Experience.from_text(text, task_id="1", task_name="", decision=0, depth=1)
    assert one.subgoal == "Put the apple\n in the fridge."


@pytest.mark.parametrize(
    ("ending", "end"),
    [
        ("Act: done", End.SUCCESS),
        ("Act: done\n", End.SUCCESS),
        ("Act: failure", End.FAILURE),
        ("Max steps", End.FAILURE),
        ("Max decisions", End.FAILURE),
        ("Expand:\n- control flow: fallback\n- subgoals: a, b\n", End.EXPAND),
        ("Expand:\r\n- control flow: fallback\r\n- subgoals: a, b\r\n", End.EXPAND),
    ],
)
def test_the_end_is_read_from_the_last_lines(ending: str, end: End) -> None:
    text = f"Your task is to: x\nYou are in the house.\nThink: Act: done\nOK.\n{ending}"
    assert Experience.from_text(text, task_id="1", task_name="", decision=0, depth=1).end is end


def test_turns_that_the_text_does_not_tell_are_written_beside_it(tmp_path: Path) -> None:
    turns = (Told("You are in a garden.\nTask: rake"), Said("rake()", WriteCode("rake()")), Saw("Leaves."), Said("Fin"))
    one = Experience("rake", turns, End.SUCCESS, "1", "rake", 1, 1)
    export_experiences([one, experience()], tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert ["turns" in line for line in written] == [True, False]
    read, other = (each for run in import_experiences(tmp_path / "out.jsonl").runs for each in run)
    assert (read.turns, read.subgoal, read.end, read) == (one.turns, "rake", End.SUCCESS, one)
    assert other == experience()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"turns": "none", "end": "success", "subgoal": "a"}, "'turns' must be list, not 'none'"),
        ({"turns": ["none"], "end": "success", "subgoal": "a"}, "'turns': must be an object, not 'none'"),
        ({"turns": [{"heard": "a"}], "end": "success", "subgoal": "a"}, "is not a turn: \"{'heard': 'a'}\""),
        ({"turns": [], "end": "sleep", "subgoal": "a"}, "'end' must be one of success, failure, expand, not 'sleep'"),
        ({"turns": [{"saw": "a"}], "end": "success", "subgoal": "a"}, "'turns' do not give 'text'"),
        ({"turns": [{"saw": "a"}], "end": "success"}, "'subgoal' is missing"),
    ],
)
def test_turns_that_make_no_sense_are_refused(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(GOOD | values) + "\n")
    with pytest.raises(ExperienceError, match=re.escape(message)) as refused:
        import_experiences(file)
    assert str(refused.value).startswith(f"{file}, line 1: ")


readable = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    subgoal=readable.filter(lambda text: text.strip() and "You are in the house" not in text and "\r" not in text),
    filler=readable.filter(lambda text: "Your task is to: " not in text),
    end=st.sampled_from(End),
    decision=st.integers(0, 1500),
    depth=st.integers(1, 150),
)
def test_any_text_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, subgoal: str, filler: str, end: End, decision: int, depth: int
) -> None:
    text = f"Your task is to: {subgoal}\nYou are in the house.{filler}\n{LAST_LINES[end]}"
    one = Experience.from_text(text, task_id="7", task_name="a_b", decision=decision, depth=depth)
    assert (one.text, one.subgoal, one.end) == (text, subgoal, end)
    folder = tmp_path_factory.mktemp("any")
    export_experiences([one], folder / "one.jsonl")
    assert import_experiences(folder / "one.jsonl").experiences == (one,)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


def with_text(text: str) -> dict[str, Any]:
    return {**GOOD, "text": text}


OPENED = "Your task is to: open the fridge\nYou are in the house, and there is 1 room.\n"
MALFORMED_LINES: list[tuple[object, str]] = [
    (b"not json", "line 2: not JSON: "),
    (b'{"task_id": 1', "line 2: not JSON: "),
    (b'{"text": "\xff"}', "line 2: not UTF-8: "),
    (b"[" * 100_000, "line 2: not JSON: recursion limit exceeded"),
    (b'{"task_id": ' + b"9" * 5000 + b"}", "line 2: "),
    ([1, 2], "line 2: must be an object, not [1, 2]"),
    (without("task_id"), "line 2: 'task_id' is missing"),
    (without("task_name"), "line 2: 'task_name' is missing"),
    (without("decision"), "line 2: 'decision' is missing"),
    (without("depth"), "line 2: 'depth' is missing"),
    (without("text"), "line 2: 'text' is missing"),
    ({**GOOD, "task_id": 1.5}, "line 2: 'task_id' must be int or str, not 1.5"),
    ({**GOOD, "task_id": ""}, "line 2: 'task_id' is empty"),
    ({**GOOD, "task_name": 3}, "line 2: 'task_name' must be str, not 3"),
    ({**GOOD, "trial": 3}, "line 2: 'trial' must be str, not 3"),
    ({**GOOD, "decision": "1"}, "line 2: 'decision' must be int, not '1'"),
    ({**GOOD, "decision": True}, "line 2: 'decision' must be int, not True"),
    ({**GOOD, "decision": -1}, "line 2: decision must be from 0 to 999999999, not -1"),
    ({**GOOD, "decision": 10**20}, "line 2: decision must be from 0 to 999999999, not 100000000000000000000"),
    ({**GOOD, "depth": None}, "line 2: 'depth' must be int, not None"),
    ({**GOOD, "depth": 0}, "line 2: depth must be from 1 to 999999999, not 0"),
    ({**GOOD, "text": ["a"]}, "line 2: 'text' must be str, not ['a']"),
    (with_text(""), "line 2: text, line 1: text is empty"),
    (with_text("You are in the house.\nAct: done"), "line 2: text, line 1: no task line "),
    (with_text("\nYour task is to: go\nAct: done"), "line 2: text, line 2: no starting observation "),
    (with_text("Your task is to: \nYou are in the house.\nAct: done"), "line 2: text, line 1: nothing follows "),
    (with_text(OPENED + "Act: go to fridge 1"), "line 2: text, line 3: no end: the last line is 'Act: go to fridge 1'"),
    (with_text(OPENED + "Expand:\n- subgoals: a"), "line 2: text, line 4: no end: "),
    (with_text(OPENED + "\ud800\nAct: done"), "line 2: not writable as UTF-8: "),
]


@pytest.mark.parametrize(("line", "message"), MALFORMED_LINES)
def test_a_malformed_line_is_refused_in_one_line_that_names_file_and_line(
    line: object, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.jsonl"
    encoded = line if isinstance(line, bytes) else json.dumps(line).encode()
    file.write_bytes(json.dumps(GOOD).encode() + b"\n" + encoded + b"\n")
    with pytest.raises(ExperienceError) as refused:
        import_experiences(file)
    assert str(refused.value).startswith(f"{file}, {message}")
    assert "\n" not in str(refused.value)


def test_a_file_with_nothing_in_it_and_one_that_is_absent_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n\n")
    for name, message in (
        ("empty.jsonl", "no experiences in it (no lines)"),
        ("absent.jsonl", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(ExperienceError, match=re.escape(f"{tmp_path / name}: {message}")):
            import_experiences(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "not JSON: "),
        ("[]", "must be an object, not []"),
        ('{"1": true}', "task '1': must be an object, not True"),
        ('{"1": {"react": "yes"}}', "task '1': 'react' must be true or false, not 'yes'"),
        ('{"1": {"reactree": true}}', "task '1': 'react' must be true or false, not None"),
    ],
)
def test_malformed_outcomes_are_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "outcomes.json"
    file.write_text(content)
    with pytest.raises(ExperienceError, match=re.escape(message)):
        recorded_success(file, variant="react")


def test_a_task_that_the_outcomes_do_not_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outcomes.json").write_text('{"2": {"react": true}}')
    export_experiences([experience(task=1)], tmp_path / "one.jsonl")
    with pytest.raises(ExperienceError, match="says nothing of task '1'"):
        import_experiences(
            tmp_path / "one.jsonl", succeeded=recorded_success(tmp_path / "outcomes.json", variant="react")
        )


def test_a_failed_export_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    export_experiences([experience()], file)
    before = file.read_bytes()
    turns = (Told("\ud800"),)
    broken = Experience(subgoal="x", turns=turns, end=End.SUCCESS, task_id="1", task_name="a", decision=1, depth=1)
    with pytest.raises(ExperienceError, match="not writable as UTF-8"):
        export_experiences([experience("another"), broken], file)
    with pytest.raises(ExperienceError, match=r"name a file that ends in \.jsonl"):
        export_experiences([experience()], tmp_path / "texts")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
