"""The world ``pyrobosim``: by the port, by the expert in houses of ours, and by what robots and processes do to it."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel
from memory.word_hash_embedder import WordHashEmbedder
from plans import BARE
from unruly_player import UNRULY

from reactree_lab.worlds.pyrobosim import robot as robots
from reactree_lab.worlds.pyrobosim import simulator
from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim, write_house
from reactree_lab.worlds.pyrobosim.robot import PyrobosimRobot
from reactree_lab.worlds.pyrobosim.scene import HALLWAY, Description
from reactree_lab.worlds.pyrobosim.simulator import House
from reactree_lab.worlds.pyrobosim.tasks import PyrobosimTask, Source
from reactree_lab.worlds.pyrobosim.world import SPEC, SUITE, PyrobosimSettings, PyrobosimSuiteSettings, tasks_of
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.memory.knowledge import Knowledge
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.tree.team import Post, Team
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Outcome, RobotGone, WorldError

pytestmark = pytest.mark.worlds
pytest.importorskip("pyrobosim", reason="needs the package pyrobosim")

#: Each so many-th house is swept over; `.ci/run` has not the time for all.
SWEEP = int(os.environ.get("SWEEP", "1"))
#: A house in which juice is in the fridge of the kitchen, where the robot starts.
SEED = 1
PATIENCE = 30.0


@lru_cache(maxsize=4)
def tasks(seed: int = SEED) -> dict[int, PyrobosimTask]:
    return tasks_as_pyrobosim(seed=seed)


def own_worlds() -> list[Path]:
    import pyrobosim

    return sorted((Path(pyrobosim.__file__).parent / "data").glob("*_world*.yaml"))


def changed(**of_document: Any) -> Source:
    """The first task's world with another document."""
    source = tasks()[1].source
    return replace(source, document={**copy.deepcopy(dict(source.document)), **of_document})


def with_robot(**entries: Any) -> Source:
    return changed(robots=[{**tasks()[1].source.document["robots"][0], **entries}])


def world_of(source: Source | None = None, *, factor: float = -1.0, **given: Any) -> PyrobosimRobot:
    task = tasks()[1]
    return PyrobosimRobot(
        House(source or task.source, realtime_factor=factor),
        (source or task.source).robots()[0],
        goal=task.goal,
        **given,
    )


@pytest.fixture
def unruly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "SPARE", UNRULY)


def do(world: PyrobosimRobot, *skills: str) -> Observation:
    """Carry out skills; returns what came of the last."""
    for skill in skills:
        observation = world.execute(skill).result(PATIENCE)
    return observation


# ---- by the port, and by the expert -------------------------------------------------------------------------------


def test_it_keeps_to_the_port() -> None:
    assert check_world(world_of()) == []


@pytest.mark.parametrize("file", own_worlds()[::SWEEP], ids=lambda file: file.stem)
def test_it_keeps_to_the_port_in_worlds_of_others(file: Path) -> None:
    assert check_world(SPEC.make(PyrobosimSettings(house=str(file)), None), tries=4, timeout=60.0) == []


@pytest.mark.parametrize("name", ["reactree_wm", "react", "hiagent"])
def test_the_expert_reaches_what_is_asked_for_with_one_hand(name: str) -> None:
    suite = SUITE.tasks(PyrobosimSuiteSettings(houses=1, first_seed=SEED))
    for task in [suite[number] for number in (104, 102)[: 1 if SWEEP > 1 else 2]]:
        with SUITE.make_world(task) as world:
            result = Episode(task.instruction, world=world, model=ExpertModel(), planner=planner(name)).run()
        assert (result.gsr, result.status) == (1, "success"), task.instruction


