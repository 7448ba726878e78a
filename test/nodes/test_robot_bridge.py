"""The robot bridge on a real ROS: servers that behave like Nav2 and an arm, tf and detections from a script."""

from __future__ import annotations

from collections.abc import Iterator
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
from robot_house import CONFIG, Change, House, Result, in_skill, stop, top
from robot_servers import LATCHED
from ros_graph import Graph, entities
from std_msgs.msg import Bool, Int32, String
from std_srvs.srv import Trigger

NAV, ARM, SWITCH = "navigate_to_pose", "arm", "switch"
TABLE, FRIDGE, LAMP = "go to kitchen table 1", "go to fridge 1", "go to table lamp 1"
BED, SOFA = "go to bed 1", "go to sofa 1"
IT = "You could not go to the bed (1): it {late}"
AGAIN = ("deactivate", "cleanup", "configure", "activate")
#: How many of the bridge's subscriptions hear a publisher of the emergency stop.
HEARD_BY = {
    ("RELIABLE", "TRANSIENT_LOCAL"): 3,
    ("RELIABLE", "VOLATILE"): 2,
    ("BEST_EFFORT", "TRANSIENT_LOCAL"): 1,
    ("BEST_EFFORT", "VOLATILE"): 1,
}


def warnings(said: list[Log], text: str) -> list[str]:
    return [log.msg for log in said if log.level == 30 and text in log.msg]  # 30: rcl_interfaces/Log.WARN, a byte


# ---------------------------------------------------------------------- what goes well


def test_things_are_fetched_from_a_closed_fridge_to_a_table(house: House) -> None:
    robot = house.add_robot()
    house.start()
    result = house.does("go to kitchen 1", FRIDGE)
    assert "The fridge (1) is closed. You see fridge (1)" in result.observation.text
    assert house.does("open fridge 1").observation.text == "You open fridge. You see apple (1), fridge (1)"
    assert house.does("pick up apple 1").observation.text == "You pick up apple. You hold apple (1)."
    result = house.does("go to coffee table 1", "put down apple 1")
    assert result.observation.text == "You put down apple on coffee table"
    assert robot.house.objects["apple"] == pytest.approx((2.5, 3.4, 0.45))
    house.until(lambda: house.map.by_name["apple 1"].seen, "the apple is detected there")
    assert [item.name for item in house.map.items() if item.word == "apple"] == ["apple 1"]
    assert "pick up apple 1" in house.does("go to coffee table 1").skills


def test_the_goal_is_where_the_map_says_and_its_end_is_waited_for(house: House) -> None:
    robot = house.add_robot(speed=4.0)
    house.start()
    goal = house.skill(TABLE)
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_SUCCEEDED, Result.DONE)
    assert "navigates to 7.5 2.3" in robot.log
    assert (robot.x, robot.y) == (7.5, 2.3)
    assert {one.phase for one in goal.feedback} == {ExecuteSkill.Feedback.EXECUTING}
    assert goal.result.observation.text.endswith("You see kitchen table (1), mug (1), pudding (1)")


def test_an_arms_own_action_gets_name_and_pose_in_its_own_fields(house: House) -> None:
    goal = {"dock_id": "{object.name}", "dock_pose": "{object.pose}", "dock_type": "{verb}", "use_dock_id": False}
    gripper = {"action": "gripper", "type": "nav2_msgs/action/DockRobot", "goal": goal, "success": {"success": True}}
    robot = house.add_robot(behave={"gripper": ["fail"]})
    house.start(lambda config: config["skills"].update({"pick up": gripper}))
    house.does(TABLE)
    reason = "You could not pick up the pudding (1): gripper: success is False."
    assert house.fails("pick up pudding 1") == (Result.EXECUTION, reason)
    assert house.map.held == []
    house.does("pick up pudding 1")
    assert robot.log[-1] == "gripper: pick up pudding 1 map 7.60 3.10"


