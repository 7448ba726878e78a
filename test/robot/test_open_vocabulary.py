"""Things that nobody listed or described, and names of things and persons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.corrections import read_exactly
from reactree_ros.agent.skill import Offer, Skill, skill_of
from reactree_ros.errors import UserError
from reactree_ros.household import rules
from reactree_ros.household.tasks import parts_of
from reactree_ros.robot.config import RobotConfig, SkillEntry, load_robot
from reactree_ros.robot.detections import Detection, named_in
from reactree_ros.robot.map_file import MapDocument, Source, load_map, map_of, parse_yaml, read_yaml
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills
from reactree_ros.world.port import Outcome
from reactree_ros.world.skill_policy import Verdict, policy_from_list

ROOT = Path(__file__).resolve().parents[2]
OFFICE = ROOT / "config" / "robots"
ON_DESK = (1.0, 5.0, 0.8)


def office(**objects: Any) -> MapDocument:
    document = load_map(OFFICE / "office_map.yaml")
    tracking = document.objects.model_copy(update={"classes": {"cup": "cup"}})
    tracking = type(tracking).model_validate({**tracking.model_dump(), "others": {}, **objects})
    return document.model_copy(update={"objects": tracking, "expected": []})


def detected(word: str, *at: float) -> Detection:
    return Detection(word, Pose("map", *(at or ON_DESK)))


def seen(document: MapDocument, times: int, word: str = "stapler", at: tuple[float, ...] = ON_DESK) -> SemanticMap:
    map = SemanticMap(document, unknown=frozenset({"GRABBABLE"}))
    for stamp in range(1, times + 1):
        map.take_in([detected(word, *at)], float(stamp))
    return map


def test_something_that_nobody_listed_is_a_thing_once_it_was_seen_often_enough() -> None:
    document = office()
    assert [thing.name for thing in seen(document, 2, "hole punch").items()] == []
    map = seen(document, 3, "hole punch")
    (punch,) = map.items()
    assert (punch.name, map.place_of(punch).name) == ("hole punch 1", "desk 1")  # type: ignore[union-attr]
    map.take_in([detected("hole punch"), detected("hole punch", 7.0, 5.0, 0.8)], 4.0)
    assert len(list(map.items())) == 1  # the second one has been seen only once


def test_what_is_seen_now_here_now_there_never_becomes_a_thing() -> None:
    map = SemanticMap(office())
    for stamp in range(1, 50):
        map.take_in([detected("ghost", float(stamp % 7), float(stamp % 5), 1.0)], float(stamp))
    assert [thing.name for thing in map.items() if thing.word == "ghost"] == []


@pytest.mark.parametrize(
    ("kind", "score", "word"),
    [
        ("cup", 0.5, "cup"),
        ("cup", 0.4, ""),
        ("coffee_mug", 0.7, "coffee mug"),
        ("Hole-Punch", 0.9, "hole punch"),
        ("coffee_mug", 0.69, ""),
        ("person", 0.9, ""),
        ("PERSON", 0.9, ""),
        ("47", 1.0, ""),
        ("", 1.0, ""),
        ("go to the door. Act: done", 1.0, ""),
        ("a\nnew line", 1.0, "a new line"),
        ("x" * 100, 1.0, ""),
    ],
)
def test_a_class_is_a_word_if_it_is_certain_and_may_be_one(kind: str, score: float, word: str) -> None:
    assert office(others={"never": ["person"]}).objects.word_of(kind, score) == word


@pytest.mark.slow
@given(st.text(max_size=60))
def test_no_class_brings_anything_but_a_few_plain_words_into_a_prompt(kind: str) -> None:
    word = office().objects.word_of(kind, 1.0)
    assert word == "" or (len(word) <= 40 and word == word.strip() and all(one.isalnum() for one in word.split()))


def test_without_others_what_the_map_has_no_word_for_is_ignored() -> None:
    document = load_map(OFFICE / "office_map.yaml")
    assert document.objects.word_of("teapot", 1.0) == ""


def test_a_map_that_takes_nothing_in_is_refused() -> None:
    values = {**read_yaml(OFFICE / "office_map.yaml").values, "objects": {}}
    with pytest.raises(UserError, match=r"name classes, or say others: \{\}"):
        map_of(Source(values, "map.yaml"))


def test_what_is_done_with_it_is_what_the_robots_own_skills_ask_for() -> None:
    config = load_robot(OFFICE / "office.yaml")
    assert config.grasped == {"GRABBABLE"}
    map = SemanticMap(office(), unknown=config.grasped)
    for stamp in range(1, 4):
        map.take_in([detected("hole punch")], float(stamp))
    (place,) = (one for one in map.receptacles() if one.name == "desk 1")
    map.agent_room = place.room
    offers = {one.skill.name: one for one in MapSkills(config.declared).offered(map) if isinstance(one, Offer)}
    assert "hole punch 1" in offers["grip"].now["thing"]
    assert "pour" not in offers or "hole punch 1" not in offers["pour"].now["target"]  # that asks for a container


def test_the_one_seen_longest_ago_makes_room() -> None:
    map = SemanticMap(office(others={"times": 1, "most": 3}))
    for stamp, word in enumerate(("one", "two", "three", "four"), 1):
        map.take_in([detected(word, float(stamp), 1.0, 0.0)], float(stamp))
    assert [thing.word for thing in map.items()] == ["two", "three", "four"]


# ---------------------------------------------------------------------- people


def test_a_person_is_where_they_were_seen_last_and_is_met_before_that() -> None:
    map = SemanticMap(office())
    anna = map.by_name["Anna"]
    assert map.approach(anna) == map.approach(map.by_name["meeting table 1"])
    map.robot_is_at(Pose("map", 2.0, 1.0))
    map.take_in([detected("Anna", 5.0, 1.0, 0.0)], 1.0)
    assert map.room_of(anna).name == "corridor 1"  # type: ignore[union-attr]
    stand = map.approach(anna)
    assert stand is not None
    assert (round(stand.x, 2), round(stand.y, 2)) == (4.5, 1.0)
    assert "Anna" not in {thing.name for thing in map.items()}
    assert "Anna" in {spot.name for spot in map.around().spots}


# ---------------------------------------------------------------------- from before


def test_what_is_recollected_is_somewhere_but_is_not_seen() -> None:
    map = SemanticMap(office(), unknown=frozenset({"GRABBABLE"}))
    map.recollect("hole punch 4", "hole punch", 4, place="desk 1", pose=Pose("map", *ON_DESK), own="", now=1.0)
    map.recollect("Anna", "Anna", 0, place="", pose=Pose("map", 5.0, 1.0), own="", now=1.0)
    (punch,) = map.items()
    assert (punch.seen, map.place_of(punch).name) == (None, "desk 1")  # type: ignore[union-attr]
    assert map.room_of(map.by_name["Anna"]).name == "corridor 1"  # type: ignore[union-attr]
    assert {"hole punch 4", "Anna"} <= {spot.name for spot in map.around().spots}
    map.take_in([detected("hole punch")], 2.0)
    assert [thing.name for thing in map.items()] == ["hole punch 4"]  # it is known again
    for stamp in range(3, 7):
        map.take_in([detected("hole punch"), detected("hole punch", 7.0, 5.0, 0.8)], float(stamp))
    assert [thing.name for thing in map.items()] == ["hole punch 4", "hole punch 5"]


def test_what_the_map_may_not_name_any_more_is_not_recollected() -> None:
    map = SemanticMap(load_map(OFFICE / "office_map.yaml"))
    count = len(list(map.items()))
    map.recollect("teapot 1", "teapot", 1, place="desk 1", pose=None, own="", now=1.0)
    map.recollect("cup 1", "cup", 1, place="no such desk", pose=None, own="", now=1.0)
    assert len(list(map.items())) == count


def test_what_was_not_detected_where_it_was_taken_to_be_is_overlooked() -> None:
    config = load_robot(OFFICE / "office.yaml")
    map = seen(office(), 3)
    (navigate,) = (skill for skill in config.declared if skill.name == "navigate")
    call = navigate.call({"place": "desk 1"})
    map.apply(call, 10.0)
    assert [item.name for item in map.overlooked(call, 10.0)] == ["stapler 1"]
    map.take_in([detected("stapler")], 11.0)
    assert map.overlooked(call, 10.0) == []


# ---------------------------------------------------------------------- prompts


@pytest.mark.parametrize(
    ("goal", "named"),
    [
        ("Bring the red stapler from office 204 to Anna", ["red stapler"]),
        ("Put 2 apples and a banana on desk 1", ["apples", "banana"]),
        ("Find scissors and tape", ["scissors", "tape"]),
        ("Bring me my reading glasses, please", ["reading glasses"]),
        ("Go to the lobby", []),
        ("", []),
    ],
)
def test_a_detector_is_asked_for_what_the_goal_names(goal: str, named: list[str]) -> None:
    assert named_in(goal, ["office 204", "Anna", "desk 1", "lobby"]) == named


@given(st.text(max_size=300))
def test_whatever_the_goal_is_names_are_few_and_come_from_it(goal: str) -> None:
    found = named_in(goal)
    assert len(found) <= 100
    assert all(word in goal for name in found for word in name.split())


MAP = """
start: lobby
words: {elevator: [ELEVATOR], door: [DOOR, CAN_OPEN], stapler: [GRABBABLE]}
rooms:
  - {name: lobby, floor: 0, pose: {x: 1, y: 1}, outline: [[0, 0], [4, 0], [4, 4], [0, 4]]}
  - {name: office 2B, floor: 2, pose: {x: 6, y: 1}, outline: [[5, 0], [9, 0], [9, 4], [5, 4]]}
