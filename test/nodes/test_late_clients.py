"""A client that asks for a result long after the end gets it: a busy machine or a bad network takes its time."""

from __future__ import annotations

import uuid
from typing import Any

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Time
from doubles import ScriptedModel, ScriptedWorld
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from ros_graph import Graph
from rosgraph_msgs.msg import Clock
from unique_identifier_msgs.msg import UUID

#: The clock, by which servers keep results, is the test's.
SIMULATED = {"use_sim_time": True}


class LateClient:
    """A client of an action that asks for the result only when it is told to."""

    def __init__(self, graph: Graph, kind: Any, action: str, server: Any) -> None:
        self._graph, self._kind, self._action, self._server = graph, kind, action, server
        self._id = UUID(uuid=list(uuid.uuid4().bytes))
        self._clock = graph.probe.create_publisher(Clock, "/clock", 1)
        self._now = 1000
        self.passes(0)

    def passes(self, seconds: int) -> None:
        """Let so many seconds pass for the server, with time to do then what is due."""
        self._now += seconds
        self._clock.publish(Clock(clock=Time(sec=self._now)))
        clock = self._server.get_clock()
        self._graph.until(lambda: clock.now().nanoseconds == self._now * 10**9, "the time is heard")
        for _ in range(50):
            self._graph.step()

    def send(self, **goal: Any) -> None:
        request = {"goal_id": self._id, "goal": self._kind.Goal(**goal)}
        service = self._kind.Impl.SendGoalService
        assert self._graph.call(service, f"{self._action}/_action/send_goal", **request).accepted

    def result(self) -> tuple[int, Any]:
        service = self._kind.Impl.GetResultService
        answer = self._graph.call(service, f"{self._action}/_action/get_result", goal_id=self._id)
        return answer.status, answer.result


def test_the_result_of_a_skill_is_kept_for_a_client_that_asks_late(graph: Graph) -> None:
    bridge = graph.bridge(ScriptedWorld(), **SIMULATED)
    client = LateClient(graph, ExecuteSkill, "household_bridge/execute_skill", bridge)
    client.send(skill="open fridge 1")
    graph.until(lambda: not bridge._skills.busy, "it ends")
    client.passes(9)
    status, result = client.result()
    assert (status, result.outcome) == (GoalStatus.STATUS_SUCCEEDED, ExecuteSkill.Result.DONE)
    client.passes(9)  # it is forgotten at some time, or each status would name all that ever were
    assert client.result()[0] == GoalStatus.STATUS_UNKNOWN


def test_the_result_of_a_task_is_kept_for_a_quarter_of_an_hour(graph: Graph) -> None:
    graph.inference(ScriptedModel({"root": ["Think: so", "Act: done"]}))
    graph.bridge(ScriptedWorld())
    planner = graph.planner(**SIMULATED)
    client = LateClient(graph, ExecuteTask, "reactree_planner/execute_task", planner)
    client.send(instruction="root")
    graph.until(lambda: planner._runner.last, "it ends")
    client.passes(14 * 60)
    status, result = client.result()
    assert (status, result.success) == (GoalStatus.STATUS_SUCCEEDED, True)
