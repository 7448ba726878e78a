"""The semantic map and robot.yaml: what is refused, which object is which, what is near the robot, what it may do."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from reactree_ros.agent.observation import Spot
from reactree_ros.agent.skill import SkillCall
from reactree_ros.errors import UserError
from reactree_ros.household.household import SKILLS
from reactree_ros.robot.config import SkillEntry, error_code, load_robot
from reactree_ros.robot.detections import Detection, Stamps
from reactree_ros.robot.map_file import Source, load_map, map_of, notes_of, parse_yaml, read_yaml
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import HouseholdSkills
from reactree_ros.world.port import Outcome

CONFIG = Path(__file__).parents[2] / "config"
HOUSE = HouseholdSkills(SKILLS)
ON_TABLE, IN_FRIDGE, ON_FLOOR = (7.6, 3.1, 0.8), (9.6, 1.0, 0.9), (8.5, 2.0, 0.05)


@pytest.fixture
def map() -> SemanticMap:
    values = yaml.safe_load((CONFIG / "semantic_map.yaml").read_text())
    return SemanticMap(map_of(Source(values | {"expected": []}, "map")))


def see(map: SemanticMap, stamp: float, *seen: tuple[str, tuple[float, float, float]]) -> None:
    map.take_in([Detection(word, Pose("map", *at)) for word, at in seen], stamp)


def do(map: SemanticMap, skill: str, now: float = 1.0) -> str:
    """Do a skill as where the robot's server reports success; returns the observation's text."""
    call = HOUSE.read(map, skill)
    assert isinstance(call, SkillCall), call
    outcome, words = HOUSE.check(map, call, now)
    if outcome is Outcome.DONE:
        map.apply(call, now)
    return HOUSE.after(map, call, outcome, words, {}).text


def call_of(verb: str, thing: str) -> SkillCall:
    return next(skill for skill in SKILLS if skill.verb == verb).call({"thing": thing})


def grasp_of(name: str = "apple 1") -> SkillCall:
    return call_of("pick up", name)


def names(map: SemanticMap) -> dict[str, str]:
    return {item.name: place.name if (place := map.place_of(item)) else "" for item in map.items()}


# ---------------------------------------------------------------------- files


def test_the_examples_are_right() -> None:
    assert len(load_map(CONFIG / "semantic_map.yaml").rooms) == 5
    assert load_robot(CONFIG / "robot.yaml").of_household == {skill.name for skill in SKILLS}
    for robot in sorted(CONFIG.glob("robots/*[!p].yaml")):  # the others are their maps
        config = load_robot(robot)
        assert load_map(config.map).objects.classes
        assert config.start or not config.of_household, robot


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("start",), "attic 1", "start: there is no room 'attic 1'; there are living room 1, kitchen 1"),
        (("rooms", 0, "name"), "kitchen (1)", "rooms.0.name: a name is words of letters and digits"),
        (("rooms", 0, "name"), "KITCHEN 1", "rooms.1.name: the name 'kitchen 1' occurs 2 times"),
        (("rooms", 0, "outline"), [[0, 0]], "rooms.0.outline: list should have at least 3 items"),
        (("receptacles", 0, "room"), "attic 1", "receptacles.0.room: there is no room 'attic 1'"),
        (
            ("receptacles", 0, "name"),
            "tabel 1",
            "receptacles.0.name: the word 'tabel' is not known; use one of `reactree list words`, or describe it under "
            "words, e.g. words: {tabel: [SURFACES]}, or [CONTAINERS] where things are put into it",
        ),
        (
            ("receptacles", 0, "name"),
            "dining table 1",
            "receptacles.0.name: the word 'dining table' is not known; use 'kitchen table', or another one of "
            "`reactree list words`, or describe it under words, e.g. words: {dining table: [SURFACES]}",
        ),
        (
            ("receptacles", 0, "name"),
            "shelf 1",
            "receptacles.0.name: nothing can be put on or in 'shelf', and it is neither opened nor switched; describe "
            "it under words, e.g. words: {shelf: [SURFACES]}",
        ),
        (("receptacles", 0, "open"), True, "receptacles.0.open: a coffee table cannot be opened"),
        (("receptacles", 0, "turned_on"), True, "receptacles.0.turned_on: a coffee table has no switch"),
        (("receptacles", 0, "pose"), {"x": 1.0}, "receptacles.0.pose.y: field required"),
        (("receptacles", 0, "pose"), {"x": math.nan, "y": 0}, "receptacles.0.pose.x: input should be a finite number"),
        (("receptacles", 0, "size"), [1, 1, 0], "receptacles.0.size.2: input should be greater than 0, not '0'"),
        (
            ("objects", "classes"),
            {"a": "aple"},
            "objects.classes.a: the word 'aple' is not known; use 'apple', or another one of `reactree list words`, or "
            "describe it under words, e.g. words: {aple: [GRABBABLE]}",
        ),
        (
            ("objects", "classes"),
            {"a": "water bottle"},  # the bottled water of VirtualHome cannot be picked up
            "objects.classes.a: the word 'water bottle' is not known; use one of `reactree list words`, or describe it "
            "under words, e.g. words: {water bottle: [GRABBABLE]}",
        ),
        (("objects", "min_score"), 2, "objects.min_score: input should be less than or equal to 1, not '2'"),
        (("expected",), [{"name": "apple 1", "at": "shelf 9"}], "expected.0.at: there is no receptacle 'shelf 9'"),
    ],
)
def test_a_map_that_is_wrong_is_refused_in_one_line(path: tuple[Any, ...], value: object, said: str) -> None:
    values = yaml.safe_load((CONFIG / "semantic_map.yaml").read_text())
    at = values
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(UserError) as error:
        map_of(Source(values, "map.yaml"))
    assert str(error.value).startswith(f"map.yaml: {said}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("properties", [[], ["GRABBABLE"]])
def test_a_receptacle_of_a_word_of_ones_own_has_to_take_things_or_be_operated(properties: list[str]) -> None:
    text = LINES.replace("desk 1", "sideboard 1")
    with pytest.raises(UserError, match=r"^map\.yaml:9: receptacles\.0\.name: nothing can be put on or in 'sideboard'"):
        map_of(parse_yaml(f"{text}words: {{sideboard: {properties}}}\n", where="map.yaml"))
    for use in ("SURFACES", "CONTAINERS", "HAS_SWITCH"):
        assert map_of(parse_yaml(f"{text}words: {{sideboard: [{use}]}}\n", where="map.yaml")).properties("sideboard")


def test_where_a_robot_would_stand_outside_of_the_room_is_noted() -> None:
    source = parse_yaml(LINES.replace("approach: {x: 1, y: 1}", "approach: {x: 10.4, y: 1}"), where="map.yaml")
    assert notes_of(map_of(source), source) == [
        "map.yaml:15: receptacles.0.approach: (10.4, 1) is in no room, by the outlines, not in hall 1"
    ]
    values = yaml.safe_load((CONFIG / "semantic_map.yaml").read_text())
    values["rooms"][0]["pose"] = {"x": 7.5, "y": 2.0}
    values["receptacles"][0]["approach"] = {"x": 10.4, "y": 2.0, "frame": "base_link"}  # nobody knows where that is
    source = Source(values, "map")
    assert notes_of(map_of(source), source) == [
        "map: rooms.0.pose: (7.5, 2) is in kitchen 1, by the outlines, not in living room 1"
    ]


@pytest.mark.parametrize("file", sorted(CONFIG.rglob("*map.yaml")), ids=lambda file: file.name)
def test_in_the_maps_that_come_with_the_package_a_robot_stands_where_it_should(file: Path) -> None:
    source = read_yaml(file)
    assert notes_of(map_of(source), source) == []


OWN = (
    "{map: m, emergency_stop: null, skills: {a: {wording: 'a {n}', "
    "parameters: {n: {number: {from: 1, to: 9, unit: m}}}, ENTRY}}}"
)
#: What is wrong in the entry of a skill that takes a number of metres, `n`, and how that is said.
WRONG = [
    ("action: b, publish: c, type: d", ": name one of action, service, publish, wait_for, camera, steps"),
    ("publish: c", ": name the type of c, such as type: std_msgs/msg/String"),
    ("publish: c, type: d, success: {e: 1}", ": publish has no success; leave it out"),
    ("wait_for: c, type: d", ": say with success what is waited for on c, such as success: {data: true}"),
    ("wait_for: c, type: d, success: {e: 1}, lasting: 3", ": wait_for has no lasting; leave it out"),
    ("wait_for: c, type: d, success: {e: {abov: 1}}", ".success.e.Range.abov: there is no setting"),
    ("action: b, type: d, time_limit: soon", ".time_limit: write seconds, or the parameter that says them"),
    ("action: b, type: d, time_limit: 0", ".time_limit: a time has to be more than 0 s"),
    ("action: b, type: d, time_limit: '{n}'", ": a time cannot be '{n}': its parameters in s are none"),
    ("steps: [{action: b, type: d}], retries: 1", ": steps has no retries; leave it out"),
    ("steps: [{action: b, type: d, check: {gone: n}}]", ": steps: what is detected is looked at when all is done"),
    (
        "steps: [{action: b, tipe: d}]",
        ".steps.0.tipe: there is no setting 'skills.a.steps.0.tipe'; did you mean 'type'",
    ),
    ("action: b, type: d, check: {publish: c}", ".check.0: name one of service, wait_for, seen, gone"),
    ("action: b, type: d, check: {gone: m}", ": check.gone: 'm' is not a parameter; use one of n"),
    ("action: b, type: d, check: {gone: n}", ": check: nothing is detected; name the detections, or check otherwise"),
    ("action: b, type: d, cancel: {wait_for: c}", ".cancel: name one of action, service, publish"),
    ("camera: head, type: d", ": camera has no type; leave it out"),
    ("steps: [{camera: head, success: {e: 1}}]", ".steps.0: camera has no success; leave it out"),
]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("a: [", "is not YAML: while parsing"),
        ("[]", "the document: there are no names; write names with values"),
        ("map: m.yaml", "skills: field required"),
        ("skills: {go to: {type: a, action: b}}", "the document: name either a map or a map_topic"),
        (
            "{map: m, emergency_stop: null, skills: {fly to: {type: a, action: b}}}",
            "skills.fly to: a skill of the robot's own needs a wording",
        ),
        (
            "{map: m, emergency_stop: null, skills: {fly: {type: a, action: b, wording: 'fly {x}'}}}",
            "skills.fly: 'fly {x}' has another place-holder than none",
        ),
        (
            "{map: m, emergency_stop: null, skills: {a: {type: b, action: c, wording: 'a {x}', parameters: {x: nmb}}}}",
            "skills.a: parameters.x: 'nmb' is not a kind of parameter; name one of",
        ),
        (
            "{map: m, emergency_stop: null, skills: {fly: {type: a, action: b, wording: fly, effect: {hold: x}}}}",
            "skills.fly: effect: 'hold' is not an effect; did you mean 'held'?",
        ),
        (
            "{map: m, emergency_stop: null, skills: {fly: {type: a, action: b, wording: fly, returns: {x: text}}}}",
            "skills.fly: result has to name a field for each of returns: x",
        ),
        (
            "{map: m, skills: {open: {type: a}}}",
            "skills.open: name one of action, service, publish, wait_for, camera, steps",
        ),
        *((OWN.replace("ENTRY", entry), f"skills.a{said}") for entry, said in WRONG),
        ("{map: m, skills: {open: {type: a, action: b, retries: 99}}}", "skills.open.retries: input should be less"),
        ("{map: m, skills: {open: {type: a, action: b, outcomes: {3: sad}}}}", "skills.open.outcomes.3: use one"),
        ("{map: m, hands: 3, skills: {open: {type: a, action: b}}}", "hands: input should be less than or equal to 2"),
    ],
)
def test_a_robot_that_is_wrong_is_refused_in_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "robot.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError) as error:
        load_robot(file)
    assert str(error.value).startswith(f"{file}: {said}" if text is None else f"{file}:1: {said}")
    assert "\n" not in str(error.value)


def test_a_wrong_key_or_verb_of_a_skill_says_what_was_meant_and_where_own_skills_are_declared(tmp_path: Path) -> None:
    file = tmp_path / "robot.yaml"
    for entry, said in (
        ("dock: {acton: a, type: b, wording: dock}", "did you mean 'action'? There are action, service, publish, "),
        ("pick upp: {action: a, type: b}", "did you mean 'pick up'?"),
    ):
        file.write_text(f"{{map: m, emergency_stop: null, skills: {{{entry}}}}}")
        with pytest.raises(UserError) as error:
            load_robot(file)
        assert said in str(error.value)
        assert "see config/robots/office.yaml" in str(error.value)


def test_a_part_that_a_households_skill_has_already_is_not_declared_anew(tmp_path: Path) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text("{map: m, emergency_stop: null, skills: {open: {action: a, type: b, effect: {open: thing}}}}")
    with pytest.raises(UserError, match="'open' is a skill of a household and has its effect; to say another, give"):
        load_robot(file)


LINES = """\
frame: map
start: hall 1
rooms:
  - name: hall 1
    pose: {x: 1, y: 1}
    outline: [[0, 0], [2, 0], [2, 2]]
    own: hall
