"""Turns: rendered as the recordings have them, written as JSON and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.begin_subgoal import BeginSubgoal
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.summarise import Summarise
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.kinds.write_code import WriteCode
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.turns import About, Said, Saw, Told, is_closed, node_text, render, turn_from_dict, turn_to_dict
from reactree_ros.tree.flows import SequenceFlow

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
