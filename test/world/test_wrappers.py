"""Worlds around a world: time limits that are kept, rest that is waited for, policies that let nothing through."""

from __future__ import annotations

import gc
import queue
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import Number
from reactree_ros.agent.skill import Skill
from reactree_ros.background.pending import Pending
from reactree_ros.world.port import Observation, Outcome, Score, SharedWorld, World, WorldError
from reactree_ros.world.skill_policy import Rule, SkillPolicy, Verdict, policy_from_list
from reactree_ros.world.wrappers import PolicyGuard, SkillTimeLimit, WorldWrapper, guarded

PATIENCE = 20.0
SHORT = 0.05
LATE = "The skill was not carried out: took longer than 0.05 s and was stopped."


class Slow(SharedWorld):
    """Everything stays in flight until it is settled here; whether it is at rest is said here, too."""

    household = Household(name="slow", actions=("go to", "turn on"))
    recallable = ("apple",)

    def __init__(self) -> None:
        self.skills: list[str] = []
        self.in_flight: list[Pending[Observation]] = []
        self.rests: list[Pending[None]] = []
        self.resting: queue.SimpleQueue[Pending[None]] = queue.SimpleQueue()
        self.looks: list[Pending[Observation]] = []
        self.closed = 0

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return Pending.ready(Observation(f"reset {seed}"))

    def observe(self) -> Pending[Observation]:
        self.looks.append(Pending())
        return self.looks[-1]

    def survey(self) -> Pending[Observation]:
        return Pending.ready(Observation("everything"))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(("go to kitchen 1",))

    def execute(self, skill: str) -> Pending[Observation]:
        self.skills.append(skill)
        self.in_flight.append(Pending())
        return self.in_flight[-1]

    def score(self) -> Pending[Score | None]:
        return Pending.ready(Score(1.0, 1.0))

    def at_rest(self) -> Pending[None]:
        self.rests.append(Pending())
        self.resting.put(self.rests[-1])
        return self.rests[-1]

    def close(self) -> None:
        self.closed += 1


class Broken(Slow):
    def at_rest(self) -> Pending[None]:
        raise WorldError("the robot is gone")


# ---------------------------------------------------------------------- passing on


def test_a_wrapper_passes_everything_on() -> None:
    inner = Slow()
    world = WorldWrapper(inner)
    assert (world.household, world.recallable) == (inner.household, inner.recallable)
    assert world.reset(7).take().text == "reset 7"
    assert world.survey().take().text == "everything"
    assert world.available_skills().take() == ("go to kitchen 1",)
    assert world.score().take() == Score(1.0, 1.0)
    assert world.execute("go to kitchen 1") is inner.in_flight[0]
    assert world.observe() is inner.looks[0]
    assert world.at_rest() is inner.rests[0]
    with world as same:
        assert same is world
    assert inner.closed == 1


# ---------------------------------------------------------------------- time limit


def test_a_skill_in_time_ends_as_it_ends() -> None:
    inner = Slow()
    world = SkillTimeLimit(inner, PATIENCE)
    first, second = world.execute("go to kitchen 1"), world.execute("turn on tv 1")
    assert not first.done()
    inner.in_flight[0].succeed(Observation("You are there."))
    inner.in_flight[1].fail(WorldError("the robot is gone"))
    assert first.take().text == "You are there."
    with pytest.raises(WorldError, match="the robot is gone"):
        second.take()
    assert inner.rests == []


def test_a_skill_that_takes_too_long_ends_when_the_world_has_come_to_rest() -> None:
    inner = Slow()
    skill = SkillTimeLimit(inner, SHORT).execute("go to kitchen 1")
    rest = inner.resting.get(timeout=PATIENCE)
    assert inner.in_flight[0].cancelled()
    assert not skill.done()
    rest.succeed(None)
    assert skill.result(PATIENCE) == Observation(LATE, Outcome.TIMEOUT)


def test_of_skills_that_are_together_each_that_was_cancelled_is_waited_for() -> None:
    inner = Slow()
    world = SkillTimeLimit(inner, PATIENCE, PATIENCE)
    first, second, third = (world.execute(f"turn on tv {number}") for number in (1, 2, 3))
    first.cancel()
    world.observe()
    second.cancel()
    inner.rests[0].succeed(None)  # of the first: nobody knows of the second
    assert len(inner.looks) == 1
    world.observe()
    assert (len(inner.looks), len(inner.rests)) == (1, 2)
    inner.rests[1].succeed(None)
    assert len(inner.looks) == 2
    inner.in_flight[2].succeed(Observation("It is on."))
    assert third.take().text == "It is on."


