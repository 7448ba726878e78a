"""A routine as a skill of a world: its steps go to the world, and what becomes of them is what the skill comes to."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest
from doubles import ScriptedModel, ScriptedWorld
from routine.any_routine import DECLARED

from reactree_ros.agent.household import Household
from reactree_ros.agent.skill import Offer, Skill, wait_skill
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.spec import planner
from reactree_ros.routine import model
from reactree_ros.routine import skills as module
from reactree_ros.routine.fitting import Kept
from reactree_ros.routine.model import Routine, RoutineError
from reactree_ros.routine.skills import RoutineSkills
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Offered, Outcome, Seen, WorldError
from reactree_ros.world.skill_policy import Rule, SkillPolicy, Verdict
from reactree_ros.world.wrappers import PolicyGuard

PAPER, LOOK = "it has paper", "wait until it has paper for up to 0 s"
GO = {"kind": "skill", "wording": "go to {place}"}
PICK = {"kind": "skill", "wording": "pick up {thing}"}


def a(text: str) -> dict[str, Any]:
    return {"kind": "skill", "wording": text}


def flow(kind: str, *children: Any, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "children": children, **more}


def decorated(does: str, child: Any, times: int = 1) -> dict[str, Any]:
    return {"kind": "decorator", "does": does, "times": times, "child": child}


FETCH = Routine.from_data(
    {
        "name": "fetch",
        "goal": "fetch {thing} from {place}",
        "roles": [{"name": "thing", "kind": "thing"}, {"name": "place", "kind": "place"}],
        "body": flow("sequence", GO, PICK),
    }
)


class Robot(ScriptedWorld):
    """Says what became of each skill by what is scripted for it; else it was done."""

    household = Household(name="robot", skills=(*DECLARED, wait_skill([PAPER])))

    def __init__(self, ends: dict[str, Sequence[Outcome]] | None = None, **given: Any) -> None:
        super().__init__(**given)
        self._ends: dict[str, Iterator[Outcome]] = {skill: iter(each) for skill, each in (ends or {}).items()}

    def available_skills(self) -> Pending[Sequence[Offered]]:  # type: ignore[override]
        go, pick = DECLARED[0], DECLARED[1]
        return Pending.ready(
            [Offer(go, {"thing": ("sink 1", "mug 1")}), Offer(pick, {"thing": ("mug 1",)}), "open fridge 1"]
        )

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        outcome = next(self._ends.get(skill, iter(())), Outcome.DONE)
        return self._pending(skill, Observation(f"{skill}: {outcome.value}.", outcome))


def carried_out(body: Any, ends: dict[str, Sequence[Outcome]] | None = None) -> tuple[Outcome, list[str]]:
    """Return how a skill with such a body ends, and what was asked of the world."""
    robot = Robot(ends)
    routine = Routine.from_data({"name": "do", "goal": "do it", "body": body})
    return RoutineSkills(robot, [routine]).execute("do it").take().outcome, robot.executed


def test_whoever_plans_sees_one_skill_more() -> None:
    world = RoutineSkills(Robot(), [FETCH])
    *others, offer = world.available_skills().take()
    assert isinstance(offer, Offer)
    assert (len(others), str(offer)) == (3, "fetch {thing} from {place}")
    known = ("sink 1", "mug 1", "fridge 1")
    assert offer.now == {"thing": known, "place": known[:2]}  # what is picked up may be there
    picks = Routine.from_data(
        {"name": "take", "goal": "take {thing}", "roles": [{"name": "thing", "kind": "thing"}], "body": PICK}
    )
    *_, offer = RoutineSkills(Robot(), [picks]).available_skills().take()
    assert isinstance(offer, Offer)
    assert offer.now == {"thing": ("mug 1",)}
    assert "fetch" in world.household.actions
    assert world.canonical("fetch mug 1 from sink 1").take() == "fetch mug 1 from sink 1"
    assert world.use("fetch mug 1 from sink 1").moves
    assert world.execute("go to sink 1").take().text == "go to sink 1: done."


def test_its_steps_are_carried_out_and_told() -> None:
    robot = Robot()
    seen = RoutineSkills(robot, [FETCH]).execute("fetch mug 1 from sink 1").take()
    assert robot.executed == ["go to sink 1", "pick up mug 1"]
    assert (seen.outcome, seen.text) == (Outcome.DONE, "go to sink 1: done. pick up mug 1: done.")


def test_a_step_that_fails_ends_it_and_a_first_refusal_is_a_refusal() -> None:
    for failing, outcome, steps in (("go to sink 1", Outcome.PRECONDITION, 1), ("pick up mug 1", Outcome.EXECUTION, 2)):
        robot = Robot({failing: [Outcome.PRECONDITION]})
        seen = RoutineSkills(robot, [FETCH]).execute("fetch mug 1 from sink 1").take()
        assert (seen.outcome, len(robot.executed)) == (outcome, steps)
        assert seen.text.endswith(f"{failing}: precondition.")


OK, BAD, NOT_YET = [Outcome.DONE], [Outcome.EXECUTION], Outcome.TIMEOUT


@pytest.mark.parametrize(
    ("body", "ends", "outcome", "steps"),
    [
        (flow("fallback", a("close a"), a("close b"), a("close c")), {"close a": BAD}, Outcome.DONE, "ab"),
        (flow("fallback", a("close a"), a("close b")), {"close a": BAD, "close b": BAD}, Outcome.EXECUTION, "ab"),
        (flow("fallback", a("close a"), a("close b")), {"close a": [Outcome.HALTED]}, Outcome.HALTED, "a"),
        (flow("parallel", a("close a"), a("close b")), {"close a": BAD}, Outcome.EXECUTION, "a"),
        (
            flow("parallel", a("close a"), a("close b"), a("close c"), policy="majority"),
            {"close a": BAD},
            Outcome.DONE,
            "abc",
        ),
        (flow("parallel", a("close a"), a("close b"), policy="majority"), {"close b": BAD}, Outcome.EXECUTION, "ab"),
        (flow("fallback", a("close a"), {"kind": "always", "succeeds": True}), {"close a": BAD}, Outcome.DONE, "a"),
        (flow("sequence", {"kind": "always", "succeeds": False}, a("close a")), {}, Outcome.EXECUTION, ""),
        (decorated("invert", a("close a")), {}, Outcome.EXECUTION, "a"),
        (decorated("invert", a("close a")), {"close a": BAD}, Outcome.DONE, "a"),
        (decorated("succeed", a("close a")), {"close a": BAD}, Outcome.DONE, "a"),
        (decorated("succeed", a("close a")), {"close a": [Outcome.HALTED]}, Outcome.HALTED, "a"),
        (decorated("fail", a("close a")), {}, Outcome.EXECUTION, "a"),
        (decorated("retry", a("close a"), 3), {"close a": BAD * 2}, Outcome.DONE, "aaa"),
        (decorated("retry", a("close a"), 3), {"close a": BAD * 9}, Outcome.EXECUTION, "aaa"),
        (decorated("repeat", a("close a"), 3), {}, Outcome.DONE, "aaa"),
        (decorated("repeat", a("close a"), 3), {"close a": OK + BAD}, Outcome.EXECUTION, "aa"),
        (decorated("retry", a("close a"), 0), {"close a": BAD * 5}, Outcome.DONE, "aaaaaa"),
        ({**a("close a"), "expected": "precondition"}, {"close a": [Outcome.PRECONDITION]}, Outcome.DONE, "a"),
        ({**a("close a"), "expected": "precondition"}, {}, Outcome.POSTCONDITION, "a"),
        (flow("repeat until", a("close a"), condition=PAPER), {LOOK: [NOT_YET, NOT_YET]}, Outcome.DONE, "a?a?a?"),
        (flow("repeat until", a("close a"), condition=PAPER), {"close a": BAD}, Outcome.EXECUTION, "a"),
        (flow("while", a("close a"), condition=PAPER), {LOOK: [*OK, *OK, NOT_YET]}, Outcome.DONE, "?a?a?"),
        (flow("while", a("close a"), condition=PAPER), {LOOK: BAD}, Outcome.EXECUTION, "?"),
        ({"kind": "wait for", "condition": PAPER, "seconds": 0}, {LOOK: [NOT_YET]}, Outcome.TIMEOUT, "?"),
        (flow("within", a("close a"), a("close b"), seconds=60), {}, Outcome.DONE, "ab"),
    ],
)
def test_flows_and_decorators_end_as_in_a_tree(
    body: Any, ends: dict[str, Sequence[Outcome]], outcome: Outcome, steps: str
) -> None:
    ended, executed = carried_out(body, ends)
    assert "".join("?" if one == LOOK else one[-1] for one in executed) == steps
    assert ended is outcome


def test_a_long_wait_is_several_waits() -> None:
    waits = {f"wait until {PAPER} for up to {seconds} s": [NOT_YET] * 3 for seconds in (600, 100)}
    ended, executed = carried_out({"kind": "wait for", "condition": PAPER, "seconds": 1300}, waits)
    assert [re.findall("[0-9]+", one) for one in executed] == [["600"], ["600"], ["100"]]
    assert ended is Outcome.TIMEOUT


@pytest.mark.parametrize(
    "body",
    [
        decorated("repeat", a("close a"), 0),
        flow("repeat until", a("close a"), condition=PAPER),
        flow("while", a("close a"), condition=PAPER),
    ],
)
def test_what_goes_round_for_ever_fails_and_says_so(body: Any) -> None:
    routine = Routine.from_data({"name": "do", "goal": "do it", "body": body})
    robot = Robot({LOOK: [NOT_YET if body["kind"] == "repeat until" else Outcome.DONE] * 1000})
    ended = RoutineSkills(robot, [routine]).execute("do it").take()
    assert (ended.outcome, len(robot.executed)) == (Outcome.EXECUTION, module.MOST_STEPS)
    assert ended.text.endswith("It did not end in 1,000 steps.")
    assert len(ended.text) < 100


@pytest.mark.parametrize("times", [0, 10_000])
@pytest.mark.parametrize(
    ("child", "steps"), [(a("close a"), "a"), (flow("sequence", a("close b"), a("close a")), "ba")]
)
def test_a_retry_that_comes_to_the_same_failure_again_and_again_fails(child: Any, steps: str, times: int) -> None:
    ended, executed = carried_out(decorated("retry", child, times), {"close a": BAD * 1000})
    assert ended is Outcome.EXECUTION
    assert "".join(one[-1] for one in executed) == steps * model.MOST_ALIKE


@pytest.mark.parametrize(
    "body",
    [
        decorated("repeat", {"kind": "always", "succeeds": True}, 0),
        decorated("retry", {"kind": "always", "succeeds": False}, 0),
        decorated(
            "repeat", decorated("succeed", decorated("repeat", {"kind": "always", "succeeds": True}, 9999)), 9999
        ),
    ],
)
def test_a_round_in_which_nothing_is_done_ends_a_repetition(body: dict[str, Any]) -> None:
    routine = Routine.from_data({"name": "do", "goal": "do it", "body": body})
    ended = RoutineSkills(robot := Robot(), [routine]).execute("do it").take()
    assert (ended.outcome, robot.executed) == (Outcome.EXECUTION, [])
    assert ended.text.startswith("Nothing was done in a round of a re")


def test_why_it_is_given_up_is_told_beside_what_came_of_its_steps() -> None:
    slips = Routine.from_data({"name": "do", "goal": "do it", "body": decorated("retry", a("close a"), 0)})
    told = RoutineSkills(Robot({"close a": BAD * 99}), [slips]).execute("do it").take().text
    assert told == "close a: execution. close a: close a: execution. A retry came to that 12 times in a row."


def test_what_is_denied_by_what_is_seen_is_a_postcondition() -> None:
    class Slippery(Robot):
        def execute(self, skill: str) -> Pending[Observation]:
            mug = Seen("mug", 1, "kitchen 1", "sink 1")
            return Pending.ready(Observation("You have tried.", seen=(mug,)))

    takes = Routine.from_data({"name": "do", "goal": "do it", "body": a("pick up mug 1")})
    ended = RoutineSkills(Slippery(), [takes]).execute("do it").take()
    assert (ended.outcome, ended.text) == (
        Outcome.POSTCONDITION,
        "You have tried. pick up mug 1: mug 1 is not held",
    )


def test_a_text_stays_one_whatever_stands_in_it() -> None:
    body = flow("sequence", a('say "{words}" in a low voice'))
    roles = [{"name": "words", "kind": "text"}]
    routine = Routine.from_data({"name": "tell", "goal": "tell us {words}", "roles": roles, "body": body})
    robot = Robot()
    RoutineSkills(robot, [routine]).execute('tell us hi" in a loud voice').take()
    assert robot.executed == ['say "hi\\" in a loud voice" in a low voice']


def test_cancelling_it_cancels_the_step_under_way_and_begins_no_other() -> None:
    robot = Robot(settle=False)
    pending = RoutineSkills(robot, [FETCH]).execute("fetch mug 1 from sink 1")
    assert not pending.done()
    assert pending.cancel()
    assert robot.cancelled == {"go to sink 1": 1}
    robot.settle_all()
    assert robot.executed == ["go to sink 1"]
    with pytest.raises(CancelledError):
        pending.take()


@pytest.mark.slow
def test_a_time_that_is_over_cancels_the_step_under_way() -> None:
    body = flow("fallback", flow("within", a("close a"), a("close b"), seconds=1), a("close c"))
    over = threading.Event()

    class Waiting(Robot):
        def execute(self, skill: str) -> Pending[Observation]:
            pending = super().execute(skill)
            if skill == "close c":
                over.set()
            return pending

    robot = Waiting(settle=False)
    routine = Routine.from_data({"name": "do", "goal": "do it", "body": body})
    pending = RoutineSkills(robot, [routine]).execute("do it")
    assert over.wait(30)
    began = [one for one, _ in robot.in_flight if not one.done()]
    assert robot.executed == ["close a", "close c"]
    assert len(began) == 1
    robot.settle_all()
    assert pending.take().text == "'close a' was stopped: its time is over. close c: done."


def test_a_world_that_breaks_breaks_the_skill() -> None:
    class Broken(Robot):
        def execute(self, skill: str) -> Pending[Observation]:
            return Pending.failed(WorldError("it is gone"))

    with pytest.raises(WorldError, match="it is gone"):
        RoutineSkills(Broken(), [FETCH]).execute("fetch mug 1 from sink 1").take()


def test_a_policy_judges_each_step() -> None:
    policy = SkillPolicy((Rule(skill="pick up", verdict=Verdict.DENY), Rule(skill="go to", verdict=Verdict.ALLOW)))
    robot = Robot()
    guarded = RoutineSkills(PolicyGuard(robot, policy, lambda *_: Pending.ready("")), [FETCH_BLIND])
    seen = guarded.execute("clear the sink").take()
    assert seen.outcome is Outcome.EXECUTION
    assert "policy" in seen.text
    assert robot.executed == ["go to sink 1"]


FETCH_BLIND = Routine.from_data(
    {"name": "clear", "goal": "clear the sink", "body": flow("sequence", a("go to sink 1"), a("pick up mug 1"))}
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"body": flow("sequence", GO, PICK, {"kind": "goal", "text": "find it"})}, "a goal cannot be part of a skill"),
        ({"body": flow("sequence", GO, {"kind": "search", "finds": "x", "of": "{thing}"})}, "a search cannot be part"),
        ({"body": flow("sequence", GO)}, "no step in it takes '{thing}' alone"),
        ({"goal": "{thing} from {place}"}, "its goal is not a wording of a skill"),
        ({"name": "pick up"}, "there is a skill of this name already"),
    ],
)
def test_a_routine_that_no_world_can_carry_out_is_refused(change: dict[str, Any], reason: str) -> None:
    routine = Routine.from_data({**FETCH.model_dump(mode="json"), **change})
    with pytest.raises(RoutineError, match=re.escape(reason)):
        RoutineSkills(Robot(), [routine])


@pytest.mark.slow
def test_a_house_with_routines_keeps_to_the_port_and_carries_one_out() -> None:
    task = load_tasks(HOUSES["villa"])[0]
    assert check_world(RoutineSkills(SymbolicWorld(task), [FETCH]), tries=20, at_once=60.0) == []
    world = RoutineSkills(SymbolicWorld(task, robots=2), [FETCH])
    assert check_world(world, at_once=60.0) == []
    world = RoutineSkills(SymbolicWorld(task), [FETCH])
    offer = world.available_skills().take()[-1]
    assert isinstance(offer, Offer)
    thing = next(one for one in offer.now["thing"] if one.rpartition(" ")[0] in world.recallable)
    seen = world.execute(f"fetch {thing} from {thing}").take()
    assert seen.outcome is Outcome.DONE
    assert [f"{one.word} {one.instance}" for one in seen.seen if one.held] == [thing]


NAMES = ("beep", "blink", "bow", "turn")


class Twin(ScriptedWorld):
    household = Household(name="robot", skills=tuple(Skill(name=name, wording=name) for name in NAMES))

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        self._goes_well = {name: [draw.random() < 0.6 for _ in range(200)] for name in NAMES}

    def available_skills(self) -> Pending[tuple[Offered, ...]]:  # type: ignore[override]
        return Pending.ready(NAMES)

    def execute(self, skill: str) -> Pending[Observation]:
        well = self._goes_well[str(skill)][self.executed.count(str(skill))]
        self.executed.append(str(skill))
        return self._pending(skill, Observation(f"{skill}.", Outcome.DONE if well else Outcome.EXECUTION))


def body(draw: random.Random, depth: int = 0) -> Any:
    kind = "skill" if depth > 3 or draw.random() < 0.3 else draw.choice(("flow", "flow", "decorator", "always"))
    if kind == "skill":
        return {"kind": kind, "wording": draw.choice(NAMES)}
    if kind == "always":
        return {"kind": kind, "succeeds": draw.random() < 0.5}
    if kind == "decorator":
        does = draw.choice(("invert", "succeed", "fail", "retry", "repeat"))
        times = draw.randint(1, 3) if does in ("retry", "repeat") else 1
        return {"kind": kind, "does": does, "times": times, "child": body(draw, depth + 1)}
    children = [body(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    more = draw.choice(({"kind": "sequence"}, {"kind": "fallback"}, {"kind": "parallel"}))
    return {**more, "children": children, **draw.choice(({}, {"policy": "majority"} if "par" in more["kind"] else {}))}


@pytest.mark.parametrize("seed", range(40))
def test_the_same_skills_in_the_same_order_to_the_same_end(seed: int, memory: SqliteMemory) -> None:
    routine = Routine.from_data({"name": "dance", "goal": "dance for me", "body": body(random.Random(seed))})
    alone, below = Twin(seed), Twin(seed)
    ended = RoutineSkills(alone, [routine]).execute("dance for me").take()
    Kept(memory).replace(routine.name, routine)
    episode = Episode(
        "dance for me",
        world=below,
        model=ScriptedModel({"dance": ["Act: failure"]}),
        planner=planner("reactree"),
        memory=memory,
        options=TreeOptions(routines=Routines.ON),
    )
    result = episode.run()
    assert below.executed == alone.executed
    assert (result.end == "done") is (ended.outcome is Outcome.DONE)
