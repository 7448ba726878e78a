"""Robots that do not do what they report, whose battery runs low, and what they wait for."""

from __future__ import annotations

from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from nav2_msgs.action import FollowWaypoints
from nav2_msgs.msg import MissedWaypoint
from rclpy.action import ActionServer, CancelResponse
from rclpy.task import Future
from reactree_interfaces.srv import DescribeHousehold, Observe
from robot_house import SKILLS, House, Result, top
from robot_servers import LATCHED
from ros_graph import activate
from sensor_msgs.msg import BatteryState
from std_msgs.msg import Bool, Int32
from visualization_msgs.msg import InteractiveMarker
from visualization_msgs.srv import GetInteractiveMarkers

from reactree_ros.nodes.robot import robot_bridge_node


def test_a_cup_that_is_still_seen_on_the_table_was_not_picked_up(house: House) -> None:
    robot = house.add_robot()
    house.start(top(look_time=0.2))
    house.does(TABLE)
    robot.behave["arm"] = ["fail"]  # it reports success and has done nothing
    message = (
        "You could not pick up the pudding (1): arm reported success, but the pudding is still detected at the kitchen "
        "table (1)."
    )
    assert house.fails("pick up pudding 1") == (Result.POSTCONDITION, message)
    assert house.map.held == []
    robot.blind = True  # the arm is believed within a bound
    for _ in range(3):  # a detection that comes and goes is one thing
        robot.see({}, frame="map")
        robot.see({"pudding": (7.6, 3.12, 0.8)}, frame="map")
    house.until(lambda: not house.parts.senses._waiting, "they are taken in")
    assert [item.name for item in house.map.items() if item.word == "pudding"] == ["pudding 1"]
    house.does("pick up pudding 1")
    assert [house.map.things[id].name for id in house.map.held] == ["pudding 1"]


def test_a_base_that_reports_an_arrival_elsewhere_has_not_arrived(house: House) -> None:
    robot = house.add_robot()
    house.start()
    robot.drift = (3.0, 0.0)
    result = house.skill("go to bed 1").result
    message = "You could not go to the bed (1): navigate_to_pose reported success, but the robot is 3.0 m from there."
    assert (result.outcome, result.message) == (Result.POSTCONDITION, message)
    assert "pick up" not in " ".join(result.skills)
    robot.drift = (0.3, -0.2)  # a little is an arrival
    house.does("go to bed 1", "go to kitchen 1")


# ---------------------------------------------------------------------- what ends a skill, and the task


def test_a_battery_that_runs_out_under_way_stops_the_robot_and_nothing_is_begun_after(house: House) -> None:
    robot = house.add_robot()
    house.start(top(battery={"topic": "/battery", "least": 0.1}))
    battery = house.graph.probe.create_publisher(BatteryState, "/battery", 1)
    goal = house.goes("hold")
    house.until(lambda: battery.get_subscription_count(), "the battery is heard")
    battery.publish(BatteryState(percentage=0.08))
    low = "the battery is at 0.08, and 0.1 is too little to go on"
    message = f"You could not go to the bed (1): {low}; it was stopped."
    assert (goal.result.outcome, goal.result.message) == (Result.EXECUTION, message)
    assert robot.log[-1] == "stopped: navigate_to_pose"
    assert house.fails("go to sofa 1") == (Result.PRECONDITION, f"You cannot go to sofa 1 now: {low}.")
    battery.publish(BatteryState(percentage=0.9))
    house.until(lambda: not house.parts.battery.too_low(), "it is charged")
    house.does("go to sofa 1")


def test_a_server_that_was_restarted_before_anybody_looked_has_nothing_of_a_goal(house: House) -> None:
    graph = house.graph
    house.add_robot(alone=True)
    house.bridge = graph.add(activate(house.make_bridge(server_timeout=60.0, stop_timeout=60.0)), alone=True)
    servers = house.parts.servers
    graph.until(lambda: house.map.robot and not house.stop.engaged(), "tf and the stop are heard")
    goal = house.goes("hold")
    graph.until(lambda: house.errand.underway.accepted, "the bridge knows that it is under way")
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


# ---------------------------------------------------------------------- robots of other makes


TABLE = "go to kitchen table 1"


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
        config["detections"] = SKILLS["asked"]
        goal = {"dock_id": "{object.own}", "dock_type": "{place.name}", "use_dock_id": True}
        config["skills"]["pick up"] = {"action": "gripper", "type": "nav2_msgs/action/DockRobot", "goal": goal}

    house.start(change)
    assert house.does(TABLE).observation.text.endswith("You see kitchen table (1), mug (1), pudding (1)")
    assert house.fails("pick up pudding 1")[0] == Result.POSTCONDITION  # this gripper has moved nothing
    assert "gripper: kitchen table 1 the pudding  0.00 0.00" in robot.log
    assert looker.asked == 2


