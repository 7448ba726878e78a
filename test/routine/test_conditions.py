"""Routines that are more than a list: they wait for conditions, and do the same again and again."""

from __future__ import annotations

import random
from typing import Any

import pytest
from doubles import AgentNodes, ScriptedModel, ScriptedWorld
from recorded_runs import Kept, assert_replays

from reactree_ros.agent.control_flow import flow_named, flow_of
from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import Place
from reactree_ros.agent.skill import Skill, wait_skill
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.record.writer import Recorder
from reactree_ros.routine.fitting import Fit
from reactree_ros.routine.model import Routine
from reactree_ros.tree.agent_node import Abilities
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.world.port import Observation, Outcome

OUT = "the printer is out of paper"
GOAL = "Every time the printer is out of paper, refill it"
REFILL = Skill(name="refill", wording="refill {what}", parameters={"what": Place()})
WAIT, FILL = {"kind": "wait for", "condition": OUT}, {"kind": "skill", "wording": "refill printer"}
LOOK: dict[str, Any] = {**WAIT, "seconds": 0}
WAITED = [f"wait until {OUT} for up to 600 s"]


def again(does: str, times: int, child: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "decorator", "does": does, "times": times, "child": child}


REFILLS = again("repeat", 0, {"kind": "sequence", "children": [WAIT, FILL]})


class Office(ScriptedWorld):
    """A printer that runs out of paper by and by, in a time of its own that passes while somebody waits."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.household = Household(name="office", skills=(wait_skill([OUT]), REFILL))
        self.skills = ("refill printer",)
        self.now = 0.0
        self.refilled = 0
        self.ran_out = 0
        self._random = random.Random(seed)
        self._out_at = self._random.uniform(1, 400)

    @property
    def is_out(self) -> bool:
        return self.now >= self._out_at

    def execute(self, skill: str) -> Pending[Observation]:
        call = self.household.call(skill)
        self.executed.append(skill)
        if call.skill is REFILL:
            if not self.is_out:
                return Pending.ready(Observation("There is paper in it.", Outcome.PRECONDITION))
            self.refilled, self.ran_out = self.refilled + 1, self.ran_out + 1
            self.now += 20
            self._out_at = self.now + self._random.uniform(1, 1500)
            return Pending.ready(Observation("You refill it."))
        until = self.now + float(call.values["seconds"])
        self.now = max(self.now, min(until, self._out_at))
        if self.is_out:
            return Pending.ready(Observation("It is out of paper."))
        return Pending.ready(Observation("There is paper in it.", Outcome.TIMEOUT))


def routine_of(body: dict[str, Any]) -> Routine:
    return Routine.from_data({"name": "refill", "goal": GOAL, "body": body})


def episode_of(body: dict[str, Any], world: ScriptedWorld, **options: Any) -> tuple[Episode, Kept]:
    found = (Fit(routine_of(body), {}),)
    kept = Kept()
    episode = Episode(
        GOAL,
        world=world,
        model=ScriptedModel({GOAL: ["Act: failure"]}),
        planner=AgentNodes(Abilities(())),
        options=TreeOptions(routines=Routines.ON, **options),
        routines=lambda _, tells: (lambda goal: Pending.ready(found if goal == GOAL else ()), tells),
        record=Recorder(kept.write),
    )
    return episode, kept


@pytest.mark.parametrize("seed", range(3))
def test_every_time_the_printer_is_out_of_paper_it_is_refilled_for_an_hour_without_a_request(seed: int) -> None:
    world = Office(seed)
    episode, _ = episode_of(REFILLS, world, max_steps=10_000)
    while world.now < 3600:
        episode.tick()
        assert not episode.finished
    episode.cancel()
    result = episode.run()
    assert result.end == "interrupted"
    assert world.refilled >= 3
    assert not world.is_out or world.executed[-1].startswith("wait")
    assert episode.context.replies == []


@pytest.mark.parametrize(
    ("body", "end", "did"),
    [
        ({"kind": "while", "condition": OUT, "children": [FILL]}, "done", []),
        ({"kind": "repeat until", "condition": OUT, "children": [WAIT]}, "done", WAITED),
        (LOOK, "failure", []),
        ({"kind": "decorator", "does": "invert", "child": LOOK}, "done", []),
        ({"kind": "fallback", "children": [LOOK, again("retry", 0, FILL)]}, "out_of_steps", ["refill printer"] * 11),
        (again("retry", 3, FILL), "failure", ["refill printer"] * 3),
        ({"kind": "decorator", "does": "succeed", "child": FILL}, "done", ["refill printer"]),
        ({"kind": "within", "seconds": 30, "children": [again("repeat", 2, WAIT)]}, "done", WAITED * 2),
    ],
    ids=lambda one: one.get("kind") + "-" + one.get("does", "") if isinstance(one, dict) else "",
)
def test_conditions_and_repetitions_do_what_they_say(body: dict[str, Any], end: str, did: list[str]) -> None:
    world = Office()
    episode, kept = episode_of(body, world, max_steps=12)
    result = episode.run()
    assert result.end == end
    assert [skill for skill in world.executed if not skill.endswith("up to 0 s")] == did
    assert_replays(kept, AgentNodes(Abilities(())))


@pytest.mark.parametrize(("seconds", "end", "tries"), [(None, "failure", 12), (0, "out_of_steps", 50)])
def test_a_retry_that_is_in_vain_is_left_to_the_model(seconds: int | None, end: str, tries: int) -> None:
    world = Office()
    episode, kept = episode_of(again("retry", 0, FILL if seconds is None else LOOK), world, max_steps=50)
    result = episode.run()
    assert (result.end, len(world.executed)) == (end, tries)
    assert ("There is paper in it" in str(kept.events_of("turn"))) is (seconds is None)
    assert_replays(kept, AgentNodes(Abilities(())))


def test_a_condition_that_the_world_does_not_know_leaves_the_goal_to_the_model() -> None:
    body = {"kind": "repeat until", "condition": "it rains", "children": [{"kind": "goal", "text": "wait"}]}
    episode, kept = episode_of(body, Office())
    assert episode.run().end == "failure"
    assert len(kept.events_of("request")) == 1
    ((_, reason),) = episode.learning.used
    assert "what may: the printer is out of paper" in reason


def test_while_is_a_control_flow_of_an_expansion_too() -> None:
    assert str(flow_of(f"while {OUT}")) == f"while {OUT}"
    assert flow_named("while").objection(flow_of(f"while {OUT}"), (wait_skill([OUT]),)) == ""  # type: ignore[arg-type]
    assert "what may" in flow_of("while it rains").objection((wait_skill([OUT]),))
