"""Checks by a picture in `robot.yaml`: what they become, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.blocks import blocks_of

from reactree_ros.agent.picture import PictureCheck
from reactree_ros.errors import UserError
from reactree_ros.llm.settings import model_from_dict
from reactree_ros.robot.config import LOOK_TIME, RobotConfig, load_robot

CONFIG = Path(__file__).parents[2] / "config/robots/office.yaml"
VISION: dict[str, Any] = {"llm": "openai", "model": "eyes"}
GRASP: dict[str, Any] = {
    "wording": "grasp {item}",
    "parameters": {"item": "thing"},
    "effect": {"held": "item"},
    "action": "gripper",
    "type": "nav2_msgs/action/DummyBehavior",
}


def robot(folder: Path, check: Any, vision: Any = VISION) -> RobotConfig:
    values = yaml.safe_load(CONFIG.read_text()) | {"cameras": {"hand": "/hand/compressed"}}
    values["skills"]["grasp"] = {**GRASP, "check": check}
    text = yaml.safe_dump(values | ({} if vision is None else {"vision": vision}))
    (folder / "robot.yaml").write_text(text.replace("'no'", "no"))  # as a person writes it
    return load_robot(folder / "robot.yaml")


def test_a_check_has_the_topic_of_its_camera_and_time_for_its_looks(tmp_path: Path) -> None:
    said = {"camera": "hand", "question": "Is {item} on the table?", "answer": "no", "looks": 3, "necessary": True}
    grasp = robot(tmp_path, said).skills["grasp"]
    (check,) = grasp.check
    assert (check.kind, check.server, check.time_limit) == ("camera", "/hand/compressed", LOOK_TIME)
    assert check.by_picture == PictureCheck("Is {item} on the table?", "no", True, 3, "hand")
    assert check.by_picture.asked({"item": "apple 1"}) == "Is apple 1 on the table?"
    assert not grasp.takes_pictures, "the skill itself brings none"


def test_the_check_of_the_page_is_a_robots(tmp_path: Path) -> None:
    blocks = blocks_of(CONFIG.parents[2] / "docs/how-to/let-the-model-look.md")
    *_, page = [yaml.safe_load(block.text) for block in blocks if block.language == "yaml"]
    values = yaml.safe_load(CONFIG.read_text()) | {"cameras": page["cameras"], "vision": page["vision"]}
    values["skills"] |= page["skills"]
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump(values))
    (check,) = load_robot(tmp_path / "robot.yaml").skills["grip"].check
    assert check.by_picture == PictureCheck("Is {thing} in the gripper?", looks=3, camera="hand")
    model_from_dict(page["vision"], where="the page")


ASKED = {"camera": "hand", "question": "Is {item} in the gripper?"}


@pytest.mark.parametrize(
    ("check", "vision", "said"),
    [
        (ASKED, None, "skills.grasp: check: nobody looks at pictures; name the vision, or check otherwise"),
        ({"camera": "hand"}, VISION, "say with question what the picture is to show"),
        ({**ASKED, "camera": "hnd"}, VISION, "camera 'hnd' is none of the cameras; did you mean 'hand'"),
        ({**ASKED, "question": "Is {itm} there?"}, VISION, "has another place-holder than {item}"),
        ({**ASKED, "answer": "perhaps"}, VISION, "answer"),
        ({**ASKED, "looks": 0}, VISION, "looks"),
        ({"seen": "item", "question": "Is it there?"}, VISION, "question is about a picture; name its camera"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused_with_the_way_out(
    tmp_path: Path, check: dict[str, Any], vision: Any, said: str
) -> None:
    with pytest.raises(UserError) as refused:
        robot(tmp_path, check, vision)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
