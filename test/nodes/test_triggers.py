"""Triggers over ROS: goals like any other, which a condition or a schedule starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from doubles import ScriptedModel
from rclpy.lifecycle import TransitionCallbackReturn
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.srv import Hear
from ros_graph import Graph, HeldWorld
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from reactree_ros.nodes.planner import triggers

Result = ExecuteTask.Result


CONFIG = Path(__file__).parents[2] / "config/robots/office.yaml"
REFILL = {"instruction": "refill the printer", "when": "no paper", "limits": {"max_steps": 7, "max_seconds": 600}}
#: Opens the fridge, which stays under way until the test ends it.
SCRIPT = {name: ["Act: open fridge 1", "Act: done"] * 9 for name in ("refill the printer", "root")}


def declare(folder: Path, triggers: dict[str, Any]) -> str:
    """Write a robot's file with triggers; return where it is."""
    values = yaml.safe_load(CONFIG.read_text())
    values["conditions"] = {"no paper": {"wording": "the printer is out of paper", "topic": "/out_of_paper"}}
    file = folder / "robot.yaml"
    file.write_text(yaml.safe_dump(values | {"triggers": triggers}))
    return str(file)


class Printer:
    """A planner with triggers, a world that holds each skill, and a printer that says whether it has paper."""

    def __init__(self, graph: Graph, folder: Path, declared: dict[str, Any], **parameters: Any) -> None:
        self.graph, self.world, self.model = graph, HeldWorld(), ScriptedModel(SCRIPT)
        given = {"triggers": declare(folder, declared), **parameters}
        self.planner = graph.household({}, model=self.model, world=self.world, **given)
        self._topic = graph.probe.create_publisher(Bool, "/out_of_paper", 1)
        graph.until(lambda: self._topic.get_subscription_count(), "the printer is heard")

    @property
    def queue(self) -> Any:
        return self.planner._queue

    def is_empty(self, empty: bool) -> None:
        self._topic.publish(Bool(data=empty))

    def begins(self, number: int = 1) -> Any:
        self.graph.until(lambda: len(self.world.executed) == number and self.world.held, "a run begins")
        return self.queue.running.goal_handle.request

    def ends(self) -> None:
        self.world.finish()
        self.graph.until(lambda: self.queue.running is None, "the run ends")

    def rests(self) -> None:
        for _ in range(100):
            self.graph.step()
            assert self.queue.running is None

    def switch(self, on: bool) -> None:
        assert self.graph.call(SetBool, "reactree_planner/triggers", data=on).success


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "PERIOD", 0.01)
    monkeypatch.setattr(triggers, "AGAIN", 0.05)


def test_a_condition_starts_its_instruction_with_its_limits_once_each_time_that_it_begins(
    graph: Graph, tmp_path: Path
) -> None:
    printer = Printer(graph, tmp_path, {"refill": REFILL})
    printer.is_empty(False)
    printer.rests()
    printer.is_empty(True)
    goal = printer.begins()
    assert (goal.instruction, goal.max_steps, goal.max_seconds) == ("refill the printer", 7, 600.0)
    printer.ends()
    printer.is_empty(True)
    printer.rests()
    printer.is_empty(False)
    printer.rests()
    printer.is_empty(True)
    printer.begins(2)


def test_it_waits_behind_another_goal_where_goals_wait(graph: Graph, tmp_path: Path) -> None:
    printer = Printer(graph, tmp_path, {"refill": REFILL}, on_busy="queue")
    other = graph.task("root")
    printer.begins()
    printer.is_empty(True)
    graph.until(lambda: len(printer.queue) == 1, "it waits")
    printer.world.finish()
    assert other.result.success
    assert printer.begins(2).instruction == "refill the printer"


def test_it_is_refused_where_a_busy_planner_refuses_and_comes_again_while_it_holds(
    graph: Graph, tmp_path: Path
) -> None:
    printer = Printer(graph, tmp_path, {"refill": REFILL, "round": {"instruction": "root", "at": "00:00"}})
    other = graph.task("root")
    printer.begins()
    said = graph.listen(DiagnosticArray, "/diagnostics")
    printer.is_empty(True)
    told = "when no paper: 'refill the printer'; refused"

    def values() -> dict[str, str]:
        return {one.key: one.value for array in said for status in array.status for one in status.values}

    graph.until(lambda: values().get("trigger refill") == told, "it is refused")
    assert values()["trigger round"] == "at 00:00: 'root'; not yet"
    assert len(printer.queue) == 0
    printer.world.finish()
    assert other.result.success
    printer.begins(2)


def test_a_person_stops_it_and_it_does_not_come_again_for_the_same_occasion(graph: Graph, tmp_path: Path) -> None:
    printer = Printer(graph, tmp_path, {"refill": {**REFILL, "again": 0.05}})
    printer.is_empty(True)
    printer.begins()
    assert graph.call(Hear, "reactree_planner/hear", words="stop").success
    graph.until(lambda: printer.queue.running is None, "it is stopped")
    printer.rests()
    printer.is_empty(False)
    printer.rests()
    printer.is_empty(True)
    printer.begins(2)


@pytest.mark.parametrize("entry", [{**REFILL, "again": 0.05}, {"instruction": "root", "every": 0.2}])
def test_a_condition_that_still_holds_and_a_schedule_start_again_and_again(
    graph: Graph, tmp_path: Path, entry: dict[str, Any]
) -> None:
    printer = Printer(graph, tmp_path, {"one": entry})
    printer.is_empty(True)
    for number in (1, 2, 3):
        assert printer.begins(number).instruction == entry["instruction"]
        printer.world.finish()


def test_all_are_switched_off_and_a_condition_that_holds_counts_when_they_are_on(graph: Graph, tmp_path: Path) -> None:
    printer = Printer(graph, tmp_path, {"refill": REFILL, "round": {"instruction": "root", "every": 0.5}})
    printer.switch(False)
    printer.is_empty(True)
    printer.rests()
    printer.switch(True)
    assert printer.begins().instruction == "refill the printer"


def test_a_file_that_cannot_be_used_is_said_when_the_planner_is_configured(
    graph: Graph, tmp_path: Path, capfd: Any
) -> None:
    file = declare(tmp_path, {"t": {"instruction": "root", "when": "x"}})
    planner = graph.planner(active=False, triggers=file)
    assert planner.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert "triggers.t.when: 'x' is none of the conditions" in capfd.readouterr().err


def test_while_the_planner_is_inactive_no_trigger_starts_anything(graph: Graph, tmp_path: Path) -> None:
    printer = Printer(graph, tmp_path, {"refill": REFILL})
    printer.planner.trigger_deactivate()
    printer.is_empty(True)
    printer.rests()
    assert not printer.world.executed
    printer.planner.trigger_activate()
    assert printer.begins().instruction == "refill the printer"
    printer.ends()
