"""Repeat until a condition of the world holds, and subgoals in a limited time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from doubles import AgentNodes, ScriptedModel, ScriptedWorld, expand
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_ros.agent.control_flow import flow_named, flow_of
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import read
from reactree_ros.agent.skill import wait_skill
from reactree_ros.background.pending import Pending
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome

FLOWS = tuple(map(flow_named, ("sequence", "repeat_until", "within")))
BUILDER = AgentNodes(Abilities(FLOWS))
REPEAT = "repeat until the tray is full"
LOOK = "wait until the tray is full for up to 0 s"
OPTIONS = TreeOptions(max_decisions=60, max_steps=8, stuck_after=0)
FILL = ["Act: open fridge 1", "Act: done"]


class Tray(ScriptedWorld):
    """A world that knows a condition, which holds after so many looks; other skills go well."""

    def __init__(self, looks: int, outcome: Outcome = Outcome.TIMEOUT) -> None:
        super().__init__()
        self.household = replace(self.household, skills=(wait_skill(["the tray is full"]),))
        self._looks, self._outcome = looks, outcome

    def execute(self, skill: str) -> Pending[Observation]:
        if not skill.startswith("wait until"):
            return super().execute(skill)
        self.executed.append(skill)
        self._looks -= 1
        if self._looks > 0:
            return Pending.of(Observation("It is not full.", self._outcome))
        return Pending.of(Observation("It is full."))


def run(world: ScriptedWorld, script: dict[str, list[str]]) -> tuple[str, Kept]:
    """Carry a script out; returns how it ended, and its record, which is played again identically."""
    with world:
        episode, kept = recorded_episode(script, builder=BUILDER, world=world, options=OPTIONS)
        end = episode.run().end
    assert_replays(kept, BUILDER)
    return end, kept


@pytest.mark.parametrize("flow", [REPEAT, "within 20 s"])
def test_it_is_read_with_what_it_takes(flow: str) -> None:
    (said,) = read(expand(flow, "a", "b"), DecisionGrammar(["done"], FLOWS))
    assert said.decision is not None
    assert said.decision.control_flow == flow_of(flow)  # type: ignore[attr-defined]


@pytest.mark.parametrize("looks", [1, 3])
def test_subgoals_come_again_until_the_condition_holds(looks: int) -> None:
    world = Tray(looks)
    end, kept = run(world, {"root": [expand(REPEAT, "fill")], "fill": FILL * 9})
    assert (end, world.executed) == ("done", ["open fridge 1", LOOK] * looks)
    assert len(kept.events_of("started")) == 1 + 2 * looks


def test_the_steps_of_a_run_bound_it() -> None:
    world = Tray(99)
    end, _ = run(world, {"root": [expand(REPEAT, "fill")], "fill": FILL * 9})
    assert (end, len(world.executed)) == ("out_of_steps", 8)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED_BY_POLICY, Outcome.EXECUTION])
def test_where_nobody_can_look_it_fails(outcome: Outcome) -> None:
    world = Tray(99, outcome)
    end, _ = run(world, {"root": [expand(REPEAT, "fill")], "fill": ["Act: done"] * 9})
    assert (end, world.executed) == ("failure", [LOOK])


def test_a_condition_that_the_world_does_not_know_is_refused_with_those_that_there_are() -> None:
    _, kept = run(Tray(1), {"root": [expand("repeat until it rains", "fill"), "Act: done"]})
    (refused,) = kept.events_of("refused")
    assert "what may: the tray is full" in refused["reason"]


def test_when_the_time_is_over_what_is_under_way_is_cancelled() -> None:
    world, now = ScriptedWorld(settle=False), [0.0]
    script = {"root": [expand("within 20 s", "fill")], "fill": FILL}
    with world:
        episode, kept = recorded_episode(script, builder=BUILDER, world=world, options=OPTIONS, clock=lambda: now[0])
        while not world.executed:
            world.settle_all()
            episode.tick()
        now[0] = 19.0
        episode.tick()
        assert not world.cancelled
        now[0] = 21.0
        episode.tick()
        assert world.cancelled["open fridge 1"] == 1
        while not episode.finished:
            episode.tick()
        episode.conclude(None, "")
    assert [event["of"] for event in kept.events_of("failed")] == ["within"]
    assert_replays(kept, BUILDER)


@pytest.mark.parametrize("options", [TreeOptions(stuck_after=0), TreeOptions(stuck_after=0, thoughts_in_a_row=1)])
@pytest.mark.parametrize(
    "round_",
    [
        ["Act: open fridge 1", "Act: done"],
        ["Think: it is there", "Act: done"],
        ["Act: fly", "Act: go to kitchen 1", "Act: done"],
    ],
)
def test_each_round_of_a_repetition_is_asked_as_the_first_one(options: TreeOptions, round_: list[str]) -> None:
    model = ScriptedModel({"root": [expand(REPEAT, "fill")], "fill": round_ * 9})
    with Tray(3) as world:
        episode, _ = recorded_episode({}, builder=BUILDER, world=world, options=options, model=model)
        assert episode.run().end == "done"
    rounds: dict[str, list[Any]] = {}
    for request in model.requests[1:]:
        asked = request.prompt, request.may_say
        rounds.setdefault(request.id.partition(".")[0], []).append(asked)
    first, *others = rounds.values()
    assert len(others) == 2
    assert others == [first, first]


def test_a_node_does_not_begin_again_once_a_limit_is_reached() -> None:
    looks = list[str]()

    class Watched(Tray):
        def observe(self) -> Any:
            looks.append("observe")
            return super().observe()

    options = TreeOptions(stuck_after=0, max_steps=2)
    script = {"root": [expand(REPEAT, "fill")], "fill": ["Act: open fridge 1", "Act: done"] * 9}
    with Watched(9) as world:
        episode, kept = recorded_episode(script, builder=BUILDER, world=world, options=options)
        assert episode.run().end == "out_of_steps"
    fill = next(node for node in episode.root.iterate() if isinstance(node, AgentNode) and node.subgoal == "fill")
    assert fill.feedback_message == "not begun: all of the 2 steps are used up"
    assert (len(kept.events_of("started")), len(looks)) == (
        3,
        2,
    )  # the root, one round and its look; no further node begins
