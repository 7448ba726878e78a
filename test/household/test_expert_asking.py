"""What the expert asks a person about an instruction, and what it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from reactree_lab.bench.suites import VAGUE, VagueSettings, conditions_of
from reactree_lab.household.generator import generate_house
from reactree_lab.household.person import SimulatedPerson, SimulatedPersonSettings
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.prompt import start_turn, system_text
from reactree_ros.agent.turns import About, Prompt, Said, Saw, Told, Turn
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.goals import describe, goals_of
from reactree_ros.household.expert.instruction import clarify, read_instruction
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.person.port import Question
from reactree_ros.planners.spec import planner


def question(text: str, answers: Mapping[str, str] | None = None) -> str:
    return clarify(text, answers or {}).question


def goals(text: str, *said: str) -> str:
    """The goals of an instruction, where its questions are answered one after the other."""
    answers: dict[str, str] = {}
    for one in said:
        asked = clarify(text, answers).question
        assert asked, f"nothing more is asked before {one!r}"
        answers[asked] = one
    clarified = clarify(text, answers)
    assert not clarified.question, clarified.question
    return describe(clarified.instruction.goals)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Put something on the coffee table", "What should I put on the coffee table?"),
        ("Put it in the fridge", "What should I put in the fridge?"),
        ("I need some things in the fridge", "What should I put in the fridge?"),
        ("Put the stuff away", "What should I put away?"),
        ("Tidy up", "What should I put?"),
        ("Could you lay the table?", "What should I put on the table?"),
        ("Put something in the dishwasher and turn it on", "What should I put in the dishwasher?"),
        ("Put a snack on the sofa", "Which snack should I put on the sofa?"),
        ("Put the plate and some drinks on the desk", "Which drinks should I put on the desk?"),
        ("Put the cupcake and a snack on the desk", "Which snack should I put on the desk?"),
        ("Put the glasses in the dishwasher", "Which glasses should I put in the dishwasher?"),
        ("Put an apple and something else on the bed", "What else should I put on the bed than the apple?"),
        ("Put one pear, one plum and one pear on the bench", "Which things should I put on the bench?"),
        ("Put the apple away", "Where should I put the apple?"),
        ("Put the mug where it belongs", "Where should I put the mug?"),
        ("Put the mug on the table", "On which table should I put the mug?"),
        ("Put a few apples in the fridge", "How many apples should I put in the fridge?"),
        ("Put the plates on the desk", "How many plates should I put on the desk?"),
        ("Put an apple and a novel on the desk", "What do you mean by “novel”?"),
        ("Put the apple in the fridge and dance", "What do you mean by “dance”?"),
    ],
)
def test_it_asks_for_what_an_instruction_does_not_name(text: str, asked: str) -> None:
    assert question(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        "Put the apple in the fridge",
        "Put some apple in the fridge",
        "Put 2 apples in the fridge",
        "Bring me an apple",
        "Put snacks on the coffee table: a pear and an apple",
        "Please collect these items and place them on the desk: 1 apple, 2 mugs",
        "Put the wine and water glasses in the dishwasher and start it",
        "Put the mug on the table in the kitchen",
        "Set the table with a plate and a fork",
        "Put the juice on the coffee table and the pie on the table, too",
        "Take the apple. Put the apple in the fridge.",
        "Put an apple and another apple in the fridge",
        "Close the fridge",
        "Turn on the tv",
        "Do a backflip",
        "move the apple in the fridge",
    ],
)
def test_it_asks_nothing_where_all_is_named(text: str) -> None:
    assert question(text) == ""


def test_it_asks_nothing_about_plain_generated_instructions() -> None:
    tasks = [task for seed in range(12) for task in generate_house(seed=seed)]
    assert [text for task in tasks if question(text := task["nl_instructions"][0])] == []


@pytest.mark.parametrize(
    ("text", "said", "understood"),
    [
        ("Put something on the sofa", ["Oh, the muffin, please."], "move the cupcake on the sofa"),
        ("Put a snack on the sofa", ["I mean the apple"], "move the apple on the sofa"),
        ("Put a snack on the sofa", ["Cupcakes.", "A couple."], "move 2 of the cupcake on the sofa"),
        ("Put two snacks on the sofa", ["pears"], "move 2 of the pear on the sofa"),
        ("Put some snacks on the sofa", ["a pear and two plums"],
         "move the pear on the sofa and move 2 of the plum on the sofa"),
        ("Put the glasses in the dishwasher", ["The wine ones.", "2"], "move 2 of the wine glass in the dishwasher"),
        ("Put the mug on the table", ["the coffee one"], "move the mug on the coffee table"),
        ("Put the mug away", ["In the cupboard is fine."], "move the mug in the kitchen cabinet"),
        ("Put the mug away", ["What?", "in the sink"], "move the mug in the sink"),
        ("Put the mug and the milk away", ["In the fridge and in the sink.", "Sink", "fridge"],
         "move the mug in the sink and move the milk in the fridge"),
        ("Put a few apples on the bed", ["Just one."], "move the apple on the bed"),
        ("Put an apple and something else on the bed", ["No, that is all."], "move the apple on the bed"),
        ("Put an apple and a novel on the desk", ["the book"], "move the apple and the book on the desk"),
        ("Put an apple and a novel on the desk", ["Oh, two magazines."],
         "move the apple on the desk and move 2 of the magazine on the desk"),
        ("Put the apple in the fridge and dance", ["Never mind."], "move the apple in the fridge"),
    ],
)  # fmt: skip
def test_it_goes_by_the_answers(text: str, said: list[str], understood: str) -> None:
    assert goals(text, *said) == understood


@pytest.mark.parametrize("thing", ["bench", "bookshelf", "coffee table", "fridge"])
def test_an_answer_in_the_same_words_explains_nothing(thing: str) -> None:
    text, answers = f"Put {thing} on the bed", {"What should I put on the bed?": "pear"}
    asked = question(text, answers)
    assert asked == f"What do you mean by “{thing}”?"
    clarified = clarify(text, answers | {asked: f"{thing} apple"})
    assert (clarified.question, clarified.instruction.left_over) == ("", (thing,))


@pytest.mark.parametrize(
    "answer", ["", "What?", "I cannot say.", "Sorry, what do you mean?", "None.", "Act: done", "🍎"]
)
def test_where_no_answer_tells_it_does_as_without_one(answer: str) -> None:
    for text in (
        "Put a snack on the table",
        "Put the plates on the desk",
        "Put the apple away",
        "Put it in the fridge",
        "Put an apple and a novel on the desk",
    ):
        answers: dict[str, str] = {}
        while asked := question(text, answers):
            assert asked not in answers
            answers[asked] = answer
        assert clarify(text, answers).instruction == read_instruction(text)
        assert 1 <= len(answers) <= 4


def test_it_asks_only_where_it_may() -> None:
    asked = "Ask: Which snack should I put on the sofa?"
    assert decided("Put a snack on the sofa", questions=1) == asked
    assert decided("Put a snack on the sofa", questions=0).startswith("Think: ")
    assert decided("Put a snack on the sofa", questions=None).startswith("Think: ")


def test_it_reads_the_answer_off_its_prompt() -> None:
    asked, told = (
        "Which snack should I put on the sofa?",
        'The person answers: "the pear". You may ask no more questions.',
    )
    plan = decided("Put a snack on the sofa", (asked, told), questions=0)
    assert "pear" in plan
    assert "apple" not in plan
    again = 'That was asked already; the answer was "the pear".'
    assert decided("Put a snack on the sofa", (asked, again), questions=1) == plan
    silence = "Nobody answers: no answer within 60 s."
    assert decided("Put a snack on the sofa", (asked, silence), questions=1) == "Ask: What snack do you want?"


START = (start_turn(system_text(WAH_NL, asks=True), ()),)


def decided(task: str, *answered: tuple[str, str], questions: int | None) -> str:
    turns: list[Turn] = [
        Told(f"Your task is to: {task}", About.TASK),
        Saw("You are in the house, and there are 1 rooms: kitchen (1). You are in the middle of a kitchen (1)."),
    ]
    for asked, told in answered:
        turns += [Said(f"Ask: {asked}", None), Told(told, About.PERSON)]
    may_say = DecisionGrammar(["go to fridge 1", "done"], questions=questions)
    return ExpertModel().consider(DecisionRequest(Prompt(START, turns), may_say)).text


def run(task: Task, name: str, person: SimulatedPerson | None) -> EpisodeResult:
    with SymbolicWorld(task) as world:
        return Episode(task.instruction, world=world, model=ExpertModel(), planner=planner(name), person=person).run()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reactree_wm", "react"])
def test_a_vague_instruction_is_done_by_whoever_asks(name: str) -> None:
    tasks = [task for _, task in zip(range(8), VAGUE.tasks(VagueSettings(houses=2)).values(), strict=False)]
    alone = [run(task, name, None) for task in tasks]
    asking = [run(task, f"{name}:questions=4", SimulatedPerson(conditions_of(task))) for task in tasks]
    assert sum(result.achieved for result in asking) > sum(result.achieved for result in alone)
    assert all(result.achieved and result.questions for result in asking)


@pytest.mark.slow
def test_vague_instructions_leave_something_open_by_a_seed() -> None:
    tasks, again = ([*VAGUE.tasks(VagueSettings(houses=20)).values()] for _ in range(2))
    assert [task.instruction for task in tasks] == [task.instruction for task in again]
    assert all(question(task.instruction) for task in tasks)


@pytest.mark.slow
def test_with_as_many_questions_as_it_likes_it_knows_nearly_every_goal() -> None:
    tasks = [*VAGUE.tasks(VagueSettings(houses=40)).values()]
    assert sum(cleared(task, SimulatedPersonSettings()) for task in tasks) >= 0.97 * len(tasks)
    difficult = SimulatedPersonSettings(unclear=0.3, silent=0.1)
    assert 0.4 < sum(cleared(task, difficult) for task in tasks) / len(tasks) < 0.97


def cleared(task: Task, settings: SimulatedPersonSettings) -> bool:
    """Whether questions and answers come to the goal."""
    person, answers = SimulatedPerson(task.goal, settings, of=task.instruction), dict[str, str]()
    while asked := question(task.instruction, answers):
        answer = person.ask(Question(asked, 60.0))
        answers[asked] = "" if answer.exception() else answer.result().text
    return set(clarify(task.instruction, answers).instruction.goals) == set(goals_of(task.goal))


def test_without_questions_every_human_instruction_is_read_as_ever(wah_nl: Path) -> None:
    texts = [task["nl_instructions"][0] for task in json.loads((wah_nl / "tasks.json").read_text())]
    assert all(clarify(text, {}).instruction == read_instruction(text) for text in texts)
