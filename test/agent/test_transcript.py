"""An agent node's text is taken apart without losing a byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactree_ros
from reactree_ros.agent.budget import Limit
from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import BeginSubgoal, Summarise, Think, WriteCode
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.transcript import Example, TranscriptError, parse_transcript, shortened
from reactree_ros.agent.turns import (
    About,
    Said,
    Saw,
    Told,
    ToldStart,
    is_closed,
    node_text,
    render,
    turn_from_dict,
    turn_to_dict,
)
from reactree_ros.tree.flows import FallbackFlow, SequenceFlow


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
    assert transcript.said_turns[0].decision == Expand(FallbackFlow(), ("a", "and b"))


@pytest.mark.parametrize("variant", ["react", "react_wm", "reactree", "reactree_wm"])
def test_every_recorded_text_is_rendered_from_its_turns(wah_nl: Path, variant: str) -> None:
    for line in (wah_nl / "trajectories" / f"{variant}.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        transcript = parse_transcript(text)
        assert node_text(transcript.turns) == text
        assert all(said.decision is not None for said in transcript.said_turns)


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


texts = st.text(max_size=30)
decisions = st.one_of(
    st.none(),
    st.builds(Think, texts),
    st.builds(BeginSubgoal, texts, texts),
    st.builds(Summarise, texts, texts),
    st.builds(WriteCode, texts),
    st.builds(Act, texts),
    st.builds(Expand, st.sampled_from([flow() for flow in default_flows()]), st.lists(texts, max_size=3).map(tuple)),
)
turns = st.one_of(
    st.builds(Told, texts, st.sampled_from(About)), st.builds(Said, texts, decisions), st.builds(Saw, texts)
)


@given(turns)
def test_a_turn_is_read_back_as_it_was_written(turn: Told | Said | Saw) -> None:
    assert turn_from_dict(json.loads(json.dumps(turn_to_dict(turn)))) == turn


@pytest.mark.parametrize("values", [{}, {"told": "a"}, {"told": 1, "about": "task"}, {"said": "a", "expand": "loop"}])
def test_what_is_no_turn_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no turn|must be a text|is unknown"):
        turn_from_dict(values)


@pytest.mark.parametrize(
    ("last", "closed"),
    [
        (Said("Act: done", Act("done")), True),
        (Said("Act: failure", Act("failure")), True),
        (Told("Max steps", About.LIMIT), True),
        (Said("Act: done"), False),
        (Said("Expand: …", Expand(SequenceFlow(), ("a",))), False),
        (Saw("You see nothing."), False),
    ],
)
def test_a_line_end_follows_unless_the_node_has_ended(last: Told | Said | Saw, closed: bool) -> None:
    both = [Told("Your task is to: a"), last]
    assert is_closed(both) is closed
    assert node_text(both) == f"Your task is to: a\n{last.text}" + ("" if closed else "\n")
    assert render(both) == f"Your task is to: a\n{last.text}"


def test_two_observations_are_the_same_turn_if_their_words_are() -> None:
    assert Saw("You see nothing.") == Saw("You see nothing.", Observation("You see nothing."))


ROOT = "Your task is to: a\nYou are in the house.\nThink: b\nOK.\nAct: done"
CHILD = "Your primary goal is to: a\nTo achieve this, …\nYour task is to: c\nYou are in the house.\nAct: go\nYou go."
TREE = Example.of_text(f"{ROOT}\n\n{CHILD}\n\n{CHILD}")
SHIPPED = sorted(Path(reactree_ros.__file__).parent.rglob("prompts/**/*.txt"))


def words(text: str) -> int:
    return len(text.split())


def test_each_agent_node_of_an_example_is_its_turns() -> None:
    assert len(TREE.nodes) == 3
    assert [type(turn) for turn in TREE.nodes[1]] == [Told, Saw, Said, Saw]
    assert TREE.turns[5] == Told("", About.ANSWER)  # the empty line between two nodes


def test_a_text_of_anything_else_is_one_turn() -> None:
    for text in ("", "def run():\n\n    pass", f"{ROOT}\n\nand more", "x" * 1_000_000):
        assert Example.of_text(text).nodes == ((Told(text, About.SYSTEM),),)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: "/".join(path.parts[-3:]))
def test_an_example_gives_its_text_again(path: Path) -> None:
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    assert Example.of_text(text).text == text
    if path.name.startswith("react") and path.parent.parent.name in ("household", "ai2thor"):
        assert start_turn("", [Example.of_text(text)]).is_exchange


def test_the_start_of_a_prompt_is_read_back_whole_from_a_record() -> None:
    start = start_turn("S", [TREE, Example.of_text("text")], "Rule.")
    assert turn_from_dict(turn_to_dict(start)) == start
    assert turn_to_dict(start)["told"] == f"S\nSource domain:\n{TREE.text}\ntext\nTarget_domain:"
    assert turn_from_dict(turn_to_dict(Told("S", About.SYSTEM))) == Told("S", About.SYSTEM)
    with pytest.raises(ValueError, match="is no turn"):
        turn_from_dict({"told": "", "about": "system", "examples": []})


def test_an_example_that_is_too_long_gives_way_to_the_short_one_then_loses_its_last_nodes() -> None:
    long = Example(TREE.nodes * 2, short=TREE)
    for excess, nodes in ((1, [3]), (words(long.text) - words(TREE.text) + 1, [2]), (words(long.text), [])):
        assert [len(one.nodes) for one in shortened([long], excess, count=words)] == nodes


def test_the_least_similar_example_goes_before_the_next_one_shrinks() -> None:
    first, last = Example(TREE.nodes[:2]), Example(TREE.nodes[:1])
    assert shortened([first, last], 1, count=words) == [first]
    assert shortened([first, last], words(last.text) + 1, count=words) == [Example(first.nodes[:1])]
    assert shortened([first, last], 0, count=words) == [first, last]


def test_the_texts_of_a_start_are_changed_together() -> None:
    start = ToldStart(system="a", examples=((Told("b"), Said("c")),), rule="d")
    changed = start.with_texts(str.upper)
    assert (changed.system, changed.rule, [turn.text for turn in changed.examples[0]]) == ("A", "D", ["B", "C"])
    assert changed.text == "A\nSource domain:\nB\nC\nTarget_domain:"
