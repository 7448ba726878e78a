"""The expert where it did not come by its own decisions, and where nothing but the request says what it may do."""

from __future__ import annotations

import pytest
from llm.talker import Talker

from reactree_lab.dataset.making import Teacher
from reactree_lab.household.generator import generate_house
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.goals import Move, Operate, goals_of
from reactree_ros.household.expert.model import Decided, ExpertModel, decide
from reactree_ros.household.expert.reading import TRIES
from reactree_ros.household.household import ONE_HAND
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import GoalCondition, Task, parse_tasks
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

SYSTEM = (
    "one of actions of this list: [go to, pick up, put down, open, close, turn on, done, failure]\nSource domain:\n"
)
START = (
    "You are in the house, and there are 2 rooms: bedroom (1), kitchen (1). You are in the middle of a kitchen (1). "
    "Looking quickly around the room, you see fridge (1), kitchen counter (1), kitchen table (1)."
)
AT_TABLE = "You arrive at the kitchen table (1). You see apple (1), kitchen table (1), plum (2)"


def said_after(task: str, *lines: str) -> str:
    return decide("\n".join([f"{SYSTEM}Target_domain:", f"Your task is to: {task}", START, *lines, ""]))


def carried_out(task: Task, model: LanguageModel, name: str) -> EpisodeResult:
    with SymbolicWorld(task) as world:
        return Episode(task.instruction, world=world, model=model, planner=planner(name)).run()


class InChats(ExpertModel):
    """The expert, that is asked as chats ask: examples are turns, and nothing says which task is its own."""

    def consider(self, request: DecisionRequest) -> Decided:
        said = "\n".join(message["content"] for message in chat_messages(request.turns))
        return super().consider(DecisionRequest((Told(said),), request.may_say))


def varied_tasks(count: int) -> list[Task]:
    return [
        task for seed in range(count) for task in parse_tasks(generate_house(seed=seed, rooms=4, tasks=2, varied=True))
    ]


@pytest.mark.parametrize("name", ["reactree_wm", "reactree", "react_wm", "react"])
def test_in_a_chat_the_last_task_is_its_own(name: str) -> None:
    task = parse_tasks(generate_house(seed=3, rooms=4, tasks=2))[0]
    as_text, in_chat = (carried_out(task, model, name) for model in (ExpertModel(), InChats()))
    assert as_text.gsr == 1
    assert (in_chat.gsr, in_chat.decisions, in_chat.steps) == (1, as_text.decisions, as_text.steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reactree_wm", "reactree", "react_wm", "react", "hiagent_wm", "hiagent"])
def test_without_a_system_text_it_decides_the_same(name: str) -> None:
    for task in parse_tasks(generate_house(seed=3, rooms=4, tasks=2)):
        full, bare = (
            carried_out(task, ExpertModel(), f"{name}{options}")
            for options in ("", ":system_text=false:fixed_example=false")
        )
        assert bare.gsr == full.gsr == 1
        assert (bare.decisions, bare.steps, bare.agent_nodes) == (full.decisions, full.steps, full.agent_nodes)


@pytest.mark.slow
def test_goals_that_are_known_are_not_read_from_the_words() -> None:
    for task in varied_tasks(6):
        model = ExpertModel({task.instruction: goals_of(task.goal)})
        assert carried_out(task, model, "reactree_wm").gsr == 1
        assert carried_out(task, ExpertModel({task.instruction: ()}), "reactree_wm").end == "failure"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reactree_wm", "react", "hiagent_wm", "hiagent"])
def test_several_of_a_kind_are_brought_one_after_the_other(name: str) -> None:
    tasks = [task for task in varied_tasks(30) if max(one.count for one in task.goal) > 1][:2]
    for task in tasks:
        assert carried_out(task, ExpertModel({task.instruction: goals_of(task.goal)}), name).gsr == 1


def test_goals_come_in_the_order_of_the_conditions_and_switches_last() -> None:
    conditions = (
        GoalCondition("turnOn", "", "stove", 1),
        GoalCondition("on", "dishbowl", "desk", 2),
        GoalCondition("inside", "pie", "stove", 1),
    )
    bowls, pie, stove = goals_of(conditions)
    assert bowls == Move(thing="bowl", place="desk", count=2)
    assert pie == Move(thing="pie", place="stove")
    assert stove == Operate(action="turn on", thing="stove")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "noise", "fewest"), [("react_wm", 0.3, 24), ("react", 0.3, 24), ("reactree_wm", 0.1, 23)]
)
def test_led_astray_it_finds_back_and_reaches_the_goal(name: str, noise: float, fewest: int) -> None:
    tasks = varied_tasks(12)
    bare = f"{name}:system_text=false:fixed_example=false"
    reached, astray = 0.0, 0
    for number, task in enumerate(tasks):
        teacher = Teacher(task.instruction, goals_of(task.goal), noise=noise, seed=f"{name} {number}")
        reached += carried_out(task, teacher, bare).gsr or 0
        astray += len(teacher.astray)
    assert astray > 50
    assert reached >= fewest


