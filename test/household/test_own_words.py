"""A house whose map has words of its own: the expert reads, says and does what they name."""

from __future__ import annotations

import pytest

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.lexicon import look_up
from reactree_ros.household.vocabulary import WORDS, ObjectClass, with_own
from reactree_ros.llm.port import DecisionRequest

START = (
    "You are in the house, and there are 2 rooms: kitchen (1), office (1). You are in the middle of a kitchen (1). "
    "Looking quickly around the room, you see table (1), trash can (1)."
)
SKILLS = ["done", "failure", "go to kitchen 1", "go to office 1", "go to table 1", "go to trash can 1"]
THINGS = ("banana", "coke")
PLACES = ("table", "desk", "counter left", "trash can")


def decision(task: str, *, words: tuple[str, ...] = (), things: tuple[str, ...] = (), skills: list[str]) -> str:
    turns = (Told(f"Your task is to: {task}", About.TASK), Saw(START))
    request = DecisionRequest(turns, DecisionGrammar(skills), words=words, things=things)
    return ExpertModel().consider(request).text


@pytest.mark.parametrize("told", ["by the world", "by its skills"])
@pytest.mark.parametrize(
    ("task", "plan"),
    [
        ("Put 1 banana on the table", "move the banana on the table"),
        ("Put the bananas on the desk", "move 2 of the banana on the desk"),
        ("Bring the cokes to the table", "move 2 of the coke on the table"),
        ("Put the coke into the bin", "move the coke in the trash can"),
        ("Put the coke into the trash can", "move the coke in the trash can"),
        ("Put the pepsi on the table", "I do not understand what to do: “Put the pepsi on the table”."),
        ("Put the coke and the pepsi on the table", "I do not understand: pepsi."),
    ],
)
def test_the_words_of_a_map_are_words(task: str, plan: str, told: str) -> None:
    if told == "by the world":
        said = decision(task, words=(*WORDS, *PLACES, *THINGS), things=THINGS, skills=SKILLS)
    else:
        said = decision(task, skills=[*SKILLS, "go to desk 1", *(f"recall location of {one}" for one in THINGS)])
    assert plan[1:] in said  # a thought begins with a capital


def test_a_place_that_was_not_seen_yet_and_a_room_are_words() -> None:
    words = (*WORDS, *PLACES, *THINGS)
    for task in ("Put the coke on the left counter", "Put the coke on the counter left"):
        assert "the coke on the counter left" in decision(task, words=words, things=THINGS, skills=SKILLS)
    assert decision("Go to the office", words=words, things=THINGS, skills=SKILLS) == "Act: go to office 1"
    assert decision("Go to the table", words=words, things=THINGS, skills=SKILLS) == "Act: go to table 1"


def test_own_words_last_as_long_as_their_house() -> None:
    banana = ObjectClass(
        name="banana", word="banana", category="Placable", properties=frozenset({"GRABBABLE"}), observed=True,
        room_item=False,
    )  # fmt: skip
    with with_own((banana,)):
        meant = [entry.words for entry, _ in filter(None, (look_up([one], 0) for one in ("banana", "bananas")))]
    assert meant == [("banana",), ("banana",)]
    found = look_up(["banana"], 0)
    assert found is not None
    assert found[0].words == ("bananas",)
