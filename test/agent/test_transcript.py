"""An agent node's text is taken apart without losing a byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.transcript import TranscriptError, parse_transcript
from reactree_ros.agent.turns import About, Said, Saw, Told, node_text
from reactree_ros.tree.flows import FallbackFlow


def test_turns_carry_what_was_said_and_what_came_back() -> None:
    transcript = parse_transcript(
        "Your task is to: a\nand b\nYou are in the house.\nThink: hm\nOK.\nAct: go to kitchen 1\nYou move.\nMax steps"
    )
    assert transcript.turns == (
        Told("Your task is to: a\nand b"),
        Saw("You are in the house."),
        Said("Think: hm", Think("hm")),
        Told("OK.", About.ANSWER),
        Said("Act: go to kitchen 1", Act("go to kitchen 1")),
        Saw("You move."),
        Told("Max steps", About.LIMIT),
    )
    assert (transcript.subgoal, transcript.limit) == ("a\nand b", Limit.STEPS)
    assert transcript.acts == (("go to kitchen 1", Saw("You move.")),)


def test_the_task_of_a_child_is_what_follows_where_it_stands() -> None:
    text = "Your primary goal is to: x\nTo achieve this, …\nYour task is to: y\nYou are in the house.\nExpand:\n"
    transcript = parse_transcript(f"{text}- control flow: fallback\n- subgoals: a, and b\n")
    assert transcript.subgoal == "y"
    assert transcript.said[0].decision == Expand(FallbackFlow(), ("a", "and b"))


@pytest.mark.parametrize("variant", ["react", "react_wm", "reactree", "reactree_wm"])
def test_every_recorded_text_is_rendered_from_its_turns(wah_nl: Path, variant: str) -> None:
    for line in (wah_nl / "trajectories" / f"{variant}.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        transcript = parse_transcript(text)
        assert node_text(transcript.turns) == text
        assert all(said.decision is not None for said in transcript.said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Your task is to: a\n", "no line starts with 'You are in the house'"),
        ("You are in the house.\nhello\n", "line 2: 'hello' belongs to no decision"),
        (
            "You are in the house.\nThink: a\nOK.\nAct: go to kitchen 1\n",
            "line 4: 'Act: go to kitchen 1' belongs to no",
        ),
    ],
)
def test_a_text_of_no_agent_node_is_refused(text: str, message: str) -> None:
    with pytest.raises(TranscriptError, match=message):
        parse_transcript(text)
