"""A node whose expansion failed decides again: what it is told, what is refused, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import py_trees
import pytest
from doubles import EVERYTHING, START, Crew, Heard, ScriptedModel, ScriptedWorld, expand, goal_of, scripted_episode
from py_trees.common import Status
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.turns import About, Said, Saw, ToldFailed, Tried, Turn, told_failed
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.going_on import decision_of, go_on
from reactree_ros.llm.port import DecisionRequest, LanguageModelError, Reply
from reactree_ros.memory.experience import End
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.reason import why_gave_up
from reactree_ros.world.port import Observation

FAILS = ["Think: it is not here", "Act: failure"]


def run_of(script: Mapping[str, Sequence[str]], times: int = 1, **given: Any) -> Episode:
    return scripted_episode(script, abilities=replace(EVERYTHING, re_expand=times), **given)


def root_of(run: Episode) -> GoalNode:
    assert isinstance(run.root, GoalNode)
    return run.root


def told_in(turns: Sequence[Turn]) -> list[ToldFailed]:
    return [turn for turn in turns if isinstance(turn, ToldFailed)]


def composites(run: Episode) -> list[tuple[str, Status]]:
    return [
        (child.name, child.status) for child in run.root.children if isinstance(child, py_trees.composites.Composite)
    ]


# ---------------------------------------------------------------------- what it is told


def test_it_is_told_what_failed_and_why_looks_around_and_goes_on_in_the_same_node() -> None:
    run = run_of(
        {"root": [expand("sequence", "a", "b", "c"), "Act: open fridge 1", "Act: done"], "a": ["Act: done"], "b": FAILS}
    )
    result = run.run()
    assert (result.status, result.end, result.agent_nodes, result.decisions) == ("success", "done", 3, 3)
    assert root_of(run).text == (
        f"Your task is to: root\n{START}\n{expand('sequence', 'a', 'b', 'c')}\n"
        "Your expansion failed. Failed: b (it is not here). Succeeded: a. Not begun: c. Go on otherwise.\n"
        f"{START}\nAct: open fridge 1\nYou open fridge 1.\nAct: done"
    )
    (told,) = told_in(root_of(run).turns)
    assert told.about is About.FAILED
    assert told.tried == (Tried("a", True), Tried("b", False, "it is not here"), Tried("c", None))


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (["Act: failure"], "gave up without a reason"),
        (["Think: one", "Think: two", "Act: failure"], "two"),
        (["Think: one", "Act: open fridge 1", "Act: failure"], "gave up without a reason; its last thought: one"),
        (["Think: one", "Act: pick up apple 1", "Act: failure"], "You cannot pick up apple 1."),
        (["Act: open fridge 1", "Think: a thought", "Act: failure"], "a thought"),
        (["Think: " + "word " * 99, "Act: failure"], ("word " * 99)[:199] + "…"),
        ([expand("sequence", "b", "c"), "Act: failure"], "c is lost"),  # that one decides again, too
        ([expand("sequence", "b", "c"), expand("fallback", "c")], "c is lost"),
    ],
)
def test_the_reason_is_what_the_node_that_gave_up_thought_or_met_last(says: list[str], reason: str) -> None:
    gives_up = ["Think: c is lost", "Act: failure"]
    script = {"root": [expand("parallel", "a"), "Act: failure"], "a": says, "b": ["Act: done"], "c": gives_up * 2}
    run = run_of(script, world=ScriptedWorld(refused=["pick up apple 1"]))
    run.run()
    (told,) = told_in(root_of(run).turns)
    assert told.tried == (Tried("a", False, reason),)
    node = next(one for one in run.context.nodes if one.subgoal == "a")
    assert node.feedback_message == reason, "which records and pages show"
    assert "\n" not in told.text


def test_an_expansion_that_was_broken_off_gives_no_reason() -> None:
    broken_off = told_failed([Tried("a", True), Tried("b", None)])  # as by a limit of time
    assert why_gave_up([broken_off, Said("Act: failure", Act("failure"))]) == "gave up without a reason"


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (("sequence", "find milk", "bring milk"), ("sequence", "find milk", "bring milk")),
        (("sequence", "find milk", "bring milk"), ("sequence", "Find  MILK.", "and bring milk")),
        (("fallback", "find milk", "bring milk"), ("fallback", "bring milk", "find milk")),
        (("parallel", "find milk", "bring milk"), ("parallel", "Bring milk.", "find milk")),
        (("sequence", "find milk"), ("parallel", "find milk")),
    ],
)
def test_the_same_expansion_again_is_refused_in_whatever_words(first: tuple[str, ...], again: tuple[str, ...]) -> None:
    heard = Heard()
    script = {"root": [expand(*first), expand(*again), "Act: failure"], "find milk": FAILS, "bring milk": FAILS}
    run = run_of(script, times=2, listener=heard)
    result = run.run()
    reason = "You have expanded like this before, and it failed; do something else."
    assert heard.heard[-2] == f"{expand(*again)} ✗ {reason}"
    assert len(composites(run)) == 1
    thoughts = result.agent_nodes - 1
    assert result.decisions == 2 + thoughts, "it is counted as any refusal is"


@pytest.mark.parametrize(
    "again",
    [
        ("sequence", "bring milk", "find milk"),
        ("parallel", "find milk", "bring milk"),
        ("sequence", "find milk"),
        ("sequence", "find milk", "bring milk", "bring milk"),
    ],
)
def test_another_expansion_is_carried_out(again: tuple[str, ...]) -> None:
    heard = Heard()
    script = {
        "root": [expand("sequence", "find milk", "bring milk"), expand(*again), "Act: failure"],
        "find milk": [*FAILS, "Act: done"],
        "bring milk": ["Act: done"] * 2,
    }
    run = run_of(script, times=2, listener=heard)
    result = run.run()
    assert [status for _, status in composites(run)] == [Status.FAILURE, Status.SUCCESS]
    assert (result.status, root_of(run).end) == ("success", End.EXPAND)
    assert not any("✗" in one for one in heard.heard)


# ---------------------------------------------------------------------- when it is over


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_it_decides_again_so_often_and_then_its_last_expansion_is_its_end(times: int) -> None:
    expansions = [expand("sequence", name) for name in "abcd"]
    run = run_of({"root": expansions, "a": FAILS, "b": FAILS, "c": FAILS, "d": FAILS}, times=times)
    result = run.run()
    root = root_of(run)
    assert (result.end, root.end, len(composites(run))) == ("failure", End.EXPAND, times + 1)
    assert len(told_in(root.turns)) == times
    assert root.text.endswith(f"{expansions[times]}\n")
    assert root.failure is not None
    assert root.failure.message == root.feedback_message == "it is not here"


@pytest.mark.parametrize("decisions", [2, 3])
def test_where_a_limit_is_reached_it_does_not_decide_again(decisions: int) -> None:
    script = {"root": [expand("sequence", "a"), "Act: done"], "a": ["Think: more", *FAILS]}
    run = run_of(script, options=TreeOptions(max_decisions=decisions))
    result = run.run()
    assert (result.end, result.decisions) == ("out_of_decisions", decisions)
    assert told_in(root_of(run).turns) == []


class Broken(ScriptedModel):
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if "Your primary goal" in request.prompt:
            return Pending.failed(LanguageModelError("it is gone"))
        return super().decide(request)


def test_what_ends_the_tree_is_not_decided_about() -> None:
    run = run_of({}, model=Broken({"root": [expand("sequence", "a"), "Act: done"]}))
    result = run.run()
    assert (result.end, told_in(root_of(run).turns)) == ("model_gone", [])


class Dark(ScriptedWorld):
    """A world that cannot be looked at after so many looks."""

    looks = 0

    def observe(self) -> Pending[Observation]:
        self.looks += 1
        if self.looks > 2:
            raise RuntimeError("the lights are out")
        return super().observe()


def test_a_look_around_that_fails_ends_it_as_any_does() -> None:
    run = run_of({"root": [expand("sequence", "a"), "Act: done"], "a": FAILS}, world=Dark())
    assert run.run().end == "bug"
    assert run.root.failure is not None
    assert "the lights are out" in run.root.failure.message


# ---------------------------------------------------------------------- held, interrupted, several robots


class Steady(ScriptedModel):
    """Says in each node what its script has at that place, also where it is asked for that once more."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        before = sum(isinstance(turn, Said) for turn in request.turns)
        return Pending.ready(Reply(self.script[goal_of(request.prompt)][before]))