def test_the_services_speak_of_the_map(house: House) -> None:
    robot = house.add_robot()
    house.start()
    seen = house.graph.call(Observe, "robot_bridge/observe").observation
    assert seen.text.startswith("You are in the house, and there are 5 rooms: bathroom (1), bedroom (1, 2)")
    skills = house.graph.call(AvailableSkills, "robot_bridge/available_skills")
    assert {"go to bedroom 2", "go to sofa 1", "turn on table lamp 1"} <= set(skills.skills)
    reset = house.graph.call(ResetWorld, "robot_bridge/reset", task_id=-1)
    assert reset.message == "a robot cannot bring its house back to a start; give an instruction"
    household = house.graph.call(DescribeHousehold, "robot_bridge/household")
    assert {"sofa", "fridge", "coffee table"} <= set(household.places)
    assert ("apple" in household.recallable, "apple" in household.places) == (True, False)
    assert (seen.spots[0].name, seen.spots[0].x, seen.spots[0].y, seen.spots[0].yaw) == ("", 2.5, 2.0, 0.0)
    named = {spot.name: spot for spot in seen.spots}
    assert list(named["kitchen 1"].outline) == [5.0, 0.0, 10.0, 0.0, 10.0, 4.0, 5.0, 4.0]
    fridge = named["fridge 1"]
    assert (fridge.x, fridge.y, fridge.yaw, len(fridge.outline)) == (9.6, 1.0, 0.0, 8)
    near = house.does(TABLE).observation.spots
    assert (near[0].x, near[0].y, near[0].yaw) == tuple(round(at, 3) for at in (robot.x, robot.y, robot.yaw))
    pudding = {spot.name: spot for spot in near}["pudding 1"]
    assert (pudding.x, pudding.y) == (7.6, 3.1)


# ---------------------------------------------------------------------- failures of the robot's servers


def test_error_codes_of_nav2_become_outcomes(house: House) -> None:
    robot = house.add_robot()
    house.start()
    for code, outcome, reason in (
        (208, Result.EXECUTION, "NO_VALID_PATH, error code 208"),
        (204, Result.PRECONDITION, "GOAL_OUTSIDE_MAP, error code 204"),
        (207, Result.TIMEOUT, "PLANNER_TIMED_OUT, error code 207"),
        (102, Result.WORLD_UNAVAILABLE, "FOLLOW_PATH_TF_ERROR, error code 102"),
        (4711, Result.EXECUTION, "error code 4711"),
    ):
        robot.behave[NAV] = [f"abort:{code}"] * 2
        message = f"You could not go to the bed (1): navigate_to_pose: {reason}, as told."
        assert house.fails(BED) == (outcome, message)
        robot.behave.clear()
        house.does(BED)


def test_what_failed_on_the_way_is_tried_again_as_often_as_the_mapping_says(house: House) -> None:
    robot = house.add_robot(behave={NAV: ["abort:208"]})
    house.start(in_skill("open", rejected="precondition"))
    house.does(FRIDGE)
    assert robot.log[:4].count(f"{NAV}: abort:208") == 1
    robot.behave[ARM] = ["abort:7", "reject"]
    could_not = "You could not open the fridge (1): arm"
    assert house.fails("open fridge 1") == (Result.EXECUTION, f"{could_not}: error code 7, as told.")  # not again
    assert house.map.by_name["fridge 1"].states >= {"CLOSED"}
    assert house.fails("open fridge 1") == (Result.PRECONDITION, f"{could_not} rejected the goal.")
    house.does("open fridge 1")


def test_a_switch_is_a_service(house: House) -> None:
    robot = house.add_robot(behave={SWITCH: ["is broken", "The fuse is blown."]})
    house.start()
    house.does(LAMP)
    for reason in ("is broken", "The fuse is blown"):
        message = f"You could not turn on the table lamp (1): switch: {reason}."
        assert house.fails("turn on table lamp 1") == (Result.EXECUTION, message)
    house.does("turn on table lamp 1", "turn off table lamp 1")
    assert robot.switched == [True, True, True, False]


def test_a_server_that_is_not_there_is_named_within_its_bound(house: House) -> None:
    house.add_robot(nav=False)
    house.start(server_timeout=0.3)
    assert house.fails(BED) == (Result.WORLD_UNAVAILABLE, "navigate_to_pose is not there (for 0.3 s)")


def test_a_server_that_never_answers_is_given_up_and_its_goal_taken_back_later(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=0.3)
    house.graph.halt(robot)
    assert house.fails(BED) == (Result.WORLD_UNAVAILABLE, "navigate_to_pose did not answer within 0.3 s")
    message = "'go to sofa 1' could not begin within 1 s: 'go to bed 1' has not stopped yet"
    assert house.fails(SOFA) == (Result.WORLD_UNAVAILABLE, message)
    robot.behave[NAV] = ["hold"]
    house.graph.resume(robot)
    house.until(lambda: f"stopped: {NAV}" in robot.log, "the late goal is canceled")
    house.until(lambda: not house.parts.servers.obstacle())
    house.does(SOFA)


