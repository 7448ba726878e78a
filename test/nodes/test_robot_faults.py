"""What robots do that they do not say: each has an outcome, a bounded wait and one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav2_msgs.action import FollowWaypoints
from nav2_msgs.msg import MissedWaypoint
from rcl_interfaces.msg import Log
from rclpy.action import ActionServer, CancelResponse
from rclpy.task import Future
from robot_house import House, Result, in_skill
from ros_graph import Graph, activate
from sensor_msgs.msg import BatteryState
from visualization_msgs.msg import InteractiveMarker
from visualization_msgs.srv import GetInteractiveMarkers

from reactree_ros.errors import UserError

#: A detector that is asked: a service whose answer is a list of things with class, pose and a name of their own.
ASKED = {
    "service": "look",
    "type": "visualization_msgs/srv/GetInteractiveMarkers",
    "objects": "markers",
    "class": "description",
    "own": "name",
    "pose": "pose",
}
#: The same as an action, whose things have numbers for classes and no names.
ASKED_BY_ACTION = {
    "action": "scan",
    "type": "nav2_msgs/action/FollowWaypoints",
    "goal": {"number_of_loops": 1},
    "success": {"error_code": 0},
    "objects": "missed_waypoints",
    "class": "index",
    "pose": "goal",
}


@pytest.fixture
def house(graph: Graph, tmp_path: Path) -> House:
    return House(graph, tmp_path)


# ---------------------------------------------------------------------- success that did not hold


def test_a_cup_that_is_still_seen_on_the_table_was_not_picked_up(house: House) -> None:
    robot = house.add_robot()
    house.start()
    house.does("go to kitchen table 1")
    robot.behave["arm"] = ["fail"]  # it reports success and has done nothing
    result = house.skill("pick up pudding 1").result
    assert (result.outcome, result.message) == (
        Result.POSTCONDITION,
        "You could not pick up the pudding (1): arm reported success, but the pudding is still detected at the kitchen "
        "table (1).",
    )
    assert house.map.held == []
    house.does("pick up pudding 1")
    assert [house.map.things[id].name for id in house.map.held] == ["pudding 1"]


def test_where_nothing_is_detected_after_a_grasp_the_arm_is_believed_within_a_bound(house: House) -> None:
    robot = house.add_robot()
    house.start(lambda config: config.update(look_time=0.2))
    house.does("go to kitchen table 1")
    robot.blind = True
    house.does("pick up pudding 1")
    assert house.map.held


def test_a_base_that_reports_an_arrival_elsewhere_has_not_arrived(house: House) -> None:
    robot = house.add_robot()
    house.start()
    robot.drift = (3.0, 0.0)
    result = house.skill("go to bed 1").result
    assert result.outcome == Result.POSTCONDITION
    assert result.message == (
        "You could not go to the bed (1): navigate_to_pose reported success, but the robot is 3.0 m from there."
    )
    assert "pick up" not in " ".join(result.skills)
    robot.drift = (0.0, 0.0)
    house.does("go to bed 1")


def test_a_pose_that_drifts_a_little_is_an_arrival(house: House) -> None:
    robot = house.add_robot()
    house.start()
    robot.drift = (0.3, -0.2)
    house.does("go to bed 1", "go to kitchen 1")


def test_a_detection_that_comes_and_goes_is_one_thing_that_can_be_picked_up(house: House) -> None:
    robot = house.add_robot()
    house.start()
    house.does("go to kitchen table 1")
    robot.blind = True
    for _ in range(3):
        robot.see({}, frame="map")
        robot.see({"pudding": (7.6, 3.12, 0.8)}, frame="map")
    house.graph.until(lambda: not house.bridge.host.bare._robot.senses._waiting, "they are taken in")
    assert [item.name for item in house.map.items() if item.word == "pudding"] == ["pudding 1"]
    robot.blind = False
    house.does("pick up pudding 1")


# ---------------------------------------------------------------------- what ends a skill, and the task


def test_a_battery_that_runs_out_under_way_stops_the_robot_and_nothing_is_begun_after(house: House) -> None:
    robot = house.add_robot()
    house.start(lambda config: config.update(battery={"topic": "/battery", "least": 0.1}))
    battery = house.graph.probe.create_publisher(BatteryState, "/battery", 1)
    goal = house.goes("hold")
    house.graph.until(lambda: battery.get_subscription_count(), "the battery is heard")
    battery.publish(BatteryState(percentage=0.08))
    assert goal.result.outcome == Result.EXECUTION
    assert goal.result.message == (
        "You could not go to the bed (1): the battery is at 0.08, and 0.1 is too little to go on; it was stopped."
    )
    assert robot.log[-1] == "stopped: navigate_to_pose"
    refused = house.skill("go to sofa 1").result
    assert refused.outcome == Result.PRECONDITION
    assert refused.message == "You cannot go to sofa 1 now: the battery is at 0.08, and 0.1 is too little to go on."
    battery.publish(BatteryState(percentage=0.9))
    house.graph.until(lambda: not house.bridge.host.bare._robot.battery.too_low(), "it is charged")
    house.does("go to sofa 1")


def test_a_robot_that_does_not_answer_its_cancel_is_an_emergency_and_is_said_so(house: House) -> None:
    robot = house.add_robot()
    said = house.graph.listen(Log, "/rosout")
    house.start(stop_timeout=0.3)
    reports = house.graph.listen(DiagnosticArray, "/diagnostics")
    goal = house.goes("deaf")
    goal.cancel()
    assert goal.result.message == "'go to bed 1' did not stop within 0.3 s"
    emergency = (
        "emergency: 'go to bed 1' was told to stop and navigate_to_pose has not ended it within 0.3 s: the robot may "
        "still move; stop it by hand"
    )

    def reported() -> bool:
        statuses = [status for array in reports for status in array.status if "robot_bridge" in status.name]
        return any((one.level, one.message) == (DiagnosticStatus.ERROR, emergency) for one in statuses)

    house.graph.until(reported, "diagnostics say so")
    house.graph.until(lambda: any(log.msg == emergency for log in said), "the log says so")
    assert sum(log.msg == emergency for log in said) == 1
    for _, future in robot._running:
        future.deaf = False
    house.graph.until(lambda: not house.bridge.host.bare.emergency(), "it has stopped")
    house.does("go to sofa 1")


def test_a_server_that_was_restarted_before_anybody_looked_has_nothing_of_a_goal(house: House) -> None:
    graph = house.graph
    house.add_robot(alone=True)
    house.bridge = graph.add(activate(house.make_bridge(server_timeout=60.0)), alone=True)
    servers = house.bridge.host.bare._robot.servers
    graph.until(lambda: house.map.robot and not house.stop.engaged(), "tf and the stop are heard")
    goal = house.goes("hold")
    graph.until(lambda: house.bridge.host.bare._errand.underway.accepted, "the bridge knows that it is under way")
    graph.halt(house.bridge)
    graph.kill(house.robot)
    graph.until(lambda: servers.status()["navigate_to_pose"] == "away", "the server has gone")
    house.add_robot(alone=True)
    graph.until(lambda: servers.status()["navigate_to_pose"] == "there", "it is there again")
    graph.resume(house.bridge)
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    graph.until(lambda: not servers.obstacle(), "nothing is in the way")
    house.does("go to sofa 1")


def test_a_door_that_will_not_open_is_said_and_nothing_is_taken_to_be_open(house: House) -> None:
    robot = house.add_robot()
    house.start()
    house.does("go to fridge 1")
    robot.behave["arm"] = ["abort:7"]
    result = house.skill("open fridge 1").result
    assert (result.outcome, result.message) == (
        Result.EXECUTION,
        "You could not open the fridge (1): arm: error code 7, as told.",
    )
    assert house.map.by_name["fridge 1"].states >= {"CLOSED"}


# ---------------------------------------------------------------------- robots of other makes


class Looker:
    """A detector that speaks when it is asked, by a service and by an action."""

    def __init__(self, house: House) -> None:
        self.house, self.asked, self.deaf, self.running = house, 0, False, 0
        self.hanging: list[Future] = []
        robot = house.robot
        robot.create_service(GetInteractiveMarkers, "look", self._look)
        ActionServer(robot, FollowWaypoints, "scan", self._scan, cancel_callback=lambda handle: CancelResponse.ACCEPT)

    def _seen(self) -> Any:
        self.asked += 1
        return self.house.robot.house.visible(self.house.robot.x, self.house.robot.y).items()

    def _look(self, request: Any, response: Any) -> Any:
        for name, at in self._seen():
            marker = InteractiveMarker(name=f"the {name}", description=name)
            marker.header.frame_id = "map"
            marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = at
            response.markers.append(marker)
        return response

    async def _scan(self, handle: Any) -> FollowWaypoints.Result:
        if self.deaf:
            self.running += 1
            self.hanging.append(Future())
            await self.hanging[-1]
        result = FollowWaypoints.Result()
        for name, at in self._seen():
            missed = MissedWaypoint(index=len(name))
            missed.goal = PoseStamped()
            missed.goal.header.frame_id = "map"
            missed.goal.pose.position.x, missed.goal.pose.position.y, missed.goal.pose.position.z = at
            result.missed_waypoints.append(missed)
        handle.succeed()
        return result


def test_a_detector_that_is_asked_names_what_it_sees_and_the_arm_gets_that_name(house: House) -> None:
    robot = house.add_robot()
    robot.blind = True
    looker = Looker(house)

    def change(config: dict[str, Any]) -> None:
        config["detections"] = ASKED
        goal = {"dock_id": "{object.own}", "dock_type": "{place.name}", "use_dock_id": True}
        config["skills"]["pick up"] = {"action": "gripper", "type": "nav2_msgs/action/DockRobot", "goal": goal}

    house.start(change)
    result = house.does("go to kitchen table 1")
    assert result.observation.text.endswith("You see kitchen table (1), mug (1), pudding (1)")
    still_there = house.skill("pick up pudding 1").result
    assert still_there.outcome == Result.POSTCONDITION  # this gripper has moved nothing
    assert "gripper: kitchen table 1 the pudding  0.00 0.00" in robot.log
    assert looker.asked == 2


def test_a_detector_that_is_an_action_is_asked_and_does_not_keep_the_robot_when_it_hangs(house: House) -> None:
    house.add_robot().blind = True
    looker = Looker(house)

    def change_map(values: dict[str, Any]) -> None:
        values["objects"]["classes"] = {len("pudding"): "pudding"}
        values["expected"] = []

    house.change_map(change_map)
    house.start(lambda config: config.update(detections=ASKED_BY_ACTION, look_time=0.5))
    looker.deaf = True
    result = house.does("go to kitchen table 1")
    assert (looker.running, "pudding" in result.observation.text) == (1, False)
    for place in ("kitchen 1", "kitchen table 1", "kitchen 1", "kitchen table 1"):
        house.does(f"go to {place}")
    assert looker.running == 3  # it is not asked for ever
    looker.deaf = False
    for future in looker.hanging:
        future.set_result(None)
    house.graph.until(lambda: not house.bridge.host.bare._robot.looks._looks, "they have ended")
    assert "pudding (1)" in house.does("go to kitchen 1", "go to kitchen table 1").observation.text


def test_a_robot_without_tf_says_by_a_topic_of_its_own_where_it_is(house: House) -> None:
    robot = house.add_robot(body=False)
    publisher = house.graph.probe.create_publisher(PoseStamped, "/where", 1)

    def say() -> None:
        pose = PoseStamped()
        pose.header.frame_id = "map"
        pose.pose.position.x, pose.pose.position.y = robot.x, robot.y
        publisher.publish(pose)

    house.graph.probe.create_timer(0.02, say)
    house.start(lambda config: config.update(pose={"topic": "/where"}, detections=None))
    assert house.map.robot.x == 2.5
    robot.x, robot.y = 7.5, 2.0
    house.graph.until(lambda: house.map.agent_room.name == "kitchen 1", "it is known where the robot is")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"detections": {**ASKED, "objects": "sequence_number"}}, "objects: field 'sequence_number' is no list"),
        ({"detections": {**ASKED, "class": "colour"}}, "InteractiveMarker has no field 'colour'"),
        ({"detections": {**ASKED, "pose": "name"}}, "pose: field 'name' is a string; a pose is one of"),
        ({"detections": {**ASKED, "own": "pose"}}, "own: field 'pose' is geometry_msgs/msg/Pose"),
        ({"detections": {**ASKED, "goal": {"a": 1}}}, "GetInteractiveMarkers_Request has no field 'a'"),
        ({"battery": {"topic": "/b", "field": "header", "least": 1}}, "battery: field 'header' is std_msgs/msg/Header"),
        ({"pose": {"topic": "/p", "type": "std_msgs/msg/Bool"}}, "the message is std_msgs/msg/Bool; a pose is one of"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_fields_name(house: House, change: dict[str, Any], said: str) -> None:
    node = house.graph.add(house.make_bridge(lambda config: config.update(change)))
    with pytest.raises(UserError) as error:
        node.load()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_code_is_said_by_the_name_that_its_type_gives_it(house: House) -> None:
    house.add_robot()
    house.start(in_skill("go to", outcomes={208: "precondition"}, type="nav2_msgs/action/NavigateToPose"))
    house.robot.behave["navigate_to_pose"] = ["abort:208"]
    result = house.skill("go to bed 1").result
    assert (result.outcome, "NO_VALID_PATH" in result.message) == (Result.PRECONDITION, True)


def test_what_a_server_says_in_whole_sentences_is_one_sentence(house: House) -> None:
    house.add_robot(behave={"switch": ["The fuse is blown."]})
    house.start()
    house.does("go to table lamp 1")
    result = house.skill("turn on table lamp 1").result
    assert result.message == "You could not turn on the table lamp (1): switch: The fuse is blown."
