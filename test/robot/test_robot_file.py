"""What robot.yaml says of conditions, triggers and pictures."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.blocks import ROOT, blocks_of

from reactree_ros.agent.picture import PictureCheck
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import model_from_dict
from reactree_ros.robot.config import LOOK_TIME, PICTURE_TIME, RobotConfig, SkillEntry, load_robot
from reactree_ros.robot.triggers import Occasions, TriggerEntry

OFFICE = Path(__file__).parents[2] / "config/robots/office.yaml"
PAPER = {"wording": "the printer is out of paper", "topic": "/paper", "holds": False}


def office(folder: Path, **more: Any) -> RobotConfig:
    values = yaml.safe_load(OFFICE.read_text())
    for section in ("conditions", "triggers", "battery"):
        values.pop(section, None)
    (folder / "robot.yaml").write_text(yaml.safe_dump({**values, **more}))
    return load_robot(folder / "robot.yaml")


def trigger(**values: Any) -> TriggerEntry:
    return TriggerEntry(instruction="Refill the printer", **values)


def test_with_conditions_it_waits_for_any_of_them(tmp_path: Path) -> None:
    (wait,) = office(tmp_path, conditions={"no paper": PAPER}).waits
    assert wait.read("wait until the printer is out of paper for up to 20 s").values == {
        "condition": "the printer is out of paper",
        "seconds": 20,
    }
    with pytest.raises(ValueError, match="condition: 'it rains' may not stand here"):
        wait.read("wait until it rains for up to 20 s")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"conditions": {"a": PAPER, "b": PAPER}}, "name options that differ in their words"),
        ({"conditions": {"a": {**PAPER, "wording": "a\nb"}}}, "say it in one line"),
        ({"conditions": {"a": {**PAPER, "wording": "{x}"}}}, "say it in one line"),
        ({"conditions": {"a": PAPER}, "triggers": {"t": {"instruction": "x", "when": "aa"}}}, "did you mean 'a'"),
        ({"triggers": {"t": {"instruction": "x", "when": "a"}}}, "'a' is none of the conditions; there are none"),
        ({"triggers": {"t": {"instruction": "x"}}}, "say one of when, at and every"),
        ({"triggers": {"t": {"instruction": "x", "at": "8:00", "every": 5}}}, "say one of when, at and every"),
        ({"triggers": {"t": {"instruction": "x", "at": "25:00"}}}, "'25:00' is not a time"),
        ({"triggers": {"t": {"instruction": "x", "at": "noon"}}}, "'noon' is not a time"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "days": ["mon"]}}}, "days are for a trigger with at"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "again": 5}}}, "again is for a trigger with when"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "limits": {"max_step": 5}}}}, "did you mean 'max_steps'"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "limits": {"max_steps": 1.5}}}}, "a whole number"),
        ({"triggers": {"t": {"instruction": "x", "every": 0}}}, "greater than 0"),
        (
            {"battery": {"topic": "/b", "least": 0.1, "charge": {"below": 0.1, "skill": "say x", "until": 0.8}}},
            "charge.below is 0.1; it must be more than least, 0.1",
        ),
        (
            {"battery": {"topic": "/b", "least": 0.1, "charge": {"below": 0.2, "skill": "say x", "until": 0.2}}},
            "until is 0.2; it must be more than below, 0.2",
        ),
        (
            {"battery": {"topic": "/b", "least": 0.1, "charge": {"below": 0.2, "skill": "dok", "until": 0.8}}},
            "battery.charge.skill: 'dok' is not a skill",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_way_out(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        office(tmp_path, **more)
    assert said in str(refused.value)
    assert "robot.yaml:" in str(refused.value)
    assert "\n" not in str(refused.value)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def due_at(entry: TriggerEntry, begin: str, end: str) -> list[str]:
    occasions, found = Occasions(entry, at(begin)), []
    for now in range(int(at(begin)), int(at(end)), 60):
        if occasions.due(now):
            found.append(datetime.fromtimestamp(now).isoformat(" ", "minutes"))
    return found


@pytest.mark.parametrize("written", ["at: 18:30", 'at: "18:30"', "at: '18:30'"])
def test_a_time_of_day_is_due_once_a_day_however_yaml_reads_it(written: str) -> None:
    entry = trigger(**yaml.safe_load(written))
    assert due_at(entry, "2026-11-26 18:00", "2026-11-28 18:00") == ["2026-11-26 18:30", "2026-11-27 18:30"]


def test_days_and_single_moments() -> None:
    entry = trigger(at="08:00", days=["mon", "fri"])
    assert due_at(entry, "2026-11-26 00:00", "2026-12-02 00:00") == ["2026-11-27 08:00", "2026-11-30 08:00"]
    once = trigger(**yaml.safe_load("at: 2026-11-27 09:00:00"))
    assert due_at(once, "2026-11-26 00:00", "2026-12-02 00:00") == ["2026-11-27 09:00"]
    assert due_at(once, "2026-11-28 00:00", "2026-12-02 00:00") == []


def test_a_schedule_counts_anew_where_the_clock_is_set_back() -> None:
    occasions = Occasions(trigger(every=600), 1000.0)
    assert [now for now in range(1000, 3000, 100) if occasions.due(now)] == [1600, 2200, 2800]
    assert [now for now in range(0, 1000, 100) if occasions.due(now)] == [600]


@pytest.mark.parametrize(
    ("again", "holds", "due"),
    [
        (0, [None, True, True, None, True, False, True], [1, 6]),
        (0, [False, None, True], [2]),
        (2, [True, True, True, True, False, False], [0, 3]),
    ],
)
def test_a_condition_is_an_occasion_when_it_begins_to_hold(
    again: float, holds: list[bool | None], due: list[int]
) -> None:
    occasions, found = Occasions(trigger(when="no paper", again=again), 0.0), []
    for now, one in enumerate(holds):
        if occasions.due(now, one):
            found.append(now)
            occasions.ended(now + 1, stopped=False)
    assert found == due


def test_what_a_person_has_stopped_waits_for_a_new_occasion_and_what_was_refused_does_not() -> None:
    occasions = Occasions(trigger(when="no paper", again=1), 0.0)
    assert occasions.due(0, True)
    occasions.ended(1, stopped=True)
    assert not any(occasions.due(now, True) for now in range(2, 9))
    occasions.due(9, False)
    assert occasions.due(10, True)
    occasions.refused(10, 5)
    assert [now for now in range(11, 20) if occasions.due(now, True)] == [15]


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
def test_a_picture_that_makes_no_sense_is_refused_with_the_way_out(
    tmp_path: Path, skill: dict[str, Any], cameras: dict[str, Any] | None, said: str
) -> None:
    is_check = cameras is None or cameras is EYES
    with pytest.raises(UserError) as refused:
        grasp(tmp_path, skill, **(cameras or {})) if is_check else look(tmp_path, skill, cameras or {})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_skills_are_told_apart_however_far_their_first_words_go(tmp_path: Path) -> None:
    def inspect(wording: str, **parameters: Any) -> dict[str, Any]:
        return {"wording": wording, "parameters": parameters, "service": "s", "type": "std_srvs/srv/Trigger"}

    shelf, of_choice = inspect("inspect shelf 7"), inspect("inspect {what}", what=["shelf 7", "shelf 8"])
    for pair in ((shelf, of_choice), (of_choice, shelf)):
        with pytest.raises(UserError, match="may be skill 'one', too"):
            office(tmp_path, skills=dict(zip(("one", "other"), pair, strict=True)))
