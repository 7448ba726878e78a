"""A run that is held, by an emergency stop or by a person: nothing is decided or done, and then it goes on."""

from __future__ import annotations

import pytest
from doubles import START, Builds, Clock, Heard, ScriptedModel, ScriptedWorld, scripted_episode
from py_trees.common import Status

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.planners.spec import planner
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.program import Program
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


def test_while_the_world_is_halted_nothing_is_decided_and_the_tree_says_so() -> None:
    world, model, notes = StopWorld(), ScriptedModel({"root": ["Act: open fridge 1", "Act: done"]}), Notes()
    world.stop = PRESSED
    episode = scripted_episode({}, model=model, world=world, listener=notes)
    tick(episode)
    assert model.requests == []
    assert (episode.root.status, episode.root.feedback_message) == (Status.RUNNING, f"held: {PRESSED}")
    assert (episode.context.budget.decisions, episode.context.budget.steps) == (0, 0)
    world.stop = ""
    result = episode.run()
    assert (result.end, result.decisions, result.steps) == ("done", 1, 1)
    assert notes.heard == [f"root held: {PRESSED}", "root goes on", "Act: open fridge 1", "Act: done"]


def test_on_release_it_looks_around_anew_and_the_model_is_told() -> None:
    world, model = StopWorld(), ScriptedModel({"root": ["Think: a", "Act: done"]})
    world.stop = PRESSED
    episode = scripted_episode({}, model=model, world=world)
    tick(episode)
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
    world, model, clock = StopWorld(), ScriptedModel({"root": ["Act: done"]}), Clock()
    world.stop = PRESSED
    options = TreeOptions(hold_timeout=60.0)
    episode = scripted_episode({}, model=model, world=world, options=options, clock=clock)
    tick(episode)
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
    world = StopWorld()
    world.stop = PRESSED
    episode = scripted_episode({"root": ["Act: done"]}, world=world)
    tick(episode)
    episode.interrupt()
    assert (episode.finished, episode.result().end) == (True, "interrupted")


def test_a_reason_that_changes_is_said() -> None:
    world, notes = StopWorld(), Notes()
    world.stop = PRESSED
    episode = scripted_episode({"root": ["Act: done"]}, world=world, listener=notes)
    tick(episode)
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
