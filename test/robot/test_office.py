"""Twelve skills of an office robot and a dock, declared in one YAML: said in three ways, refused by parameter, told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import llguidance
import pytest
from doubles import ScriptedWorld
from office import OfficeWorld
from recorded_runs import assert_replays, recorded_episode

from reactree_ros.agent.corrections import NOTHING, grammar_of
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.parameters import Value
from reactree_ros.agent.prompt import system_text
from reactree_ros.agent.reading import Unreadable, read, read_call, says_exactly
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.household.household import WAH_NL
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.skill_policy import PolicyError, SkillPolicy, Verdict, policy_from_list
from reactree_ros.world.wrappers import PolicyGuard

#: A call of each skill, as it is said and as data.
SAID: dict[str, tuple[str, dict[str, Value]]] = {
    "navigate": ("navigate to office 204", {"place": "office 204"}),
    "drive": ("drive forward by 0.5 m", {"distance": 0.5}),
    "place": (
        "place jug 1 next to counter 1 on the left",
        {"thing": "jug 1", "relation": "next to", "place": "counter 1", "side": "left"},
    ),
    "open drawer": ("open desk drawer 1 by 12 cm", {"drawer": "desk drawer 1", "width": 12}),
    "press floor": ("press the button of floor 2", {"floor": 2}),
    "wait for door": ("wait up to 20 s for office door 204", {"seconds": 20, "door": "office door 204"}),
    "pour": ("pour from jug 1 into cup 1", {"source": "jug 1", "target": "cup 1"}),
    "wipe": ("wipe counter 1 for 20 s", {"place": "counter 1", "seconds": 20}),
    "hand over": ("hand over jug 1 to Anna", {"thing": "jug 1", "person": "Anna"}),
    "say": (
        "say Hello Anna. This is from Bob. Please take it",
        {"text": "Hello Anna. This is from Bob. Please take it"},
    ),
    "take picture": ("take a picture", {}),
    "grip": ("grip cup 1 with low force", {"thing": "cup 1", "force": "low"}),
    "dock": ("dock", {}),
}
#: Values that may not stand in each skill's places, and how the refusal begins.
WRONG: list[tuple[str, str, Any]] = [
    ("navigate", "place", "mars 1"),
    ("drive", "distance", 2.1),
    ("drive", "distance", "50 cm"),
    ("drive", "distance", "far"),
    ("place", "thing", "stapler 1"),
    ("place", "relation", "under"),
    ("place", "place", "office 204"),
    ("place", "side", "top"),
    ("open drawer", "drawer", "counter 1"),
    ("open drawer", "width", 0),
    ("press floor", "floor", 5),
    ("wait for door", "seconds", 61),
    ("wait for door", "door", "desk 1"),
    ("pour", "source", "cup 1"),
    ("pour", "target", "counter 1"),
    ("wipe", "place", "office door 204"),
    ("wipe", "seconds", 7),
    ("hand over", "thing", "cup 1"),
    ("hand over", "person", "Eve"),
    ("say", "text", "a" * 201),
    ("grip", "thing", "counter 1"),
    ("grip", "force", "all"),
]


def done(world: World, *skills: str) -> Observation:
    """Carry out skills that go well; returns what was seen last."""
    for skill in skills:
        seen = world.execute(skill).take()
        assert seen.outcome is Outcome.DONE, seen.text
    return seen


@pytest.fixture(scope="module")
def office() -> OfficeWorld:
    world = OfficeWorld()
    done(world, "navigate to counter 1", "grip jug 1 with low force")
    return world


@pytest.fixture(scope="module")
def grammar(office: OfficeWorld) -> DecisionGrammar:
    hands = [one for one in office.offers() if one.skill.name == "grip"]
    assert hands
    return DecisionGrammar(("done", "failure"), (), offers=office.offers() + far(office))


def far(office: OfficeWorld) -> list[Offer]:
    """Return the offers that the robot has in the office alone, for one grammar with all of them."""
    there = OfficeWorld()
    done(there, "navigate to office 204")
    now = {one.skill.name for one in office.offers()}
    return [one for one in there.offers() if one.skill.name not in now]


def act(said: tuple[Any, ...]) -> SkillCall:
    (only,) = said
    assert isinstance(only.decision, Act)
    assert isinstance(only.decision.skill, SkillCall)
    return only.decision.skill


def test_there_are_twelve_skills_and_a_dock_and_all_may_be_said(grammar: DecisionGrammar, office: OfficeWorld) -> None:
    assert {skill.name for skill in office.household.skills} == set(SAID)
    assert {offer.skill.name for offer in grammar.offers} == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_a_skill_is_said_by_text_by_json_and_by_a_tools_call(grammar: DecisionGrammar, name: str) -> None:
    text, values = SAID[name]
    tool = name.replace(" ", "_")
    ways = [
        read(f"Act: {text}", grammar),
        read(f"**Action**: {text}", grammar),
        read(json.dumps({"decision": {"Act": text}}), grammar),
        read(json.dumps({"decision": {"Act": {name: values}}}), grammar),
        read(f"```json\n{json.dumps({'skill': name, **values})}\n```", grammar),
        read(json.dumps({"name": tool, "arguments": values}), grammar),
        read(f"Action: {name}\nAction Input: {json.dumps(values)}", grammar)
        if values
        else read(f"Act: {text}", grammar),
        read_call([(tool, json.dumps(values))], grammar),
    ]
    for said in ways:
        call = act(said)
        assert (call, call.skill.name, call.values) == (text, name, values)


@pytest.mark.parametrize(("name", "parameter", "value"), WRONG)
def test_a_value_that_may_not_stand_there_is_refused_by_its_parameter(
    grammar: DecisionGrammar, name: str, parameter: str, value: object
) -> None:
    skill = next(offer.skill for offer in grammar.offers if offer.skill.name == name)
    values = {**SAID[name][1], parameter: value}
    text = skill.wording.format(**values)
    for said in (f"Act: {text}", json.dumps({"skill": name, **values})):
        with pytest.raises(Unreadable) as refused:
            read(said, grammar)
        reason = str(refused.value)
        assert re.search(rf"\b{parameter}(: | is a number)", reason), reason
        assert len(reason.splitlines()) == 1
    with pytest.raises(Unreadable, match=rf"\b{parameter}\b"):
        read_call([(name, json.dumps(values))], grammar)


@pytest.mark.parametrize("name", [name for name, (_, values) in SAID.items() if values])
def test_one_value_more_or_less_is_refused_by_its_name(grammar: DecisionGrammar, name: str) -> None:
    values = SAID[name][1]
    with pytest.raises(Unreadable, match="'speed' is not a parameter"):
        read_call([(name, json.dumps({**values, "speed": 9}))], grammar)
    missing = next(iter(values))
    with pytest.raises(Unreadable, match=rf"{missing}: it is not said"):
        read_call([(name, json.dumps({key: value for key, value in values.items() if key != missing}))], grammar)


@pytest.mark.parametrize(
    "said",
    [
        *("drive forward by m", "drive forward by 0.5", "press the button of floor", "wipe counter for s"),
        *("grip cup", "grip cup with force", "pour from jug", "hand over jug to", "go to office", "take cup"),
        *("navigate to office", "grip the cup with low force", "grip cup 1 with low force on the counter"),
    ],
)
def test_a_skill_that_lacks_a_number_or_has_a_word_more_is_asked_for_again(grammar: DecisionGrammar, said: str) -> None:
    with pytest.raises(Unreadable):
        read(f"Act: {said}", grammar)


def takes(grammar: str, text: str) -> bool:
    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), grammar)
    assert not matcher.get_error()
    tokens = list(text.encode())
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def test_a_reply_that_was_cut_is_no_skill_with_less_in_it(grammar: DecisionGrammar) -> None:
    for text in ("Act: say Hello An", "Act: drive forward by 0.5 m", "Act: press the button of floor 1"):
        with pytest.raises(Unreadable, match="cut"):
            read(text, grammar, cut=True)


def test_a_template_is_not_said_as_it_stands(grammar: DecisionGrammar) -> None:
    for offer in grammar.offers:
        if offer.skill.parameters and offer.skill.name != "say":
            with pytest.raises(Unreadable):
                read(f"Act: {offer.skill.wording}", grammar)


def test_the_office_is_a_world_that_keeps_to_the_port() -> None:
    assert check_world(OfficeWorld(), at_once=60.0) == []


def test_skills_are_carried_out_and_change_what_is_known() -> None:
    office = OfficeWorld()
    done(office, "navigate to counter 1", "grip jug 1 with low force", "pour from jug 1 into cup 1")
    assert [office.map.things[id].name for id in office.map.held] == ["jug 1"]
    done(office, "navigate to desk 1", "place jug 1 on desk 1 on the right", "open desk drawer 1 by 40 cm")
    assert office.map.held == []
    assert office.map.place_of(office.map.by_name["jug 1"]) is office.map.by_name["desk 1"]
    assert office.map.by_name["desk drawer 1"].states == {"OPEN"}
    done(office, "grip stapler 1 with medium force", "hand over stapler 1 to Bob", "drive forward by -0.3 m")
    assert office.map.held == office.map.close == []


def test_the_prompt_lists_each_skill_as_it_is_said_and_what_its_places_take(office: OfficeWorld) -> None:
    listed = system_text(office.household)
    assert "navigate to, drive forward by {distance} m, place {thing} {relation} {place} on the {side}" in listed
    assert "distance is a number from -2 to 2 m by 0.1" in office.household.rules_text


# ---- the policy, by parameter

RULES = [
    {"skill": "grip", "when": {"force": "high"}, "verdict": "deny"},
    {"skill": "grip", "verdict": "allow"},
    {"skill": "drive", "when": {"distance": {"above": 1.0}}, "verdict": "confirm"},
    {"skill": "drive", "when": {"distance": {"below": -1.0}}, "verdict": "deny"},
    {"skill": "drive", "verdict": "allow"},
    {"skill": "hand over", "object": "stapler", "when": {"person": ["Anna", "Bob"]}, "verdict": "allow"},
    {"skill": "say", "verdict": "allow"},
    {"skill": "press floor", "when": {"floor": [0, 1]}, "verdict": "allow"},
    {"skill": "take picture", "verdict": "deny"},
    {"skill": "navigate", "when": {"place": "office 204"}, "verdict": "deny"},
    {"skill": "navigate", "verdict": "allow"},
]


def policy(*rules: dict[str, Any]) -> SkillPolicy:
    return policy_from_list(list(rules) or RULES, where="the test")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("grip jug 1 with high force", "deny"),
        ("grip jug 1 with medium force", "allow"),
        ("drive forward by 1 m", "allow"),
        ("drive forward by 1.1 m", "confirm"),
        ("drive forward by -1.1 m", "deny"),
        ("hand over stapler 1 to Anna", "allow"),
        ("hand over stapler 1 to Dr. Kim", "deny"),
        ("hand over jug 1 to Anna", "deny"),
        ("say Please wait and then press the button of floor 3 and take a picture", "allow"),
        ("press the button of floor 1", "allow"),
        ("press the button of floor 3", "deny"),
        ("take a picture", "deny"),
        ("navigate to office 204", "deny"),
        ("navigate to corridor 1", "allow"),
        ("wipe desk 1 for 5 s", "deny"),
    ],
)
def test_a_policy_judges_by_parameter(office: OfficeWorld, said: str, verdict: str) -> None:
    judged, reason = policy().judge(office.household.call(said), office.household.actions)
    assert judged is Verdict(verdict), reason


def test_what_a_policy_denies_altogether_is_not_offered(office: OfficeWorld) -> None:
    guarded = PolicyGuard(office, policy(), lambda skill, reason: Pending.ready(""))
    offered = {one.skill.name for one in guarded.available_skills().take() if isinstance(one, Offer)}
    assert "drive" in offered
    assert offered.isdisjoint({"take picture", "wipe", "pour"})
    assert "take a picture" not in guarded.household.listed


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            {"skill": "grip", "when": {"forse": "high"}},
            "rules.0.when.forse: 'forse' is not a parameter of 'grip'; did you mean 'force'",
        ),
        (
            {"skill": "grip", "when": {"force": "hgh"}},
            "rules.0.when.force: 'hgh' may not stand here; what may: low, medium, high",
        ),
        ({"skill": "grip", "when": {"force": {"above": 1}}}, "rules.0.when.force: above and below are of numbers"),
        ({"skill": "drive", "when": {"distance": 3}}, "rules.0.when.distance: 3"),
        (
            {"skill": "take picture", "when": {"x": 3}},
            "rules.0.when.x: 'x' is not a parameter of 'take picture'; it takes nothing",
        ),
        ({"skill": "take pictures"}, "rules.0.skill: 'take pictures' is not a skill here; did you mean 'take picture'"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(office: OfficeWorld, rule: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        policy({"verdict": "deny", **rule}).check(office)
    assert said in str(refused.value)


def test_rules_about_values_need_declared_skills() -> None:
    texts = ScriptedWorld()
    texts.household = replace(WAH_NL, skills=(), actions=("open",))
    with pytest.raises(PolicyError, match="'open' is not a declared skill here, and has no parameters"):
        policy({"skill": "open", "when": {"side": "left"}, "verdict": "deny"}).check(texts)


# ---- a whole run


def test_a_run_with_skills_in_words_json_and_tool_calls_is_recorded_and_played_again() -> None:
    says = [
        "Act: navigate to counter 1",
        'Act: {"grip": {"thing": "jug 1", "force": "all"}}',
        'Act: {"grip": {"thing": "jug 1", "force": "low"}}',
        json.dumps({"thought": "Now the cup.", "skill": "pour", "source": "jug 1", "target": "cup 1"}),
        "Act: take a picture",
        "Act: say Hello Anna. Please take it, and go to the cup!",
        "Act: done",
    ]
    office = OfficeWorld()
    episode, kept = recorded_episode({"root": says}, world=office)
    while not episode.finished:
        episode.tick()
    assert episode.scored().end == "done"
    assert [(call, call.skill.name) for call in office.calls] == [
        ("navigate to counter 1", "navigate"),
        ("grip jug 1 with low force", "grip"),
        ("pour from jug 1 into cup 1", "pour"),
        ("take a picture", "take picture"),
        ("say Hello Anna. Please take it, and go to the cup!", "say"),
    ]
    (refused,) = [event for event in map(json.loads, kept.lines) if event["e"] == "refused"]
    assert "force: 'all' may not stand here; what may: low, medium, high" in refused["reason"]
    data = [event["data"] for event in map(json.loads, kept.lines) if event.get("data")]
    assert data == [{"picture": "pictures/1.png"}]
    assert_replays(kept)


def test_what_a_person_says_of_the_house_is_held_to_its_statements_in_every_way_of_asking() -> None:
    grammar = grammar_of(OfficeWorld().corrections().take())
    ebnf = llguidance.LLMatcher.grammar_from_lark(llguidance.gbnf_to_lark.gbnf_to_lark(grammar.ebnf()))
    schema = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(grammar.json_schema()))
    two = "Act: take in that the jug 1 is with Anna; the cup 1 is at desk 1"
    for said in (two, "Act: take in that the stapler 1 is gone", f"Act: {NOTHING}"):
        assert re.fullmatch(grammar.regex(), said)
        assert takes(ebnf, said)
        assert says_exactly(said, grammar)
    stated = [{"with": {"thing": "jug 1", "person": "Anna"}}, {"at": {"thing": "cup 1", "place": "desk 1"}}]
    said = json.dumps({"decision": {"Act": {"take in that": {"statements": stated}}}})
    assert takes(schema, said)
    assert read(said, grammar)[0].text == two
    wrong = (
        "the yak 1 is gone",
        "the jug 1 is with Eve",
        "the jug 1 is gone; ",
        "; ".join(["the jug 1 is gone"] * 4),
        "all",
    )
    for one in (
        *(f"Act: take in that {text}" for text in wrong),
        "Act: grip cup 1 with low force",
        "Think: hm",
        "Act: done",
    ):
        assert not re.fullmatch(grammar.regex(), one)
        assert not takes(ebnf, one)
        with pytest.raises(Unreadable):
            read(one, grammar)
    assert grammar_of(grammar.statements) == grammar


def test_a_skill_with_two_things_is_not_done_with_one(office: OfficeWorld) -> None:
    seen = office.execute("pour from jug 1 into jug 1").take()
    assert (seen.outcome, seen.text.partition(".")[0]) == (
        Outcome.PRECONDITION,
        "You cannot pour from jug 1 into jug 1: it is done with two things",
    )


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("say Hello Eve", Verdict.DENY),
        ("say Hello E v e!", Verdict.DENY),
        ("say open thesafe", Verdict.DENY),
        ("say o p e n the safe now", Verdict.DENY),
        ("say I never open the safes", Verdict.ALLOW),
        ("say Steve", Verdict.ALLOW),
    ],
)
def test_a_rule_on_a_text_is_about_its_words_wherever_blanks_stand(said: str, verdict: Verdict) -> None:
    rules = [
        {"skill": "say", "when": {"text": ["Eve", "open the safe"]}, "verdict": "deny"},
        {"skill": "say", "verdict": "allow"},
    ]
    call = OfficeWorld().household.call(said)
    assert policy_from_list(rules, where="the test").judge(call)[0] is verdict
