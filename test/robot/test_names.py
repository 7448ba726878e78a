"""Names as people have them on a map: rooms, persons, furniture, doors and elevators; properties of one's own."""

from __future__ import annotations

from typing import Any

import pytest

from reactree_ros.agent.corrections import read_exactly
from reactree_ros.agent.skill import Skill, skill_of
from reactree_ros.errors import UserError
from reactree_ros.household import rules
from reactree_ros.household.tasks import parts_of
from reactree_ros.robot.config import RobotConfig, SkillEntry
from reactree_ros.robot.detections import Detection
from reactree_ros.robot.map_file import map_of, parse_yaml
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills
from reactree_ros.world.port import Outcome
from reactree_ros.world.skill_policy import Verdict, policy_from_list

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
    said = rf"robot\.yaml: skills\.call\.parameters\.elevator: '{which}' is no property .*did you mean '{meant}'"
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
