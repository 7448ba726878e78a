"""Cameras of `robot.yaml`: what skills that take pictures and checks by them become, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.blocks import ROOT, blocks_of

from reactree_ros.agent.picture import PictureCheck
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import model_from_dict
from reactree_ros.robot.config import LOOK_TIME, PICTURE_TIME, RobotConfig, SkillEntry, load_robot

CONFIG = Path(__file__).parents[2] / "config/robots/office.yaml"
HEAD = {"topic": "/head/image_raw", "type": "sensor_msgs/msg/Image"}
HAND = {"hand": "/hand/compressed"}
GRASP: dict[str, Any] = {
    "wording": "grasp {item}",
    "parameters": {"item": "thing"},
    "effect": {"held": "item"},
    "action": "gripper",
    "type": "nav2_msgs/action/DummyBehavior",
}
EYES = {"vision": {"llm": "openai", "model": "eyes"}}


def robot(folder: Path, skills: dict[str, Any], **more: Any) -> RobotConfig:
    values = yaml.safe_load(CONFIG.read_text()) | more
    values["skills"] |= skills
    (folder / "robot.yaml").write_text(yaml.safe_dump(values).replace("'no'", "no"))  # as a person writes it
    return load_robot(folder / "robot.yaml")


def look(folder: Path, skill: dict[str, Any], cameras: dict[str, Any]) -> SkillEntry:
    return robot(folder, {"look": {"wording": "look", **skill}}, cameras=cameras).skills["look"]


def grasp(folder: Path, check: Any, **more: Any) -> SkillEntry:
    return robot(folder, {"grasp": {**GRASP, "check": check}}, cameras=HAND, **more).skills["grasp"]


def test_a_skill_has_the_topic_and_the_type_of_its_camera(tmp_path: Path) -> None:
    entry = look(tmp_path, {"camera": "head"}, {"head": HEAD, **HAND})
    found = entry.kind, entry.server, entry.type, entry.time_limit
    assert found == ("camera", HEAD["topic"], HEAD["type"], PICTURE_TIME)
    assert entry.takes_pictures
    assert not load_robot(CONFIG).skills["dock"].takes_pictures


def test_a_step_may_take_a_picture_within_a_time_of_its_own(tmp_path: Path) -> None:
    drive = {"action": "drive", "type": "nav2_msgs/action/BackUp"}
    first, second = look(tmp_path, {"steps": [drive, {"camera": "hand", "time_limit": 3}]}, HAND).parts
    assert first.server == "drive"
    assert (second.server, second.type) == ("/hand/compressed", "sensor_msgs/msg/CompressedImage")
    assert second.time_limit == 3


def test_a_check_has_the_topic_of_its_camera_and_time_for_its_looks(tmp_path: Path) -> None:
    said = {"camera": "hand", "question": "Is {item} on the table?", "answer": "no", "looks": 3, "necessary": True}
    entry = grasp(tmp_path, said, **EYES)
    (check,) = entry.check
    assert (check.kind, check.server, check.time_limit) == ("camera", "/hand/compressed", LOOK_TIME)
    assert check.by_picture == PictureCheck("Is {item} on the table?", "no", True, 3, "hand")
    assert check.by_picture.asked({"item": "apple 1"}) == "Is apple 1 on the table?"
    assert not entry.takes_pictures, "the skill itself brings none"


def test_what_the_page_shows_is_a_robots(tmp_path: Path) -> None:
    blocks = blocks_of(ROOT / "docs/how-to/let-the-model-look.md")
    first, *_, last = [yaml.safe_load(block.text) for block in blocks if block.language == "yaml"]
    skills = robot(tmp_path, first["skills"], cameras=first["cameras"]).skills
    assert [name for name, entry in skills.items() if entry.takes_pictures] == [*first["skills"]]
    skills = robot(tmp_path, last["skills"], cameras=last["cameras"], vision=last["vision"]).skills
    (check,) = skills["grip"].check
    assert check.by_picture == PictureCheck("Is {thing} in the gripper?", looks=3, camera="hand")
    model_from_dict(last["vision"], where="the page")


ASKED = {"camera": "hand", "question": "Is {item} in the gripper?"}


@pytest.mark.parametrize(
    ("skill", "cameras", "said"),
    [
        ({"camera": "hed"}, {"head": HEAD}, "skills.look: camera 'hed' is none of the cameras; did you mean 'head'"),
        ({"steps": [{"camera": "head"}]}, {}, "there are none; declare it under cameras"),
        ({"camera": "head"}, {"head": {**HEAD, "type": "std_msgs/msg/String"}}, "cameras.head.type"),
        ({"camera": "head"}, {"head": {}}, "cameras.head.topic: field required"),
        ({"camera": "head", "publish": "x"}, {"head": HEAD}, "name one of action, service, publish, wait_for, camera"),
        (ASKED, None, "skills.grasp: check: nobody looks at pictures; name the vision, or check otherwise"),
        ({"camera": "hand"}, EYES, "say with question what the picture is to show"),
        ({**ASKED, "camera": "hnd"}, EYES, "camera 'hnd' is none of the cameras; did you mean 'hand'"),
        ({**ASKED, "question": "Is {itm} there?"}, EYES, "has another place-holder than {item}"),
        ({**ASKED, "answer": "perhaps"}, EYES, "answer"),
        ({**ASKED, "looks": 0}, EYES, "looks"),
        ({"seen": "item", "question": "Is it there?"}, EYES, "question is about a picture; name its camera"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_way_out(
    tmp_path: Path, skill: dict[str, Any], cameras: dict[str, Any] | None, said: str
) -> None:
    is_check = cameras is None or cameras is EYES
    with pytest.raises(UserError) as refused:
        grasp(tmp_path, skill, **(cameras or {})) if is_check else look(tmp_path, skill, cameras or {})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
