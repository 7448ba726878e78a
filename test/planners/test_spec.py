"""Planners by name: with working memory, with options, and what is said of names that there are not."""

from __future__ import annotations

import pytest

from reactree_ros.errors import UserError
from reactree_ros.planners.reactree import ReactreeSettings
from reactree_ros.planners.spec import planner


def test_a_name_says_whether_the_planner_remembers() -> None:
    assert not planner("react").working_memory
    remembering = planner("react_wm")
    assert (remembering.spec.name, remembering.working_memory) == ("react", True)


def test_options_follow_the_name() -> None:
    chosen = planner("reactree_wm:control_flow=seq+fb:summarise_after=600:fixed_example=false")
    assert chosen.settings == ReactreeSettings(control_flow="seq+fb", summarise_after=600, fixed_example=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zip", "planner 'zip' is unknown; "),
        ("_wm", "planner '_wm' is unknown; "),
        ("reactre_wm", "planner 'reactre_wm' is unknown; did you mean 'reactree_wm'? There are "),
        ("zsp_wm", "planner 'zsp_wm' is unknown; did you mean 'zsp'?"),
        ("react:depth=3", "planner 'react': there is no setting 'depth'; use one of system_text, fixed_example"),
        ("reactree:control_flow=par", "planner 'reactree': control_flow is 'par': use one of all, seq+fb, seq"),
        ("reactree:seq", "planner 'reactree': write a setting as NAME=VALUE, not 'seq'"),
        ("recode:depth=0", "planner 'recode': depth is '0': input should be greater than or equal to 1"),
        ("recode:corrections=-1", "planner 'recode': corrections is '-1': input should be greater than or equal to 0"),
        ("tree_planner:plans=0", "planner 'tree_planner': plans is '0': input should be greater than or equal to 1"),
        ("tree_planner:plans=many", "planner 'tree_planner': plans is 'many': input should be a valid integer"),
        ("tree_planner:top_p=0", "planner 'tree_planner': top_p is '0': input should be greater than 0"),
        ("tree_planner:top_p=2", "planner 'tree_planner': top_p is '2': input should be less than or equal to 1"),
        ("tree_planner:temperature=-1", "planner 'tree_planner': temperature is '-1': input should be greater than"),
    ],
)
def test_what_there_is_not_is_named(name: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        planner(name)
    assert str(error.value).startswith(message)