@pytest.mark.parametrize(
    ("said", "thing", "place"),
    [
        ("Bring the coke to the table", "soda", "table0_tabletop"),
        ("Put the banana on the counter", "banana0", "counter0_left"),
        ("Take the apple from the desk to the kitchen", "apple0", "table0_tabletop"),
    ],
)
def test_the_expert_does_what_people_say_in_a_world_of_its_own(said: str, thing: str, place: str) -> None:
    (file,) = (one for one in own_worlds() if one.stem == "test_world")
    with SPEC.make(PyrobosimSettings(house=str(file)), None) as world:
        result = Episode(said, world=world, model=ExpertModel(), planner=planner("reactree_wm")).run()
        assert (result.status, world._house.truth()[thing]) == ("success", place)


def test_a_routine_needs_no_request_and_the_model_goes_on_where_a_motion_of_it_fails(tmp_path: Path) -> None:
    task = tasks()[4]
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as memory:

        def carry_out(failures: float) -> tuple[Episode, int]:
            with SPEC.make(PyrobosimSettings(house=str(SEED), failures=failures), task) as world:
                options = TreeOptions(routines=Routines.ON)
                given = {"model": ExpertModel(), "memory": memory, "examples": None, "options": options}
                episode = Episode(task.instruction, world=world, planner=planner("reactree_wm"), **given)
                result = episode.run()
                assert result.gsr == 1.0
                episode.remember(result)
                return episode, result.decisions

        assert carry_out(0.0)[1] > 5
        episode, decisions = carry_out(0.0)
        assert ([reason for _, reason in episode.learning.used], decisions) == ([""], 0)
        episode, decisions = carry_out(0.3)
        ((_, reason),) = episode.learning.used
        assert "simulated navigation failure" in reason
        assert decisions > 0
        told = [turn.text for turn in episode.root.turns if isinstance(turn, Told)]
        assert any(text.startswith("Done for this by") and reason in text for text in told)


def test_every_generated_house_is_built_whole_and_every_place_can_be_reached() -> None:
    for seed, rooms, varied in ((3, 3, True), (0, 8, False))[: 1 if SWEEP > 1 else 2]:
        source = tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=1, varied=varied)[1].source
        house, name = House(source), source.robots()[0]
        house.begin(0)
        built, written = house.description(), source.document
        assert [one["name"] for one in built.rooms] == [one["name"] for one in written["rooms"]]
        assert len(built.hallways) == rooms - 1
        assert [one["name"].rpartition("_")[0] for one in built.places] == [one["name"] for one in written["locations"]]
        assert [one["name"] for one in built.things] == [one["name"] for one in written["objects"]]
        for target in (*built.rooms, *built.places):
            house.start(name, "navigate", target["name"])
            while isinstance(ended := house.progress(name), simulator.UnderWay):
                pass
            assert ended.status == "SUCCESS", target["name"]
            assert target["name"] in (ended.body.at, ended.body.room)
        house.leave()


def test_what_is_written_is_read_by_pyrobosim_alone_and_is_the_same_world(tmp_path: Path) -> None:
    files = write_house(tasks(), tmp_path / "house")
    assert tasks_of(PyrobosimSettings(house=str(tmp_path / "house"))).keys() == tasks().keys()
    code = (
        "import sys; from pyrobosim.core.yaml_utils import WorldYamlLoader; "
        "world = WorldYamlLoader().from_file(sys.argv[1]); "
        "print(len(world.rooms), len(world.hallways), len(world.locations), len(world.objects), len(world.robots))"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(files[1])], capture_output=True, text=True, timeout=60)
    document = tasks()[2].source.document
    kinds = ("rooms", "hallways", "locations", "objects", "robots")
    assert ended.stdout.split() == [str(len(document[kind])) for kind in kinds], ended.stderr
    described: list[Description] = []
    for source in (tasks()[2].source, Source(file=str(files[1]))):
        house = House(source)
        house.begin(0)
        described.append(house.description())
        house.leave()
    assert described[0] == described[1]


# ---- what a robot knows, and what it is told ----------------------------------------------------------------------


