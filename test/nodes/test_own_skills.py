"""A robot's own skills over ROS, as data from planner to server and back: goals, topics, waits, steps, checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import KeyValue
from geometry_msgs.msg import Twist
from nav2_msgs.action import NavigateToPose
from rcl_interfaces.msg import Log
from rclpy.task import Future
from reactree_interfaces.srv import AvailableSkills, DescribeHousehold
from robot_house import SKILLS, House, Result
from robot_servers import LATCHED
from ros_graph import Graph
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Int32, String
from test_robot_check import checked, plans_paths, wrong

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.turns import Told
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.messages import (
    arguments_from,
    arguments_to_msgs,
    request_from_msg,
    request_to_msg,
    values_from,
)
from reactree_ros.nodes.planner.adapters import RosWorld
from reactree_ros.nodes.robot.goal_templates import Field
from reactree_ros.world.port import Outcome
from reactree_ros.world.skill_policy import Range

SQUEEZED = "squeeze pudding 1 by 2.5 N in soft mode"


def settled(graph: Graph, pending: Any) -> Any:
    graph.until(pending.done)
    return pending.take()


def own(config: dict[str, Any]) -> None:
    config["skills"] |= SKILLS["own"]


@pytest.fixture
def house(house: House) -> House:
    house.add_robot()
    return house


@pytest.fixture
def at_table(house: House) -> House:
    house.start(own)
    house.does("go to kitchen table 1")
    return house


def test_a_skill_with_a_number_a_choice_or_a_text_is_done(at_table: House) -> None:
    at_table.does(SQUEEZED, "say Please wait. Then pick up pudding 1, and open fridge 1!")
    arguments = arguments_to_msgs({"thing": ["pudding 1"], "newton": ["2.5"], "mode": ["soft"]})
    goal = at_table.graph.skill("", to="robot_bridge", name="squeeze", arguments=arguments)
    assert goal.result.outcome == Result.DONE
    done = [line for line in at_table.robot.log if line.startswith("arm: s") and line != "arm: succeed"]
    squeezed, text = "arm: squeeze pudding 2.500 soft", "Please wait. Then pick up pudding 1, and open fridge 1!"
    assert done == [squeezed, f"arm: say at {text}", squeezed]
    assert at_table.robot.house.held == ""


def test_what_is_no_skill_is_refused_by_what_is_wrong_or_with_the_nearest(at_table: House) -> None:
    nearest = []
    for said, outcome, reason in (
        ("squeeze pudding 1 by 11 N in soft mode", Result.UNKNOWN_SKILL, "newton: 11 may not stand here"),
        ("squeeze pudding 1 by 2.6 N in soft mode", Result.UNKNOWN_SKILL, "newton: 2.6 may not stand here"),
        ("squeeze pudding 1 by 2.50 N in soft mode", Result.UNKNOWN_SKILL, "write it as 'squeeze pudding 1 by 2.5 N"),
        ("squeeze pudding 1 by 1 N in mad mode", Result.UNKNOWN_SKILL, "mode: 'mad' may not stand here; what may: so"),
        ("squeeze fridge 1 by 1 N in soft mode", Result.PRECONDITION, "thing: 'fridge 1' may not stand here"),
        ("squeeze unicorn 1 by 1 N in soft mode", Result.PRECONDITION, "thing: 'unicorn 1' may not stand here"),
        ("pick up unicorn 1", Result.UNKNOWN_SKILL, "unicorn"),
        ("squeze pudding 1", Result.UNKNOWN_SKILL, "did you mean 'squeeze'?"),
        ("pik up pudding 1", Result.UNKNOWN_SKILL, "did you mean 'pick up'?"),
        ("dance", Result.UNKNOWN_SKILL, "its skills are declared in robot.yaml"),
    ):
        refused = at_table.fails(said)
        assert (refused[0], reason in refused[1]) == (outcome, True), refused
        nearest.append(refused[1])
    assert all(f"{verb}," in message for message in nearest[-3:] for verb in ("go to", "pick up", "squeeze"))
    assert not any("squeeze" in line for line in at_table.robot.log)


@pytest.mark.parametrize(
    ("came", "said"),
    [("succeed", "note: succeed"), ("a" * 41, f"{'a' * 41} (it should be a text"), ("", "(it should be a text")],
)
def test_what_a_server_returns_is_data_and_kept_if_it_is_not_as_declared(at_table: House, came: str, said: str) -> None:
    at_table.robot.behave["switch"] = [came]
    result = at_table.does("signal")
    assert values_from(result.observation.data) == {"note": came}
    assert said in result.observation.text


def test_a_skill_goes_as_data_from_the_planners_side(at_table: House) -> None:
    graph = at_table.graph
    calls = Calls(graph.probe, patience=3600.0)
    graph.probe.create_timer(0.02, calls.watch)
    world = RosWorld(graph.probe, "robot_bridge", calls, Heartbeat(graph.probe))
    settled(graph, world.learn())
    offers = [one for one in settled(graph, world.available_skills()) if isinstance(one, Offer)]
    grammar = DecisionGrammar(("done",), (), offers=tuple(offers))
    request = DecisionRequest((Told("Your task is to: root"),), grammar, id="0.1")
    assert request_from_msg(request_to_msg(request)) == request
    squeeze = next(one for one in offers if one.skill.name == "squeeze")
    assert {"mug 1", "pudding 1"} <= set(squeeze.now["thing"])
    call = squeeze.read(SQUEEZED)
    seen = settled(graph, world.execute(call))
    assert (seen.outcome, seen.text[: len(SQUEEZED)]) == (Outcome.DONE, f"You {SQUEEZED}"[: len(SQUEEZED)])
    assert isinstance(world.household.call(SQUEEZED), SkillCall)
    assert settled(graph, world.execute("signal")).data == {"note": "succeed"}
    world.close()


ROUTINE = """<root BTCPP_format="4">
  <BehaviorTree ID="press out" _goal="press out {what}">
    <Sequence>
      <go_to thing="kitchen table 1"/>
      <RetryUntilSuccessful num_attempts="2"><squeeze thing="{what}" newton="2.5" mode="soft"/></RetryUntilSuccessful>
    </Sequence>
  </BehaviorTree>
  <TreeNodesModel><SubTree ID="press out"><input_port name="what" type="thing"/></SubTree></TreeNodesModel>
