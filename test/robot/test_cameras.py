"""Cameras of `robot.yaml`: what a skill that takes a picture becomes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.blocks import ROOT, blocks_of

from reactree_ros.errors import UserError
from reactree_ros.robot.config import PICTURE_TIME, RobotConfig, load_robot

CONFIG = Path(__file__).parents[2] / "config/robots/office.yaml"
HEAD = {"topic": "/head/image_raw", "type": "sensor_msgs/msg/Image"}


def robot(folder: Path, skill: dict[str, Any], cameras: dict[str, Any]) -> RobotConfig:
    values = yaml.safe_load(CONFIG.read_text())
    values["skills"]["look"] = {"wording": "look", **skill}
    (folder / "robot.yaml").write_text(yaml.safe_dump({**values, "cameras": cameras}))
    return load_robot(folder / "robot.yaml")


def test_a_skill_has_the_topic_and_the_type_of_its_camera(tmp_path: Path) -> None:
    look = robot(tmp_path, {"camera": "head"}, {"head": HEAD, "hand": "/hand/compressed"}).skills["look"]
    assert (look.kind, look.server, look.type, look.time_limit) == ("camera", HEAD["topic"], HEAD["type"], PICTURE_TIME)
    assert look.takes_pictures
    assert not load_robot(CONFIG).skills["dock"].takes_pictures


def test_a_step_may_take_a_picture_within_a_time_of_its_own(tmp_path: Path) -> None:
    drive = {"action": "drive", "type": "nav2_msgs/action/BackUp"}
    steps = {"steps": [drive, {"camera": "hand", "time_limit": 3}]}
    first, second = robot(tmp_path, steps, {"hand": "/hand/compressed"}).skills["look"].parts
    assert first.server == "drive"
    assert (second.server, second.type) == ("/hand/compressed", "sensor_msgs/msg/CompressedImage")
    assert second.time_limit == 3


def test_the_skills_of_the_page_are_a_robots(tmp_path: Path) -> None:
    blocks = blocks_of(ROOT / "docs/how-to/let-the-model-look.md")
    page, *_ = [yaml.safe_load(block.text) for block in blocks if block.language == "yaml"]
    values = yaml.safe_load(CONFIG.read_text())
    values["skills"] |= page["skills"]
    del values["skills"]["take picture"]["time_limit"]
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump({**values, "cameras": page["cameras"]}))
    skills = load_robot(tmp_path / "robot.yaml").skills
    assert [name for name, entry in skills.items() if entry.takes_pictures] == [*page["skills"]]
    assert skills["take picture"].time_limit == PICTURE_TIME, "as the page says of what has none"


@pytest.mark.parametrize(
    ("skill", "cameras", "said"),
    [
        ({"camera": "hed"}, {"head": HEAD}, "skills.look: camera 'hed' is none of the cameras; did you mean 'head'"),
        ({"steps": [{"camera": "head"}]}, {}, "there are none; declare it under cameras"),
        ({"camera": "head"}, {"head": {**HEAD, "type": "std_msgs/msg/String"}}, "cameras.head.type"),
        ({"camera": "head"}, {"head": {}}, "cameras.head.topic: field required"),
        ({"camera": "head", "publish": "x"}, {"head": HEAD}, "name one of action, service, publish, wait_for, camera"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_way_out(
    tmp_path: Path, skill: dict[str, Any], cameras: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as refused:
        robot(tmp_path, skill, cameras)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