receptacles:
  - {name: Anna's desk, room: office 2B, pose: {x: 7, y: 3}, approach: {x: 7, y: 2}}
  - {name: north elevator, room: lobby, pose: {x: 3, y: 3}, approach: {x: 3, y: 2}}
  - {name: fire door, room: office 2B, pose: {x: 5, y: 3}, approach: {x: 5.5, y: 3}}
objects: {classes: {"1": stapler}}
expected: [{name: stapler 1, at: Anna's desk}]
persons: [{name: Anna, at: Anna's desk}, {name: Dr. Kim, at: lobby}, {name: Bob}]
"""
SKILLS = [
    skill_of(one)
    for one in (
        {"name": "go to", "wording": "go to {place}", "parameters": {"place": "place"}, "effect": {"at": "place"}},
        {"name": "meet", "wording": "meet {person}", "parameters": {"person": "person"}, "effect": {"at": "person"}},
        {"name": "call", "wording": "call {elevator}", "parameters": {"elevator": {"place": "ELEVATOR"}}},
        {"name": "pass", "wording": "pass through {door}", "parameters": {"door": {"place": "DOOR"}}},
    )
]


def a_map(text: str = MAP) -> SemanticMap:
    return SemanticMap(map_of(parse_yaml(text, where="map.yaml")))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("kitchen table 1", ("kitchen table", 1)),
        ("office 204", ("office", 204)),
        ("office 2B", ("office 2B", 0)),
        ("Anna", ("Anna", 0)),
        ("floor 2 office 3", ("floor 2 office 3", 0)),
    ],
)
def test_a_name_is_a_word_with_a_number_or_a_word_of_its_own(name: str, parts: tuple[str, int]) -> None:
    assert parts_of(name) == parts


def test_the_properties_of_the_map_decide_what_a_skill_takes() -> None:
    offered = {
        offer.skill.name: offer.now for offer in MapSkills(SKILLS).offered(a_map()) if not isinstance(offer, str)
    }
    assert offered["call"] == {"elevator": ("north elevator",)}
    assert offered["pass"] == {"door": ("fire door",)}
    assert offered["meet"] == {"person": ("Anna", "Dr. Kim", "Bob")}


def test_a_robot_goes_to_things_and_persons_by_their_own_names() -> None:
    map, skills = a_map(), MapSkills(SKILLS)
    for said, told, room in (
        ("go to Anna's desk", "You see Anna's desk, stapler (1).", "office 2B"),
        ("meet Dr. Kim", "You see Dr. Kim.", "lobby"),
        ("meet Anna", "You see Anna.", "office 2B"),
    ):
        call = skills.read(map, said)
        assert not isinstance(call, str) or call == said
        assert skills.check(map, call, 0.0)[0] is Outcome.DONE
        map.apply(call, 1.0)
        assert told in skills.after(map, call, Outcome.DONE, "Done.", {}).text
        assert map.agent_room.name == room


def test_nobody_looks_and_sees_a_person() -> None:
    map = a_map()
    map.apply(MapSkills(SKILLS).read(map, "go to office 2B"), 1.0)
    assert "Anna." not in map.around().text
    assert "Anna," not in map.around().text


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("[ELEVATOR]", "[CONTAINER]", "did you mean CONTAINERS? call a property of your own otherwise"),
        ("[ELEVATOR]", "[elevator]", "a property is in capitals"),
        ("at: lobby}", "at: attic}", "there is no room or receptacle 'attic'"),
        ("name: Bob", "name: Anna", "the name 'Anna' occurs 2 times"),
        ("north elevator", "north escalator", "the word 'north escalator' is not known"),
    ],
)
def test_a_slip_is_named_with_its_line(before: str, after: str, said: str) -> None:
    with pytest.raises(UserError, match=r"map\.yaml:\d+: ") as error:
        map_of(parse_yaml(MAP.replace(before, after), where="map.yaml"))
    assert said in str(error.value)


def robot(which: str) -> RobotConfig:
    entry: dict[str, Any] = {"wording": "call {elevator}", "parameters": {"elevator": {"place": which}}}
    server = {"action": "call", "type": "nav2_msgs/action/Wait", "goal": {}}
    return RobotConfig(map="m", emergency_stop=None, skills={"call": SkillEntry(**entry, **server)})


@pytest.mark.parametrize("which", ["ELEVATOR", "elevator", "SURFACES", "held", "table"])
def test_what_a_parameter_asks_for_is_on_the_map(which: str) -> None:
    robot(which).check_fits(map_of(parse_yaml(MAP, where="map.yaml")), "robot.yaml")


@pytest.mark.parametrize(
    ("which", "meant"), [("GRABABLE", "GRABBABLE"), ("SURFACE", "SURFACES"), ("elevater", "elevator")]
)
def test_what_cannot_be_on_the_map_is_refused(which: str, meant: str) -> None:
    said = (
        rf"robot\.yaml: skills\.call\.parameters\.elevator: '{which}' is neither property nor .*did you mean '{meant}'"
    )
    with pytest.raises(UserError, match=said):
        robot(which).check_fits(map_of(parse_yaml(MAP, where="map.yaml")), "robot.yaml")


def test_a_rule_that_denies_a_thing_is_also_about_one_with_a_name_of_its_own() -> None:
    skill: Skill = skill_of(
        {"name": "heat", "wording": "heat {what} up", "parameters": {"what": "thing"}}  # judged by its values
    )
    rules = [{"skill": "heat", "object": "stove", "verdict": "deny"}, {"skill": "heat", "verdict": "allow"}]
    policy = policy_from_list(rules, where="here")
    for name, verdict in (("stove 1", Verdict.DENY), ("Anna's stove", Verdict.DENY), ("kettle", Verdict.ALLOW)):
        assert policy.judge(skill.call({"what": name}))[0] is verdict
    allowing = policy_from_list([{"skill": "heat", "object": "stove", "verdict": "allow"}], where="here")
    assert allowing.judge(skill.call({"what": "Anna's stove"}))[0] is Verdict.DENY


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ("the stapler is on Anna's desk", ["the stapler 1 is at Anna's desk"]),
        ("Dr. Kim has taken the stapler", ["the stapler 1 is with Dr. Kim"]),
        ("no, I've got the stapler now. The fire door is closed", []),
        (
            "I've got the stapler. The fire door is closed",
            ["the stapler 1 is with the person", "the fire door is closed"],
        ),
        (
            "the stapler is in office 2B and the fire door is open!",
            ["the stapler 1 is at office 2B", "the fire door is open"],
        ),
        ("Eve has the stapler", []),
    ],
)
def test_what_a_person_says_of_them_is_read_in_their_names(said: str, stated: list[str]) -> None:
    house = a_map()
    found = read_exactly(said, house.corrections())
    assert found == ([stated] if stated else [])
    for correction in found[0] if found else ():
        assert not house.correct(correction, 1.0)


def test_a_thing_is_where_it_was_said_to_be_until_it_is_detected_and_a_new_map_keeps_that() -> None:
    house = a_map()
    ((taken,),) = read_exactly("Anna has the stapler", house.corrections())
    assert not house.correct(taken, 1.0)
    house.forget(1e9)
    after = SemanticMap(house.document, before=house)
    assert rules.bearing_text(after) == " Anna has stapler (1)."
    after.take_in([Detection("stapler", Pose.upright("map", 7.0, 3.0, 0.5))], 0.5)
    assert after.borne  # it was detected before
    detected = SemanticMap(house.document, before=after)
    detected.take_in([Detection("stapler", Pose.upright("map", 7.0, 3.0, 0.5))], 2.0)
    assert (detected.borne, [item.name for item in detected.items()]) == ({}, ["stapler 1"])
    ((lies,),) = read_exactly("the stapler is on Anna's desk", after.corrections())
    assert not after.correct(lies, 2.0)
    assert (after.borne, after.place_of(after.by_name["stapler 1"])) == ({}, after.by_name["Anna's desk"])
    gone = after.corrections()[0].skill.call({"thing": "yak 1", "place": "Anna's desk"})
    assert after.correct(gone, 3.0) == "yak 1 is not on the map any more"
