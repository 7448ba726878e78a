"""What a robot's owner says of skills: what they need, use and are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel
from office import OfficeWorld
from robot.delivery import RULES, delivery_robot

from reactree_ros.agent.needs import Limits, Need
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.household import SKILLS
from reactree_ros.planners.spec import planner
from reactree_ros.robot.config import RobotConfig, SkillEntry, load_robot
from reactree_ros.robot.map_file import load_map


def loaded(folder: Path, *args: Any, **more: Any) -> RobotConfig:
    config = load_robot(file := delivery_robot(folder, *args, **more))
    config.check_fits(load_map(config.map), str(file))
    return config


def test_needs_are_read_with_the_wordings_of_conditions(tmp_path: Path) -> None:
    skills = {skill.name: skill for skill in loaded(tmp_path).declared}
    assert skills["navigate"].requires == (
        Need("number", ("speed",), lasts=True, limits=Limits(at_most=0.8, given="people are near")),
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
        ({"number": {"sped": {"at_most": 0.8}}}, "'sped' is not a parameter; did you mean 'speed'"),
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


NEAR = "people are near"
#: Skills that a scripted model says, after what is known of people; what keeps the last from being done; None: nothing.
BROKEN: list[tuple[bool | None, list[str], str | None]] = [
    (True, ["navigate to counter at 1 m/s"], "speed is 1.0 and may be at most 0.8 while people are near."),
    (True, ["navigate to counter at 0.8 m/s"], None),
    (False, ["navigate to counter at 1 m/s"], None),
    (
        None,
        ["navigate to counter at 1 m/s"],
        "at most 0.8 while people are near, and nobody knows whether",
    ),
    (None, ["navigate to counter at 0.8 m/s"], None),
    (False, ["open drawer 3", "navigate to ward A at 0.5 m/s"], "drawer 3 is open; first close drawer 3."),
    (
        False,
        ["open drawer 3", "open drawer 5", "navigate to ward A at 0.5 m/s"],
        "drawer 3 is open and drawer 5 is open; ",
    ),
    (False, ["open drawer 3", "close drawer 3", "navigate to ward A at 0.5 m/s"], None),
    (False, ["load the pills into drawer 3"], "you are not at counter; first navigate to counter at … m/s."),
    (False, ["navigate to counter at 0.5 m/s", "load the pills into drawer 3"], None),
    (
        False,
        ["navigate to counter at 0.5 m/s", "close drawer 3", "load the pills into drawer 3"],
        "drawer 3 is closed; first open drawer 3.",
    ),
    (
        False,
        ["hand the pills over to Anna"],
        "you do not hold pills; first load the pills into drawer ….",
    ),
    (
        False,
        ["navigate to counter at 0.5 m/s", "load the pills into drawer 3", "hand the bandages over to Bob"],
        "you do not hold bandages",
    ),
    (False, ["navigate to counter at 0.5 m/s", "load the pills into drawer 3", "hand the pills over to Anna"], None),
    (
        False,
        ["navigate to counter at 0.5 m/s", "load the pills into drawer 3", *["hand the pills over to Anna"] * 2],
        "you do not hold pills",
    ),
]


@pytest.mark.parametrize(("near", "skills", "said"), BROKEN)
def test_a_rule_that_a_model_breaks_is_refused_with_its_reason_and_what_helps(
    tmp_path: Path, near: bool | None, skills: list[str], said: str | None
) -> None:
    world = OfficeWorld(delivery_robot(tmp_path))
    world.known = {} if near is None else {NEAR: near}
    model = ScriptedModel({"root": [*(f"Act: {skill}" for skill in skills), "Act: failure"]})
    Episode("root", world=world, model=model, planner=planner("react")).run()
    told = model.requests[-1].prompt.strip().splitlines()[-1]
    assert [str(call) for call in world.calls] == (skills if said is None else skills[:-1])
    assert (f"You cannot {skills[-1]}: " in told) is (said is not None), told
    assert (said or "") in told


def test_a_skill_of_the_household_may_need_more_and_never_less() -> None:
    entry = SkillEntry(action="go", type="nav2_msgs/action/NavigateToPose", requires={"not": {"open": "drawer"}})
    (of_household,) = (skill for skill in SKILLS if skill.name == "go to")
    added = (*of_household.requires, Need("open", ("drawer",), is_so=False))
    assert entry.declared("go to").requires == added
    with pytest.raises(ValueError, match="has its effect"):
        entry.model_copy(update={"effect": {"away": True}}).declared("go to")
