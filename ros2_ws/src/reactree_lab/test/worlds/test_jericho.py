"""The world ``jericho``, as far as it needs no interpreter: story files, and what is read out of what games say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reactree_lab.worlds.jericho.player import Player
from reactree_lab.worlds.jericho.world import (
    SUITE,
    JerichoSettings,
    JerichoSuiteSettings,
    _refusal,
    check_story,
    story_task,
    tasks_of,
)
from reactree_ros.errors import UserError
from reactree_ros.world.spec import asks_for

#: A header whose length is that of the file.
STORY = bytes([5, *[0] * 25, 0, 16, *[0] * 36])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "this is not a story file: 0 bytes"),
        (b"hello, I am a letter", "this is not a story file: 20 bytes"),
        (bytes(64), "this is not a story file, or one of the version 0"),
        (b"PK\3\4" + bytes(60), "this is not a story file, or one of the version 80"),
        (bytes([9, *STORY[1:]]), "this is not a story file, or one of the version 9"),
        (b"FORM" + STORY, "this is a Blorb archive, whose story has to be taken out first"),
        (b"Glul" + STORY, "this is a game for Glulx"),
        (bytes([5, *[0] * 25, 1, 0, *[0] * 36]), "the story file is cut off: 64 bytes of 1024"),
        (bytes([8, *[0] * 25, 0, 16, *[0] * 36]), "the story file is cut off: 64 bytes of 128"),
    ],
)
def test_what_is_no_story_is_told_in_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.z5").write_bytes(content)
    with pytest.raises(UserError) as told:
        check_story(tmp_path / "a.z5")
    assert str(told.value) == (
        f"{tmp_path / 'a.z5'}: {said}; jericho runs story files of the Z-machine, versions 1 to 8"
    )


@pytest.mark.parametrize("version", range(1, 9))
def test_every_version_of_the_machine_may_be_tried(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.z5").write_bytes(bytes([version, *[0] * 63]))  # old stories do not say how long they are
    check_story(tmp_path / "a.z5")


def test_a_story_is_asked_for_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "cave.z5").write_bytes(STORY)
    (task,) = tasks_of(JerichoSettings(story=str(tmp_path / "cave.z5"))).values()
    assert task.instruction == "play the text adventure cave to its end, with the full score"
    assert (task.task_name, task.seed) == ("cave", 0)
    own = story_task(tmp_path / "cave.z5", "find the way out of {name}", 3)
    assert (own.instruction, own.seed) == ("find the way out of cave", 3)
    assert asks_for(own, " find the way out of cave")
    for story, said in (("", "name a story file"), ("no.z5", "no.z5: cannot be read: No such file")):
        with pytest.raises(UserError, match=re.escape(said)):
            tasks_of(JerichoSettings(story=story))


def test_a_suite_has_the_stories_of_a_folder_by_name(tmp_path: Path) -> None:
    for name in ("b.z8", "a.Z3", "notes.txt", "c.zip"):
        (tmp_path / name).write_bytes(STORY)
    (tmp_path / "saved.z5").mkdir()
    tasks = SUITE.tasks(JerichoSuiteSettings(stories=str(tmp_path), instruction="win {name}"))
    assert {number: task.instruction for number, task in tasks.items()} == {1: "win a", 2: "win b"}
    (tmp_path / "empty").mkdir()
    for stories, said in (
        ("", "name the folder of story files"),
        (str(tmp_path / "no"), "no such folder"),
        (str(tmp_path / "empty"), "holds no story file"),
    ):
        with pytest.raises(UserError, match=said):
            SUITE.tasks(JerichoSuiteSettings(stories=stories))


class Game:
    """Answers the word ``score``, and nothing else."""

    is_fully_supported = False

    def __init__(self, answer: str) -> None:
        self.answer, self.state = answer, 0
        self.frotz_lib = self

    def get_opcode(self) -> int:
        return 228

    def get_state(self) -> int:
        return self.state

    def set_state(self, state: int) -> None:
        self.state = state

    def step(self, said: str) -> tuple[str, int, bool, dict[str, int]]:
        assert said == "score"
        self.state += 1
        return self.answer, 0, False, {}

    def _emulator_halted(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("said", "score", "maximum"),
    [
        ("You have so far scored 15 out of a possible 100, in 1 turn, earning you the rank of novice.", 15, 100),
        ("Your score is 10 (total of 350 points), in 3 moves.\nThis gives you the rank of Beginner.", 10, 350),
        ("Your score would be -5 (total of 585 points), in\n12 moves.", -5, 585),
        ("[Your score is 7 of a possible 400, in 2 turns.]", 7, 400),
        ("Score: 3/4", 3, 4),
        ("You have scored 10 points in 5 turns, out of a maximum of 60.", 10, 60),
        ("There is no score in this game.", 0, 0),
        ("I don't know the word \"score\". It is 5 of 12 o'clock.", 0, 0),
        ("Your score is 12.", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_score_is_read_as_games_tell_it(said: str, score: int, maximum: int) -> None:
    player, game = Player(), Game(said)
    player._env = game
    assert player._score_told("You are in a maze.") == (score, maximum)
    assert game.state == 0
    player._over = True
    assert player._score_told("*** You have died ***\n\nIn that game you scored 5 out of a possible 9.") == (5, 9)


@pytest.mark.parametrize(
    ("said", "over", "won"),
    [
        ("    *** You have won ***\n\nWould you like to RESTART, RESTORE or QUIT?", True, True),
        ("    ****  You have died  ****\n\nDo you want to restart?", True, False),
        ("*** Victory! ***\n\nRestart, restore, or quit?", True, True),
        ("Restart?\n *** You have died ***", False, False),
        ("    ****  You have died  ****\n\nNow, let's take a look here...", False, False),
        ("A sign says: *** KEEP OUT ***", False, False),
        ("You may restart the machine.", False, False),
    ],
)
def test_an_end_is_read_as_games_tell_it(said: str, over: bool, won: bool) -> None:
    player = Player()
    player._notice_end(said)
    assert (player._over, player._won) == (over, won)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "restart",
            "Restart.",
            "RESTORE",
            "restarted",
            "save",
            "quit",
            "q",
            "undo",
            "oops restart",
            "tw-print max_score",
        ),
        *(
            "north. restart",
            "take lamp then quit",
            "n.save",
            "wait;undo",
            "script",
            "$verify",
            '"restart"',
            "look. , q",
        ),
    ],
)
def test_what_is_no_part_of_the_story_is_not_passed_on(said: str) -> None:
    assert re.fullmatch(r"There is no way to \S.* here\.", _refusal(said))


@pytest.mark.parametrize(
    "said", ["north. east", "save the whale", "restore the light", "rest", "say restart", "quietly go", "open o", ""]
)
def test_what_only_looks_like_that_is(said: str) -> None:
    assert _refusal(said) == ""


@pytest.mark.parametrize("said", ["\\help", "look\x07", "öffne die Tür", "n" * 199])
def test_what_no_game_can_read_is_not_passed_on(said: str) -> None:
    assert _refusal(said).startswith("Games read ")