</root>
"""


def test_a_file_of_xml_is_a_skill_of_the_robot(house: House, tmp_path: Path) -> None:
    """The planner sees one skill, whose steps go to the robot's servers, each judged by the policy."""
    (tmp_path / "press.xml").write_text(ROUTINE)
    rules = [{"skill": one, "verdict": "allow"} for one in ("go to", "squeeze")]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"rules": rules}))
    graph = house.graph
    house.start(own, routine_skills=str(tmp_path), policy=str(tmp_path / "policy.yaml"))
    household = graph.call(DescribeHousehold, "robot_bridge/household")
    assert "press out" in {one.name for one in household.skills}
    house.does("go to kitchen table 1")  # what stands there is known then
    offers = graph.call(AvailableSkills, "robot_bridge/available_skills").offers
    now = {one.skill: arguments_from(one.places) for one in offers}
    assert "pudding 1" in now["press out"]["what"]
    assert SQUEEZED in house.does("press out pudding 1").observation.text
    assert [line for line in house.robot.log if "squeeze" in line] == ["arm: squeeze pudding 2.500 soft"]


def test_a_file_that_fits_no_skill_of_the_robot_is_said_before_anything_moves(house: House, tmp_path: Path) -> None:
    (tmp_path / "press.xml").write_text(ROUTINE.replace("squeeze thing", "squash thing"))
    node = house.graph.add(house.make_bridge(own, routine_skills=str(tmp_path)))
    with pytest.raises(UserError, match=r"press.xml:5: <squash>: 'squash' is not a node and no skill here"):
        node.take(node.load())


KINDS: dict[str, dict[str, Any]] = SKILLS["kinds"]
#: Where the robot stands at the end of `lay`.
AT_TABLE = "go to kitchen table 1"


def of_kinds(config: dict[str, Any]) -> None:
    config["skills"] |= KINDS
    config["look_time"] = 0.5


@pytest.fixture
def home(house: House) -> House:
    house.start(of_kinds, server_timeout=5.0)
    return house


def failed(home: House, skill: str) -> tuple[int, str]:
    outcome, message = home.fails(skill)
    return outcome, message.removeprefix(f"You could not {skill}: ").removesuffix(" You hold pudding (1).")


# ---------------------------------------------------------------------- a topic that is published on


