"""Each rule for the cause of a failure, on a few events."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactree_lab.bench.events import ACT, REFUSED_ACT, Event, told_by
from reactree_lab.bench.failures import RULES, Cause, Verdict, verdict
from reactree_lab.bench.goal import Condition, Goal, read_goal
from reactree_lab.bench.job_runner import GOAL, RECORD, Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job, Key
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
    def of(*events: Event) -> Cause:
        return verdict(instruction=INSTRUCTION, end="failure", goal=None, events=events).cause

    assert of() is Cause.NOTHING_DONE
    assert of(GO, GO, GO) is Cause.EXECUTION_REPEAT
    assert of(GO, FRIDGE) is Cause.UNKNOWN


def test_a_run_without_an_action_did_nothing() -> None:
    assert judged(Event(1, "", "think", "Think: hm")).cause is Cause.NOTHING_DONE


@pytest.mark.parametrize(
    ("instruction", "what"),
    [
        ("Put a fruit on the kitchen table", None),  # the lexicon knows one fruit
        ("Put something sweet on the kitchen table", "apple"),
        ("Put 1 apple on the table", "kitchen table"),
        ("Bring me an apple", "kitchen table"),
    ],
)
def test_ambiguous_is_what_is_not_named_by_a_word_of_its_own(instruction: str, what: str | None) -> None:
    found = judged(SEES_APPLE, instruction=instruction)
    if what is None:
        assert found.cause is not Cause.AMBIGUOUS
    else:
        assert found == Verdict(Cause.AMBIGUOUS, f"the instruction does not clearly name the {what}")


def test_ambiguous_is_a_word_for_several_things() -> None:
    wine = goal(Condition("on", "wine", "kitchen table", 1, 0))
    assert judged(GO, instruction="Put a drink on the kitchen table", of=wine).cause is Cause.AMBIGUOUS
    assert judged(GO, instruction="Put a bottle of wine on the kitchen table", of=wine).cause is not Cause.AMBIGUOUS


def test_expand_missing_is_that_no_subgoal_names_the_thing() -> None:
    found = judged(GO, expand("find and pick up the plate", "put it on the kitchen table"))
    assert found == Verdict(Cause.EXPAND_MISSING, "no subgoal names the apple")


def test_expand_wrong_is_a_subgoal_about_something_that_nobody_asked_for() -> None:
    found = judged(GO, expand("find the apple in the fridge", "find and pick up the mug"))
    assert found == Verdict(Cause.EXPAND_WRONG, "the subgoal 'find and pick up the mug' names the mug")
    assert judged(GO, expand("find the apple in the fridge")).cause is Cause.SEARCH_SAME_ROOM


def test_search_same_room_is_that_only_one_room_of_several_was_looked_into() -> None:
    found = judged(GO, FRIDGE, act("go to kitchen cabinet 1", "kitchen cabinet 1"))
    assert found == Verdict(Cause.SEARCH_SAME_ROOM, "no apple was seen, and only the kitchen 1 was looked into")
    assert judged(GO, act("go to bedroom 1", outcome="execution")).cause is Cause.SEARCH_SAME_ROOM


def test_search_revisit_is_that_half_of_the_walks_went_to_known_places() -> None:
    found = judged(BEDROOM, FRIDGE, TABLE, FRIDGE, TABLE)
    assert found == Verdict(Cause.SEARCH_REVISIT, "no apple was seen; 2 of 4 walks went to known places")


def test_search_plan_fail_is_every_other_search_that_did_not_find_it() -> None:
    found = judged(BEDROOM, FRIDGE, TABLE, FRIDGE)
    assert found == Verdict(Cause.SEARCH_PLAN_FAIL, "no apple was seen in 2 of 2 rooms, at 2 places")


def test_execution_repeat_is_the_same_action_three_times_in_a_row() -> None:
    refused = Event(0, "", REFUSED_ACT, "pick up apple 1")
    found = judged(SEES_APPLE, refused, act("pick up apple 1", outcome="precondition"), refused)
    assert found == Verdict(Cause.EXECUTION_REPEAT, "'pick up apple 1' was said 3 times in a row")
    assert judged(SEES_APPLE, refused, refused, GO, refused).cause is Cause.EXECUTION_SKIPPING


def test_execution_confusion_is_another_thing() -> None:
    found = judged(SEES_APPLE, act("pick up pear 1", "pear 1"))
    assert found == Verdict(Cause.EXECUTION_CONFUSION, "it picked up pear 1, which the goal does not ask for")
    refused = act("pick up pear 1", outcome="precondition")
    assert judged(SEES_APPLE, refused).cause is Cause.EXECUTION_SKIPPING


def test_execution_confusion_is_another_place() -> None:
    wrong = act("put down apple 1", "apple 1", place="coffee table 1")
    found = judged(SEES_APPLE, PICKS_UP, wrong)
    assert found == Verdict(Cause.EXECUTION_CONFUSION, "it put apple 1 in or on coffee table 1, not the kitchen table")
    right = act("put down apple 1", "apple 1", place="kitchen table 2")
    assert judged(SEES_APPLE, PICKS_UP, wrong, PICKS_UP, right).cause is Cause.EXECUTION_SKIPPING


def test_execution_confusion_is_that_all_is_done_but_at_several_places() -> None:
    two = goal(Condition("on", "apple", "kitchen table", 1, 1), Condition("on", "plate", "kitchen table", 1, 1))
    assert judged(SEES_APPLE, of=two) == Verdict(Cause.EXECUTION_CONFUSION, "all is done, but not at one kitchen table")


def test_execution_skipping_is_that_it_was_seen_and_left() -> None:
    assert judged(SEES_APPLE) == Verdict(
        Cause.EXECUTION_SKIPPING, "one was seen, but this does not hold: 1 apple on the kitchen table"
    )


def test_what_is_to_be_moved_comes_before_what_is_to_be_turned_on() -> None:
    washing = goal(Condition("turnOn", "", "dishwasher", 1, 0), Condition("inside", "plate", "dishwasher", 1, 0))
    instruction = "Put the plate into the dishwasher and turn it on"
    assert judged(GO, BEDROOM, instruction=instruction, of=washing).reason.startswith("no plate was seen")
    on = goal(Condition("turnOn", "", "dishwasher", 1, 0), Condition("inside", "plate", "dishwasher", 1, 1))
    found = judged(act("go to kitchen 1", "dishwasher 1"), instruction=instruction, of=on)
    assert found == Verdict(Cause.EXECUTION_SKIPPING, "one was seen, but this does not hold: turn on the dishwasher")


def test_every_cause_has_its_rule() -> None:
    assert list(RULES) == list(Cause)


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
