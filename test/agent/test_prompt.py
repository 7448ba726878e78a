"""The prompt is what the paper's listings and the recordings have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reactree_lab.worlds.ai2thor.household import ALFRED
from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.example import Example
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt import Siblings, reply_rule, start_turn, system_text, task_turn
from reactree_ros.agent.turns import About
from reactree_ros.household.household import WAH_NL
from reactree_ros.tree.flows import FallbackFlow, ParallelFlow, SequenceFlow


def listing(papers: Path, title: str) -> str:
    """A listing's text up to ``Source domain``, without the line breaks and quotes of the printed page."""
    text = (papers / "reactree.md").read_text(encoding="utf-8").partition(title)[2].partition("Source domain")[0]
    return plain(text.replace("**", "").replace("```", ""))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("“", '"').replace("”", '"')).strip()


@pytest.mark.parametrize(
    ("title", "household", "control_flows", "recall"),
    [
        ("Listing 1: Prompt template of *ReActTree+WM* for WAH-NL", WAH_NL, None, True),
        ("Listing 2: Prompt template of *ReActTree+WM* for ALFRED", ALFRED, None, False),
        ("Listing 5: Prompt template of ReAct+WM for WAH-NL", WAH_NL, (), True),
        ("Listing 6: Prompt template of ReAct+WM for ALFRED", ALFRED, (), False),
    ],
)
def test_system_texts_are_the_papers(
    papers: Path, title: str, household: Household, control_flows: tuple[type[ControlFlow], ...] | None, recall: bool
) -> None:
    assert plain(system_text(household, control_flows=control_flows, recall=recall)) == listing(papers, title)


def test_the_recall_action_is_there_only_with_working_memory() -> None:
    for household in (WAH_NL, ALFRED):
        for flows in (None, (SequenceFlow,), ()):
            with_memory = system_text(household, control_flows=flows, recall=True)
            without = system_text(household, control_flows=flows, recall=False)
            assert with_memory.replace("recall location of, ", "") == without
            assert "recall" not in without


def test_a_system_text_speaks_of_the_allowed_control_flows_alone() -> None:
    flows = (SequenceFlow, FallbackFlow)
    last = system_text(WAH_NL, control_flows=flows).rpartition("Control flow can be ")[2]
    assert last.startswith('"sequence" (achieve subgoals sequentially; ')
    assert 'is interrupted) or "fallback" (' in last
    assert "parallel" not in last
    last = system_text(WAH_NL, control_flows=flows[:1]).rpartition("Control flow can be ")[2]
    assert last.startswith('"sequence" (')
    assert last.endswith("is interrupted).")


def test_a_root_has_its_task() -> None:
    assert task_turn("Put it away.").text == "Your task is to: Put it away."


@pytest.mark.parametrize(
    ("flow", "phrase"),
    [
        (SequenceFlow, "in sequence"),
        (FallbackFlow, "using a fallback strategy"),
        (ParallelFlow, "in parallel"),
    ],
)
def test_a_child_is_told_where_it_stands(flow: type[ControlFlow], phrase: str) -> None:
    text = task_turn("a", Siblings("goal", flow(), ("a", "b", "c"))).text
    assert text == (
        "Your primary goal is to: goal\n"
        f"To achieve this, you should perform your sibling tasks {phrase}. At this level, your sibling tasks are: "
        "a, b, and c.\nYour task is to: a"
    )


def test_two_siblings_are_joined_like_three_and_one_stands_alone() -> None:
    assert "are: a, and b." in task_turn("a", Siblings("goal", SequenceFlow(), ("a", "b"))).text
    assert "are: a." in task_turn("a", Siblings("goal", SequenceFlow(), ("a",))).text


def test_examples_stand_between_source_and_target() -> None:
    start = start_turn("S", [Example.of_text("one\nAct: done"), Example.of_text("two")])
    assert (start.text, start.about) == ("S\nSource domain:\none\nAct: done\ntwo\nTarget_domain:", About.SYSTEM)
    assert start_turn("S", []).text == "S\nSource domain:\n\nTarget_domain:"


def test_the_rule_says_how_each_kind_of_decision_that_is_told_begins() -> None:
    assert reply_rule((SequenceFlow,)).endswith("It starts with 'Think: ', 'Act: ' or 'Expand:'.")
    assert reply_rule(()).endswith("It starts with 'Think: ' or 'Act: '.")
    assert reply_rule((), asks=True).endswith("It starts with 'Think: ', 'Act: ' or 'Ask: '.")
    assert "one decision" not in start_turn("S", (), reply_rule(())).text


def test_what_is_left_out_leaves_nothing_behind() -> None:
    assert start_turn("", [Example.of_text("one")]).text == "Source domain:\none\nTarget_domain:"
    assert start_turn("", []).text == "Target_domain:"