@pytest.mark.parametrize(
    ("behaviour", "parameters", "outcome", "message"),
    [
        ("hold", {"skill_timeout": 0.3}, Result.TIMEOUT, "The skill was not carried out: {late}"),
        ("hold", {}, Result.TIMEOUT, IT),
        ("deaf", {}, Result.WORLD_UNAVAILABLE, f"{IT} It did not stop within 1 s."),
    ],
)
def test_a_goal_that_never_ends_is_stopped_at_a_time_limit(
    house: House, behaviour: str, parameters: dict[str, float], outcome: int, message: str
) -> None:
    robot = house.add_robot()
    house.start(in_skill("go to", time_limit=60.0 if parameters else 0.3), **parameters)
    result = house.goes(behaviour).result
    late = "took longer than 0.3 s and was stopped."
    assert (result.outcome, result.message) == (outcome, message.format(late=late))
    if behaviour == "hold":
        assert robot.log[-2:] == [f"cancel: {NAV}", f"stopped: {NAV}"]


def test_a_robot_that_does_not_stop_is_an_emergency_and_nothing_else_is_begun(house: House) -> None:
    robot = house.add_robot()
    said = house.graph.listen(Log, "/rosout")
    house.start(stop_timeout=0.3)
    reports = house.graph.listen(DiagnosticArray, "/diagnostics")
    goal = house.goes("deaf")
    goal.cancel()
    assert goal.result.message == "'go to bed 1' did not stop within 0.3 s"
    assert house.fails(SOFA) == (Result.WORLD_UNAVAILABLE, "'go to bed 1' did not stop within 0.3 s")
    emergency = (
        "emergency: 'go to bed 1' was told to stop and navigate_to_pose has not ended it within 0.3 s: the robot may "
        "still move; stop it by hand"
    )

    def reported() -> bool:
        statuses = [status for array in reports for status in array.status if "robot_bridge" in status.name]
        return any((one.level, one.message) == (DiagnosticStatus.ERROR, emergency) for one in statuses)

    house.until(reported, "diagnostics say so")
    house.until(lambda: any(log.msg == emergency for log in said), "the log says so")
    assert sum(log.msg == emergency for log in said) == 1
    for _, future in robot._running:
        future.deaf = False
    house.until(lambda: not house.world.emergency(), "it has stopped")
    house.does(SOFA)


def test_a_robot_that_refuses_to_stop_is_told_again(house: House) -> None:
    robot = house.add_robot()
    house.start(stop_timeout=30.0)
    goal = house.goes("stubborn")
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    assert robot.log[-3:] == [f"cancel refused: {NAV}", f"cancel: {NAV}", f"stopped: {NAV}"]


def test_a_server_that_vanishes_is_named_and_used_again_when_it_is_back(house: House) -> None:
    robot = house.add_robot(alone=True)
    house.start(server_timeout=0.3)
    goal = house.goes("hold")
    house.graph.kill(robot)
    gone = "navigate_to_pose has gone (for 0.3 s)"
    assert (goal.result.outcome, goal.result.message) == (Result.WORLD_UNAVAILABLE, gone)
    outcome, message = house.fails(SOFA)
    assert outcome == Result.WORLD_UNAVAILABLE
    assert "navigate_to_pose has gone, and it is not known whether the robot has stopped" in message
    house.add_robot()
    house.until(lambda: not house.parts.servers.obstacle(), "the new server knows nothing of the old goal")
    house.does(SOFA)


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
    house.until(lambda: robot.x > 2.6, "the robot is on its way")
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    assert robot.log[-2:] == [f"cancel: {NAV}", f"stopped: {NAV}"]
    assert robot.x < 8.0
    assert house.map.look() == []
    house.does(SOFA)


def test_cancel_before_the_goal_was_accepted_is_carried_out_on_acceptance(house: House) -> None:
    robot = house.add_robot(alone=True, behave={NAV: ["hold"]})
    house.start(server_timeout=30.0, stop_timeout=30.0)
    house.graph.halt(robot)
    goal = house.skill(BED)
    house.until(lambda: house.errand, "the goal was sent")
    goal.cancel()
    house.graph.resume(robot)
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert robot.log[-1] == f"stopped: {NAV}"


