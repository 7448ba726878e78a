"""`reactree robot check`, and what a bridge refuses: robots and configurations that are each wrong in one way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nav2_msgs.action import ComputePathToPose
from rclpy.action import ActionServer
from rclpy.lifecycle import TransitionCallbackReturn
from robot_house import CONFIG, SKILLS, Change, House, in_skill, stop, top
from robot_servers import LATCHED
from std_msgs.msg import Bool, Int32

from reactree_ros.nodes.robot.robot_check import Walk
from reactree_ros.plugins.installation import Diagnosis, Level
from reactree_ros.robot.config import load_robot


@pytest.fixture
def house(house: House) -> House:
    house.add_robot()
    return house


def plans_paths(house: House, but: tuple[float, float] = (-99.0, -99.0)) -> None:
    def plan(handle: Any) -> ComputePathToPose.Result:
        at = handle.request.goal.pose.position
        if (round(at.x, 2), round(at.y, 2)) == but:
            handle.abort()
            return ComputePathToPose.Result(error_code=208)
        handle.succeed()
        return ComputePathToPose.Result()

    ActionServer(house.robot, ComputePathToPose, "compute_path_to_pose", plan)


def checked(house: House, change: Change = lambda config: None, *, patience: float = 0.6) -> list[Diagnosis]:
    return checked_file(house, house.config(change), patience=patience)


def checked_file(house: House, config: Path, *, patience: float) -> list[Diagnosis]:
    def until(done: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                return False
            house.graph.step()
        return True

    return Walk(house.graph.add_node("robot_check"), until, patience).walk(config)


def wrong(found: list[Diagnosis]) -> list[Diagnosis]:
    return [one for one in found if one.level is Level.WRONG]


def test_a_robot_that_has_everything_is_all_right(house: House) -> None:
    plans_paths(house)
    found = checked(house, patience=5.0)
    assert wrong(found) == []
    said = {one.what: one for one in found}
    assert said["places"].said == "compute_path_to_pose plans a path to each of the 14"
    assert said["emergency stop"].said == "/emergency_stop: released"
    assert said["where it is"].said.endswith("in the living room 1")
    assert all(one.level is Level.RIGHT for one in found), found


GO, STOP, NAV2, MSG = "skill 'go to'", "emergency stop", "nav2_msgs/action", "std_msgs/msg"


@pytest.mark.parametrize(
    ("change", "what", "said", "remedy"),
    [
        (top(hand=1), "configuration", "hand: there is no setting 'hand'", "that line"),
        (top(map="none.yaml"), "map", "none.yaml: cannot be read", "that line"),
        (in_skill("open", type="arm/action/Open"), "skill 'open'", "there is no package 'arm'", "that entry"),
        (in_skill("go to", goal={"poze": "{pose}"}), GO, "has no field 'poze'; its fields are pose,", "that entry"),
        (in_skill("go to", action="n/navigate_to_pose"), GO, "no action /n/nav", "its name: /navigate_to_pose"),
        (
            in_skill("go to", type=f"{NAV2}/DriveOnHeading", goal={}),
            GO,
            f"/navigate_to_pose is of type {NAV2}/NavigateToPose, not {NAV2}/DriveOnHeading",
            f"write type: {NAV2}/NavigateToPose",
        ),
        (
            top(base_frame="base_footprint"),
            "where it is",
            "tf has no transform from 'base_footprint' to 'map'; its frames are base_link, camera_link",
            "start localization, or correct base_frame",
        ),
        (top(detections="/a/detections"), "detections", "nobody publishes /a/detections", "its name: /detections"),
        (stop(topic="/e_stop"), STOP, "nobody publishes /e_stop", "or write its name: /emergency_stop"),
        (stop(type=f"{MSG}/String", engaged="x"), STOP, f"{MSG}/Bool, not {MSG}/String", f"type: {MSG}/Bool"),
        (stop(latched=False, silent_for=0.2), STOP, "has been silent for 0.2 s", "more often than silent_for"),
        (top(pose={"topic": "/p", "type": f"{MSG}/Header"}), "perception", "a pose is one of geometry_", "that entry"),
    ],
)
def test_a_configuration_that_is_wrong_in_one_way_is_named_with_its_way_out(
    house: House, change: Change, what: str, said: str, remedy: str
) -> None:
    plans_paths(house)
    (one,) = wrong(checked(house, change))
    assert one.what == what
    assert said in one.said
    assert remedy in one.remedy


def test_a_place_to_which_no_path_is_found_is_named(house: House) -> None:
    plans_paths(house, but=(8.7, 1.0))
    (one,) = wrong(checked(house))
    assert one.what == "place 'fridge 1'"
    assert one.said == "no path: compute_path_to_pose: NO_VALID_PATH, error code 208"
    assert "its approach on the map" in one.remedy


def test_an_approach_outside_of_its_room_is_noted(house: House) -> None:
    plans_paths(house)
    house.change_map(lambda values: values["receptacles"][0].update(approach={"x": -50.0, "y": 0.0}))
    found = checked(house)
    assert wrong(found) == []
    (note,) = [one for one in found if one.what == "map" and one.level is Level.NOTE]
    assert "approach: (-50, 0) is in no room, by the outlines, not in " in note.said


def test_a_stop_that_is_not_latched_though_it_is_said_to_be_is_wrong(house: House) -> None:
    house.graph.probe.destroy_publisher(house.button)
    house.graph.probe.create_publisher(Bool, "/emergency_stop", 10)
    plans_paths(house)
    (one,) = wrong(checked(house))
    assert one.said == "/emergency_stop is not latched by probe: a press before the start would be missed"
    assert "silent_for" in one.remedy


def test_a_detector_of_whose_classes_the_map_knows_none_is_wrong(house: House) -> None:
    plans_paths(house)
    house.robot.blind = True
    house.change_map(lambda values: values["objects"].update(classes={"17": "apple"}))
    house.robot.create_timer(0.1, lambda: house.robot.see({"zebra": (2.5, 3.2, 0.5)}, frame="map"))
    (one,) = wrong(checked(house))
    assert one.said == "/detections: the map has a word for none of its classes zebra"
    assert "objects.classes" in one.remedy


def test_a_battery_that_is_empty_and_two_servers_of_one_name_are_wrong(house: House) -> None:
    from sensor_msgs.msg import BatteryState

    plans_paths(house)
    plans_paths(house)
    battery = house.graph.probe.create_publisher(BatteryState, "/battery", 1)
    house.graph.probe.create_timer(0.05, lambda: battery.publish(BatteryState(percentage=0.02)))
    found = wrong(checked(house, top(battery={"topic": "/battery", "least": 0.1})))
    assert [one.what for one in found] == ["battery", "path planner"]
    assert found[0].said == "the battery is at 0.02, and 0.1 is too little to go on"
    assert found[1].said == "2 servers answer to /compute_path_to_pose"


def test_what_is_not_wrong_but_should_be_known_is_a_note(house: House) -> None:
    house.press(True)

    def change(config: dict[str, Any]) -> None:
        in_skill("open", time_limit=3.0)(config)
        config["reach"] = None

    found = {one.what: one for one in checked(house, change) if one.level is Level.NOTE}
    assert found["emergency stop"].said == "the emergency stop is engaged: nothing moves until it is released"
    assert set(found) == {"emergency stop", "places"}


def test_conditions_and_triggers_are_tried_against_who_says_so(house: House) -> None:
    plans_paths(house)
    house.graph.probe.create_publisher(Int32, "/sheets", LATCHED).publish(Int32(data=3))
    house.graph.probe.create_publisher(Bool, "/bell", 1)
    sheets = {"topic": "/sheets", "type": "std_msgs/msg/Int32"}

    def change(config: dict[str, Any]) -> None:
        config["conditions"] = {
            "paper": {"wording": "there is paper", **sheets, "holds": {"above": 0}},
            "silent": {"wording": "it rings", "topic": "/bell"},
            "unsaid": {"wording": "the door is open", "topic": "/door"},
            "other": {"wording": "there is no paper", "topic": "/sheets"},
            "field": {"wording": "no sheet is left", **sheets, "field": "sheets", "holds": 0},
        }
        config["triggers"] = {
            "refill": {"instruction": "Refill the printer", "when": "paper"},
            "once": {"instruction": "Greet Anna", "at": "2020-01-01 08:00"},
        }

    found = checked(house, change)
    said = {one.what: (one.level, one.said) for one in found}
    assert said["condition 'paper'"] == (Level.RIGHT, "there is paper: yes")
    assert said["condition 'silent'"] == (Level.NOTE, "it rings: unknown: nothing was heard for 0.6 s")
    assert said["trigger 'refill'"] == (Level.RIGHT, "when paper: 'Refill the printer'")
    over = "at 2020-01-01 08:00: 'Greet Anna' is over, and starts nothing any more"
    assert said["trigger 'once'"] == (Level.NOTE, over)
    unsaid, other, field = sorted(wrong(found), key=lambda one: "unsaid other field".index(one.what.split("'")[1]))
    assert unsaid.said == "nobody publishes /door (for 0.6 s)"
    assert other.said == "/sheets is of type std_msgs/msg/Int32, not std_msgs/msg/Bool"
    assert "has no field 'sheets'" in field.said
    assert house.robot.log == []


OWN, SQUEEZE = SKILLS["kinds"], SKILLS["own"]["squeeze"]
TO, TURN = "go to", "turn on"


def detector(**entries: Any) -> Change:
    return top(detections={**SKILLS["asked"], **entries})


def condition(**entries: Any) -> Change:
    return top(conditions={"door": {**SKILLS["conditions"]["door"], **entries}})


def own(skill: str, **entries: Any) -> Change:
    return lambda config: config["skills"].update({skill: {**OWN[skill], **entries}})


def squeeze(**entries: Any) -> Change:
    return lambda config: config["skills"].update(squeeze={**SQUEEZE, **entries})


def prompts(**entries: Any) -> Change:
    return top(detections={"topic": "/detections", "prompts": entries})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        # a skill's type, name and goal
        (in_skill(TO, type="nav3_msgs/action/Go"), "skills.go to: the type is 'nav3_msgs/action/Go', but there is no"),
        (in_skill(TO, type="nav2_msgs/action/Fly"), "but the package 'nav2_msgs' has no action 'Fly'"),
        (in_skill(TO, action="go there!"), "the name 'go there!' is not one that ROS allows: Invalid topic name"),
        (in_skill(TO, type="nav2_msgs/Fly"), "a type of actions is written like package/action/Type"),
        (in_skill(TURN, type="nav2_msgs/action/Spin"), "a type of services is written like package/srv/Type"),
        (in_skill(TO, goal={"poze": "{pose}"}), "field 'poze': nav2_msgs/action/NavigateToPose_Goal has no field"),
        (in_skill(TO, goal={"pose.header.frame": "map"}), "'pose.header.frame': std_msgs/msg/Header has no field"),
        (in_skill(TO, goal={"pose": "{place}"}), "goal: field 'pose': the template '{place}' names 'place'; there are"),
        (in_skill(TO, goal={"pose": "{object.name}"}), "PoseStamped cannot be '{object.name}', which is a text"),
        (in_skill(TO, goal={"behavior_tree": "{pose}"}), "'{pose}' is a pose, not a text; name a part of it"),
        (in_skill(TO, goal={"behavior_tree": 3}), "goal: field 'behavior_tree': a string cannot be 3"),
        (in_skill(TO, goal={"pose.pose.position.x": "far"}), "field 'pose.pose.position.x': double cannot be 'far'"),
        (in_skill(TO, goal={"pose": 1}), "geometry_msgs/msg/PoseStamped cannot be 1; give its fields or a template"),
        (in_skill(TO, code="error"), "field 'error': nav2_msgs/action/NavigateToPose_Result has no field"),
        (in_skill(TURN, code="message"), "skills.turn on: code: field 'message' is not a whole number"),
        (in_skill(TURN, success={"success": "yes"}), "success: field 'success': boolean cannot be 'yes'"),
        # skills of other kinds, and of the robot's own
        (own("say", goal={"text": "{text}"}), "say: goal: field 'text': std_msgs/msg/String has no field 'text'"),
        (own("say", type="std_srvs/srv/Trigger"), "a type of messages is written like package/msg/Type"),
        (own("turn", cancel={"publish": "turning", "type": "a/msg/B"}), "turn.cancel: the type is 'a/msg/B', but"),
        (own("wait", success={"open": True}), "wait: success: field 'open': diagnostic_msgs/msg/KeyValue has no field"),
        (own("wait", success={"key": "{gate}"}), "success: field 'key': the template '{gate}' names 'gate'; there are"),
        (own("wait", success={"key": {"above": 1}}), "field 'key': a string is not a number; above and below are of"),
        (own("charge", success={"data[0]": 1}), "charge: success: field 'data[0]': 'data' is int32, not a list"),
        (own("charge", success={"data": [1, "x"]}), "charge: success: field 'data': int32 cannot be 'x'"),
        (own("lay", steps=[{**OWN["lay"]["steps"][0], "goal": {"order": 1}}]), "lay.steps.0: goal: field 'order'"),
        (own("knock", check={**OWN["knock"]["check"], "success": {"is": 1}}), "knock.check: success: field 'is'"),
        (squeeze(goal={"command.data": "{force}"}), "names 'force'; there are {skill}"),
        (squeeze(goal={"command": "{newton}"}), "cannot be '{newton}', which is a number"),
        (squeeze(result={"note": "nothing"}, returns={"note": "text"}), "has no field 'nothing'"),
        (squeeze(parameters={**SQUEEZE["parameters"], "mode": []}), "parameters.mode: [] is not a choice"),
        # the emergency stop
        (lambda config: config.pop("emergency_stop"), "name the emergency_stop, or say emergency_stop: null where the"),
        (
            stop(latched=False),
            "emergency_stop: a press could be missed; say latched: true (transient local), or silent",
        ),
        (stop(fail_open=True, silent_for=1.0), "silent_for stops a robot that fail_open lets move; leave one of them"),
        (
            stop(type="std_msgs/msg/Boole"),
            "the type is 'std_msgs/msg/Boole', but the package 'std_msgs' has no message",
        ),
        (stop(field="engaged"), "emergency_stop: field 'engaged': std_msgs/msg/Bool has no field 'engaged'"),
        (stop(engaged="yes"), "emergency_stop.engaged: boolean cannot be 'yes'"),
        # what it perceives
        (detector(objects="sequence_number"), "objects: field 'sequence_number' is not a list"),
        (detector(**{"class": "colour"}), "InteractiveMarker has no field 'colour'"),
        (detector(pose="name"), "pose: field 'name' is a string; a pose is one of"),
        (detector(own="pose"), "own: field 'pose' is geometry_msgs/msg/Pose"),
        (detector(goal={"a": 1}), "GetInteractiveMarkers_Request has no field 'a'"),
        (prompts(topic="/a", goal={"data": "all"}), "no field has '{names}'"),
        (prompts(topic="/a", goal={"date": "{names}"}), "field 'date'"),
        (prompts(topic="/a", type="std_msgs/msg/Nothing"), "std_msgs/msg/Nothing"),
        (prompts(topic="/a", service="/b"), "name one of topic and service"),
        (prompts(), "name a topic or a service, or write {names} into a field of goal"),
        (top(battery={"topic": "/b", "field": "header", "least": 1}), "battery: field 'header' is std_msgs/msg/Header"),
        (top(pose={"topic": "/p", "type": "std_msgs/msg/Bool"}), "the message is std_msgs/msg/Bool; a pose is one of"),
        (condition(field="dat"), "conditions.door: holds: field 'dat': std_msgs/msg/Bool has no field 'dat'"),
        (condition(type="std_msgs/msg/Bol"), "no message 'Bol'"),
        (condition(holds={"above": 1}), "above and below are of numbers"),
        (condition(holds="open"), "cannot be 'open'"),
        (top(vision={"llm": "openai", "modl": "tiny"}), "there is no setting 'modl'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_entry(house: House, change: Change, said: str) -> None:
    refused = house.refused(change)
    assert said in refused
    assert "\n" not in refused


def test_a_refusal_names_file_and_line_and_keeps_the_bridge_from_being_configured(house: House) -> None:
    change = in_skill(TO, goal={"poze": "{pose}"})
    refused, file = house.refused(change), house.config(change)
    line = 1 + file.read_text().partition(f"\n  {TO}:")[0].count("\n") + 1
    assert refused.startswith(f"{file}:{line}: skills.{TO}")
    assert house.graph.nodes[-1].trigger_configure() == TransitionCallbackReturn.FAILURE


def test_the_shipped_stop_is_the_safe_one() -> None:
    stop = load_robot(CONFIG / "robot.yaml").emergency_stop
    assert stop is not None
    assert (stop.latched, stop.fail_open) == (True, False)
