"""What a node is offered and told by what its robot knows: nothing possible is lost, and nothing false is said."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from doubles import ScriptedModel
from recorded_runs import assert_replays, recorded_episode

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.household import Household
from reactree_ros.agent.skill import Offer, skill_of
from reactree_ros.agent.text import LONGEST_TOLD
from reactree_ros.agent.turns import Said
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.memory.knowledge import Knowledge
from reactree_ros.tree.advice import Offers, about_thought, in_one_form, line, why_not
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome, Seen

CUP = Seen("cup", 1, "kitchen 1", "table 1")
THERE = Observation("", seen=(Seen("table", 1, "kitchen 1", "table 1"), CUP))


def skill(name: str, **declared: Any) -> Any:
    wording = {"name": name, "wording": f"{name} {{thing}}", "parameters": {"thing": {"thing": None}}}
    return skill_of({**wording, **declared})


def at_the_table(household: Household = WAH_NL) -> Knowledge:
    known = Knowledge(household)
    known.saw(THERE)
    known.did("go to table 1", THERE)
    return known


@pytest.mark.parametrize("needs", [{"near": "{thing} handle"}, {"near": ["{thing}", "table"]}])
def test_a_need_of_more_than_the_name_itself_keeps_no_other_name_back(needs: dict[str, Any]) -> None:
    pull = skill("pull", requires=needs)
    known = at_the_table(Household(name="own", skills=(*WAH_NL.skills, pull)))
    known.saw(Observation("", seen=(Seen("drawer", 0, "kitchen 1"), Seen("drawer handle", 0, "kitchen 1", "table 1"))))
    offers = Offers(known, ["drawer", "cup"])
    assert offers.texts(["pull drawer"], known.of()) == ["pull drawer"]
    assert [offer.lines() for offer in offers.offers([Offer(pull, {"thing": ("drawer",)})], known.of())] == [
        ["pull drawer"]
    ]


def test_a_world_that_declares_no_needs_offers_what_it_lists() -> None:
    listed = ["go to shelf 9", "take cup 7", "look"]
    for skills in ((), (skill("go to"), skill("take"))):
        known = at_the_table(Household(name="own", actions=("go to", "take", "look"), skills=skills))
        assert Offers(known, ["shelf", "cup"]).texts(listed, known.of()) == listed


def test_who_is_never_seen_can_be_gone_to_also_by_a_name_with_a_number() -> None:
    known = at_the_table()
    assert Offers(known, ["cup"]).texts(["go to patient 12", "go to cup 2"], known.of()) == ["go to patient 12"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED_BY_POLICY, Outcome.UNKNOWN_SKILL, Outcome.TIMEOUT])
def test_what_says_nothing_of_the_hands_takes_nothing_out_of_them(outcome: Outcome) -> None:
    known = at_the_table()
    known.saw(Observation("", seen=(Seen("cup", 1, "kitchen 1", held=True),)))
    refused = Observation("The skill was not carried out.", outcome)
    known.saw(refused)
    known.did("open table 1", refused)
    assert Offers(known, ["cup"]).texts(["put down cup 1"], known.of()) == ["put down cup 1"]


def test_what_is_in_something_that_was_opened_from_beside_it_can_be_taken() -> None:
    known = at_the_table()
    known.saw(Observation("", seen=(Seen("cabinet", 2, "kitchen 1", "table 1", states=("CLOSED",)),)))
    opened = (Seen("cabinet", 2, "kitchen 1", "cabinet 2", states=("OPEN",)), Seen("mug", 3, "kitchen 1", "cabinet 2"))
    known.saw(Observation("", seen=opened))
    known.did("open cabinet 2", Observation("", seen=opened))
    assert Offers(known, ["mug"]).texts(["pick up mug 3"], known.of()) == ["pick up mug 3"]


def test_a_world_that_does_not_say_what_is_held_is_not_said_to_hold_nothing() -> None:
    for household, says in ((WAH_NL, True), (Household(name="adventure", free_skills=True, naming=""), False)):
        known = Knowledge(household)
        assert ("You hold nothing" in line("take the lamp", [], known, known.of())) == says


def test_what_a_later_look_missed_is_not_said_to_be_seen_there() -> None:
    known = at_the_table()
    assert line("Find a cup", ["cup"], known, known.of()).endswith("Within reach: cup 1.")
    known.saw(Observation("", seen=(THERE.seen[0],), looked_into="table 1"))
    assert line("Find a cup", ["cup"], known, known.of()).endswith("Not there: cup 1 at table 1 in kitchen 1 any more.")
    assert Offers(known, ["cup"]).texts(["pick up cup 1"], known.of()) == []


def test_what_stands_in_rooms_is_not_to_be_searched_for_in_cupboards() -> None:
    known = Knowledge(WAH_NL, ["cup"])
    shut = Seen("cabinet", 1, "kitchen 1", states=("CLOSED",))
    known.saw(Observation("", seen=(shut,), rooms=("kitchen 1", "hall 1")))
    things = ["cup", "sofa"]
    assert line("Find a cup", things, known, known.of()).endswith("Not searched yet: cabinet 1 (closed), hall 1.")
    assert line("Go to the sofa", things, known, known.of()).endswith("Not searched yet: hall 1.")


def test_a_robot_with_many_skills_has_those_described_that_the_task_is_about() -> None:
    many = (skill(f"do {number}", description=f"does {number}") for number in range(60))
    wave = skill("wave", description="waves at a guest", requires={"held": "flag"})
    told = Household(name="own", skills=(*many, wave)).skills_text("Wave at the guest").splitlines()
    assert "- wave {thing}: waves at a guest, only if you hold flag." in told
    assert "- and 21 more skills, by their names alone." in told


def test_a_room_that_was_told_of_is_not_said_to_be_missing() -> None:
    known = Knowledge(WAH_NL, ["cup"])
    known.saw(Observation("", rooms=("kitchen 1", "hall 1")))
    assert "hall" not in line("Go to the hall", ["hall"], known, known.of())
    assert about_thought("I go to the hall", ["go to hall 1"], ["hall"], known, known.of()) == ""
    assert why_not("go to hall", ["hall"], known, known.of()) == ""


def test_what_was_read_stays_as_it_is_and_names_are_as_skills_have_them() -> None:
    known = at_the_table()
    text = "You see cup (1). It returned label: Aspirin (500)."
    assert in_one_form(text, known.knows) == "You see cup 1. It returned label: Aspirin (500)."


def test_names_are_found_in_an_observation_as_long_as_one_may_be() -> None:
    page = "the word sees " * (LONGEST_TOLD // 14)  # a search from each word on would take hours
    assert in_one_form(f"{page}. You see mug (1, 2).") == f"{page}. You see mug 1, mug 2."


SLIPS = ("turn on dishwashr 1", "opne fridge 1")
#: What is said, in this order, and how the answer to it begins.
SAID = (
    ("Think: Now pick up the juice.", "No juice has been seen. Not searched yet: "),
    ("Act: pick up juice 1", "'pick up juice 1' is not done: no juice has been seen."),
    ("Act: go to kitchen 1", "You move to the kitchen 1. Looking quickly around the room, you see "),
    ("Act: open fridge 1", "'open fridge 1' is not done: fridge 1 is not near you; first go to fridge 1."),
    ("Act: go to fridge 1", "You arrive at the fridge 1."),
    ("Act: close fridge 1", "'close fridge 1' is not done: fridge 1 is closed; first open fridge 1."),
    ("Act: put down fridge 1", "'put down fridge 1' is not done: you do not hold fridge 1; first pick up fridge 1."),
    *(
        (f"Act: {slip}", f"'{slip}' is not among the skills that are available now. The nearest that are:")
        for slip in SLIPS
    ),
)


@pytest.mark.parametrize("thoughts", [0, 1])
def test_a_run_says_what_is_missing_and_what_is_known_and_replays(thoughts: int) -> None:
    task, *_ = generate_house(seed=800_000, rooms=3)
    model = ScriptedModel({"Bring the juice": [*(said for said, _ in SAID), "Act: failure"]})
    options = TreeOptions(thoughts_in_a_row=thoughts, refused_in_a_row=0, refused_share=1.0)
    episode, kept = recorded_episode(
        {}, name="react_wm", model=model, world=SymbolicWorld(parse_tasks([task])[0]), options=options,
        instruction="Bring the juice",
    )  # fmt: skip
    episode.run()
    turns = episode.context.nodes[0].turns
    answers = [after.text for said, after in itertools.pairwise(turns) if isinstance(said, Said)]
    told = [(request.turns[-1].text, "What can be done:" in request.prompt) for request in model.requests]
    as_declared = [answer.startswith(begin) for (_, begin), answer in zip(SAID, answers, strict=False)]
    assert_replays(kept)
    if thoughts:
        assert all(as_declared), [one for one, right in zip(answers, as_declared, strict=False) if not right]
        assert all(line.startswith("You are ") and rules for line, rules in told)
        assert told[5][0].startswith("You are at fridge 1 in kitchen 1. You hold nothing. No juice has been seen. Not ")
        assert not [turn for turn in turns if turn.text in dict(told)]
        assert "open fridge 1" not in model.requests[3].may_say.skills
    else:
        assert not any("is not done" in answer or "seen" in answer for answer in answers)
        assert not any(line.startswith("You are at") or rules for line, rules in told)
        assert "open fridge 1" in model.requests[3].may_say.skills
