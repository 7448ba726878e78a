"""A tree of one's own: its leaves are typed, guarded, recorded and counted, and stand each for itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from doubles import ScriptedModel, ScriptedWorld, expand
from py_trees import composites, decorators
from py_trees.behaviour import Behaviour
from py_trees.common import ParallelPolicy, Status

from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import Number, Person, Thing
from reactree_ros.agent.skill import Skill, SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.going_on import WayBack, stop_of
from reactree_ros.episode.player import replay
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, ServerUnavailable
from reactree_ros.planners.reactree import own_tree
from reactree_ros.planners.spec import Planner, planner
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.own_tree import OwnTree
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.skill_policy import policy_from_list
from reactree_ros.world.wrappers import PolicyGuard

Make = Callable[[OwnTree], Behaviour]
OPEN = "Act: open fridge 1"


def planner_of(make: Make) -> Planner:
    return planner(own_tree("mine", make))


def episode_of(make: Make, *, world: World | None = None, model: LanguageModel | None = None, **given: Any) -> Episode:
    return Episode(
        "root", world=world or ScriptedWorld(), model=model or ScriptedModel({}), planner=planner_of(make), **given
    )


def one_after_the_other(*leaves: Behaviour) -> Behaviour:
    return composites.Sequence("one after the other", memory=True, children=list(leaves))


class Gone(LanguageModel):
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.failed(ServerUnavailable("the server is gone"))


class Switch(Behaviour):
    """A condition of somebody's own."""

    on = False

    def update(self) -> Status:
        return Status.SUCCESS if self.on else Status.FAILURE


# ---------------------------------------------------------------------- skills and goals as leaves


def test_a_tree_of_plain_composites_carries_out_skills_and_goals() -> None:
    world = ScriptedWorld()
    model = ScriptedModel(
        {
            "cool": [expand("sequence", "find", "put")],
            "find": ["Act: pick up apple 1", "Act: done"],
            "put": ["Act: done"],
        }
    )
    episode = episode_of(
        lambda run: one_after_the_other(run.skill("go to kitchen 1"), run.goal("cool"), run.skill("open fridge 1")),
        world=world,
        model=model,
    )
    result = episode.run()
    assert world.executed == ["go to kitchen 1", "pick up apple 1", "open fridge 1"]
    assert (result.end, result.decisions, result.steps) == ("done", 2, 3)


def test_a_skill_that_is_refused_fails_and_says_why() -> None:
    episode = episode_of(lambda run: run.skill("open fridge 1"), world=ScriptedWorld(refused=["open fridge 1"]))
    result = episode.run()
    assert (result.end, result.reason) == ("failure", "You cannot open fridge 1.")


def test_a_skill_policy_guards_hand_written_skills() -> None:
    world = ScriptedWorld()
    rules = [{"skill": "open", "object": "fridge", "verdict": "deny"}, {"skill": "open", "verdict": "allow"}]
    guarded = PolicyGuard(world, policy_from_list(rules, where="here"), lambda skill, why: Pending.ready(""))
    result = episode_of(lambda run: run.skill("open fridge 1"), world=guarded).run()
    assert (result.end, world.executed) == ("failure", [])
    assert "the skill policy says deny" in result.reason
    with pytest.raises(UserError, match="'go to kitchen 1' is not a skill; one starts with open"):
        episode_of(lambda run: run.skill("go to kitchen 1"), world=guarded)


HAND_OVER = Skill(
    name="give", wording="hand over {thing} to {to}", parameters={"thing": Thing(), "to": Person(names=("Anna", "Bob"))}
)
DRIVE = Skill(name="drive", wording="drive {distance} m", parameters={"distance": Number(0, 2.0, 0.1)})


class Declared(ScriptedWorld):
    household = Household(name="office", skills=(HAND_OVER, DRIVE))


