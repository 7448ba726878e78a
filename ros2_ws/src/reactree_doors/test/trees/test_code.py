"""Routines as Python: what is written makes the same routine; a tree by hand becomes one, or says what cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import py_trees
import pytest
from py_trees import decorators
from py_trees.behaviour import Behaviour
from py_trees.common import ParallelPolicy
from py_trees.composites import Parallel, Selector, Sequence
from routine.any_routine import DECLARED, AnyRoutine

from reactree_doors.trees.by_hand import Sketch, routine_of
from reactree_doors.trees.code import python_of
from reactree_ros.routine import model
from reactree_ros.routine.model import Routine, RoutineError


def made(source: str) -> Routine:
    module: dict[str, Any] = {}
    exec(compile(source, "routine.py", "exec"), module)
    routine: Routine = module["ROUTINE"]
    return routine


@pytest.mark.slow
def test_300_random_routines_are_the_same_again_as_python() -> None:
    make = AnyRoutine(9, labelled=False)
    for _ in range(300):
        routine = make.make()
        assert made(python_of(routine)) == routine


def test_python_is_what_a_person_would_write() -> None:
    fetched = model.Sequence(
        children=(
            model.Search(finds="box", of="{thing}", order=("kitchen",)),
            model.Decorator(does="retry", times=3, child=model.Skill(wording="pick up {box}")),
            model.Goal(text="Bring {box} to me"),
        )
    )
    roles = (model.Role(name="thing", kind="thing"),)
    source = python_of(Routine(name="fetch", goal="bring me the {thing}", roles=roles, body=fetched))
    assert source.partition('run`."""\n')[2] == (
        "    return composites.Sequence(\n"
        '        "sequence",\n'
        "        memory=True,\n"
        "        children=[\n"
        '            run.search("box", of="{thing}", order=["kitchen"]),\n'
        '            decorators.Retry("retry", run.skill("pick up {box}"), num_failures=3),\n'
        '            run.goal("Bring {box} to me"),\n'
        "        ],\n"
        "    )\n\n\n"
        'ROUTINE = routine_of(fetch, name="fetch", goal="bring me the {thing}", roles={"thing": "thing"})\n\n'
        'if __name__ == "__main__":\n'
        "    print(xml_of(ROUTINE))\n"
    )


def fetching(run: Any) -> Behaviour:
    """The tree of `docs/how-to/trees-of-your-own.md`, which also runs."""
    begun = run.skill("go to", thing="living room 1")
    fetched = Sequence("fetched", memory=True, children=[begun, run.goal(run.subgoal)])
    return Selector("fetching", memory=True, children=[fetched, run.skill("go to bedroom 1")])


def test_a_tree_that_runs_by_hand_is_a_routine_too() -> None:
    routine = routine_of(fetching, goal="Put the book on the bed", skills=DECLARED)
    went = (model.Skill(wording=f"go to {room}") for room in ("living room 1", "bedroom 1"))
    first, last = went
    assert routine.name == "fetching"
    assert routine.body == model.Fallback(
        children=(model.Sequence(children=(first, model.Goal(text="Put the book on the bed"))), last)
    )


def _wait(_: Sketch) -> Behaviour:
    return py_trees.timers.Timer("a while", duration=1.0)


def _one(run: Sketch) -> Behaviour:
    return Parallel("race", policy=ParallelPolicy.SuccessOnOne(), children=[run.skill("dance")])


class _Mine(Sequence):
    pass


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_wait, "behaviour 'a while' is a Timer, which has no counterpart in a routine; there are Sequence, Selector"),
        (_one, "parallel 'race' has the policy SuccessOnOne"),
        (lambda run: _Mine("mine", memory=True, children=[run.skill("dance")]), "behaviour 'mine' is a _Mine"),
        (lambda run: decorators.Timeout("late", run.skill("dance")), "behaviour 'late' is a Timeout"),
        (lambda run: run.skill("pick up", thing=3), "skill 'pick up': there is no such skill; say it in whole"),
        (lambda run: run.goal("find the {box}"), "has another place-holder than none"),
        (lambda run: run.within(0, [run.skill("dance")]), "seconds"),
        (lambda run: Sequence("empty", memory=True), "children"),
    ],
)
def test_what_has_no_counterpart_is_named(make: Callable[[Sketch], Behaviour], reason: str) -> None:
    with pytest.raises(RoutineError, match=re.escape(reason)):
        routine_of(make, goal="do it", name="mine")


def test_the_declared_skills_say_what_may_be_said() -> None:
    for make, reason in (
        (lambda run: run.skill("drive", metres="7"), "skill 'drive': metres: 7 may not stand here"),
        (lambda run: run.skill("pick upp", thing="mug 1"), "there is no such skill; did you mean 'pick up'?"),
        (lambda run: run.skill("vanish"), "there is no such skill"),
    ):
        with pytest.raises(RoutineError, match=re.escape(reason)):
            routine_of(make, goal="do it", name="mine", skills=DECLARED)


def test_a_sketch_is_not_carried_out() -> None:
    with pytest.raises(RoutineError, match="is part of a sketch"):
        Sketch("do it").skill("dance").tick_once()