def test_a_detector_that_is_an_action_is_asked_and_does_not_keep_the_robot_when_it_hangs(house: House) -> None:
    house.add_robot().blind = True
    looker = Looker(house)

    classes = {len("pudding"): "pudding"}
    house.change_map(lambda values: values["objects"].update(classes=classes) or values.update(expected=[]))
    house.start(top(detections=SKILLS["asked by action"], look_time=0.5))
    looker.deaf = True
    result = house.does(TABLE)
    assert (looker.running, "pudding" in result.observation.text) == (1, False)
    house.does(*("go to kitchen 1", TABLE) * 2)
    assert looker.running == 3  # it is not asked for ever
    looker.deaf = False
    for future in looker.hanging:
        future.set_result(None)
    house.until(lambda: not house.parts.looks._looks, "they have ended")
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
    house.start(top(pose={"topic": "/where"}, detections=None))
    assert house.map.robot.x == 2.5
    robot.x, robot.y = 7.5, 2.0
    house.until(lambda: house.map.agent_room.name == "kitchen 1", "it is known where the robot is")


CONDITIONS: dict[str, Any] = SKILLS["conditions"]
WAIT = "wait until the printer has paper for up to {} s"


@pytest.fixture
def home(house: House) -> House:
    house.add_robot()
    return house


def with_conditions(config: dict[str, Any]) -> None:
    config["conditions"] = CONDITIONS


def with_battery(config: dict[str, Any]) -> None:
    config["skills"]["dock"] = SKILLS["dock"]
    config["battery"] = SKILLS["battery"]


def publisher(home: House, kind: Any, topic: str) -> Any:
    made = home.graph.probe.create_publisher(kind, topic, 1)
    home.until(lambda: made.get_subscription_count(), f"{topic} is heard")
    return made


def charge(home: House, battery: Any, level: float) -> None:
    battery.publish(BatteryState(percentage=level))
    home.until(lambda: home.parts.battery.level == pytest.approx(level), "the level is heard")


def log(home: House) -> list[str]:
    return [line for line in home.robot.log if line.startswith("arm: dock")]


# ---------------------------------------------------------------------- conditions


@pytest.mark.parametrize("own", [[], ["repeat_until", "within"]])
def test_conditions_are_told_at_first_and_when_they_have_changed(home: House, own: list[str]) -> None:
    home.start(with_conditions if own else lambda config: None)
    household = home.graph.call(DescribeHousehold, "robot_bridge/household")
    assert household.control_flows == ["sequence", "fallback", "parallel", *own]
    seen = home.graph.call(Observe, "robot_bridge/observe").observation.text
    if not own:
        assert "Conditions" not in seen
        assert home.fails(WAIT.format(1))[0] == Result.UNKNOWN_SKILL
        return
    assert seen.endswith("Conditions: the door is open: unknown; the printer has paper: unknown.")
    assert "Conditions" not in home.does("go to kitchen table 1").observation.text
    paper = publisher(home, Int32, "/paper")
    paper.publish(Int32(data=3))
    home.until(lambda: home.parts.conditions.named("paper"), "the paper is heard")
    changed = "Conditions: the door is open: unknown; the printer has paper: yes."
    assert home.does("go to bed 1").observation.text.endswith(changed)
    assert "Conditions" not in home.does("go to kitchen table 1").observation.text


def test_a_wait_ends_as_soon_as_its_condition_holds_or_its_time_is_over(home: House) -> None:
    home.start(with_conditions)
    outcome, message = home.fails(WAIT.format(0))
    assert (outcome, "nobody knows whether it is so" in message) == (Result.TIMEOUT, True)
    paper = publisher(home, Int32, "/paper")
    goal = home.skill(WAIT.format(600))
    assert goal.accepted
    paper.publish(Int32(data=0))
    home.until(lambda: home.parts.conditions.named("paper") is False, "it is heard")
    assert home.errand is not None
    paper.publish(Int32(data=1))
    assert goal.result.outcome == Result.DONE
    assert goal.result.observation.text.startswith("You waited until the printer has paper.")
    paper.publish(Int32(data=0))
    home.until(lambda: home.parts.conditions.named("paper") is False, "it is heard")
    outcome, message = home.fails(WAIT.format(1))
    assert (outcome, "but it is not so" in message) == (Result.TIMEOUT, True)