class Circling(LanguageModel):
    """Goes to the first place that it may, whatever was said."""

    asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        assert isinstance(request.may_say, DecisionGrammar)
        return Pending.ready(Reply(f"Act: {next(one for one in request.may_say.skills if one.startswith('go to'))}"))


def test_a_model_that_turns_in_a_circle_gets_on_where_the_expert_takes_a_share_of_the_decisions() -> None:
    task = varied_tasks(1)[0]
    bare = "react_wm:system_text=false:fixed_example=false"
    ends = []
    for beta in (0.0, 0.6):
        pupil = Circling()
        teacher = Teacher(task.instruction, goals_of(task.goal), noise=0, seed="circle", pupil=pupil, beta=beta)
        result = carried_out(task, teacher, bare)
        assert 0 < pupil.asked <= len(teacher.labels)
        ends.append(result.end)
    assert ends == ["stuck", "done"]


def test_what_was_picked_up_by_mistake_is_put_down_again() -> None:
    wrong = [f"Act: {text}" for text in ("go to kitchen table 1", "pick up plum 2")]
    history = [wrong[0], AT_TABLE, wrong[1], "You pick up plum. You hold plum (2)."]
    assert said_after("move the apple in the fridge", "Think: I see.", "OK.", *history) == "Act: put down plum 2"
    down = [*history, "Act: put down plum 2", "You put down plum on kitchen table"]
    assert said_after("move the apple in the fridge", "Think: I see.", "OK.", *down) == "Act: pick up apple 1"


