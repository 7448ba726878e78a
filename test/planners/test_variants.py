"""Planners by name: with working memory, with options, and what is said of names that there are not."""

import pytest
from doubles import ScriptedModel, ScriptedWorld

from reactree_ros.errors import UserError
from reactree_ros.planners.variants import variant
from reactree_ros.tree.context import RunContext


def test_a_name_says_whether_the_planner_remembers() -> None:
    assert not variant("react").working_memory
    remembering = variant("react_wm")
    assert (remembering.planner, remembering.working_memory) == ("react", True)


def test_react_cannot_expand() -> None:
    context = RunContext(model=ScriptedModel({}), world=ScriptedWorld())
    variant("react").build("root", context)
    assert context.allowed_control_flows == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zip", "planner 'zip' is unknown; use one of reactree, react, "),
        ("_wm", "planner '_wm' is unknown; use one of "),
        ("react:depth=3", "planner option 'depth=3' is unknown; react has none"),
    ],
)
def test_what_there_is_not_is_named(name: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        variant(name)
    assert str(error.value).startswith(message)
