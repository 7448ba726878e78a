"""pyrobosim's world as pictures, and eyes that look at them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from detector import Detector, found_in, is_held
from drawn import data_of

from reactree_lab.worlds.pyrobosim.world import SPEC, PyrobosimSettings, tasks_of
from reactree_ros.background.pending import Pending
from reactree_ros.episode.eyes import WorldWithEyes
from reactree_ros.household.pictures import CHECKS
from reactree_ros.llm.eyes import Eyes
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.wrappers import WorldWrapper

pytestmark = pytest.mark.worlds
pytest.importorskip("pyrobosim", reason="needs the package pyrobosim")
pytest.importorskip("PIL", reason="needs Pillow")

#: Longest wait for a skill, in seconds.
SOON = 120.0


class Boasts(WorldWrapper):
    """Reports as done what it does not do."""

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.ready(Observation(f"You {skill}. You hold it."))


@pytest.fixture
def robot() -> Iterator[World]:
    """A robot before its open fridge."""
    settings = PyrobosimSettings(pictures=True)
    with SPEC.make(settings, next(iter(tasks_of(settings).values()))) as world:
        for skill in ("go to kitchen 1", "go to fridge 1", "open fridge 1"):
            assert world.execute(skill).result(SOON).outcome is Outcome.DONE
        yield world


def test_a_grasp_that_is_reported_is_seen_or_not(robot: World) -> None:
    skill = next(one for one in map(str, robot.available_skills().result(SOON)) if one.startswith("pick up "))
    thing = skill.removeprefix("pick up ")
    word = thing.rpartition(" ")[0]
    eyes = Eyes(Detector(words=[word]), "detector", SOON)
    own, above = robot.pictures().result(SOON)
    assert found_in(data_of(own), word), "it lies in the open fridge, before the robot"
    assert found_in(data_of(above), "robot"), "and the robot stands on the floor"
    seen = WorldWithEyes(Boasts(robot), eyes, CHECKS).execute(skill).result(SOON)
    assert (seen.outcome, seen.seen) == (Outcome.POSTCONDITION, ())
    world = WorldWithEyes(robot, eyes, CHECKS)
    seen = world.execute(skill).result(SOON)
    assert seen.outcome is Outcome.DONE
    assert is_held(data_of(seen.pictures[0]), thing)
    assert world.execute("look").result(SOON).pictures[0].words == f"I see {word}."


def test_what_is_in_something_closed_is_not_drawn(robot: World) -> None:
    inside = [one for one in map(str, robot.available_skills().result(SOON)) if one.startswith("pick up ")]
    word = inside[0].removeprefix("pick up ").rpartition(" ")[0]

    def drawn() -> int:
        return len(found_in(data_of(robot.pictures("own").result(SOON)[0]), word))

    open_ = drawn()
    assert robot.execute("close fridge 1").result(SOON).outcome is Outcome.DONE
    assert drawn() < open_
