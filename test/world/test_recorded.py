"""A recorded run as a world: it shows what was seen to whoever does the same again."""

from __future__ import annotations

import pytest

from reactree_lab.worlds.ai2thor.household import ALFRED
from reactree_ros.agent.transcript import parse_transcript
from reactree_ros.world.port import WorldError
from reactree_ros.world.recorded import RecordedWorld

START = "You are in the house, and there are 1 rooms: kitchen (1)."
ROOT = f"Your task is to: find an apple\n{START}\nThink: look\nOK.\nAct: go to fridge 1\nYou arrive.\nAct: done"
CHILD = f"Your task is to: open it\n{START} You hold apple (1).\nAct: open fridge 1\nYou open it.\nAct: done"


@pytest.fixture
def world() -> RecordedWorld:
    return RecordedWorld([parse_transcript(ROOT), parse_transcript(CHILD)], ALFRED)


def test_observations_come_in_the_order_of_the_recording(world: RecordedWorld) -> None:
    assert world.household is ALFRED
    assert world.observe().take().text == START
    assert world.execute("go to fridge 1").take().text == "You arrive."
    assert world.observe().take().text == f"{START} You hold apple (1)."
    assert world.execute("open fridge 1").take().text == "You open it."
    assert world.observe().take().text == f"{START} You hold apple (1)."
    assert world.score().take() is None


def test_anything_else_is_an_error(world: RecordedWorld) -> None:
    with pytest.raises(WorldError, match="the recording has 'go to fridge 1' here, not 'open fridge 1'"):
        world.execute("open fridge 1").take()


def test_a_reset_begins_anew_and_shows_the_first_observation_without_taking_it(world: RecordedWorld) -> None:
    world.observe()
    world.execute("go to fridge 1")
    assert world.reset().take().text == START
    assert world.observe().take().text == START
    assert world.execute("go to fridge 1").take().text == "You arrive."