def test_the_emergency_stop_stops_what_runs_and_refuses_what_is_asked(house: House) -> None:
    robot = house.add_robot()
    house.start()
    goal = house.goes("hold")
    house.press(True)
    engaged = "the emergency stop is engaged."
    message = f"You could not go to the bed (1): {engaged}"
    assert (goal.result.outcome, goal.result.message) == (Result.HALTED, message)
    assert robot.log[-1] == f"stopped: {NAV}"
    assert house.fails(SOFA) == (Result.HALTED, f"You cannot go to sofa 1 now: {engaged}")
    house.press(False)
    house.until(lambda: not house.stop.engaged(), "it is released")
    house.does(SOFA)
    goal = house.goes("hold")
    house.graph.probe.destroy_publisher(house.button)
    assert goal.result.message.endswith("nobody publishes the emergency stop's topic /emergency_stop any more.")
    assert robot.log[-1] == f"stopped: {NAV}"


@pytest.mark.parametrize(
    ("entries", "pressed", "engaged"),
    [
        ({"silent_for": 0.2}, False, "the emergency stop's topic /emergency_stop has been silent for 0.2 s"),
        ({}, True, "the emergency stop is engaged"),
        ({"topic": "/stop"}, False, "the emergency stop's topic /stop has not been heard yet"),
    ],
)
def test_a_stop_that_is_silent_or_pressed_before_the_start_or_not_heard_yet_is_engaged(
    house: House, entries: dict[str, Any], pressed: bool, engaged: str
) -> None:
    robot = house.add_robot()
    house.press(pressed)
    house.start(stop(**entries), stop_heard="topic" not in entries)
    house.until(lambda: house.stop.engaged() == engaged, "it is engaged")
    assert house.fails(SOFA) == (Result.HALTED, f"You cannot go to sofa 1 now: {engaged}.")
    assert robot.log == []


@pytest.mark.parametrize("reliability", ["RELIABLE", "BEST_EFFORT"])
@pytest.mark.parametrize("durability", ["TRANSIENT_LOCAL", "VOLATILE"])
def test_an_emergency_stop_is_heard_however_it_is_published(house: House, reliability: str, durability: str) -> None:
    house.add_robot()
    house.start(stop(topic="/stop"), stop_heard=False)
    offered = QoSProfile(depth=1, reliability=ReliabilityPolicy[reliability], durability=DurabilityPolicy[durability])
    button = house.graph.probe.create_publisher(Bool, "/stop", offered)
    heard = "the emergency stop is engaged"
    for pressed, says in ((False, ""), (True, heard), (False, ""), (True, heard)):
        house.until(lambda: button.get_subscription_count() == HEARD_BY[reliability, durability], "it is matched")
        button.publish(Bool(data=pressed))
        house.until(lambda says=says: house.stop.engaged() == says, f"'{says}'")


def test_a_release_that_comes_late_does_not_take_back_a_press(house: House) -> None:
    house.add_robot()
    house.start()
    now = house.graph.probe.get_clock().now().nanoseconds
    for sent_at, pressed, engaged in ((2, True, True), (1, False, True), (2, True, True), (3, False, False)):
        house.stop._hear(Bool(data=pressed), {"source_timestamp": now + sent_at})
        assert bool(house.stop.engaged()) is engaged


def test_a_stop_that_fails_open_or_none_lets_the_robot_move_and_is_warned_of_at_every_start(house: House) -> None:
    house.add_robot()
    said = house.graph.listen(Log, "/rosout")
    house.start(stop(topic="/stop", latched=False, fail_open=True))
    house.does(SOFA)
    house.until(lambda: warnings(said, "fail_open is true"), "it is warned of")
    house.graph.probe.create_publisher(Bool, "/stop", LATCHED).publish(Bool(data=True))
    house.until(lambda: house.stop.engaged() == "the emergency stop is engaged", "it is heard")
    house.config(top(emergency_stop=None))
    for step in AGAIN:
        assert getattr(house.bridge, f"trigger_{step}")() == TransitionCallbackReturn.SUCCESS
    house.until(lambda: warnings(said, "nothing but a cancel stops the robot"), "it is warned of")
    house.until(lambda: house.map.robot, "tf is there")
    house.does(BED)


# ---------------------------------------------------------------------- endpoints of another type


@pytest.fixture
def stranger(graph: Graph) -> Iterator[Any]:
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=graph.domain_id)
    node = rclpy.create_node("stranger", context=context)
    yield node
    node.destroy_node()
    context.try_shutdown()


