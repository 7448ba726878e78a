"""A run that is held, by an emergency stop or by a person: nothing is decided or done, and then it goes on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from doubles import START, Builds, Clock, Heard, ScriptedModel, ScriptedWorld, expand, scripted_episode
from py_trees.common import Status
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Said, Saw, ToldSearched
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.planners.spec import planner
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.program_node import Program
from reactree_ros.world.port import Observation, Outcome

PRESSED = "the emergency stop is engaged"
SOME = 5  # ticks; more than it takes to do anything


class StopWorld(ScriptedWorld):
    """A world with an emergency stop."""

    stop = ""
    looks = 0

    def halted(self) -> str:
        return self.stop

    def observe(self) -> Pending[Observation]:
        self.looks += 1
        return super().observe()


class Notes(Heard):
    def held(self, node: GoalNode, reason: str) -> None:
        self.heard.append(f"{node.name} held: {reason}" if reason else f"{node.name} goes on")


def tick(episode: Episode, times: int = SOME) -> None:
    for _ in range(times):
        episode.tick()


def pressed(*says: str, **given: Any) -> tuple[StopWorld, ScriptedModel, Episode]:
    """Begin a run whose emergency stop is engaged."""
    world, model = StopWorld(), ScriptedModel({"root": says})
    world.stop = PRESSED
    episode = scripted_episode({}, model=model, world=world, **given)
    tick(episode)
    return world, model, episode


def test_while_the_world_is_halted_nothing_is_decided_and_the_tree_says_so() -> None:
    world, model, episode = pressed("Act: open fridge 1", "Act: done", listener=(notes := Notes()))
    assert model.requests == []
    assert (episode.root.status, episode.root.feedback_message) == (Status.RUNNING, f"held: {PRESSED}")
    assert (episode.context.budget.decisions, episode.context.budget.steps) == (0, 0)
    world.stop = ""
    result = episode.run()
    assert (result.end, result.decisions, result.steps) == ("done", 1, 1)
    assert notes.heard == [f"root held: {PRESSED}", "root goes on", "Act: open fridge 1", "Act: done"]


def test_on_release_it_looks_around_anew_and_the_model_is_told() -> None:
    world, model, episode = pressed("Think: a", "Act: done")
    looks, world.stop = world.looks, ""
    assert episode.run().end == "done"
    assert world.looks == looks + 1
    told = f"{START}\nYou had to wait: {PRESSED}. You may go on. {START}\n"
    assert model.requests[0].prompt.endswith(told)


def test_a_reply_in_flight_is_cancelled_and_asked_for_anew_with_what_is_there_then() -> None:
    world, model = StopWorld(), ScriptedModel({"root": ["Act: open fridge 1", "Act: done"]}, settle=False)
    episode = scripted_episode({}, model=model, world=world)
    tick(episode)
    world.stop = PRESSED
    tick(episode)
    assert (len(model.requests), sum(model.cancelled.values())) == (1, 1)
    world.stop, world.skills, model.settle = "", ["go to garden 1"], True
    assert episode.run().end == "done"
    may_say = model.requests[1].may_say
    assert isinstance(may_say, DecisionGrammar)
    assert may_say.skills[-1] == "go to garden 1"
    assert episode.result().decisions == 0, "what was broken off does not count"


def test_a_skill_in_flight_is_cancelled_once_and_the_model_decides_what_comes_next() -> None:
    world = StopWorld(settle=False)
    model = ScriptedModel({"root": ["Act: open fridge 1", "Act: open fridge 1", "Act: done"]})
    episode = scripted_episode({}, model=model, world=world)
    while world.executed != ["open fridge 1"]:
        world.settle_all()
        episode.tick()
    world.stop = PRESSED
    tick(episode)
    assert (world.cancelled["open fridge 1"], len(model.requests)) == (1, 1)
    assert episode.root.leaf.status == Status.INVALID
    world.stop, world.settle = "", True
    world.settle_all()
    assert (episode.run().end, world.executed) == ("done", ["open fridge 1", "open fridge 1"])
    told = f"You were stopped before you had done it: {PRESSED}. You may go on. {START}\n"
    assert model.requests[1].prompt.endswith(f"Act: open fridge 1\n{told}")


def test_a_skill_that_the_world_halts_itself_is_no_result_of_it() -> None:
    class Halts(StopWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            self.executed.append(skill)
            if len(self.executed) > 1:
                return Pending.ready(Observation("You open fridge."))
            self.stop = PRESSED
            return Pending.ready(Observation(f"You cannot {skill} now: {PRESSED}.", Outcome.HALTED))

    world, model = Halts(), ScriptedModel({"root": ["Act: open fridge 1", "Act: open fridge 1", "Act: done"]})
    episode = scripted_episode({}, model=model, world=world)
    tick(episode)
    assert (len(model.requests), episode.root.feedback_message) == (1, f"held: {PRESSED}")
    world.stop = ""
    assert (episode.run().end, len(world.executed)) == ("done", 2)
    assert f"You cannot open fridge 1 now: {PRESSED}. You may go on. {START}" in model.requests[1].prompt


def test_a_person_pauses_and_resumes() -> None:
    model = ScriptedModel({"root": ["Think: a", "Think: b", "Act: done"]})
    episode = scripted_episode({}, model=model)
    tick(episode, 2)
    episode.pause()
    tick(episode)
    assert len(model.requests) == 2
    assert episode.root.feedback_message == "held: somebody has paused it"
    episode.resume()
    assert (episode.run().end, len(model.requests)) == ("done", 3)
    assert episode.result().decisions == 1, "the reply that came before the pause was not taken in"


def test_a_hold_that_lasts_too_long_ends_the_task_which_is_no_result() -> None:
    clock = Clock()
    _, model, episode = pressed("Act: done", options=TreeOptions(hold_timeout=60.0), clock=clock)
    clock.now = 59.0
    tick(episode)
    assert not episode.finished
    clock.now = 60.0
    tick(episode, 1)
    result = episode.result()
    assert (result.end, result.status, result.broken) == ("held", "failure", True)
    assert result.message == f"held for longer than 60 s: {PRESSED}"
    assert model.requests == []


def test_a_run_that_is_held_can_be_interrupted() -> None:
    _, _, episode = pressed("Act: done")
    episode.interrupt()
    assert (episode.finished, episode.result().end) == (True, "interrupted")


def test_a_reason_that_changes_is_said() -> None:
    _, _, episode = pressed("Act: done", listener=(notes := Notes()))
    episode.pause("lunch")
    tick(episode)
    assert notes.heard == [f"root held: {PRESSED}", "root held: lunch"]


@pytest.mark.parametrize("name", ["reactree", "react"])
def test_the_planners_by_name_are_held_too(name: str) -> None:
    world, model = StopWorld(), ScriptedModel({"root": ["Act: done"]})
    world.stop = PRESSED
    episode = Episode("root", model=model, world=world, planner=planner(name))
    tick(episode)
    assert model.requests == []
    world.stop = ""
    assert episode.run().end == "done"


def test_who_is_held_before_it_has_looked_is_told_of_the_wait_and_of_no_robot() -> None:
    class Hasty(GoalNode):
        def program(self) -> Program:
            yield from self.hold()
            return True

    world = StopWorld()
    world.stop = PRESSED
    planner_of = Builds(lambda instruction, context: Hasty(instruction, context))
    episode = Episode("root", model=ScriptedModel({}), world=world, planner=planner_of, clock=Clock())
    tick(episode)
    world.stop = ""
    assert episode.run().status == "success"
    assert episode.context.nodes[0].text == f"You had to wait: {PRESSED}. You may go on. {START}\n"


# ---------------------------------------------------------------------- what was searched


SEARCHING = "reactree_wm:search_memory=true"
TASKS = [parse_tasks(generate_house(seed=seed, tasks=1))[0] for seed in (5, 6)]


def recorded(task: Task, name: str = SEARCHING, *, robots: int = 1) -> tuple[Episode, Kept]:
    world = SymbolicWorld(task, robots=robots)
    episode, kept = recorded_episode({}, name=name, model=ExpertModel(), world=world, instruction=task.instruction)
    assert episode.run().gsr == 1.0
    return episode, kept


def told_in(node: GoalNode) -> list[ToldSearched]:
    return [turn for turn in node.turns if isinstance(turn, ToldSearched)]


@pytest.mark.parametrize("task", TASKS)
def test_it_is_told_after_a_search_and_where_a_node_begins(task: Task) -> None:
    episode, kept = recorded(task)
    nodes = episode.context.nodes
    assert told_in(nodes[0]) == [], "nothing was searched before"
    assert any(isinstance(node.turns[2], ToldSearched) for node in nodes[1:] if len(node.turns) > 2)
    for node in nodes:
        for before, turn in itertools.pairwise(node.turns):
            assert not isinstance(turn, ToldSearched) or isinstance(before, Saw), "an observation comes first"
    for turn in itertools.chain.from_iterable(map(told_in, nodes)):
        names = {one.place.name for one in turn.searched}
        assert names
        assert not names & {place.name for place in turn.unsearched}
    assert_replays(kept)


def test_off_nothing_is_told_and_everything_is_as_before() -> None:
    assert planner("reactree_wm").settings.model_dump()["search_memory"] is False
    episode, _ = recorded(TASKS[0], "reactree_wm")
    assert not episode.context.tells_searched
    assert not any(told_in(node) for node in episode.context.nodes)
    assert "Searched" not in "".join(node.text for node in episode.context.nodes)


def act_of(skill: str) -> str:
    return f"Act: {skill}"


def run_of(says: Sequence[str], task: Task = TASKS[0]) -> list[str]:
    """What follows each act, without observations, as one text an act."""
    model = ScriptedModel({task.instruction.split("\n")[0]: [*says, "Act: done"]})
    episode, kept = recorded_episode(
        {}, name="react_wm:search_memory=true", model=model, world=SymbolicWorld(task), instruction=task.instruction
    )
    episode.run()
    assert_replays(kept)
    after: list[str] = []
    for turn in episode.root.turns:  # type: ignore[attr-defined]
        if isinstance(turn, Said):
            after.append("")
        elif isinstance(turn, ToldSearched):
            after[-1] = turn.text
    return after[:-1]


def test_a_recall_of_what_is_not_known_tells_what_was_searched_and_one_of_what_is_known_does_not() -> None:
    go, arrive, ask = act_of("go to kitchen 1"), act_of("go to kitchen table 1"), "recall location of "
    unknown, known = act_of(f"{ask}toothpaste"), act_of(f"{ask}plate")
    nothing, room, table, not_known, is_known = run_of([unknown, go, arrive, unknown, known])
    assert (nothing, room, is_known) == ("", "", "")
    assert table.startswith("Searched in kitchen 1: kitchen table (1); not yet: bookshelf (1), dishwasher (1), ")
    assert not_known == table


def test_of_several_robots_each_is_told_who_searched() -> None:
    episode, kept = recorded(TASKS[0], robots=2)
    told = [turn for node in episode.context.nodes for turn in told_in(node)]
    assert {one.robot for turn in told for one in turn.searched} == {"robot_1", "robot_2"}
    by_others = [turn.text for turn in told if " by robot_" in turn.text]
    assert by_others
    assert_replays(kept)


def test_a_world_that_tells_no_places_is_not_told_of_either() -> None:
    script = {"root": ["Act: open fridge 1", expand("sequence", "a")], "a": ["Act: go to kitchen 1", "Act: done"]}
    episode, kept = recorded_episode(script, name=SEARCHING)
    assert episode.run().end == "done"
    assert not any(told_in(node) for node in episode.context.nodes)
    assert_replays(kept)
