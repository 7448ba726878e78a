"""Experiences: a recorded text as turns, and the turns as that text again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import BeginSubgoal, Think
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn, render
from reactree_ros.memory.experience import End, Experience, turns_in

RECORDED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
HEADER = "Your task is to: open the fridge"
START = "You are in the house, and there is 1 room: kitchen (1)."


def of(turns: tuple[Turn, ...], end: End = End.SUCCESS) -> Experience:
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
    thought = of((Told(HEADER), Saw(START), Said("Think: look", BeginSubgoal("look", "look"))))
    assert thought == of((Told(f"{HEADER}\n{START}\nThink: look"),))
    assert hash(thought) == hash(of((Told(f"{HEADER}\n{START}\nThink: look"),)))
    assert thought != of((Told(f"{HEADER}\n{START}\nThink: Look"),))
    assert thought != of(thought.turns, End.FAILURE)
