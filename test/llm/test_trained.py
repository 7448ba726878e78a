"""For which planners a model was trained, and how one that is named is taken."""

from __future__ import annotations

import pytest

from reactree_ros.llm.spec import as_trained, strange

TRAINED = ("reactree_wm:system_text=false", "react:system_text=false", "react:fixed_example=false")


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ("reactree_wm", "reactree_wm:system_text=false"),
        ("reactree_wm:control_flow=seq", "reactree_wm:control_flow=seq"),
        ("reactree", "reactree"),
        ("react", "react"),  # which of the two nobody can know
        ("", "reactree_wm:system_text=false"),
    ],
)
def test_a_planner_without_options_has_those_that_the_model_was_trained_with(named: str, taken: str) -> None:
    assert as_trained(named, TRAINED) == taken
    assert bool(strange(taken, TRAINED)) != (taken in TRAINED)


@pytest.mark.parametrize(
    ("planner", "is_strange"),
    [
        ("reactree_wm:system_text=false:break_rounds=true", False),  # the prompts are the same
        ("reactree_wm:break_rounds=true:system_text=false", False),
        ("reactree_wm:break_rounds=true", True),
        ("reactree_wm:system_text=false:questions=1", True),
        ("hiagent:system_text=false", True),
    ],
)
def test_a_planner_is_strange_whose_prompts_the_model_was_not_trained_with(planner: str, is_strange: bool) -> None:
    assert bool(strange(planner, TRAINED)) == is_strange


def test_a_model_that_is_for_any_planner_leaves_each_as_it_is() -> None:
    assert (as_trained("reactree_wm", ()), as_trained("", ())) == ("reactree_wm", "")
