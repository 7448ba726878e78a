"""The world ``jericho``: a game of our own by the port, and what games, people and processes do to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from doubles import ScriptedModel
from greywater import PATH, compiled, greywater
from plans import BARE, example_of
from zcode import BY_ZERO, END, FOR_EVER, READ, READ_KEY, UNKNOWN, again, printed, story

from reactree_lab.worlds.jericho.world import Interpreter, JerichoWorld, StoryTask, story_task
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode
from reactree_ros.planners.spec import planner
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome, WorldError

pytestmark = pytest.mark.worlds
pytest.importorskip("jericho", reason="needs the package jericho")
pytest.importorskip("textworld", reason="needs the package textworld, whose compiler makes the game")

REACT = f"react:{BARE}"
COMMAND = [sys.executable, "-m", "reactree_ros.cli"]


def test_it_keeps_to_the_port() -> None:
    assert check_world(JerichoWorld(greywater())) == []


def test_the_games_own_way_ends_at_the_full_score_and_never_falls() -> None:
    with JerichoWorld(greywater()) as world:
        scores = [world.score().result()]
        for said in PATH:
            answer = world.execute(said).result()
            scores.append(world.score().result())
        assert [one.ssr for one in scores] == [0, 0, 0, 0.2, 0.2, 0.2, 0.2, 0.4, 0.4, 0.4, 0.6, 1]
        assert all(before.ssr <= after.ssr for before, after in pairwise(scores))
        assert [one.gsr for one in scores] == [*[0] * len(PATH), 1]
        assert answer.text.endswith(
            "*** You have won ***\nYour score is 50 out of 50; turns: 11.\nWill you RESTART or QUIT?\nThe game is over."
        )


@pytest.mark.parametrize("name", ["react", "reactree", "hiagent_example"])
def test_the_examples_in_the_prompts_are_as_they_would_come_out(name: str) -> None:
    result, said = example_of(name, JerichoWorld(greywater()), greywater().instruction)
    assert (result.gsr, result.ssr, result.status) == (1, 1, "success")
    assert prompt(JerichoWorld.household.prompts, f"{name}.txt") == said


def test_skills_are_said_freely_and_the_game_says_which_it_does_not_know() -> None:
    said = ["Act: Take  the key.", "Act: east", "Act: open chest", "Act: take the iron key", "Act: polish key"]
    model = ScriptedModel({greywater().instruction: [*said, "Act: failure"]})
    with JerichoWorld(greywater()) as world:
        assert world.available_skills().result() == [
            *("look", "inventory", "wait", "north", "south", "east", "west", "up", "down")
        ]
        result = Episode(greywater().instruction, world=world, model=model, planner=planner(REACT)).run()
        assert "  iron key" in world.observe().result().text
    assert (result.gsr, result.ssr, result.status) == (0, 0.2, "failure")
    told = model.requests[-1].prompt
    assert "You can't see any such thing.\n" in told
    assert "Act: take the iron key\nTaken.\n(That is worth 10 points.)\n" in told
    assert 'Act: polish key\nI don\'t know the word "polish".' in told
    assert model.requests[0].may_say.free


@pytest.mark.parametrize("said", ["restart", "quit", "look. undo", "\\help", "\\s", "\\N", "é", "look " * 50, "xyzzy"])
def test_what_is_refused_changes_nothing(said: str) -> None:
    with JerichoWorld(greywater()) as world:
        for one in PATH[:3]:
            world.execute(one).result()
        before = world.observe().result()
        assert world.execute(said).result().outcome is Outcome.UNKNOWN_SKILL
        assert world.observe().result() == before
        assert world.execute("score").result().text == "Your score is 10 out of 50; turns: 3."


def test_looking_and_asking_for_the_score_take_no_turn() -> None:
    with JerichoWorld(greywater()) as world:
        world.execute("east").result()
        for _ in range(5):
            world.observe().result()
            world.score().result()
        assert world.execute("score").result().text.endswith("turns: 1.")


def test_a_game_that_is_over_says_so_and_takes_nothing_more() -> None:
    with JerichoWorld(greywater()) as world:
        first = world.observe().result()
        for said in ("east", "open chest", "take key", "west", "west"):
            world.execute(said).result()
        died = world.execute("west").result()
        assert died.text.startswith("You take the step. The sea takes you.\n")
        assert died.text.endswith("\nThe game is over.")
        assert world.available_skills().result() == []
        after = world.execute("east").result()
        assert (after.outcome, after.text) == (
            Outcome.PRECONDITION,
            "The game is over. Nothing more can be done in it.",
        )
        assert "The sea takes you." in world.observe().result().text
        assert world.score().result().ssr == 0.2
        assert world.reset().result() == first
        assert world.score().result().ssr == 0
        assert world.execute("east").result().outcome is Outcome.DONE


def test_a_model_may_go_on_talking_after_the_end() -> None:
    model = ScriptedModel(
        {greywater().instruction: ["Act: west", "Act: west", "Act: look", "Act: restart", "Act: failure"]}
    )
    with JerichoWorld(greywater()) as world:
        result = Episode(greywater().instruction, world=world, model=model, planner=planner(REACT)).run()
    assert (result.status, result.gsr) == ("failure", 0)


def waits(world: JerichoWorld, times: int = 12) -> list[str]:
    return [world.execute("wait").result().text for _ in range(times)]


def test_the_same_seed_makes_the_same_game() -> None:
    with JerichoWorld(greywater()) as world, JerichoWorld(story_task(compiled(), seed=7)) as seventh:
        own = waits(world)
        world.reset().result()
        assert waits(world) == own
        world.reset(7).result()
        assert waits(world) == waits(seventh) != own


def made(folder: Path, *program: bytes, name: str = "made.z5") -> StoryTask:
    file = folder / name
    file.write_bytes(story(*program))
    return story_task(file)


WAYS_TO_BREAK = {
    "never comes back": (FOR_EVER, "it does not answer within 3 s"),
    "divides by nothing": (BY_ZERO, "it has ended by SIGFPE"),
    "is not a program": (UNKNOWN, "the game has stopped with an error of its own, or of the interpreter's"),
    "ends without a word": (END + bytes(8), "the game has stopped with an error of its own"),
}
HERE = printed("here\n") + READ


@pytest.mark.parametrize("way", list(WAYS_TO_BREAK))
def test_a_story_that_breaks_the_interpreter_costs_no_more_than_its_episode(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, said = WAYS_TO_BREAK[way]
    task = made(tmp_path, printed("A cave.\n"), READ, program)
    with monkeypatch.context() as limited, JerichoWorld(task) as world:
        limited.setattr(Interpreter, "answer_limit", 3.0)
        model = ScriptedModel({task.instruction: ["Act: look", "Act: done"]})
        result = Episode(task.instruction, world=world, model=model, planner=planner(REACT)).run()
        assert (result.end, "\n" in result.message) == ("world_gone", False)
        assert f"the interpreter of jericho is gone: {said}" in result.message
    with JerichoWorld(greywater()) as world:
        assert "Quay" in world.observe().result().text


def test_an_interpreter_that_dies_in_mid_episode_is_told_and_the_next_reset_has_another() -> None:
    with JerichoWorld(greywater()) as world:
        first = world.observe().result()
        assert world._interpreter is not None
        world._interpreter._process.kill()
        with pytest.raises(WorldError, match=r"the interpreter of jericho is gone: it has ended by SIGKILL"):
            world.execute("east").result()
        with pytest.raises(WorldError, match="SIGKILL"):
            world.observe().result()
        assert world.reset().result() == first


def test_closing_ends_a_game_that_never_comes_back(tmp_path: Path) -> None:
    world = JerichoWorld(made(tmp_path, printed("A cave.\n"), READ, FOR_EVER))
    pending = world.execute("look")
    until(lambda: world._interpreter is not None)
    assert world._interpreter is not None
    process = world._interpreter._process
    pending.cancel()
    world.close()
    assert process.wait(30) == -signal.SIGKILL
    world.close()
    with pytest.raises(WorldError, match="closed"):
        world.observe().result()


def test_keys_that_a_game_waits_for_are_pressed(tmp_path: Path) -> None:
    rooms = HERE + printed("More.\n") + READ_KEY
    task = made(tmp_path, printed("Press a key.\n"), READ_KEY, rooms, again(rooms))
    with JerichoWorld(task) as world:
        assert world.observe().result().text == "You look around. Press a key.\nhere"
        assert world.execute("look around").result().text == "More.\nhere"
        assert world.score().result().ssr == 0  # it tells none


def test_a_game_that_waits_for_keys_for_ever_goes_on_with_what_is_said(tmp_path: Path) -> None:
    keys = READ_KEY + printed("Beep. ")
    with JerichoWorld(made(tmp_path, printed("A piano.\n"), keys, again(keys))) as world:
        beeps = world.observe().result().text.count("Beep.")
        assert world.execute("look").result().text.count("Beep.") == beeps + 1
        assert world.observe().result().text.startswith("You look around. Beep.")


def test_a_game_leaves_no_file_behind() -> None:
    interpreter = Interpreter()
    interpreter.load(greywater().story, 0)
    where = os.readlink(f"/proc/{interpreter._process.pid}/cwd")
    assert where.endswith(" (deleted)")
    assert not Path(where.removesuffix(" (deleted)")).exists()
    interpreter.kill()


def until(happens, bound: float = 30.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + bound
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_worlds_at_once_have_an_interpreter_each() -> None:
    with JerichoWorld(greywater()) as one, JerichoWorld(greywater()) as other:
        one.execute("east").result()
        assert "Quay" in other.observe().result().text
        assert "Hut" in one.observe().result().text


def reactree(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True)


def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    options = ["--llm", "expert", "--max-decisions", 3, "--json", "--world-option", f"story={compiled()}"]
    run = reactree("run", "--world", "jericho", *options)
    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["instruction"] == greywater().instruction
    wrong = reactree("run", "--world", "jericho", "--llm", "expert", "--world-option", "story=no.z5")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1), wrong.stderr
    assert "no.z5: cannot be read: No such file or directory" in wrong.stderr


def test_a_bench_goes_on_past_a_story_that_breaks_and_a_resume_repeats_it(tmp_path: Path) -> None:
    stories = tmp_path / "stories"
    stories.mkdir()
    shutil.copy(compiled(), stories / "a.z5")
    (stories / "b.z5").write_bytes(compiled().read_bytes()[:5000])
    made(stories, printed("A cave.\n"), READ, BY_ZERO, name="c.z5")
    shutil.copy(compiled(), stories / "d.z5")
    options = ["lab", "bench", "--suite", "jericho", "--stories", stories, "--planner", "react", "--llm", "expert"]
    command = [*options, "--max-decisions", 2, "--out", tmp_path / "bench"]
    first = reactree(*command)
    assert results_of(tmp_path / "bench") == {"a", "d"}, first.stderr
    broken = (tmp_path / "bench" / "broken.jsonl").read_text()
    assert "it has ended with exit code 1 (Fatal error: Story file read error)" in broken
    assert "it has ended by SIGFPE" in broken
    for name in "bc":
        shutil.copy(compiled(), stories / f"{name}.z5")
    second = reactree(*command)
    assert results_of(tmp_path / "bench") == {"a", "b", "c", "d"}, second.stderr


def results_of(folder: Path) -> set[str]:
    return {json.loads(line)["task_name"] for line in (folder / "results.jsonl").read_text().splitlines()}
