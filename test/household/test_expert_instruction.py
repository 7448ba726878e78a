"""What the expert makes of an instruction."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.goals import Goal, Move, Operate, PutDown, Take, describe, preposition, read_subgoal
from reactree_ros.household.expert.instruction import read_instruction
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks, parse_tasks
from reactree_ros.household.vocabulary import CLASSES, class_of_word, correct
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.planners.spec import planner


def reading(text: str) -> str:
    """The goals of an instruction in the expert's own words."""
    return describe(read_instruction(text).goals)


def conditions(goals: tuple[Goal, ...]) -> dict[str, int]:
    """Goals in the form of a task's goal; what it cannot say is left out."""

    def name(word: str) -> str:
        return class_of_word(word).name

    found = {}
    for goal in goals:
        if isinstance(goal, Move):
            relation = "inside" if preposition(goal.place) == "in" else "on"
            found[f"{relation}_{name(goal.thing)}_{name(goal.place)}"] = goal.count
        elif isinstance(goal, Operate) and goal.action == "turn on":
            found[f"turnOn_{name(goal.thing)}"] = 1
    return found


@pytest.mark.parametrize(
    ("text", "goals"),
    [
        ("Put the book on the bed", "move the book on the bed"),
        ("Bring me a mug to the desk", "move the mug on the desk"),
        ("The apple should be in the fridge.", "move the apple in the fridge"),
        ("Place on the coffee table: a pudding, an apple.", "move the pudding and the apple on the coffee table"),
        ("Make sure the fridge has an apple and juice", "move the apple and the juice in the fridge"),
        ("I need these in the fridge:\n- 1 wine\n- 1 pancake", "move the wine and the pancake in the fridge"),
        (
            "get a fork\nput it on the desk\nget a mug\nput it on the desk",
            "move the cutlery fork and the mug on the desk",
        ),
        ("1. Pick up the mug.\n2. Go to the sink.\n3. Put it in the sink.", "move the mug in the sink"),
        ("Put the book on the bed and the mug on the desk", "move the book on the bed and move the mug on the desk"),
        (
            "Put the apple in the fridge and bring me juice",
            "move the apple in the fridge and find and pick up the juice",
        ),
        ("Put everything except the wine in the fridge: apple, juice", "move the apple and the juice in the fridge"),
    ],
)
def test_things_go_to_the_place_that_is_named_after_or_before_them(text: str, goals: str) -> None:
    assert reading(text) == goals


@pytest.mark.parametrize(
    "text",
    [
        "Take the apple from the kitchen table and put it in the fridge",
        "Put the apple that is on the coffee table in the fridge",
        "Get the apple out of the dishes cupboard and place it in the fridge.",
        "Go to the kitchen table, grab the apple from it, go to the fridge and put the apple in.",
        "Open the cabinet, take the apple and put it in the fridge",
        "In the kitchen, put the apple from the fruit bowl in the fridge",
    ],
)
def test_a_place_where_a_thing_is_is_not_where_it_goes(text: str) -> None:
    assert reading(text) == "move the apple in the fridge"


@pytest.mark.parametrize(
    ("text", "goals"),
    [
        ("Put a cake on the table", "move the pound cake on the kitchen table"),
        ("Put a cake on the table in the lounge", "move the pound cake on the coffee table"),
        (
            "Put juice on the coffee table and the pie on the table too",
            "move the juice and the pie on the coffee table",
        ),
        ("Put the mug on the desk in the bedroom", "move the mug on the desk of the bedroom"),
        ("Bring the pear to the living room", "move the pear on the coffee table"),
        ("Put the fork into the washer", "move the cutlery fork in the dishwasher"),
        ("Put the shirt into the washer", "move the shirt in the washing machine"),
    ],
)
def test_a_place_is_made_out_by_room_and_by_what_goes_there(text: str, goals: str) -> None:
    assert reading(text) == goals