@pytest.mark.parametrize("name", ["give", "hand over"])
def test_a_declared_skill_takes_its_values_by_name(name: str) -> None:
    world = Declared()
    episode_of(lambda run: run.skill(name, thing="stapler", to="Anna"), world=world).run()
    assert world.executed == ["hand over stapler to Anna"]
    assert isinstance(world.executed[0], SkillCall)
    assert world.executed[0].values == {"thing": "stapler", "to": "Anna"}


@pytest.mark.parametrize(
    ("skill", "values", "said"),
    [
        ("give", {"thing": "stapler", "to": "Eve"}, "to: 'Eve' may not stand here; what may: Anna, Bob"),
        ("give", {"thing": "stapler"}, "to"),
        ("give", {"thing": "stapler", "too": "Anna"}, "too"),
        ("drive", {"distance": 3}, "a number from 0 to 2 by 0.1"),
        ("drive 3 m", {}, "a number from 0 to 2 by 0.1"),
        ("gve", {"thing": "stapler", "to": "Anna"}, "did you mean 'give'?"),
    ],
)
def test_a_wrong_skill_is_refused_before_anything_moves(skill: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=rf"(?s)skill '{skill}': .*{said}"):
        episode_of(lambda run: run.skill(skill, **values), world=Declared())


# ---------------------------------------------------------------------- one skill at a time


class Slow(ScriptedWorld):
    """Rests after a cancelled skill only when it is told to; refuses to begin before."""

    def __init__(self) -> None:
        super().__init__(settle=False)
        self.rest: Pending[None] = Pending()
        self.under_way: Pending[Observation] | None = None

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("You are here."))

    def execute(self, skill: str) -> Pending[Observation]:
        assert self.under_way is None or (self.under_way.done() and self.rest.done()), f"'{skill}' begins too early"
        self.under_way = super().execute(skill)
        return self.under_way

    def at_rest(self) -> Pending[None]:
        return self.rest


def test_a_skill_begins_when_what_was_cancelled_has_come_to_rest() -> None:
    world, switch = Slow(), Switch("switch")

    def make(run: OwnTree) -> Behaviour:
        first = composites.Sequence("first", memory=False, children=[switch, run.skill("open fridge 1")])
        return composites.Selector("either", memory=False, children=[first, run.skill("go to kitchen 1")])

    episode = episode_of(make, world=world)
    episode.tick()
    episode.tick()
    switch.on = True
    episode.tick()
    assert world.executed == ["go to kitchen 1"]
    assert world.cancelled["go to kitchen 1"] == 1
    world.rest.succeed(None)
    assert world.executed == ["go to kitchen 1", "open fridge 1"]
    world.settle_all()
    episode.tick()
    assert episode.result().end == "done"


def test_skills_at_the_same_time_are_carried_out_one_after_the_other() -> None:
    world = Slow()
    world.rest.succeed(None)
    episode = episode_of(
        lambda run: composites.Parallel(
            "both", ParallelPolicy.SuccessOnAll(), [run.skill("go to kitchen 1"), run.skill("open fridge 1")]
        ),
        world=world,
    )
    episode.tick()
    episode.tick()
    assert world.executed == ["go to kitchen 1"]
    world.settle_all()
    assert world.executed == ["go to kitchen 1", "open fridge 1"]
    world.settle_all()
    episode.tick()
    assert episode.result().end == "done"


def test_a_skill_that_a_pause_breaks_off_is_carried_out_again() -> None:
    world = ScriptedWorld(settle=False)
    episode = episode_of(lambda run: run.skill("go to kitchen 1"), world=world)
    episode.tick()
    episode.tick()
    episode.pause()
    episode.tick()
    assert world.cancelled["go to kitchen 1"] == 1
    episode.resume()
    world.settle = True
    assert episode.run().end == "done"
    assert world.executed == ["go to kitchen 1"] * 2


# ---------------------------------------------------------------------- each leaf stands for itself


