"""An agent node's text is taken apart without losing a byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.decision import Act, Think
from reactree_ros.agent.parser import parse_decision
from reactree_ros.agent.transcript import TranscriptError, Turn, parse_transcript


def test_turns_carry_what_was_said_and_what_came_back() -> None:
    transcript = parse_transcript(
        "Your task is to: a\nand b\nYou are in the house.\nThink: hm\nOK.\nAct: go to kitchen 1\nYou move.\nMax steps"
    )
    assert transcript.header == "Your task is to: a\nand b\n"
    assert transcript.observation == "You are in the house."
    assert transcript.turns == (Turn("Think: hm"), Turn("Act: go to kitchen 1", "You move."))
    assert transcript.limit is Limit.STEPS


@pytest.mark.parametrize("variant", ["react", "react_wm", "reactree", "reactree_wm"])
def test_every_recorded_text_is_rebuilt_from_its_turns(wah_nl: Path, variant: str) -> None:
    for line in (wah_nl / "trajectories" / f"{variant}.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        transcript = parse_transcript(text)
        rebuilt = f"{transcript.header}{transcript.observation}\n"
        for turn in transcript.turns:
            decision = parse_decision(turn.said, keep_and=True)
            follows = (
                "OK.\n" if isinstance(decision, Think) else "" if turn.observation is None else f"{turn.observation}\n"
            )
            ends = isinstance(decision, Act) and decision.ends
            rebuilt += turn.said + ("" if ends else "\n") + follows
        assert rebuilt + (transcript.limit.value if transcript.limit else "") == text


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
