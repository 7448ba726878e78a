"""Knowledge: where things were seen, in the recorded wording; what was searched; what holds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.household import Household
from reactree_ros.agent.needs import HERE
from reactree_ros.agent.skill import skill_of
from reactree_ros.agent.turns import About, Place, Searched, ToldSearched
from reactree_ros.household.household import WAH_NL
from reactree_ros.memory.knowledge import Knowledge
from reactree_ros.world.port import GONE, Observation, Outcome, Seen


def saw(known: Knowledge, word: str, number: int, *, room: str | None, place: str | None, held: bool = False) -> None:
    known.saw(Observation("", seen=(Seen(word, number, room, place, held),)))


@pytest.mark.parametrize(
    ("room", "place", "sentence"),
    [
        ("kitchen 1", "fridge 2", "You saw juice 1 near fridge 2 in kitchen 1."),
        ("kitchen 1", None, "You saw juice 1 in kitchen 1."),
        (None, "desk 1", "You saw juice 1 near desk 1."),
    ],
)
def test_a_sighting_is_told_in_the_recorded_wording(room: str | None, place: str | None, sentence: str) -> None:
    memory = Knowledge(WAH_NL)
    assert memory.recall("juice") == "You have not seen juice before."
    saw(memory, "juice", 1, room=room, place=place)
    assert memory.recall("juice") == sentence


def test_a_held_object_is_answered_as_held_until_it_is_seen_elsewhere() -> None:
    memory = Knowledge(WAH_NL)
    saw(memory, "cutlery fork", 1, room="kitchen 1", place="sink 1")
    saw(memory, "cutlery fork", 1, room="kitchen 1", place=None, held=True)
    assert memory.recall("cutlery fork") == "You are holding cutlery fork 1."
    saw(memory, "cutlery fork", 1, room="bedroom 2", place="desk 1")
    assert memory.recall("cutlery fork") == "You saw cutlery fork 1 near desk 1 in bedroom 2."


def test_instances_are_joined_by_a_blank_in_the_order_of_first_sighting() -> None:
    memory = Knowledge(WAH_NL)
    saw(memory, "cupcake", 2, room="kitchen 1", place="kitchen table 1")
    saw(memory, "cupcake", 1, room="kitchen 1", place="kitchen table 1")
    saw(memory, "cupcake", 2, room="living room 1", place="coffee table 1")
    assert memory.recall("cupcake") == (
        "You saw cupcake 2 near coffee table 1 in living room 1. You saw cupcake 1 near kitchen table 1 in kitchen 1."
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["juice", "wine"]), st.integers(1, 3), st.sampled_from(["fridge 1", "table 1"])),
        max_size=30,
    )
)
def test_a_recall_names_each_instance_once_in_first_order_at_its_last_place(seen: list[tuple[str, int, str]]) -> None:
    memory = Knowledge(WAH_NL)
    for word, instance, place in seen:
        saw(memory, word, instance, room="kitchen 1", place=place)
    for word in ("juice", "wine"):
        last = {instance: place for name, instance, place in seen if name == word}
        first = dict.fromkeys(instance for name, instance, _ in seen if name == word)
        sentences = [f"You saw {word} {instance} near {last[instance]} in kitchen 1." for instance in first]
        assert memory.recall(word) == (" ".join(sentences) or f"You have not seen {word} before.")


KITCHEN = "kitchen 1"
CLOSED, OPEN = ("CLOSED",), ("OPEN",)


def seen(name: str, place: str | None = None, states: Sequence[str] = (), *, room: str | None = KITCHEN) -> Seen:
    word, _, number = name.rpartition(" ")
    return Seen(word, int(number), room, place, states=tuple(states))


def looked(*things: Seen, into: str | None = None, outcome: Outcome = Outcome.DONE) -> Observation:
    return Observation("", outcome, things, into)


class Kitchen:
    """A robot in a kitchen with a table, a fridge, a cabinet and a nightstand that never opens, and what it is told."""

    def __init__(self) -> None:
        self.memory, self.step = Knowledge(WAH_NL, ("milk", "book")), 0
        doors = (seen("fridge 1", states=CLOSED), seen("cabinet 1", states=CLOSED), seen("nightstand 2", states=CLOSED))
        self.memory.saw(looked(seen("table 1"), *doors, seen("book 1", states=CLOSED)))

    def does(self, skill: str, observation: Observation, robot: str = "") -> ToldSearched | None:
        self.step += 1
        self.memory.saw(observation, robot)
        return self.memory.did(skill, observation, robot, step=self.step)

    def goes_to_the_table(self, robot: str = "") -> ToldSearched | None:
        there = looked(seen("table 1", "table 1"), seen("milk 1", "table 1"))
        return self.does("go to table 1", there, robot)

    def goes_to_the_fridge(self, door: Sequence[str] = CLOSED) -> ToldSearched | None:
        there = seen("fridge 1", "fridge 1", door), seen("milk 1", "fridge 1")
        return self.does("go to fridge 1", looked(*there, into="fridge 1" if door == OPEN else None))

    def opens_the_fridge(self) -> ToldSearched | None:
        return self.does("open fridge 1", looked(seen("fridge 1", "fridge 1", OPEN), into="fridge 1"))


def words(told: ToldSearched | None) -> str:
    return "" if told is None else told.text


def test_a_table_is_searched_by_going_there() -> None:
    told = Kitchen().goes_to_the_table()
    assert words(told) == "Searched in kitchen 1: table (1); not yet: fridge (1), cabinet (1), nightstand (2)."
    assert told is not None
    assert told.about is About.SEARCHED
    assert told.searched == (Searched(Place("table 1", KITCHEN, "table", 1), "", 1),)
    assert [place.name for place in told.unsearched] == ["fridge 1", "cabinet 1", "nightstand 2"]


def test_what_is_open_is_searched_by_going_there_and_opening_it_once_more_is_not_another_search() -> None:
    kitchen = Kitchen()
    assert words(kitchen.goes_to_the_fridge(OPEN)).startswith("Searched in kitchen 1: fridge (1);")
    assert words(kitchen.opens_the_fridge()).startswith("Searched in kitchen 1: fridge (1);")


def test_what_opens_and_shows_nothing_is_not_left_to_be_looked_into() -> None:
    kitchen = Kitchen()
    told = kitchen.does("open nightstand 2", looked(seen("nightstand 2", "nightstand 2", CLOSED)))
    assert words(told) == "Searched in kitchen 1: nightstand (2); not yet: fridge (1), cabinet (1)."


def test_who_searches_again_is_told_when_it_was_and_the_latest_search_comes_last() -> None:
    kitchen = Kitchen()
    kitchen.goes_to_the_table()
    kitchen.goes_to_the_fridge()
    kitchen.opens_the_fridge()
    told = kitchen.goes_to_the_table()
    assert words(told).startswith(
        "You had searched table 1 3 steps before. Searched in kitchen 1: fridge (1), table (1); not yet: "
    )
    assert words(kitchen.goes_to_the_table()).startswith("You had searched table 1 1 step before. ")


def test_another_robot_is_named() -> None:
    kitchen = Kitchen()
    kitchen.goes_to_the_table("robot_2")
    assert words(kitchen.memory.searched_in(KITCHEN, robot="robot_1")).startswith(
        "Searched in kitchen 1: table (1) by robot_2; not yet"
    )
    assert words(kitchen.goes_to_the_table("robot_1")).startswith(
        "robot_2 had searched table 1 1 step before. Searched in kitchen 1: table (1); not yet"
    )


def test_of_several_rooms_each_is_told_by_itself_and_one_where_nothing_was_searched_is_not() -> None:
    kitchen = Kitchen()
    assert kitchen.memory.all_searched() is kitchen.memory.searched_in(KITCHEN) is None
    kitchen.goes_to_the_table()
    bath = looked(seen("sink 1", "sink 1", room="bathroom 1"), seen("cabinet 2", "sink 1", CLOSED, room="bathroom 1"))
    assert words(kitchen.does("go to sink 1", bath)) == "Searched in bathroom 1: sink (1); not yet: cabinet (2)."
    assert words(kitchen.memory.all_searched()) == (
        "Searched in kitchen 1: table (1); not yet: fridge (1), cabinet (1), nightstand (2). "
        "Searched in bathroom 1: sink (1); not yet: cabinet (2)."
    )
    assert kitchen.memory.searched_in("bedroom 1") is None


@pytest.mark.parametrize(
    ("skill", "observation"),
    [
        ("go to milk 1", looked(seen("milk 1", "milk 1"))),  # a thing
        ("open book 1", looked(seen("book 1", "book 1", OPEN))),
        ("pick up milk 1", looked(seen("milk 1", "table 1"))),
        ("put down milk 1", looked(seen("milk 1", "table 1"))),
        ("close fridge 1", looked(seen("fridge 1", "fridge 1", CLOSED))),
        ("go to table 1", looked(seen("table 1", "table 1"), outcome=Outcome.PRECONDITION)),
        ("go to table 1", looked(seen("table 1", "table 1"), outcome=Outcome.HALTED)),
        ("open fridge 1", looked(outcome=Outcome.PRECONDITION)),
        ("go to table 1", looked()),  # nothing is known of what is there
        ("open window 1", looked()),  # nothing with an inside
        ("sing", looked()),
        ("", looked()),
    ],
)
def test_anything_else_is_no_search(skill: str, observation: Observation) -> None:
    kitchen = Kitchen()
    assert kitchen.does(skill, observation) is None
    assert kitchen.memory.all_searched() is None


def test_what_is_gone_is_not_left_to_be_looked_into() -> None:
    kitchen = Kitchen()
    kitchen.memory.saw(looked(seen("fridge 1", states=(GONE,)), seen("nightstand 2", states=(GONE,))))
    assert words(kitchen.goes_to_the_table()) == "Searched in kitchen 1: table (1); not yet: cabinet (1)."


def test_a_world_without_rooms_and_with_names_of_its_own() -> None:
    memory = Knowledge(ALFRED, ("Mug",))
    memory.saw(looked(seen("Fridge 1", states=CLOSED, room=None), seen("Desk 2", room=None)))
    there = looked(seen("Desk 2", "Desk (2)", room=None), seen("Mug 1", "Desk (2)", room=None))
    assert words(memory.did("go to Desk (2)", there, step=1)) == "Searched: Desk (2); not yet: Fridge (1)."
    assert words(memory.did("open Fridge (1)", looked(into="Fridge (1)"), step=2)) == "Searched: Desk (2), Fridge (1)."


PLACES = ("table 1", "fridge 1", "cabinet 1", "nightstand 2")
ACTS = st.tuples(st.sampled_from(("go to", "open", "close", "pick up")), st.sampled_from(PLACES), st.booleans())


@given(st.lists(ACTS, max_size=30))
def test_nothing_is_both_searched_and_not_and_no_search_is_lost(acts: list[tuple[str, str, bool]]) -> None:
    kitchen, searched = Kitchen(), set[str]()
    for verb, place, is_open in acts:
        states = () if place == "table 1" else OPEN if is_open else CLOSED
        told = kitchen.does(f"{verb} {place}", looked(seen(place, place, states)))
        if told is not None:
            searched.add(place)
            assert told.searched[-1].place.name == place
        everything = kitchen.memory.all_searched()
        assert (everything is None) == (not searched)
        if everything is not None:
            names = [one.place.name for one in everything.searched]
            assert sorted(names) == sorted(searched)
            assert not searched & {one.name for one in everything.unsearched}
            assert [one.step for one in everything.searched] == sorted(one.step for one in everything.searched)


DRAWERS = Household(
    name="cart",
    skills=(
        *(
            skill_of(
                {
                    "name": f"{verb} drawer",
                    "wording": f"{verb} drawer {{number}}",
                    "parameters": {"number": {"number": {"from": 1, "to": 6}}},
                    "effect": {state: "drawer {number}"},
                }
            )
            for verb, state in (("open", "open"), ("close", "closed"))
        ),
        skill_of(
            {
                "name": "take",
                "wording": "take the {item}",
                "parameters": {"item": ["pills"]},
                "effect": {"held": "item"},
            }
        ),
        skill_of(
            {
                "name": "drive",
                "wording": "drive to {place}",
                "parameters": {"place": "place"},
                "effect": {"at": "place"},
            }
        ),
    ),
)


def test_facts_follow_from_what_was_seen() -> None:
    kitchen = Kitchen()
    known = kitchen.memory.of()
    assert known.holds("near", "milk 1") is False  # it has gone nowhere
    kitchen.goes_to_the_fridge()
    assert (known.at, known.room) == ("fridge 1", KITCHEN)
    assert [
        known.holds(*one) for one in (("at", "fridge"), ("at", "table 1"), ("near", "milk"), ("near", "table 1"))
    ] == [
        True,
        False,
        True,
        False,
    ]
    assert [known.holds("closed", one) for one in ("fridge 1", "fridge", HERE, "table 1", "box")] == [True] * 3 + [
        None
    ] * 2
    kitchen.does("pick up milk 1", looked(Seen("milk", 1, KITCHEN, held=True)))
    assert known.holds("held", "milk") is True
    assert known.holds("free", "hand") is True
    kitchen.does("go to kitchen 1", looked(seen("table 1"), Seen("milk", 1, KITCHEN, held=True)))
    assert [known.holds("near", one) for one in ("milk 1", "fridge 1")] == [True, False]
    kitchen.does("go to table 1", looked(outcome=Outcome.PRECONDITION))
    assert known.at == KITCHEN  # it never began
    kitchen.does("go to table 1", looked(outcome=Outcome.EXECUTION))
    assert [known.holds(*one) for one in (("at", "fridge 1"), ("near", "fridge 1"))] == [None, None]


def test_facts_follow_from_effects_of_what_nobody_sees() -> None:
    knowledge = Knowledge(DRAWERS)
    known = knowledge.of()
    assert known.holds("open", "drawer") is None
    for skill in ("open drawer 2", "open drawer 3", "close drawer 2", "take the pills", "drive to counter 1"):
        knowledge.did(skill, Observation(""))
    assert [known.holds("open", one) for one in ("drawer", "drawer 2", "drawer 3", "drawer 4")] == [
        True,
        False,
        True,
        None,
    ]
    assert known.those("open", "drawer") == ["drawer 3"]
    assert [known.holds("held", one) for one in ("pills", "cup")] == [True, False]
    assert known.holds("at", "counter") is True


@pytest.mark.parametrize(
    ("place", "states", "possible"),
    [("fridge 1", OPEN, True), ("fridge 1", CLOSED, False), ("desk 1", CLOSED, True), ("coffee pot 1", CLOSED, True)],
)
def test_a_put_down_needs_something_held_and_nothing_closed_around_its_place(
    place: str, states: tuple[str, ...], possible: bool
) -> None:
    kitchen, known = Kitchen(), Kitchen().memory.of()
    put = WAH_NL.call("put down milk 1")
    assert [need.fact for need in put.unmet(known)][:1] == ["held"]
    known, held = kitchen.memory.of(), Seen("milk", 1, KITCHEN, held=True)
    kitchen.does("go to milk 1", looked(seen("milk 1", "milk 1")))
    kitchen.does("pick up milk 1", looked(held))
    assert not [*put.unmet(known)]  # it goes back to where it was
    kitchen.does(f"go to {place}", looked(seen(place, place, states), held))
    assert (not [*put.unmet(known)]) is possible


def test_each_robot_knows_its_own_place_and_hands() -> None:
    knowledge = Knowledge(WAH_NL)
    knowledge.saw(looked(Seen("cup", 1, KITCHEN, held=True)), "one")
    knowledge.did("go to table 1", looked(seen("table 1", "table 1")), "one")
    assert [knowledge.of(one).holds("held", "cup 1") for one in ("one", "two")] == [True, False]
    assert [knowledge.of(one).holds("at", "table") for one in ("one", "two")] == [True, None]


def test_what_a_robot_has_picked_up_is_near_to_no_other_until_it_is_put_to_where_that_one_is() -> None:
    knowledge, cup = Knowledge(WAH_NL), seen("cup 1", "table 1")
    for robot in ("one", "two"):
        knowledge.saw(looked(seen("table 1", "table 1"), cup), robot)
        knowledge.did("go to table 1", looked(seen("table 1", "table 1"), cup), robot)
    near = [knowledge.of("two").holds("near", "cup 1")]
    for place in (None, "desk 1", "table 1"):
        knowledge.saw(looked(Seen("cup", 1, KITCHEN, place, held=place is None)), "one")
        near.append(knowledge.of("two").holds("near", "cup 1"))
    assert near == [True, False, False, True]


def test_what_is_not_there_any_more_is_recalled_and_taken_to_be_nowhere() -> None:
    knowledge = Knowledge(WAH_NL)
    knowledge.saw(looked(seen("table 1", "table 1"), seen("cup 1", "table 1", OPEN)))
    knowledge.saw(looked(seen("cup 1")))  # from the middle of the room
    assert knowledge.there["cup 1"] == seen("cup 1", "table 1", OPEN)
    knowledge.saw(looked(seen("table 1", "table 1")))
    assert [*knowledge.there] == ["table 1"]
    assert knowledge.recall("cup") == f"You saw cup 1 in {KITCHEN}."


@pytest.mark.parametrize("fact", ["at", "near", "held", "open", "closed", "on"])
def test_what_is_told_of_all_names_is_what_holds_of_each(fact: str) -> None:
    known = Knowledge(WAH_NL)
    robot = known.of()
    names = ["fridge 1", "fridge", "mug 2", "mug", "plate 9", "plate", "WC", "ward A", "bed 3"]

    def check() -> None:
        said, other = robot.told(fact)
        assert [said.get(name, other) for name in names] == [robot.holds(fact, name) for name in names]

    known.saw(Observation("", rooms=("WC", "ward A")))  # capitals do not belong to the words of things then
    check()
    here = (Seen("fridge", 1, "WC", "fridge 1", states=("OPEN",)), Seen("mug", 2, "WC", "fridge 1"))
    seen = Observation("", seen=(*here, Seen("mug", 3, "WC", held=True)))
    known.saw(seen)
    check()
    known.did("go to fridge 1", seen)
    check()
    known.saw(Observation("", seen=(Seen("fridge", 2, "WC", states=("CLOSED", "OFF")),)))
    check()
    robot.moved()
    check()


def test_what_is_gone_is_in_no_state_and_two_things_of_one_name_may_both_go() -> None:
    known = Knowledge(WAH_NL)
    door = [Seen("door", 1, KITCHEN, states=("OPEN",)), Seen("door 1", 0, KITCHEN, states=("OPEN",))]
    known.saw(Observation("", seen=tuple(door)))
    assert known.of().holds("open", "door") is True
    known.saw(Observation("", seen=tuple(Seen(one.word, one.instance, KITCHEN, states=(GONE,)) for one in door)))
    assert known.of().holds("open", "door") is None
    assert not known.knows("door 1")


def test_a_run_begins_where_an_earlier_one_has_led_the_robot() -> None:
    knowledge = Knowledge(WAH_NL)
    knowledge.saw(looked(seen("sofa 1"), seen("table 1", "table 1"), seen("stapler 1", "table 1")))
    known = knowledge.of()
    assert (known.at, known.holds("near", "stapler 1"), known.holds("near", "sofa 1")) == ("table 1", True, False)