@pytest.mark.parametrize("ticks", range(1, 14))
def test_wherever_it_is_paused_it_goes_on(ticks: int) -> None:
    script = {"root": [expand("sequence", "a"), "Act: open fridge 1", "Act: done"], "a": FAILS}
    episode, kept = recorded_episode({}, name="reactree:re_expand=1", model=Steady(script))
    for _ in range(ticks):
        if not episode.finished:
            episode.tick()
    episode.pause("a person said so")
    for _ in range(3):
        if not episode.finished:
            episode.tick()
    episode.resume()
    assert episode.run().end == "done"
    turns = root_of(episode).turns
    at = next(at for at, turn in enumerate(turns) if isinstance(turn, ToldFailed))
    assert isinstance(turns[at + 1], Saw)
    assert sum(isinstance(turn, Said) for turn in turns) == 3
    assert_replays(kept)


@pytest.mark.parametrize("ticks", range(1, 16))
def test_wherever_it_is_interrupted_all_of_it_stops_and_its_record_replays(ticks: int) -> None:
    script = {"root": [expand("sequence", "a"), expand("sequence", "b")], "a": FAILS, "b": ["Think: x"] * 99}
    episode, kept = recorded_episode(script, name="reactree:re_expand=1")
    for _ in range(ticks):
        episode.tick()
    episode.interrupt()
    assert all(behaviour.status == Status.INVALID for behaviour in episode.root.iterate())
    assert episode.conclude().status == "interrupted"
    assert_replays(kept)


