"""Does a world keep to the port? The check on our own worlds, and on worlds that do one thing wrong each."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from reactree_ros.agent.transcript import parse_transcript
from reactree_ros.background.pending import Pending
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Household, Observation, Outcome, Score, World, WorldError
from reactree_ros.world.recorded import RecordedWorld
from reactree_ros.world.skill_policy import Rule, SkillPolicy, Verdict
from reactree_ros.world.team import RightOfWay, SharedWorld, Use
from reactree_ros.world.wrappers import PolicyGuard, SkillTimeLimit, WorldWrapper

SHORT = 0.2  # for what never comes, in seconds
LONG = 30.0  # for everything else


class Shed(World):
    """A world that does nothing wrong: a shed with a door and a rake."""

    household = Household(name="shed", actions=("open", "close", "take"), start_line="You are in a shed")
    recallable: Sequence[str] = ("rake",)

    def __init__(self) -> None:
        self.open = False
        self.taken = False

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self.open = self.taken = False
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.of(Observation(self.text()))

    def text(self) -> str:
        return f"You are in a shed. The door is {'open' if self.open else 'closed'}."

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.of(("open door 1", "close door 1", "take rake 1"))

    def execute(self, skill: str) -> Pending[Observation]:
        if skill not in ("open door 1", "close door 1", "take rake 1"):
            return Pending.of(Observation("There is no such skill.", Outcome.UNKNOWN_SKILL))
        if skill == "take rake 1":
            if self.taken:
                return Pending.of(Observation("You have it.", Outcome.PRECONDITION))
            self.taken = True
        else:
            self.open = skill == "open door 1"
        return Pending.of(Observation("Done."))

    def score(self) -> Pending[Score | None]:
        return Pending.of(Score(gsr=float(self.taken), ssr=float(self.taken)))


@pytest.mark.parametrize("house", HOUSES)
def test_the_symbolic_world_keeps_to_the_port(house: str) -> None:
    for task in load_tasks(HOUSES[house]):
        assert check_world(SymbolicWorld(task), tries=60) == []
        assert check_world(SymbolicWorld(task, scored=False)) == []
        assert check_world(SymbolicWorld(task, robots=2)) == []


def test_a_world_of_somebody_else_keeps_to_the_port() -> None:
    assert check_world(Shed()) == []


ALL = SkillPolicy(
    (
        Rule(skill="open", verdict=Verdict.ALLOW),
        Rule(skill="close", verdict=Verdict.CONFIRM),
        Rule(skill="take", verdict=Verdict.DENY),
    )
)


@pytest.mark.parametrize(
    "wrapped",
    [
        WorldWrapper(Shed()),
        SkillTimeLimit(Shed(), 10.0, answer_seconds=10.0),
        PolicyGuard(Shed(), ALL, lambda skill, reason: Pending.of("")),
        PolicyGuard(Shed(), ALL, lambda skill, reason: Pending.of("not now")),
        SkillTimeLimit(PolicyGuard(Shed(), ALL, lambda skill, reason: Pending.of("")), 10.0),
    ],
)
def test_a_wrapped_world_keeps_to_the_port(wrapped: World) -> None:
    assert check_world(wrapped) == []


def test_a_recording_is_no_world_to_try_things_in() -> None:
    """It does not say what else could have been done: whatever is not next in it is an error there."""
    transcript = parse_transcript(
        "Your task is to: look\nYou are in the house, and there are 1 rooms: kitchen (1).\nAct: done"
    )
    assert check_world(RecordedWorld([transcript], WAH_NL)) == ["available_skills lists nothing"]


class Blocks(Shed):
    """Lets whoever calls wait until its door has opened, which never happens here."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()

    def execute(self, skill: str) -> Pending[Observation]:
        self.opened.wait(10.0)
        return super().execute(skill)


class Guesses(Shed):
    """Takes the nearest skill for one that it does not know."""

    def execute(self, skill: str) -> Pending[Observation]:
        return super().execute("open door 1" if "door" in skill else "take rake 1")


class RefusesButMoves(Shed):
    """Refuses a skill and does it nevertheless."""

    def execute(self, skill: str) -> Pending[Observation]:
        super().execute(skill)
        return Pending.of(Observation("You cannot do that.", Outcome.PRECONDITION))


class Raises(Shed):
    """Raises where its pending result should fail."""

    def execute(self, skill: str) -> Pending[Observation]:
        if skill.startswith("levitate"):
            raise WorldError("no such skill")
        return super().execute(skill)


