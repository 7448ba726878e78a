"""A house that is remembered from run to run: what working memory and searches are told, and what stays as it was."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import ScriptedWorld
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import assert_replays
from routine.houses import Came, carry_out, tasks

from reactree_ros.agent.observation import PERHAPS, REMEMBERED, Observation, Seen
from reactree_ros.background.pending import Pending
from reactree_ros.episode import eyes as remembering_module
from reactree_ros.episode.eyes import Remembering
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, moved
from reactree_ros.memory.house_map import HouseMap
from reactree_ros.memory.knowledge import Knowledge
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.record.schema import observation_from_dict, observation_to_dict
from reactree_ros.tree.options import Routines
from reactree_ros.world.port import WorldError


def remembering(task: Task, kept: HouseMap, **given: object) -> Came:
    world = Remembering(SymbolicWorld(task), kept)
    return carry_out(task, None, routines=Routines.OFF, world=world, **given)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_second_run_goes_straight_to_where_things_were_seen(tmp_path: Path, seed: int) -> None:
    task = tasks(seed)[0]
    with HouseMap(tmp_path / "house.map") as kept:
        look_about(kept, task)
        with_map, without = remembering(task, kept), carry_out(task, None, routines=Routines.OFF)
    assert with_map.result.achieved
    assert without.result.achieved
    assert with_map.result.steps <= without.result.steps


def look_about(kept: HouseMap, task: Task) -> None:
    """Have a robot look at all places of a house once, and do nothing else."""
    world = Remembering(SymbolicWorld(task), kept)
    for name in [thing.name for thing in world.inner.scene.things.values() if not thing.is_room]:  # type: ignore[attr-defined]
        world.execute(f"go to {name}").result()
        world.execute(f"open {name}").result()
    kept.do(lambda: None).result()


@pytest.mark.slow
def test_recall_says_what_was_seen_before_this_task_and_when(tmp_path: Path) -> None:
    task = tasks(1)[0]
    with HouseMap(tmp_path / "house.map", clock=iter_clock()) as kept:
        look_about(kept, task)
        came = remembering(task, kept)
    told = [event["text"] for event in came.kept.events_of("observation") if event["of"] == "recall"]
    assert "You saw " in told[0]
    assert " ago, before this task." in told[0]


def iter_clock() -> object:
    seconds = iter(range(1_800_000_000, 10**12, 60))
    return lambda: float(next(seconds))


@pytest.mark.slow
def test_a_run_with_a_map_is_replayed_without_one_and_has_the_same_record(tmp_path: Path) -> None:
    task = tasks(2)[1]
    with HouseMap(tmp_path / "house.map") as kept:
        look_about(kept, task)
        came = remembering(task, kept)
    assert any("remembered" in event for event in came.kept.events_of("observation"))
    assert_replays(came.kept)


def test_without_a_map_no_record_has_anything_of_it() -> None:
    came = carry_out(tasks(1)[0], None, routines=Routines.OFF)
    assert not any("remembered" in event for event in came.kept.record.events)


@pytest.mark.slow
def test_a_search_begins_where_the_map_takes_a_thing_to_be(tmp_path: Path) -> None:
    task, searched, sent = tasks(1)[0], 0, 0
    with SqliteMemory(tmp_path / "memory.db", embedder()) as memory:
        carry_out(task, memory)
        for seed in range(1, 5):
            start = moved(task, seed)
            with HouseMap(tmp_path / f"{seed}.map") as kept:
                look_about(kept, start)
                without = carry_out(start, memory)
                with_map = carry_out(start, memory, world=Remembering(SymbolicWorld(start), kept))
            assert with_map.result.achieved
            assert with_map.requests == 0
            searched, sent = searched + without.result.steps, sent + with_map.result.steps
    assert sent < 0.8 * searched


def embedder() -> object:
    from memory.word_hash_embedder import WordHashEmbedder

    return WordHashEmbedder()


class Failing(HouseMap):
    def remembered(self, goal: str) -> tuple[Seen, ...]:
        raise OSError("no space is left")


@pytest.mark.slow
def test_a_map_that_fails_is_said_once_and_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = tasks(1)[0]
    with Failing(tmp_path / "house.map") as kept, caplog.at_level(logging.WARNING):
        came = remembering(task, kept)
    assert came.result.achieved
    assert [record.getMessage() for record in caplog.records] == ["what is seen is not kept: no space is left"]


def test_a_map_on_a_disk_that_hangs_keeps_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering_module, "PATIENCE", 0.05)
    hangs = threading.Event()
    with HouseMap(tmp_path / "house.map") as kept, caplog.at_level(logging.WARNING):
        kept.do(hangs.wait)
        told = Remembering(SymbolicWorld(tasks(1)[0]), kept).observe().result(timeout=60)
        assert told.remembered == ()
        hangs.set()
    assert ["did not answer within 0.05 s" in record.getMessage() for record in caplog.records] == [True]


def test_a_world_that_fails_or_is_cancelled_does_so_with_a_map_too(tmp_path: Path) -> None:
    class Gone(ScriptedWorld):
        def observe(self) -> Pending[Observation]:
            return Pending.failed(WorldError("gone"))

    class Silent(ScriptedWorld):
        def observe(self) -> Pending[Observation]:
            self.asked: Pending[Observation] = Pending()
            return self.asked

    with HouseMap(tmp_path / "house.map") as kept:
        with pytest.raises(WorldError, match="gone"):
            Remembering(Gone(), kept).observe().result(timeout=10)
        silent = Silent()
        pending = Remembering(silent, kept).observe()
        pending.cancel()
        assert silent.asked.cancelled()


@pytest.mark.slow
def test_each_robot_of_a_team_feeds_the_map_and_is_told_by_it(tmp_path: Path) -> None:
    task = tasks(1)[0]
    with HouseMap(tmp_path / "house.map") as kept:
        robots = Remembering(SymbolicWorld(task, robots=2), kept).team()
        anna, bob = robots.values()
        place = next(thing for thing in SymbolicWorld(task).scene.things.values() if "SURFACES" in thing.properties)
        anna.execute(f"go to {place.name}").result()
        told = bob.observe().result(timeout=10)
        assert place.name in {f"{seen.word} {seen.instance}" for seen in told.remembered}
        assert set(robots) & {spot["robot"] for thing in kept.export() for spot in thing["spots"]}


def test_what_is_seen_in_this_run_counts_more_than_what_is_remembered() -> None:
    known = Knowledge(WAH_NL)

    def remember(*states: str, place: str = "sink 1") -> None:
        known.saw(Observation("", remembered=(Seen("cup", 1, "kitchen 1", place, states=(REMEMBERED, *states)),)))

    remember("2 hours ago")
    remember(PERHAPS, place="table 1")
    assert known.recall("cup") == "You saw cup 1 near sink 1 in kitchen 1. That was 2 hours ago, before this task."
    assert known.likely("cup") == ("sink 1", "table 1")
    known.saw(Observation("", seen=(Seen("sink", 1, "kitchen 1", "sink 1"),)))
    assert known.recall("cup") == "You have not seen cup before."
    known.saw(Observation("", seen=(Seen("cup", 1, "study 1", "desk 1"),)))
    remember("2 hours ago")
    known.saw(Observation("", seen=(Seen("desk", 1, "study 1", "desk 1"),)))
    assert known.recall("cup") == "You saw cup 1 near desk 1 in study 1."


SEEN = st.builds(
    Seen,
    st.sampled_from(["cup", "book"]),
    st.integers(1, 3),
    st.sampled_from([None, "kitchen 1"]),
    st.sampled_from([None, "sink 1"]),
    states=st.sampled_from([(REMEMBERED, "2 hours ago"), (REMEMBERED, PERHAPS)]),
)


@given(st.lists(SEEN, max_size=5))
def test_what_is_remembered_survives_the_record(remembered: list[Seen]) -> None:
    observation = replace(Observation("You see nothing."), remembered=tuple(remembered))
    assert observation_from_dict(observation_to_dict(observation)) == observation


def test_a_place_is_looked_at_if_it_is_seen_from_where_it_is_and_is_open() -> None:
    fridge, cup = Seen("fridge", 1, "kitchen 1", "fridge 1", states=("OPEN",)), Seen("cup", 1, "kitchen 1", "fridge 1")
    assert Observation("", seen=(fridge, cup)).looked_at(WAH_NL.name_of) == {"fridge 1"}
    assert Observation("", seen=(cup,)).looked_at(WAH_NL.name_of) == frozenset()
    assert Observation("", seen=(replace(fridge, states=("CLOSED",)), cup)).looked_at(WAH_NL.name_of) == frozenset()
    assert Observation("", seen=(replace(fridge, place=None),)).looked_at(WAH_NL.name_of) == frozenset()
