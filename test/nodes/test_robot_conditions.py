"""A robot's conditions over ROS: told, waited for; and a low battery, to which the robot reacts by a skill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from reactree_interfaces.srv import DescribeHousehold, Observe
from robot_house import House, Result
from ros_graph import Graph
from sensor_msgs.msg import BatteryState
from std_msgs.msg import Bool, Int32

from reactree_ros.errors import UserError
from reactree_ros.nodes.robot import robot_parts

CONDITIONS: dict[str, Any] = {
    "paper": {
        "wording": "the printer has paper",
        "topic": "/paper",
        "type": "std_msgs/msg/Int32",
        "holds": {"above": 0},
    },
    "door": {"wording": "the door is open", "topic": "/door"},
}
DOCK: dict[str, Any] = {
    "wording": "dock",
    "action": "arm",
    "type": "nav2_msgs/action/DummyBehavior",
    "goal": {"command.data": "dock"},
}
BATTERY: dict[str, Any] = {
    "topic": "/battery",
    "least": 0.1,
    "charge": {"below": 0.3, "skill": "dock", "until": 0.8},
}
WAIT = "wait until the printer has paper for up to {} s"


@pytest.fixture
def house(graph: Graph, tmp_path: Path) -> House:
    house = House(graph, tmp_path)
    house.add_robot()
    return house


def with_conditions(config: dict[str, Any]) -> None:
    config["conditions"] = CONDITIONS


def with_battery(config: dict[str, Any]) -> None:
    config["skills"]["dock"] = DOCK
    config["battery"] = BATTERY


def publisher(house: House, kind: Any, topic: str) -> Any:
    made = house.graph.probe.create_publisher(kind, topic, 1)
    house.graph.until(lambda: made.get_subscription_count(), f"{topic} is heard")
    return made


def charge(house: House, battery: Any, level: float) -> None:
    battery.publish(BatteryState(percentage=level))
    house.graph.until(lambda: house.bridge.host.bare._robot.battery.level == pytest.approx(level), "the level is heard")


def log(house: House) -> list[str]:
    return [line for line in house.robot.log if line.startswith("arm: dock")]


def seen(house: House) -> str:
    return str(house.graph.call(Observe, "robot_bridge/observe").observation.text)


# ---------------------------------------------------------------------- conditions


def test_conditions_are_told_at_first_and_when_they_have_changed(house: House) -> None:
    house.start(with_conditions)
    assert seen(house).endswith("Conditions: the door is open: unknown; the printer has paper: unknown.")
    assert "Conditions" not in house.does("go to kitchen table 1").observation.text
    paper = publisher(house, Int32, "/paper")
    paper.publish(Int32(data=3))
    house.graph.until(lambda: house.bridge.host.bare._robot.conditions.named("paper"), "the paper is heard")
    told = house.does("go to bed 1").observation.text
    assert told.endswith("Conditions: the door is open: unknown; the printer has paper: yes.")
    assert "Conditions" not in house.does("go to kitchen table 1").observation.text


@pytest.mark.parametrize("own", [[], ["repeat_until", "within"]])
def test_expansions_get_more_control_flows_with_conditions_alone(house: House, own: list[str]) -> None:
    house.start(with_conditions if own else lambda config: None)
    household = house.graph.call(DescribeHousehold, "robot_bridge/household")
    assert household.control_flows == ["sequence", "fallback", "parallel", *own]


def test_without_conditions_nothing_is_told_of_them(house: House) -> None:
    house.start()
    assert "Conditions" not in seen(house)
    assert house.skill(WAIT.format(1)).result.outcome == Result.UNKNOWN_SKILL


def test_a_wait_ends_as_soon_as_its_condition_holds(house: House) -> None:
    house.start(with_conditions)
    paper = publisher(house, Int32, "/paper")
    goal = house.skill(WAIT.format(600))
    assert goal.accepted
    paper.publish(Int32(data=0))
    house.graph.until(lambda: house.bridge.host.bare._robot.conditions.named("paper") is False, "it is heard")
    assert house.bridge.host.bare._errand is not None
    paper.publish(Int32(data=1))
    assert goal.result.outcome == Result.DONE
    assert goal.result.observation.text.startswith("You waited until the printer has paper.")


def test_a_wait_is_bounded_and_says_why_it_was_in_vain(house: House) -> None:
    house.start(with_conditions)
    late = house.skill(WAIT.format(0)).result
    assert (late.outcome, "nobody knows whether it is so" in late.message) == (Result.TIMEOUT, True)
    paper = publisher(house, Int32, "/paper")
    paper.publish(Int32(data=0))
    house.graph.until(lambda: house.bridge.host.bare._robot.conditions.named("paper") is False, "it is heard")
    late = house.skill(WAIT.format(1)).result
    assert (late.outcome, "but it is not so" in late.message) == (Result.TIMEOUT, True)


def test_a_wait_is_cancelled_and_halted_as_any_skill(house: House) -> None:
    house.start(with_conditions)
    goal = house.skill(WAIT.format(600))
    house.graph.until(lambda: house.bridge.host.bare._errand is not None, "it waits")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    goal = house.skill(WAIT.format(600))
    house.graph.until(lambda: house.bridge.host.bare._errand is not None, "it waits")
    house.press(True)
    assert goal.result.outcome == Result.HALTED


def test_a_latched_message_counts_and_silence_is_not_knowing(house: House) -> None:
    from robot_servers import LATCHED

    house.graph.probe.create_publisher(Bool, "/door", LATCHED).publish(Bool(data=True))
    silent = {**CONDITIONS, "quiet": {**CONDITIONS["door"], "wording": "the door was open", "silent_for": 0.2}}
    house.start(lambda config: config.update(conditions=silent))
    conditions = house.bridge.host.bare._robot.conditions
    house.graph.until(lambda: conditions.named("door"), "the latched message is heard")
    house.graph.until(lambda: conditions.named("quiet") is None, "nobody knows any more")
    assert conditions.named("door") is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"field": "dat"}, "has no field 'dat'"),
        ({"type": "std_msgs/msg/Bol"}, "no message 'Bol'"),
        ({"holds": {"above": 1}}, "above and below are of numbers"),
        ({"holds": "open"}, "cannot be 'open'"),
    ],
)
def test_what_does_not_fit_its_type_is_said_before_anything_moves(
    house: House, change: dict[str, Any], said: str
) -> None:
    conditions = {"door": {**CONDITIONS["door"], **change}}
    node = house.graph.add(house.make_bridge(lambda config: config.update(conditions=conditions)))
    with pytest.raises(UserError) as refused:
        node.load()
    assert "conditions.door" in str(refused.value)
    assert said in str(refused.value)


# ---------------------------------------------------------------------- the battery


def test_at_a_low_battery_the_robot_docks_by_itself_and_tasks_hold_until_it_is_charged(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    charge(house, battery, 0.5)
    assert house.bridge.host.halted() == ""
    charge(house, battery, 0.25)
    house.graph.until(lambda: log(house), "it docks")
    house.graph.until(lambda: "charged up to" in house.bridge.host.halted(), "it charges")
    halted = house.skill("go to bed 1").result
    assert halted.outcome == Result.HALTED
    assert "the battery is at 0.25: it is charged up to 0.8" in halted.message
    charge(house, battery, 0.5)
    assert house.bridge.host.halted()
    charge(house, battery, 0.8)
    house.graph.until(lambda: not house.bridge.host.halted(), "tasks go on")
    house.does("go to bed 1")
    assert len(log(house)) == 1


def test_what_is_under_way_ends_first_and_an_emptier_battery_does_not_stop_the_docking(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    charge(house, battery, 0.5)
    going = house.goes("hold")
    charge(house, battery, 0.25)
    house.graph.until(lambda: house.bridge.host.halted(), "tasks hold")
    assert not log(house)
    house.robot.behave["arm"] = ["hold"]
    charge(house, battery, 0.05)  # now it has to stop
    assert going.result.outcome == Result.EXECUTION
    house.graph.until(lambda: "arm: hold" in house.robot.log, "it docks all the same")
    charge(house, battery, 0.04)
    for _ in range(20):
        house.graph.step()
    assert "cancel: arm" not in house.robot.log
    assert "'dock' is carried out" in house.bridge.host.halted()


def test_it_stops_docking_for_an_emergency_stop_and_goes_on_after(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    house.robot.behave["arm"] = ["hold"]
    charge(house, battery, 0.2)
    house.graph.until(lambda: "arm: hold" in house.robot.log, "it docks")
    house.press(True)
    house.graph.until(lambda: "stopped: arm" in house.robot.log, "it stops")
    house.press(False)
    house.graph.until(lambda: log(house), "it docks")


def test_where_it_cannot_dock_it_tries_again_then_a_person_is_told(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robot_parts, "AGAIN", 0.0)
    house.robot.behave["arm"] = ["abort:7"] * robot_parts.TRIES
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    charge(house, battery, 0.2)
    bare = house.bridge.host.bare
    house.graph.until(lambda: bare.emergency(), "a person is told")
    assert "the battery is at 0.2: You could not dock: arm: error code 7" in bare.emergency()
    assert house.robot.log.count("arm: abort:7") == robot_parts.TRIES
    charge(house, battery, 0.9)
    house.graph.until(lambda: not bare.emergency(), "somebody has charged it")


def test_a_robot_whose_bridge_is_not_active_does_not_dock_and_one_that_is_deactivated_stops(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    house.robot.behave["arm"] = ["hold"]
    charge(house, battery, 0.2)
    house.graph.until(lambda: "arm: hold" in house.robot.log, "it docks")
    house.bridge.trigger_deactivate()
    house.graph.until(lambda: "stopped: arm" in house.robot.log, "it stops")
    house.graph.until(house.bridge.stopped, "it is at rest")
    for _ in range(20):
        house.graph.step()
    assert sum(line.startswith("arm: ") for line in house.robot.log) == 1