@pytest.mark.parametrize(
    ("says", "times", "options", "ends"),
    [
        # steps before decisions: `done` is asked for with two steps taken, which are all
        (["Act: go to kitchen 1", OPEN, "Act: done"], 3, {"max_steps": 2, "max_decisions": 3}, ("out_of_steps", 2)),
        (["Act: go to kitchen 1", "Act: done"], 3, {"max_steps": 2, "max_decisions": 3}, ("done", 3)),
        (["Act: go to kitchen 1", "Act: done"], 9, {"stuck_after": 3}, ("done", 9)),  # by what it saw before
    ],
)
def test_the_limits_of_a_goal_begin_anew_each_time(
    says: list[str], times: int, options: dict[str, int], ends: tuple[str, int]
) -> None:
    episode = episode_of(
        lambda run: decorators.Repeat("again", run.goal("a"), num_success=times),
        model=ScriptedModel({"a": says * times}),
        options=TreeOptions(**options),
    )
    result = episode.run()
    assert (result.end, result.steps) == ends


@pytest.mark.parametrize(
    ("model", "done", "message"),
    [
        (ScriptedModel({"a": [OPEN] * 9}), ["open fridge 1"] * 3, "'open fridge 1' came 3 times"),
        (Gone(), [], "no reply: the server is gone"),
    ],
)
def test_a_goal_that_is_stuck_or_whose_model_is_gone_ends_alone(
    model: LanguageModel, done: list[str], message: str
) -> None:
    world = ScriptedWorld(refused=["open fridge 1"])
    episode = episode_of(
        lambda run: composites.Selector("or", memory=True, children=[run.goal("a"), run.skill("go to kitchen 1")]),
        world=world,
        model=model,
        options=TreeOptions(stuck_after=3),
    )
    result = episode.run()
    assert (result.end, world.executed) == ("done", [*done, "go to kitchen 1"])
    assert message in result.message


def test_the_time_of_a_run_is_over_for_all_leaves() -> None:
    world = ScriptedWorld(settle=False)
    now = [0.0]
    episode = episode_of(
        lambda run: composites.Selector(
            "or", memory=True, children=[run.skill("go to kitchen 1"), run.skill("open fridge 1")]
        ),
        world=world,
        options=TreeOptions(max_seconds=5),
        clock=lambda: now[0],
    )
    episode.tick()
    episode.tick()
    now[0] = 6.0
    episode.tick()
    assert world.executed == ["go to kitchen 1"]
    assert world.cancelled["go to kitchen 1"] == 1
    assert episode.result().end == "out_of_time"


# ---------------------------------------------------------------------- record


def mine(run: OwnTree) -> Behaviour:
    """Skills, a goal that grows, an interruption by somebody's own behaviour, all of it twice."""
    watched = composites.Parallel(
        "watched",
        ParallelPolicy.SuccessOnOne(),
        [decorators.SuccessIsRunning("still", run.goal("a")), Ticks("after some ticks")],
    )
    return decorators.Repeat("twice", one_after_the_other(run.skill("go to kitchen 1"), watched), num_success=2)


class Ticks(Behaviour):
    """Succeeds at its third tick."""

    count = 0

    def initialise(self) -> None:
        self.count = 0

    def update(self) -> Status:
        self.count += 1
        return Status.SUCCESS if self.count == 6 else Status.RUNNING


def recorded(make: Make, **script: list[str]) -> tuple[list[Event], Episode]:
    events: list[Event] = []
    episode = assemble(
        RunSpec(instruction="root", planner="react"),
        world=ScriptedWorld(),
        model=ScriptedModel(script),
        builder=planner_of(make),
        write=lambda event: events.append(json.loads(json.dumps(event))),
    )
    return events, episode


SCRIPT = {
    "a": [expand("sequence", "b", "c")] * 2,
    "b": [OPEN, "Act: done"] * 2,
    "c": ["Think: hm"] * 20,
}


