"""Datasets of requests as people make them: other names, open requests, moved things, several robots."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from reactree_lab.bench.suites import GENERATED, VAGUE, GeneratedSettings, VagueSettings
from reactree_lab.dataset.making import LivedInHouse, Maker, Teacher
from reactree_lab.dataset.settings import DatasetSettings, Recipe
from reactree_lab.household.generator import KEPT, NOUNS, TAUGHT, generate_house
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.tasks import parse_tasks, same_words
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.record.schema import Event

pytestmark = pytest.mark.slow
Line = dict[str, Any]
PLANNER = "reactree_wm:system_text=false:fixed_example=false"


def made(houses: range, pupil: str = "", **settings: Any) -> list[Line]:
    """Return the lines of some houses."""
    given = DatasetSettings(houses=len(houses), may_say=False, **settings)
    model = {"llm": pupil} if pupil else {}
    maker = Maker(Recipe(settings=given, planner=PLANNER, pupil=model), 1)
    ((_, part),) = maker.parts([(0, list(houses))])
    maker.close()
    return [json.loads(line) for line in part.lines]


@pytest.fixture(scope="module")
def people() -> list[Line]:
    """The tasks of twelve houses in people's words, without noise."""
    return made(range(100, 112), people=1.0, unclear=0.0, noise=0.0)


@pytest.fixture(scope="module")
def requests() -> list[Line]:
    """The first decisions of many tasks, most of which leave something open or cannot be done."""
    settings = {"people": 0.5, "asking": 0.8, "unclear": 0.2, "decisions": 6, "tasks_per_house": 8, "noise": 0.0}
    return made(range(200, 220), varied=False, **settings)


def roots(lines: list[Line]) -> list[list[Line]]:
    by_task = defaultdict(list)
    for line in lines:
        if line["node"] == 0:
            by_task[line["house"], line["task"]].append(line)
    return list(by_task.values())


@pytest.mark.slow
def test_the_same_houses_of_people_are_made_again() -> None:
    settings = {"people": 1.0, "asking": 0.5, "unclear": 0.1}
    assert made(range(300, 306), **settings) == made(range(300, 306), **settings)


@pytest.mark.slow
def test_half_of_these_houses_call_things_by_nouns_that_are_in_all_of_their_words(people: list[Line]) -> None:
    taught = {noun for names in NOUNS[TAUGHT].values() for noun in names}
    wanted = [re.findall(r"pick up the ([a-z ]+?)(?: in | by |$)", line["completion"]) for line in people]
    named = {word for words in wanted for word in words}
    assert named & taught
    assert named - taught <= {one.word for one in CLASSES.values()}
    for line in people:
        if (taken := re.fullmatch(r"Act: pick up ([a-z ]+) (\d+)", line["completion"])) and taken[1] in taught:
            assert f"{taken[1]} (" in line["prompt"]
    assert {line["house"] for line in people if any(noun in line["completion"] for noun in taught)} < {
        line["house"] for line in people
    }


@pytest.mark.slow
def test_no_noun_that_is_kept_back_is_in_a_dataset(people: list[Line], requests: list[Line]) -> None:
    text = " ".join(f"{line['prompt']}{line['completion']}" for line in (*people, *requests)).lower()
    assert [noun for names in NOUNS[KEPT].values() for noun in names if re.search(rf"\b{noun}", text)] == []


def test_what_is_open_is_asked_and_the_answers_are_acted_on(requests: list[Line]) -> None:
    asking = [node for node in roots(requests) if node[0]["kind"] == "ask"]
    assert len(asking) > 40
    for node in asking:
        kinds = [line["kind"] for line in node]
        asked = kinds.count("ask")
        assert kinds[:asked] == ["ask"] * asked
        assert kinds[asked:] in (["think", "expand"], ["think", "expand"][: 6 - asked])
        assert len({line["completion"] for line in node[:asked]}) == asked
        if len(kinds) > asked:
            assert node[asked]["prompt"].count("The person answers: ") == asked


def test_nobody_can_tell_what_is_meant_and_nobody_can_be_asked(requests: list[Line]) -> None:
    given_up = [node for node in roots(requests) if node[-1]["completion"] == "Act: failure"]
    assert len({node[0]["instruction"] for node in given_up}) > 15
    assert all([line["kind"] for line in node] == ["think", "act"] for node in given_up)


@pytest.mark.slow
def test_no_sentence_of_people_or_of_the_vague_suite_is_said(
    people: list[Line], requests: list[Line], wah_nl: Path
) -> None:
    written = {text for task in json.loads((wah_nl / "tasks.json").read_text()) for text in task["nl_instructions"]}
    written |= {task.instruction for task in VAGUE.tasks(VagueSettings(houses=10)).values()}
    said = {line["instruction"] for line in (*people, *requests) if not line["house"].startswith("plain")}
    said |= {line["instruction"] for line in requests if line["kind"] in ("ask", "act")}
    assert [text for text in said if any(same_words(text, one) for one in written)] == []


@pytest.mark.slow
def test_a_thing_that_was_moved_is_looked_for_elsewhere() -> None:
    """Working memory says a place, the thing is gone, and the expert still reaches the goal, by walks it may say."""
    gone = reached = 0
    for seed in range(40):
        (task,) = parse_tasks(generate_house(seed=seed, rooms=5, tasks=1, varied=True))
        events: list[Event] = []
        teacher = Teacher(task.instruction, goals_of(task.goal), noise=0, seed="")
        with LivedInHouse(task, random.Random(seed)) as world:
            ended = assemble(
                RunSpec(planner=PLANNER).of_task(task, 1), world=world, model=teacher, write=events.append
            ).run()
            reached += ended.achieved
        gone += any(event["e"] == "refused" for event in events)
    assert reached >= 39
    assert gone == 0


@pytest.mark.slow
def test_a_pupil_is_corrected_in_the_names_of_the_house() -> None:
    corrected = made(range(100, 106), pupil="expert", people=1.0, unclear=0.0, beta=0.5)
    taught = {noun for names in NOUNS[TAUGHT].values() for noun in names}
    learnt = [line["completion"] for line in corrected if line["learn"]]
    assert any(noun in said for said in learnt for noun in taught)


def test_the_suite_of_unseen_words_has_the_same_tasks() -> None:
    usual = GENERATED.tasks(GeneratedSettings(houses=2))
    unseen = GENERATED.tasks(GeneratedSettings(houses=2, words="unseen"))
    kept = {noun for names in NOUNS[KEPT].values() for noun in names}
    assert list(usual) == list(unseen)
    for number, task in unseen.items():
        assert task.task_goal == usual[number].task_goal
        assert {one.item for one in task.goal if one.item} <= set(task.names)
        assert set(task.names.values()) == kept
        wanted = [task.names[one.item] for one in task.goal if one.item]
        assert all(noun in task.instruction for noun in wanted), task.instruction