@pytest.mark.parametrize(("tf", "x"), [("tf", 2.5), ("/tf", 8.0)])
def test_a_robot_in_a_namespace_is_where_the_transforms_say_that_its_file_names(
    house: House, tf: str, x: float
) -> None:
    own = ["--ros-args", "-r", "/tf:=tf", "-r", "/tf_static:=tf_static"]  # as Nav2's launches remap
    house.add_robot(namespace="tall", cli_args=own)
    house.graph.add(type(house.robot)("other", context=house.graph.context, button=False)).x = 8.0
    house.start(top(tf=tf, detections=None), namespace="tall")
    house.until(lambda: house.map.robot.x == pytest.approx(x))
    for _ in range(100):
        house.graph.step()
        assert house.map.robot.x == pytest.approx(x)


INT, POSE = "is of type std_msgs/msg/Int32", "geometry_msgs/msg/PoseStamped"


def _topic(name: str, **entry: Any) -> Change:
    return lambda config: config.update({name: {"topic": "/thing", **entry} if entry else "/thing"})


def _map_topic(config: dict[str, Any]) -> None:
    config["map_topic"] = "/thing"
    del config["map"]


@pytest.mark.parametrize(
    ("change", "kind", "unlike"),
    [
        (_topic("battery", least=0.1), Int32, "is of type std_msgs/msg/Int32, not sensor_msgs/msg/BatteryState"),
        (_topic("detections"), Int32, "is of type std_msgs/msg/Int32, not vision_msgs/msg/Detection3DArray"),
        (
            _topic("pose", type="geometry_msgs/msg/PoseStamped"),
            Int32,
            "is of type std_msgs/msg/Int32, not geometry_msgs/msg/PoseStamped",
        ),
        (_map_topic, Int32, "is of type std_msgs/msg/Int32, not std_msgs/msg/String"),
        (_map_topic, String, "is published volatile, but must be transient local to be heard"),
    ],
)
def test_a_topic_that_cannot_be_heard_is_said_to_be_so(
    house: House, stranger: Any, change: Change, kind: Any, unlike: str
) -> None:
    stranger.create_publisher(kind, "/thing", 1)
    house.start(change, stop_heard=False)
    house.until(lambda: f"/thing {unlike}" in house.bridge.lacks(), "bring-up is told so")


def test_servers_and_a_stop_of_another_type_are_said_to_be_so(house: House, stranger: Any) -> None:
    server = ActionServer(stranger, Spin, "/drives", lambda goal: Spin.Result())
    stranger.create_service(Trigger, "/switches", lambda request, response: response)
    stranger.create_publisher(Int32, "/stop", 1)

    def change(config: dict[str, Any]) -> None:
        config["skills"]["go to"]["action"] = "/drives"
        config["skills"]["turn on"]["service"] = "/switches"
        config["emergency_stop"]["topic"] = "/stop"

    house.add_robot()
    house.start(change, stop_heard=False)
    stop = "/stop is of type std_msgs/msg/Int32, not std_msgs/msg/Bool"
    for unlike in (
        "/drives is of type nav2_msgs/action/Spin, not nav2_msgs/action/NavigateToPose",
        "/switches is of type std_srvs/srv/Trigger, not std_srvs/srv/SetBool",
        stop,
    ):
        house.until(lambda unlike=unlike: unlike in house.bridge.lacks(), "bring-up is told so")
    assert house.fails(BED) == (Result.HALTED, f"You cannot go to bed 1 now: the emergency stop's topic {stop}.")
    server.destroy()


def test_diagnostics_warn_of_a_server_that_is_not_there_and_of_the_emergency_stop(house: House) -> None:
    house.add_robot()
    house.start(in_skill("go to", action="nowhere"))
    heard = house.graph.listen(DiagnosticArray, "/diagnostics")

    def last() -> DiagnosticStatus:
        return heard[-1].status[0] if heard else DiagnosticStatus()

    missed = "nowhere (nav2_msgs/action/NavigateToPose) is not there"
    house.until(lambda: last().message == missed, "the server is missed")
    values = {one.key: one.value for one in last().values}
    assert (last().name, last().level) == ("/robot_bridge: world", DiagnosticStatus.WARN)
    assert (values["nowhere"], values["emergency stop"], values["map"]) == ("away", "released", "in frame 'map'")
    house.press(True)
    house.until(lambda: last().message == "the emergency stop is engaged", "the stop is told")
    assert last().level == DiagnosticStatus.WARN


# ---------------------------------------------------------------------- what is refused before anything moves