def test_only_what_was_detected_is_known_and_offered() -> None:
    with world_of() as world:
        skills = world.available_skills().result(PATIENCE)
        assert "go to fridge 1" in skills
        assert not any(skill.startswith("pick up") for skill in skills)
        unseen = do(world, "pick up juice 1")
        assert (unseen.outcome, unseen.text) == (Outcome.UNKNOWN_SKILL, "You have seen no juice 1.")
        closed = do(world, "go to fridge 1")
        assert closed.text == "You arrive at the fridge (1). The fridge (1) is closed. You see fridge (1)"
        opened = do(world, "open fridge 1")
        assert "juice (1)" in opened.text
        assert opened.looked_into == "fridge 1"
        assert "pick up juice 1" in world.available_skills().result(PATIENCE)
        do(world, "close fridge 1")
        assert "pick up juice 1" not in world.available_skills().result(PATIENCE)
        assert world.reset().result(PATIENCE).text.startswith("You are in the house")
        assert do(world, "go to fridge 1").text == closed.text
        assert "pick up juice 1" not in world.available_skills().result(PATIENCE)


def test_things_are_carried_by_one_hand() -> None:
    with world_of() as world:
        held = do(world, "go to fridge 1", "open fridge 1", "pick up juice 1")
        assert held.text == "You pick up juice. You hold juice (1)."
        for skill in ("pick up wine 1", "close fridge 1"):
            full = do(world, skill)
            assert full.outcome is Outcome.PRECONDITION
            assert full.text.startswith("You do not have an empty hand.")
        put = do(world, "go to kitchen table 1", "put down juice 1")
        assert (put.outcome, put.text) == (Outcome.DONE, "You put down juice on kitchen table")
        seen = do(world, "look around")
        assert "juice (1)" in seen.text
        assert world.score().result(PATIENCE).ssr == pytest.approx(1 / 5)
        nothing = do(world, "go to kitchen 1", "put down juice 1")
        assert nothing.outcome is Outcome.PRECONDITION
        away = do(world, "turn on stove 1")
        assert away.outcome is Outcome.UNKNOWN_SKILL


def test_what_is_locked_does_not_open() -> None:
    with world_of() as world:
        do(world, "go to bedroom 1", "go to closet 1")
        refused = do(world, "open closet 1")
        assert (refused.outcome, refused.text) == (Outcome.PRECONDITION, "Closet 1 is locked.")


def two_rooms(*, locked: bool) -> Source:
    """A world of words that nobody has heard of, with a passage that is closed."""
    box = {"type": "box", "dims": [1.0, 0.6], "height": 0.5}
    document = {
        "robots": [
            {
                "name": "rover",
                "radius": 0.15,
                "location": "workshop",
                "pose": {"position": {"x": 0.0, "y": 0.0}},
                "path_planner": {"type": "world_graph", "collision_check_step_dist": 0.05},
            }
        ],
        "rooms": [
            {"name": "workshop", "footprint": {"type": "box", "dims": [3, 3]}, "pose": [0.0, 0.0]},
            {"name": "store 2", "footprint": {"type": "box", "dims": [3, 3]}, "pose": [5.0, 0.0]},
        ],
        "hallways": [
            {"room_start": "workshop", "room_end": "store 2", "width": 0.8, "is_open": False, "is_locked": locked}
        ],
        "locations": [
            {"name": "lathe", "category": "heavy_lathe", "parent": "workshop", "pose": [0.0, 1.0], "is_locked": True},
            {"name": "bin", "category": "wheelie_bin", "parent": "store 2", "pose": [5.0, 1.0], "is_open": False},
        ],
        "objects": [{"name": "g", "category": "gizmo", "parent": "lathe", "pose": [0.1, 1.0, 0.0, 0.0]}],
    }
    place = {"footprint": box, "nav_poses": [[0.0, -0.6, 0.0, 1.57]], "locations": [{"name": "top"}]}
    things = {"gizmo": {"footprint": {"type": "box", "dims": [0.05, 0.05], "height": 0.1}}}
    return Source(
        document=document, metadata={"locations": {"heavy_lathe": place, "wheelie_bin": place}, "objects": things}
    )