class FailsOnWhatItDoesNotKnow(Shed):
    """Takes a skill that it does not know for an error."""

    def execute(self, skill: str) -> Pending[Observation]:
        if skill.startswith("levitate"):
            return Pending.failed(WorldError("no such skill"))
        return super().execute(skill)


class Bug(Shed):
    """Fails with an error that is none of a world."""

    def observe(self) -> Pending[Observation]:
        return Pending.failed(KeyError("door"))

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return Pending.of(Observation(self.text()))


class NeverAnswers(Shed):
    """Leaves what it is asked for in flight."""

    def survey(self) -> Pending[Observation]:
        return Pending()


class StartsAnywhere(Shed):
    """Starts otherwise at every reset, whatever the seed."""

    def __init__(self) -> None:
        super().__init__()
        self.resets = 0

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self.resets += 1
        return super().reset()

    def text(self) -> str:
        return f"{super().text()} It is day {self.resets}."


class StaysAsItIs(Shed):
    """Does not go back to its start."""

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.of(Observation(self.text() + (" You hold a rake." if self.taken else "")))


class ResetsToNothing(Shed):
    """Says nothing of its start, as worlds once did."""

    def reset(self, seed: int | None = None) -> Pending[Any]:
        self.open = self.taken = False
        return Pending.of(None)


class Offers(Shed):
    """Offers some skills."""

    def __init__(self, *skills: str) -> None:
        super().__init__()
        self.skills = skills

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.of(self.skills)


