"""What a robot's owner says of skills: what they need, use and are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from robot.delivery import RULES, delivery_robot

from reactree_ros.agent.needs import Bounds, Need
from reactree_ros.errors import UserError
from reactree_ros.household.household import SKILLS
from reactree_ros.robot.config import RobotConfig, SkillEntry, load_robot
from reactree_ros.robot.map_file import load_map


def loaded(folder: Path, *args: Any, **more: Any) -> RobotConfig:
    config = load_robot(file := delivery_robot(folder, *args, **more))
    config.check_fits(load_map(config.map), str(file))
    return config


def test_needs_are_read_with_the_wordings_of_conditions(tmp_path: Path) -> None:
    skills = {skill.name: skill for skill in loaded(tmp_path).declared}
    assert skills["navigate"].requires == (
        Need("number", ("speed",), lasts=True, bounds=Bounds(at_most=0.8, given="people are near")),
        Need("open", ("drawer",), is_so=False, lasts=True),
    )
    assert skills["navigate"].uses == {"base"}
    assert skills["navigate"].description.startswith("drives")
    assert skills["hand over"].requires == (Need("held", ("{item}",)),)


@pytest.mark.parametrize(
    ("requires", "said"),
    [
        ({"condition": "peopel"}, "'peopel' is none of the conditions; did you mean 'people'"),
        ({"number": {"speed": {"at_most": 0.8, "while": "crowd"}}}, "'crowd' is none of the conditions"),
        ({"number": {"sped": {"at_most": 0.8}}}, "'sped' is no parameter; did you mean 'speed'"),
        ({"at": "countr"}, "did you mean 'counter'"),
        ({"at": "counter 7"}, "'counter 7' is nothing on the map"),
        ({"not": {"open": "drawr"}}, "did you mean 'drawer'"),
        ({"open": "drawr {place}"}, "'drawr {place}' is nothing on the map"),
        ({"held": "{item}"}, "another place-holder than {place} and {speed}"),
        ({"free": "gripper"}, "'gripper' is nothing on the map"),
        ({"att": "counter"}, "did you mean 'at'"),
        ([{}], "says nothing"),
    ],
)
def test_a_need_that_nobody_can_answer_is_refused_with_line_and_way_out(
    tmp_path: Path, requires: Any, said: str
) -> None:
    with pytest.raises(UserError) as refused:
        loaded(tmp_path, RULES | {"navigate": {"requires": requires}})
    assert said in str(refused.value)
    assert "robot.yaml:" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_skill_of_the_household_may_need_more_and_never_less() -> None:
    entry = SkillEntry(action="go", type="nav2_msgs/action/NavigateToPose", requires={"not": {"open": "drawer"}})
    (of_household,) = (skill for skill in SKILLS if skill.name == "go to")
    added = (*of_household.requires, Need("open", ("drawer",), is_so=False))
    assert entry.declared("go to").requires == added
    with pytest.raises(ValueError, match="has its effect"):
        entry.model_copy(update={"effect": {"away": True}}).declared("go to")