def test_a_passage_that_is_closed_is_named_opened_and_gone_through_with_words_that_nobody_knows() -> None:
    with world_of(two_rooms(locked=False)) as world:
        assert (
            do(world, "go to heavy lathe 1").text
            == "You arrive at the heavy lathe (1). You see gizmo (1), heavy lathe (1)"
        )
        do(world, "pick up gizmo 1")
        blocked = do(world, "go to store 1")
        assert blocked.outcome is Outcome.EXECUTION
        assert "hallway 1 between workshop 1 and store 1 is closed" in blocked.text
        assert do(world, "go to hallway 1", "open hallway 1").text.startswith("You do not have an empty hand.")
        do(world, "go to heavy lathe 1", "put down gizmo 1")
        assert do(world, "go to hallway 1", "open hallway 1").outcome is Outcome.DONE
        do(world, "go to heavy lathe 1", "pick up gizmo 1")
        assert do(world, "go to store 1").outcome is Outcome.DONE
        refused = do(world, "go to wheelie bin 1", "put down gizmo 1")
        assert (refused.outcome, refused.text[:28]) == (Outcome.PRECONDITION, "The wheelie bin is closed. Y")
        assert {"gizmo"} <= set(world.recallable)
        assert {"gizmo", "wheelie bin", "heavy lathe"} <= set(world.words)


def test_a_passage_that_is_locked_stays_closed() -> None:
    with world_of(two_rooms(locked=True)) as world:
        refused = do(world, "go to hallway 1", "open hallway 1")
        assert (refused.outcome, refused.text) == (Outcome.PRECONDITION, "Hallway 1 is locked.")


# ---- cancelling ---------------------------------------------------------------------------------------------------


def stands(world: PyrobosimRobot) -> tuple[float, float, float]:
    return world._house.body(world._name).pose


def begun(world: PyrobosimRobot, skill: str, monkeypatch: pytest.MonkeyPatch) -> Pending[Observation]:
    """Let a skill begin; returns when the process was told."""
    told, start = threading.Event(), world._house.start

    def telling(*request: str, asks: bool) -> None:
        start(*request, asks=asks)
        told.set()

    monkeypatch.setattr(world._house, "start", telling)
    pending = world.execute(skill)
    assert told.wait(PATIENCE)
    monkeypatch.undo()
    return pending


@pytest.mark.parametrize("on_the_way", [False, True], ids=["as it begins", "on the way"])
def test_a_cancel_stops_the_motion_and_rest_is_when_it_stands(on_the_way: bool) -> None:
    with world_of(factor=1.0) as world:
        world.observe().result(PATIENCE)
        start, bound = stands(world), time.monotonic() + PATIENCE
        with pytest.MonkeyPatch.context() as patch:
            pending = begun(world, "go to bathroom 1", patch)
        while on_the_way and stands(world) == start:
            assert time.monotonic() < bound
        assert pending.cancel()
        world.at_rest().result(PATIENCE)
        rest = stands(world)
        assert abs(rest[0] - start[0]) < 5  # the bathroom is further away
        time.sleep(0.3)
        assert stands(world) == rest
        assert do(world, "go to kitchen 1").outcome is Outcome.DONE


def test_closing_stops_the_motion() -> None:
    world = world_of(factor=1.0)
    world.observe().result(PATIENCE)
    process = world._house._simulator
    world.execute("go to bathroom 1")
    world.close()
    with world_of() as other:
        other.observe().result(PATIENCE)
        assert other._house._simulator is process  # so that nothing was in the way of giving it back


def test_a_motion_has_a_time_limit(unruly: None) -> None:
    with world_of(changed(habit="hangs"), time_limit=0.2) as world:
        ended = do(world, "go to bathroom 1")
        assert ended.outcome is Outcome.TIMEOUT
        assert ended.text == "You could not go to the bathroom (1): it took longer than 0.2 s and was stopped."
        world.at_rest().result(PATIENCE)


