"""The planner as a lifecycle node: what each transition begins, stops, closes and refuses, whoever asks for it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedModel, ScriptedWorld
from manager import Manager
from memory.word_hash_embedder import WordHashEmbedder
from processes import Processes, release
from rclpy.lifecycle import TransitionCallbackReturn
from reactree_interfaces.action import ExecuteTask
from ros_graph import Goal, Graph, activate, entities
from std_srvs.srv import Trigger

from reactree_ros.background.pending import Pending
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import EpisodicMemoryError
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.world.port import Score

Result = ExecuteTask.Result
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE

#: The fridge is opened once for each task that is stopped, and for the last one.
SCRIPT = {"root": [*["Act: open fridge 1"] * 3, "Act: done"], "a": ["Think: so", "Act: done"] * 3}
INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"


def assert_stopped(goal: Goal, why: str = "the planner was deactivated") -> None:
    assert (goal.status, goal.result.error_code) == (GoalStatus.STATUS_ABORTED, Result.SHUTDOWN)
    assert (goal.result.end, goal.result.message) == ("interrupted", why)


# ---------------------------------------------------------------------- active and inactive


def test_a_planner_that_is_not_active_takes_no_goal_and_says_why(graph: Graph, capfd: Any) -> None:
    graph.inference(ScriptedModel(SCRIPT))
    graph.bridge(ScriptedWorld())
    planner = graph.planner(active=False)
    assert planner.trigger_configure() == SUCCESS
    assert not graph.task("a").accepted
    assert "goal rejected: the planner is not active; 'a'" in capfd.readouterr().err
    assert planner.trigger_activate() == SUCCESS
    assert graph.task("a").result.success
    assert planner.trigger_deactivate() == SUCCESS
    assert not graph.task("a").accepted
    assert "goal rejected: the planner was deactivated; 'a'" in capfd.readouterr().err


@pytest.mark.parametrize("transition", ["deactivate", "shutdown"])
def test_a_planner_that_leaves_the_active_state_cancels_its_skill_and_ends_every_goal(
    graph: Graph, transition: str
) -> None:
    world, planner, goal = graph.held(SCRIPT, on_busy="queue")
    waits = graph.task("a")
    assert waits.accepted
    assert getattr(planner, f"trigger_{transition}")() == SUCCESS
    for one in (goal, waits):
        assert_stopped(one, f"the planner was {'deactivated' if transition == 'deactivate' else 'shut down'}")
    assert world.cancelled == {"open fridge 1": 1}
    graph.until(planner.stopped)


def test_a_planner_that_is_active_again_carries_out_the_next_goal(graph: Graph) -> None:
    world, planner, goal = graph.held(SCRIPT)
    for _ in range(2):
        assert planner.trigger_deactivate() == SUCCESS
        assert_stopped(goal)
        assert planner.trigger_activate() == SUCCESS
        goal = graph.task()
        graph.until(lambda: world.held, "the next skill runs")
    world.finish()
    assert goal.result.success


def test_a_deactivation_that_fails_stops_the_task_and_the_planner_can_be_configured_anew(graph: Graph) -> None:
    def stumble(*_: object) -> None:
        raise RuntimeError("a fault of the test")

    world, planner, goal = graph.held(SCRIPT)
    planner.follow = stumble
    assert planner.trigger_deactivate() == TransitionCallbackReturn.ERROR
    del planner.follow
    assert_stopped(goal)
    assert world.cancelled == {"open fridge 1": 1}
    graph.until(planner.stopped)
    activate(planner)
    assert graph.task("a").result.success


def test_its_endpoints_are_made_once(graph: Graph) -> None:
    planner = graph.household(SCRIPT)
    before = entities(planner)
    for transition in ("deactivate", "cleanup", "configure", "activate"):
        assert getattr(planner, f"trigger_{transition}")() == SUCCESS
    assert entities(planner) == before
    assert graph.task("a").result.success


# ---------------------------------------------------------------------- its memory


def test_the_memory_is_open_from_configure_to_cleanup(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    planner = graph.planner(memory=f"sqlite:path={file}:index=words", active=False)
    assert not file.exists()
    assert planner.trigger_configure() == SUCCESS
    memory = planner._memory
    assert memory is not None
    assert len(memory) == 0
    assert planner.trigger_cleanup() == SUCCESS

    def closed() -> bool:
        try:
            return len(memory) < 0
        except EpisodicMemoryError:
            return True

    graph.until(closed)
    activate(planner)
    assert planner._runner.memory is planner._memory is not memory


def test_a_memory_that_cannot_be_opened_is_named_and_the_planner_can_be_configured_later(
    graph: Graph, tmp_path: Path, capfd: Any
) -> None:
    file = tmp_path / "memory.db"
    file.mkdir()
    planner = graph.planner(memory=f"sqlite:path={file}:index=words", active=False)
    assert planner.trigger_configure() == FAILURE
    assert str(file) in capfd.readouterr().err
    file.rmdir()
    activate(planner)


def test_a_memory_is_closed_only_when_the_last_task_has_remembered(graph: Graph, tmp_path: Path) -> None:
    class Slow(SqliteMemory):
        adds: Pending[None] = Pending()
        asked = closed = False

        def add_run(self, experiences: Sequence[Experience]) -> None:
            self.asked = True
            self.adds.result()  # waits, in the memory's own thread
            super().add_run(experiences)

        def close(self) -> None:
            self.closed = True
            super().close()

    planner = graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=ScriptedWorld(score=Score(1.0, 1.0)))
    memory = planner._runner.memory = Slow(tmp_path / "memory.db", WordHashEmbedder())
    planner._opened.callback(memory.close)
    goal = graph.task()
    graph.until(lambda: memory.asked, "it remembers")
    assert planner.trigger_deactivate() == SUCCESS
    assert planner.trigger_cleanup() == SUCCESS
    assert planner.trigger_configure() == FAILURE
    assert not memory.closed
    memory.adds.succeed(None)
    assert goal.result.success
    graph.until(lambda: memory.closed, "nothing needs it any more")
    activate(planner)


# ---------------------------------------------------------------------- what it lacks


def test_what_a_planner_lacks_is_named_until_it_is_there(graph: Graph) -> None:
    planner = graph.planner(robots="tall,small", inference="/gpu/inference")

    def lacks() -> str:
        answer = graph.call(Trigger, "reactree_planner/check")
        assert answer.success is not bool(answer.message)
        return str(answer.message)

    assert lacks() == "silent: tall/household_bridge, small/household_bridge, /gpu/inference"
    graph.inference(ScriptedModel({}), namespace="gpu")
    graph.bridge(ScriptedWorld(), namespace="tall")
    graph.until(lambda: lacks() == "silent: small/household_bridge")
    graph.bridge(ScriptedWorld(), namespace="small")
    graph.until(lambda: not lacks())
    assert planner.lacks() == ""


# ---------------------------------------------------------------------- a lifecycle manager


NAMES = ("held_inference", "held_bridge", "reactree_planner")


def test_a_lifecycle_manager_like_nav2s_brings_all_nodes_up_pauses_resumes_and_ends_them(processes: Processes) -> None:
    bridge, inference = processes.held("bridge"), processes.held("inference")
    given = ("bridge:=held_bridge", "inference:=held_inference")
    planner = processes.node("planner_node", "--ros-args", *(part for one in given for part in ("-p", one)))
    graph = Graph(processes.domain)
    try:
        manager = Manager(graph, NAMES)
        assert manager.startup()
        release(inference)
        task = processes.node("execute_task", INSTRUCTION)
        bridge.wait_for("holds: go to kitchen 1")
        assert manager.pause()
        bridge.wait_for("stopped: go to kitchen 1")
        assert task.end() == 1
        assert "the planner was deactivated" in task.output

        release(bridge)
        assert manager.resume()
        task = processes.node("execute_task", INSTRUCTION)
        assert task.end() == 0, task.output
        assert manager.reset()
        assert manager.startup(), "as after a node that had fallen out"
        task = processes.node("execute_task", INSTRUCTION)
        assert task.end() == 0, task.output
        assert manager.shutdown()
    finally:
        graph.close()
    for process in (bridge, inference, planner):
        process.signal(signal.SIGINT)
        assert process.ended_cleanly(0)


def test_a_node_that_is_started_by_hand_says_what_brings_it_up(processes: Processes) -> None:
    planner = processes.node("planner_node", "--ros-args", "-r", "__ns:=/one")
    planner.wait_for("waits to be brought up: ros2 run reactree_ros bring_up /one/reactree_planner")
    processes.held("bridge", "--ros-args", "-r", "__ns:=/one", "-r", "__node:=household_bridge")
    processes.held("inference", "--ros-args", "-r", "__ns:=/one", "-r", "__node:=inference")
    names = [f"/one/{name}" for name in ("inference", "household_bridge", "reactree_planner")]
    assert processes.node("bring_up", *names).end() == 0
