"""The ROS adapters of the two ports: what is cancelled before it was accepted, sent or answered."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from doubles import ScriptedModel, ScriptedWorld
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import SkillEnded
from reactree_interfaces.srv import DescribeHousehold
from ros_graph import Graph, HeldWorld

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import Spot
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, ServerUnavailable
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.planner.adapters import RosLanguageModel, RosWorld
from reactree_ros.plugins import Registry
from reactree_ros.world.port import Observation, WorldError

T = TypeVar("T")
REQUEST = DecisionRequest((Told("Your task is to: root"),), DecisionGrammar((), ()), id="0.1")


class Restless(HeldWorld):
    """Is at rest when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.resting: Pending[None] = Pending()

    def at_rest(self) -> Pending[None]:
        return self.resting


def calls(graph: Graph, patience: float) -> Calls:
    made = Calls(graph.probe, patience=patience)
    graph.probe.create_timer(0.02, made.watch)
    return made


def ros_world(graph: Graph, *, patience: float = 3600.0) -> RosWorld:
    return RosWorld(graph.probe, "household_bridge", calls(graph, patience), Heartbeat(graph.probe))


def ros_model(graph: Graph, *, patience: float = 3600.0) -> RosLanguageModel:
    return RosLanguageModel(graph.probe, "inference", calls(graph, patience))


def settled(graph: Graph, pending: Pending[T]) -> T:
    graph.until(pending.done)
    return pending.take()


@pytest.mark.parametrize("given_up", [False, True])
def test_a_skill_cancelled_or_given_up_before_its_goal_was_accepted_is_cancelled_on_acceptance(
    graph: Graph, given_up: bool
) -> None:
    world = HeldWorld()
    bridge = graph.bridge(world, alone=True)
    adapter = ros_world(graph)
    graph.until(lambda: adapter._skills.server_is_ready() and adapter._calls.introduce(adapter._full_name))
    graph.halt(bridge)
    pending = adapter.execute("open fridge 1")
    assert pending.fail(TimeoutError()) if given_up else pending.cancel()
    graph.resume(bridge)
    graph.until(lambda: world.cancelled)
    graph.until(bridge.stopped)
    assert (world.executed, world.cancelled) == (["open fridge 1"], {"open fridge 1": 1})
    after = adapter.execute("go to kitchen 1")
    graph.until(lambda: world.held and world.held[-1][1] == "go to kitchen 1")
    world.finish()
    assert settled(graph, after).text == "You go to kitchen 1."


def test_what_is_cancelled_before_its_server_is_there_is_never_sent(graph: Graph) -> None:
    adapter, speaker = ros_world(graph), ros_model(graph)
    assert adapter.at_rest().done()
    assert adapter.execute("open fridge 1").cancel()
    assert settled(graph, adapter.at_rest()) is None
    assert speaker.decide(REQUEST).cancel()
    world, model = ScriptedWorld(), ScriptedModel({"root": ["Act: done"]})
    graph.bridge(world)
    graph.inference(model)
    settled(graph, adapter.execute("go to kitchen 1"))
    assert world.executed == ["go to kitchen 1"]
    assert (settled(graph, speaker.decide(REQUEST)).text, len(model.requests)) == ("Act: done", 1)


def test_a_late_result_after_a_cancel_does_no_harm(graph: Graph) -> None:
    world = HeldWorld()
    bridge = graph.bridge(world, alone=True)
    adapter = ros_world(graph)
    pending = adapter.execute("open fridge 1")
    graph.until(lambda: world.held)
    world.finish()
    graph.run_alone(bridge, until=bridge.stopped)
    pending.cancel()
    after = adapter.execute("go to kitchen 1")
    graph.until(lambda: world.held)
    world.finish()
    assert settled(graph, after).text == "You go to kitchen 1."
    assert pending.cancelled()


def test_an_end_is_heard_without_being_asked_for_and_asked_for_if_it_was_not_heard(graph: Graph) -> None:
    bridge = graph.bridge(ScriptedWorld())
    adapter, asked = ros_world(graph), []
    ask = adapter._skills._get_result.call_async
    adapter._skills._get_result.call_async = lambda request: asked.append(request) or ask(request)
    for skill in ("go to kitchen 1", "open fridge 1"):
        assert settled(graph, adapter.execute(skill)).text == f"You {skill}."
    assert not asked
    bridge.destroy_publisher(bridge._skills._ended)
    bridge._skills._ended = graph.probe.create_publisher(SkillEnded, "nobody_listens", 1)
    assert settled(graph, adapter.execute("go to kitchen 1")).text == "You go to kitchen 1."
    assert asked
    assert adapter.at_rest().done()


def test_every_call_of_a_server_that_is_not_there_fails_within_its_bound(graph: Graph) -> None:
    adapter = ros_world(graph, patience=0.2)
    calls = {
        "household": adapter.learn(),
        "observe": adapter.observe(),
        "available_skills": adapter.available_skills(),
        "evaluate": adapter.score(),
        "reset": adapter.reset(),
        "execute_skill": adapter.execute("open fridge 1"),
    }
    for name, pending in calls.items():
        with pytest.raises(WorldError, match=rf"household_bridge/{name} is not there \(for 0.2 s\)"):
            settled(graph, pending)
    with pytest.raises(ServerUnavailable, match=r"inference/generate is not there \(for 0.2 s\)"):
        settled(graph, ros_model(graph, patience=0.2).decide(REQUEST))


