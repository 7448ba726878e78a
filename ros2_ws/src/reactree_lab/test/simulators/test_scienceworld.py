"""The world ``scienceworld``: by the port, by the simulator's own ways, and by what people and processes do to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from doubles import ScriptedModel
from plans import BARE, example_of

from reactree_lab.worlds.scienceworld import world as engines
from reactree_lab.worlds.scienceworld.world import (
    SPEC,
    SUITE,
    VARIATIONS,
    ScienceTask,
    ScienceWorld,
    ScienceWorldSettings,
    ScienceWorldSuiteSettings,
    described,
    split,
    tasks_of,
)
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import read_settings
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome, WorldError

pytestmark = pytest.mark.worlds
pytest.importorskip("scienceworld", reason="needs the package scienceworld")
try:
    engines.check_java()
except UserError as error:
    pytest.skip(str(error), allow_module_level=True)

REACT = f"react:{BARE}"
#: Each so many-th type of task is swept over; `.ci/run` has not the time for all.
SWEEP = int(os.environ.get("SWEEP", "1"))


def gold_path(task: ScienceTask) -> list[str]:
    """The actions of the simulator's own way."""
    with engines.borrowed() as engine:
        engine._server.load(task.task_name, task.variation, task.simplifications, True)
        return list(engine._server.getGoldActionSequence())


@pytest.mark.parametrize("name", ["boil", "lifespan-longest-lived"])
def test_it_keeps_to_the_port(name: str) -> None:
    assert check_world(ScienceWorld(described(name, 0, ""))) == []


@pytest.mark.parametrize("name", list(VARIATIONS)[::SWEEP])
def test_the_simulators_own_way_through_every_type_of_task_ends_at_the_full_score(name: str) -> None:
    task = described(name, split(name, "test")[0], "")
    path = gold_path(task)
    with ScienceWorld(task) as world:
        assert world.score().result().ssr == 0
        for action in path:
            world.execute(action).result()
        score = world.score().result()
    assert (score.gsr, score.ssr) == (1, 1)


@pytest.mark.parametrize("name", ["react", "reactree", "hiagent_example", "recode_examples", "codeact_example"])
def test_the_examples_in_the_prompts_are_as_they_would_come_out(name: str) -> None:
    task = described("find-plant", 0, "")
    result, said = example_of(name, ScienceWorld(task), task.instruction)
    assert (result.gsr, result.status) == (1, "success")
    assert prompt(SPEC.household.prompts, f"{name}.txt") == said


def test_skills_are_said_freely_and_the_simulator_says_which_it_does_not_know() -> None:
    task = described("boil", 0, "")
    said = [
        "Act: open door to kitchen",
        "Act: go to kitchen",
        "Act: pick up stopwatch.",
        "Act: focus on stopwatch in my pocket",
        "Act: failure",
    ]
    model = ScriptedModel({task.instruction: said})
    with ScienceWorld(task) as world:
        listed = world.available_skills().result()
        assert {"open door to kitchen", "look around", "wait"} <= set(listed)
        assert not {"reset task", "pick up stopwatch"} & set(listed)
        Episode(task.instruction, world=world, model=model, planner=planner(REACT)).run()
        assert "a stopwatch" in world.observe().result().text
    told = model.requests[-1].prompt
    assert "Act: pick up stopwatch\nYou move the stopwatch to the inventory.\n" in told
    assert "Act: focus on stopwatch in my pocket\nNo known action matches that input." in told
    free = model.requests[0].may_say
    assert free.free
    assert "open door to kitchen" not in free.regex()


def test_what_is_made_easier_is_told() -> None:
    with ScienceWorld(described("boil", 0, "easy")) as world:
        assert world.household.rules.endswith("\n- teleport to <place>: at once, from wherever you are")
        assert "teleport to kitchen" in world.available_skills().result()
        assert world.execute("teleport to kitchen").result().text == "You teleport to the kitchen."
    assert check_world(ScienceWorld(described("boil", 0, "easy"))) == []
    with ScienceWorld(described("boil", 0, "openDoors")) as world:
        assert "teleport" not in world.household.rules


def test_an_ambiguous_request_is_answered_by_a_number() -> None:
    with ScienceWorld(described("boil", 0, "")) as world:
        asked = world.execute("eat door").result()
        assert asked.text.startswith("Ambiguous request: Please enter the number")
        assert world.available_skills().result()[:2] == ["0", "1"]
        assert world.execute("0").result().text == "The door is not edible."
        world.execute("eat door").result()
        dropped = world.execute("go north").result()
        assert (dropped.outcome, dropped.text.partition(".")[0]) == (Outcome.EXECUTION, "Unknown action")
        assert "look around" in world.available_skills().result()


def test_a_model_cannot_begin_the_task_anew() -> None:
    with ScienceWorld(described("boil", 0, "")) as world:
        world.execute("open door to kitchen").result()
        refused = world.execute("Reset  task").result()
        assert (refused.outcome, refused.text) == (Outcome.UNKNOWN_SKILL, "There is no way to reset task here.")
        assert "door to the kitchen (that is open)" in world.observe().result().text
        world.reset().result()
        assert "door to the kitchen (that is closed)" in world.observe().result().text


def test_the_score_is_the_one_at_which_the_task_was_over() -> None:
    task = described("find-plant", 0, "")
    path = gold_path(task)
    with ScienceWorld(task) as world:
        shares = [0.0]
        for action in path:
            world.execute(action).result()
            shares.append(world.score().result().ssr)
        assert all(before <= after for before, after in pairwise(shares))
        world.execute("focus on agent").result()
        assert world.score().result().gsr == 1
        world.reset().result()
        assert world.score().result().ssr == 0
        world.execute("focus on picture").result()  # which is not a plant
        for action in path:
            world.execute(action).result()
        assert (world.score().result().gsr, world.score().result().ssr) == (0, 0)