def test_a_text_is_published_whole_as_soon_as_somebody_hears_it(home: House) -> None:
    assert failed(home, "say Hello") == (Result.WORLD_UNAVAILABLE, "who hears speech is not there (for 5 s)")
    heard = home.graph.listen(String, "speech")
    home.does("say Hello Anna. This is from Bob.")
    home.until(lambda: heard, "it is heard")
    assert [one.data for one in heard] == ["Hello Anna. This is from Bob."]


def test_what_lasts_is_published_until_it_has_lasted_and_nothing_stops_it(home: House) -> None:
    heard = home.graph.listen(Twist, "turning")
    home.does("turn for 1 s")
    assert {one.angular.z for one in heard} == {0.5}
    assert len(heard) > 3


@pytest.mark.parametrize("by", ["a cancel", "the emergency stop"])
def test_what_lasts_is_stopped_in_the_middle_by_what_its_cancel_says(home: House, by: str) -> None:
    heard = home.graph.listen(Twist, "turning")
    home.does(AT_TABLE)
    goal = home.skill("turn for 60 s")
    home.until(lambda: len(heard) > 3, "the robot turns")
    if by == "a cancel":
        goal.cancel()
        assert goal.status == GoalStatus.STATUS_CANCELED
    else:
        home.press(True)
        assert goal.result.outcome == Result.HALTED
    home.until(lambda: heard[-1].angular.z == 0.0, "it is told to stand")
    home.press(False)
    assert [one.angular.z for one in heard][-2:] == [0.5, 0.0]
    assert home.map.look() == []  # it may have left the table
    home.does(AT_TABLE)
    assert heard[-1].angular.z == 0.0


# ---------------------------------------------------------------------- a topic that is waited for


def test_a_wait_ends_by_a_message_that_has_all_that_is_waited_for(home: House) -> None:
    says = home.graph.probe.create_publisher(KeyValue, "door_state", 10)
    goal = home.skill("wait up to 60 s for fridge 1")
    home.until(says.get_subscription_count, "it is waited for")
    for door, state in (("fridge 1", "closed"), ("bed 1", "open"), ("fridge 1", "ajar")):
        says.publish(KeyValue(key=door, value=state))
    assert goal.result.outcome == Result.DONE
    home.until(lambda: not says.get_subscription_count(), "nobody waits any more")
    goal = home.skill("wait up to 60 s for bed 1")
    home.until(says.get_subscription_count, "it is waited for")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    home.graph.probe.create_publisher(KeyValue, "door_state", LATCHED).publish(KeyValue(key="bed 1", value="open"))
    home.does("wait up to 60 s for bed 1")  # what was latched before counts


def test_a_wait_takes_no_longer_than_its_parameter_says_and_tells_what_was_heard(home: House) -> None:
    late = "it took longer than 5 s and was stopped: door_state"
    assert failed(home, "wait up to 5 s for bed 1") == (Result.TIMEOUT, f"{late} was silent.")
    home.graph.probe.create_publisher(KeyValue, "door_state", LATCHED).publish(KeyValue(key="bed 1", value="shut"))
    assert failed(home, "wait up to 5 s for bed 1") == (Result.TIMEOUT, f"{late}: value is shut.")


def test_a_wait_ends_by_a_code_with_its_outcome_or_with_data(home: House) -> None:
    says = home.graph.probe.create_publisher(Int32, "level", LATCHED)
    says.publish(Int32(data=-1))
    assert failed(home, "charge") == (Result.PRECONDITION, "level: error code -1.")
    says.publish(Int32(data=50))
    goal = home.skill("charge")
    home.until(says.get_subscription_count, "it is waited for")
    says.publish(Int32(data=51))
    assert "It returned level: 51." in goal.result.observation.text


# ---------------------------------------------------------------------- several steps in a row


@pytest.fixture
def holding(home: House) -> House:
    home.does(AT_TABLE, "pick up pudding 1")
    home.robot.log.clear()
    return home


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


def test_a_cancel_of_ones_own_is_sent_besides(home: House) -> None:
    goal = home.begins("ring", "arm", "hold")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert home.robot.log[-1] == "stopped: arm"
    home.until(lambda: home.robot.switched == [False], "the switch is told")


# ---------------------------------------------------------------------- not as reported


@pytest.mark.parametrize(("joints", "value"), [([0.0], None), ([0.0, 0.25], 0.25), ([0.0, 0.001], 0.001)])
def test_one_of_a_list_may_tell_whether_it_was_done(home: House, joints: list[float], value: float | None) -> None:
    field = Field(JointState, "position[1]", Range(above=-0.01, below=0.01), "squeeze", {})
    read = field.read(JointState(position=joints))
    assert read == value
    assert field.wanted({})(read) == (value == 0.001)
    if value == 0.001:
        home.graph.probe.create_publisher(JointState, "joints", LATCHED).publish(JointState(position=joints))
        home.does("squeeze")