@pytest.mark.parametrize(
    ("text", "goals"),
    [
        ("Put the glasses in the dishwasher", "move the wine glass and the water glass in the dishwasher"),
        ("Put my glasses on the desk", "move the glasses on the desk"),
        ("Put the wine and water glasses on the table", "move the wine glass and the water glass on the kitchen table"),
        (
            "Put a fork and a glass of wine on the table",
            "move the cutlery fork and the wine glass on the kitchen table",
        ),
        ("Put a cupcake and a glass of wine on the table", "move the cupcake and the wine on the kitchen table"),
        ("Put a glass of wine on the coffee table", "move the wine on the coffee table"),
        ("Put a glass of juice in a glass on the coffee table", "move the juice on the coffee table"),
        ("Bring a cup of coffee to the table", "move the coffee pot on the kitchen table"),
        ("Put the juice container in the fridge", "move the juice in the fridge"),
        ("Put snacks on the coffee table: a pear and an apple", "move the pear and the apple on the coffee table"),
        ("Put drinks in the fridge", "move the juice and the wine in the fridge"),
    ],
)
def test_everyday_words_stand_for_things_of_the_vocabulary(text: str, goals: str) -> None:
    assert reading(text) == goals


@pytest.mark.parametrize(
    ("text", "goals"),
    [
        ("put 1 winegalss on the kitchn table", "move the wine glass on the kitchen table"),
        ("Put the poundcake in the frige", "move the pound cake in the fridge"),
        ("Put the appli and 1juice on the coffeee table", "move the apple and the juice on the coffee table"),
        ("Put the pan cake on the kitchentable", "move the pancake on the kitchen table"),
    ],
)
def test_slips_of_the_pen_are_understood(text: str, goals: str) -> None:
    assert reading(text) == goals


def test_a_common_word_is_no_slip() -> None:
    words = ["place", "store", "make", "since", "still", "black", "short", "work", "form", "while", "take", "then"]
    assert [correct(word) for word in words] == words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Put 2 apples in the fridge", 2),
        ("Put three apples in the fridge", 3),
        ("Put a couple of apples in the fridge", 2),
        ("Put the apples in the fridge", 2),
        ("Put an apple and another apple in the fridge", 2),
        ("Take the apple. Put the apple in the fridge.", 1),
        ("Put some apple in the fridge", 1),
    ],
)
def test_it_counts(text: str, count: int) -> None:
    assert read_instruction(text).goals == (Move(thing="apple", place="fridge", count=count),)


@pytest.mark.parametrize(
    ("text", "goals"),
    [
        ("turn on the tv", "find and turn on the tv"),
        ("Switch the light in the kitchen on", "find and turn on the light switch of the kitchen"),
        ("Close the fridge, please", "find and close the fridge"),
        ("open the microwave", "find and open the microwave oven"),
        ("start the washing machine", "close and turn on the washing machine"),
        (
            "Open the fridge door, put in a pie and shut the door",
            "move the pie in the fridge and find and close the fridge",
        ),
        *(
            (
                f"Put the plate in the dishwasher {then}",
                "move the plate in the dishwasher and close and turn on the dishwasher",
            )
            for then in (
                "and turn it on.",
                "and start it",
                "and press run.",
                ". Close it. Then switch the dishwasher on!",
            )
        ),
        ("Wash the plate, please", "move the plate in the dishwasher and close and turn on the dishwasher"),
        ("Put a clean plate on the table", "move the plate on the kitchen table"),
    ],
)
def test_doors_and_switches(text: str, goals: str) -> None:
    assert reading(text) == goals


@pytest.mark.parametrize(
    "text", ["pick up the apple", "Bring me an apple.", "Find the apple in the kitchen", "an apple"]
)
def test_what_goes_nowhere_is_taken_into_the_hands(text: str) -> None:
    assert read_instruction(text).goals == (Take(thing="apple"),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Do a backflip", "I do not understand what to do: “Do a backflip”."),
        ("Turn off the tv", "There is no skill to turn something off."),
        ("...", "I do not understand what to do: “...”."),
    ],
)
def test_what_is_not_understood_is_said(text: str, reason: str) -> None:
    instruction = read_instruction(text)
    assert (instruction.goals, instruction.not_understood) == ((), reason)