receptacles:
  - name: desk 1
    room: hall 1
    own: desk
    pose:
      x: 1.0
      y: 0.5
    approach: {x: 1, y: 1}
objects:
  classes:
    apple: apple
"""


@pytest.mark.parametrize(
    ("this", "is_that", "said"),
    [
        ("      y: 0.5", "      y: here", "map.yaml:14: receptacles.0.pose.y: input should be a valid number"),
        ("      y: 0.5\n", "", "map.yaml:12: receptacles.0.pose.y: field required"),
        ("    room: hall 1", "    room: hall 2", "map.yaml:10: receptacles.0.room: there is no room 'hall 2'"),
        ("    own: desk", "    owm: desk", "map.yaml:11: receptacles.0.owm: there is no setting"),
        ("name: desk 1", "name: hall 1", "map.yaml:9: receptacles.0.name: the name 'hall 1' occurs 2 times"),
        ("own: desk", "own: hall", "map.yaml:11: receptacles.0.own: the robot's own name 'hall' occurs 2 times"),
        ("    apple: apple", "    7: aple", "map.yaml:18: objects.classes.7: the word 'aple' is not known"),
        ("start: hall 1", "start: hall 1\nframe: odom", "map.yaml:3: 'frame' is there 2 times; leave one"),
        ("      x: 1.0", "      x: [1.0", "map.yaml:14: is not YAML: while parsing a flow sequence"),
    ],
)
def test_an_error_names_line_and_field(this: str, is_that: str, said: str) -> None:
    assert LINES.count(this) == 1
    with pytest.raises(UserError) as error:
        map_of(parse_yaml(LINES.replace(this, is_that), where="map.yaml"))
    assert str(error.value).startswith(said)
    assert map_of(parse_yaml(LINES, where="map.yaml")).rooms[0].own == "hall"


def test_a_file_that_refers_to_itself_is_refused_and_not_followed_for_ever() -> None:
    with pytest.raises(UserError, match=r"map\.yaml:?\d*: .*"):
        map_of(parse_yaml("rooms: &a [*a]", where="map.yaml"))


def test_no_robot_says_which_parameter_names_one() -> None:
    with pytest.raises(UserError, match="parameter robot_config is empty; name a file like"):
        load_robot("")


def test_words_that_nobody_knows_can_be_described() -> None:
    values = yaml.safe_load((CONFIG / "semantic_map.yaml").read_text())
    values["words"] = {"dog bowl": ["GRABBABLE"]}
    values["objects"]["classes"] = {17: "dog bowl"}
    map = SemanticMap(map_of(Source(values, "map")))
    see(map, 1.0, ("dog bowl", ON_TABLE))
    do(map, "go to kitchen table 1")
    assert do(map, "pick up dog bowl 1") == "You pick up dog bowl. You hold dog bowl (1)."


@pytest.mark.parametrize(
    ("type", "code", "name", "outcome"),
    [
        ("nav2_msgs/action/NavigateToPose", 208, "NO_VALID_PATH", Outcome.EXECUTION),
        ("nav2_msgs/action/NavigateToPose", 204, "GOAL_OUTSIDE_MAP", Outcome.PRECONDITION),
        ("nav2_msgs/action/NavigateToPose", 107, "CONTROLLER_TIMED_OUT", Outcome.TIMEOUT),
        ("nav2_msgs/action/NavigateToPose", 202, "COMPUTE_PATH_TF_ERROR", Outcome.WORLD_UNAVAILABLE),
        ("nav2_msgs/action/NavigateToPose", 105, "FAILED_TO_MAKE_PROGRESS", Outcome.CANCELED),
        ("vendor_msgs/action/Pick", 208, "", Outcome.EXECUTION),
        ("vendor_msgs/action/Pick", 7, "", Outcome.POSTCONDITION),
    ],
)
def test_error_codes_become_outcomes_and_the_file_outranks_what_is_known(
    type: str, code: int, name: str, outcome: Outcome
) -> None:
    known = error_code(SkillEntry(action="a", type=type, outcomes={7: "postcondition", 105: "canceled"}), code)
    assert known == (name, outcome)


# ---------------------------------------------------------------------- poses


def test_a_pose_is_placed_by_a_transform() -> None:
    by = Pose.upright("map", 1.0, 2.0, 0.5, yaw=math.pi / 2)
    placed = by.placed(Pose.upright("camera", 1.0, 0.0, 0.25, yaw=0.5))
    assert (placed.frame, placed.x, placed.y, placed.z) == ("map", pytest.approx(1), pytest.approx(3), 0.75)
    assert placed.yaw == pytest.approx(math.pi / 2 + 0.5)
    assert by.seen_from_above(placed) == pytest.approx((1.0, 0.0))


# ---------------------------------------------------------------------- objects


def test_objects_are_at_what_they_are_seen_on_and_in_a_room(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE), ("mug", ON_FLOOR))
    assert names(map) == {"apple 1": "kitchen table 1", "mug 1": ""}
    assert {room.name for item in map.items() if (room := map.room_of(item))} == {"kitchen 1"}


def test_numbers_stay_with_where_things_are(map: SemanticMap) -> None:
    other = (7.2, 3.1, 0.8)
    see(map, 1.0, ("apple", ON_TABLE), ("apple", other))
    see(map, 2.0, ("apple", other), ("apple", ON_TABLE))
    see(map, 3.0, ("apple", (other[0] + 0.1, *other[1:])))
    at = {item.name: item.pose.x for item in map.items() if item.pose}
    assert at == {"apple 1": ON_TABLE[0], "apple 2": pytest.approx(7.3)}


def test_a_number_is_not_given_again_once_its_object_is_forgotten(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    map.forget(601.0)
    assert names(map) == {"apple 1": "kitchen table 1"}
    map.forget(601.1)
    assert names(map) == {}
    see(map, 602.0, ("apple", ON_TABLE))
    assert names(map) == {"apple 2": "kitchen table 1"}


def test_what_is_held_is_not_forgotten_and_not_taken_for_another_one(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1")
    do(map, "pick up apple 1", 2.0)
    map.forget(10000.0)
    map.robot_is_at(Pose("map", 7.5, 2.3))
    see(map, 3.0, ("apple", (7.8, 2.3, 0.6)), ("apple", IN_FRIDGE))
    assert list(names(map)) == ["apple 1", "apple 2"]
    assert [map.things[id].name for id in map.held] == ["apple 1"]


def test_what_was_detected_before_the_robot_changed_something_is_out_of_date(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1")
    do(map, "pick up apple 1", 2.0)
    see(map, 1.9, ("apple", ON_TABLE))
    assert list(names(map)) == ["apple 1"]


def test_what_was_put_down_keeps_its_number_when_it_is_detected_there(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1")
    do(map, "pick up apple 1", 2.0)
    do(map, "go to coffee table 1", 3.0)
    assert do(map, "put down apple 1", 4.0) == "You put down apple on coffee table"
    assert do(map, "pick up apple 1", 4.5) == "The apple has not been detected where it should be."
    see(map, 5.0, ("apple", (2.3, 3.5, 0.5)))
    assert names(map) == {"apple 1": "coffee table 1"}
    assert do(map, "pick up apple 1", 5.5) == "You pick up apple. You hold apple (1)."


def test_what_is_still_detected_where_it_was_was_not_picked_up(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1")
    assert do(map, "pick up apple 1", 2.0) == "You pick up apple. You hold apple (1)."
    see(map, 3.0, ("apple", (7.61, 3.1, 0.8)))
    assert map.settle(grasp_of()) == "the apple is still detected at the kitchen table (1)"
    assert (map.held, names(map)) == ([], {"apple 1": "kitchen table 1"})
    assert do(map, "pick up apple 1", 4.0) == "You pick up apple. You hold apple (1)."


def test_what_is_lifted_in_the_hand_is_held_and_another_one_elsewhere_is_another(map: SemanticMap) -> None:
    map.robot_is_at(Pose("map", 7.5, 2.5))
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1")
    do(map, "pick up apple 1", 2.0)
    see(map, 3.0, ("apple", (7.6, 3.1, 0.95)), ("apple", IN_FRIDGE))
    assert [map.things[id].name for id in map.held] == ["apple 1"]
    assert names(map) == {"apple 1": "", "apple 2": "fridge 1"}
    do(map, "go to bed 1", 4.0)
    see(map, 5.0, ("apple", ON_TABLE))  # somebody has put another one there
    assert [map.things[id].name for id in map.held] == ["apple 1"]


def test_what_the_detector_has_a_name_for_is_known_again_wherever_it_is(map: SemanticMap) -> None:
    def see_own(stamp: float, *seen: tuple[str, tuple[float, float, float]]) -> None:
        map.take_in([Detection("apple", Pose("map", *at), own) for own, at in seen], stamp)

    see_own(1.0, ("gala", ON_TABLE), ("fuji", (7.61, 3.1, 0.8)))
    assert {item.own: item.name for item in map.items()} == {"gala": "apple 1", "fuji": "apple 2"}
    see_own(2.0, ("fuji", ON_TABLE), ("gala", ON_FLOOR))
    assert names(map) == {"apple 1": "", "apple 2": "kitchen table 1"}
    do(map, "go to kitchen table 1", 3.0)
    do(map, "pick up apple 2", 4.0)
    map.robot_is_at(Pose("map", 7.5, 2.5))
    see_own(4.5, ("fuji", (7.5, 2.6, 1.0)), ("granny", (7.5, 2.7, 0.8)))  # the one in the hand, and one before it
    assert [map.things[id].own for id in map.held] == ["fuji"]
    assert names(map)["apple 3"] == "kitchen table 1"
    see_own(5.0, ("fuji", IN_FRIDGE))
    assert map.settle(grasp_of("apple 2")) == "the apple is still detected at the fridge (1)"
    assert (map.held, names(map)["apple 2"]) == ([], "fridge 1")


# ------------------------------------------------------------------ what is held is known by grasp and release

#: Where a detector may see the apple that the robot has in its hand: where it lay, elsewhere, in the hand.
SEEN = (ON_TABLE, IN_FRIDGE, ON_FLOOR, (7.5, 2.6, 1.0))


@pytest.mark.parametrize("own", ["", "gala"])
@pytest.mark.parametrize("at", SEEN)
@pytest.mark.parametrize("stamp", [0.5, 1.5, 2.0, 2.1, 3.5, 7.0, 4000.0])
def test_a_grasp_that_was_settled_is_undone_by_no_detection(
    map: SemanticMap, own: str, at: tuple[float, float, float], stamp: float
) -> None:
    map.take_in([Detection("apple", Pose("map", *ON_TABLE), own)], 1.0)
    map.robot_is_at(Pose("map", 7.5, 2.5))
    do(map, "go to kitchen table 1", 1.5)
    do(map, "pick up apple 1", 2.0)
    assert map.settle(grasp_of()) == ""
    for second in (0.0, 0.1, 60.0):
        map.take_in([Detection("apple", Pose("map", *at), own)], stamp + second)
        map.look()
        map.forget(stamp + second)
        assert [map.things[id].name for id in map.held] == ["apple 1"]
    do(map, "go to coffee table 1", 5000.0)
    assert do(map, "put down apple 1", 5001.0) == "You put down apple on coffee table"
    assert map.settle(call_of("put down", "apple 1")) == ""
    assert names(map)["apple 1"] == "coffee table 1"
    map.take_in([Detection("apple", Pose("map", 2.3, 3.5, 0.5), own)], 5002.0)
    assert names(map)["apple 1"] == "coffee table 1"
    assert do(map, "pick up apple 1", 5002.5) == "You pick up apple. You hold apple (1)."


def test_a_clock_that_is_set_back_leaves_in_the_hand_what_is_in_it_and_lets_things_be_seen_anew(
    map: SemanticMap,
) -> None:
    see(map, 1000.0, ("apple", ON_TABLE), ("pudding", (7.4, 3.1, 0.8)))
    do(map, "go to kitchen table 1", 1000.5)
    do(map, "pick up apple 1", 1001.0)
    map.settle(grasp_of())
    map.clock_was_set_back(3.0)
    see(map, 3.5, ("pudding", (7.4, 3.1, 0.8)))
    map.forget(4.0)
    assert [map.things[id].name for id in map.held] == ["apple 1"]
    assert do(map, "go to coffee table 1", 4.5)
    do(map, "put down apple 1", 5.0)
    see(map, 5.5, ("apple", (2.3, 3.5, 0.5)))
    assert names(map) == {"apple 1": "coffee table 1", "pudding 1": "kitchen table 1"}
    assert do(map, "pick up apple 1", 6.0) == "You pick up apple. You hold apple (1)."


#: In seconds: how the detector's clock differs from the robot's, how far the bridge's lags, how late it hears.
CLOCKS, LAGS, LATE = (-5.0, -0.3, 0.0, 0.2, 1.0, 5.0, 3600.0), (0.0, 0.2, 0.8), (0.01, 0.15, 0.6)


@pytest.mark.parametrize("ahead", CLOCKS)
@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("late", LATE)
def test_what_was_seen_before_the_grasp_never_speaks_against_it(
    map: SemanticMap, ahead: float, lag: float, late: float
) -> None:
    """The grasp is at 100 s and settled 2 s later; what is seen ten times a second is heard more or less late."""
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1", 2.0)
    chance, stamps, grasp = random.Random(1), Stamps(), 100.0
    heard = sorted(
        (taken + late * chance.uniform(0.5, 1.0), taken) for taken in (90.0 + number / 10 for number in range(200))
    )
    grasped = False
    for at, taken in heard:
        if at >= grasp and not grasped:
            grasped = bool(do(map, "pick up apple 1", grasp - lag))
            map.held or pytest.fail("it was not picked up")
        by_the_bridge = at - lag * (1.0 if grasped else chance.uniform(0.5, 1.0))
        stamps.heard(taken + ahead, by_the_bridge)
        map.take_in(
            [Detection("apple", Pose("map", *ON_TABLE))] if taken <= grasp else [],
            stamps.ours(taken + ahead, by_the_bridge),
        )
        if grasped and at >= grasp + 2.0:
            break
    assert map.settle(grasp_of()) == ""
    assert map.held


@pytest.mark.parametrize(("ahead", "late", "ours"), [(5.0, 0.1, 100.1), (0.2, 0.1, 100.1), (0.0, 0.1, 100.0)])
def test_a_stamp_of_a_clock_that_is_ahead_is_brought_to_ours(ahead: float, late: float, ours: float) -> None:
    stamps = Stamps()
    for second in range(20):
        stamps.heard(second + ahead, second + late)
    assert stamps.ours(100.0 + ahead, 100.5) == pytest.approx(ours), "heard late, it is not taken for new"
    stamps.heard(100.0 + ahead, 100.5)
    stamps.forget()
    assert stamps.margin == 0.0


def test_a_stamp_from_far_in_the_future_delays_nothing(map: SemanticMap) -> None:
    stamps = Stamps()
    for second in range(10):
        stamps.heard(float(second), second + 0.1)
    stamps.heard(4000.0, 10.1)
    assert stamps.ours(4000.0, 10.1) == 10.1
    stamps.heard(11.0, 11.1)
    assert stamps.ours(11.0, 11.1) == pytest.approx(11.0)


def test_what_was_put_down_and_is_detected_elsewhere_is_said(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    for second, skill in enumerate(("go to kitchen table 1", "pick up apple 1", "go to coffee table 1")):
        do(map, skill, 2.0 + second)
    do(map, "put down apple 1", 5.0)
    skill = call_of("put down", "apple 1")
    assert map.settle(skill) == ""
    map.by_name["apple 1"].own, map.by_name["apple 1"].tracked = "gala", True
    map.take_in([Detection("apple", Pose("map", 2.5, 2.0, 0.0), "gala")], 6.0)
    assert map.settle(skill) == "the apple is detected on the floor"


@pytest.mark.parametrize(
    ("name", "robot", "distance"),
    [
        ("kitchen table 1", (7.5, 2.3), 0.0),
        ("kitchen table 1", (7.5, 4.2), 0.5),  # on another side of it
        ("kitchen table 1", (2.5, 2.0), 4.6),
        ("kitchen 1", (5.1, 3.9), 0.0),
        ("kitchen 1", (2.5, 2.0), 5.0),
    ],
)
def test_how_far_the_robot_is_from_where_it_was_to_go(
    map: SemanticMap, name: str, robot: tuple[float, float], distance: float
) -> None:
    assert map.away_from(map.by_name[name]) is None
    map.robot_is_at(Pose("map", *robot))
    assert map.away_from(map.by_name[name]) == pytest.approx(distance, abs=0.01)


def test_what_is_in_a_closed_receptacle_is_not_seen(map: SemanticMap) -> None:
    do(map, "go to fridge 1")
    assert do(map, "open fridge 1", 1.0) == "You open fridge. You see fridge (1)"
    see(map, 2.0, ("apple", IN_FRIDGE))
    assert do(map, "go to fridge 1", 3.0).endswith("The fridge (1) is open. You see apple (1), fridge (1)")
    do(map, "close fridge 1", 4.0)
    assert "pick up apple 1" not in HOUSE.offered(map)
    assert do(map, "go to fridge 1", 5.0).endswith("The fridge (1) is closed. You see fridge (1)")
    see(map, 6.0, ("mug", (9.6, 1.0, 1.9)))  # on top of it
    assert do(map, "go to fridge 1", 7.0).endswith("You see fridge (1), mug (1)")


def test_a_new_map_keeps_what_is_known(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE), ("mug", ON_TABLE))
    do(map, "go to fridge 1")
    do(map, "open fridge 1", 2.0)
    do(map, "go to kitchen table 1", 3.0)
    do(map, "pick up apple 1", 3.0)
    again = SemanticMap(map.document, before=map)
    assert [again.things[id].name for id in again.held] == ["apple 1"]
    assert again.by_name["fridge 1"].states == {"OPEN", "ON"}
    assert names(again)["mug 1"] == "kitchen table 1"
    see(again, 4.0, ("mug", IN_FRIDGE))
    assert "mug 2" in names(again)


# ---------------------------------------------------------------------- skills


def test_the_observations_are_worded_as_in_the_household(map: SemanticMap) -> None:
    assert map.around().text == (
        "You are in the house, and there are 5 rooms: bathroom (1), bedroom (1, 2), kitchen (1), living room (1). You "
        "are in the middle of a living room (1). Looking quickly around the room, you see coffee table (1), sofa (1), "
        "table lamp (1)."
    )
    see(map, 1.0, ("apple", ON_TABLE))
    assert do(map, "go to kitchen 1").startswith("You move to the kitchen (1). Looking quickly around the room, you")
    assert do(map, "go to kitchen table 1") == (
        "You arrive at the kitchen table (1). You see apple (1), kitchen table (1)"
    )


def test_an_observation_says_where_the_robot_is_and_what_it_sees(map: SemanticMap) -> None:
    map.robot_is_at(Pose.upright("map", 7.5, 2.3, yaw=math.pi / 2))
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1")
    around = {spot.name: spot for spot in map.around().spots}
    assert around[""] == Spot("", 7.5, 2.3, 1.571)
    assert around["kitchen 1"] == Spot("kitchen 1", 7.5, 2.0, outline=((5, 0), (10, 0), (10, 4), (5, 4)))
    table = around["kitchen table 1"]
    assert (table.x, table.y, table.yaw) == (7.5, 3.0, 0.0)
    assert table.outline == ((7.9, 3.7), (7.1, 3.7), (7.1, 2.3), (7.9, 2.3))
    assert {"fridge 1", "bed 1", "bathroom 1"} <= set(around)
    near = HOUSE.after(map, call_of("go to", "kitchen table 1"), Outcome.DONE, "You arrive.", {}).spots
    assert [spot.name for spot in near] == ["", "kitchen table 1", "apple 1"]
    assert near[2] == Spot("apple 1", 7.6, 3.1)


def test_tf_says_in_which_room_the_robot_is(map: SemanticMap) -> None:
    map.robot_is_at(Pose("map", 8.5, 6.0))
    assert map.agent_room.name == "bedroom 2"
    map.robot_is_at(Pose("map", 50.0, 50.0))
    assert map.agent_room.name == "bedroom 2"


@pytest.mark.parametrize(
    ("before", "skill", "said"),
    [
        ((), "pick up apple 1", "The apple is not close to you."),
        ((), "open fridge 1", "The fridge is not close to you."),
        (("go to kitchen table 1",), "put down apple 1", "You do not grab the apple."),
        (("go to kitchen table 1", "pick up apple 1"), "pick up mug 1", "You do not have an empty hand. You hold"),
        (("go to kitchen table 1", "pick up apple 1", "go to fridge 1"), "open fridge 1", "You do not have an empty"),
        (("go to kitchen table 1", "pick up apple 1", "go to fridge 1"), "put down apple 1", "The fridge is closed."),
        (("go to kitchen table 1", "pick up apple 1", "go to kitchen 1"), "put down apple 1", "You are at nothing"),
        (("go to kitchen table 1",), "open kitchen table 1", "The kitchen table cannot be opened"),
        (("go to table lamp 1",), "turn off table lamp 1", "The table lamp is already turned off."),
        (("go to table lamp 1", "turn on table lamp 1"), "turn on table lamp 1", "The table lamp is already turned on"),
        ((), "turn off table lamp 1", "The table lamp is not close to you."),
    ],
)
def test_what_cannot_be_done_is_refused(map: SemanticMap, before: tuple[str, ...], skill: str, said: str) -> None:
    see(map, 0.5, ("apple", ON_TABLE), ("mug", ON_TABLE))
    for one in before:
        assert do(map, one).startswith("You ")
    assert do(map, skill).startswith(said)


def test_what_was_detected_too_long_ago_is_not_picked_up(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to kitchen table 1", 2.0)
    assert do(map, "pick up apple 1", 12.0) == "The apple was last detected 11 s ago, more than 10 s."


def test_only_what_the_robot_can_do_is_a_skill(map: SemanticMap) -> None:
    see(map, 1.0, ("apple", ON_TABLE))
    do(map, "go to table lamp 1")
    assert "turn off table lamp 1" in HOUSE.offered(map)
    goes = HouseholdSkills(SKILLS[:1])
    assert all(str(skill).startswith("go to ") for skill in goes.offered(map))
    assert goes.read(map, "turn on table lamp 1") == (
        "'turn on table lamp 1' is not a skill of this robot. A skill starts with one of: go to."
    )
    assert HOUSE.read(map, "pick up apple 9") == "There is no apple 9 in the house."


def test_the_robot_stands_before_what_lies_on_the_floor(map: SemanticMap) -> None:
    map.robot_is_at(Pose("map", 7.0, 2.0))
    see(map, 1.0, ("mug", ON_FLOOR))
    stand = map.approach(map.by_name["mug 1"])
    assert stand is not None
    assert (stand.x, stand.y, stand.yaw) == (pytest.approx(8.0), pytest.approx(2.0), pytest.approx(0.0))
