"""A bridge that is restarted between two skills: what it knew is lost, so that nothing is decided by what it says."""

from __future__ import annotations

from doubles import ScriptedModel, ScriptedWorld
from ros_graph import Graph

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, Reply


class Ponders(ScriptedModel):
    """A model whose second decision comes when it is told to."""

    ponders = False

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        from reactree_ros.background.pending import Pending, pass_on

        self.late: Pending[Reply] = Pending()
        decided = super().decide(request)
        if len(self.requests) != 2:
            return decided
        self.ponders = True
        self.speak = lambda: pass_on(decided, self.late)
        return self.late


def test_a_bridge_that_is_restarted_between_two_skills_ends_the_task(graph: Graph) -> None:
    model = Ponders({"root": ["Act: pick up apple 1", "Act: put down apple 1", "Act: done", "Act: done"]})
    graph.inference(model)
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    planner = graph.planner()
    goal = graph.task()
    graph.until(lambda: model.ponders, "it decides after the first skill")
    graph.kill(bridge)
    after = ScriptedWorld()
    again = graph.bridge(after)
    graph.until(
        lambda: planner._lives.life("/household_bridge") == again.heartbeat._said.life, "the planner hears of the other"
    )
    model.speak()
    assert (goal.result.end, goal.result.error_code) == ("world_gone", goal.result.WORLD_UNAVAILABLE)
    assert goal.result.message.endswith("household_bridge was restarted; what it knew of the task is lost")
    assert after.executed == []


def test_a_bridge_that_is_restarted_between_two_tasks_is_taken_as_it_is(graph: Graph) -> None:
    graph.inference(ScriptedModel({"root": ["Think: so", "Act: done"] * 2}))
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    planner = graph.planner()
    assert graph.task().result.success
    graph.kill(bridge)
    again = graph.bridge(ScriptedWorld())
    graph.until(
        lambda: planner._lives.life("/household_bridge") == again.heartbeat._said.life, "the planner hears of the other"
    )
    assert graph.task().result.success