@pytest.mark.parametrize("gone", [False, True])
def test_nothing_is_at_rest_before_the_bridge_has_ended_what_was_cancelled_or_has_gone(
    graph: Graph, gone: bool
) -> None:
    world = Restless()
    bridge = graph.bridge(world, alone=True)
    adapter = ros_world(graph, patience=0.2 if gone else 3600.0)
    pending = adapter.execute("open fridge 1")
    graph.until(lambda: world.held)
    pending.cancel()
    rest = adapter.at_rest()
    graph.until(lambda: world.cancelled)
    assert not rest.done()
    if gone:
        graph.kill(bridge)
        with pytest.raises(WorldError, match="execute_skill has gone"):
            settled(graph, rest)
    else:
        world.resting.succeed(None)
        assert settled(graph, rest) is None
        assert adapter.at_rest().done()


def test_an_end_that_nobody_can_tell_any_more_is_an_error_of_the_world(graph: Graph) -> None:
    def accept(request: Any, response: Any) -> Any:
        response.accepted = True
        return response

    protocol, name = ExecuteSkill.Impl, "household_bridge/execute_skill/_action"
    graph.probe.create_service(protocol.SendGoalService, f"{name}/send_goal", accept)
    graph.probe.create_service(protocol.CancelGoalService, f"{name}/cancel_goal", lambda request, response: response)
    graph.probe.create_service(protocol.GetResultService, f"{name}/get_result", lambda request, response: response)
    with pytest.raises(WorldError, match="was restarted; what it was asked for is lost"):
        settled(graph, ros_world(graph).execute("go to kitchen 1"))


def test_a_generation_cancelled_before_the_node_has_seen_it_is_aborted(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Act: done"]}, settle=False)
    inference = graph.inference(model, alone=True)
    adapter = ros_model(graph)
    graph.until(adapter._generate.service_is_ready)
    graph.until(lambda: adapter._abort.service_is_ready() and adapter._calls.introduce(adapter._full_name))
    graph.halt(inference)
    assert adapter.decide(REQUEST).cancel()
    graph.resume(inference)
    graph.until(lambda: inference._count == 1, "it has ended")
    assert list(model.cancelled.values()) == [1] * len(model.requests)  # none where the abort overtook it


def test_ids_of_two_lives_of_a_planner_differ(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Act: done"] * 2})
    graph.inference(model)
    for adapter in (ros_model(graph), ros_model(graph)):
        graph.until(adapter.decide(REQUEST).done)
    assert len({request.id for request in model.requests}) == 2


# ---------------------------------------------------------------------- the household


SPOTS = (Spot("", 1.5, -2.25, 0.5), Spot("fridge 1", 3.0, 4.0, outline=((0.1, 0.2), (0.3, 0.4), (0.5, 0.6))))


def test_an_observation_travels_with_where_things_are(graph: Graph) -> None:
    seen = Observation("A kitchen.", rooms=("kitchen 1",), spots=SPOTS)

    class Map(ScriptedWorld):
        def observe(self) -> Pending[Observation]:
            return Pending.ready(seen)

        def execute(self, skill: str) -> Pending[Observation]:
            return Pending.ready(seen)

    graph.bridge(Map())
    adapter = ros_world(graph)
    assert settled(graph, adapter.observe()) == seen
    assert settled(graph, adapter.execute("open fridge 1")) == seen


def test_a_household_travels_whole(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "packages", frozenset({"garden"}))  # as where a plug-in brings its prompts
    garden = Household(
        name="garden",
        actions=("dig", "plant"),
        control_flows={"fallback": 'try them ("fallback")', "sequence": "do them"},
        naming="<{word}_{instance}>",
        rules="dig: needs a spade",
        free_skills=True,
        start_line="You are in the garden",
        max_decisions=7,
        max_steps=5,
        prompts="garden:prompts",
    )
    world = ScriptedWorld()
    world.household, world.recallable, world.words = garden, ("spade",), ("spade", "shed")  # type: ignore[misc]
    graph.bridge(world)
    adapter = ros_world(graph)
    assert settled(graph, adapter.learn()) == adapter.household == garden
    assert list(adapter.household.control_flows) == ["fallback", "sequence"]
    assert (adapter.recallable, adapter.words) == (("spade",), ("spade", "shed"))


def test_a_household_that_makes_no_sense_is_named(graph: Graph) -> None:
    def answer(request: DescribeHousehold.Request, response: DescribeHousehold.Response) -> DescribeHousehold.Response:
        response.control_flows = ["sequence", "loop"]
        return response

    graph.probe.create_service(DescribeHousehold, "household_bridge/household", answer)
    with pytest.raises(WorldError, match="household_bridge: control_flows: control flow 'loop' is unknown"):
        settled(graph, ros_world(graph).learn())


def test_the_seed_of_a_reset_reaches_the_world_and_the_first_observation_comes_back(graph: Graph) -> None:
    class Seeded(ScriptedWorld):
        def __init__(self) -> None:
            super().__init__()
            self.seeds: list[int | None] = []

        def reset(self, seed: int | None = None) -> Pending[Observation]:
            self.seeds.append(seed)
            return Pending.ready(Observation("You are where it starts."))

    world = Seeded()
    graph.bridge(world)
    adapter = ros_world(graph)
    for seed in (None, 0, 7):
        reset = adapter.reset(seed)
        graph.until(reset.done)
        assert reset.take().text == "You are where it starts."
    assert world.seeds == [None, 0, 7]