def test_where_the_world_does_not_come_to_rest_the_skill_fails() -> None:
    inner = Slow()
    world = SkillTimeLimit(inner, SHORT, SHORT)
    with pytest.raises(WorldError, match=r"^'go to kitchen 1' did not stop within 0\.05 s$"):
        world.execute("go to kitchen 1").result(PATIENCE)
    with pytest.raises(WorldError, match=r"^'go to kitchen 1' did not stop within 0\.05 s$"):
        world.execute("turn on tv 1").result(PATIENCE)
    assert inner.skills == ["go to kitchen 1"]


def test_where_the_world_breaks_while_it_comes_to_rest_the_skill_fails() -> None:
    with pytest.raises(WorldError, match="the robot is gone"):
        SkillTimeLimit(Broken(), SHORT).execute("go to kitchen 1").result(PATIENCE)


def test_nothing_begins_before_what_was_cancelled_has_ended() -> None:
    inner = Slow()
    world = SkillTimeLimit(inner, PATIENCE)
    assert world.execute("go to kitchen 1").cancel()
    assert inner.in_flight[0].cancelled()
    skills, look, skill = world.available_skills(), world.observe(), world.execute("turn on tv 1")
    assert not skills.done()
    assert (inner.looks, inner.skills) == ([], ["go to kitchen 1"])
    for rest in inner.rests:
        rest.succeed(None)
    assert skills.take() == ("go to kitchen 1",)
    assert inner.skills == ["go to kitchen 1", "turn on tv 1"]
    inner.looks[0].succeed(Observation("You are in the house."))
    inner.in_flight[1].succeed(Observation("You turn on tv."))
    assert (look.take().text, skill.take().text) == ("You are in the house.", "You turn on tv.")
    begun = len(inner.rests)
    assert world.available_skills().done()
    assert len(inner.rests) == begun


def test_what_waits_for_rest_can_be_cancelled_and_never_begins() -> None:
    inner = Slow()
    world = SkillTimeLimit(inner, PATIENCE)
    world.execute("go to kitchen 1").cancel()
    waiting = world.execute("turn on tv 1")
    assert waiting.cancel()
    inner.rests[0].succeed(None)
    assert inner.skills == ["go to kitchen 1"]


def test_a_skill_that_is_late_can_be_cancelled_while_the_world_comes_to_rest() -> None:
    inner = Slow()
    skill = SkillTimeLimit(inner, SHORT).execute("go to kitchen 1")
    rest = inner.resting.get(timeout=PATIENCE)
    assert skill.cancel()
    rest.succeed(None)
    with pytest.raises(CancelledError):
        skill.result(PATIENCE)


def test_what_else_is_asked_has_a_limit_where_one_is_given() -> None:
    inner = Slow()
    look = SkillTimeLimit(inner, PATIENCE, answer_seconds=SHORT).observe()
    with pytest.raises(WorldError, match=r"the world did not answer 'observe' within 0\.05 s"):
        look.result(PATIENCE)
    assert inner.looks[0].cancelled()
    assert SkillTimeLimit(inner, PATIENCE).observe() is inner.looks[1]
    in_time = SkillTimeLimit(inner, PATIENCE, answer_seconds=PATIENCE).observe()
    inner.looks[2].succeed(Observation("You are in the house."))
    assert in_time.take().text == "You are in the house."


@pytest.mark.slow
def test_a_limit_keeps_nothing_alive_that_has_ended() -> None:
    inner = Slow()
    skill = SkillTimeLimit(inner, 3600.0).execute("go to kitchen 1")
    inner.in_flight[0].succeed(Observation("You are there."))
    watched = weakref.ref(inner.in_flight.pop())
    del skill
    gc.collect()
    assert watched() is None


class Forgetful(Slow):
    def at_rest(self) -> Pending[None]:
        super().at_rest()
        self.rests.clear()
        self.resting.get()
        return Pending()


@pytest.mark.slow
def test_whoever_waits_for_rest_is_told_also_where_the_world_forgets_to_say() -> None:
    world = SkillTimeLimit(Forgetful(), PATIENCE, SHORT)
    world.execute("go to kitchen 1").cancel()
    look = world.observe()
    gc.collect()
    with pytest.raises(WorldError, match=r"^'go to kitchen 1' did not stop within 0\.05 s$"):
        look.result(PATIENCE)


