"""A robot's conditions over ROS: told, waited for; and a low battery, to which the robot reacts by a skill."""

from __future__ import annotations

from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from reactree_interfaces.srv import DescribeHousehold, Observe
from robot_house import SKILLS, House, Result, top
from robot_servers import LATCHED
from sensor_msgs.msg import BatteryState
from std_msgs.msg import Bool, Int32

from reactree_ros.nodes.robot import robot_bridge_node

CONDITIONS: dict[str, Any] = SKILLS["conditions"]
WAIT = "wait until the printer has paper for up to {} s"


@pytest.fixture
def house(house: House) -> House:
    house.add_robot()
    return house


def with_conditions(config: dict[str, Any]) -> None:
    config["conditions"] = CONDITIONS


def with_battery(config: dict[str, Any]) -> None:
    config["skills"]["dock"] = SKILLS["dock"]
    config["battery"] = SKILLS["battery"]


def publisher(house: House, kind: Any, topic: str) -> Any:
    made = house.graph.probe.create_publisher(kind, topic, 1)
    house.until(lambda: made.get_subscription_count(), f"{topic} is heard")
    return made


def charge(house: House, battery: Any, level: float) -> None:
    battery.publish(BatteryState(percentage=level))
    house.until(lambda: house.parts.battery.level == pytest.approx(level), "the level is heard")


def log(house: House) -> list[str]:
    return [line for line in house.robot.log if line.startswith("arm: dock")]


# ---------------------------------------------------------------------- conditions


@pytest.mark.parametrize("own", [[], ["repeat_until", "within"]])
def test_conditions_are_told_at_first_and_when_they_have_changed(house: House, own: list[str]) -> None:
    house.start(with_conditions if own else lambda config: None)
    household = house.graph.call(DescribeHousehold, "robot_bridge/household")
    assert household.control_flows == ["sequence", "fallback", "parallel", *own]
    seen = house.graph.call(Observe, "robot_bridge/observe").observation.text
    if not own:
        assert "Conditions" not in seen
        assert house.fails(WAIT.format(1))[0] == Result.UNKNOWN_SKILL
        return
    assert seen.endswith("Conditions: the door is open: unknown; the printer has paper: unknown.")
    assert "Conditions" not in house.does("go to kitchen table 1").observation.text
    paper = publisher(house, Int32, "/paper")
    paper.publish(Int32(data=3))
    house.until(lambda: house.parts.conditions.named("paper"), "the paper is heard")
    changed = "Conditions: the door is open: unknown; the printer has paper: yes."
    assert house.does("go to bed 1").observation.text.endswith(changed)
    assert "Conditions" not in house.does("go to kitchen table 1").observation.text


def test_a_wait_ends_as_soon_as_its_condition_holds_or_its_time_is_over(house: House) -> None:
    house.start(with_conditions)
    outcome, message = house.fails(WAIT.format(0))
    assert (outcome, "nobody knows whether it is so" in message) == (Result.TIMEOUT, True)
    paper = publisher(house, Int32, "/paper")
    goal = house.skill(WAIT.format(600))
    assert goal.accepted
    paper.publish(Int32(data=0))
    house.until(lambda: house.parts.conditions.named("paper") is False, "it is heard")
    assert house.errand is not None
    paper.publish(Int32(data=1))
    assert goal.result.outcome == Result.DONE
    assert goal.result.observation.text.startswith("You waited until the printer has paper.")
    paper.publish(Int32(data=0))
    house.until(lambda: house.parts.conditions.named("paper") is False, "it is heard")
    outcome, message = house.fails(WAIT.format(1))
    assert (outcome, "but it is not so" in message) == (Result.TIMEOUT, True)


def test_a_wait_is_cancelled_and_halted_as_any_skill(house: House) -> None:
    house.start(with_conditions)
    goal = house.skill(WAIT.format(600))
    house.until(lambda: house.errand is not None, "it waits")
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    goal = house.skill(WAIT.format(600))
    house.until(lambda: house.errand is not None, "it waits")
    house.press(True)
    assert goal.result.outcome == Result.HALTED


