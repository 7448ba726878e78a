"""Requests as people make them, and other names of things."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from reactree_lab.household import people
from reactree_lab.household.everyday import EVERYDAY
from reactree_lab.household.generator import DESTINATIONS, KEPT, NOUNS, TAUGHT, draw_errand, draw_names, generate_house
from reactree_lab.household.people import say_as_people, say_impossible, say_openly
from reactree_lab.household.person import SimulatedPerson
from reactree_lab.household.question import unasked
from reactree_lab.household.wording import PLACES, THINGS, Wish
from reactree_ros.errors import UserError
from reactree_ros.household.expert.errand import rooms_for
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import GoalCondition, Task, parse_tasks
from reactree_ros.household.vocabulary import CLASSES, Naming, look_up
from reactree_ros.person.port import Question

ROOMS = ("kitchen 1", "living room 1", "bedroom 1", "bathroom 1")


def nouns(use: str) -> list[str]:
    return [noun for names in NOUNS[use].values() for noun in names]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)


@cache
def goals() -> list[tuple[GoalCondition, ...]]:
    houses = (generate_house(seed=seed, tasks=3, varied=seed % 2 == 0) for seed in range(30))
    return [task.goal for house in houses for task in parse_tasks(house)]


def test_no_noun_is_a_word_of_the_package() -> None:
    known = {name.lower() for table in (THINGS, PLACES) for names in table.values() for name in names}
    for noun in (*nouns(TAUGHT), *nouns(KEPT)):
        found = look_up(noun.split(), 0)
        assert noun not in known
        assert found is None or found[1] < len(noun.split()), noun
    assert Counter((*nouns(TAUGHT), *nouns(KEPT))).most_common(1)[0][1] == 1
    assert len(nouns(KEPT)) == 60
    assert len(nouns(TAUGHT)) > 200


def test_no_table_of_training_has_a_noun_that_is_kept_back() -> None:
    tables = (THINGS, PLACES, people.PEOPLES, people.WORDS, NOUNS[TAUGHT], [one.word for one in CLASSES.values()])
    said = " ".join(texts(tables)).lower()
    assert [noun for noun in nouns(KEPT) if re.search(rf"\b{noun}", said)] == []


def test_no_sentence_by_which_the_shipped_model_is_tested_is_in_a_training() -> None:
    """Nor is a name in one of them that no class has."""

    def plain(text: str) -> str:
        return f" {' '.join(re.findall('[a-z0-9]+', text.lower()))} "

    path = Path(__file__).parents[3] / "reactree_local/test/plain_sentences.json"
    tested = json.loads(path.read_text(encoding="utf-8"))
    sentences = {plain(one) for one in texts(list(map(list, tested["own"].values())))}
    for group in (tested["said"], tested["unnamed"]):
        for frame, (thing, at) in product(group["kinds"], group["pairs"]):
            sentences.add(plain(frame.format(thing=thing, at=at, a="an" if thing[0] in "aeiou" else "a")))
    assert len(sentences) == 102
    tables = ({**EVERYDAY, "before": list(EVERYDAY["before"])}, people.PEOPLES, people.WORDS, NOUNS)
    trained = [plain(text) for text in texts(tables)]
    for seed, nouns in product(range(40), ("", TAUGHT)):
        for task in generate_house(seed=seed, tasks=5, everyday=True, nouns=nouns):
            trained.append(plain(task["nl_instructions"][0]))
    for kept in (*sentences, *map(plain, tested["unnamed"]["names"].values())):
        assert [text for text in trained if kept in text] == []


def test_a_small_errand_is_said_with_the_names_of_the_house() -> None:
    tasks = [
        task
        for seed in range(20)
        for task in parse_tasks(generate_house(seed=seed, tasks=5, everyday=True, nouns=TAUGHT))
    ]
    assert all(len(task.goal) <= 3 for task in tasks)
    assert sum(one.target in task.names for task in tasks for one in task.goal) > 20
    clean = [task for task in tasks if len(task.goal) == 1 and task.goal[0].item in task.names]
    said = [task.names[task.goal[0].item] in task.instruction.lower() for task in clean]
    assert sum(said) > 0.8 * len(said) > 20


def test_a_thing_by_another_name_is_looked_for_in_the_same_rooms() -> None:
    for use in (TAUGHT, KEPT):
        for name, noun in draw_names(random.Random(use), use).items():
            kind = next(kind for kind, names in NOUNS[use].items() if noun in names)
            assert rooms_for(CLASSES[name].word, ROOMS)[0] == f"{kind} 1"


@pytest.mark.parametrize("use", [TAUGHT, KEPT])
@pytest.mark.parametrize("varied", [False, True])
def test_other_names_change_nothing_but_words(use: str, varied: bool) -> None:
    usual = generate_house(seed=7, tasks=4, varied=varied)
    for document, own in zip(generate_house(seed=7, tasks=4, varied=varied, nouns=use), usual, strict=True):
        assert {**document, "nl_instructions": [], "names": {}} == {**own, "nl_instructions": [], "names": {}}
        (task,) = parse_tasks(document)
        wanted = {one.item for one in task.goal if one.item in task.names}
        assert wanted or use == TAUGHT
        with SymbolicWorld(task) as world:
            words = {CLASSES[name].word for name in task.names}
            assert words.isdisjoint(world.recallable)
            assert set(task.names.values()) <= set(world.recallable)
            assert words.isdisjoint(thing.word for thing in world.scene.things.values())


def test_names_are_translated_there_and_back() -> None:
    naming = Naming({"wine": "waffle", "pear": "soda can"})
    words = "move the wine and the wine glass in the fridge, pear (1, 2), find and pick up another pear"
    named = "move the waffle and the wine glass in the fridge, soda can (1, 2), find and pick up another soda can"
    assert naming.with_names(words) == named
    assert naming.with_words(named) == words


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"wine": "pear"}, "two classes are called 'pear'"),
        ({"wine": "waffle", "juice": "waffle"}, "two classes are called 'waffle'"),
        ({"dragon": "waffle"}, "unknown class 'dragon'"),
    ],
)
def test_names_that_leave_it_open_what_is_meant_are_refused(names: dict[str, str], why: str) -> None:
    (document,) = generate_house(seed=1, tasks=1)
    with pytest.raises(UserError, match=why):
        parse_tasks({**document, "names": names})


def test_people_name_each_thing_and_place_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactree_lab.household.wording._TYPING", 0)
    served = {name: {said.lower()} for name, said in people._SERVED.items()}
    for number in range(200):
        rng = random.Random(number)
        errand = draw_errand(rng, PLACES)
        wishes = [
            Wish(thing=thing, count=count, place=place, inside=DESTINATIONS[place].inside)
            for (thing, place), count in errand.wanted.items()
        ]
        text = say_as_people(rng, wishes, errand.switches).lower().replace("'", "")
        for wish in wishes:
            said = {name.lower() for name in people._THINGS[wish.thing]} | served.get(wish.thing, set())
            heads = {name.removesuffix("glass") for name in (wish.thing,) if name.endswith("glass")}
            assert any(name.split()[0].replace("'", "")[:-1] in text for name in said | heads), (wish, text)
            assert wish.count == 1 or re.search(r"\b(?:2|3|two|three|both|couple|pair)\b", text), (wish, text)


@pytest.mark.slow
@pytest.mark.parametrize("varied", [False, True])
def test_things_are_wanted_in_the_order_in_which_they_are_named(varied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the expert lists follows from the instruction."""
    monkeypatch.setattr("reactree_lab.household.wording._TYPING", 0)
    compared = 0
    for seed in range(16):
        for task in parse_tasks(generate_house(seed=seed, tasks=3, varied=varied, nouns=TAUGHT, people=True)):
            text = task.instruction.lower()
            at = [text.find(task.names[one.item]) for one in task.goal if one.item in task.names]
            if -1 not in at and len(at) > 1:
                compared += 1
                assert at == sorted(at), (text, task.goal)
    assert compared > 10


