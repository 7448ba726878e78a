"""What whoever operates a robot sees of a task: the log."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from doubles import ScriptedModel, ScriptedWorld

from reactree_ros.world.port import Score

if importlib.util.find_spec("rclpy"):
    from rcl_interfaces.msg import Log
    from ros_graph import HeldWorld

if TYPE_CHECKING:
    from ros_graph import Goal, Graph

pytestmark = pytest.mark.ros

#: Log levels are bytes in some releases of rclpy, and numbers in others.
INFO = 20


def id_of(goal: Goal) -> str:
    return bytes(goal._answer.result().goal_id.uuid).hex()


# ---------------------------------------------------------------------- the log


def infos(heard: list[Any]) -> list[str]:
    return [log.msg for log in heard if log.name == "reactree_planner" and log.level == INFO]


def test_an_accepted_goal_and_its_end_are_logged_with_id_instruction_and_reason(graph: Graph) -> None:
    graph.household({"root": ["Think: a", "Act: failure"]})
    heard = graph.listen(Log, "/rosout")
    goal = graph.task()
    assert not goal.result.success
    graph.until(lambda: any("ended" in text for text in infos(heard)), "its end is logged")
    accepted, ended = infos(heard)
    assert accepted == f"goal {id_of(goal)} accepted: 'root'"
    assert ended.startswith(f"goal {id_of(goal)} ended: not reached (failure), 'root'; 1 decisions, 0 steps, ")
    assert ended.endswith("; the planner gave up: failure")


def test_a_goal_that_is_canceled_in_the_queue_is_logged_as_well(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=world, on_busy="queue")
    heard = graph.listen(Log, "/rosout")
    graph.task()
    graph.until(lambda: world.held)
    waits = graph.task("a")
    waits.cancel()
    said = f"goal {id_of(waits)}"
    graph.until(lambda: any(text.startswith(f"{said} ended") for text in infos(heard)), "its end is logged")
    mine = [text for text in infos(heard) if text.startswith(said)]
    assert mine == [
        f"{said} accepted behind 1: 'a'",
        f"{said} ended: not reached (interrupted), 'a'; 0 decisions, 0 steps, 0.0 s; canceled",
    ]


def test_a_rejected_goal_is_warned_of_with_its_instruction(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=world)
    heard = graph.listen(Log, "/rosout")
    graph.task()
    graph.until(lambda: world.held)
    assert not graph.task("a").accepted
    graph.until(lambda: any(log.msg == "goal rejected: a task runs; 'a'" for log in heard), "it is warned of")


@pytest.mark.parametrize(
    ("script", "score", "limits", "message"),
    [
        (["Act: failure"], None, {}, "the planner gave up: failure"),
        (["Think: a"] * 3, None, {"max_decisions": 2}, "all of the 2 decisions are used up"),
        (["Act: go to kitchen 1"] * 3, None, {"max_steps": 2}, "all of the 2 steps are used up"),
        (["Act: done"], Score(0.0, 0.5), {}, "the planner says that it is done, but the world's goal is not reached"),
    ],
)
def test_a_task_never_fails_with_an_empty_message(
    graph: Graph, script: list[str], score: Score | None, limits: dict[str, int], message: str
) -> None:
    graph.household({"root": script}, world=ScriptedWorld(score=score))
    result = graph.task(**limits).result
    assert (result.success, result.message) == (False, message)


@pytest.mark.parametrize("on_busy", ["queue", "preempt"])
def test_the_decisions_of_queued_and_preempting_goals_are_told_apart_by_the_goals_id(
    graph: Graph, on_busy: str
) -> None:
    world = HeldWorld()
    model = ScriptedModel({"root": ["Act: open fridge 1", "Act: done"] * 2})
    graph.household({}, model=model, world=world, on_busy=on_busy)
    heard = graph.decisions()
    goals = [graph.task()]
    graph.until(lambda: world.held, "the first one acts")
    goals.append(graph.task())
    assert goals[1].accepted
    while not all(goal._end is not None and goal._end.done() for goal in goals):
        world.finish()
        graph.step()
    graph.until(lambda: [bytes(msg.goal_id.uuid).hex() for msg in heard][-1:] == [id_of(goals[1])], "decisions came")
    ids = [bytes(msg.goal_id.uuid).hex() for msg in heard]
    assert set(ids) == {id_of(goal) for goal in goals}
    assert ids == sorted(ids, key=[id_of(goal) for goal in goals].index)
