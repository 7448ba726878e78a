"""A run that is gone on with over ROS: nothing is done again, what stands stands, the rest sees what is there."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from doubles import START, ScriptedModel, expand
from processes import Processes
from reactree_interfaces.action import ExecuteTask
from ros_graph import Graph, HeldWorld

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.observation import Observation, Seen
from reactree_ros.background.pending import Pending
from reactree_ros.episode.player import LATER, replay
from reactree_ros.record.reader import Record, read_record

NAV2 = bool(importlib.util.find_spec("nav2_msgs"))
APPLE = "Put 1 apple on the coffee table"
SCRIPT = {
    "root": [expand("sequence", "a", "b")],
    "a": ["Act: open fridge 1", "Act: done"],
    "b": ["Act: go to kitchen 1", "Act: pick up apple 1", "Act: done"],
}


def saved(result: Any) -> Record:
    return read_record(result.saved_to)


def carried_out(record: Record) -> list[str]:
    """The skills that came to something."""
    asked, done = "", []
    for event in record.events:
        if event["e"] == "skill":
            asked = event["skill"]
        elif event["e"] == "observation" and event["of"] == "execute":
            done.append(asked)
    return done


def statuses(record: Record) -> dict[str, str]:
    """The last status of each goal node, by its name."""
    names = {node["node"]: node["name"] for event in record.events if event["e"] == "grow" for node in event["nodes"]}
    told = [one for event in record.events if event["e"] == "status" for one in event["of"]]
    return {names[node]: status for node, status, *_ in told}


def broken_off(graph: Graph, folder: Path, world: HeldWorld | None = None) -> tuple[HeldWorld, Any]:
    """Cancel a task in its second skill; returns its world and what came of it."""
    world, _, goal = graph.held(SCRIPT, world, save_to=str(folder))
    world.finish()
    graph.until(lambda: len(world.executed) == 2 and world.held, "the second skill runs")
    goal.cancel()
    return world, goal.result


def test_nothing_is_done_again_and_what_stands_done_stays_done(graph: Graph, tmp_path: Path) -> None:
    world, before = broken_off(graph, tmp_path)
    goal = graph.task("", resume=before.saved_to)
    graph.until(lambda: len(world.executed) == 3 and world.held, "the next skill runs")
    world.finish()
    result = goal.result
    assert (result.success, result.end, result.decisions) == (True, "done", before.decisions + 1)
    assert world.executed == ["open fridge 1", "go to kitchen 1", "pick up apple 1"]
    after = saved(result)
    assert carried_out(after) == ["open fridge 1", "pick up apple 1"]
    assert statuses(after)["a"] == statuses(after)["b"] == "success"
    parent = saved(before)
    assert after.run["parent"] == {"id": parent.run["id"], "path": before.saved_to, "decision": before.decisions}
    assert sum(event["e"] == "started" for event in after.events) == 3
    (told,) = [event["saw"] for event in after.events if LATER in event.get("saw", "")]
    assert told.startswith("You were stopped before you had done it: ")
    assert told.endswith(START)
    assert replay(after).difference == ""


def test_what_is_not_where_the_record_has_it_is_told(graph: Graph, tmp_path: Path) -> None:
    class Moving(HeldWorld):
        """The apple stands on the counter, later in the fridge."""

        place = "kitchen counter 1"

        def observe(self) -> Pending[Observation]:
            return Pending.ready(Observation(START, seen=(Seen("apple", 1, "kitchen 1", self.place),)))

    world = Moving()
    _, before = broken_off(graph, tmp_path, world)
    world.place = "fridge 1"
    goal = graph.task("", resume=before.saved_to)
    graph.until(lambda: world.held, "the next skill runs")
    world.finish()
    assert goal.result.success
    moved = "apple 1 is at fridge 1 in kitchen 1, the record has it at kitchen counter 1 in kitchen 1"
    told = [line for one in goal.feedback for line in one.told]
    assert told.count(f"not as it was: {moved}") == 1


def test_a_run_of_a_household_goes_on_to_its_goal(graph: Graph, tmp_path: Path) -> None:
    house = generate_house(seed=7, tasks=1)
    (tmp_path / "house.json").write_text(json.dumps(house), encoding="utf-8")
    graph.inference()
    graph.bridge(tasks=str(tmp_path / "house.json"))
    graph.planner(planner="reactree_wm", save_to=str(tmp_path / "runs"))
    heard = graph.decisions()
    goal = graph.task("", task_id=house[0]["task_id"])
    graph.until(lambda: len(heard) > 8, "it is in the midst of it")
    goal.cancel()
    before = goal.result
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert not before.success
    result = graph.task("", resume=before.saved_to).result
    assert (result.success, result.gsr) == (True, 1.0)
    first, second = saved(before), saved(result)
    assert carried_out(second)[: len(carried_out(first))] == carried_out(first)
    assert second.run["world"] == first.run["world"]
    assert second.run["world"]["name"] == "virtualhome"


def test_a_run_is_stopped_on_its_way_back(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reactree_ros.nodes.planner import task_runner

    world, before = broken_off(graph, tmp_path)
    monkeypatch.setattr(task_runner, "SLICE", -1.0)  # it never gets on
    goal = graph.task("", resume=before.saved_to)
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert goal.result.end == "interrupted"
    assert len(world.executed) == 2


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({}, {"resume": "nowhere.jsonl"}, "nowhere.jsonl: cannot be read"),
        ({}, {"instruction": "sing"}, "resume: the run's own instruction counts; leave instruction out"),
        ({}, {"task_id": 1}, "resume: the run's own task_id counts"),
        ({"decided": {"decisions": 7}}, {}, "cannot be brought to where it was: event"),
        ({"run": {"household": {"name": "ship"}}}, {}, "was in another household than 'wah_nl' of this bridge"),
        ({"run": {"options": {"max_depth": "deep"}}}, {}, "what the run is cannot be used"),
        ({"run": {"planner": {"name": "gardener", "options": {}}}}, {}, "planner 'gardener' is unknown"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(
    graph: Graph, tmp_path: Path, change: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    world, before = broken_off(graph, tmp_path)
    path = Path(before.saved_to)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for kind, values in change.items():
        next(event for event in events if event["e"] == kind).update(values)
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    goal = graph.task(**{"instruction": "", "resume": str(path)} | given)
    assert goal.result.error_code == ExecuteTask.Result.INVALID_GOAL
    assert message in goal.result.message
    assert len(world.executed) == 2


@pytest.mark.skipif(not NAV2, reason="needs nav2_msgs")
def test_a_robot_goes_on_where_a_planner_was_killed(graph: Graph, tmp_path: Path) -> None:
    from test_robot_bridge import House

    house: Any = House(graph, tmp_path)
    robot = house.add_robot()
    house.start()
    acts = ["go to kitchen 1", "go to fridge 1", "open fridge 1", "pick up apple 1", "done"]
    model = ScriptedModel({"root": [f"Act: {skill}" for skill in acts]}, settle=False)
    graph.inference(model)
    planner = graph.planner(bridge="robot_bridge", save_to=str(tmp_path / "runs"), alone=True)
    graph.task()
    for replies in range(1, 4):
        graph.until(lambda count=replies: len(model.requests) == count, "it is asked")
        if replies < 3:
            model.settle_all()
    graph.kill(planner)
    (path,) = (tmp_path / "runs").iterdir()
    gone_to = [line for line in robot.log if "navigate" in line]
    model.script["root"] = ["Act: open fridge 1", "Act: pick up apple 1", "Act: done"]
    model.settle = True
    graph.planner(name="another", bridge="robot_bridge")
    result = graph.task("", to="another", resume=str(path)).result
    assert (result.success, result.decisions, result.steps) == (True, 4, 4)
    assert robot.house.held == "apple"
    assert [line for line in robot.log if "navigate" in line] == gone_to
    assert read_record(path).run["world"]["name"] == "robot"


# ------------------------------------------------------------------ the command


def test_a_person_is_asked_before_a_robot_goes_on(processes: Processes, tmp_path: Path) -> None:
    launch = processes.launch(f"save_to:={tmp_path}")
    assert processes.start("ros2", "run", "reactree_ros", "execute_task", APPLE).end() == 0
    (whole,) = tmp_path.iterdir()
    killed = tmp_path / "killed.jsonl"
    killed.write_text("".join(whole.read_text().splitlines(keepends=True)[:60]) + '{"e":"rep')
    command = ("python3", "-m", "reactree_ros.cli", "resume", str(killed), "--ros")
    asked = processes.start(*command)  # nobody is there who could say yes
    assert asked.end() == 130
    assert "goes on from what it sees now, and does nothing of that again. Go on? [y/N]" in asked.output
    assert len(list(tmp_path.iterdir())) == 2
    agreed = processes.start(*command, "--yes")
    assert agreed.ended_cleanly(0)
    (new,) = set(tmp_path.iterdir()) - {whole, killed}
    assert read_record(new).run["parent"]["path"] == str(killed)
    launch.interrupt()
    launch.end()
