"""The robot bridge on a real ROS: servers that behave like Nav2 and an arm, tf and detections from a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nav2_msgs.action import Spin
from rcl_interfaces.msg import Log
from rclpy.action import ActionServer
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.srv import AvailableSkills, DescribeHousehold, Observe, ResetWorld
from robot_house import Change, House, Result, in_skill
from robot_servers import LATCHED
from ros_graph import Graph, entities
from std_msgs.msg import Bool, Int32, String
from std_srvs.srv import Trigger

from reactree_ros.errors import UserError
from reactree_ros.robot.config import load_robot

CONFIG = Path(__file__).parents[2] / "config"
#: How many of the bridge's subscriptions hear a publisher of the emergency stop.
HEARD_BY = {
    ("RELIABLE", "TRANSIENT_LOCAL"): 3,
    ("RELIABLE", "VOLATILE"): 2,
    ("BEST_EFFORT", "TRANSIENT_LOCAL"): 1,
    ("BEST_EFFORT", "VOLATILE"): 1,
}


@pytest.fixture
def house(graph: Graph, tmp_path: Path) -> House:
    return House(graph, tmp_path)


def warnings(said: list[Log], text: str) -> list[str]:
    """What was warned of with these words."""
    return [log.msg for log in said if log.level == 30 and text in log.msg]  # 30: rcl_interfaces/Log.WARN, a byte


# ---------------------------------------------------------------------- what goes well


def test_things_are_fetched_from_a_closed_fridge_to_a_table(house: House) -> None:
    robot = house.add_robot()
    house.start()
    result = house.does("go to kitchen 1", "go to fridge 1")
    assert "The fridge (1) is closed. You see fridge (1)" in result.observation.text
    assert house.does("open fridge 1").observation.text == "You open fridge. You see apple (1), fridge (1)"
    assert house.does("pick up apple 1").observation.text == "You pick up apple. You hold apple (1)."
    result = house.does("go to coffee table 1", "put down apple 1")
    assert result.observation.text == "You put down apple on coffee table"
    assert robot.house.objects["apple"] == pytest.approx((2.5, 3.4, 0.45))
    house.graph.until(lambda: house.map.by_name["apple 1"].seen, "the apple is detected there")
    assert [item.name for item in house.map.items() if item.word == "apple"] == ["apple 1"]
    assert "pick up apple 1" in house.does("go to coffee table 1").skills


def test_the_goal_is_where_the_map_says_and_its_end_is_waited_for(house: House) -> None:
    robot = house.add_robot(speed=4.0)
    house.start()
    goal = house.skill("go to kitchen table 1")
    result = goal.result
    assert (goal.status, result.outcome) == (GoalStatus.STATUS_SUCCEEDED, Result.DONE)
    assert "navigates to 7.5 2.3" in robot.log
    assert (robot.x, robot.y) == (7.5, 2.3)
    assert {one.phase for one in goal.feedback} == {ExecuteSkill.Feedback.EXECUTING}
    assert result.observation.text.endswith("You see kitchen table (1), mug (1), pudding (1)")


def test_an_arms_own_action_gets_name_and_pose_in_its_own_fields(house: House) -> None:
    def change(config: dict[str, Any]) -> None:
        goal = {"dock_id": "{object.name}", "dock_pose": "{object.pose}", "dock_type": "{verb}", "use_dock_id": False}
        config["skills"]["pick up"] = {
            "action": "gripper",
            "type": "nav2_msgs/action/DockRobot",
            "goal": goal,
            "success": {"success": True},
        }

    robot = house.add_robot(behave={"gripper": ["fail"]})
    house.start(change)
    house.does("go to kitchen table 1")
    failed = house.skill("pick up pudding 1").result
    assert (failed.outcome, failed.message) == (
        Result.EXECUTION,
        "You could not pick up the pudding (1): gripper: success is False.",
    )
    assert house.map.held == []
    house.does("pick up pudding 1")
    assert robot.log[-1] == "gripper: pick up pudding 1 map 7.60 3.10"


def test_a_switch_is_a_service(house: House) -> None:
    robot = house.add_robot(behave={"switch": ["is broken"]})
    house.start()
    house.does("go to table lamp 1")
    failed = house.skill("turn on table lamp 1").result
    assert failed.outcome == Result.EXECUTION
    assert failed.message == "You could not turn on the table lamp (1): switch: is broken."
    house.does("turn on table lamp 1", "turn off table lamp 1")
    assert robot.switched == [True, True, False]


def test_the_services_speak_of_the_map(house: House) -> None:
    house.add_robot()
    house.start()
    text = house.graph.call(Observe, "robot_bridge/observe").observation.text
    assert text.startswith("You are in the house, and there are 5 rooms: bathroom (1), bedroom (1, 2)")
    skills = house.graph.call(AvailableSkills, "robot_bridge/available_skills")
    assert {"go to bedroom 2", "go to sofa 1", "turn on table lamp 1"} <= set(skills.skills)
    reset = house.graph.call(ResetWorld, "robot_bridge/reset", task_id=-1)
    assert reset.message == "a robot cannot bring its house back to a start; give an instruction"
    told = house.graph.call(DescribeHousehold, "robot_bridge/household")
    assert {"sofa", "fridge", "coffee table"} <= set(told.places)
    assert "apple" in told.recallable
    assert "apple" not in told.places


def test_an_observation_says_where_tf_has_the_robot_and_where_the_map_has_what_stands_there(house: House) -> None:
    robot = house.add_robot()
    house.start()
    around = house.graph.call(Observe, "robot_bridge/observe").observation.spots
    assert (around[0].name, around[0].x, around[0].y, around[0].yaw) == ("", 2.5, 2.0, 0.0)
    named = {spot.name: spot for spot in around}
    assert list(named["kitchen 1"].outline) == [5.0, 0.0, 10.0, 0.0, 10.0, 4.0, 5.0, 4.0]
    fridge = named["fridge 1"]
    assert (fridge.x, fridge.y, fridge.yaw, len(fridge.outline)) == (9.6, 1.0, 0.0, 8)
    near = house.does("go to kitchen table 1").observation.spots
    assert (near[0].x, near[0].y, near[0].yaw) == tuple(round(at, 3) for at in (robot.x, robot.y, robot.yaw))
    assert (near[0].x, near[0].y) == (7.5, 2.3)
    pudding = {spot.name: spot for spot in near}["pudding 1"]
    assert (pudding.x, pudding.y) == (7.6, 3.1)


# ---------------------------------------------------------------------- failures of the robot's servers


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        (208, "EXECUTION", "navigate_to_pose: NO_VALID_PATH, error code 208, as told"),
        (204, "PRECONDITION", "navigate_to_pose: GOAL_OUTSIDE_MAP, error code 204, as told"),
        (207, "TIMEOUT", "navigate_to_pose: PLANNER_TIMED_OUT, error code 207, as told"),
        (102, "WORLD_UNAVAILABLE", "navigate_to_pose: FOLLOW_PATH_TF_ERROR, error code 102, as told"),
        (4711, "EXECUTION", "navigate_to_pose: error code 4711, as told"),
    ],
)
def test_error_codes_of_nav2_become_outcomes(house: House, code: int, outcome: str, words: str) -> None:
    house.add_robot(behave={"navigate_to_pose": [f"abort:{code}"] * 2})
    house.start()
    goal = house.skill("go to bed 1")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, getattr(Result, outcome))
    assert goal.result.message == f"You could not go to the bed (1): {words}."
    house.robot.behave.clear()
    house.does("go to bed 1")


def test_what_failed_on_the_way_is_tried_again_as_often_as_the_mapping_says(house: House) -> None:
    robot = house.add_robot(behave={"navigate_to_pose": ["abort:208"], "arm": ["abort:1"]})
    house.start()
    house.does("go to fridge 1")
    assert robot.log[:4].count("navigate_to_pose: abort:208") == 1
    assert house.skill("open fridge 1").result.outcome == Result.EXECUTION  # its mapping has no retries


def test_a_goal_that_is_rejected_is_refused_where_the_mapping_says_that_the_goal_is_meant(house: House) -> None:
    house.add_robot()
    house.start(in_skill("open", rejected="precondition"))
    house.does("go to fridge 1")
    house.robot.behave["arm"] = ["reject"]
    result = house.skill("open fridge 1").result
    assert result.outcome == Result.PRECONDITION
    assert result.message == "You could not open the fridge (1): arm rejected the goal."
    house.does("open fridge 1")


def test_a_server_that_is_not_there_is_named_within_its_bound(house: House) -> None:
    house.add_robot(nav=False)
    house.start(server_timeout=0.3)
    result = house.skill("go to bed 1").result
    assert (result.outcome, result.message) == (
        Result.WORLD_UNAVAILABLE,
        "navigate_to_pose is not there (for 0.3 s)",
    )


def test_a_server_that_never_answers_is_given_up_and_its_goal_taken_back_later(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=0.3)
    house.graph.halt(robot)
    result = house.skill("go to bed 1").result
    assert (result.outcome, result.message) == (
        Result.WORLD_UNAVAILABLE,
        "navigate_to_pose did not answer within 0.3 s",
    )
    refused = house.skill("go to sofa 1").result
    assert (refused.outcome, refused.message) == (
        Result.WORLD_UNAVAILABLE,
        "'go to sofa 1' could not begin within 1 s: 'go to bed 1' has not stopped yet",
    )
    robot.behave["navigate_to_pose"] = ["hold"]
    house.graph.resume(robot)
    house.graph.until(lambda: "stopped: navigate_to_pose" in robot.log, "the late goal is canceled")
    house.graph.until(lambda: not house.bridge.host.bare._robot.servers.obstacle())
    house.does("go to sofa 1")


def test_a_goal_that_never_ends_is_stopped_at_its_time_limit(house: House) -> None:
    robot = house.add_robot()
    house.start(in_skill("go to", time_limit=0.3))
    goal = house.goes("hold")
    assert goal.result.outcome == Result.TIMEOUT
    assert goal.result.message == "You could not go to the bed (1): it took longer than 0.3 s and was stopped."
    assert robot.log[-2:] == ["cancel: navigate_to_pose", "stopped: navigate_to_pose"]


def test_the_bridges_own_limit_stops_the_robot_too(house: House) -> None:
    robot = house.add_robot()
    house.start(skill_timeout=0.3)
    assert house.goes("hold").result.outcome == Result.TIMEOUT
    assert robot.log[-1] == "stopped: navigate_to_pose"


def test_a_robot_that_does_not_stop_is_named_and_nothing_else_is_begun(house: House) -> None:
    robot = house.add_robot()
    house.start(stop_timeout=0.3)
    goal = house.goes("deaf")
    goal.cancel()
    assert goal.result.message == "'go to bed 1' did not stop within 0.3 s"
    refused = house.skill("go to sofa 1").result
    assert (refused.outcome, refused.message) == (
        Result.WORLD_UNAVAILABLE,
        "'go to bed 1' did not stop within 0.3 s",
    )
    for _, future in robot._running:
        future.deaf = False
    house.graph.until(lambda: not house.bridge.host.bare._robot.servers.obstacle(), "it has stopped")
    house.does("go to sofa 1")


def test_a_robot_that_refuses_to_stop_is_told_again(house: House) -> None:
    robot = house.add_robot()
    house.start(stop_timeout=30.0)
    goal = house.goes("stubborn")
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    assert robot.log[-3:] == [
        "cancel refused: navigate_to_pose",
        "cancel: navigate_to_pose",
        "stopped: navigate_to_pose",
    ]


def test_a_time_limit_on_a_robot_that_does_not_stop_is_said(house: House) -> None:
    house.add_robot()
    house.start(in_skill("go to", time_limit=0.2), stop_timeout=0.2)
    result = house.goes("deaf").result
    assert result.outcome == Result.WORLD_UNAVAILABLE
    assert result.message.endswith("was stopped. It did not stop within 0.2 s.")


def test_a_server_that_vanishes_is_named_and_used_again_when_it_is_back(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=0.3)
    goal = house.goes("hold")
    house.graph.kill(robot)
    assert (goal.result.outcome, goal.result.message) == (
        Result.WORLD_UNAVAILABLE,
        "navigate_to_pose has gone (for 0.3 s)",
    )
    refused = house.skill("go to sofa 1").result
    assert refused.outcome == Result.WORLD_UNAVAILABLE
    assert "navigate_to_pose has gone, and it is not known whether the robot has stopped" in refused.message
    house.add_robot()
    house.graph.until(
        lambda: not house.bridge.host.bare._robot.servers.obstacle(), "the new server knows nothing of the old goal"
    )
    house.does("go to sofa 1")


def test_somebody_elses_cancel_is_told_from_a_failure(house: House) -> None:
    house.add_robot()
    house.start()
    goal = house.goes("hold")
    house.graph.call(CancelGoal, "navigate_to_pose/_action/cancel_goal")  # every goal
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.CANCELED)
    assert goal.result.message == "You could not go to the bed (1): somebody else canceled it on navigate_to_pose."


# ---------------------------------------------------------------------- cancel, emergency stop, policy


def test_cancel_in_mid_navigation_goes_through_and_waits_until_the_robot_has_stopped(house: House) -> None:
    robot = house.add_robot(speed=1.0)
    house.start()
    goal = house.skill("go to desk 1")
    house.graph.until(lambda: robot.x > 2.6, "the robot is on its way")
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    assert robot.log[-2:] == ["cancel: navigate_to_pose", "stopped: navigate_to_pose"]
    assert robot.x < 8.0
    assert house.map.look() == []
    house.does("go to sofa 1")


def test_cancel_before_the_goal_was_accepted_is_carried_out_on_acceptance(house: House) -> None:
    robot = house.add_robot(alone=True, behave={"navigate_to_pose": ["hold"]})
    house.start(server_timeout=30.0, stop_timeout=30.0)
    house.graph.halt(robot)
    goal = house.skill("go to bed 1")
    house.graph.until(lambda: house.bridge.host.bare._errand, "the goal was sent")
    goal.cancel()
    house.graph.resume(robot)
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert robot.log[-1] == "stopped: navigate_to_pose"


def test_the_emergency_stop_stops_what_runs_and_refuses_what_is_asked(house: House) -> None:
    robot = house.add_robot()
    house.start()
    goal = house.goes("hold")
    house.press(True)
    assert goal.result.outcome == Result.HALTED
    assert goal.result.message == "You could not go to the bed (1): the emergency stop is engaged."
    assert robot.log[-1] == "stopped: navigate_to_pose"
    refused = house.skill("go to sofa 1").result
    assert refused.outcome == Result.HALTED
    assert refused.message == "You cannot go to sofa 1 now: the emergency stop is engaged."
    house.press(False)
    house.graph.until(lambda: not house.stop.engaged(), "it is released")
    house.does("go to sofa 1")


def test_an_emergency_stop_that_falls_silent_counts_as_engaged(house: House) -> None:
    house.add_robot()
    house.start(lambda config: config["emergency_stop"].update(silent_for=0.2))
    house.graph.until(house.stop.engaged, "it has been silent")
    result = house.skill("go to sofa 1").result
    assert "the emergency stop's topic /emergency_stop has been silent for 0.2 s" in result.message


def test_a_latched_stop_that_was_pressed_before_the_start_is_heard(house: House) -> None:
    robot = house.add_robot()
    house.press(True)
    house.start()
    assert house.skill("go to sofa 1").result.message.endswith("the emergency stop is engaged.")
    assert robot.log == []


def test_an_emergency_stop_that_nobody_has_heard_yet_is_engaged(house: House) -> None:
    robot = house.add_robot()
    house.start(lambda config: config["emergency_stop"].update(topic="/stop"), stop_heard=False)
    refused = house.skill("go to sofa 1").result
    assert refused.message.endswith("the emergency stop's topic /stop has not been heard yet.")
    assert robot.log == []


@pytest.fixture
def stranger(graph: Graph) -> Iterator[Any]:
    """A node of another participant, which may have a topic with another type."""
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=graph.domain_id)
    node = rclpy.create_node("stranger", context=context)
    yield node
    node.destroy_node()
    context.try_shutdown()


def test_an_emergency_stop_of_another_type_is_said_to_be_so(house: House, stranger: Any) -> None:
    stranger.create_publisher(Int32, "/stop", 1)
    house.add_robot()
    house.start(lambda config: config["emergency_stop"].update(topic="/stop"), stop_heard=False)
    unlike = "/stop is of type std_msgs/msg/Int32, not std_msgs/msg/Bool"
    house.graph.until(lambda: unlike in house.bridge.lacks(), "bring-up is told so")
    result = house.skill("go to bed 1").result
    assert result.outcome == Result.HALTED
    assert result.message == f"You cannot go to bed 1 now: the emergency stop's topic {unlike}."


def _topic(name: str, **entry: Any) -> Change:
    return lambda config: config.update({name: {"topic": "/thing", **entry} if entry else "/thing"})


def _map_topic(config: dict[str, Any]) -> None:
    config["map_topic"] = "/thing"
    del config["map"]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (_topic("battery", least=0.1), "sensor_msgs/msg/BatteryState"),
        (_topic("detections"), "vision_msgs/msg/Detection3DArray"),
        (_topic("pose", type="geometry_msgs/msg/PoseStamped"), "geometry_msgs/msg/PoseStamped"),
        (_map_topic, "std_msgs/msg/String"),
    ],
)
def test_a_topic_of_another_type_is_said_to_be_so(house: House, stranger: Any, change: Change, wanted: str) -> None:
    stranger.create_publisher(Int32, "/thing", 1)
    house.start(change, stop_heard=False)
    unlike = f"/thing is of type std_msgs/msg/Int32, not {wanted}"
    house.graph.until(lambda: unlike in house.bridge.lacks(), "bring-up is told so")


def test_a_map_that_is_not_latched_is_said_to_be_so(house: House, stranger: Any) -> None:
    stranger.create_publisher(String, "/thing", 1)
    house.start(_map_topic, stop_heard=False)
    unlike = "/thing is published volatile, but must be transient local to be heard"
    house.graph.until(lambda: unlike in house.bridge.lacks(), "bring-up is told so")


def test_servers_of_another_type_are_said_to_be_so(house: House, stranger: Any) -> None:
    server = ActionServer(stranger, Spin, "/drives", lambda goal: Spin.Result())
    stranger.create_service(Trigger, "/switches", lambda request, response: response)

    def change(config: dict[str, Any]) -> None:
        config["skills"]["go to"]["action"] = "/drives"
        config["skills"]["turn on"]["service"] = "/switches"

    house.start(change, stop_heard=False)
    for unlike in (
        "/drives is of type nav2_msgs/action/Spin, not nav2_msgs/action/NavigateToPose",
        "/switches is of type std_srvs/srv/Trigger, not std_srvs/srv/SetBool",
    ):
        house.graph.until(lambda unlike=unlike: unlike in house.bridge.lacks(), "bring-up is told so")
    server.destroy()


def test_an_emergency_stop_that_nobody_publishes_any_more_is_engaged(house: House) -> None:
    robot = house.add_robot()
    house.start()
    goal = house.goes("hold")
    house.graph.probe.destroy_publisher(house.button)
    assert goal.result.message.endswith("nobody publishes the emergency stop's topic /emergency_stop any more.")
    assert robot.log[-1] == "stopped: navigate_to_pose"


@pytest.mark.parametrize("reliability", ["RELIABLE", "BEST_EFFORT"])
@pytest.mark.parametrize("durability", ["TRANSIENT_LOCAL", "VOLATILE"])
def test_an_emergency_stop_is_heard_however_it_is_published(house: House, reliability: str, durability: str) -> None:
    house.add_robot()
    house.start(lambda config: config["emergency_stop"].update(topic="/stop"), stop_heard=False)
    offered = QoSProfile(depth=1, reliability=ReliabilityPolicy[reliability], durability=DurabilityPolicy[durability])
    button = house.graph.probe.create_publisher(Bool, "/stop", offered)
    heard = "the emergency stop is engaged"
    for pressed, says in ((False, ""), (True, heard), (False, ""), (True, heard)):
        house.graph.until(lambda: button.get_subscription_count() == HEARD_BY[reliability, durability], "it is matched")
        button.publish(Bool(data=pressed))
        house.graph.until(lambda says=says: house.stop.engaged() == says, f"'{says}'")


def test_a_release_that_comes_late_does_not_take_back_a_press(house: House) -> None:
    house.add_robot()
    house.start()
    stop = house.stop
    now = house.graph.probe.get_clock().now().nanoseconds
    for sent_at, pressed, engaged in ((2, True, True), (1, False, True), (2, True, True), (3, False, False)):
        stop._hear(Bool(data=pressed), {"source_timestamp": now + sent_at})
        assert bool(stop.engaged()) is engaged


def test_a_stop_that_fails_open_lets_the_robot_move_unheard_and_is_warned_of_at_every_start(house: House) -> None:
    house.add_robot()
    said = house.graph.listen(Log, "/rosout")
    open_stop = {"topic": "/stop", "latched": False, "fail_open": True}
    bridge = house.start(lambda config: config["emergency_stop"].update(open_stop))
    house.does("go to sofa 1")
    for step in ("deactivate", "cleanup", "configure", "activate"):
        assert getattr(bridge, f"trigger_{step}")() == TransitionCallbackReturn.SUCCESS
    house.graph.until(lambda: len(warnings(said, "fail_open is true")) == 2, "it is warned of at both starts")
    house.graph.probe.create_publisher(Bool, "/stop", LATCHED).publish(Bool(data=True))
    house.graph.until(lambda: house.stop.engaged() == "the emergency stop is engaged", "it is heard")


def test_diagnostics_warn_of_a_server_that_is_not_there_and_of_the_emergency_stop(house: House) -> None:
    house.add_robot()
    house.start(in_skill("go to", action="nowhere"))
    heard = house.graph.listen(DiagnosticArray, "/diagnostics")

    def last() -> DiagnosticStatus:
        return heard[-1].status[0] if heard else DiagnosticStatus()

    house.graph.until(
        lambda: last().message == "nowhere (nav2_msgs/action/NavigateToPose) is not there", "the server is missed"
    )
    values = {one.key: one.value for one in last().values}
    assert (last().name, last().level) == ("/robot_bridge: world", DiagnosticStatus.WARN)
    assert (values["nowhere"], values["emergency stop"], values["map"]) == ("away", "released", "in frame 'map'")
    house.press(True)
    house.graph.until(lambda: last().message == "the emergency stop is engaged", "the stop is told")
    assert last().level == DiagnosticStatus.WARN


def test_a_robot_without_an_emergency_stop_is_warned_of(house: House) -> None:
    house.add_robot()
    said = house.graph.listen(Log, "/rosout")
    house.start(lambda config: config.update(emergency_stop=None))
    house.does("go to sofa 1")
    house.graph.until(lambda: warnings(said, "nothing but a cancel stops the robot"), "it is warned of")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda config: config.pop("emergency_stop"),
            "name the emergency_stop, or say emergency_stop: null where the robot has none",
        ),
        (
            lambda config: config["emergency_stop"].update(latched=False),
            "emergency_stop: a press could be missed; say latched: true (transient local), or silent_for: SECONDS",
        ),
        (
            lambda config: config["emergency_stop"].update(fail_open=True, silent_for=1.0),
            "silent_for stops a robot that fail_open lets move; leave one of them out",
        ),
    ],
)
def test_a_configuration_that_does_not_say_how_the_stop_is_known_is_refused(
    house: House, change: Change, said: str
) -> None:
    node = house.graph.add(house.make_bridge(change))
    with pytest.raises(UserError) as error:
        node.load()
    assert said in str(error.value)


def test_the_shipped_stop_is_the_safe_one() -> None:
    stop = load_robot(CONFIG / "robot.yaml").emergency_stop
    assert stop is not None
    assert (stop.latched, stop.fail_open) == (True, False)


def test_the_policy_is_enforced_before_anything_is_sent(house: House, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{skill: go to, verdict: allow}, {skill: pick up, object: pudding, verdict: deny}]")
    robot = house.add_robot()
    house.start(policy=str(policy))
    house.does("go to kitchen table 1")
    result = house.skill("pick up pudding 1").result
    assert result.outcome == Result.REFUSED_BY_POLICY
    assert result.message == "The skill was not carried out: the skill policy says deny for 'pick up pudding'."
    assert not any(line.startswith("arm") for line in robot.log)


# ---------------------------------------------------------------------- what is refused before anything moves


@pytest.mark.parametrize(
    ("skill", "outcome", "said"),
    [
        ("pick up pudding 1", "PRECONDITION", "The pudding is not close to you."),
        ("put down pudding 1", "PRECONDITION", "You do not grab the pudding."),
        ("open fridge 1", "PRECONDITION", "The fridge is not close to you."),
        ("pick up apple 7", "UNKNOWN_SKILL", "There is no apple 7 in the house."),
        ("wave at user 1", "UNKNOWN_SKILL", "'wave at user 1' is no skill of this robot."),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_sent(house: House, skill: str, outcome: str, said: str) -> None:
    robot = house.add_robot()
    house.start()
    result = house.skill(skill).result
    assert result.outcome == getattr(Result, outcome)
    assert result.message.startswith(said)
    assert robot.log == []


def test_what_is_not_detected_any_more_is_not_picked_up(house: House) -> None:
    robot = house.add_robot()
    house.change_map(lambda values: values["objects"].update(fresh_for=0.3))
    house.start()
    house.does("go to kitchen table 1")
    robot.blind = True
    clock = house.bridge.host.bare._robot.senses
    house.graph.until(lambda: clock.now() - house.map.by_name["pudding 1"].seen > 0.4, "time passes")
    result = house.skill("pick up pudding 1").result
    assert result.outcome == Result.PRECONDITION
    assert result.message.startswith("The pudding was last detected 0 s ago, more than 0.3 s.")


def test_what_nobody_can_say_the_place_of_is_refused(house: House) -> None:
    robot = house.add_robot()

    def in_the_attic(values: dict[str, Any]) -> None:
        values["receptacles"][0]["approach"]["frame"] = "attic"

    house.change_map(in_the_attic)
    house.start()
    result = house.skill("go to coffee table 1").result
    assert result.outcome == Result.PRECONDITION
    assert result.message == "You cannot go to coffee table 1: there is no transform from 'attic' to 'map'."
    robot._stamped(robot._static, "map", "attic", 1.0, 0.0, 0.0)
    house.graph.until(lambda: house.map.in_map(house.map.by_name["coffee table 1"].approach), "tf says where")
    house.does("go to coffee table 1")
    assert "navigates to 3.5 2.5" in robot.log


# ---------------------------------------------------------------------- detections, the map


def test_detections_are_taken_in_from_any_frame_that_tf_knows(house: House) -> None:
    robot = house.add_robot()
    house.start()
    robot.see({"cup": (2.5, 3.2, 0.5)}, frame="map")
    house.graph.until(lambda: "mug 1" in house.map.by_name, "it is taken in")
    robot.see({"apple": (2.5, 3.2, 0.5)}, frame="nowhere")
    robot.see({"apple": (2.5, 3.2, 0.5)}, frame="map", score=0.4)
    robot.see({"zebra": (2.5, 3.2, 0.5)}, frame="map")
    robot.see({"apple": (float("nan"), 3.2, 0.5)}, frame="map")
    robot.see({"cup": (2.6, 3.2, 0.5)}, frame="map")
    house.graph.until(lambda: house.map.by_name["mug 1"].pose.x == 2.6, "the same mug is seen a little further")
    house.graph.until(lambda: not house.bridge.host.bare._robot.senses._waiting, "what has no transform is given up")
    assert {item.name for item in house.map.items() if item.seen} == {"mug 1"}


def test_a_map_from_a_latched_topic_is_used_and_a_wrong_one_is_not(house: House) -> None:
    house.add_robot()

    def from_topic(config: dict[str, Any]) -> None:
        config["map_topic"] = "/semantic_map"
        del config["map"]

    house.start(from_topic)
    without = house.graph.call(Observe, "robot_bridge/observe")
    assert without.message == "there is no semantic map on /semantic_map yet"
    assert house.skill("go to bed 1").result.message == without.message
    publisher = house.graph.probe.create_publisher(String, "/semantic_map", LATCHED)
    publisher.publish(String(data=(CONFIG / "semantic_map.yaml").read_text()))
    house.graph.until(lambda: house.map is not None, "the map is there")
    house.does("go to bed 1")
    known = house.map
    publisher.publish(String(data="rooms: []"))
    publisher.publish(String(data=(CONFIG / "semantic_map.yaml").read_text().replace("bed 1", "bed 4")))
    house.graph.until(lambda: house.map is not known, "the next map is there")
    house.does("go to bed 4")


# ---------------------------------------------------------------------- dry run, configuring


def test_a_dry_run_sends_nothing_and_goes_on_as_if_all_went_well(house: House) -> None:
    robot = house.add_robot()
    house.start(dry_run=True)
    house.does("go to fridge 1", "open fridge 1", "pick up apple 1", "go to coffee table 1")
    assert house.does("put down apple 1").observation.text == "You put down apple on coffee table"
    assert robot.log == []


@pytest.mark.parametrize(
    ("verb", "entries", "said"),
    [
        ("go to", {"type": "nav3_msgs/action/Go"}, "skills.go to: the type is 'nav3_msgs/action/Go', but there is no"),
        ("go to", {"type": "nav2_msgs/action/Fly"}, "but the package 'nav2_msgs' has no action 'Fly'"),
        ("go to", {"action": "go there!"}, "the name 'go there!' is not one that ROS allows: Invalid topic name"),
        ("go to", {"type": "nav2_msgs/Fly"}, "a type of actions is written like package/action/Type"),
        ("turn on", {"type": "nav2_msgs/action/Spin"}, "a type of services is written like package/srv/Type"),
        (
            "go to",
            {"goal": {"poze": "{pose}"}},
            "field 'poze': nav2_msgs/action/NavigateToPose_Goal has no field",
        ),
        (
            "go to",
            {"goal": {"pose.header.frame": "map"}},
            "'pose.header.frame': std_msgs/msg/Header has no field",
        ),
        ("go to", {"goal": {"pose": "{place}"}}, "goal: field 'pose': the template '{place}' names 'place'; there are"),
        (
            "go to",
            {"goal": {"pose": "{object.name}"}},
            "PoseStamped cannot be '{object.name}', which is a text",
        ),
        ("go to", {"goal": {"behavior_tree": "{pose}"}}, "'{pose}' is a pose, not a text; name a part of it"),
        ("go to", {"goal": {"behavior_tree": 3}}, "goal: field 'behavior_tree': a string cannot be 3"),
        ("go to", {"goal": {"pose.pose.position.x": "far"}}, "field 'pose.pose.position.x': double cannot be 'far'"),
        ("go to", {"goal": {"pose": 1}}, "geometry_msgs/msg/PoseStamped cannot be 1; give its fields or a template"),
        (
            "go to",
            {"code": "error"},
            "field 'error': nav2_msgs/action/NavigateToPose_Result has no field",
        ),
        ("turn on", {"code": "message"}, "skills.turn on: code: field 'message' is no whole number"),
        ("turn on", {"success": {"success": "yes"}}, "success: field 'success': boolean cannot be 'yes'"),
    ],
)
def test_a_mapping_that_does_not_fit_its_type_is_refused_with_the_fields_name(
    house: House, verb: str, entries: dict[str, Any], said: str
) -> None:
    node = house.graph.add(house.make_bridge(in_skill(verb, **entries)))
    with pytest.raises(UserError) as error:
        node.load()
    assert said in str(error.value)
    file = house.config(in_skill(verb, **entries))
    line = 1 + file.read_text().partition(f"\n  {verb}:")[0].count("\n") + 1
    assert str(error.value).startswith(f"{file}:{line}: skills.{verb}")
    assert "\n" not in str(error.value)
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"type": "std_msgs/msg/Boole"},
            "the type is 'std_msgs/msg/Boole', but the package 'std_msgs' has no message",
        ),
        ({"field": "engaged"}, "emergency_stop: field 'engaged': std_msgs/msg/Bool has no field 'engaged'"),
        ({"engaged": "yes"}, "emergency_stop.engaged: boolean cannot be 'yes'"),
    ],
)
def test_an_emergency_stop_that_does_not_fit_is_refused(house: House, change: dict[str, Any], said: str) -> None:
    node = house.graph.add(house.make_bridge(lambda config: config["emergency_stop"].update(change)))
    with pytest.raises(UserError) as error:
        node.load()
    assert said in str(error.value)


def test_a_bridge_can_be_cleaned_up_and_brought_up_again_and_leaves_nothing_behind(house: House) -> None:
    house.add_robot()
    bridge = house.start()
    before = entities(bridge)
    for _ in range(3):
        for step in ("deactivate", "cleanup", "configure", "activate"):
            assert getattr(bridge, f"trigger_{step}")() == TransitionCallbackReturn.SUCCESS
    assert entities(bridge) == before
    house.graph.until(lambda: house.map.robot, "tf is there")
    house.graph.until(lambda: not house.stop.engaged(), "the stop is heard")
    house.does("go to bed 1")


def test_deactivating_stops_the_robot(house: House) -> None:
    robot = house.add_robot()
    bridge = house.start()
    goal = house.goes("hold")
    bridge.trigger_deactivate()
    assert goal.result.outcome == Result.WORLD_UNAVAILABLE
    assert robot.log[-1] == "stopped: navigate_to_pose"
