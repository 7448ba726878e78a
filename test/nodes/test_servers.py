"""Bridges and inference nodes that are slow, reject, abort, never answer, or die and come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedModel, ScriptedWorld
from memory.word_hash_embedder import WordHashEmbedder
from rclpy.lifecycle import LifecycleNode
from reactree_interfaces.action import ExecuteTask
from ros_graph import Goal, Graph, HeldWorld, activate

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.llm.port import DecisionRequest, LanguageModel, PromptTooLong, Reply
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import EpisodicMemoryError
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.world.port import Observation, Score, WorldError

Result = ExecuteTask.Result


ACT = ["Act: open fridge 1", "Act: done"]
ENDS = {"world_gone": (Result.WORLD_UNAVAILABLE, "the world"), "model_gone": (Result.MODEL_GONE, "the language model")}


def assert_gone(goal: Goal, end: str, message: str) -> None:
    """The task ended because the bridge or its world is gone, or the inference node or its model, which is named."""
    code, who = ENDS[end]
    assert (goal.status, goal.result.success) == (GoalStatus.STATUS_ABORTED, False)
    assert (goal.result.end, goal.result.error_code) == (end, code)
    assert goal.result.message == f"{who} does not answer: {message}"


def assert_world_gone(goal: Goal, message: str) -> None:
    assert_gone(goal, "world_gone", message)


def assert_model_gone(goal: Goal, message: str) -> None:
    assert_gone(goal, "model_gone", message)


def let_tick(graph: Graph, planner: PlannerNode) -> None:
    """Let a planner look around, so that it sees what has changed in the graph."""
    ticks = planner._reporter.tree.count
    graph.until(lambda: planner._reporter.tree.count > ticks + 1)


@dataclass(frozen=True)
class Waiting:
    """A task that waits for a node, which is alone in a context of its own and can be killed."""

    goal: Goal
    planner: PlannerNode
    node: LifecycleNode
    model: ScriptedModel


def wait_for_decision(graph: Graph, *, server_timeout: float = 3600.0) -> Waiting:
    """Begin a task that waits for a decision of the inference node."""
    model = ScriptedModel({"root": ["Think: so", "Act: done"]}, settle=False)
    inference = graph.inference(model, alone=True)
    graph.bridge(ScriptedWorld())
    planner = graph.planner(server_timeout=server_timeout)
    goal = graph.task()
    graph.until(lambda: model.in_flight)
    return Waiting(goal, planner, inference, model)


def wait_for_skill(graph: Graph, **parameters: Any) -> Waiting:
    """Begin a task that waits for a skill of the bridge; the model has words for another one after it."""
    world, model = HeldWorld(), ScriptedModel({"root": ["Act: open fridge 1", *ACT]})
    graph.inference(model)
    bridge = graph.bridge(world, alone=True)
    planner = graph.planner(server_timeout=3600.0, **parameters)
    goal = graph.task()
    graph.until(lambda: world.held)
    return Waiting(goal, planner, bridge, model)


# ---------------------------------------------------------------------- episodic memory


def test_an_episodic_memory_that_cannot_be_read_is_named_and_the_planner_lives_on(graph: Graph, tmp_path: Path) -> None:
    class Torn(SqliteMemory):
        def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
            raise EpisodicMemoryError("memory.db: disk I/O error")

    planner = graph.household({"root": ACT * 2})
    planner._runner.memory = Torn(tmp_path / "memory.db", WordHashEmbedder())
    goal = graph.task()
    assert (goal.status, goal.result.end) == (GoalStatus.STATUS_ABORTED, "memory_gone")
    assert (goal.result.error_code, goal.result.success) == (Result.MEMORY_GONE, False)
    assert goal.result.message == "the memory does not answer: no examples: memory.db: disk I/O error"
    planner._runner.memory = None
    assert graph.task().result.success


# ---------------------------------------------------------------------- the bridge


def test_slow_nodes_are_waited_for_while_the_planner_ticks_on(graph: Graph) -> None:
    world, model = HeldWorld(), ScriptedModel({"root": [*ACT, "Act: done"]}, settle=False)
    planner = graph.household({}, model=model, world=world)
    goal = graph.task()
    graph.until(lambda: model.in_flight)
    let_tick(graph, planner)
    model.settle = True
    model.settle_all()
    graph.until(lambda: world.held)
    let_tick(graph, planner)
    world.finish()
    assert goal.result.success


def test_a_bridge_that_rejects_is_named_and_the_next_task_works(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1", *ACT]}, world=world)
    others = graph.skill("go to kitchen 1")
    graph.until(lambda: world.held)
    busy = "household_bridge rejected 'open fridge 1': it is busy or not active"
    assert_world_gone(graph.task(), f"'open fridge 1' failed: {busy}")
    world.finish()
    assert others.result.outcome == 0
    goal = graph.task()
    graph.until(lambda: world.held)
    world.finish()
    assert goal.result.steps == 1


def test_a_skill_that_never_ends_is_cancelled_after_the_planners_bound_and_its_end_is_waited_for(graph: Graph) -> None:
    class Restless(HeldWorld):
        resting: Pending[None] = Pending()

        def at_rest(self) -> Pending[None]:
            return self.resting

    world, model = Restless(), ScriptedModel({"root": [*ACT, "Act: done"]})
    planner = graph.household({}, model=model, world=world, skill_timeout=0.3, tells="none")
    goal = graph.task()
    graph.until(lambda: world.cancelled)
    let_tick(graph, planner)
    assert len(model.requests) == 1
    world.resting.succeed(None)
    assert goal.result.success
    assert world.cancelled == {"open fridge 1": 1}
    late = "The skill was not carried out: took longer than 0.3 s and was stopped."
    assert model.requests[1].turns[-1].text == late


def test_a_bridge_that_never_answers_a_goal_is_named_after_the_planners_bound(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Act: open fridge 1"]}, settle=False)
    world = ScriptedWorld()
    graph.inference(model)
    bridge = graph.bridge(world, alone=True)
    graph.planner(skill_timeout=0.3, decision_timeout=20.0, silence=1.5)
    goal = graph.task()
    graph.until(lambda: model.in_flight)
    graph.halt(bridge)
    model.settle_all()
    silent = "household_bridge/execute_skill has gone (silent for 1.5 s)"
    assert_world_gone(goal, f"'open fridge 1' failed: {silent}")
    graph.resume(bridge)
    graph.until(lambda: world.executed, "the bridge goes on")


def test_a_world_that_breaks_under_the_bridge_is_named(graph: Graph) -> None:
    class Broken(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            return Pending.failed(WorldError("the simulator is gone"))

    graph.household({"root": ACT}, world=Broken())
    assert_world_gone(graph.task(), "'open fridge 1' failed: household_bridge: the simulator is gone")


@pytest.mark.parametrize(("bound", "goal"), [("decision_timeout", {}), ("skill_timeout", {"task_id": 3})])
def test_a_bridge_that_never_answers_a_look_or_a_reset_is_named_after_the_planners_bound(
    graph: Graph, bound: str, goal: dict[str, int]
) -> None:
    graph.inference(ScriptedModel({}))
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    graph.planner(**{bound: 0.3})
    graph.halt(bridge)
    assert_world_gone(graph.task("" if goal else "root", **goal), "the bridge did not answer within 0.3 s")


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_score_that_never_comes_is_named_after_the_planners_bound_and_a_cancel_does_not_wait_for_it(
    graph: Graph, cancelled: bool
) -> None:
    class Undecided(ScriptedWorld):
        asked = False

        def score(self) -> Pending[Score | None]:
            self.asked = True
            return Pending()

    world, patience = Undecided(), 3600.0 if cancelled else 2.0
    graph.household({"root": ["Think: so", "Act: done"]}, world=world, decision_timeout=patience)
    goal = graph.task()
    graph.until(lambda: world.asked)
    if cancelled:
        goal.cancel()
        assert (goal.status, goal.result.error_code) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    else:
        assert_world_gone(goal, "no score: the bridge did not answer within 2 s")


def test_a_bridge_that_is_not_there_or_not_active_is_named_and_the_planner_goes_on_when_it_is(graph: Graph) -> None:
    world, model = HeldWorld(), ScriptedModel({"root": [ACT[0], *ACT]})
    graph.inference(model)
    graph.planner(server_timeout=0.3)
    assert_world_gone(graph.task(), "household_bridge/household is not there (for 0.3 s)")
    bridge = graph.bridge(world, active=False)
    bridge.trigger_configure()
    assert_world_gone(graph.task(), "household_bridge: the bridge is not active")
    bridge.trigger_activate()
    goal = graph.task()
    graph.until(lambda: world.held)
    bridge.trigger_deactivate()
    stopped = "household_bridge: 'open fridge 1' was stopped: the bridge was deactivated, or is ending"
    assert_world_gone(goal, f"'open fridge 1' failed: {stopped}")
    assert len(model.requests) == 1, "nothing is decided by it"
    world.held.clear()
    bridge.trigger_activate()
    goal = graph.task()
    graph.until(lambda: world.held)
    world.finish()
    assert goal.result.success


def test_a_bridge_that_dies_in_the_midst_of_a_skill_is_named_and_the_next_task_finds_its_successor(
    graph: Graph,
) -> None:
    class Other(ScriptedWorld):
        def available_skills(self) -> Pending[Sequence[str]]:
            return Pending.ready(("go to garden 1",))

    world = HeldWorld()
    model = ScriptedModel({"root": ["Act: go to kitchen 1", "Act: open fridge 1", "Act: go to garden 1", "Act: done"]})
    graph.inference(model)
    bridge = graph.bridge(world, alone=True)
    graph.planner(server_timeout=0.3)
    goal = graph.task()
    graph.until(lambda: world.held)
    world.finish()
    graph.until(lambda: world.held)
    graph.kill(bridge)
    assert_world_gone(goal, "'open fridge 1' failed: household_bridge/execute_skill has gone (for 0.3 s)")
    graph.bridge(Other())
    assert graph.task().result.success
    may_say = model.requests[2].may_say
    assert isinstance(may_say, DecisionGrammar)
    assert "go to garden 1" in may_say.skills, "what may be tried is asked of the new bridge"
    assert "open fridge 1" not in may_say.skills


@pytest.mark.parametrize("noticed", [True, False])
def test_a_bridge_that_is_restarted_in_the_midst_of_a_skill_has_forgotten_it(graph: Graph, noticed: bool) -> None:
    waits = wait_for_skill(graph)
    let_tick(graph, waits.planner)  # so that the result is asked for
    if noticed:
        graph.kill(waits.node)
        let_tick(graph, waits.planner)
        graph.bridge(ScriptedWorld())
    else:  # its successor is there before the middleware has noticed that it has gone
        graph.halt(waits.node)
        graph.bridge(ScriptedWorld())
        let_tick(graph, waits.planner)
        graph.kill(waits.node)
    lost = "household_bridge/execute_skill was restarted; what it was asked for is lost"
    assert_world_gone(waits.goal, f"'open fridge 1' failed: {lost}")
    assert graph.task().result.success


def test_a_twin_of_the_bridge_that_comes_and_goes_does_not_end_a_skill(graph: Graph) -> None:
    world, planner, goal = graph.held({"root": ACT}, server_timeout=3600.0)
    let_tick(graph, planner)  # so that the result is asked for
    graph.until(lambda: planner._lives.life("/household_bridge"))
    first = planner._lives.life("/household_bridge")
    other = graph.bridge(ScriptedWorld(), alone=True)
    graph.halt(other)
    let_tick(graph, planner)
    graph.kill(other)
    graph.until(lambda: planner._lives.life("/household_bridge") == first, "the twin is silent")
    let_tick(graph, planner)
    world.finish()
    assert goal.result.success
    assert world.cancelled == {}


# ---------------------------------------------------------------------- the inference node


def test_an_inference_node_that_is_not_there_or_fails_is_named_and_the_planner_goes_on_when_it_does_not(
    graph: Graph,
) -> None:
    model = ScriptedModel({"root": []})
    graph.bridge(ScriptedWorld())
    graph.planner(server_timeout=0.3)
    assert_model_gone(graph.task(), "no reply: inference/generate is not there (for 0.3 s)")
    graph.inference(model)
    assert_model_gone(graph.task(), "no reply: pop from empty list")
    model.script["root"] += ["Think: so", "Act: done"]
    assert graph.task().result.success


def test_a_decision_that_never_comes_is_aborted_after_the_planners_bound(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Think: so", "Act: done"]}, settle=False)
    graph.household({}, model=model, decision_timeout=1.0)
    result = graph.task().result
    assert (result.end, result.error_code) == ("too_slow", Result.TOO_SLOW)
    assert "no reply within" in result.message
    assert "raise decision_timeout" in result.message
    graph.until(lambda: model.cancelled)
    assert list(model.cancelled.values()) == [1]


@pytest.mark.parametrize("how", ["restarted", "silent"])
def test_a_decision_whose_inference_node_is_restarted_is_asked_again_and_counted_once(graph: Graph, how: str) -> None:
    waits = wait_for_decision(graph)
    let_tick(graph, waits.planner)
    if how == "restarted":
        graph.kill(waits.node)
        let_tick(graph, waits.planner)
    else:
        graph.halt(waits.node)  # killed: the middleware does not notice
    again = ScriptedModel({"root": ACT})
    graph.inference(again)
    assert waits.goal.result.success
    assert again.requests[0].prompt == waits.model.requests[0].prompt
    assert (waits.goal.result.decisions, len(again.requests)) == (1, 2)


def test_a_prompt_that_does_not_fit_is_a_result_and_no_error(graph: Graph) -> None:
    class Short(LanguageModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.failed(PromptTooLong(17, 64))

    graph.household({}, model=Short())
    goal = graph.task()
    assert (goal.status, goal.result.end) == (GoalStatus.STATUS_ABORTED, "context_full")
    assert goal.result.error_code == Result.NONE
    assert "17 tokens too long" in goal.result.message


@pytest.mark.parametrize("how", ["dies", "is deactivated"])
def test_an_inference_node_that_ends_in_the_midst_of_a_decision_is_named_and_the_next_task_finds_it_again(
    graph: Graph, how: str
) -> None:
    waits = wait_for_decision(graph, server_timeout=0.3)
    if how == "dies":
        graph.kill(waits.node)
        assert_model_gone(waits.goal, "no reply: inference/generate has gone (for 0.3 s)")
        graph.inference(ScriptedModel({"root": ["Think: so", "Act: done"]}))
    else:
        waits.node.trigger_deactivate()
        reason = "the inference node is not active"
        assert_model_gone(waits.goal, f"no reply: inference: {reason} (for 0.3 s)")
        waits.model.script["root"] = ["Think: so", "Act: done"]
        waits.model.settle = True
        waits.node.trigger_activate()
    assert graph.task().result.success


def test_a_decision_whose_inference_node_is_deactivated_is_asked_again_when_it_is_active(graph: Graph) -> None:
    waits = wait_for_decision(graph)
    waits.node.trigger_deactivate()
    waits.model.script["root"] = list(ACT)
    waits.model.settle = True
    waits.node.trigger_activate()
    assert waits.goal.result.success
    assert waits.goal.result.decisions == 1


# ---------------------------------------------------------------------- heartbeats


def test_the_death_of_a_bridge_is_heard_before_the_middleware_notices(graph: Graph) -> None:
    waits = wait_for_skill(graph, silence=0.6)
    let_tick(graph, waits.planner)  # so that the heartbeat was heard
    graph.halt(waits.node)
    assert_world_gone(waits.goal, "'open fridge 1' failed: household_bridge/execute_skill has gone (silent for 0.6 s)")
    assert graph.probe.count_services("/household_bridge/execute_skill/_action/send_goal") == 1


def test_a_decision_is_asked_of_a_successor_only_when_that_answers_and_not_of_the_dead_that_are_listed(
    graph: Graph,
) -> None:
    waits = wait_for_decision(graph)
    let_tick(graph, waits.planner)
    first = waits.planner._lives.life("/inference")
    graph.halt(waits.node)  # killed: the middleware does not notice
    again = ScriptedModel({"root": ACT})
    successor = graph.inference(again, active=False)
    graph.until(lambda: waits.planner._lives.life("/inference") not in (None, first), "the successor is heard")
    ticks = waits.planner._reporter.tree.count
    graph.until(lambda: waits.planner._reporter.tree.count > ticks + 100, "there is time to ask the wrong one")
    activate(successor)
    assert waits.goal.result.success
    assert (waits.goal.result.decisions, len(again.requests)) == (1, 2)


def test_a_task_asks_nothing_of_a_bridge_that_is_silent(graph: Graph) -> None:
    graph.inference(ScriptedModel({"root": ACT}))
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    planner = graph.planner(server_timeout=0.3)
    graph.until(lambda: planner._lives.life("/household_bridge"))
    graph.halt(bridge)
    graph.until(lambda: not planner._lives.life("/household_bridge"), "it is known to be silent")
    assert_world_gone(graph.task(), "household_bridge/household has gone (for 0.3 s)")


# ---------------------------------------------------------------------- a bridge that is restarted between two skills


def hears_of(graph: Graph, planner: PlannerNode, bridge: Any) -> None:
    life = bridge.heartbeat._said.life
    graph.until(lambda: planner._lives.life("/household_bridge") == life, "the planner hears of the other")


class Ponders(ScriptedModel):
    """A model whose second decision comes when it is told to."""

    ponders = False

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
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
    hears_of(graph, planner, again)
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
    hears_of(graph, planner, again)
    assert graph.task().result.success