def test_a_robot_that_does_not_answer_its_cancel_is_an_emergency(unruly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with world_of(changed(habit="ignores")) as world:
        world.observe().result(PATIENCE)
        process = world._house._simulator
        assert process is not None
        with pytest.MonkeyPatch.context() as patch:
            pending = begun(world, "go to bathroom 1", patch)
        monkeypatch.setattr(robots, "CANCEL_LIMIT", 0.2)
        pending.cancel()
        with pytest.raises(WorldError, match=r"EMERGENCY: robot did not stop within 0.2 s"):
            world.at_rest().result(PATIENCE)
        assert process._process.poll() is not None
        with pytest.raises(WorldError, match="EMERGENCY"):
            world.execute("look around").result(PATIENCE)
        assert world.reset().result(PATIENCE).text.startswith("You are in the house")


# ---- what robots do -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("habit", "before", "skill", "reason"),
    [
        ("lies", ("go to kitchen 1",), "go to the bathroom (1)", "you are not there"),
        ("lies", ("go to kitchen cabinet 1",), "open the kitchen cabinet (1)", "the kitchen cabinet is not open"),
        ("lies", ("go to kitchen table 1",), "pick up the carrot (1)", "you do not hold the carrot"),
        ("drops", ("go to kitchen table 1", "pick up carrot 1"), "put down the carrot (1)", "the carrot is not there"),
    ],
)
def test_what_is_reported_and_does_not_hold_is_told(
    unruly: None, habit: str, before: tuple[str, ...], skill: str, reason: str
) -> None:
    with world_of(changed(habit=habit)) as world:
        assert do(world, *before).outcome is Outcome.DONE
        ended = do(world, re.sub(r"the (.*) \((\d)\)", r"\1 \2", skill))
        assert (ended.outcome, ended.text) == (Outcome.POSTCONDITION, f"You tried to {skill}, but {reason}.")


def test_a_detection_that_comes_and_goes_is_looked_at_again(unruly: None) -> None:
    with world_of(changed(habit="blinks")) as world:
        all_of_it = do(world, "go to kitchen table 1")
        assert "carrot (1, 2)" in all_of_it.text
        part = do(world, "look around")
        assert part.text.count("(") == 2
        gone = do(world, "pick up carrot 1")
        assert (gone.outcome, gone.text) == (Outcome.PRECONDITION, "The carrot is not close to you.")
        assert do(world, "go to carrot 1").text == "You do not know where to find the carrot."
        assert "carrot (1, 2)" in do(world, "look around").text
        assert do(world, "pick up carrot 1").outcome is Outcome.DONE


def test_what_cannot_be_seen_at_all_is_said(unruly: None) -> None:
    with world_of(changed(habit="fails")) as world:
        blind = do(world, "go to kitchen table 1")
        assert blind.outcome is Outcome.EXECUTION
        assert (
            blind.text
            == "You could not go to the kitchen table (1): it cannot be seen what is there: the lens is fogged."
        )
        assert do(world, "look around").text == "You could not see what is here: the lens is fogged."


def test_a_robot_that_has_rolled_away_is_not_where_it_was(unruly: None) -> None:
    with world_of(changed(habit="drifts")) as world:
        do(world, "go to kitchen table 1")
        ended = do(world, "pick up carrot 1")
        assert ended.outcome is Outcome.PRECONDITION
        assert do(world, "pick up carrot 1").text == "The carrot is not close to you."
        assert "carrot (1, 2)" in do(world, "go to carrot 1").text


def test_an_error_of_pyrobosims_own_is_a_failure_like_others(unruly: None) -> None:
    with world_of(changed(habit="errs")) as world:
        ended = do(world, "go to kitchen table 1", "pick up carrot 1")
        assert ended.outcome is Outcome.EXECUTION
        assert ended.text.startswith("You could not pick up the carrot (1): pyrobosim has an error, UnboundLocalError")
        assert do(world, "go to kitchen 1").outcome is Outcome.DONE


