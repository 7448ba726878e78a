"""Values of the two ports as messages: they come back whole, and a message that makes no sense is a ValueError."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from office import OfficeWorld
from rcl_interfaces.msg import Parameter, ParameterValue
from rclpy.serialization import deserialize_message, serialize_message
from reactree_interfaces import msg as ros
from reactree_interfaces.srv import DescribeHousehold, Generate
from robot.delivery import delivery_robot

from reactree_ros.agent.corrections import grammar_of
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import YES, Glance
from reactree_ros.agent.skill import Offer
from reactree_ros.agent.turns import About, Told
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.nodes.messages import (
    arguments_from,
    household_from_msg,
    household_to_msg,
    named_values,
    observation_from_msg,
    observation_to_msg,
    request_from_msg,
    request_to_msg,
    values_from,
)

#: What skills have returned: a value of every kind, and one that may come yet.
GIVEN = {
    **{"code": "A7", "level": 57, "weight": 1.5, "done": True, "photo": None, "names": ["a", "b"]},
    "spot": {"x": 1.0, "y": 0.5, "yaw": 90.0},
}
DRIVE = {
    "name": "drive",
    "wording": "drive by {distance} m",
    "parameters": [ros.SkillParameter(name="distance", kind="number", bounds=[-2.0, 2.0, 0.5], units=["m"])],
}


def sent(msg: Any) -> Any:
    return deserialize_message(serialize_message(msg), type(msg))


def request_of(world: OfficeWorld) -> DecisionRequest:
    offers = tuple(replace(offer, given=GIVEN) for offer in world.offers())
    grammar = DecisionGrammar(("done", "failure"), (), offers=offers, longest_thought=300)
    return DecisionRequest((Told("Your task is to: tidy up", About.TASK),), grammar, id="1", words=("cup", "desk"))


def offering(**changed: Any) -> Generate.Request:
    """A request that offers a skill which is declared in it."""
    declared = [ros.Skill(**DRIVE | changed.pop("skill", {}))]
    asked = {"max_tokens": 8, "offers": [ros.Offer(skill="drive")], "declared": declared}
    return Generate.Request(**asked | changed)


@pytest.fixture(params=["office", "delivery"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> OfficeWorld:
    return OfficeWorld() if request.param == "office" else OfficeWorld(delivery_robot(tmp_path))


# ---------------------------------------------------------------------- what comes back


def test_a_request_comes_back_with_every_offer_and_what_was_returned(world: OfficeWorld) -> None:
    request = request_of(world)
    msg = sent(request_to_msg(request))
    assert request_from_msg(msg) == request
    assert sorted(one.name for one in msg.declared) == sorted(offer.skill.name for offer in world.offers())


def test_a_skill_of_several_offers_is_declared_once(world: OfficeWorld) -> None:
    offer = world.offers()[0]
    request = request_of(world)
    request = replace(request, may_say=replace(request.may_say, offers=(offer, Offer(offer.skill))))
    msg = sent(request_to_msg(request))
    assert ([one.name for one in msg.declared], len(msg.offers)) == ([offer.skill.name], 2)
    assert request_from_msg(msg).may_say == request.may_say


def test_a_household_comes_back_with_every_part_of_its_skills(world: OfficeWorld) -> None:
    household = household_from_msg(sent(household_to_msg(world.household, [], DescribeHousehold.Response())))
    assert (household, household.skills) == (world.household, world.household.skills)
    assert {skill.name: skill.purpose for skill in household.skills} == {
        skill.name: skill.purpose for skill in world.household.skills
    }


def test_statements_of_the_house_come_back_as_the_grammar_of_a_correction() -> None:
    grammar = grammar_of(OfficeWorld().corrections().take())
    request = DecisionRequest((Told("A person speaks", About.TASK),), grammar, id="1")
    assert request_from_msg(sent(request_to_msg(request))) == request


def test_an_observation_comes_back_with_data_conditions_and_glances() -> None:
    glance = Glance("Is it?", YES, "abc", (0.1, 0.2, 0.3, 0.4), answered_by="eyes", prompt_tokens=3, seconds=0.5)
    conditions = {"the printer has paper": True, "people are near": False}
    seen = Observation("You see.", data=GIVEN, conditions=conditions, glances=(glance, Glance("Is it?", error="gone")))
    assert observation_from_msg(sent(observation_to_msg(seen, Time(sec=7)))) == seen


@pytest.mark.parametrize(
    ("values", "back"),
    [
        ({"llm": "fallback", "models": [{"llm": "a", "options": {"seed": 1}}, {"llm": "b"}]}, None),
        ({"few": [1, "a", None], "none": [], "numbers": [1.5, 2.0]}, None),
        ({"whole": 2**70, "endless": -(10**400)}, {"whole": float(2**70), "endless": float("-inf")}),
        ({"half": "a \ud83d", "empty": {}, "text": "two\nlines"}, {"half": "a ?", "text": "two\nlines"}),
    ],
)
def test_values_of_any_kind_have_names_with_dots(values: dict[str, Any], back: dict[str, Any] | None) -> None:
    assert values_from([sent(one) for one in named_values(values)]) == (values if back is None else back)


# ---------------------------------------------------------------------- what makes no sense


def offers(*places: str, skill: str = "drive") -> dict[str, Any]:
    return {"offers": [ros.Offer(skill=skill, places=[ros.Argument(name=name) for name in places])]}


def given(*names: str, kind: int = 0) -> dict[str, Any]:
    return {"given": [Parameter(name=name, value=ParameterValue(type=kind)) for name in names]}


def with_skill(**changed: Any) -> dict[str, Any]:
    return {"skill": changed}


def with_parameter(kind: str, *bounds: float, **more: Any) -> dict[str, Any]:
    return with_skill(parameters=[ros.SkillParameter(name="distance", kind=kind, bounds=list(bounds), **more)])


def needing(fact: str, *about: str, **more: Any) -> dict[str, Any]:
    return with_skill(needs=[ros.SkillNeed(fact=fact, about=list(about), **more)])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (offers(skill="drve"), "offers: no skill 'drve' is declared; did you mean 'drive'?"),
        (offers("distanc"), "'distanc' is not a place of 'drive by {distance} m'; did you mean 'distance'?"),
        (offers("distance", "distance"), "places name one twice: distance, distance"),
        ({"declared": [ros.Skill(**DRIVE)] * 2}, "skills name one twice: drive, drive"),
        ({"kind": Generate.Request.CORRECTION, "offers": []}, "offers is empty; a correction needs at least one"),
        (given("a", kind=77), "'a' is of type 77; give a boolean, numbers or texts"),
        (given("a", "a"), "values name one twice: a, a"),
        (given("a", "a.b"), "'a.b' is named twice, or"),
        (given("a.b", "a"), "'a' is named twice, or"),
        (given("a.b." * 99), "nested more than 16 deep"),
        (with_skill(name=""), "offers: no skill 'drive' is declared"),
        (with_skill(wording="{distance}"), "skill 'drive': wording: '{distance}' has to begin with a word"),
        (with_skill(wording="drive"), "has to name each of its parameters once"),
        (with_skill(parameters=DRIVE["parameters"] * 2), "parameters: one of distance, distance is named twice"),
        (with_skill(effects=[ros.SkillEffect(name="eaten")]), "effect: 'eaten' is not an effect"),
        (with_skill(returns=[ros.SkillParameter(name="a.b", kind="thing")]), "returns: 'a.b' has a dot"),
        (with_parameter("numbr"), "parameters.distance: 'numbr' is not a kind of parameter; name one of thing, place"),
        (with_parameter("number", 1.0), "1 bounds and 0 units do not fit; give 3 and 1: least, greatest, step"),
        (with_parameter("pose"), "0 bounds and 0 units do not fit; give 9 and 3"),
        (with_parameter("number", 2.0, 1.0, 0.1, units=[""]), "are not numbers; write the least first"),
        (with_parameter("text"), "a text of at most 0 characters says nothing"),
        (with_parameter("choice"), "is not a choice: name options"),
        (with_parameter("boolean", options=["on", "off", "no"]), "are not two words"),
        (with_parameter("choice", options=["slow", "fast"], usual="high"), "'high' may not stand here"),
        (needing("held"), "needs: about is empty; name what 'held' has to hold of"),
        (needing("heled", "mug"), "'heled' is nothing that can be needed; did you mean"),
        (needing("number", "distance", is_so=False, at_most=1.0), "needs: that of a number has one parameter"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_what_is_wrong(changed: dict[str, Any], says: str) -> None:
    assert request_from_msg(sent(offering())).may_say.offers[0].skill.name == "drive"
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        request_from_msg(sent(offering(**changed)))
    assert len(str(refused.value).splitlines()) == 1


def test_an_argument_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="arguments name one twice: thing, thing"):
        arguments_from([ros.Argument(name="thing", values=["a"]), ros.Argument(name="thing", values=["b"])])


ODD: dict[type, list[Any]] = {
    str: ["", "drive", "thing", "number", "list", "default", "a.b.c", "{x}", "x\ny", "{" * 99, "9" * 5000],
    float: [float("nan"), float("inf"), -1.0, 0.0, 1e308],
    int: [0, 1, 4, 9, 100],
    bool: [True, False],
}


def parts(msg: Any) -> Iterator[tuple[Any, str]]:
    for name in msg.get_fields_and_field_types():
        value = getattr(msg, name)
        yield msg, name
        for part in value if isinstance(value, list) else [value]:
            if hasattr(part, "get_fields_and_field_types"):
                yield from parts(part)


def changed_somewhere(msg: Any, chance: random.Random) -> Any:
    """Change one field or more, each to another value of its type."""
    for _ in range(chance.choice((1, 1, 2, 8))):
        of, name = chance.choice(list(parts(msg)))
        value = getattr(of, name)
        if type(value) in ODD:
            setattr(of, name, chance.choice(ODD[type(value)]))
        elif hasattr(value, "__len__"):
            each = list(value)
            setattr(of, name, chance.choice((each[1:], each * 2, [], each[::-1])))
    return msg


MADE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "request": (lambda: request_to_msg(request_of(OfficeWorld())), request_from_msg),
    "household": (
        lambda: household_to_msg(OfficeWorld().household, [], DescribeHousehold.Response()),
        household_from_msg,
    ),
    "observation": (lambda: observation_to_msg(Observation("a", data=GIVEN), Time()), observation_from_msg),
}


@pytest.mark.parametrize("name", MADE)
def test_a_message_changed_anywhere_is_read_or_refused_in_one_line(name: str) -> None:
    made, read = MADE[name]
    good, kind = serialize_message(made()), type(made())
    refusals: list[str] = []
    for seed in range(300):
        msg = changed_somewhere(deserialize_message(good, kind), random.Random(seed))
        try:
            read(msg)
        except ValueError as error:
            refusals.append(str(error))
    assert refusals
    assert [said for said in refusals if len(said.splitlines()) != 1] == []
