"""Summaries: what asks for them, what of a trajectory is left out, and what of a reply is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.summary import judgement, read_summary, summary_request, without_oldest
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn, render

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
