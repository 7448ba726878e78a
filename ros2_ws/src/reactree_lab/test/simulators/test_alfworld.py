"""The world ``alfworld``: by the port, by ALFWorld's own expert, and by what people, files and processes do to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from alfworld_paths import expert_path, plan_for, write_game
from doubles import ScriptedModel
from plans import BARE, carried_out, example_of

from reactree_lab.worlds.ai2thor.alfred import load_trials
from reactree_lab.worlds.alfworld import games, rooms
from reactree_lab.worlds.alfworld import world as engines
from reactree_lab.worlds.alfworld.games import (
    LIGHT,
    PLACE,
    TASK_TYPES,
    TWO,
    AlfworldTask,
    Wanted,
    made_up,
    of_trial,
)
from reactree_lab.worlds.alfworld.rooms import TREATMENTS, Receptacle, Room
from reactree_lab.worlds.alfworld.world import (
    SPEC,
    SUITE,
    AlfworldGames,
    AlfworldSettings,
    AlfworldWorld,
    Turn,
    conditions_met,
    games_of,
)
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import read_settings
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome, Seen
from reactree_ros.world.spec import Place, asks_for

pytestmark = pytest.mark.worlds
pytest.importorskip("alfworld", reason="needs the package alfworld")
pytest.importorskip("fast_downward", reason="needs the package fast-downward-textworld")

CLEAN, HEAT, COOL = TREATMENTS
#: Of 60 games, ten of each type, each so many-th is won; `.ci/run` has not the time for all.
SWEEP = int(os.environ.get("SWEEP", "1"))
GAMES = [(one, seed) for seed in range(1, 11) for one in TASK_TYPES][::SWEEP]
SHARED = Path(__file__).resolve().parents[6] / "shared" / "data" / "alfred" / "valid_seen.jsonl"


def small(instruction: str = "put an apple in fridge", task_type: str = PLACE) -> AlfworldTask:
    """A game of few places and two things, which is loaded in no time."""
    wanted = Wanted(task_type, "Apple", "Fridge")
    kinds = ("Fridge", "CounterTop", *(["Microwave"] if task_type == HEAT else []))
    places = [Receptacle(f"{kind}|1", kind, None) for kind in kinds]
    room = Room("FloorPlan0", tuple(places), ("Apple", "Mug"))
    start = {"Apple|1": places[1], "Mug|1": places[0]}
    return AlfworldTask(task_type, instruction, wanted, problem=games._problem(room, wanted, start))


# ---------------------------------------------------------------------- the port, and ways through


def test_it_keeps_to_the_port() -> None:
    assert check_world(AlfworldWorld(small()), tries=4) == []
    assert check_world(AlfworldWorld(made_up(CLEAN, 9)), tries=4) == []


@pytest.mark.parametrize(("task_type", "seed"), GAMES)
def test_the_expert_wins_by_the_port_what_it_wins_without(task_type: str, seed: int, tmp_path: Path) -> None:
    task = made_up(task_type, seed)
    path = expert_path(tmp_path, task)
    assert path
    said = [*(f"Act: {command}" for command, _ in path), "Act: done"]
    result, text = carried_out(AlfworldWorld(task), task.instruction, said)
    assert "".join(f"Act: {command}\n{feedback}\n" for command, feedback in path) in text
    assert (result.gsr, result.ssr, result.status, result.steps) == (1, 1, "success", len(path))


@pytest.mark.parametrize(
    "name", ["react", "reactree", "hiagent_example", "codeact_example", "recode_examples", "adaplanner_example"]
)
def test_the_examples_in_the_prompts_are_as_they_would_come_out(name: str) -> None:
    task = made_up(COOL, 9_999)  # past the greatest seed of a suite
    result, said = example_of(name, AlfworldWorld(task), task.instruction)
    assert (result.gsr, result.status) == (1, "success")
    assert prompt(SPEC.household.prompts, f"{name}.txt") == said


def test_a_planner_that_knows_where_things_are_wins_and_comes_nearer_step_by_step() -> None:
    task = small(task_type=HEAT)
    with AlfworldWorld(task) as world:
        shares = []
        for command in plan_for(task):
            world.execute(command).result()
            shares.append(world.score().result().ssr)
    assert shares[-1] == 1
    assert 1 / 3 in shares
    assert all(before <= after for before, after in pairwise(shares))


# ---------------------------------------------------------------------- what it says


def test_what_cannot_be_done_is_answered_in_its_own_words_and_typed() -> None:
    with AlfworldWorld(small()) as world:
        start = world.observe().result()
        assert start.text == (
            "You are in the middle of a room. Looking quickly around you, you see a countertop 1, and a fridge 1."
        )
        for skill, outcome in (
            ("take apple 1 from countertop 1", Outcome.PRECONDITION),
            ("take apple 2 from countertop 1", Outcome.UNKNOWN_SKILL),
            ("put apple 1 in fridge 1", Outcome.UNKNOWN_SKILL),
            ("open apple", Outcome.UNKNOWN_SKILL),
            ("", Outcome.UNKNOWN_SKILL),
            ("go to fridge 1\nopen fridge 1", Outcome.UNKNOWN_SKILL),
        ):
            refused = world.execute(skill).result()
            assert (refused.text, refused.outcome) == ("Nothing happens.", outcome), skill
        assert world.execute("  Go to  Countertop 1 ").result().text.startswith("You arrive at countertop 1.")


def test_it_tells_what_is_seen_where_to_working_memory_too() -> None:
    with AlfworldWorld(small()) as world:
        assert {"apple", "mug", "kettle"} <= set(world.recallable)
        assert world.execute("go to fridge 1").result().seen == ()
        opened = world.execute("open fridge 1").result()
        assert (opened.seen, opened.looked_into) == ((Seen("mug", 1, room=None, place="fridge 1"),), "fridge 1")
        carried = world.execute("take mug 1 from fridge 1").result()
        assert carried.seen == (Seen("mug", 1, room=None, held=True),)
        assert world.observe().result().text == (
            "You are facing the fridge 1. Next to it, you see nothing. The fridge 1 is open. In it, you see nothing. "
            "You are carrying: a mug 1. Looking quickly around you, you see a countertop 1, and a fridge 1."
        )


def test_a_game_that_was_won_stays_won_until_it_begins_anew() -> None:
    with AlfworldWorld(small()) as world:
        won = ["go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1", "open fridge 1"]
        for command in (*won, "move apple 1 to fridge 1", "take apple 1 from fridge 1"):
            assert world.execute(command).result().outcome is Outcome.DONE
        assert world.score().result().gsr == 1
        world.reset().result()
        assert world.score().result().ssr == 0
    with AlfworldWorld(small(), scored=False) as world:
        assert world.score().result() is None


def test_goal_conditions_are_alfreds() -> None:
    def met(wanted: Wanted, *facts: str) -> tuple[int, int]:
        return conditions_met(wanted, Turn("", (), False, tuple(tuple(fact.split("/")) for fact in facts)))

    in_fridge = ("inreceptacle/apple 1/fridge 1", "inreceptacle/apple 2/fridge 2")
    assert met(Wanted(PLACE, "Apple", "Fridge"), "inreceptacle/pineapple 1/fridge 1") == (0, 1)
    assert met(Wanted(PLACE, "Apple", "Fridge"), in_fridge[0]) == (1, 1)
    assert met(Wanted(TWO, "Apple", "Fridge"), *in_fridge) == (1, 2)
    assert met(Wanted(TWO, "Apple", "Fridge"), in_fridge[0], "inreceptacle/apple 2/fridge 1") == (2, 2)
    assert met(Wanted(HEAT, "Apple", "Fridge"), in_fridge[0], "ishot/apple 2") == (2, 3)
    assert met(Wanted(HEAT, "Apple", "Fridge"), in_fridge[0], "ishot/apple 1") == (3, 3)
    assert met(Wanted(CLEAN, "Apple", "Fridge"), in_fridge[0], "ishot/apple 1", "isclean/mug 1") == (1, 3)
    lit = Wanted(LIGHT, "Book", lamp="DeskLamp")
    lamp = ("istoggled/desklamp 1", "inreceptacle/desklamp 1/desk 1", "receptacleatlocation/desk 1/place_1")
    assert met(lit, *lamp, "atlocation/agent1/place_2", "holds/agent1/book 2") == (1, 2)
    assert met(lit, *lamp, "atlocation/agent1/place_1", "holds/agent1/book 2") == (2, 2)


# ---------------------------------------------------------------------- games


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_games_that_are_made_up_can_be_won_and_are_not_won_at_the_start(task_type: str) -> None:
    houses, asked = set(), set()
    for seed in range(1, 31):
        task = made_up(task_type, seed)
        assert task == made_up(task_type, seed)
        assert task.wanted is not None
        wanted = task.wanted
        places = re.findall(rf"\(inReceptacle {wanted.item}_bar_\d+ (\w+)\)", task.problem)
        assert len(places) >= (2 if task_type == TWO else 1)
        kinds = dict(re.findall(r"\(receptacleType (\w+) (\w+)Type\)", task.problem))
        if task_type == LIGHT:
            assert re.search(rf"\(inReceptacle {wanted.lamp}_bar_1 ", task.problem)
            assert f"(toggleable {wanted.lamp}_bar_1)" in task.problem
        else:
            assert wanted.receptacle in set(kinds.values()) - {kinds[place] for place in places}
            assert f"(canContain {wanted.receptacle}Type {wanted.item}Type)" in task.problem
        if task_type in TREATMENTS:
            assert TREATMENTS[task_type][1] in kinds.values()
        houses.add(task.house)
        asked.add(task.instruction)
    assert len(houses) > 5
    assert len(asked) > 10


def test_a_folder_of_games_is_played_as_it_is(tmp_path: Path) -> None:
    wins = write_game(tmp_path / "valid_seen", small())
    write_game(tmp_path / "valid_seen" / "pick_two_obj_and_place-Apple-None-Fridge-0", small())
    write_game(tmp_path / "pick_and_place_with_movable_recep-1", small())
    place = Place.from_settings(SPEC, AlfworldSettings(games=str(tmp_path), task_types=PLACE))
    assert place.settings.of_many
    (number,) = [one for one, task in place.tasks.items() if task.file == wins]
    task = place.task(number)
    assert (task.instruction, task.task_name) == ("put an apple in fridge", PLACE)
    assert asks_for(task, "Put an apple in fridge.")
    with place.make(task) as world:
        for command in plan_for(task):
            world.execute(command).result()
        assert world.score().result().gsr == 1
    assert all("movable" not in str(one.file) for one in place.tasks.values())


def test_a_game_without_a_trial_beside_is_won_or_not(tmp_path: Path) -> None:
    file = write_game(tmp_path, small())
    (file.parent / "traj_data.json").unlink()
    (task,) = games_of(AlfworldGames(games=str(tmp_path))).values()
    assert (task.wanted, task.task_name, task.instruction) == (None, PLACE, "put an apple in fridge")
    with AlfworldWorld(task) as world:
        assert world.score().result().ssr == 0
        for command in plan_for(task):
            world.execute(command).result()
        assert world.score().result().ssr == 1


def test_what_people_asked_for_is_the_instruction_where_the_game_has_none(tmp_path: Path) -> None:
    write_game(tmp_path, small(), grammar=games._text("alfred.twl2"))
    (task,) = games_of(AlfworldGames(games=str(tmp_path))).values()
    assert task.instruction == "Please put an apple in fridge."


def broken(tmp_path: Path, kind: str) -> Path:
    if kind == "a trial that is none":
        file = write_game(tmp_path, small())
        (file.parent / "traj_data.json").write_text('{"task_type": 3}')
        return file
    changed = {
        "said to have no solution": {"solvable": False},
        "no words": {"grammar": "{"},
        "no PDDL": {"pddl_problem": "(define (problem"},
        "no domain": {"pddl_domain": "(define (domain alfred))"},
        "no problem": {"pddl_problem": None},
    }
    file = write_game(tmp_path, small(), **changed.get(kind, {}))
    if kind == "no JSON":
        file.write_text(file.read_text()[:100])
    if kind == "a list":
        file.write_text("[]")
    if kind == "not text":
        file.write_bytes(b"\xff\xfe\x00")
    return file


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no JSON", "cannot be read as game of ALFWorld"),
        ("a list", "cannot be read as game of ALFWorld"),
        ("not text", "cannot be read as game of ALFWorld"),
        ("said to have no solution", "marks it as unsolvable"),
        ("a trial that is none", "task_type"),
        ("no words", "cannot play this game"),
        ("no PDDL", "cannot play this game"),
        ("no domain", "cannot play this game"),
        ("no problem", "cannot play this game"),
    ],
)
def test_a_game_that_cannot_be_played_is_named_in_a_line_and_the_next_can(tmp_path: Path, kind: str, said: str) -> None:
    file = broken(tmp_path, kind)
    (task,) = games_of(AlfworldGames(games=str(tmp_path))).values()
    model = ScriptedModel({task.instruction: []})
    with AlfworldWorld(task) as world:
        result = Episode(task.instruction, world=world, model=model, planner=planner(f"react:{BARE}")).run()
    assert (result.end, "\n" in result.message) == ("world_gone", False)
    assert str(file.parent) in result.message
    assert said in result.message
    if task.unplayable:
        with pytest.raises(UserError, match=said):
            SPEC.make(AlfworldSettings(), task)
    with AlfworldWorld(small()) as world:
        assert world.execute("go to fridge 1").result().outcome is Outcome.DONE


def test_games_are_made_of_alfreds_trials() -> None:
    if not SHARED.exists():
        pytest.skip("the test material ../shared/data/alfred is not here")
    made = games_of(AlfworldGames(games=str(SHARED)))
    assert len(made) >= 150
    assert {task.task_name for task in made.values()} == set(TASK_TYPES)
    trials = dict(enumerate(load_trials(SHARED), 1))
    sliced = next(trial for trial in trials.values() if trial.pddl_params.object_sliced)
    with pytest.raises(UserError, match="no tasks with slices"):
        of_trial(sliced)
    number = next(one for one, task in made.items() if task.task_name == TWO)
    task, trial = made[number], trials[number]
    assert task.house == trial.scene.floor_plan
    kinds = [pose.name.partition("_")[0] for pose in trial.scene.object_poses]
    for kind in set(kinds):
        assert len(re.findall(rf"\(objectType {kind}_bar_\d+ ", task.problem)) in (0, kinds.count(kind))
    with AlfworldWorld(task) as world:
        for command in plan_for(task):
            world.execute(command).result()
        assert world.score().result().gsr == 1


def test_things_of_a_trial_are_where_it_says_they_are() -> None:
    if not SHARED.exists():
        pytest.skip("the test material ../shared/data/alfred is not here")
    near = 0
    placed = 0
    for trial in load_trials(SHARED)[:40]:
        try:
            task = of_trial(trial)
        except UserError:
            continue
        room = {games._id(one.id): one for one in rooms.room_of(task.house).receptacles}
        for thing, place in re.findall(r"\(inReceptacle (\w+) (\w+)\)", task.problem):
            kind, _, number = thing.partition("_bar_")
            poses = [pose for pose in trial.scene.object_poses if pose.name.startswith(f"{kind}_")]
            position = room[place].position
            if poses and position is not None:
                at = poses[int(number) - 1].position
                placed += 1
                near += max(abs(at.x - position[0]), abs(at.z - position[2])) < 1.5
    assert placed > 500
    assert near / placed > 0.9


# ---------------------------------------------------------------------- processes


def test_a_process_that_ends_in_mid_episode_is_told_in_one_line_and_the_next_reset_has_another() -> None:
    task = small()
    with AlfworldWorld(task) as world:
        world.observe().result()
        assert world._engine is not None
        world._engine._process.kill()
        world._engine._process.wait(10)
        model = ScriptedModel({task.instruction: ["Act: look"]})
        result = Episode(task.instruction, world=world, model=model, planner=planner(f"react:{BARE}")).run()
        assert (result.end, "\n" in result.message) == ("world_gone", False)
        assert "ALFWorld's process is gone: it has ended by SIGKILL" in result.message
        assert "fridge 1" in world.reset().result().text


def test_a_process_that_has_played_many_games_is_not_given_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MOST_GAMES", 1)
    with AlfworldWorld(small()) as world:
        world.observe().result()
        engine = world._engine
    assert engine is not None
    assert engine.lost == "ALFWorld's process was closed"
    assert engine._process.poll() is not None


def test_nothing_is_made_in_the_users_home(tmp_path: Path) -> None:
    code = (
        "from reactree_lab.worlds.alfworld.world import AlfworldProcess\n"
        "from reactree_lab.worlds.alfworld.games import made_up\n"
        "game = made_up('pick_and_place_simple', 5); AlfworldProcess().load(game.data()); print(game.instruction)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ALFWORLD_DATA"}
    environment["HOME"] = str(tmp_path)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ended.stdout.strip() == made_up(PLACE, 5).instruction, ended.stderr
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- settings and commands


def test_what_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no task type 'pick_and_plac'; did you mean 'pick_and_place_simple'"):
        read_settings(AlfworldSettings, {"task_types": "pick_and_plac"}, where="test")
    with pytest.raises(UserError, match="there is no task type ''"):
        read_settings(AlfworldGames, {"task_types": f"{LIGHT},"}, where="test")
    with pytest.raises(UserError, match=r"no folder .*/nowhere"):
        games_of(AlfworldGames(games=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match=r"has no \*\.tw-pddl"):
        games_of(AlfworldGames(games=str(tmp_path)))
    (tmp_path / "some.jsonl").write_text("{}")
    with pytest.raises(UserError, match=r"some\.jsonl:1"):
        games_of(AlfworldGames(games=str(tmp_path / "some.jsonl")))


def test_the_suite_makes_games_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("reactree_lab.worlds.alfworld.world.made_up", lambda *given: made.append(given) or small())
    tasks = SUITE.tasks(read_settings(AlfworldGames, {"number": 4000, "first_seed": 7}, where="test"))
    assert (len(tasks), next(iter(tasks)), made) == (24_000, 10_007, [])
    assert tasks[60_008].task_name == PLACE
    assert made == [(TWO, 8)]


def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reactree_ros.cli"]
    instruction = made_up(PLACE, 2).instruction
    options = ["--llm", "expert", "--max-decisions", "2", "--json"]
    run = subprocess.run(
        [*command, "run", "--world", "alfworld", instruction, *options], capture_output=True, text=True
    )
    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["instruction"] == instruction
    write_game(tmp_path / "data", small())
    broken(tmp_path / "data" / "other", "no PDDL")
    suite = ["--suite", "alfworld", "--suite-option", f"games={tmp_path / 'data'}", "--planner", "react"]
    bench = [
        *command,
        "lab",
        "bench",
        *suite,
        "--llm",
        "expert",
        "--max-decisions",
        "2",
        "--out",
        str(tmp_path / "bench"),
    ]
    ended = subprocess.run(bench, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    results = [json.loads(line) for line in (tmp_path / "bench/results.jsonl").read_text().splitlines()]
    assert [one["task_name"] for one in results] == [PLACE]
    assert "1 broke off (1 world_gone)" in ended.stdout + ended.stderr


def test_the_names_are_alfworlds_own() -> None:
    from alfworld.agents.environment import alfred_tw_env

    assert set(TASK_TYPES) == set(alfred_tw_env.TASK_TYPES.values())