def test_what_lies_in_the_wrong_place_is_picked_up_again() -> None:
    history = (
        *("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE),
        *("Act: pick up apple 1", "You pick up apple. You hold apple (1)."),
        *("Act: put down apple 1", "You put down apple on kitchen table"),
    )
    assert said_after("move the apple in the fridge", *history) == "Act: pick up apple 1"
    assert said_after("move the apple on the kitchen table", *history) == "Act: done"


def test_a_refusal_of_what_had_no_chance_says_nothing() -> None:
    far = ("Think: I see.", "OK.", "Act: pick up apple 1", "The apple is not close to you.")
    at_table = (*far, "Act: go to kitchen table 1", AT_TABLE)
    assert said_after("move the apple in the fridge", *at_table) == "Act: pick up apple 1"
    full = ("Act: pick up plum 2", "You pick up plum. You hold apple (1), plum (2).")
    closed = (
        *(*at_table, "Act: pick up apple 1", "You pick up apple. You hold apple (1)."),
        "Act: go to fridge 1",
        "You arrive at the fridge (1). The fridge (1) is closed. You see fridge (1) You hold apple (1).",
        *("Act: put down apple 1", "The fridge is closed. You hold apple (1)."),
    )
    assert said_after("move the apple in the fridge", *closed) == "Act: open fridge 1"
    assert said_after("move the apple in the fridge", *at_table, *full) == "Act: put down plum 2"


def test_with_both_hands_full_one_is_freed_for_a_door() -> None:
    history = (
        *("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE),
        *("Act: pick up apple 1", "You pick up apple. You hold apple (1)."),
        *("Act: pick up plum 2", "You pick up plum. You hold apple (1), plum (2)."),
        "Act: go to fridge 1",
        "You arrive at the fridge (1). The fridge (1) is closed. You see fridge (1) You hold apple (1), plum (2).",
    )
    both = "move the apple and the plum in the fridge"
    assert said_after(both, *history) == "Act: go to kitchen counter 1"
    at_counter = "You arrive at the kitchen counter (1). You see kitchen counter (1) You hold apple (1), plum (2)."
    assert said_after(both, *history, "Act: go to kitchen counter 1", at_counter) == "Act: put down plum 2"


ONE = f"{SYSTEM.removesuffix('Source domain:' + chr(10))}{ONE_HAND}\nSource domain:\n"
HOLDS = ("Act: pick up apple 1", "You pick up apple. You hold apple (1).")


def said_with_one_hand(task: str, *lines: str) -> str:
    return decide("\n".join([f"{ONE}Target_domain:", f"Your task is to: {task}", START, *lines, ""]))


def test_with_one_hand_a_door_is_opened_before_anything_is_picked_up() -> None:
    at_table = ("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE)
    assert said_after("move the apple in the fridge", *at_table) == "Act: pick up apple 1"
    assert said_with_one_hand("move the apple in the fridge", *at_table) == "Act: go to fridge 1"
    opened = (
        *(
            *at_table,
            "Act: go to fridge 1",
            "You arrive at the fridge (1). The fridge (1) is closed. You see fridge (1)",
        ),
        *("Act: open fridge 1", "You open fridge. You see fridge (1)"),
    )
    assert said_with_one_hand("move the apple in the fridge", *opened) == "Act: go to kitchen table 1"
    assert said_with_one_hand("move the apple on the kitchen counter", *at_table) == "Act: pick up apple 1"


def test_with_one_hand_one_thing_is_brought_after_the_other() -> None:
    history = ("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE, *HOLDS)
    both = "move the apple and the plum on the kitchen counter"
    assert said_with_one_hand(both, *history) == "Act: go to kitchen counter 1"


def test_a_refusal_tells_that_there_is_but_one_hand() -> None:
    history = (
        *("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE, *HOLDS),
        "Act: go to fridge 1",
        "You arrive at the fridge (1). The fridge (1) is closed. You see fridge (1) You hold apple (1).",
    )
    task = "move the apple in the fridge"
    assert said_after(task, *history) == "Act: open fridge 1"
    refused = ("Act: open fridge 1", "You do not have an empty hand. You hold apple (1).")
    assert said_after(task, *history, *refused) == "Act: go to kitchen counter 1"


def test_what_a_robot_does_not_succeed_in_is_tried_again_and_what_it_is_refused_is_not() -> None:
    history = ("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE)
    for failed in (
        "You could not pick up the apple (1): simulated pick failure.",
        "You tried to pick up the apple (1), but you do not hold the apple.",
    ):
        once = ("Act: pick up apple 1", failed)
        for times in range(1, TRIES):
            again = said_after("move the apple on the kitchen counter", *history, *once * times)
            assert again == "Act: pick up apple 1", times
        assert said_after("move the apple on the kitchen counter", *history, *once * TRIES) != "Act: pick up apple 1"
    refused = ("Act: pick up apple 1", "The apple cannot be grabbed.")
    assert said_after("move the apple on the kitchen counter", *history, *refused) != "Act: pick up apple 1"


def test_who_did_not_arrive_goes_again_before_anything_else() -> None:
    history = (
        *("Think: I see.", "OK.", "Act: go to kitchen table 1", AT_TABLE, *HOLDS),
        *(
            "Act: go to kitchen counter 1",
            "You could not go to the kitchen counter (1): it was blocked. You hold apple (1).",
        ),
    )
    assert said_after("move the apple on the kitchen counter", *history) == "Act: go to kitchen counter 1"
    assert said_after("move the apple on the kitchen table", *history) == "Act: go to kitchen table 1"


def test_furniture_that_nobody_has_heard_of_is_looked_at_and_not_stumbled_over() -> None:
    start = START.replace("fridge (1)", "heavy lathe (1), wheelie bin (1)").replace(", kitchen table (1)", "")
    prompt = [f"{SYSTEM}Target_domain:", "Your task is to: move the apple on the kitchen counter", start]
    prompt += ["Think: I see.", "OK.", "Act: pick up plum 2", "You pick up plum. You hold plum (2).", ""]
    assert decide("\n".join(prompt)) == "Act: go to kitchen counter 1"


def test_a_closed_door_hides_what_was_near() -> None:
    history = (
        *("Think: I see.", "OK.", "Act: go to fridge 1"),
        *("You arrive at the fridge (1). The fridge (1) is closed. You see fridge (1)", "Act: open fridge 1"),
        *("You open fridge. You see apple (1), fridge (1)", "Act: close fridge 1", "You close fridge."),
    )
    assert said_after("move the apple on the kitchen table", *history) == "Act: open fridge 1"


class Overheard(Talker):
    """Talks, and the expert says beside it what it would have said, which is kept with what might be said."""

    def __init__(self, expert: LanguageModel, seed: int) -> None:
        super().__init__(seed)
        self._expert = expert
        self.said: list[tuple[str, tuple[str, ...]]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, SubgoalGrammar):
            self.said.append((self._expert.decide(request).result().text, tuple(request.may_say.skills)))
        return super().decide(request)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hiagent_wm", "hiagent"])
def test_where_rooms_were_forgotten_behind_summaries_it_says_what_may_be_said(name: str) -> None:
    said = []
    for seed, task in enumerate(varied_tasks(8)):
        model = Overheard(ExpertModel({task.instruction: goals_of(task.goal)}), seed)
        with SymbolicWorld(task) as world:
            options = TreeOptions(max_decisions=60)
            Episode(task.instruction, world=world, model=model, planner=planner(name), options=options).run()
        said += model.said
    assert len(said) > 500
    wrong = [text for text, skills in said if text.rpartition("Action: ")[2] not in skills]
    assert not wrong
