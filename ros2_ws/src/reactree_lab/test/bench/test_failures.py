"""Each rule for the cause of a failure, on a few events."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactree_lab.bench.failures import RULES, Cause, Verdict, verdict
from reactree_lab.bench.job_runner import GOAL, RECORD, Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job, Key
from reactree_lab.bench.results import ACT, REFUSED_ACT, Condition, Event, Goal, read_goal, told_by
from reactree_ros.record.reader import read_record

INSTRUCTION = "Put 1 apple on the kitchen table"
APPLE = Condition("on", "apple", "kitchen table", 1, 0)
ROOMS = ("kitchen 1", "bedroom 1")


def goal(*conditions: Condition) -> Goal:
    return Goal(conditions or (APPLE,), ROOMS, "kitchen 1")


def act(skill: str, *seen: str, outcome: str = "done", room: str = "kitchen 1", place: str = "") -> Event:
    return Event(0, "", ACT, skill, outcome=outcome, room=room if seen else "", place=place, seen=seen)


def expand(*subgoals: str) -> Event:
    return Event(0, "", "expand", "", subgoals=subgoals)


def judged(*events: Event, instruction: str = INSTRUCTION, of: Goal | None = None) -> Verdict:
    return verdict(instruction=instruction, end="failure", goal=of or goal(), events=events)


GO, FRIDGE = act("go to kitchen 1", "fridge 1"), act("go to fridge 1", "fridge 1", place="fridge 1")
TABLE = act("go to kitchen table 1", "kitchen table 1", place="kitchen table 1")
BEDROOM = act("go to bedroom 1", "bed 1", room="bedroom 1")
SEES_APPLE = act("open fridge 1", "fridge 1", "apple 1", place="fridge 1")
PICKS_UP = act("pick up apple 1", "apple 1")


def test_a_context_that_is_full_comes_before_every_other_cause() -> None:
    found = verdict(instruction=INSTRUCTION, end="context_full", goal=None, events=[act("go to kitchen 1")] * 3)
    assert found == Verdict(Cause.CONTEXT_FULL, "the prompt did not fit any more after 0 decisions")
    late = Event(12, "", "think", "Think: hm")
    assert "after 12 decisions" in verdict(instruction="", end="context_full", goal=goal(), events=[GO, late]).reason


def test_where_the_suite_tells_no_goal_only_what_needs_none_is_judged() -> None:
    def cause(*events: Event) -> Cause:
        return verdict(instruction=INSTRUCTION, end="failure", goal=None, events=events).cause

    assert cause() is Cause.NOTHING_DONE
    assert cause(GO, GO, GO) is Cause.EXECUTION_REPEAT
    assert cause(GO, FRIDGE) is Cause.UNKNOWN


REFUSED_TAKE = Event(0, "", REFUSED_ACT, "pick up apple 1")
WRONG = act("put down apple 1", "apple 1", place="coffee table 1")
RIGHT = act("put down apple 1", "apple 1", place="kitchen table 2")


@pytest.mark.parametrize(
    ("events", "cause", "reason"),
    [
        ([Event(1, "", "think", "Think: hm")], Cause.NOTHING_DONE, ""),
        ([GO, expand("find and pick up the plate", "put it on the kitchen table")], Cause.EXPAND_MISSING, "the apple"),
        (
            [GO, expand("find the apple in the fridge", "find and pick up the mug")],
            Cause.EXPAND_WRONG,
            "the subgoal 'find and pick up the mug' names the mug",
        ),
        ([GO, expand("find the apple in the fridge")], Cause.SEARCH_SAME_ROOM, ""),
        ([GO, FRIDGE], Cause.SEARCH_SAME_ROOM, "no apple was seen, and only the kitchen 1 was looked into"),
        ([GO, act("go to bedroom 1", outcome="execution")], Cause.SEARCH_SAME_ROOM, ""),
        ([BEDROOM, FRIDGE, TABLE, FRIDGE, TABLE], Cause.SEARCH_REVISIT, "2 of 4 walks went to known places"),
        ([BEDROOM, FRIDGE, TABLE, FRIDGE], Cause.SEARCH_PLAN_FAIL, "no apple was seen in 2 of 2 rooms, at 2 places"),
        (
            [SEES_APPLE, REFUSED_TAKE, act("pick up apple 1", outcome="precondition"), REFUSED_TAKE],
            Cause.EXECUTION_REPEAT,
            "'pick up apple 1' was said 3 times in a row",
        ),
        ([SEES_APPLE, REFUSED_TAKE, REFUSED_TAKE, GO, REFUSED_TAKE], Cause.EXECUTION_SKIPPING, ""),
        (
            [SEES_APPLE, act("pick up pear 1", "pear 1")],
            Cause.EXECUTION_CONFUSION,
            "it picked up pear 1, which the goal does not ask for",
        ),
        ([SEES_APPLE, act("pick up pear 1", outcome="precondition")], Cause.EXECUTION_SKIPPING, ""),
        (
            [SEES_APPLE, PICKS_UP, WRONG],
            Cause.EXECUTION_CONFUSION,
            "it put apple 1 in or on coffee table 1, not the kitchen table",
        ),
        ([SEES_APPLE, PICKS_UP, WRONG, PICKS_UP, RIGHT], Cause.EXECUTION_SKIPPING, ""),
        ([SEES_APPLE], Cause.EXECUTION_SKIPPING, "but this does not hold: 1 apple on the kitchen table"),
    ],
)
def test_the_first_rule_that_applies_gives_the_cause(events: list[Event], cause: Cause, reason: str) -> None:
    found = judged(*events)
    assert (found.cause, reason in found.reason) == (cause, True)


WINE = goal(Condition("on", "wine", "kitchen table", 1, 0))


@pytest.mark.parametrize(
    ("instruction", "of", "what"),
    [
        ("Put a fruit on the kitchen table", goal(), ""),  # the lexicon knows one fruit
        ("Put something sweet on the kitchen table", goal(), "apple"),
        ("Put 1 apple on the table", goal(), "kitchen table"),
        ("Bring me an apple", goal(), "kitchen table"),
        ("Put a drink on the kitchen table", WINE, "wine"),
        ("Put a bottle of wine on the kitchen table", WINE, ""),
    ],
)
def test_ambiguous_is_what_is_not_named_by_a_word_of_its_own(instruction: str, of: Goal, what: str) -> None:
    found = judged(SEES_APPLE, instruction=instruction, of=of)
    assert (found.cause is Cause.AMBIGUOUS, what in found.reason) == (bool(what), True)


DISH = ("inside", "plate", "dishwasher", 1)


@pytest.mark.parametrize(
    ("conditions", "seen", "reason"),
    [
        ([("turnOn", "", "dishwasher", 1, 0), (*DISH, 0)], "fridge 1", "no plate was seen"),
        ([("turnOn", "", "dishwasher", 1, 0), (*DISH, 1)], "dishwasher 1", "not hold: turn on the dishwasher"),
        ([("turnOn", "", "dishwasher", 1, 1), (*DISH, 1)], "fridge 1", "all is done, but not at one dishwasher"),
    ],
)
def test_what_is_to_be_moved_comes_before_what_is_to_be_turned_on(
    conditions: list[tuple[str, str, str, int, int]], seen: str, reason: str
) -> None:
    washing = goal(*(Condition(*one) for one in conditions))
    instruction = "Put the plate into the dishwasher and turn it on"
    assert reason in judged(act("go to kitchen 1", seen), instruction=instruction, of=washing).reason


def test_every_cause_has_its_rule() -> None:
    assert list(RULES) == list(Cause)


@pytest.mark.slow
def test_a_run_of_the_dataset_whose_instruction_names_another_thing_than_its_goal(wah_nl: Path, tmp_path: Path) -> None:
    tasks = {"tasks": str(wah_nl / "tasks.json")}
    settings = BenchSettings(suite="wah_nl", suite_settings=tasks, planners=("react",))
    task = settings.tasks()[67]
    assert task.instruction == "Put the apple and cupcake on the coffee table"  # and the goal has a pudding
    finished = JobRunner(settings).carry_out(Job(Key("wah_nl", 67, "react", 0), task))
    assert isinstance(finished, Finished)
    for name in (RECORD, GOAL):
        (tmp_path / name).write_bytes(finished.files[name])
    goal, events = read_goal(tmp_path / GOAL), told_by(read_record(tmp_path / RECORD).events).events
    assert [str(one) for one in goal.unmet] == ["1 pudding on the coffee table"]
    found = verdict(instruction=finished.line.instruction, end=finished.line.end, goal=goal, events=events)
    assert found == Verdict(Cause.AMBIGUOUS, "the instruction does not clearly name the pudding")
    assert finished.line.actions == sum(event.is_action for event in events) > 0
