"""The prompt is what the paper's listings and the recordings have."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.decision import Counts
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt import (
    Siblings,
    judgement,
    read_summary,
    reply_rule,
    start_turn,
    summary_request,
    system_text,
    task_turn,
    without_oldest,
)
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn, render
from reactree_ros.household.household import WAH_NL
from reactree_ros.tree.flows import FallbackFlow, ParallelFlow, SequenceFlow


def listing(papers: Path, title: str) -> str:
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


LEFT_OUT = Told("(earlier actions are left out)", About.SUMMARY)
TRAJECTORY: list[Turn] = [
    Saw("Observation: You are in the kitchen."),
    *(Said("Action: open fridge 1"), Saw("Observation: You open fridge.")),
    *(Said("Action: go to table 1"), Saw("Observation: You arrive at the table.")),
]


def words(text: str) -> int:
    return len(text.split())


def test_the_request_shows_the_trajectory_and_the_subgoal_behind_an_example() -> None:
    asked = summary_request(TRAJECTORY, "find a plate").text
    assert asked.endswith(f"\n\n##Trajectory\n{render(TRAJECTORY)}\n\n##Subgoal:\nfind a plate\n\n###Output:")
    assert [asked.count(heading) for heading in ("##Trajectory\n", "##Subgoal:\n", "###Output:")] == [2, 2, 2]


@pytest.mark.parametrize(("excess", "left"), [(1, 1), (6, 3), (9, 3), (17, 5)])
def test_the_oldest_actions_are_left_out_with_what_came_of_them(excess: int, left: int) -> None:
    rest = TRAJECTORY[left:]
    assert without_oldest(TRAJECTORY, excess, count=words) == ([LEFT_OUT, *rest] if rest else [])


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), max_size=8), st.integers(1, 40))
def test_what_is_left_is_an_end_of_the_trajectory_that_is_so_much_shorter(
    sizes: list[tuple[int, int]], excess: int
) -> None:
    trajectory: list[Turn] = [Saw("start")]
    for size, seen in sizes:
        trajectory += [Said("do " * size), *[Saw("seen")] * seen]
    rest = without_oldest(trajectory, excess, count=words)
    if rest:
        assert rest[0] == LEFT_OUT
        assert isinstance(rest[1], Said)
        assert rest[1:] == trajectory[len(trajectory) - len(rest) + 1 :]
        assert words(render(rest)) <= words(render(trajectory)) - excess
    assert len(without_oldest(rest, 1, count=words)) < max(1, len(rest))  # so that asking again comes to an end


@pytest.mark.parametrize(
    ("reply", "summary"),
    [
        ("You hold it. Subgoal is met.", "You hold it. Subgoal is met."),
        ("\n\n You hold it.\nSubgoal is met. \n", "You hold it. Subgoal is met."),
        ("##Summary\nYou hold it.", "You hold it."),
        ("## Summary and Analysis\n\n- You hold it.\n- Subgoal is met.", "You hold it. Subgoal is met."),
        ("##Summary: You hold it.", "Summary: You hold it."),
        ("**Summary**\nYou hold **it**.", "You hold it."),
        ("Here is the summary:\nYou hold it.", "You hold it."),
        ("```\nYou hold it.\n```", "You hold it."),
        ("", "last"),
        ("##Summary", "last"),
        ("Act: go to bed 1\nYou arrive at the bed (1).", "last"),
        ("You hold it.\nAction: open fridge 1\nYou open the fridge.", "You hold it."),
        ("Actions: it opened fridge 1. Subgoal is met.", "Actions: it opened fridge 1. Subgoal is met."),
        ("You hold it. Act: no line begins with this.", "You hold it. Act: no line begins with this."),
    ],
)
def test_headings_marks_and_what_nobody_did_are_no_part_of_a_summary(reply: str, summary: str) -> None:
    assert read_summary(reply, "last") == summary


@pytest.mark.parametrize(
    ("reply", "summary"),
    [
        ("You hold apple (1). You are in the", "You hold apple (1)."),
        ("You hold apple (1). Subgoal is met.", "You hold apple (1). Subgoal is met."),
        ("It is at 1.5 m. It", "It is at 1.5 m."),
        ("You hold it! Is", "You hold it!"),
        ("You hold the", "last"),
        ("", "last"),
    ],
)
def test_of_a_summary_that_was_cut_whole_sentences_are_kept(reply: str, summary: str) -> None:
    assert read_summary(reply, "last", cut=True) == summary


@pytest.mark.parametrize(
    ("summary", "met"),
    [
        ("You hold it. Subgoal is met.", True),
        ("You do not hold anything. The subgoal is met.", True),
        ("The fridge is closed. Subgoal is not met.", False),
        ("The subgoal hasn't been met", False),
        ("You hold it.", None),
    ],
)
def test_whether_a_subgoal_is_met_is_read_off_its_summary(summary: str, met: bool | None) -> None:
    assert judgement(summary) is met


STEP = Counts(steps=1)


def test_a_step_is_a_decision_too() -> None:
    budget = Budget()
    budget.count()
    budget.count(STEP)
    assert (budget.decisions, budget.steps) == (2, 1)


def test_steps_are_looked_at_first() -> None:
    budget = Budget(max_decisions=1, max_steps=1)
    assert budget.reached() is None
    budget.count(STEP)
    assert budget.reached() is Limit.STEPS


@pytest.mark.parametrize("name", ["max_decisions", "max_steps"])
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        Budget(**{name: 0})


@pytest.mark.parametrize("household", [WAH_NL, ALFRED])
def test_it_comes_back_as_it_was_sent(household: Household) -> None:
    assert pickle.loads(pickle.dumps(household)) == household


def test_it_names_things_and_splits_skills_in_its_own_way() -> None:
    assert (WAH_NL.name_of("juice", 1), ALFRED.name_of("Juice", 1)) == ("juice 1", "Juice (1)")
    assert WAH_NL.split_skill("pick up kitchen cabinet 3") == ("pick up", "kitchen cabinet 3")
    assert WAH_NL.split_skill("slice bread 1") == ("", "slice bread 1")
    assert ALFRED.split_skill("slice Bread (1)") == ("slice", "Bread (1)")


def test_what_a_skill_is_done_to_may_stand_in_brackets() -> None:
    shop = Household(name="shop", actions=("click", "click on"), naming="")
    assert shop.split_skill("click[buy now]") == ("click", "buy now")
    assert shop.split_skill("click on[a [b]]") == ("click on", "a [b]")
    assert shop.split_skill("click[buy now] twice") == ("click", "buy now] twice")
    assert shop.split_skill("clicks[buy now]") == ("", "clicks[buy now]")
