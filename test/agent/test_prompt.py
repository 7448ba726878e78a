"""The prompt is what the paper's listings and the recordings have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reactree_ros.agent.decision import ControlFlow
from reactree_ros.agent.prompt import Domain, Siblings, header, prompt_start, system_text


def listing(papers: Path, title: str) -> str:
    """A listing's text up to ``Source domain``, without the line breaks and quotes of the printed page."""
    text = (papers / "reactree.md").read_text(encoding="utf-8").partition(title)[2].partition("Source domain")[0]
    return plain(text.replace("**", "").replace("```", ""))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("“", '"').replace("”", '"')).strip()


@pytest.mark.parametrize(
    ("title", "domain", "control_flows", "recall"),
    [
        ("Listing 1: Prompt template of *ReActTree+WM* for WAH-NL", Domain.WAH_NL, None, True),
        ("Listing 2: Prompt template of *ReActTree+WM* for ALFRED", Domain.ALFRED, None, False),
        ("Listing 5: Prompt template of ReAct+WM for WAH-NL", Domain.WAH_NL, (), True),
        ("Listing 6: Prompt template of ReAct+WM for ALFRED", Domain.ALFRED, (), False),
    ],
)
def test_system_texts_are_the_papers(
    papers: Path, title: str, domain: Domain, control_flows: tuple[ControlFlow, ...] | None, recall: bool
) -> None:
    assert plain(system_text(domain, control_flows=control_flows, recall=recall)) == listing(papers, title)


def test_the_recall_action_is_there_only_with_working_memory() -> None:
    for domain in Domain:
        for flows in (None, (ControlFlow.SEQUENCE,), ()):
            with_memory = system_text(domain, control_flows=flows, recall=True)
            without = system_text(domain, control_flows=flows, recall=False)
            assert with_memory.replace("recall location of, ", "") == without
            assert "recall" not in without


def test_a_system_text_speaks_of_the_allowed_control_flows_alone() -> None:
    flows = (ControlFlow.SEQUENCE, ControlFlow.FALLBACK)
    last = system_text(Domain.WAH_NL, control_flows=flows).rpartition("Control flow can be ")[2]
    assert last.startswith('"sequence" (achieve subgoals sequentially; ')
    assert 'is interrupted) or "fallback" (' in last
    assert "parallel" not in last
    last = system_text(Domain.WAH_NL, control_flows=flows[:1]).rpartition("Control flow can be ")[2]
    assert last.startswith('"sequence" (')
    assert last.endswith("is interrupted).")


def test_a_root_has_its_task_and_its_observation() -> None:
    assert header("Put it away.", None, "You are in the house.") == (
        "Your task is to: Put it away.\nYou are in the house.\n"
    )


@pytest.mark.parametrize(
    ("flow", "phrase"),
    [
        (ControlFlow.SEQUENCE, "in sequence"),
        (ControlFlow.FALLBACK, "using a fallback strategy"),
        (ControlFlow.PARALLEL, "in parallel"),
    ],
)
def test_a_child_is_told_where_it_stands(flow: ControlFlow, phrase: str) -> None:
    text = header("a", Siblings("goal", flow, ("a", "b", "c")), "You are in the house.")
    assert text == (
        "Your primary goal is to: goal\n"
        f"To achieve this, you should perform your sibling tasks {phrase}. At this level, your sibling tasks are: "
        "a, b, and c.\nYour task is to: a\nYou are in the house.\n"
    )


def test_two_siblings_are_joined_like_three_and_one_stands_alone() -> None:
    assert "are: a, and b." in header("a", Siblings("goal", ControlFlow.SEQUENCE, ("a", "b")), "")
    assert "are: a." in header("a", Siblings("goal", ControlFlow.SEQUENCE, ("a",)), "")


def test_examples_stand_between_source_and_target() -> None:
    assert prompt_start("S", ["one\nAct: done", "two"]) == "S\nSource domain:\none\nAct: done\ntwo\nTarget_domain:\n"
    assert prompt_start("S", []) == "S\nSource domain:\n\nTarget_domain:\n"