def test_what_a_topic_does_not_confirm_was_not_done(home: House) -> None:
    said = "arm reported success, but answered"
    assert failed(home, "knock at fridge 1") == (Result.POSTCONDITION, f"{said} was silent (5 s).")
    answers = home.graph.probe.create_publisher(Bool, "answered", LATCHED)
    answers.publish(Bool(data=False))
    assert failed(home, "knock at fridge 1") == (Result.POSTCONDITION, f"{said}: data is False (5 s).")
    assert home.map.by_name["fridge 1"].states == {"CLOSED", "ON"}
    answers.publish(Bool(data=True))
    home.does("knock at fridge 1")
    assert home.map.by_name["fridge 1"].states == {"OPEN", "ON"}


def test_what_a_service_does_not_confirm_was_not_done(home: House) -> None:
    home.robot.behave["switch"] = ["fail"]
    reason = "arm reported success, but switch: success is False."
    assert failed(home, "light bed 1") == (Result.POSTCONDITION, reason)
    assert "ON" not in home.map.by_name["bed 1"].states
    home.does("light bed 1")
    assert "ON" in home.map.by_name["bed 1"].states


def test_what_detections_speak_against_was_not_done_whatever_the_skill(home: House) -> None:
    home.does(AT_TABLE)
    home.does("show pudding 1 on kitchen table 1")
    reason = "arm reported success, but the pudding is detected at the kitchen table (1)."
    assert failed(home, "show pudding 1 on bed 1") == (Result.POSTCONDITION, reason)
    home.robot.behave["arm"] = ["fail"]
    reason = "arm reported success, but the pudding is still detected at the kitchen table (1)."
    assert failed(home, "clear pudding 1 away") == (Result.POSTCONDITION, reason)
    home.does("clear pudding 1 away")
    reason = "arm reported success, but the pudding (1) is not detected at the kitchen table (1)."
    assert failed(home, "show pudding 1 on kitchen table 1") == (Result.POSTCONDITION, reason)


# ---------------------------------------------------------------------- before anything moves


def test_a_dry_run_logs_all_that_would_be_asked(graph: Graph, tmp_path: Path) -> None:
    home = House(graph, tmp_path)
    home.add_robot()
    home.robot.blind = True
    said = graph.listen(Log, "/rosout")
    home.start(of_kinds, dry_run=True)
    home.does("say Hello", "turn for 2 s", "wait up to 9 s for bed 1", "knock at fridge 1")
    lines = [
        'say Hello -> speech (std_msgs/msg/String) {"data": "Hello"}',
        "} for 2 s; stopped by turning (geometry_msgs/msg/Twist) {",
        "-> door_state (diagnostic_msgs/msg/KeyValue) until key is bed 1, value is open or ajar, at most 9 s",
        "knock at fridge 1 -> answered (std_msgs/msg/Bool) until data is True, at most 5 s",
    ]
    graph.until(lambda: all(any(line in one.msg for one in said) for line in lines), "all is logged")
    home.does("go to fridge 1", "pick up apple 1", "go to coffee table 1")  # as if all went well
    assert home.does("put down apple 1").observation.text == "You put down apple on coffee table"
    assert home.robot.log == []


def test_a_check_looks_for_everyone_that_a_skill_asks(graph: Graph, tmp_path: Path) -> None:
    home = House(graph, tmp_path)
    home.add_robot()
    plans_paths(home)
    found = {one.what: (one.said, one.remedy) for one in wrong(checked(home, of_kinds))}
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
    home.robot.log.clear()
    found = {one.what: one.said for one in wrong(checked(home, of_kinds))}
    assert found == {
        "skill 'say'": "/speech is heard as a latched topic alone, and a skill's message is not latched",
        "skill 'turn'": "/turning is of type std_msgs/msg/String, not geometry_msgs/msg/Twist",
        "skill 'turn', cancel": "/turning is of type std_msgs/msg/String, not geometry_msgs/msg/Twist",
        "skill 'wait'": "/door_state is of type std_msgs/msg/String, not diagnostic_msgs/msg/KeyValue",
    }
    assert home.robot.log == []  # nothing has moved