@pytest.mark.parametrize(
    ("text", "left_over"),
    [
        # things and errands beside those that it knows
        ("Put 1 apple and 1 novel on the coffee table", "novel"),
        ("Put the apple and the unicorn on the coffee table", "unicorn"),
        ("Put the 🍎 and the pear in the fridge", "🍎"),
        ("Put the book on the bed and dance", "dance"),
        ("Take the apple and smash it", "smash"),
        ("Put 1 apple on the coffee table and then water the plants", "water the plants"),
        ("Put the apple in the fridge and toast the bread", "toast"),
        ("Put the plate on the kitchen table and wash it", "wash"),
        ("Put the apple in the fridge, por favor", "por favor"),
        # places
        ("Put 1 apple on the coffee table but not in the kitchen", "not in the kitchen"),
        ("Put the apple next to the plate on the kitchen table", "next to the plate"),
        ("Put the apple in the bowl on the kitchen table", "bowl"),
        ("Put the apple in the fridge and on the table", "table"),
        ("Put the apple from the attic in the fridge", "attic"),
        ("Put the apple on the floor", "floor"),
        ("Put the apple there", "where to put the apple"),
        # negation, conditions, times, manner
        ("Do not open the fridge but put the apple on the desk", "do not open the fridge"),
        ("Put the apple in the fridge without touching anything", "without touching anything"),
        ("Put the apple on the table if it is raining", "if it is raining"),
        ("Put the apple on the table at 5:30 pm", "5:30 pm"),
        ("Put the apple on the table before 5", "before 5"),
        ("Quickly put the apple in the fridge", "quickly"),
        # which ones, and how many
        ("Put the red mug on the desk", "red"),
        ("Put all the apples in the fridge", "all"),
        ("Put the apple and everything else in the fridge", "everything else"),
        ("Put 1.5 apples in the fridge", "1.5"),
        ("Put 0 apples in the fridge", "0"),
        ("Put the apple or the pear in the fridge", "or"),
        # words that are not slips
        ("Put the cookie and the apple on the desk", "cookie"),
    ],
)
def test_what_it_cannot_honour_is_named_and_nothing_is_done(text: str, left_over: str) -> None:
    instruction = read_instruction(text)
    assert instruction.left_over == (left_over,)
    assert (instruction.goals, instruction.not_understood) == ((), f"I do not understand: {left_over}.")


@pytest.mark.parametrize(
    ("text", "goals"),
    [
        ("Could you kindly put the apple in the fridge for me? Thank you very much!", "move the apple in the fridge"),
        ("Please don't forget to put my apple in the fridge.", "move the apple in the fridge"),
        ("Put the apple but not the pear in the fridge", "move the apple in the fridge"),
        ("Open the fridge and the microwave", "find and open the fridge and find and open the microwave oven"),
        ("Open the fridge and put the apple on the desk", "move the apple on the desk and find and open the fridge"),
        ("Put the apple on the bedroom desk", "move the apple on the desk of the bedroom"),
        ("Put the apple on the bed and go to the kitchen", "move the apple on the bed and find and go to the kitchen"),
        ("Put a dozen apples in the fridge", "move 12 of the apple in the fridge"),
    ],
)
def test_what_it_can_honour_is_done_whole(text: str, goals: str) -> None:
    assert reading(text) == goals


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{auxiliary} {rest}"
            for auxiliary in ("Did you", "Have you", "Do you", "Should I", "Can I", "I", "We", "He", "You", "I will")
            for rest in ("put the apple on the desk", "open the fridge")
        ),
        *(f"The apple {verb} on the desk" for verb in ("is", "was", "has been", "may be", "will be", "goes")),
        *(
            f"{question} the apple on the desk?"
            for question in ("Is", "Was", "Who put", "Where is", "Could you have put")
        ),
        "There is an apple in the fridge",
        "Put the apple on the desk. The pear is in the fridge.",
        "I have an apple",
        "I left the apple on the desk",
        "Is the fridge open?",
        # what is to be done besides
        "Put the apple on the desk and bring it to me",
        "Put the apple on the desk and take the pear away",
        "Put the apple on the desk and leave the pear to me",
        "Turn the tv on and off",
        "Go to the kitchen, then go to the bedroom",
        # what is not to be touched, and is to be
        "Put the pear in the fridge, don't leave the apple",
        "Open the fridge. Do not touch the pear and put the apple on the desk",
        "Leave the apple alone",
    ],
)
def test_a_question_or_a_statement_is_no_request(text: str) -> None:
    assert read_instruction(text).goals == ()


