"""Skills that publish, that wait for a topic, that have steps, and that are checked: by fakes of real types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import KeyValue
from geometry_msgs.msg import Twist
from nav2_msgs.action import NavigateToPose
from rcl_interfaces.msg import Log
from rclpy.task import Future
from robot_house import SKILLS, House, Result
from robot_servers import LATCHED
from ros_graph import Graph
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Int32, String
from test_robot_check import checked, plans_paths, wrong

from reactree_ros.nodes.robot.goal_templates import Field
from reactree_ros.world.skill_policy import Range

OWN: dict[str, dict[str, Any]] = SKILLS["kinds"]
#: Where the robot stands at the end of `lay`.
AT_TABLE = "go to kitchen table 1"


def own(config: dict[str, Any]) -> None:
    config["skills"] |= OWN
    config["look_time"] = 0.5


@pytest.fixture
def house(house: House) -> House:
    house.add_robot()
    house.start(own, server_timeout=5.0)
    return house


def failed(house: House, skill: str) -> tuple[int, str]:
    outcome, message = house.fails(skill)
    return outcome, message.removeprefix(f"You could not {skill}: ").removesuffix(" You hold pudding (1).")


# ---------------------------------------------------------------------- a topic that is published on


def test_a_text_is_published_whole_as_soon_as_somebody_hears_it(house: House) -> None:
    assert failed(house, "say Hello") == (Result.WORLD_UNAVAILABLE, "who hears speech is not there (for 5 s)")
    heard = house.graph.listen(String, "speech")
    house.does("say Hello Anna. This is from Bob.")
    house.until(lambda: heard, "it is heard")
    assert [one.data for one in heard] == ["Hello Anna. This is from Bob."]


def test_what_lasts_is_published_until_it_has_lasted_and_nothing_stops_it(house: House) -> None:
    heard = house.graph.listen(Twist, "turning")
    house.does("turn for 1 s")
    assert {one.angular.z for one in heard} == {0.5}
    assert len(heard) > 3


@pytest.mark.parametrize("by", ["a cancel", "the emergency stop"])
def test_what_lasts_is_stopped_in_the_middle_by_what_its_cancel_says(house: House, by: str) -> None:
    heard = house.graph.listen(Twist, "turning")
    house.does(AT_TABLE)
    goal = house.skill("turn for 60 s")
    house.until(lambda: len(heard) > 3, "the robot turns")
    if by == "a cancel":
        goal.cancel()
        assert goal.status == GoalStatus.STATUS_CANCELED
    else:
        house.press(True)
        assert goal.result.outcome == Result.HALTED
    house.until(lambda: heard[-1].angular.z == 0.0, "it is told to stand")
    house.press(False)
    assert [one.angular.z for one in heard][-2:] == [0.5, 0.0]
    assert house.map.look() == []  # it may have left the table
    house.does(AT_TABLE)
    assert heard[-1].angular.z == 0.0


# ---------------------------------------------------------------------- a topic that is waited for


def test_a_wait_ends_by_a_message_that_has_all_that_is_waited_for(house: House) -> None:
    says = house.graph.probe.create_publisher(KeyValue, "door_state", 10)
    goal = house.skill("wait up to 60 s for fridge 1")
    house.until(says.get_subscription_count, "it is waited for")
    for door, state in (("fridge 1", "closed"), ("bed 1", "open"), ("fridge 1", "ajar")):
        says.publish(KeyValue(key=door, value=state))
    assert goal.result.outcome == Result.DONE
    house.until(lambda: not says.get_subscription_count(), "nobody waits any more")
    goal = house.skill("wait up to 60 s for bed 1")
    house.until(says.get_subscription_count, "it is waited for")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    house.graph.probe.create_publisher(KeyValue, "door_state", LATCHED).publish(KeyValue(key="bed 1", value="open"))
    house.does("wait up to 60 s for bed 1")  # what was latched before counts


def test_a_wait_takes_no_longer_than_its_parameter_says_and_tells_what_was_heard(house: House) -> None:
    late = "it took longer than 5 s and was stopped: door_state"
    assert failed(house, "wait up to 5 s for bed 1") == (Result.TIMEOUT, f"{late} was silent.")
    house.graph.probe.create_publisher(KeyValue, "door_state", LATCHED).publish(KeyValue(key="bed 1", value="shut"))
    assert failed(house, "wait up to 5 s for bed 1") == (Result.TIMEOUT, f"{late}: value is shut.")


def test_a_wait_ends_by_a_code_with_its_outcome_or_with_data(house: House) -> None:
    says = house.graph.probe.create_publisher(Int32, "level", LATCHED)
    says.publish(Int32(data=-1))
    assert failed(house, "charge") == (Result.PRECONDITION, "level: error code -1.")
    says.publish(Int32(data=50))
    goal = house.skill("charge")
    house.until(says.get_subscription_count, "it is waited for")
    says.publish(Int32(data=51))
    assert "It returned level: 51." in goal.result.observation.text


# ---------------------------------------------------------------------- several steps in a row


@pytest.fixture
def holding(house: House) -> House:
    house.does(AT_TABLE, "pick up pudding 1")
    house.robot.log.clear()
    return house


LAY = "lay pudding 1 on kitchen table 1"


def test_steps_are_done_one_after_the_other_and_one_that_fails_ends_the_skill(holding: House) -> None:
    robot = holding.robot
    robot.behave["arm"] = ["abort:7", "hold"]
    assert failed(holding, LAY) == (Result.EXECUTION, "in step 1 of 2, arm: error code 7, as told.")
    assert failed(holding, LAY) == (Result.TIMEOUT, "in step 1 of 2, it took longer than 5 s and was stopped.")
    assert not any("navigate" in line for line in robot.log)
    assert len(holding.map.held) == 1
    robot.behave["navigate_to_pose"] = ["abort:8", "abort:9"]
    reason = "in step 2 of 2, navigate_to_pose: error code 9, as told."
    assert failed(holding, LAY) == (Result.PRECONDITION, reason)
    assert robot.log.count("arm: succeed") == 1  # the second step alone was tried again
    assert holding.map.held == []  # what was done before is known
    holding.does(AT_TABLE, "pick up pudding 1")
    robot.log.clear()
    holding.does(LAY)
    began = [line for line in robot.log if line.endswith("succeed")]
    assert began == ["arm: succeed", "navigate_to_pose: succeed"]
    assert holding.map.held == []


@pytest.mark.parametrize("step", [1, 2])
def test_steps_are_cancelled_in_the_middle_and_no_other_begins(holding: House, step: int) -> None:
    server = "arm" if step == 1 else "navigate_to_pose"
    goal = holding.begins(LAY, server, "hold")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert holding.robot.log[-1] == f"stopped: {server}"
    holding.robot.behave["arm"] = []
    holding.does(AT_TABLE)
    assert len(holding.map.held) == (1 if step == 1 else 0)


@pytest.mark.parametrize("why", ["the stop", "the time"])
def test_no_step_begins_where_the_one_before_ends_before_anybody_looks_why_it_may_not(holding: House, why: str) -> None:
    goal = holding.begins(LAY, "arm", "deaf")
    holding.until(lambda: holding.errand.underway.accepted, "the first step is under way")
    errand = holding.errand
    if why == "the stop":
        holding.stop._hear(Bool(data=True), {"source_timestamp": 2**62})
    else:
        errand._limit = 1e-9
    ended = Future()
    ended.set_result(NavigateToPose.Impl.GetResultService.Response(status=GoalStatus.STATUS_SUCCEEDED))
    errand._server._finished(errand.underway, ended)  # before the bridge looks again
    assert goal.result.outcome == (Result.HALTED if why == "the stop" else Result.TIMEOUT)
    assert not any("navigate" in line for line in holding.robot.log)
    assert holding.map.held == []  # the arm has let it go all the same


def test_a_cancel_of_ones_own_is_sent_besides(house: House) -> None:
    goal = house.begins("ring", "arm", "hold")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert house.robot.log[-1] == "stopped: arm"
    house.until(lambda: house.robot.switched == [False], "the switch is told")


# ---------------------------------------------------------------------- not as reported


@pytest.mark.parametrize(("joints", "value"), [([0.0], None), ([0.0, 0.25], 0.25), ([0.0, 0.001], 0.001)])
def test_one_of_a_list_may_tell_whether_it_was_done(house: House, joints: list[float], value: float | None) -> None:
    field = Field(JointState, "position[1]", Range(above=-0.01, below=0.01), "squeeze", {})
    read = field.read(JointState(position=joints))
    assert read == value
    assert field.wanted({})(read) == (value == 0.001)
    if value == 0.001:
        house.graph.probe.create_publisher(JointState, "joints", LATCHED).publish(JointState(position=joints))
        house.does("squeeze")


def test_what_a_topic_does_not_confirm_was_not_done(house: House) -> None:
    said = "arm reported success, but answered"
    assert failed(house, "knock at fridge 1") == (Result.POSTCONDITION, f"{said} was silent (5 s).")
    answers = house.graph.probe.create_publisher(Bool, "answered", LATCHED)
    answers.publish(Bool(data=False))
    assert failed(house, "knock at fridge 1") == (Result.POSTCONDITION, f"{said}: data is False (5 s).")
    assert house.map.by_name["fridge 1"].states == {"CLOSED", "ON"}
    answers.publish(Bool(data=True))
    house.does("knock at fridge 1")
    assert house.map.by_name["fridge 1"].states == {"OPEN", "ON"}


def test_what_a_service_does_not_confirm_was_not_done(house: House) -> None:
    house.robot.behave["switch"] = ["fail"]
    reason = "arm reported success, but switch: success is False."
    assert failed(house, "light bed 1") == (Result.POSTCONDITION, reason)
    assert "ON" not in house.map.by_name["bed 1"].states
    house.does("light bed 1")
    assert "ON" in house.map.by_name["bed 1"].states


def test_what_detections_speak_against_was_not_done_whatever_the_skill(house: House) -> None:
    house.does(AT_TABLE)
    house.does("show pudding 1 on kitchen table 1")
    reason = "arm reported success, but the pudding is detected at the kitchen table (1)."
    assert failed(house, "show pudding 1 on bed 1") == (Result.POSTCONDITION, reason)
    house.robot.behave["arm"] = ["fail"]
    reason = "arm reported success, but the pudding is still detected at the kitchen table (1)."
    assert failed(house, "clear pudding 1 away") == (Result.POSTCONDITION, reason)
    house.does("clear pudding 1 away")
    reason = "arm reported success, but the pudding (1) is not detected at the kitchen table (1)."
    assert failed(house, "show pudding 1 on kitchen table 1") == (Result.POSTCONDITION, reason)


# ---------------------------------------------------------------------- before anything moves


def test_a_dry_run_logs_all_that_would_be_asked(graph: Graph, tmp_path: Path) -> None:
    house = House(graph, tmp_path)
    house.add_robot()
    house.robot.blind = True
    said = graph.listen(Log, "/rosout")
    house.start(own, dry_run=True)
    house.does("say Hello", "turn for 2 s", "wait up to 9 s for bed 1", "knock at fridge 1")
    lines = [
        'say Hello -> speech (std_msgs/msg/String) {"data": "Hello"}',
        "} for 2 s; stopped by turning (geometry_msgs/msg/Twist) {",
        "-> door_state (diagnostic_msgs/msg/KeyValue) until key is bed 1, value is open or ajar, at most 9 s",
        "knock at fridge 1 -> answered (std_msgs/msg/Bool) until data is True, at most 5 s",
    ]
    graph.until(lambda: all(any(line in one.msg for one in said) for line in lines), "all is logged")
    house.does("go to fridge 1", "pick up apple 1", "go to coffee table 1")  # as if all went well
    assert house.does("put down apple 1").observation.text == "You put down apple on coffee table"
    assert house.robot.log == []


def test_a_check_looks_for_everyone_that_a_skill_asks(graph: Graph, tmp_path: Path) -> None:
    house = House(graph, tmp_path)
    house.add_robot()
    plans_paths(house)
    found = {one.what: (one.said, one.remedy) for one in wrong(checked(house, own))}
    assert found == {
        "skill 'say'": ("nobody hears /speech (for 0.6 s)", "start who hears it"),
        "skill 'turn'": ("nobody hears /turning (for 0.6 s)", "start who hears it"),
        "skill 'turn', cancel": ("nobody hears /turning (for 0.6 s)", "start who hears it"),
        "skill 'wait'": ("nobody publishes /door_state (for 0.6 s)", "start who publishes it"),
        "skill 'charge'": ("nobody publishes /level (for 0.6 s)", "start who publishes it"),
        "skill 'knock', check": ("nobody publishes /answered (for 0.6 s)", "start who publishes it"),
        "skill 'squeeze', check": ("nobody publishes /joints (for 0.6 s)", "start who publishes it"),
    }
    graph.probe.create_subscription(String, "turning", print, 1)
    graph.probe.create_subscription(String, "speech", print, LATCHED)
    graph.probe.create_publisher(String, "door_state", 1)
    graph.probe.create_publisher(Int32, "level", 1)
    graph.probe.create_publisher(Bool, "answered", 1)
    graph.probe.create_publisher(JointState, "joints", 1)
    house.robot.log.clear()
    found = {one.what: one.said for one in wrong(checked(house, own))}
    assert found == {
        "skill 'say'": "/speech is heard as a latched topic alone, and a skill's message is not latched",
        "skill 'turn'": "/turning is of type std_msgs/msg/String, not geometry_msgs/msg/Twist",
        "skill 'turn', cancel": "/turning is of type std_msgs/msg/String, not geometry_msgs/msg/Twist",
        "skill 'wait'": "/door_state is of type std_msgs/msg/String, not diagnostic_msgs/msg/KeyValue",
    }
    assert house.robot.log == []  # nothing has moved
