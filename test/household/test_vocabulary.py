"""The vocabulary: what every class is called, what can be done with it and where it is listed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household, split_skill
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.transcript import parse_transcript
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.vocabulary import (
    CLASSES,
    RECALLABLE,
    WORDS,
    ObjectClass,
    Use,
    class_of_word,
    look_up,
    named,
    with_own,
    word_groups,
)
from reactree_ros.llm.port import DecisionRequest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
KNOWN_PROPERTIES = {"GRABBABLE", "SURFACES", "CONTAINERS", "CAN_OPEN", "HAS_SWITCH", "SITTABLE"}


@pytest.fixture(scope="module")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"needs the recordings in {SHARED}")
    return SHARED


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@given(st.sampled_from(list(CLASSES.items())))
def test_a_class_is_found_by_its_name_and_by_its_word(entry: tuple[str, ObjectClass]) -> None:
    name, about = entry
    assert about.name == name
    assert class_of_word(about.word) is about
    assert about.properties <= KNOWN_PROPERTIES


def test_a_class_name_is_one_word_in_lower_case() -> None:
    assert all(re.fullmatch("[a-z]+", name) for name in CLASSES)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("kitchencabinet", "kitchen cabinet"),
        ("dishbowl", "bowl"),
        ("breadslice", "slice of bread"),
        ("microwave", "microwave oven"),
        ("chinesefood", "Chinese food"),
        ("clothespile", "pile of clothes"),
        ("tv", "tv"),
        ("character", "user"),
    ],
)
def test_a_class_has_the_word_of_the_recordings(name: str, word: str) -> None:
    assert CLASSES[name].word == word


@pytest.mark.parametrize("word", ["dishbowl", "Kitchen Cabinet", "", "bowl "])
def test_a_word_that_no_class_has_is_refused_by_name(word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(word))):
        class_of_word(word)


def test_the_classes_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CLASSES["wall"] = CLASSES["floor"]  # type: ignore[index]


@pytest.mark.parametrize("name", ["wall", "floor", "ceiling", "window", "curtains", "doorjamb", "walllamp", "pillow"])
def test_building_parts_and_decor_are_never_observed(name: str) -> None:
    assert not CLASSES[name].observed


def test_a_room_view_shows_furniture_and_appliances_and_nothing_small() -> None:
    shown = {name for name, about in CLASSES.items() if about.observed and about.room_item}
    assert {"fridge", "sink", "sofa", "toaster", "towelrack", "tv"} <= shown
    assert not shown & {"apple", "plate", "book", "lightswitch", "kitchen", "bathtub"}


def test_every_word_but_a_persons_is_listed_once_under_what_can_be_done() -> None:
    listed = [word for _, _, words in word_groups() for word in words]
    assert sorted(listed) == sorted(entry.word for entry in CLASSES.values() if entry.category != "Characters")
    by_use = {use: [word for name, _, words in word_groups() if name == use.value for word in words] for use in Use}
    assert {"kitchen table", "fridge", "bed", "sink"} <= set(by_use[Use.RECEPTACLE])
    assert "table lamp" in by_use[Use.APPLIANCE]
    assert "apple" in by_use[Use.OBJECT]
    assert "shelf" in by_use[Use.NOTHING]
    assert by_use[Use.ROOM] == ["bathroom", "bedroom", "kitchen", "living room"]
    for _, properties, words in word_groups():
        for word in words:
            assert set(properties) == class_of_word(word).properties - {"SITTABLE"}


def test_recallable_are_the_words_of_what_can_be_grabbed() -> None:
    assert set(RECALLABLE) == {about.word for about in CLASSES.values() if "GRABBABLE" in about.properties}
    assert len(RECALLABLE) == 89
    assert RECALLABLE[:3] == ("alcohol", "apple", "bananas")
    assert RECALLABLE[-2:] == ("wine", "wine glass")


def test_the_words_are_those_of_the_recorded_class_names(shared: Path) -> None:
    names = read(shared / "data" / "wah_nl" / "class_names.json")
    assert {name: CLASSES[name].word for name in names} == names


@pytest.mark.slow
def test_the_recorded_tasks_agree_about_category_and_properties(shared: Path) -> None:
    for task in read(shared / "data" / "wah_nl" / "tasks.json"):
        for node in task["init_graph"]["nodes"]:
            about = CLASSES[node["class_name"]]
            assert about.category == node["category"], node
            assert about.properties == set(node["properties"]), node
            assert about.observed, node


@pytest.mark.parametrize("number", range(1, 8))
def test_every_class_of_a_whole_apartment_is_known(shared: Path, number: int) -> None:
    scene = read(shared / "data" / "virtualhome_scenes" / f"scene{number}.json")
    assert {node["class_name"] for node in scene["nodes"]} <= set(CLASSES)


def test_nothing_can_be_done_with_a_part_of_the_building_or_with_who_speaks() -> None:
    assert not {"floor", "wall", "ceiling", "window", "user"} & set(WORDS)
    assert {"door", "kitchen", "fridge", "apple"} <= set(WORDS)


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


HOUSEHOLDS = {"wah_nl": WAH_NL, "alfred": ALFRED}


@pytest.mark.parametrize(
    ("skill", "parts"),
    [
        ("pick up kitchen cabinet 3", ("pick up", "kitchen cabinet 3")),
        ("turn on tv 1", ("turn on", "tv 1")),
        ("turn off tv 1", ("", "turn off tv 1")),
        ("recall location of juice", ("", "recall location of juice")),
        ("open", ("", "open")),
        ("opener 1", ("", "opener 1")),
        ("done", ("", "done")),
    ],
)
def test_a_skill_is_split_into_verb_and_thing(skill: str, parts: tuple[str, str]) -> None:
    assert WAH_NL.split_skill(skill) == parts


def test_the_longest_verb_that_fits_is_taken() -> None:
    assert split_skill("turn on slowly tv 1", ("turn on", "turn on slowly")) == ("turn on slowly", "tv 1")


def test_things_are_called_as_in_the_recordings() -> None:
    assert WAH_NL.name_of("juice", 1) == "juice 1"
    assert ALFRED.name_of("Juice", 1) == "Juice (1)"


@pytest.mark.parametrize("name", HOUSEHOLDS)
def test_every_recorded_agent_node_starts_with_the_start_line(name: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(name)
    start_line = HOUSEHOLDS[name].start_line
    lines = next(folder.rglob("reactree_wm.jsonl")).read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        transcript = parse_transcript(json.loads(line)["text"], start_line=start_line)
        assert transcript.subgoal
        assert transcript.start.text.startswith(start_line)


@pytest.mark.parametrize("household", HOUSEHOLDS.values(), ids=HOUSEHOLDS)
def test_a_household_has_a_fixed_example_of_its_own(household: Household) -> None:
    assert household.start_line in prompt(household.prompts, "reactree_wm.txt")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Take 2 Plates, a bottle of wine and drinks to the tabel", "plate, wine, juice/wine, table"),
        ("Put two Apples and a drnik on the coffee table", "apple, juice/wine, coffee table"),
    ],
)
def test_what_a_text_names_is_found_in_everyday_words(text: str, names: str) -> None:
    assert ", ".join(map("/".join, named(text))) == names
