"""What whoever operates a robot sees of a task: the log and diagnostics; for the tree see test_watching.py."""

from __future__ import annotations

from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from doubles import ScriptedModel, ScriptedWorld
from rcl_interfaces.msg import Log
from ros_graph import Goal, Graph, HeldWorld, activate
from std_srvs.srv import Trigger

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import Reply, ServerUnavailable
from reactree_ros.nodes.watchdog import Watchdog
from reactree_ros.world.port import Score

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
    assert ended.startswith(f"goal {id_of(goal)} ended: goal not reached (failure), 'root'; 1 decisions, 0 steps, ")
    assert ended.endswith("; the planner gave up: a")


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
        (["Act: failure"], None, {}, "the planner gave up without a reason"),
        (
            ["Act: go to kitchen 1"] * 3,
            None,
            {"max_decisions": 2},
            "out of decisions: all of the 2 decisions are used up",
        ),
        (["Act: go to kitchen 1"] * 3, None, {"max_steps": 2}, "out of steps: all of the 2 steps are used up"),
        (["Act: done"], Score(0.0, 0.5), {}, "the planner says that it is done, but the goal does not hold"),
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


# ---------------------------------------------------------------------- diagnostics


class Diagnoses:
    """What ``/diagnostics`` says of one name."""

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph, self._name, self._heard = graph, name, graph.listen(DiagnosticArray, "/diagnostics")

    def become(self, *wanted: Any, **values: str) -> None:
        """Wait until level and message, as far as they are given, and some values are these."""

        def are() -> bool:
            told = [one for array in self._heard for one in array.status if one.name == self._name]
            said = (told[-1].level, told[-1].message) if told else ()
            found = {one.key: one.value for one in told[-1].values} if told else {}
            return said[: len(wanted)] == wanted and values.items() <= found.items()

        self._graph.until(are, f"{wanted or values} is told")


def test_the_planner_tells_task_decisions_budgets_and_why_it_holds(graph: Graph) -> None:
    world = HeldWorld()
    planner = graph.household({"root": ["Think: a", "Act: open fridge 1"]}, world=world, max_decisions=9, max_steps=5)
    told = Diagnoses(graph, "/reactree_planner: task")
    told.become(DiagnosticStatus.OK, "waits for a goal")
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    told.become(DiagnosticStatus.OK, "carries a task out", decisions="2 of 9", steps="1 of 5", task="'root'")
    told.become(goal=id_of(goal), household_bridge="lives", inference="lives")
    graph.call(Trigger, "/reactree_planner/pause")
    told.become(DiagnosticStatus.WARN, "held: somebody has paused it")
    assert planner._control.paused


def test_the_planner_warns_of_an_inference_node_that_does_not_live_and_tells_how_the_last_goal_ended(
    graph: Graph,
) -> None:
    inference = graph.inference(ScriptedModel({"root": ["Act: failure"]}), alone=True)
    graph.bridge(ScriptedWorld())
    graph.planner()
    told = Diagnoses(graph, "/reactree_planner: task")
    assert not graph.task().result.success
    told.become(**{"last goal": "failure; the planner gave up without a reason"})
    graph.kill(inference)
    told.become(DiagnosticStatus.WARN, "silent: inference")


def test_a_bridge_tells_world_skill_and_why_nothing_may_move(graph: Graph) -> None:
    class StopWorld(HeldWorld):
        stop = ""

        def halted(self) -> str:
            return self.stop

    world = StopWorld()
    bridge = graph.bridge(world, active=False)
    told = Diagnoses(graph, "/household_bridge: world")
    told.become(DiagnosticStatus.STALE, "not active")
    activate(bridge)
    told.become(DiagnosticStatus.OK, "waits for a skill")
    goal = graph.skill("open fridge 1")
    graph.until(lambda: world.held, "the skill runs")
    told.become(DiagnosticStatus.OK, "carries out 'open fridge 1'", world="StopWorld", **{"skill policy": "none"})
    world.finish()
    assert goal.result.outcome == 0
    world.stop = "the emergency stop is engaged"
    told.become(DiagnosticStatus.WARN, world.stop)
    told.become(**{"last skill": "'open fridge 1': done"})


def test_the_inference_node_tells_model_requests_errors_and_speed_and_warns_where_the_last_one_failed(
    graph: Graph,
) -> None:
    class Failing(ScriptedModel):
        def decide(self, request: Any) -> Pending[Reply]:
            return Pending.failed(ServerUnavailable("the server is gone"))

    graph.household({}, model=Failing({}))
    told = Diagnoses(graph, "/inference: requests")
    assert not graph.task().result.success
    numbers = {"requests failed": "1", "output tokens a second": "none yet"}
    told.become(DiagnosticStatus.WARN, "the server is gone", llm="expert", **numbers)


def test_the_watchdog_tells_who_lives_and_warns_of_who_has_fallen_silent(graph: Graph) -> None:
    graph.add(Watchdog(context=graph.context))
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    told = Diagnoses(graph, "/watchdog: nodes")
    told.become(DiagnosticStatus.OK, "all live", live="/household_bridge, /watchdog")
    graph.kill(bridge)
    told.become(DiagnosticStatus.WARN, "silent: /household_bridge")