@pytest.mark.parametrize(
    "asking",
    [
        *("Can you", "Could you please", "Will you", "Would you", "Would you mind", "Are you able to", "I want you to"),
        *("I need you to", "I'd like you to", "Let's", "You should", "Is it possible to", "Robot, please"),
    ],
)
def test_a_request_in_the_form_of_a_question_or_a_wish_is_done(asking: str) -> None:
    assert reading(f"{asking} put the apple on the desk?") == "move the apple on the desk"


@pytest.mark.parametrize(
    "leaving",
    [
        *("leave the pear", "leave the pear alone", "leave the pear and the pie where they are", "keep the pear"),
        *("spare the pear", "skip the pear", "ignore the pear", "forget about the pear", "not the pear"),
    ],
)
@pytest.mark.parametrize("text", ["Put the apple on the desk, {}", "Put the apple on the desk but {}"])
def test_what_is_to_be_left_alone_is_not_moved(leaving: str, text: str) -> None:
    assert reading(text.format(leaving)) == "move the apple on the desk"
    assert read_instruction(f"Take the pear. {text.format(leaving)}").goals == ()


def test_more_things_than_hands_need_a_place() -> None:
    assert read_instruction("Bring me 5 apples").not_understood == (
        "I have 2 hands, and cannot hold 5 of the apple: say where to put them."
    )


@pytest.mark.slow
def test_a_word_that_it_does_not_know_is_dropped_nowhere(wah_nl: Path) -> None:
    tasks, rng = json.loads((wah_nl / "tasks.json").read_text()), random.Random(0)
    told = [task["nl_instructions"][0] for task in tasks]
    for text in (one for one in told if "ello" not in one and " step " not in one):
        for strange in ("unicorn", "juggle", "unless", "every", "kettle", "1.5", "%", "slowly", "möbel"):
            words = text.split(" ")
            words.insert(rng.randrange(len(words) + 1), strange)
            instruction = read_instruction(" ".join(words))
            assert instruction.goals == ()
            assert strange in instruction.not_understood or not instruction.left_over


_words = st.sampled_from([entry.word for entry in CLASSES.values()])
_rooms = st.sampled_from(["", "kitchen", "living room"])
_counts = st.integers(min_value=1, max_value=4)


@given(
    st.lists(st.builds(Move, thing=_words, place=_words, room=_rooms, count=_counts), min_size=1, max_size=4)
    | st.builds(Take, thing=_words, room=st.sampled_from(["", "kitchen 1"]), closer=st.booleans(), count=_counts).map(
        lambda goal: [goal]
    )
    | st.builds(PutDown, thing=_words, place=_words, room=_rooms).map(lambda goal: [goal])
    | st.builds(Operate, action=st.sampled_from(["open", "close", "turn on"]), thing=_words, room=_rooms).map(
        lambda goal: [goal]
    )
)
def test_a_child_node_reads_what_its_parent_wrote(goals: list[Goal]) -> None:
    text = describe(goals)
    assert read_subgoal(text) == tuple(goals)
    assert ", " not in text


SCRAPS = (
    "put the a 2 apple apples glass of wine on in into from fridge table kitchen it them and , . \n turn off "
    "open dishwasher door that are is with dish dishes another not go to get me - chair washer wash"
)


@given(st.text(max_size=80) | st.lists(st.sampled_from(SCRAPS.split(" ")), max_size=20).map(" ".join))
def test_any_text_is_read_in_the_same_way_each_time(text: str) -> None:
    instruction = read_instruction(text)
    read_instruction.cache_clear()
    assert read_instruction(text) == instruction
    assert bool(instruction.goals) != bool(instruction.not_understood)


def test_it_understands_generated_instructions() -> None:
    tasks = [task for seed in range(12) for task in generate_house(seed=seed, rooms=3 + seed % 6)]
    assert [
        task["nl_instructions"]
        for task in tasks
        if conditions(read_instruction(task["nl_instructions"][0]).goals) != task["task_goal"]
    ] == []