def test_a_battery_that_runs_out_under_way_is_a_robot_that_is_gone() -> None:
    options = {"navigate": {"battery_usage": 12.0}}
    task = tasks()[1]
    with world_of(with_robot(action_execution_options=options)) as world:
        with pytest.raises(
            RobotGone, match=r"robot is out of action in .*: its battery is empty, and it holds carrot 1"
        ):
            do(world, "go to kitchen table 1", "pick up carrot 1", "go to bathroom 1")
        with pytest.raises(RobotGone):
            world.observe().result(PATIENCE)
        assert world.status()["in action"].startswith("robot is out of action")
        assert world.score().result(PATIENCE).gsr == 0
        world.reset().result(PATIENCE)
        said = ["Act: go to bathroom 1"]
        model = ScriptedModel({task.instruction: said})
        result = Episode(task.instruction, world=world, model=model, planner=planner(f"react:{BARE}")).run()
        assert (result.end, "\n" in result.message) == ("world_gone", False)
        assert "its battery is empty" in result.message


def test_the_same_seed_fails_at_the_same_steps_and_the_expert_tries_again() -> None:
    task = replace(tasks()[2], failures=0.3)
    ends = []
    for seed in (5, 5, 6):
        with SUITE.make_world(replace(task, seed=seed)) as world:
            result = Episode(task.instruction, world=world, model=ExpertModel(), planner=planner("react")).run()
            ends.append((result.gsr, result.steps))
    assert ends[0] == ends[1]
    assert ends[0][0] == 1
    with SUITE.make_world(tasks()[2]) as world:
        calm = Episode(task.instruction, world=world, model=ExpertModel(), planner=planner("react")).run()
    assert calm.steps < ends[0][1]


# ---- several robots -----------------------------------------------------------------------------------------------


def test_two_robots_in_one_house_move_at_the_same_time_and_know_what_each_has_seen() -> None:
    settings = PyrobosimSettings(house=str(SEED), robots=2, realtime_factor=20.0)
    with SPEC.make(settings, tasks_of(settings)[1]) as world:
        first, second = world.team().values()
        assert first is world
        for pending in [first.observe(), second.observe()]:
            pending.result(PATIENCE)
        assert first._house.beginnings == 1
        assert first.observe().result(PATIENCE).text.endswith(" robot_2 is here, too.")
        both = [first.execute("go to bathroom 1"), second.execute("go to kitchen table 1")]
        assert [one.result(PATIENCE).outcome for one in both] == [Outcome.DONE] * 2
        assert "pick up carrot 1" in second.available_skills().result(PATIENCE)
        assert first.execute("pick up carrot 1").result(PATIENCE).outcome is Outcome.UNKNOWN_SKILL
        second.execute("pick up carrot 1").result(PATIENCE)
        room = second.observe().result(PATIENCE).seen[0].room
        assert "robot_2 is here, too, with carrot 1." in first.execute(f"go to {room}").result(PATIENCE).text
        seen = first.execute("go to kitchen table 1").result(PATIENCE).text
        assert "carrot (2)" in seen
        on_the_way = first.execute("go to bathroom 1")
        assert on_the_way.cancel()
        assert second.execute("put down carrot 1").result(PATIENCE).outcome is Outcome.DONE
        first.at_rest().result(PATIENCE)
    with pytest.raises(WorldError, match="was closed"):
        second.observe().result(PATIENCE)
    with world_of() as alone:
        assert alone.team() == {}


