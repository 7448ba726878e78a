"""The symbolic household: what is seen, what may be tried, what is refused and how that is worded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactree_ros.household.household import WAH_NL
from reactree_ros.household.rules import which_of
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks, parse_tasks
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.world.port import Observation, Outcome, Score

KITCHEN, BEDROOM, TABLE, FRIDGE, CABINET, LAMP, BED = 11, 12, 21, 22, 23, 24, 25
APPLE, JUICE, MUG, PLATE, WINE = 31, 32, 33, 34, 35


def node(id: int, class_name: str, *states: str) -> dict[str, Any]:
    known = CLASSES[class_name]
    return {
        "id": id,
        "class_name": class_name,
        "category": known.category,
        "properties": sorted(known.properties),
        "states": list(states),
    }


def edge(from_id: int, relation: str, to_id: int) -> dict[str, Any]:
    return {"from_id": from_id, "relation_type": relation, "to_id": to_id}


def house() -> dict[str, Any]:
    """A kitchen with a table, a fridge and a bookshelf that never opens; a bedroom with a bed."""
    near = [(TABLE, APPLE), (TABLE, MUG), (TABLE, PLATE), (TABLE, WINE), (TABLE, FRIDGE), (FRIDGE, TABLE)]
    near += [(FRIDGE, JUICE), (FRIDGE, LAMP), (CABINET, FRIDGE), (APPLE, TABLE)]
    return {
        "task_id": 7,
        "task_name": "put_fridge",
        "nl_instructions": ["Put the apple in the fridge"],
        "task_goal": {"inside_apple_fridge": 1, "inside_mug_fridge": 1, "turnOn_fridge": 1},
        "env_id": 0,
        "init_room": "bedroom",
        "init_graph": {
            "nodes": [
                node(1, "character"),
                node(KITCHEN, "kitchen"),
                node(BEDROOM, "bedroom"),
                node(TABLE, "kitchentable"),
                node(FRIDGE, "fridge", "CLOSED", "OFF"),
                node(CABINET, "bookshelf", "CLOSED"),
                node(LAMP, "lightswitch", "ON"),
                node(BED, "bed"),
                node(APPLE, "apple"),
                node(JUICE, "juice"),
                node(MUG, "mug"),
                node(PLATE, "plate"),
                node(WINE, "wine"),
            ],
            "edges": [
                edge(1, "INSIDE", BEDROOM),
                *(edge(thing, "INSIDE", KITCHEN) for thing in (TABLE, FRIDGE, CABINET, LAMP, APPLE, MUG, PLATE, WINE)),
                edge(BED, "INSIDE", BEDROOM),
                edge(JUICE, "INSIDE", FRIDGE),
                *(edge(thing, "ON", TABLE) for thing in (APPLE, MUG, PLATE, WINE)),
                *(edge(a, "CLOSE", b) for a, b in near),
            ],
        },
    }


Do = Callable[..., Observation]


@pytest.fixture
def world() -> SymbolicWorld:
    return SymbolicWorld(parse_tasks(house())[0])


@pytest.fixture
def do(world: SymbolicWorld) -> Do:
    """Executes skills one after the other and returns the last observation."""

    def execute(*skills: str) -> Observation:
        for skill in skills:
            observation = world.execute(skill).take()
        return observation

    return execute


def test_the_starting_observation_names_rooms_and_furniture(world: SymbolicWorld) -> None:
    assert world.observe().take().text == (
        "You are in the house, and there are 2 rooms: bedroom (1), kitchen (1). You are in the middle of a bedroom "
        "(1). Looking quickly around the room, you see bed (1)."
    )


def test_a_survey_tells_the_whole_house_seen_or_not(world: SymbolicWorld) -> None:
    whole = world.survey().take()
    assert whole.text == (
        "You are in the house, and there are 2 rooms: bedroom (1), kitchen (1). In the kitchen 1, there are bookshelf "
        "(1), fridge (1), kitchen table (1). In the bedroom 1, there are bed (1). The objects in the house are apple "
        "(1), juice (1), mug (1), plate (1), wine (1). You are in the middle of a bedroom (1). Looking quickly around "
        "the room, you see bed (1)."
    )
    assert world.survey().take() == whole


def test_a_room_is_looked_around_quickly(do: Do) -> None:
    assert do("go to kitchen 1").text == (
        "You move to the kitchen (1). Looking quickly around the room, you see bookshelf (1), fridge (1), "
        "kitchen table (1)."
    )


def test_an_arrival_lists_what_is_next_to_the_agent_and_what_it_holds(do: Do) -> None:
    assert do("go to kitchen table 1").text == (
        "You arrive at the kitchen table (1). You see apple (1), fridge (1), kitchen table (1), mug (1), plate (1), "
        "wine (1)"
    )
    assert do("pick up apple 1", "go to fridge 1").text == (
        "You arrive at the fridge (1). The fridge (1) is closed. You see apple (1), fridge (1), kitchen table (1), "
        "light switch (1) You hold apple (1)."
    )


def test_what_is_inside_shows_only_when_it_is_open(do: Do, world: SymbolicWorld) -> None:
    assert "juice" not in do("go to fridge 1").text
    assert "go to juice 1" not in world.available_skills().take()
    opened = do("open fridge 1")
    assert opened.text == "You open fridge. You see fridge (1), juice (1), kitchen table (1), light switch (1)"
    assert opened.looked_into == "fridge 1"
    assert "go to juice 1" in world.available_skills().take()
    assert do("close fridge 1").text == "You close fridge."
    assert "juice" not in do("go to fridge 1").text


@pytest.mark.parametrize(
    ("skills", "text"),
    [
        (["pick up apple 1"], "The apple is not close to you."),
        (["go to kitchen 1", "pick up apple 1"], "The apple is not close to you."),
        (["go to kitchen table 1", "pick up fridge 1"], "The fridge cannot be grabbed."),
        (["go to kitchen table 1", "put down apple 1"], "You do not grab the apple."),
        (
            ["go to kitchen table 1", "pick up apple 1", "pick up mug 1", "pick up plate 1"],
            "You do not have an empty hand. You hold apple (1), mug (1).",
        ),
        (
            ["go to kitchen table 1", "pick up apple 1", "pick up mug 1", "open fridge 1"],
            "You do not have an empty hand. You see apple (1), fridge (1), kitchen table (1), mug (1), plate (1), "
            "wine (1) You hold apple (1), mug (1).",
        ),
        (
            ["go to kitchen table 1", "pick up apple 1", "go to fridge 1", "put down apple 1"],
            "The fridge is closed. You hold apple (1).",
        ),
        (
            ["go to kitchen table 1", "pick up apple 1", "go to bedroom 1", "put down apple 1"],
            "The kitchen table is not close to you. You hold apple (1).",
        ),
        (["go to fridge 1", "open kitchen table 1"], "The kitchen table cannot be opened You see"),
        (["open fridge 1"], "The fridge is not close to you."),
        (["go to fridge 1", "open fridge 1", "open fridge 1"], "The fridge is already open. You see"),
        (["go to fridge 1", "close fridge 1"], "The fridge is already closed."),
        (["go to fridge 1", "close kitchen table 1"], "The kitchen table cannot be opened"),
        (["go to fridge 1", "turn on light switch 1"], "The light switch is already turned on."),
        (["go to fridge 1", "turn on kitchen table 1"], "The kitchen table does not have a switch"),
        (["turn on fridge 1"], "The fridge is not close to you."),
    ],
)
def test_a_refusal_says_why_and_changes_nothing(do: Do, skills: list[str], text: str) -> None:
    refused = do(*skills)
    assert refused.outcome is Outcome.PRECONDITION
    assert refused.text.startswith(text)


def test_what_is_refused_is_what_is_needed_or_of_another_kind(world: SymbolicWorld) -> None:
    """A model may try anything at any time; only what is not as declared is refused."""
    chance, refused = random.Random(57), 0
    skills = [skill.call({"thing": name}) for skill in WAH_NL.skills for name in world.scene.by_name]
    for call in chance.choices(skills, k=3000):
        thing = world.scene.by_name[call.values["thing"]]
        is_unfit = not {which_of(call.skill)} <= {"", *thing.properties}
        missing = [*call.unmet(world.scene)]
        outcome = world.execute(call).take().outcome
        if thing.is_room and call.skill.verb != "go to":
            assert outcome is Outcome.UNKNOWN_SKILL
        else:
            assert (outcome is Outcome.PRECONDITION) == bool(missing or is_unfit), (call, missing)
            refused += bool(missing)
    assert 500 < refused < 2900


def test_what_is_seen_is_told_only_where_something_is(do: Do) -> None:
    assert do("open fridge 1").text == "The fridge is not close to you."
    do("go to bedroom 1")
    assert not do("open fridge 1").text.endswith("see")


def test_without_a_receptacle_nothing_is_put_down(do: Do) -> None:
    do("go to apple 1", "pick up apple 1")
    assert do("put down apple 1").text == "The apple cannot be put down on apple. You hold apple (1)."


def test_a_plate_is_not_put_on_itself(do: Do) -> None:
    do("go to plate 1", "pick up plate 1")
    assert do("put down plate 1").text == "The plate cannot be put down on plate. You hold plate (1)."


@pytest.mark.parametrize(
    ("skill", "text"),
    [
        ("go to unicorn 1", "There is no unicorn 1 in the house."),
        ("go to fridge 2", "There is no fridge 2 in the house."),
        ("go to fridge", "There is no fridge in the house."),
        ("open kitchen 1", "You cannot open a kitchen."),
        ("eat apple 1", "'eat apple 1' is not a skill."),
        ("", "'' is not a skill."),
        ("pick up", "'pick up' is not a skill."),
    ],
)
def test_what_is_no_skill_is_refused_rather_than_guessed(do: Do, skill: str, text: str) -> None:
    observation = do(skill)
    assert observation.outcome is Outcome.UNKNOWN_SKILL
    assert observation.text.startswith(text)


def test_put_down_words_in_or_on_and_scores_by_the_relation(do: Do, world: SymbolicWorld) -> None:
    do("go to kitchen table 1", "pick up apple 1", "pick up mug 1", "put down mug 1")
    assert do("put down apple 1").text == "You put down apple on kitchen table"
    do("pick up apple 1", "go to fridge 1", "open fridge 1")
    assert do("put down apple 1").text == "You put down apple in fridge"
    score = world.score().take()
    assert score == Score(gsr=0.0, ssr=1 / 3)
    assert score.unmet == ["mug in fridge", "fridge turned on"]
    do("go to kitchen table 1", "pick up mug 1", "go to fridge 1", "put down mug 1")
    assert do("turn on fridge 1").text == "You turn on fridge."
    assert world.score().take() == Score(gsr=1.0, ssr=1.0)


def test_what_was_put_down_is_listed_where_its_place_is(do: Do) -> None:
    do("go to fridge 1", "open fridge 1", "pick up juice 1", "go to kitchen table 1", "put down juice 1")
    assert "juice (1)" in do("go to kitchen table 1").text
    assert "juice (1)" in do("go to fridge 1").text, "the table and the fridge are close in both directions"
    assert "juice" not in do("go to bookshelf 1").text
    do("go to kitchen table 1", "pick up apple 1", "go to fridge 1", "put down apple 1")
    assert "apple (1)" in do("go to bookshelf 1").text, "the open fridge is next to the bookshelf"
    do("go to fridge 1", "close fridge 1")
    assert "apple" not in do("go to bookshelf 1").text


def test_what_is_held_goes_along_and_is_close_everywhere(do: Do, world: SymbolicWorld) -> None:
    do("go to kitchen table 1", "pick up apple 1", "go to bedroom 1")
    assert world.observe().take().text.endswith("you see bed (1). You hold apple (1).")
    do("go to bed 1")
    assert do("put down apple 1").outcome is Outcome.DONE
    assert "apple" not in do("go to kitchen table 1").text
    assert "apple (1)" in do("go to bed 1").text


def test_a_bookshelf_says_that_it_is_opened_but_stays_closed(do: Do) -> None:
    do("go to bookshelf 1")
    assert do("open bookshelf 1").text.startswith("You open bookshelf.")
    assert "The bookshelf (1) is closed." in do("go to bookshelf 1").text


def test_sightings_say_where_for_working_memory(do: Do) -> None:
    seen = {sighting.word: sighting for sighting in do("go to kitchen table 1", "pick up mug 1").seen}
    assert seen["mug"].held
    arrival = do("go to fridge 1").seen
    assert {(s.word, s.place, s.held) for s in arrival} >= {("fridge", "fridge 1", False), ("mug", None, True)}
    assert {s.place for s in do("go to kitchen 1").seen if not s.held} == {None}
    placed = do("go to kitchen table 1", "put down mug 1").seen
    assert [(s.word, s.room, s.place, s.held) for s in placed] == [("mug", "kitchen 1", "kitchen table 1", False)]


def test_available_skills_are_those_of_what_is_visible(do: Do, world: SymbolicWorld) -> None:
    assert set(world.available_skills().take()) == {"go to bedroom 1", "go to kitchen 1", "go to bed 1"}
    do("go to kitchen 1")
    skills = world.available_skills().take()
    assert {"pick up apple 1", "put down apple 1", "open fridge 1", "close fridge 1", "turn on fridge 1"} <= set(skills)
    assert "go to bed 1" not in skills
    assert "open kitchen table 1" not in skills
    assert len(skills) == len(set(skills))


def test_reset_brings_everything_back(do: Do, world: SymbolicWorld) -> None:
    first = world.observe().take()
    do("go to kitchen table 1", "pick up apple 1", "go to fridge 1", "open fridge 1", "put down apple 1")
    world.reset().take()
    assert world.observe().take() == first
    assert world.score().take() == Score(gsr=0.0, ssr=0.0)
    assert "closed" in do("go to fridge 1").text


def test_the_goal_is_scored_on_the_instance_that_fulfils_most() -> None:
    document = house()
    document["task_goal"] = {"on_apple_kitchentable": 1, "on_juice_kitchentable": 1}
    document["init_graph"]["nodes"].append(node(26, "kitchentable"))
    document["init_graph"]["edges"] += [edge(26, "INSIDE", BEDROOM), edge(26, "CLOSE", 26)]
    world = SymbolicWorld(parse_tasks(document)[0])
    for skill in ("go to fridge 1", "open fridge 1", "pick up juice 1", "go to kitchen table 2", "put down juice 1"):
        assert world.execute(skill).take().outcome is Outcome.DONE
    score = world.score().take()
    assert score == Score(gsr=0.0, ssr=0.5), "one thing on each of two tables is half of the goal"
    assert score.unmet == ["juice on kitchen table"]


def test_a_world_without_a_goal_has_no_score() -> None:
    assert SymbolicWorld(parse_tasks(house())[0], scored=False).score().take() is None


def test_recorded_quirks_are_honoured_only_on_request() -> None:
    document = house() | {"recorded_quirks": {"grab_no_effect": [APPLE], "put_no_effect": [[MUG, "kitchentable"]]}}
    task = parse_tasks(document)[0]
    for honour in (True, False):
        world = SymbolicWorld(task, honour_quirks=honour)
        world.execute("go to kitchen table 1")
        assert ("hold" in world.execute("pick up apple 1").take().text) != honour
        world.execute("pick up mug 1")
        assert ("hold mug" in world.execute("put down mug 1").take().text.replace("apple (1), ", "")) == honour


def test_an_agent_without_a_node_starts_in_the_room_of_the_file() -> None:
    document = house()
    document["init_graph"]["nodes"] = [n for n in document["init_graph"]["nodes"] if n["id"] != 1]
    document["init_graph"]["edges"] = [e for e in document["init_graph"]["edges"] if e["from_id"] != 1]
    world = SymbolicWorld(parse_tasks(document)[0])
    assert "in the middle of a bedroom (1)" in world.observe().take().text


@pytest.mark.slow
@pytest.mark.parametrize("scene", range(1, 8))
def test_whole_virtualhome_apartments_in_the_original_format_can_be_played(scenes: Path, scene: int) -> None:
    document = house()
    document["init_graph"] = json.loads((scenes / f"scene{scene}.json").read_text(encoding="utf-8"))
    document["task_goal"] = {"turnOn_tv": 1}
    document["init_room"] = "kitchen"
    world = SymbolicWorld(parse_tasks(document)[0])
    assert world.observe().take().text.startswith("You are in the house, and there are ")
    assert "You see " in world.execute("go to tv 1").take().text
    assert world.execute("turn on tv 1").take().text in ("You turn on tv.", "The tv is already turned on.")
    assert world.score().take() == Score(gsr=1.0, ssr=1.0)
    for skill in world.available_skills().take():
        assert world.execute(skill).take().outcome in (Outcome.DONE, Outcome.PRECONDITION)
    assert not [word for word in ("wall", "floor", "ceiling") if word in world.observe().take().text]


@pytest.mark.slow
def test_every_recorded_task_loads_and_starts_unfulfilled(wah_nl: Path) -> None:
    tasks = load_tasks(wah_nl / "tasks.json")
    assert len(tasks) == 144
    for task in tasks:
        score = SymbolicWorld(task).score().take()
        assert score is not None
        assert score.ssr == 0.0


def test_a_file_of_one_task_is_a_list_of_one(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text(json.dumps(house()), encoding="utf-8")
    (task,) = load_tasks(path)
    assert isinstance(task, Task)
    assert task.instruction == "Put the apple in the fridge"


def test_rooms_and_furniture_of_a_house_may_have_names_of_their_own() -> None:
    document = house()
    own = {KITCHEN: "office 204", BEDROOM: "lobby", TABLE: "Anna's desk"}
    for one in document["init_graph"]["nodes"]:
        one |= {"name": own[one["id"]]} if one["id"] in own else {}
    world = SymbolicWorld(parse_tasks(document)[0])
    seen = world.reset().take()
    assert "there are 2 rooms: lobby, office (204). You are in the middle of lobby." in seen.text
    assert {"go to lobby", "go to office 204"} <= set(map(str, world.available_skills().take()))
    for skill in ("go to office 204", "go to Anna's desk", "pick up apple 1"):
        seen = world.execute(skill).take()
        assert seen.outcome is Outcome.DONE, seen.text
    assert seen.text.startswith("You pick up apple.")
    told = world.execute("go to Anna's desk").take()
    assert "You see Anna's desk, " in told.text
    assert world.execute("go to bedroom 1").take().outcome is not Outcome.DONE