def test_several_robots_share_out_again_what_failed() -> None:
    act = "Act: open fridge 1"
    script = {
        "root": [expand("parallel", "a", "b"), expand("parallel", "c", "d"), "Act: done"],
        "a": [act, "Act: done"],
        "b": [act, *FAILS],
        "c": [act, "Act: failure"],
        "d": [act, act, "Act: failure"],
    }
    one, two = ScriptedWorld(), ScriptedWorld()
    world = Crew(robot_1=one, robot_2=two)
    episode, kept = recorded_episode(script, name="reactree:re_expand=2", world=world)
    result = episode.run()
    assert (result.end, result.steps, result.makespan) == ("done", 5, 3)
    assert (len(one.executed), len(two.executed)) == (2, 3)
    succeeded = [[one.succeeded for one in told.tried] for told in told_in(root_of(episode).turns)]
    assert succeeded == [[True, False], [False, False]]
    assert all(robot.post is None or robot.post is episode.context.team.post for robot in episode.context.team.robots)
    assert_replays(kept)


# ---------------------------------------------------------------------- records


def recorded() -> tuple[Episode, Kept]:
    script = {
        "root": [expand("sequence", "a", "b"), "Think: otherwise", expand("parallel", "a", "c"), "Act: done"],
        "a": ["Act: open fridge 1", "Act: done", "Act: failure"],
        "b": FAILS,
        "c": ["Act: recall location of apple", "Act: failure"],
    }
    episode, kept = recorded_episode(script, name="reactree_wm:re_expand=2")
    assert episode.run().end == "done"
    return episode, kept


@pytest.mark.parametrize("number", range(1, 7))
def test_a_run_goes_on_from_each_of_its_decisions(number: int) -> None:
    episode, kept = recorded()
    said = [reply.text for _, _, reply in episode.context.replies]
    before = kept.record
    until = decision_of(before, number)
    replied = sum(event["e"] == "reply" for event in before.events[:until])
    again = Kept()

    class Rest(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.ready(Reply(self.script["all"].pop(0)))

    model = Rest({"all": said[replied:]})
    episode = go_on(before, until, world=ScriptedWorld(), model=model, write=again.write)
    assert episode.run().end == "done"
    assert [event["e"] for event in again.record.events] == [event["e"] for event in before.events]
    assert_replays(again)