def test_no_name_of_people_is_of_two_classes() -> None:
    for table in (people._THINGS, people._PLACES):
        names = Counter(name.lower() for named in table.values() for name in set(named))
        assert [name for name, count in names.items() if count > 1] == []


def test_what_nobody_can_do_is_hardly_ever_the_same() -> None:
    drawn = [say_impossible(random.Random(seed)) for seed in range(1000)]
    assert len(set(drawn)) > 850
    assert not any("{" in text or "}" in text for text in drawn)


@pytest.mark.slow
def test_the_answers_to_an_open_request_tell_all_that_it_leaves_open() -> None:
    """Each question is understood, and asks for something that the request does not tell."""
    asked = 0
    for number, goal in enumerate(goals()):
        request = say_openly(random.Random(number), goal)
        if request is None:
            continue
        assert Counter(request.goal) == Counter(goal)
        person = SimulatedPerson(goal)
        for question in request.questions:
            person.ask(Question(question, seconds=1)).result()
        asked += len(person.told)
        assert all(told.facts for told in person.told), (request, person.told)
        assert request.questions
    assert asked > 100


def test_the_expert_asks_what_is_open_once_in_whatever_words() -> None:
    questions = ("What should I put in the fridge?", "How many apples should I put in the fridge?")
    assert unasked(questions, ()) == questions[0]
    assert unasked(questions, ("Which things should I put in the fridge?",)) == questions[1]
    assert unasked(questions, ("Where should I put it?",)) == questions[0]
    assert unasked(questions, questions) == ""


def test_the_same_seed_says_the_same() -> None:
    made = [generate_house(seed=3, varied=True, nouns=TAUGHT, people=True) for _ in range(2)]
    assert json.dumps(made[0]) == json.dumps(made[1])


def test_whatever_people_say_the_house_and_the_goal_stay() -> None:
    def bare(task: Task) -> Task:
        return task.model_copy(update={"nl_instructions": [""]})

    for varied in (False, True):
        usual = parse_tasks(generate_house(seed=9, varied=varied))
        said = parse_tasks(generate_house(seed=9, varied=varied, people=True))
        assert list(map(bare, usual)) == list(map(bare, said))
        assert all(one.instruction != other.instruction for one, other in zip(usual, said, strict=True))