def test_java_that_ends_in_mid_episode_is_told_in_one_line_and_the_next_reset_has_another() -> None:
    task = described("boil", 0, "")
    with ScienceWorld(task) as world:
        world.observe().result()
        assert world._engine is not None
        world._engine._process.kill()
        world._engine._process.wait(10)
        result = Episode(
            task.instruction, world=world, model=ScriptedModel({task.instruction: []}), planner=planner(REACT)
        ).run()
        assert (result.end, "\n" in result.message) == ("world_gone", False)
        assert "ScienceWorld's Java process has ended" in result.message
        assert "hallway" in world.reset().result().text


def test_java_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ANSWER_LIMIT", 5.0)
    engine = engines.ScienceWorldProcess()
    engine.load("boil", 0, "")
    os.kill(engine._process.pid, signal.SIGSTOP)
    with pytest.raises(WorldError, match="does not answer"):
        engine.look()
    with pytest.raises(WorldError, match="does not answer"):
        engine.look()
    assert engine._process.wait(10) == -signal.SIGKILL


def test_java_ends_with_a_process_that_is_killed() -> None:
    code = (
        "import time; from reactree_lab.worlds.scienceworld.world import ScienceWorldProcess; "
        "print(ScienceWorldProcess()._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        java = Path("/proc") / process.stdout.readline().strip()
        assert java.exists()
        process.kill()
    bound = time.monotonic() + 30
    while java.exists() and "State:\tZ" not in (java / "status").read_text():
        assert time.monotonic() < bound, "Java still runs"
        time.sleep(0.1)


def test_many_episodes_share_a_java_and_leave_no_thread_behind() -> None:
    task = described("lifespan-longest-lived", 0, "")
    javas = set()
    for number in range(20):
        with ScienceWorld(task) as world:
            world.observe().result()
            assert world._engine is not None
            javas.add(world._engine._process.pid)
        if number == 0:
            before = threading.active_count()
    assert len(javas) == 1
    assert threading.active_count() <= before + 2


@pytest.mark.parametrize(
    ("java", "said"),
    [("", "/bin/java. is missing: install Java 17"), ("#!/bin/sh\nexit 1\n", "does not start ScienceWorld")],
    ids=["none", "one that does not work"],
)
def test_without_a_java_it_is_said_how_to_get_one(tmp_path: Path, java: str, said: str) -> None:
    file = tmp_path / "bin" / "java"
    file.parent.mkdir()
    if java:
        file.write_text(java)
        file.chmod(0o755)
    command = [sys.executable, "-m", "reactree_ros.cli", "run", "--world", "scienceworld", "--task-id", "0"]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
    assert re.search(said, ended.stderr)


def test_what_there_is_not_is_named() -> None:
    for values, said in (
        ({"task": "boyl"}, "there is no task 'boyl'; did you mean 'boil'"),
        ({"simplifications": "easy,openDoor"}, "there is no simplification 'openDoor'; did you mean 'openDoors'"),
    ):
        with pytest.raises(UserError, match=said):
            read_settings(ScienceWorldSettings, values, where="test")
    with pytest.raises(UserError, match="there is no task 'boyl'"):
        read_settings(ScienceWorldSuiteSettings, {"task_types": "melt,boyl"}, where="test")
    for values in ({"task_types": "melt,"}, {"simplifications": "easy,"}):
        with pytest.raises(UserError, match=r"there is no .* ''"):
            read_settings(ScienceWorldSuiteSettings, values, where="test")
    assert 29 in tasks_of(ScienceWorldSettings())
    assert 30 not in tasks_of(ScienceWorldSettings())


def test_types_and_parts_are_the_simulators_own() -> None:
    from scienceworld import ScienceWorldEnv

    client = ScienceWorldEnv()
    assert {name: client.get_max_variations(name) for name in client.get_task_names()} == VARIATIONS
    for name in ("boil", "identify-life-stages-2", "mendelian-genetics-known-plant"):
        client.load(name, 0, "")
        assert client.get_variations_train() == list(split(name, "train"))
        assert client.get_variations_dev() == list(split(name, "dev"))
        assert client.get_variations_test() == list(split(name, "test"))


def test_the_suite_has_tests_of_every_type_without_asking_the_simulator() -> None:
    tasks = SUITE.tasks(read_settings(ScienceWorldSuiteSettings, {}, where="test"))
    assert len(tasks) == 30
    assert next(iter(tasks)) == 10_021
    few = SUITE.tasks(read_settings(ScienceWorldSuiteSettings, {"task_types": "melt", "variations": 50}, where="test"))
    assert [one % 10_000 for one in few] == list(range(21, 30))
    assert few[20_021].instruction == described("melt", 21, "").instruction


def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reactree_ros.cli"]
    options = ["--llm", "expert", "--max-decisions", "3", "--json", "--task-id", "2", "--world-option", "task=melt"]
    run = subprocess.run([*command, "run", "--world", "scienceworld", *options], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["instruction"].startswith("melt ")
    which = subprocess.run([*command, "run", "--world", "scienceworld"], capture_output=True, text=True)
    assert (which.returncode, "which task is it? task_id is one of 0, 1, 2" in which.stderr) == (2, True), which.stderr
    suite = ["--suite", "scienceworld", "--task-types", "find-plant,melt", "--planner", "react", "--llm", "expert"]
    bench = [*command, "lab", "bench", *suite, "--max-decisions", "2", "--out", str(tmp_path / "bench")]
    ended = subprocess.run(bench, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    results = [json.loads(line) for line in (tmp_path / "bench/results.jsonl").read_text().splitlines()]
    assert [one["task_name"] for one in results] == ["find-plant", "melt"]