def test_the_record_has_every_skill_and_replays() -> None:
    events, episode = recorded(mine, **SCRIPT)
    episode.run()
    record = Record(events)
    skills = [event["skill"] for event in events if event["e"] == "skill"]
    assert skills == ["go to kitchen 1", "open fridge 1"] * 2
    found = replay(record, builder=planner_of(mine))
    assert (found.difference, found.events) == ("", len(events))


def test_what_is_interrupted_is_so_in_the_record() -> None:
    events, episode = recorded(mine, **SCRIPT)
    episode.run()
    names = {node["node"]: node["name"] for event in events if event["e"] == "grow" for node in event["nodes"]}
    second = [at for at, event in enumerate(events) if event["e"] == "skill"][2]
    told = [(names[of[0]], of[1]) for event in events[:second] if event["e"] == "status" for of in event["of"]]
    for name in ("a", "c"):
        assert [status for one, status in told if one == name][-1] == "interrupted"


def plain(run: OwnTree) -> Behaviour:
    return one_after_the_other(run.skill("go to kitchen 1"), run.goal("b"), run.skill("pick up apple 1"))


def test_a_run_that_was_broken_off_goes_on_in_its_own_tree() -> None:
    events, episode = recorded(plain, b=[OPEN])
    for _ in range(3):
        episode.tick()
    episode.interrupt()
    record, world = Record(events), ScriptedWorld()
    way = WayBack(
        record,
        stop_of(record),
        RunSpec(instruction="root", planner="react"),
        world=world,
        model=ScriptedModel({"b": ["Act: done"]}),
        builder=planner_of(plain),
    )
    while not way.step():
        way.wait()
    assert way.episode.run().end == "done"
    assert world.executed == ["go to kitchen 1", "open fridge 1", "pick up apple 1"]


def test_what_an_agent_has_nothing_to_learn_from_is_no_experience() -> None:
    _, episode = recorded(plain, b=["Act: done"])
    episode.run()
    assert [experience.subgoal for experience in episode.experiences()] == ["b"]


class Stubborn(ScriptedWorld):
    """Fails at each skill that closes something, always in the same way; all else goes well."""

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        fails = str(skill).startswith("close")
        return self._pending(skill, Observation(f"{skill}.", Outcome.EXECUTION if fails else Outcome.DONE))


def ticked(episode: Episode) -> EpisodeResult:
    """Run without the pause between two ticks of a tree that wakes nobody."""
    while not episode.finished:
        episode.tick()
    return episode.conclude()


def _for_ever(child: Behaviour) -> Behaviour:
    return decorators.Retry("again", child, num_failures=10**9)


def _with_a_fallback(run: OwnTree) -> Behaviour:
    try_it = decorators.FailureIsSuccess("never mind", run.skill("close fridge 1"))
    return decorators.Repeat("again", one_after_the_other(run.skill("go to sink 1"), try_it), num_success=10**9)


@pytest.mark.parametrize(
    ("make", "times"),
    [
        (lambda run: _for_ever(run.skill("close fridge 1")), 12),
        (lambda run: _for_ever(one_after_the_other(run.skill("go to sink 1"), run.skill("close fridge 1"))), 60),
        (_with_a_fallback, 60),
    ],
)
def test_a_leaf_that_fails_in_the_same_way_for_ever_ends_the_run_as_stuck(make: Make, times: int) -> None:
    world = Stubborn()
    result = ticked(episode_of(make, world=world))
    assert (result.end, result.status) == ("stuck", "failure")
    assert f"'close fridge 1' failed {times} times without anything new" in result.message
    assert world.executed.count("close fridge 1") == times


def test_a_tree_that_begins_again_for_ever_ends_with_the_time_of_its_run() -> None:
    clock = iter(range(10**6))
    episode = episode_of(
        lambda run: decorators.Repeat("r", run.skill("go to sink 1"), num_success=10**9),
        world=Stubborn(),
        options=TreeOptions(max_seconds=60),
        clock=lambda: float(next(clock)),
    )
    assert ticked(episode).end == "out_of_time"
