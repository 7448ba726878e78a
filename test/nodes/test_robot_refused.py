"""Robots whose `robot.yaml` does not fit its types: each is refused in a line with the entry, before anything moves."""

from __future__ import annotations

from typing import Any

import pytest
from rclpy.lifecycle import TransitionCallbackReturn
from robot_house import CONFIG, SKILLS, Change, House, in_skill, stop, top

from reactree_ros.robot.config import load_robot

OWN, SQUEEZE = SKILLS["kinds"], SKILLS["own"]["squeeze"]
GO, TURN = "go to", "turn on"


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
        (in_skill(GO, type="nav3_msgs/action/Go"), "skills.go to: the type is 'nav3_msgs/action/Go', but there is no"),
        (in_skill(GO, type="nav2_msgs/action/Fly"), "but the package 'nav2_msgs' has no action 'Fly'"),
        (in_skill(GO, action="go there!"), "the name 'go there!' is not one that ROS allows: Invalid topic name"),
        (in_skill(GO, type="nav2_msgs/Fly"), "a type of actions is written like package/action/Type"),
        (in_skill(TURN, type="nav2_msgs/action/Spin"), "a type of services is written like package/srv/Type"),
        (in_skill(GO, goal={"poze": "{pose}"}), "field 'poze': nav2_msgs/action/NavigateToPose_Goal has no field"),
        (in_skill(GO, goal={"pose.header.frame": "map"}), "'pose.header.frame': std_msgs/msg/Header has no field"),
        (in_skill(GO, goal={"pose": "{place}"}), "goal: field 'pose': the template '{place}' names 'place'; there are"),
        (in_skill(GO, goal={"pose": "{object.name}"}), "PoseStamped cannot be '{object.name}', which is a text"),
        (in_skill(GO, goal={"behavior_tree": "{pose}"}), "'{pose}' is a pose, not a text; name a part of it"),
        (in_skill(GO, goal={"behavior_tree": 3}), "goal: field 'behavior_tree': a string cannot be 3"),
        (in_skill(GO, goal={"pose.pose.position.x": "far"}), "field 'pose.pose.position.x': double cannot be 'far'"),
        (in_skill(GO, goal={"pose": 1}), "geometry_msgs/msg/PoseStamped cannot be 1; give its fields or a template"),
        (in_skill(GO, code="error"), "field 'error': nav2_msgs/action/NavigateToPose_Result has no field"),
        (in_skill(TURN, code="message"), "skills.turn on: code: field 'message' is no whole number"),
        (in_skill(TURN, success={"success": "yes"}), "success: field 'success': boolean cannot be 'yes'"),
        # skills of other kinds, and of the robot's own
        (own("say", goal={"text": "{text}"}), "say: goal: field 'text': std_msgs/msg/String has no field 'text'"),
        (own("say", type="std_srvs/srv/Trigger"), "a type of messages is written like package/msg/Type"),
        (own("turn", cancel={"publish": "turning", "type": "a/msg/B"}), "turn.cancel: the type is 'a/msg/B', but"),
        (own("wait", success={"open": True}), "wait: success: field 'open': diagnostic_msgs/msg/KeyValue has no field"),
        (own("wait", success={"key": "{gate}"}), "success: field 'key': the template '{gate}' names 'gate'; there are"),
        (own("wait", success={"key": {"above": 1}}), "field 'key': a string is no number; above and below are of"),
        (own("charge", success={"data[0]": 1}), "charge: success: field 'data[0]': 'data' is int32, not a list"),
        (own("charge", success={"data": [1, "x"]}), "charge: success: field 'data': int32 cannot be 'x'"),
        (own("lay", steps=[{**OWN["lay"]["steps"][0], "goal": {"order": 1}}]), "lay.steps.0: goal: field 'order'"),
        (own("knock", check={**OWN["knock"]["check"], "success": {"is": 1}}), "knock.check: success: field 'is'"),
        (squeeze(goal={"command.data": "{force}"}), "names 'force'; there are {skill}"),
        (squeeze(goal={"command": "{newton}"}), "cannot be '{newton}', which is a number"),
        (squeeze(result={"note": "nothing"}, returns={"note": "text"}), "has no field 'nothing'"),
        (squeeze(parameters={**SQUEEZE["parameters"], "mode": []}), "parameters.mode: [] is no choice"),
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
        (detector(objects="sequence_number"), "objects: field 'sequence_number' is no list"),
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
    change = in_skill(GO, goal={"poze": "{pose}"})
    refused, file = house.refused(change), house.config(change)
    line = 1 + file.read_text().partition(f"\n  {GO}:")[0].count("\n") + 1
    assert refused.startswith(f"{file}:{line}: skills.{GO}")
    assert house.graph.nodes[-1].trigger_configure() == TransitionCallbackReturn.FAILURE


def test_the_shipped_stop_is_the_safe_one() -> None:
    stop = load_robot(CONFIG / "robot.yaml").emergency_stop
    assert stop is not None
    assert (stop.latched, stop.fail_open) == (True, False)