def test_a_wait_is_cancelled_and_halted_as_any_skill(home: House) -> None:
    home.start(with_conditions)
    goal = home.skill(WAIT.format(600))
    home.until(lambda: home.errand is not None, "it waits")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    goal = home.skill(WAIT.format(600))
    home.until(lambda: home.errand is not None, "it waits")
    home.press(True)
    assert goal.result.outcome == Result.HALTED


def test_a_latched_message_counts_and_silence_is_not_knowing(home: House) -> None:
    home.graph.probe.create_publisher(Bool, "/door", LATCHED).publish(Bool(data=True))
    silent = {**CONDITIONS, "quiet": {**CONDITIONS["door"], "wording": "the door was open", "silent_for": 0.2}}
    home.start(top(conditions=silent))
    conditions = home.parts.conditions
    home.until(lambda: conditions.named("door"), "the latched message is heard")
    home.until(lambda: conditions.named("quiet") is None, "nobody knows any more")
    assert conditions.named("door") is True


# ---------------------------------------------------------------------- the battery


def test_at_a_low_battery_the_robot_docks_by_itself_and_tasks_hold_until_it_is_charged(home: House) -> None:
    home.start(with_battery)
    battery = publisher(home, BatteryState, "/battery")
    charge(home, battery, 0.5)
    assert home.bridge.host.halted() == ""
    charge(home, battery, 0.25)
    home.until(lambda: log(home), "it docks")
    home.until(lambda: "charged up to" in home.bridge.host.halted(), "it charges")
    halted = home.skill("go to bed 1").result
    assert halted.outcome == Result.HALTED
    assert "the battery is at 0.25: it is charged up to 0.8" in halted.message
    charge(home, battery, 0.5)
    assert home.bridge.host.halted()
    charge(home, battery, 0.8)
    home.until(lambda: not home.bridge.host.halted(), "tasks go on")
    home.does("go to bed 1")
    assert len(log(home)) == 1


def test_what_is_under_way_ends_first_and_an_emptier_battery_does_not_stop_the_docking(home: House) -> None:
    home.start(with_battery)
    battery = publisher(home, BatteryState, "/battery")
    charge(home, battery, 0.5)
    going = home.goes("hold")
    charge(home, battery, 0.25)
    home.until(lambda: home.bridge.host.halted(), "tasks hold")
    assert not log(home)
    home.robot.behave["arm"] = ["hold"]
    charge(home, battery, 0.05)  # now it has to stop
    assert going.result.outcome == Result.EXECUTION
    home.until(lambda: "arm: hold" in home.robot.log, "it docks all the same")
    charge(home, battery, 0.04)
    for _ in range(20):
        home.graph.step()
    assert "cancel: arm" not in home.robot.log
    assert "'dock' is carried out" in home.bridge.host.halted()


def test_where_it_cannot_dock_it_tries_again_then_a_person_is_told(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robot_bridge_node, "CHARGE_AGAIN", 0.0)
    home.robot.behave["arm"] = ["abort:7"] * robot_bridge_node.TRIES
    home.start(with_battery)
    battery = publisher(home, BatteryState, "/battery")
    charge(home, battery, 0.2)
    bare = home.bridge.host.bare
    home.until(lambda: bare.emergency(), "a person is told")
    assert "the battery is at 0.2: You could not dock: arm: error code 7" in bare.emergency()
    assert home.robot.log.count("arm: abort:7") == robot_bridge_node.TRIES
    charge(home, battery, 0.9)
    home.until(lambda: not bare.emergency(), "somebody has charged it")


def test_it_stops_docking_for_an_emergency_stop_or_an_inactive_bridge_and_goes_on_after_a_stop(home: House) -> None:
    home.start(with_battery)
    battery = publisher(home, BatteryState, "/battery")
    home.robot.behave["arm"] = ["hold", "hold"]
    charge(home, battery, 0.2)
    home.until(lambda: "arm: hold" in home.robot.log, "it docks")
    home.press(True)
    home.until(lambda: "stopped: arm" in home.robot.log, "it stops")
    home.press(False)
    home.until(lambda: home.robot.log.count("arm: hold") == 2, "it docks again")
    home.bridge.trigger_deactivate()
    home.until(lambda: home.robot.log.count("stopped: arm") == 2, "it stops")
    home.until(home.bridge.stopped, "it is at rest")
    for _ in range(20):
        home.graph.step()
    assert sum(line.startswith("arm: ") for line in home.robot.log) == 2
