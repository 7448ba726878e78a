"""Worlds to the registry and to one another: their tasks, recorded runs as worlds, robots in one house, scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reactree_lab.household.generator import generate_house
from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_lab.worlds.ai2thor.world import SPEC as AI2THOR
from reactree_ros.agent.observation import Seen
from reactree_ros.agent.transcript import parse_transcript
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SPEC as VIRTUALHOME
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.plugins.settings import read_settings
from reactree_ros.world.port import Observation, Score, WorldError
from reactree_ros.world.recorded import RecordedWorld
from reactree_ros.world.spec import WORLDS, Place, WorldSettings
from reactree_ros.world.wrappers import with_teammates

HOUSE = json.loads(HOUSES["apartment"].read_text(encoding="utf-8"))[0]


def settings(name: str, **values: Any) -> WorldSettings:
    return read_settings(WORLDS.get(name).settings, values, where=f"world '{name}'")  # type: ignore[return-value]


def place(**values: Any) -> Place:
    return Place.from_settings(VIRTUALHOME, settings("virtualhome", **values))


@pytest.fixture
def two(tmp_path: Path) -> Place:
    """Two tasks, 3 and 5, with instructions of their own."""
    tasks = [
        {**HOUSE, "task_id": 3, "nl_instructions": ["Fetch the apple."]},
        {**HOUSE, "task_id": 5, "nl_instructions": ["Fetch the pudding.", "Get me the pudding"]},
    ]
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps(tasks), encoding="utf-8")
    return place(tasks=str(file))


def named(two: Place, task_id: int) -> Place:
    return Place.from_settings(VIRTUALHOME, two.settings.model_copy(update={"task_id": task_id}))


@pytest.mark.parametrize(
    ("instruction", "task_id", "number"),
    [(None, 3, 3), ("fetch the apple", 3, 3), ("Get me the pudding.", 5, 5), ("Sing a song", 3, None)],
)
def test_without_a_number_the_first_task_that_is_asked_for_is_chosen(
    two: Place, instruction: str | None, task_id: int, number: int | None
) -> None:
    """Where none is, the first says where things are, and its goal is not what is asked for."""
    task, chosen = two.choose(instruction)
    assert task is two.tasks[task_id]
    assert chosen == number


@pytest.mark.parametrize("instruction", [None, "Fetch the apple", "Sing a song"])
def test_a_task_that_is_named_by_its_number_is_the_one(two: Place, instruction: str | None) -> None:
    here = named(two, 5)
    assert here.choose(instruction) == (here.tasks[5], 5)
    assert here.choose(instruction, by_number=True) == (here.tasks[5], 5)


def test_a_task_that_there_is_not_is_refused_with_those_that_there_are(two: Place) -> None:
    with pytest.raises(UserError, match="there is no task 4 in virtualhome; there are 3, 5"):
        named(two, 4).choose(None)


@pytest.mark.parametrize("instruction", [None, "Fetch the apple"])
def test_a_file_of_many_may_ask_for_a_number(two: Place, instruction: str | None) -> None:
    with pytest.raises(UserError, match=r"which task is it\? task_id is one of 3, 5"):
        two.choose(instruction, by_number=True)


def test_an_empty_instruction_is_refused(two: Place) -> None:
    with pytest.raises(UserError, match="the instruction is empty"):
        two.choose("  ")


def test_a_world_without_tasks_needs_an_instruction() -> None:
    scene = Place(AI2THOR, settings("ai2thor", scene="FloorPlan1"), {})
    assert scene.choose("Sing a song") == (None, None)
    with pytest.raises(UserError, match="ai2thor has no task of its own here; say what to do in it"):
        scene.choose(None)


@pytest.mark.parametrize("scored", [True, False])
def test_a_world_is_made_for_a_task(scored: bool) -> None:
    villa = place(house="villa")
    with villa.make(villa.choose(None)[0], scored=scored) as world:
        assert isinstance(world, SymbolicWorld)
        assert (world.score().take() is not None) == scored


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("virtualhome", {"house": "villa", "tasks": "x.json"}, "house and tasks exclude each other; give one of them"),
        ("virtualhome_unity", {"house": "villa", "tasks": "x.json"}, "house and tasks exclude each other"),
        ("virtualhome", {"scene": "FloorPlan1"}, "there is no setting 'scene'"),
        ("virtualhome_unity", {"port": 70000}, "port is '70000': input should be less than or equal to 65535"),
        ("ai2thor", {}, "ai2thor needs either a scene, e.g. FloorPlan10, or tasks"),
        ("ai2thor", {"scene": "FloorPlan1", "tasks": "x"}, "ai2thor needs either a scene, e.g. FloorPlan10, or tasks"),
        ("ai2thor", {"scene": "FloorPlan1", "time_limit": 0}, "time_limit is '0': input should be greater than 0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        settings(name, **values)


def test_a_house_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="house castle: is neither a file nor one of apartment, villa"):
        place(house="castle")


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


def pair() -> tuple[SymbolicWorld, SymbolicWorld]:
    """Make two robots' worlds: the same house, of which each knows what it did itself."""
    task = parse_tasks(generate_house(seed=9000200, tasks=1))[0]
    return SymbolicWorld(task), SymbolicWorld(task)


def test_who_looks_around_or_comes_into_a_room_is_told_who_is_there_and_with_what() -> None:
    worlds = pair()
    one, two = with_teammates({"one": worlds[0], "two": worlds[1]}).values()
    assert "two" not in one.observe().take().text.split()  # it has not said yet where it is
    assert two.observe().take().text.endswith(" one is here, too.")
    assert one.observe().take().text.endswith(" two is here, too.")
    room = next(room for room in worlds[0].scene.rooms if room is not worlds[0].scene.agent_room)
    assert "one is here" not in two.execute(f"go to {room.name}").take().text
    assert "two is here" not in one.observe().take().text
    item = next(
        thing for thing in worlds[1].scene.things.values() if "GRABBABLE" in thing.properties and thing.observed
    )
    for skill in (f"go to {item.name}", f"pick up {item.name}"):
        two.execute(skill).take()
    back = worlds[0].scene.agent_room.name
    two.execute(f"go to {back}").take()
    assert f" two is here, too, with {item.name}." in one.observe().take().text


def test_what_is_cancelled_or_fails_is_so_and_tells_nothing() -> None:
    class Slow(SymbolicWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            return flight

    task = parse_tasks(generate_house(seed=9000200, tasks=1))[0]
    flight: Pending[Observation] = Pending()
    one, two = with_teammates({"one": Slow(task), "two": SymbolicWorld(task)}).values()
    two.observe().take()
    assert one.execute("go to kitchen 1").cancel()
    assert flight.cancelled()
    flight = Pending.failed(WorldError("the base is gone"))
    assert str(one.execute("go to kitchen 1").exception()) == "the base is gone"
    flight = Pending.ready(Observation("You are somewhere.", seen=(Seen("cup", 1, None, None),)))
    assert one.execute("go to cup 1").take().text == "You are somewhere."


def test_a_score_is_made_of_floats_whatever_it_is_made_from() -> None:
    score = Score(True, 1)
    assert [type(one) for one in (score.gsr, score.ssr)] == [float, float]
    assert score == Score(1.0, 1.0)