def test_score_survey_and_reset_wait_for_rest_too() -> None:
    inner = Slow()
    world = SkillTimeLimit(inner, PATIENCE)
    world.execute("go to kitchen 1").cancel()
    waiting = (world.score(), world.survey(), world.reset(7))
    assert not any(one.done() for one in waiting)
    for rest in inner.rests:
        rest.succeed(None)
    assert [one.take() for one in waiting] == [Score(1.0, 1.0), Observation("everything"), Observation("reset 7")]


@pytest.mark.parametrize("inner", [Slow(), Broken()])
def test_a_world_that_does_not_come_to_rest_can_be_reset(inner: Slow) -> None:
    world = SkillTimeLimit(inner, PATIENCE, SHORT)
    world.execute("go to kitchen 1").cancel()
    for ask in (world.score, world.survey):
        with pytest.raises(WorldError):
            ask().result(PATIENCE)
    assert world.reset(7).result(PATIENCE).text == "reset 7"


# ---------------------------------------------------------------------- policy

POLICY = SkillPolicy(
    (Rule(skill="turn on", object="stove", verdict=Verdict.CONFIRM), Rule(skill="go to", verdict=Verdict.ALLOW))
)


class Person:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: Pending[str] = Pending()

    def __call__(self, skill: str, reason: str) -> Pending[str]:
        self.asked.append((skill, reason))
        return self.answer


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        ("turn on tv 1", "the skill policy has no rule for 'turn on tv'"),
        ("levitate", "the skill policy knows no skill like 'levitate'"),
    ],
)
def test_what_is_denied_never_reaches_the_world(skill: str, reason: str) -> None:
    inner = Slow()
    refused = PolicyGuard(inner, POLICY, Person()).execute(skill).take()
    assert refused == Observation(f"The skill was not carried out: {reason}.", Outcome.REFUSED_BY_POLICY)
    assert inner.skills == []


def test_what_is_to_be_confirmed_waits_for_a_person() -> None:
    inner, person = Slow(), Person()
    skill = PolicyGuard(inner, POLICY, person).execute("turn on stove 1")
    assert person.asked == [("turn on stove 1", "the skill policy says confirm for 'turn on stove'")]
    assert inner.skills == []
    person.answer.succeed("")
    assert inner.skills == ["turn on stove 1"]
    inner.in_flight[0].succeed(Observation("You turn on stove."))
    assert skill.take().text == "You turn on stove."


def answers(person: Person, how: str) -> None:
    if how == "no":
        person.answer.succeed("'turn on stove 1' was not approved: too hot")
    elif how == "nobody":
        person.answer.cancel()
    else:
        person.answer.fail(RuntimeError("the line is dead"))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("no", "'turn on stove 1' was not approved: too hot"),
        ("nobody", "nobody confirmed 'turn on stove 1'"),
        ("error", "nobody could be asked about 'turn on stove 1': the line is dead"),
    ],
)
def test_what_is_not_confirmed_never_reaches_the_world(how: str, reason: str) -> None:
    inner, person = Slow(), Person()
    skill = PolicyGuard(inner, POLICY, person).execute("turn on stove 1")
    answers(person, how)
    expected = Observation(f"The skill was not carried out: {reason}.", Outcome.REFUSED_BY_POLICY)
    assert skill.take() == expected
    assert inner.skills == []


def test_a_cancel_after_it_was_confirmed_reaches_the_world() -> None:
    inner, person = Slow(), Person()
    skill = PolicyGuard(inner, POLICY, person).execute("turn on stove 1")
    person.answer.succeed("")
    assert skill.cancel()
    assert inner.in_flight[0].cancelled()


def test_a_cancel_while_a_person_is_asked_cancels_the_question() -> None:
    inner, person = Slow(), Person()
    assert PolicyGuard(inner, POLICY, person).execute("turn on stove 1").cancel()
    assert person.answer.cancelled()
    assert inner.skills == []


def test_what_is_denied_is_not_offered() -> None:
    class Kitchen(Slow):
        def available_skills(self) -> Pending[Sequence[str]]:
            return Pending.ready(["go to kitchen 1", "turn on stove 1", "turn on tv 1", "open fridge 1"])

    world = PolicyGuard(Kitchen(), POLICY, Person())
    assert world.available_skills().take() == ["go to kitchen 1", "turn on stove 1"]
    assert world.household.actions == ("go to", "turn on")