def test_what_cannot_be_done_is_refused_and_nothing_is_sent(house: House) -> None:
    robot = house.add_robot()
    house.start()
    for skill, outcome, said in (
        ("pick up pudding 1", Result.PRECONDITION, "The pudding is not close to you."),
        ("put down pudding 1", Result.PRECONDITION, "You do not grab the pudding."),
        ("open fridge 1", Result.PRECONDITION, "The fridge is not close to you."),
        ("pick up apple 7", Result.UNKNOWN_SKILL, "There is no apple 7 in the house."),
        ("wave at user 1", Result.UNKNOWN_SKILL, "'wave at user 1' is not a skill of this robot."),
    ):
        refused = house.fails(skill)
        assert (refused[0], refused[1][: len(said)]) == (outcome, said)
    assert robot.log == []


def test_what_is_not_detected_any_more_is_not_picked_up(house: House) -> None:
    robot = house.add_robot()
    house.change_map(lambda values: values["objects"].update(fresh_for=0.3))
    house.start()
    house.does(TABLE)
    robot.blind = True
    house.until(lambda: house.parts.senses.now() - house.map.by_name["pudding 1"].seen > 0.4, "time passes")
    outcome, message = house.fails("pick up pudding 1")
    assert outcome == Result.PRECONDITION
    assert message.startswith("The pudding was last detected 0 s ago, more than 0.3 s.")


def test_what_nobody_can_say_the_place_of_is_refused(house: House) -> None:
    robot = house.add_robot()
    house.change_map(lambda values: values["receptacles"][0]["approach"].update(frame="attic"))
    house.start()
    message = "You cannot go to coffee table 1: there is no transform from 'attic' to 'map'."
    assert house.fails("go to coffee table 1") == (Result.PRECONDITION, message)
    robot._stamped(robot._static, "map", "attic", 1.0, 0.0, 0.0)
    house.until(lambda: house.map.in_map(house.map.by_name["coffee table 1"].approach), "tf says where")
    house.does("go to coffee table 1")
    assert "navigates to 3.5 2.5" in robot.log


# ---------------------------------------------------------------------- detections, the map


def test_detections_are_taken_in_from_any_frame_that_tf_knows(house: House) -> None:
    robot = house.add_robot()
    house.start()
    robot.see({"cup": (2.5, 3.2, 0.5)}, frame="map")
    house.until(lambda: "mug 1" in house.map.by_name, "it is taken in")
    robot.see({"apple": (2.5, 3.2, 0.5)}, frame="nowhere")
    robot.see({"apple": (2.5, 3.2, 0.5)}, frame="map", score=0.4)
    robot.see({"zebra": (2.5, 3.2, 0.5)}, frame="map")
    robot.see({"apple": (float("nan"), 3.2, 0.5)}, frame="map")
    robot.see({"cup": (2.6, 3.2, 0.5)}, frame="map")
    house.until(lambda: house.map.by_name["mug 1"].pose.x == 2.6, "the same mug is seen a little further")
    house.until(lambda: not house.parts.senses._waiting, "what has no transform is given up")
    assert {item.name for item in house.map.items() if item.seen} == {"mug 1"}


def test_a_map_from_a_latched_topic_is_used_and_a_wrong_one_is_not(house: House) -> None:
    house.add_robot()
    house.start(_map_topic)
    without = house.graph.call(Observe, "robot_bridge/observe")
    assert without.message == "there is no semantic map on /thing yet"
    assert house.fails(BED)[1] == without.message
    publisher = house.graph.probe.create_publisher(String, "/thing", LATCHED)
    text = (CONFIG / "semantic_map.yaml").read_text()
    publisher.publish(String(data=text))
    house.until(lambda: house.map is not None, "the map is there")
    house.does(BED)
    known = house.map
    publisher.publish(String(data="rooms: []"))
    publisher.publish(String(data=text.replace("bed 1", "bed 4")))
    house.until(lambda: house.map is not known, "the next map is there")
    house.does("go to bed 4")


def test_a_bridge_can_be_cleaned_up_and_brought_up_again_and_leaves_nothing_behind(house: House) -> None:
    robot = house.add_robot()
    bridge = house.start()
    before = entities(bridge)
    for step in AGAIN * 3:
        assert getattr(bridge, f"trigger_{step}")() == TransitionCallbackReturn.SUCCESS
    assert entities(bridge) == before
    house.until(lambda: house.map.robot and not house.stop.engaged(), "tf and the stop are heard")
    house.does(BED)
    goal = house.goes("hold")
    bridge.trigger_deactivate()
    assert goal.result.outcome == Result.WORLD_UNAVAILABLE
    assert robot.log[-1] == f"stopped: {NAV}"