def test_a_robot_stops_before_a_passage_until_it_is_free_and_what_it_has_left_is_free_at_once() -> None:
    settings = PyrobosimSettings(house=str(SEED), robots=2, realtime_factor=20.0)
    with SPEC.make(settings, tasks_of(settings)[1]) as world:
        team = Team(world, Knowledge(world.household))
        first, second = team.robots
        for robot in team.robots:
            robot.world.observe().result(PATIENCE)
        scene = world._here
        table, room = scene.by_name["kitchen table 1"], scene.by_name["bathroom 1"]
        assert scene.room_of(table) is not room
        passages = [one.name for one in scene.own.values() if one.word == HALLWAY]

        def drive_on() -> Pending[Observation]:
            waited = team.claims.counts["waited"]
            driving, bound = (
                team.execute(Post("", robot=second), f"go to {room.name}", PATIENCE),
                time.monotonic() + PATIENCE,
            )
            while team.claims.counts["waited"] == waited and not driving.done():
                assert time.monotonic() < bound, "it does not ask"
                time.sleep(0.01)
            assert not driving.done()
            return driving

        def where() -> str:
            return world._house.body(second.name).room

        team.execute(Post("", robot=second), f"go to {table.name}", PATIENCE).result(PATIENCE)
        start = where()
        for passage in passages:
            first.ask(passage).result(PATIENCE)
        driving = drive_on()
        assert team.claims.places_of(second) == set()
        assert where() == start
        assert driving.cancel()
        second.world.at_rest().result(PATIENCE)
        again = drive_on()
        assert where() == start
        for passage in passages:
            first.leave(passage)
        assert again.result(PATIENCE).outcome is Outcome.DONE
        assert team.claims.places_of(second) == set()
        assert where() == room.own  # type: ignore[attr-defined]


def carried_out(seed: int, task_id: int, robots: int, **of_first: Any) -> Episode:
    """Carry a task out; what is said of the first robot is written into its world file."""
    settings = PyrobosimSettings(house=str(seed), robots=robots)
    task = tasks_of(settings)[task_id]
    first, *others = task.source.document["robots"]
    document = {**copy.deepcopy(dict(task.source.document)), "robots": [{**first, **of_first}, *others]}
    with SPEC.make(settings, replace(task, source=replace(task.source, document=document))) as world:
        episode = Episode(task.instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm"))
        assert episode.run().gsr == 1.0
    return episode


def test_two_robots_share_a_task_wait_in_passages_and_make_way() -> None:
    team = carried_out(1, 1, 2).context.team
    assert carried_out(1, 1, 1).context.team.makespan > team.makespan
    assert team.claims.counts["waited"] > 0
    assert not any(robot.gone for robot in team.robots)


def test_where_a_battery_is_empty_the_other_robot_goes_on() -> None:
    weak = {"initial_battery_level": 1.0, "action_execution_options": {"navigate": {"battery_usage": 1.0}}}
    first, second = carried_out(1, 1, 2, **weak).context.team.robots
    assert first.gone.startswith("robot_1 is out of action in")
    assert not second.gone


# ---- the process --------------------------------------------------------------------------------------------------


def test_a_process_that_ends_is_told_in_one_line_and_the_next_reset_has_another(unruly: None) -> None:
    with world_of(changed(habit="crashes")) as world:
        with pytest.raises(WorldError, match="the process of pyrobosim is gone: it has ended with exit code 3"):
            do(world, "go to bathroom 1")
        assert world.reset().result(PATIENCE).text.startswith("You are in the house")


def test_a_world_that_cannot_be_built_is_told() -> None:
    with (
        world_of(changed(hallways=[{"room_start": "attic_1", "room_end": "kitchen_1", "width": 1.0}])) as world,
        pytest.raises(WorldError, match="attic_1 must be a valid start Room"),
    ):
        world.observe().result(PATIENCE)
    with world_of() as world:
        world.observe().result(PATIENCE)


# ---- on the command line ------------------------------------------------------------------------------------------


def test_a_house_is_written_and_a_task_of_it_carried_out_by_the_command(tmp_path: Path) -> None:
    def reactree(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reactree_ros.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    folder = str(tmp_path / "house")
    written = reactree("lab", "house", "--as", "pyrobosim", "--seed", "7", "--tasks", "2", "--out", folder)
    assert len(written.stdout.splitlines()) == 2, written.stderr
    ended = reactree("run", "--world", "pyrobosim", "--house", folder, "--task-id", "2", "--json")
    assert json.loads(ended.stdout)["gsr"] == 1.0, ended.stderr


def test_a_robot_that_there_is_not_is_named() -> None:
    settings = PyrobosimSettings(house=str(SEED), robot="hal")
    with pytest.raises(UserError, match=re.escape(f"house {SEED}: has no robot hal; its robots are robot")):
        SPEC.make(settings, tasks()[1])