def test_a_world_that_says_its_words_late_is_not_touched_by_a_policy_that_does_not_fit_it() -> None:
    inner = Slow()
    guarded = PolicyGuard(inner, POLICY, Person())
    guarded.execute("go to kitchen 1")
    inner.words = ["oven"]
    refused = guarded.execute("go to kitchen 1").take()
    assert refused.outcome is Outcome.REFUSED_BY_POLICY
    assert "the skill policy: rules.0.object: 'stove' is nothing here; did you mean 'oven'?" in refused.text
    assert inner.skills == ["go to kitchen 1"]


FILE, LIFT = "policy.yaml", "call the lift to floor 3"


@pytest.mark.parametrize(
    ("rules", "own", "said", "left_out"),
    [
        (None, "", "allow", ""),
        (None, "confirm", "confirm", ""),
        (None, "deny", "deny", ""),
        ([], "", "deny", "lift, go to, open"),
        ([], "confirm", "confirm", "go to, open"),
        ([{"skill": "lift", "verdict": "allow"}], "confirm", "allow", "go to, open"),
        ([{"skill": "call the lift to floor", "verdict": "deny"}], "allow", "deny", "go to, open"),
        ([{"skill": "lift", "when": {"floor": 3}, "verdict": "deny"}], "allow", "deny", "go to, open"),
        ([{"skill": "lift", "when": {"floor": 4}, "verdict": "allow"}], "confirm", "confirm", "go to, open"),
        ([{"skill": "lift", "when": {"floor": 4}, "verdict": "allow"}], "", "deny", "go to, open"),
        ([{"skill": "go to", "verdict": "deny"}, {"skill": "open", "verdict": "confirm"}], "allow", "allow", ""),
    ],
)
def test_the_first_that_speaks_of_a_skill_decides(
    rules: list[dict[str, Any]] | None, own: str, said: str, left_out: str
) -> None:
    lift = Skill(name="lift", wording="call the lift to floor {floor}", parameters={"floor": Number(1, 9)})

    class House(Slow):
        household = Household(name="house", actions=("go to", "open")).with_skills([lift])

    inner, person, told = House(), Person(), list[str]()
    inner.rules = {"lift": own} if own else {}
    policy = None if rules is None else policy_from_list(rules, where=FILE)
    world = guarded(inner, policy, person, told.append)
    assert told == ([f"not allowed by {FILE}: {left_out} (no rule names them)"] if left_out else [])
    came = world.execute(LIFT)
    came = came.take().outcome if came.done() else None
    assert (came is Outcome.REFUSED_BY_POLICY, len(person.asked), len(inner.skills)) == {
        "allow": (False, 0, 1),
        "confirm": (False, 1, 0),
        "deny": (True, 0, 0),
    }[said]
    again = guarded(world, policy_from_list([], where="another file"), person, told.append)
    assert (again is world) == world.is_guarded == (bool(own) or rules is not None)


def test_the_own_rules_of_a_world_hold_for_skills_that_are_texts() -> None:
    inner = Slow()
    inner.rules = {"turn on": "deny"}
    world = guarded(inner, None, Person())
    assert world.execute("turn on tv 1").take().outcome is Outcome.REFUSED_BY_POLICY
    world.execute("go to kitchen 1")
    world.execute("levitate")
    assert inner.skills == ["go to kitchen 1", "levitate"]


# ---------------------------------------------------------------------- several robots


class Crew(Slow):
    def __init__(self) -> None:
        super().__init__()
        self.robots = {"one": Slow(), "two": Slow()}

    def team(self) -> Mapping[str, SharedWorld]:
        return self.robots


def test_what_the_policy_denies_reaches_no_robot() -> None:
    crew = Crew()
    guarded = SkillTimeLimit(PolicyGuard(crew, POLICY, Person()), SHORT).team()
    assert list(guarded) == ["one", "two"]
    for name, robot in guarded.items():
        assert robot.execute("turn on tv 1").take().outcome is Outcome.REFUSED_BY_POLICY
        assert crew.robots[name].skills == []
        robot.execute("go to kitchen 1")
        assert crew.robots[name].skills == ["go to kitchen 1"]


def test_a_wrapper_that_does_not_say_how_robots_are_wrapped_is_none_around_them() -> None:
    class Strict(WorldWrapper):
        def __init__(self, inner: World, rule: str) -> None:
            super().__init__(inner)

    with pytest.raises(TypeError):
        Strict(Crew(), "nothing").team()
    assert Strict(Slow(), "nothing").team() == {}
