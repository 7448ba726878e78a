"""The skill policy as a file: what is refused when it is loaded, and when it is checked against a world."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactree_ros.household.household import WAH_NL
from reactree_ros.household.vocabulary import WORDS
from reactree_ros.robot.config import load_robot
from reactree_ros.world.skill_policy import PolicyError, SkillPolicy, Verdict, load_policy, policy_from_list

CONFIG = Path(__file__).parents[2] / "config"
SHIPPED = CONFIG / "skill_policy.yaml"


def loaded(folder: Path, rules: str) -> SkillPolicy:
    file = folder / "policy.yaml"
    file.write_text(f"rules: [{rules}]")
    return load_policy(file)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("{skill: fly to, verdict: allow}", "rules.0.skill: 'fly to' is no skill here; use one of go to, pick up, put"),
        ("{skill: pickup, verdict: allow}", "rules.0.skill: 'pickup' is no skill here; did you mean 'pick up'? There"),
        (
            "{skill: open, verdict: allow}, {skill: turn on, object: Stove, verdict: deny}",
            "rules.1.object: 'Stove' is nothing here; did you mean 'stove'?",
        ),
        (
            "{skill: pick up, object: cutlery knive, verdict: deny}",
            "rules.0.object: 'cutlery knive' is nothing here; did you mean 'cutlery knife'?",
        ),
        ("{skill: open, object: zzz, verdict: deny}", "rules.0.object: 'zzz' is nothing here; its words are such as '"),
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
        policy.check(WAH_NL.actions, WORDS)
    assert str(error.value).startswith(f"{tmp_path / 'policy.yaml'}: {said}")


def test_the_objects_of_a_world_that_does_not_say_its_words_are_not_looked_at(tmp_path: Path) -> None:
    loaded(tmp_path, "{skill: open, object: sesame, verdict: allow}").check(WAH_NL.actions, ())


def test_the_shipped_policy_fits_the_households_and_the_shipped_robot() -> None:
    policy = load_policy(SHIPPED)
    policy.check(WAH_NL.actions, WORDS)
    policy.check(tuple(load_robot(CONFIG / "robot.yaml").skills), WORDS)
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
