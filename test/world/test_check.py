"""Does a world keep to the port? The check on our own worlds, and on worlds that do one thing wrong each."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from reactree_ros.agent.skill import Offer, Offered, Skill
from reactree_ros.agent.transcript import parse_transcript
from reactree_ros.background.pending import Pending, where_late
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Household, Observation, Outcome, Score, SharedWorld, Use, World, WorldError
from reactree_ros.world.recorded import RecordedWorld
from reactree_ros.world.skill_policy import Rule, SkillPolicy, Verdict
from reactree_ros.world.wrappers import PolicyGuard, SkillTimeLimit, WorldWrapper

SHORT = 0.2  # for what never comes, in seconds
LONG = 30.0  # for everything else


class Shed(World):
    household = Household(name="shed", actions=("open", "close", "take"), start_line="You are in a shed")
    recallable: Sequence[str] = ("rake",)

    def __init__(self) -> None:
        self.open = False
        self.taken = False

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self.open = self.taken = False
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation(self.text()))

    def text(self) -> str:
        return f"You are in a shed. The door is {'open' if self.open else 'closed'}."

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(("open door 1", "close door 1", "take rake 1"))

    def execute(self, skill: str) -> Pending[Observation]:
        if skill not in ("open door 1", "close door 1", "take rake 1"):
            return Pending.ready(Observation("There is no such skill.", Outcome.UNKNOWN_SKILL))
        if skill == "take rake 1":
            if self.taken:
                return Pending.ready(Observation("You have it.", Outcome.PRECONDITION))
            self.taken = True
        else:
            self.open = skill == "open door 1"
        return Pending.ready(Observation("Done."))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(Score(gsr=float(self.taken), ssr=float(self.taken)))


@pytest.mark.parametrize("house", HOUSES)
def test_the_symbolic_world_keeps_to_the_port(house: str) -> None:
    for task in load_tasks(HOUSES[house]):
        assert check_world(SymbolicWorld(task), tries=60, at_once=LONG) == []
        assert check_world(SymbolicWorld(task, scored=False), at_once=LONG) == []
        assert check_world(SymbolicWorld(task, robots=2), at_once=LONG) == []


def test_a_world_of_somebody_else_keeps_to_the_port() -> None:
    assert check_world(Shed(), at_once=LONG) == []


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
        PolicyGuard(Shed(), ALL, lambda skill, reason: Pending.ready("")),
        PolicyGuard(Shed(), ALL, lambda skill, reason: Pending.ready("not now")),
        SkillTimeLimit(PolicyGuard(Shed(), ALL, lambda skill, reason: Pending.ready("")), 10.0),
    ],
)
def test_a_wrapped_world_keeps_to_the_port(wrapped: World) -> None:
    assert check_world(wrapped, at_once=LONG) == []


def test_a_recording_is_no_world_to_try_things_in() -> None:
    """It does not say what else could have been done: whatever is not next in it is an error there."""
    transcript = parse_transcript(
        "Your task is to: look\nYou are in the house, and there are 1 rooms: kitchen (1).\nAct: done"
    )
    assert check_world(RecordedWorld([transcript], WAH_NL)) == ["available_skills lists nothing"]


def does(text: str, outcome: Outcome = Outcome.DONE) -> Pending[Observation]:
    return Pending.ready(Observation(text, outcome))


def fails(error: Exception) -> Any:
    def raises(*_: object) -> Any:
        raise error

    return raises


def refuses_but_moves(self: Shed, skill: str) -> Pending[Observation]:
    Shed.execute(self, skill)
    return does("You cannot do that.", Outcome.PRECONDITION)


def cannot_be_stopped(self: Shed, skill: str) -> Pending[Observation]:
    pending = Pending[Observation]()
    pending.set_running_or_notify_cancel()
    return pending if skill == "open door 1" and self.taken else Shed.execute(self, skill)


def levitating(instead: Any) -> Any:
    """Do something else where a skill is asked for that the world does not know."""
    return lambda self, skill: instead() if skill.startswith("levitate") else Shed.execute(self, skill)


def skills(*offered: str) -> dict[str, Any]:
    return {"available_skills": lambda self: Pending.ready(offered)}


def score(*of: float) -> dict[str, Any]:
    return {"score": lambda self: Pending.ready(Score(*of))}


class Pair(Shed, SharedWorld):
    def __init__(self, **others: Any) -> None:
        super().__init__()
        self.others = others or {"one": self, "two": Member()}

    def team(self) -> Mapping[str, SharedWorld]:
        return self.others


class Member(Shed, SharedWorld):
    pass


def but(kind: type[Shed] = Shed, **own: Any) -> Shed:
    return type("But", (kind,), own)()


def never(*_: object) -> Pending[Any]:
    return Pending()


DAYS, CLOSED, OPENED = itertools.count(), list[None](), threading.Event()
NO_SKILL = WorldError("no such skill")
#: What a world does wrong, and how that is said; and of those in which something never settles.
WRONG: list[tuple[World, str]] = [
    (but(Member, team=lambda self: ["one"]), "team gives ['one']; it must be robots by name, each a SharedWorld"),
    (Pair(one=Shed(), two=Shed()), "it must be robots by name, each a SharedWorld"),
    (Pair(one=Member()), "team names 'one' alone; it must be empty if there is one robot"),
    (Pair(**{"one": Member(), " ": Member()}), "team calls a robot ' ', which is not a name"),
    (Pair(one=Member(), two=but(Member, use=lambda self, skill: skill)), "gives 'open door 1'; it must be a Use"),
    (
        Pair(one=Member(), two=but(Member, use=lambda self, skill: Use(places=("",)))),
        "it must be a Use that names things, places and ways",
    ),
    (Pair(one=Member(), two=but(Member, heed=fails(WorldError("no company")))), "heed raises WorldError: no company"),
    (but(Member, places="door"), "places is 'door', which are not words"),
    (
        but(execute=lambda self, skill: Shed.execute(self, "open door 1" if "door" in skill else "take rake 1")),
        "'levitate' is not a skill of this world, but it was not refused",
    ),
    (but(execute=refuses_but_moves), "'open door 1' was refused, but the world is not as it was"),
    (
        but(execute=levitating(fails(NO_SKILL))),
        "'levitate' raises WorldError: no such skill; let its pending result fail instead",
    ),
    (but(execute=levitating(lambda: Pending.failed(NO_SKILL))), "'levitate' failed: no such skill"),
    (
        but(observe=lambda self: Pending.failed(KeyError("door")), reset=lambda self, seed: does(self.text())),
        "observe failed with KeyError: 'door', which is not a WorldError",
    ),
    (
        but(reset=lambda self, seed: does(f"{self.text()} It is day {next(DAYS)}.")),
        "two resets with the seed 0 give different first observations",
    ),
    (
        but(
            reset=lambda self, seed: self.observe(),
            observe=lambda self: does(self.text() + (" You hold a rake." if self.taken else "")),
        ),
        "reset does not bring the world back: another first observation than before the skills",
    ),
    (but(reset=lambda self, seed: Pending.ready(None)), "reset gives None, which is not an Observation"),
    (but(**skills()), "available_skills lists nothing"),
    (but(**skills("open door 1", "open door 1")), "available_skills lists 'open door 1' 2 times"),
    (but(**skills("lock door 1")), "the skill 'lock door 1' begins with none of the household's actions"),
    (
        but(**skills("open Door (1)")),
        "the skill 'open Door (1)' does not name a thing as the household does: '{word} {instance}'",
    ),
    (but(**skills("open window 1")), "available_skills lists 'open window 1', which the world then does not know"),
    (but(**score(1.0, 0.5)), "the goal is reached where all of its conditions hold, and only there"),
    (but(**score(0.0, 1.5)), "gsr must be 0 or 1, and ssr between them"),
    (
        but(close=lambda self: fails(RuntimeError("is closed"))() if CLOSED else CLOSED.append(None)),
        "a second close raises RuntimeError: is closed",
    ),
    (
        but(text=lambda self: "Welcome to the shed."),
        "which does not begin with the household's start line 'You are in a shed'",
    ),
    (
        but(execute=lambda self, skill: Pending.ready(replace(Shed.execute(self, skill).take(), outcome="done"))),  # type: ignore[arg-type]
        "gives an observation whose outcome is 'done', which is not an Outcome",
    ),
    (but(household=None), "household is None, which is not a Household"),
    (but(recallable="rake"), "recallable is 'rake', which are not words"),
]
NEVER: list[tuple[World, str]] = [
    (Pair(one=Member(), two=but(Member, execute=never)), "a skill of 'two' did not settle within 0.2 s"),
    (but(survey=never), "survey did not settle within 0.2 s"),
    (but(execute=cannot_be_stopped), "'open door 1' was cancelled, but its pending result is not settled"),
    (but(at_rest=never), "at_rest did not settle within 0.2 s"),
]


class Talker(Shed):
    """Goes on and talks at the same time; ``at_once``: it ends all that is under way if one thing is cancelled."""

    household = Household(
        name="talker",
        start_line="You are in a shed",
        skills=(
            Skill(name="drive", wording="drive", uses=frozenset({"base"})),
            Skill(name="say", wording="say hello", uses=frozenset({"voice"})),
        ),
    )

    def __init__(self, *, at_once: bool = False) -> None:
        super().__init__()
        self.at_once, self.doing = at_once, set[Pending[Observation]]()

    def available_skills(self) -> Pending[Sequence[Offered]]:  # type: ignore[override]
        return Pending.ready([Offer(skill) for skill in self.household.skills])

    def execute(self, skill: str) -> Pending[Observation]:
        if skill not in ("drive", "say hello"):
            return super().execute(skill)
        doing = Pending[Observation]()
        doing.add_done_callback(lambda _: self.doing.discard(doing))
        if self.at_once:
            doing.add_done_callback(lambda _: [one.cancel() for one in list(self.doing)] if doing.cancelled() else None)
        self.doing.add(doing)
        where_late(doing, 0.01, lambda late: late.succeed(Observation("Done.")))
        return doing


def test_a_world_whose_skills_run_together_keeps_to_the_port() -> None:
    assert check_world(Talker(), at_once=LONG) == []
    assert check_world(Talker(at_once=True)) == ["'drive' beside 'say hello' was cancelled by the world itself"]


def test_a_world_of_several_robots_keeps_to_the_port() -> None:
    assert check_world(Pair(), at_once=LONG) == []
    assert check_world(SkillTimeLimit(Pair(), 10.0), at_once=LONG) == []


@pytest.mark.parametrize(
    ("world", "problem"), [*WRONG, *NEVER], ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_a_world_does_wrong_is_named(world: World, problem: str) -> None:
    is_late = any(world is one for one, _ in NEVER)
    problems = check_world(world, at_once=LONG, timeout=SHORT if is_late else LONG)
    assert any(problem in one for one in problems), problems


def test_a_world_that_lets_whoever_calls_wait_is_named() -> None:
    problems = check_world(but(execute=lambda self, skill: OPENED.wait(10.0)), at_once=SHORT, timeout=SHORT)
    assert "'levitate' did not return within 0.2 s; return a pending result and settle it later" in problems
    OPENED.set()


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (SimpleNamespace(instruction="Take the rake", task_name="take"), ""),
        (SimpleNamespace(task_name="take"), "the task's instruction is None, which is not text"),
        (SimpleNamespace(instruction="Take the rake", task_name=""), "the task's task_name is '', which is not text"),
        (
            SimpleNamespace(instruction="Take the rake", task_name="take", asks_for=lambda said: False),
            "the task does not ask for its own instruction, 'Take the rake'",
        ),
    ],
)
def test_a_task_says_what_it_asks_for(task: object, problem: str) -> None:
    assert check_world(Shed(), task=task) == [*filter(None, [problem])]


def test_a_world_may_have_no_skills_left() -> None:
    offered = {"available_skills": lambda self: Pending.ready(() if self.taken else ("take rake 1",))}
    assert check_world(but(**offered), at_once=LONG) == []


@pytest.mark.parametrize(("broken", "times"), [({}, 2), ({"score": fails(ZeroDivisionError())}, 1)])
def test_a_world_is_closed_also_where_the_check_could_not_go_on(broken: dict[str, Any], times: int) -> None:
    closed = list[object]()
    check_world(but(close=lambda self: closed.append(self), **broken))
    assert len(closed) == times


def test_a_world_that_cannot_be_reset_may_say_so() -> None:
    assert (
        check_world(but(reset=lambda self, seed: Pending.failed(WorldError("a robot does not tidy up"))), at_once=LONG)
        == []
    )