class Scores(Shed):
    """Has a score."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.scored = score

    def score(self) -> Pending[Score | None]:
        return Pending.of(self.scored)


class CannotBeStopped(Shed):
    """Returns what cannot be cancelled, and never ends."""

    def execute(self, skill: str) -> Pending[Observation]:
        if skill == "open door 1" and self.taken:
            pending = Pending[Observation]()
            pending.set_running_or_notify_cancel()
            return pending
        return super().execute(skill)


class NeverRests(Shed):
    """Does not say when what was cancelled has ended."""

    def at_rest(self) -> Pending[None]:
        return Pending()


class ClosesOnce(Shed):
    """Cannot be closed twice."""

    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("is closed")
        self.closed = True


class SaysOtherWords(Shed):
    """Begins its observations otherwise than its household says."""

    def text(self) -> str:
        return "Welcome to the shed."


class SaysNoOutcome(Shed):
    """Calls an outcome by a text."""

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.of(replace(super().execute(skill).take(), outcome="done"))  # type: ignore[arg-type]


class NoHousehold(Shed):
    household = None  # type: ignore[assignment]


class OneWord(Shed):
    recallable = "rake"


class Pair(Shed, SharedWorld):
    """A shed with two robots."""

    def __init__(self, **others: Any) -> None:
        super().__init__()
        self.others = others or {"one": self, "two": Member()}

    def team(self) -> Mapping[str, SharedWorld]:
        return self.others


class Member(Shed, SharedWorld):
    pass


class SaysNoUse(Member):
    def use(self, skill: str) -> Use:
        return skill  # type: ignore[return-value]


class UsesNothingNamed(Member):
    def use(self, skill: str) -> Use:
        return Use(places=("",))


class Heedless(Member):
    def heed(self, right_of_way: RightOfWay) -> None:
        raise WorldError("no company, please")


class LeavesTheOther(Pair):
    """Leaves what its second robot is asked for in flight."""

    def __init__(self) -> None:
        super().__init__(one=Member(), two=Stuck())


class Stuck(Member):
    def execute(self, skill: str) -> Pending[Observation]:
        return Pending()


class OnePlace(Member):
    places = "door"


class NoTeam(Member):
    def team(self) -> Mapping[str, SharedWorld]:
        return ["one", "two"]  # type: ignore[return-value]


def test_a_world_of_several_robots_keeps_to_the_port() -> None:
    assert check_world(Pair()) == []
    assert check_world(SkillTimeLimit(Pair(), 10.0)) == []


@pytest.mark.parametrize(
    ("world", "problem"),
    [
        (NoTeam(), "team gives ['one', 'two']; it must be robots by name, each a SharedWorld"),
        (Pair(one=Shed(), two=Shed()), "it must be robots by name, each a SharedWorld"),
        (Pair(one=Member()), "team names 'one' alone; it must be empty if there is one robot"),
        (Pair(**{"one": Member(), " ": Member()}), "team calls a robot ' ', which is no name"),
        (Pair(one=Member(), two=SaysNoUse()), "gives 'open door 1'; it must be a Use"),
        (Pair(one=Member(), two=UsesNothingNamed()), "it must be a Use that names things, places and ways"),
        (Pair(one=Member(), two=Heedless()), "heed raises WorldError: no company, please"),
        (LeavesTheOther(), "a skill of 'two' did not settle within 0.2 s"),
        (OnePlace(), "places is 'door', which are no words"),
        (Blocks(), "'levitate' did not return within 0.2 s; return a pending result and settle it later"),
        (Guesses(), "'levitate' is no skill of this world, but it was not refused"),
        (RefusesButMoves(), "'open door 1' was refused, but the world is not as it was"),
        (Raises(), "'levitate' raises WorldError: no such skill; let its pending result fail instead"),
        (FailsOnWhatItDoesNotKnow(), "'levitate' failed: no such skill"),
        (Bug(), "observe failed with KeyError: 'door', which is no WorldError"),
        (NeverAnswers(), "survey did not settle within 0.2 s"),
        (StartsAnywhere(), "two resets with the seed 0 give different first observations"),
        (StaysAsItIs(), "reset does not bring the world back: another first observation than before the skills"),
        (ResetsToNothing(), "reset gives None, which is no Observation"),
        (Offers(), "available_skills lists nothing"),
        (Offers("open door 1", "open door 1"), "available_skills lists 'open door 1' 2 times"),
        (Offers("lock door 1"), "the skill 'lock door 1' begins with none of the household's actions"),
        (
            Offers("open Door (1)"),
            "the skill 'open Door (1)' does not name a thing as the household does: '{word} {instance}'",
        ),
        (Offers("open window 1"), "available_skills lists 'open window 1', which the world then does not know"),
        (Scores(Score(1.0, 0.5)), "the goal is reached where all of its conditions hold, and only there"),
        (Scores(Score(0.0, 1.5)), "gsr must be 0 or 1, and ssr between them"),
        (CannotBeStopped(), "'open door 1' was cancelled, but its pending result is not settled"),
        (NeverRests(), "at_rest did not settle within 0.2 s"),
        (ClosesOnce(), "a second close raises RuntimeError: is closed"),
        (SaysOtherWords(), "which does not begin with the household's start line 'You are in a shed'"),
        (SaysNoOutcome(), "gives an observation whose outcome is 'done', which is no Outcome"),
        (NoHousehold(), "household is None, which is no Household"),
        (OneWord(), "recallable is 'rake', which are no words"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, World) else "",
)
def test_what_a_world_does_wrong_is_named(world: World, problem: str) -> None:
    never = isinstance(world, Blocks | NeverAnswers | LeavesTheOther | NeverRests | CannotBeStopped)
    problems = check_world(
        world, at_once=SHORT if isinstance(world, Blocks) else LONG, timeout=SHORT if never else LONG
    )
    assert any(problem in one for one in problems), problems
    if isinstance(world, Blocks):
        world.opened.set()


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (SimpleNamespace(instruction="Take the rake", task_name="take"), ""),
        (SimpleNamespace(task_name="take"), "the task's instruction is None, which is no text"),
        (SimpleNamespace(instruction="Take the rake", task_name=""), "the task's task_name is '', which is no text"),
        (
            SimpleNamespace(instruction="Take the rake", task_name="take", asks_for=lambda said: False),
            "the task does not ask for its own instruction, 'Take the rake'",
        ),
    ],
)
def test_a_task_says_what_it_asks_for(task: object, problem: str) -> None:
    assert check_world(Shed(), task=task) == [*filter(None, [problem])]


class Finite(Shed):
    """Offers the rake alone, and nothing once it is taken."""

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.of(() if self.taken else ("take rake 1",))


def test_a_world_may_have_no_skills_left() -> None:
    assert check_world(Finite()) == []


class Closes(Shed):
    """Counts how often it was closed, and may not know the rest."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class ClosesButBroken(Closes):
    def score(self) -> Pending[Score | None]:
        raise ZeroDivisionError


@pytest.mark.parametrize(("world", "times"), [(Closes(), 2), (ClosesButBroken(), 1)])
def test_a_world_is_closed_also_where_the_check_could_not_go_on(world: Closes, times: int) -> None:
    check_world(world)
    assert world.closed == times


def test_a_world_that_cannot_be_reset_may_say_so() -> None:
    class Robot(Shed):
        def reset(self, seed: int | None = None) -> Pending[Observation]:
            return Pending.failed(WorldError("a robot does not tidy up"))

    assert check_world(Robot()) == []
