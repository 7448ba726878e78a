"""The vocabulary: what every class is called, what can be done with it and where it is listed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.household.vocabulary import CLASSES, RECALLABLE, WORDS, ObjectClass, Use, class_of_word, word_groups

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