def test_a_latched_message_counts_and_silence_is_not_knowing(house: House) -> None:
    house.graph.probe.create_publisher(Bool, "/door", LATCHED).publish(Bool(data=True))
    silent = {**CONDITIONS, "quiet": {**CONDITIONS["door"], "wording": "the door was open", "silent_for": 0.2}}
    house.start(top(conditions=silent))
    conditions = house.parts.conditions
    house.until(lambda: conditions.named("door"), "the latched message is heard")
    house.until(lambda: conditions.named("quiet") is None, "nobody knows any more")
    assert conditions.named("door") is True


# ---------------------------------------------------------------------- the battery


def test_at_a_low_battery_the_robot_docks_by_itself_and_tasks_hold_until_it_is_charged(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    charge(house, battery, 0.5)
    assert house.bridge.host.halted() == ""
    charge(house, battery, 0.25)
    house.until(lambda: log(house), "it docks")
    house.until(lambda: "charged up to" in house.bridge.host.halted(), "it charges")
    halted = house.skill("go to bed 1").result
    assert halted.outcome == Result.HALTED
    assert "the battery is at 0.25: it is charged up to 0.8" in halted.message
    charge(house, battery, 0.5)
    assert house.bridge.host.halted()
    charge(house, battery, 0.8)
    house.until(lambda: not house.bridge.host.halted(), "tasks go on")
    house.does("go to bed 1")
    assert len(log(house)) == 1


def test_what_is_under_way_ends_first_and_an_emptier_battery_does_not_stop_the_docking(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    charge(house, battery, 0.5)
    going = house.goes("hold")
    charge(house, battery, 0.25)
    house.until(lambda: house.bridge.host.halted(), "tasks hold")
    assert not log(house)
    house.robot.behave["arm"] = ["hold"]
    charge(house, battery, 0.05)  # now it has to stop
    assert going.result.outcome == Result.EXECUTION
    house.until(lambda: "arm: hold" in house.robot.log, "it docks all the same")
    charge(house, battery, 0.04)
    for _ in range(20):
        house.graph.step()
    assert "cancel: arm" not in house.robot.log
    assert "'dock' is carried out" in house.bridge.host.halted()


def test_where_it_cannot_dock_it_tries_again_then_a_person_is_told(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robot_bridge_node, "CHARGE_AGAIN", 0.0)
    house.robot.behave["arm"] = ["abort:7"] * robot_bridge_node.TRIES
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    charge(house, battery, 0.2)
    bare = house.bridge.host.bare
    house.until(lambda: bare.emergency(), "a person is told")
    assert "the battery is at 0.2: You could not dock: arm: error code 7" in bare.emergency()
    assert house.robot.log.count("arm: abort:7") == robot_bridge_node.TRIES
    charge(house, battery, 0.9)
    house.until(lambda: not bare.emergency(), "somebody has charged it")


def test_it_stops_docking_for_an_emergency_stop_or_an_inactive_bridge_and_goes_on_after_a_stop(house: House) -> None:
    house.start(with_battery)
    battery = publisher(house, BatteryState, "/battery")
    house.robot.behave["arm"] = ["hold", "hold"]
    charge(house, battery, 0.2)
    house.until(lambda: "arm: hold" in house.robot.log, "it docks")
    house.press(True)
    house.until(lambda: "stopped: arm" in house.robot.log, "it stops")
    house.press(False)
    house.until(lambda: house.robot.log.count("arm: hold") == 2, "it docks again")
    house.bridge.trigger_deactivate()
    house.until(lambda: house.robot.log.count("stopped: arm") == 2, "it stops")
    house.until(house.bridge.stopped, "it is at rest")
    for _ in range(20):
        house.graph.step()
    assert sum(line.startswith("arm: ") for line in house.robot.log) == 2
