"""Varied houses: their tasks, their words, their numbers."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest
from solving import solution

from reactree_lab.household import wording
from reactree_lab.household.generator import DESTINATIONS, KINDS, draw_errand, generate_house
from reactree_lab.household.wording import PLACES, THINGS, Wish, say_errands, say_nonsense
from reactree_ros.household import rules
from reactree_ros.household.scene import Scene
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.household.vocabulary import CLASSES, NEVER_OPEN, plural


def varied(seed: int, rooms: int = 5, tasks: int = 5) -> list[Task]:
    return parse_tasks(generate_house(seed=seed, rooms=rooms, tasks=tasks, varied=True))


def test_no_name_is_of_two_classes() -> None:
    for table in (THINGS, PLACES):
        names = Counter(name.lower() for named in table.values() for name in named)
        assert [name for name, count in names.items() if count > 1] == []
    assert {name for named in THINGS.values() for name in named}.isdisjoint(
        name for named in PLACES.values() for name in named
    )


def test_whatever_may_be_asked_for_has_names_and_can_be_done() -> None:
    for thing in {name for kind in KINDS.values() for name in kind}:
        assert thing in THINGS
        assert "GRABBABLE" in CLASSES[thing].properties
    for place, destination in DESTINATIONS.items():
        assert place in PLACES
        assert destination.inside == ("CONTAINERS" in CLASSES[place].properties)
        assert place not in NEVER_OPEN
        assert not destination.switch or "HAS_SWITCH" in CLASSES[place].properties


def test_instructions_know_many_words() -> None:
    words: set[str] = set()
    for number in range(1200):
        rng = random.Random(number)
        errand = draw_errand(rng, PLACES)
        wishes = [
            Wish(thing=thing, count=count, place=place, inside=DESTINATIONS[place].inside)
            for (thing, place), count in errand.wanted.items()
        ]
        clean = say_errands(rng, wishes, errand.switches)
        words |= set(re.findall("[a-z]+", clean.lower()))
    listed = {word for named in (*THINGS.values(), *PLACES.values()) for name in named for word in name.lower().split()}
    assert len(words & listed) > 230
    assert len(words) > 700


def test_what_is_said_names_everything_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "_TYPING", 0)
    for seed in range(100):
        wishes = [
            Wish(thing="plate", count=2, place="dishwasher", inside=True),
            Wish(thing="mug", count=1, place="desk", inside=False, source=("in", "kitchencabinet", "kitchen")),
        ]
        text = say_errands(random.Random(f"exact {seed}"), wishes, ("dishwasher",)).lower()
        assert re.search("2|two|couple|pair", text), text
        for names in (map(plural, THINGS["plate"]), THINGS["mug"], PLACES["desk"], PLACES["dishwasher"]):
            assert any(name.lower() in text for name in names), text


def test_plurals() -> None:
    names = ("glass for wine", "knife", "bottle of juice", "box", "dish", "loaf of cake", "mug")
    said = ["glasses for wine", "knives", "bottles of juice", "boxes", "dishes", "loaves of cake", "mugs"]
    assert list(map(plural, names)) == said


def test_nonsense_names_nothing_of_a_household() -> None:
    drawn = {say_nonsense(random.Random(seed)).lower().strip(" .?") for seed in range(500)}
    assert len(drawn) > 40
    known = {name.lower() for named in THINGS.values() for name in named}
    assert all(known.isdisjoint(re.findall("[a-z]+", text)) for text in drawn)


def test_the_same_arguments_make_the_same_varied_house_and_plain_ones_stay() -> None:
    first = json.dumps(generate_house(seed=5, rooms=4, varied=True))
    assert json.dumps(generate_house(seed=5, rooms=4, varied=True)) == first
    assert json.dumps(generate_house(seed=5, rooms=4)) != first
    assert generate_house(seed=5, tasks=6, varied=True)[:2] == generate_house(seed=5, tasks=2, varied=True)


@pytest.mark.parametrize("rooms", range(3, 9))
def test_every_varied_task_is_open_at_its_start_and_can_be_solved(rooms: int) -> None:
    documents = generate_house(seed=rooms, rooms=rooms, tasks=4, varied=True)
    for document, task in zip(documents, parse_tasks(documents), strict=True):
        assert rules.score(task.goal, Scene(task.init_graph, init_room=task.init_room)).ssr == 0
        with SymbolicWorld(task) as world:
            for skill in solution(document):
                assert world.execute(skill).result().outcome.value == "done", (task.task_id, skill)
            score = world.score().result()
        assert score is not None
        assert score.gsr == 1


@pytest.mark.slow
def test_half_of_the_types_are_new_and_some_go_to_several_places() -> None:
    tasks = [task for seed in range(24) for task in varied(seed)]
    names = Counter(task.task_name for task in tasks)
    usual = {"setup_table", "put_dishwasher", "prepare_food", "put_fridge", "prepare_snack"}
    assert 0.35 < sum(names[name] for name in usual) / len(tasks) < 0.65
    assert len(names) > 20
    targets = Counter(len({one.target for one in task.goal}) for task in tasks)
    assert targets[2] > 8
    assert targets[3] > 1
    assert {sum(one.count for one in task.goal if one.item) for task in tasks} >= {0, 1, 2, 3, 4, 5}


@pytest.mark.slow
def test_numbers_are_as_high_as_in_houses_full_of_things() -> None:
    highest: Counter[str] = Counter()
    for seed in range(30):
        for task in varied(seed, tasks=1):
            counted = Counter(node.class_name for node in task.init_graph.nodes)
            highest |= counted
    assert highest["book"] >= 14
    assert sum(count >= 12 for count in highest.values()) > 40


@pytest.mark.slow
def test_goals_of_several_places_are_scored_each_at_its_own() -> None:
    task = next(task for seed in range(50) for task in varied(seed) if len({one.target for one in task.goal}) > 1)
    scene = Scene(task.init_graph, init_room=task.init_room)
    for one in task.goal:
        target = next(thing for thing in scene.things.values() if thing.class_name == one.target)
        if one.relation == "turnOn":
            target.states.add("ON")
            continue
        for thing in [thing for thing in scene.things.values() if thing.class_name == one.item][: one.count]:
            assert rules.score(task.goal, scene).gsr == 0
            scene.place(thing, target, inside=one.relation == "inside")
    assert rules.score(task.goal, scene).gsr == 1