def test_it_understands_what_people_wrote(wah_nl: Path) -> None:
    tasks = json.loads((wah_nl / "tasks.json").read_text())
    understood = [conditions(read_instruction(task["nl_instructions"][0]).goals) == task["task_goal"] for task in tasks]
    # The goals of 7 of the 144 name other things than their instructions do, one wants a capsule, too, and one is a
    # statement: "The cutlery fork … are in the dishwasher, which is turned on."
    assert sum(understood) >= 135


def carry_out(
    tasks: Iterable[Task], model: LanguageModel, *, recall: bool = True, flat: bool = False
) -> list[EpisodeResult]:
    name = f"{'react' if flat else 'reactree'}{'_wm' if recall else ''}"
    results = []
    for task in tasks:
        world = SymbolicWorld(task)
        result = Episode(task.instruction, world=world, model=model, planner=planner(name), task_id=task.task_id).run()
        assert result.message == ""
        results.append(result)
    return results


def gsr(results: list[EpisodeResult]) -> float:
    return statistics.fmean(result.gsr or 0.0 for result in results)


def ssr(results: list[EpisodeResult]) -> float:
    return statistics.fmean(result.ssr or 0.0 for result in results)


def houses(count: int) -> list[Task]:
    return [parse_tasks(generate_house(seed=n, rooms=3 + n % 6, tasks=5)[n % 5])[0] for n in range(count)]


@pytest.mark.slow
def test_it_reaches_nine_of_ten_recorded_tasks(wah_nl: Path, sweep: int) -> None:
    results = carry_out(load_tasks(wah_nl / "tasks.json")[::sweep], ExpertModel())
    assert gsr(results) >= 0.90
    assert ssr(results) >= 0.95


@pytest.mark.slow
def test_it_reaches_nearly_every_generated_task(sweep: int) -> None:
    assert gsr(carry_out(houses(200 // sweep), ExpertModel())) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("recall", "flat"), [(False, False), (True, True), (False, True)])
def test_it_works_without_working_memory_and_without_expansion(recall: bool, flat: bool) -> None:
    assert gsr(carry_out(houses(30), ExpertModel(), recall=recall, flat=flat)) >= 0.9


class PromptOnly(LanguageModel):
    """Passes on the prompt's text and nothing else, to a policy that is new for every decision."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        text = request.prompt.removesuffix("\n")
        return ExpertModel().decide(DecisionRequest((Told(text),), request.may_say.__class__(())))


@pytest.mark.slow
def test_its_only_input_is_the_prompts_text() -> None:
    tasks = houses(15)
    renamed = [
        task.model_copy(update={"task_id": 999, "task_name": "?", "task_goal": {"on_book_sofa": 1}}) for task in tasks
    ]
    told = carry_out(tasks, ExpertModel())
    # Without the skills, ids and settings of the request, without memory of its own, and with another goal and name.
    blind = carry_out(renamed, PromptOnly())
    for one, other in zip(told, blind, strict=True):
        assert (one.status, one.decisions, one.steps, one.agent_nodes, one.end) == (
            other.status,
            other.decisions,
            other.steps,
            other.agent_nodes,
            other.end,
        )


@pytest.mark.slow
def test_the_same_prompt_gives_the_same_decision() -> None:
    tasks = houses(5)
    first, second = carry_out(tasks, ExpertModel()), carry_out(tasks, ExpertModel())
    assert [(r.decisions, r.steps, r.end) for r in first] == [(r.decisions, r.steps, r.end) for r in second]


@pytest.mark.parametrize(
    "instruction", ["Sing me a song", "Put the unicorn on the moon", "asdf", "Wie geht es dir?", "Put", "?", "1 1 1"]
)
def test_what_it_does_not_understand_it_gives_up_honestly(instruction: str) -> None:
    (task,) = houses(1)
    world = SymbolicWorld(task, scored=False)
    result = Episode(instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm")).run()
    assert (result.status, result.end, result.steps) == ("failure", "failure", 0)
