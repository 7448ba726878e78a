"""The world and the suite ``eai``: by the port, and beside the benchmark's own simulator."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from reactree_lab.worlds.eai.actions import ACTIONS, from_line, to_line
from reactree_lab.worlds.eai.tasks import load_tasks
from reactree_lab.worlds.eai.world import SPEC, SUITE, EaiSettings, EaiWorld
from reactree_ros.errors import UserError
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome
from reactree_ros.world.spec import Place, WorldSettings

pytestmark = pytest.mark.worlds
pytest.importorskip("virtualhome_eval", reason="needs the package eai-eval")

BENCHMARK = Path(__file__).parents[5] / "benchmarks/eai.py"
#: Each so many-th task is swept over; all take six minutes of CPU.
SWEEP = 24 * int(os.environ.get("SWEEP", "1"))
TASKS = load_tasks()


def test_it_keeps_to_the_port() -> None:
    assert check_world(EaiWorld(TASKS[111])) == []


def test_tasks_and_settings_are_found_and_refused_by_their_numbers() -> None:
    assert len(SUITE.tasks(EaiSettings())) == len(TASKS) == 305
    assert Place.from_settings(SPEC, WorldSettings()).task(111).instruction == (
        "Turn on light. Make this hold: floor lamp 1 is on."
    )
    assert list(SUITE.tasks(EaiSettings(numbers="111, 9752"))) == [111, 9752]
    with pytest.raises(UserError, match="no task '272' whose goal can be reached"):
        SUITE.tasks(EaiSettings(numbers="272"))


def test_gold_programs_reach_their_goals() -> None:
    for number in list(TASKS)[::SWEEP]:
        world = EaiWorld(TASKS[number])
        names = {thing.id: thing.name for thing in world.scene.things.values()}
        ids = {thing.name: (thing.class_name, thing.id) for thing in world.scene.things.values()}
        for line in TASKS[number].program:
            call = from_line(line, names)
            assert from_line(to_line(call, ids), names) == call
            assert world.execute(call).result().outcome is Outcome.DONE, (number, line)
        score = world.score().result()
        assert score is not None
        assert (score.gsr, score.ssr) == (1, 1), TASKS[number].identifier


def test_programs_with_a_line_left_out_are_judged_as_by_the_benchmark() -> None:
    module = runpy.run_path(str(BENCHMARK))
    for at, number in enumerate(list(TASKS)[5::SWEEP]):
        program = list(TASKS[number].program)
        del program[at % len(program)]
        (refused, reached), (refused_there, reached_there) = (
            module[side](TASKS[number], program) for side in ("ours", "theirs")
        )
        assert (bool(refused), reached) == (bool(refused_there), reached_there), (number, refused, refused_there)


@pytest.mark.parametrize(
    ("skill", "said"),
    [
        ("turn on floor lamp 1", "floor lamp 1 is not near you"),
        ("go to bedroom 1; pick up television 1", "television 1 is not grabbable"),
        ("sleep", "it is not so that you are sitting or you are lying"),
        ("go to couch 1; sit on couch 1; go to floor lamp 1", "you are sitting"),
        ("look at floor lamp 1", "it is not so that floor lamp 1 is in front of you"),
    ],
)
def test_a_refusal_says_what_is_missing(skill: str, said: str) -> None:
    world = EaiWorld(TASKS[111])
    *before, last = skill.split("; ")
    assert all(world.execute(one).result().outcome is Outcome.DONE for one in before)
    refused = world.execute(last).result()
    assert refused.outcome is Outcome.PRECONDITION
    assert refused.text == f"You cannot {last}: {said}."


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[LOOKAT_SHORT] <lamp> (1)", "its simulator has no rules for LOOKAT_SHORT"),
        ("[FLY] <lamp> (1)", "there is no action FLY"),
        ("[GRAB] <lamp> (2)", "is not 'pick up {thing}'"),
    ],
)
def test_a_line_that_no_skill_says_is_refused_with_a_reason(line: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        from_line(line, {1: "lamp 1"})
    assert said in str(refused.value)


def test_every_skill_says_what_it_needs() -> None:
    assert [one.name for one in ACTIONS.values() if not one.skill.requires] == ["TURNTO", "GREET"]
