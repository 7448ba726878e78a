"""The skill policy as a file: what is refused when it is loaded, and when it is checked against a world."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedWorld

from reactree_ros.agent.parameters import Named, Person, Room
from reactree_ros.agent.skill import Skill, skill_of, wait_skill
from reactree_ros.background.pending import Pending
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.vocabulary import WORDS
from reactree_ros.robot.config import load_robot
from reactree_ros.world.port import Outcome
from reactree_ros.world.skill_policy import PolicyError, Rule, SkillPolicy, Verdict, load_policy, policy_from_list
from reactree_ros.world.wrappers import PolicyGuard

CONFIG = Path(__file__).parents[2] / "config"
SHIPPED = CONFIG / "skill_policy.yaml"


class House(ScriptedWorld):
    def __init__(self, words: Sequence[str] = WORDS, skills: tuple[Skill, ...] = WAH_NL.skills) -> None:
        super().__init__()
        self.words, self.household = words, replace(WAH_NL, skills=skills, actions=())


def loaded(folder: Path, rules: str) -> SkillPolicy:
    file = folder / "policy.yaml"
    file.write_text(f"rules: [{rules}]")
    return load_policy(file)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            "{skill: fly to, verdict: allow}",
            "rules.0.skill: 'fly to' is not a skill here; use one of go to, pick up, put",
        ),
        (
            "{skill: pickup, verdict: allow}",
            "rules.0.skill: 'pickup' is not a skill here; did you mean 'pick up'? There",
        ),
        (
            "{skill: open, verdict: allow}, {skill: turn on, object: Stove, verdict: deny}",
            "rules.1.object: 'Stove' is nothing here; did you mean 'stove'?",
        ),
        (
            "{skill: pick up, object: cutlery knive, verdict: deny}",
            "rules.0.object: 'cutlery knive' is nothing here; did you mean 'cutlery knife'?",
        ),
        ("{skill: open, object: zzz, verdict: deny}", "rules.0.object: 'zzz' is nothing here; there are such as "),
        (
            "{skill: turn on, verdict: allow}, {skill: turn on, object: stove, verdict: deny}",
            "rules.1 never decides, because rules.0 does before it; put it first",
        ),
        (
            "{skill: open, verdict: deny}, {skill: close, verdict: deny}, {skill: open, verdict: allow}",
            "rules.2 never decides, because rules.0 does before it; put it first",
        ),
    ],
)
def test_a_rule_that_never_decides_is_refused_with_what_may_have_been_meant(
    tmp_path: Path, rules: str, said: str
) -> None:
    policy = loaded(tmp_path, rules)
    with pytest.raises(PolicyError) as error:
        policy.check(House())
    assert str(error.value).startswith(f"{tmp_path / 'policy.yaml'}: {said}")


NAVIGATE = skill_of({"name": "navigate", "wording": "navigate to {place}", "parameters": {"place": "place"}})


class Hall(House):
    """A hall of which conditions say whether people are near, by name and wording, to robots that wait for them."""

    def __init__(self, near: bool | None) -> None:
        super().__init__((), (NAVIGATE, wait_skill(["people are near"])))
        self.conditions = {"people": near, "people are near": near}


@pytest.mark.parametrize("skill", ["navigate to desk 1", "hover"])
@pytest.mark.parametrize("called", ["people", "people are near", ["people", "people are near"]])
@pytest.mark.parametrize(
    ("first", "near", "verdict"),
    [
        ("allow", True, "allow"),
        ("allow", False, "deny"),
        ("allow", None, "deny"),
        ("deny", True, "deny"),
        ("deny", False, "allow"),
        ("deny", None, "deny"),
        ("confirm", None, "confirm"),
        ("confirm", False, "allow"),
    ],
)
def test_a_condition_that_nobody_knows_forbids_and_does_not_allow(
    skill: str, called: Any, first: str, near: bool | None, verdict: str
) -> None:
    verb, hall = skill.split()[0], Hall(near)
    rules = [{"skill": verb, "when": {"condition": called}, "verdict": first}]
    rules.append({"skill": verb, "verdict": "deny" if first == "allow" else "allow"})
    policy = policy_from_list(rules, where="p")
    call = hall.household.call(skill) if verb == "navigate" else skill
    assert policy.judge(call, (), hall.conditions)[0] is Verdict(verdict)
    if verb == "navigate":
        policy.check(hall)  # either rule may decide


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("{skill: navigate, when: {condition: peopel}, verdict: deny}", "'peopel' is none of the conditions; did you"),
        (
            "{skill: navigate, when: {condition: people}, verdict: deny}, "
            "{skill: navigate, when: {condition: people}, verdict: allow}",
            "rules.1 never decides, because rules.0 does before it",
        ),
        ("{skill: wait until, when: {condition: people}, verdict: deny}", "condition: 'people' may not stand here"),
    ],
)
def test_a_condition_that_cannot_decide_is_refused(tmp_path: Path, rules: str, said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        loaded(tmp_path, rules).check(Hall(None))
    assert said in str(refused.value)
    with pytest.raises(PolicyError, match="none of the conditions; there are none"):
        loaded(tmp_path, "{skill: open, when: {condition: people}, verdict: deny}").check(House())


def test_a_rule_says_which_condition_it_went_by() -> None:
    rules = [{"skill": "navigate", "when": {"condition": "people", "place": "desk 1"}, "verdict": "deny"}]
    call = Hall(None).household.call("navigate to desk 1")
    judged = policy_from_list(rules, where="p").judge(call, (), {"people": None})
    assert judged == (
        Verdict.DENY,
        "the skill policy says deny for 'navigate to desk 1' (place: desk 1, people: unknown)",
    )


def test_a_condition_that_begins_to_hold_while_a_person_is_asked_still_forbids() -> None:
    hall, asked = Hall(False), Pending[str]()
    rules = [{"skill": "navigate", "when": {"condition": "people"}, "verdict": "deny"}]
    policy = policy_from_list([*rules, {"skill": "navigate", "verdict": "confirm"}], where="p")
    seen = PolicyGuard(hall, policy, lambda skill, reason: asked).execute("navigate to desk 1")
    hall.conditions = {"people": True, "people are near": True}
    asked.succeed("")
    assert seen.take().outcome is Outcome.REFUSED_BY_POLICY
    assert hall.executed == []


def test_the_objects_of_a_world_that_does_not_say_its_words_are_not_looked_at(tmp_path: Path) -> None:
    loaded(tmp_path, "{skill: open, object: sesame, verdict: allow}").check(House(words=()))


def test_the_shipped_policy_fits_the_households_and_the_shipped_robot() -> None:
    policy = load_policy(SHIPPED)
    policy.check(House())
    policy.check(House(skills=load_robot(CONFIG / "robot.yaml").declared))
    assert policy.judge("turn on stove 1")[0] is Verdict.CONFIRM


def test_what_a_person_may_confirm_is_offered_and_what_no_rule_names_is_not() -> None:
    policy = load_policy(SHIPPED)
    assert policy.offers("turn on stove 1")
    assert not policy.offers("turn off stove 1")
    assert policy.permits("turn on")
    assert not policy.permits("turn off")


#: Skills that name several things, and one of them that is looked for.
OF_SEVERAL = (
    ("take knife 1 from countertop 1", "knife"),
    ("take knife 1 from countertop 1", "countertop"),
    ("take Butter Knife 2 from dining table 1", "butter knife"),
    ("move apple 1 to dining table 2", "dining table"),
    ("heat egg 1 with microwave 1", "microwave"),
    ("slice bread (1) with knife (12)", "knife"),
    ("put knife 1 in/on fridge 1", "fridge"),
    ("stack a b", "a"),
    ("stack a b", "b"),
    ("drop ball1 in rooma with the left hand", "left hand"),
    ("drop ball1 in rooma with the left hand", "ball"),
    ("unstack b1 from b2", "b2"),
)


@pytest.mark.parametrize(("skill", "thing"), OF_SEVERAL)
@pytest.mark.parametrize("verdict", ["deny", "confirm"])
def test_what_a_skill_names_besides_is_forbidden_too(skill: str, thing: str, verdict: str) -> None:
    verb = skill.split()[0]
    rules = policy_from_list(
        [{"skill": verb, "object": thing, "verdict": verdict}, {"skill": verb, "verdict": "allow"}], where="p"
    )
    assert rules.judge(skill)[0] is Verdict(verdict)


@pytest.mark.parametrize(
    ("skill", "thing", "fits"),
    [
        ("take apple 1 from fridge 1", "apple", True),
        ("take apple 1 from fridge 1", "fridge", False),
        ("take butter knife 1 from fridge 1", "knife", False),
        ("stack a b", "a", False),
        ("stack a b", "a b", True),
        ("take apple 1", "apple", True),
    ],
)
def test_what_is_allowed_for_one_thing_is_allowed_when_it_is_the_first(skill: str, thing: str, fits: bool) -> None:
    verb = skill.split()[0]
    rules = policy_from_list([{"skill": verb, "object": thing, "verdict": "allow"}], where="p")
    assert rules.offers(skill) is fits


@pytest.mark.parametrize(
    ("verb", "target"),
    [("take", " butter knife 1 from table 1"), ("pick up", " cutlery knife 1"), ("click", "[knife sharpener]")],
)
def test_a_name_of_several_words_is_taken_whole(verb: str, target: str) -> None:
    rules = policy_from_list(
        [{"skill": verb, "object": "knife", "verdict": "deny"}, {"skill": verb, "verdict": "allow"}], where="p"
    )
    assert rules.judge(verb + target)[0] is Verdict.ALLOW


def declared(*skills: tuple[str, dict[str, Any]]) -> tuple[Skill, ...]:
    return tuple(skill_of({"name": wording, "wording": wording, "parameters": takes}) for wording, takes in skills)


HOW = {"boolean": ["at once", "some time"], "default": False}


class Ward(House):
    def __init__(self, rooms: Sequence[str] = ("nursery", "ward 1", "ward 2"), persons: Sequence[str] = ()) -> None:
        takes = {"what": ["bed", "floor"], "room": "room", "n": {"number": {"from": 1, "to": 6}}}
        hand_over = ("hand {n} over to {person}", {"n": takes["n"], "person": "person"})
        super().__init__(
            (),
            declared(
                *(("spray {what} in {room} for {n} s", takes), hand_over, ("say {text}", {"text": "text"})),
                ("clean {rooms} up[, {how}]", {"rooms": {"list": "room", "most": 2}, "how": HOW}),
            ),
        )
        self._names = {Room: rooms, Person: persons}

    def names(self, kind: Named) -> Sequence[str] | None:
        return self._names.get(type(kind))


SPRAY, HAND, _, CLEAN = (skill.name for skill in Ward().household.skills)


@pytest.mark.parametrize(
    ("skill", "when", "said"),
    [
        (SPRAY, {"room": "nursry"}, "when.room: 'nursry' is not a room here; did you mean 'nursery'?"),
        (SPRAY, {"room": ["nursery", "ward 3"]}, "when.room: 'ward 3' is not a room here; did you mean 'ward "),
        (SPRAY, {"room": "attic"}, "when.room: 'attic' is not a room here; there are such as nursery, ward 1, ward 2"),
        (HAND, {"person": "Anna"}, "when.person: 'Anna' is not a person here; there are none"),
        (SPRAY, {"rom": "nursery"}, "when.rom: 'rom' is not a parameter of"),
        (SPRAY, {"what": "table"}, "when.what: 'table' may not stand here; what may: bed, floor"),
        (SPRAY, {"n": 7}, "when.n: 7.0 may not stand here, but a number from 1 to 6"),
        (SPRAY, {"n": {"above": 6}}, "when.n: no number is above 6"),
        (CLEAN, {"rooms": "attic"}, "when.rooms: 'attic' is not a room here"),
        (CLEAN, {"how": "later"}, "when.how: 'later' may not stand here; what may: at once, some time"),
        (SPRAY, {"n": {"above": 2, "below": 3}}, "when.n: no number is above 2 and below 3"),
    ],
)
def test_a_name_or_value_that_can_never_be_is_refused(skill: str, when: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy_from_list([{"skill": skill, "when": when, "verdict": "deny"}], where="p").check(Ward())
    assert str(error.value).startswith(f"p: rules.0.{said}")


def test_of_a_list_one_value_is_enough_to_forbid_and_all_have_to_be_allowed() -> None:
    rules = [
        {"skill": CLEAN, "when": {"rooms": "nursery"}, "verdict": "deny"},
        {"skill": CLEAN, "when": {"rooms": ["ward 1", "ward 2"], "how": False}, "verdict": "allow"},
        {"skill": CLEAN, "object": "ward", "verdict": "confirm"},
    ]
    policy, (clean,) = policy_from_list(rules, where="p"), Ward().household.skills[3:]
    policy.check(Ward())
    for said, verdict in {
        "clean ward 1 and nursery up": Verdict.DENY,
        "clean ward 1 and ward 2 up": Verdict.ALLOW,
        "clean ward 1 and ward 2 up, at once": Verdict.CONFIRM,
        "clean hall 1 and ward 2 up": Verdict.CONFIRM,
        "clean hall 1 up": Verdict.DENY,
    }.items():
        assert policy.judge(clean.read(said))[0] is verdict


def test_no_rule_is_about_one_pose() -> None:
    house = House((), declared(("come to {spot}", {"spot": "pose"})))
    for wanted in ("x 1, y 2, yaw 3", {"above": 1}):
        with pytest.raises(PolicyError, match="no rule is about one pose, and it is a pose such as"):
            policy_from_list([{"skill": "come to", "when": {"spot": wanted}, "verdict": "deny"}], where="p").check(
                house
            )


def test_a_name_may_be_a_class_and_is_not_looked_at_where_nobody_knows_the_names() -> None:
    rules = [{"skill": SPRAY, "when": {"room": "Ward"}, "verdict": "deny"}]
    policy_from_list(rules, where="p").check(Ward())
    policy_from_list([{"skill": HAND, "when": {"person": "Anne"}, "verdict": "deny"}], where="p").check(
        House((), Ward().household.skills)
    )


def test_what_a_tool_says_of_itself_may_have_nothing_left_to_decide() -> None:
    rules = [{"skill": HAND, "when": {"n": {end: 3}}, "verdict": "deny"} for end in ("above", "below")]
    rules.append({"skill": HAND, "when": {"n": 3}, "verdict": "allow"})
    policy = policy_from_list(rules, where="p").then([Rule(skill=HAND, verdict=Verdict.CONFIRM)])
    assert len(policy.rules) == 4
    policy.check(Ward(persons=("Anna",)))


def test_a_range_without_numbers_is_refused_at_once() -> None:
    with pytest.raises(PolicyError, match="no number is above 5 and below 3"):
        policy_from_list([{"skill": SPRAY, "when": {"n": {"above": 5, "below": 3}}, "verdict": "deny"}], where="p")


def drawn(pick: random.Random) -> list[dict[str, Any]]:
    """Draw rules for the ward, of which some are in the way of others."""
    values: dict[str, list[Any]] = {
        "what": ["bed", "floor", ["bed", "floor"]],
        "room": ["nursery", "ward", "ward 1", ["ward 1", "ward 2"], ["nursery", "ward"]],
        "n": [1, 6, [2, 3], {"above": 3}, {"below": 4}, {"above": 1, "below": 5}],
        "person": ["Anna", ["Anna", "Bob"]],
        "text": ["bomb", "the bomb", "hello"],
        "rooms": ["nursery", "ward", ["ward 1", "nursery"]],
        "how": [True, "some time"],
    }
    rules = []
    for _ in range(pick.randint(2, 6)):
        skill = pick.choice(Ward().household.skills)
        named = [name for name in skill.parameters if pick.random() < 0.5]
        rule = {"skill": skill.name, "when": {name: pick.choice(values[name]) for name in named}}
        of_ward = {"object": pick.choice(["nursery", "ward"])} if skill.name == SPRAY and pick.random() < 0.3 else {}
        rules.append({**rule, **of_ward, "verdict": pick.choice(["allow", "confirm", "deny"])})
    return rules


def test_a_rule_is_refused_just_if_it_decides_about_no_call() -> None:
    ward, pick = Ward(persons=("Anna", "Bob")), random.Random(55)
    texts = ["bomb", "the bomb", "hello", "x", "x bomb", "the bomb x", "hello x"]
    options = {"what": ["bed", "floor"], "room": ["nursery", "ward 1", "ward 2"], "n": range(1, 7)}
    options |= {"person": ["Anna", "Bob"], "text": texts, "how": [True, False]}
    options["rooms"] = [some for many in (1, 2) for some in itertools.combinations(options["room"], many)]
    calls = [
        skill.call(dict(zip(skill.parameters, values, strict=True)))
        for skill in ward.household.skills
        for values in itertools.product(*(options[name] for name in skill.parameters))
    ]
    refused = 0
    for _ in range(150):
        policy = policy_from_list(drawn(pick), where="p")
        fits = ([index for index, rule in enumerate(policy.rules) if rule.is_about(call)] for call in calls)
        decide = {found[0] for found in fits if found}
        never = next((index for index in range(len(policy.rules)) if index not in decide), None)
        if never is None:
            policy.check(ward)
            continue
        refused += 1
        with pytest.raises(PolicyError, match=rf"p: rules\.{never} never decides, because"):
            policy.check(ward)
    assert 40 < refused < 120
