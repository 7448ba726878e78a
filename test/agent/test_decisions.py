"""What may be said: grammar, parser and rendering agree with each other."""

from __future__ import annotations

import json
import re

import llguidance
import pytest
from doubles import takes
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.decision import Decision, MalformedDecision, split_subgoals
from reactree_ros.agent.grammar import DecisionGrammar, chosen_of_json, parse_decision
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.labels import label_of
from reactree_ros.agent.reading import read
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import Said
from reactree_ros.tree.flows import FallbackFlow, SequenceFlow

words = st.text(st.characters(codec="utf-8", exclude_characters="\n\r,;", exclude_categories=("C", "Z")), min_size=1)
phrases = st.lists(words, min_size=1, max_size=5).map(" ".join)
subgoals = phrases.filter(lambda text: not text.startswith("and ") and not text.endswith("."))
FLOWS = [flow() for flow in default_flows()]
skills = st.lists(phrases, min_size=1, max_size=30, unique=True)
decisions = st.one_of(
    st.builds(Think, phrases),
    st.builds(Act, phrases),
    st.builds(Expand, st.sampled_from(FLOWS), st.lists(subgoals, min_size=1, max_size=5).map(tuple)),
)


def names_its_subgoals(decision: Decision) -> bool:
    return not isinstance(decision, Expand) or all(
        any(map(str.isalnum, goal)) and goal[0] not in "[<" and label_of(goal) is None for goal in decision.subgoals
    )


@given(decisions)
def test_a_decision_is_read_back_as_it_was_written(decision: Decision) -> None:
    assert parse_decision(str(decision)) == decision


@pytest.mark.slow
@given(skills, st.data())
def test_the_regular_expression_matches_every_decision_that_is_allowed(allowed: list[str], data: st.DataObject) -> None:
    pattern = DecisionGrammar(allowed).regex()
    decision = data.draw(
        st.one_of(decisions.filter(lambda d: not isinstance(d, Act)), st.sampled_from(allowed).map(Act))
    )
    assert re.fullmatch(pattern, str(decision))


@pytest.mark.slow
@given(skills, phrases)
def test_the_regular_expression_matches_no_other_skill(allowed: list[str], other: str) -> None:
    assert bool(re.fullmatch(DecisionGrammar(allowed).regex(), f"Act: {other}")) == (other in allowed)


def test_where_skills_are_free_any_line_is_one() -> None:
    for grammar, label in (
        (DecisionGrammar(["done"], free=True), "Act"),
        (SubgoalGrammar(["done"], free=True), "Action"),
    ):
        assert re.fullmatch(grammar.regex(), f"{label}: pour jug in pot")
        assert not re.fullmatch(grammar.regex(), f"{label}: pour\njug")
        assert '"done"' not in grammar.ebnf()
        assert "done" not in str(grammar.json_schema())


def test_a_control_flow_that_is_not_allowed_does_not_match() -> None:
    grammar = DecisionGrammar(["done"], [SequenceFlow])
    assert re.fullmatch(grammar.regex(), "Expand:\n- control flow: sequence\n- subgoals: a, b")
    assert not re.fullmatch(grammar.regex(), "Expand:\n- control flow: parallel\n- subgoals: a, b")
    assert not re.fullmatch(DecisionGrammar(["done"], []).regex(), "Expand:\n- control flow: sequence\n- subgoals: a")


def accepts(ebnf: str, text: str) -> bool:
    return takes(llguidance.LLMatcher.grammar_from_lark(llguidance.gbnf_to_lark.gbnf_to_lark(ebnf)), text)


def accepts_regex(pattern: str, text: str) -> bool:
    return takes(llguidance.LLMatcher.grammar_from_regex(pattern), text)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('Think: Now, I need to find "it" \\ there.', True), ("Act: go to kitchen 1", True),
        ("Act: pick up slice of bread 1", True), ("Act: go to kitchen 2", False), ("Act: go to kitchen 12", False),
        ("Think: ", False), ("Think: two\nlines", False),
        ("Expand:\n- control flow: fallback\n- subgoals: find it, and bring it", True),
        ("Expand:\n- control flow: parallel\n- subgoals: find it", False),
        ("Expand:\n- control flow: fallback", False), ("Say: hello", False),
    ],
)  # fmt: skip
def test_both_renderings_of_the_grammar_take_the_same_texts(text: str, allowed: bool) -> None:
    grammar = DecisionGrammar(["go to kitchen 1", "pick up slice of bread 1", "done"], [SequenceFlow, FallbackFlow])
    for ended in (text, f"{text}\n"):
        assert bool(re.fullmatch(grammar.regex(), ended)) == allowed
        assert accepts_regex(grammar.regex(), ended) == allowed
        assert accepts(grammar.ebnf(), ended) == allowed
    for more in ("\n\n", "\nOK.", "\nAct: done"):
        assert not re.fullmatch(grammar.regex(), text + more)
        assert not accepts_regex(grammar.regex(), text + more)
        assert not accepts(grammar.ebnf(), text + more)


STRANGE = ['say "a|b" (1.5)', "a-b & c~d #2", "naïve [x] {2,3}", "back\\slash ^$*+?", "tab\there", "電話 1"]


@pytest.mark.parametrize("skill", STRANGE)
def test_a_skill_of_any_characters_can_be_said(skill: str) -> None:
    for grammar in (DecisionGrammar(STRANGE), DecisionGrammar([skill])):
        for text in (f"Act: {skill}", f"Act: {skill}\n"):
            assert re.fullmatch(grammar.regex(), text)
            assert accepts_regex(grammar.regex(), text)
            assert accepts(grammar.ebnf(), text)
        assert not accepts_regex(grammar.regex(), f"Act: {skill[:-1]}")
        assert not accepts(grammar.ebnf(), f"Act: {skill[:-1]}")
        assert not accepts_regex(grammar.regex(), f"Act: {skill}{skill}")
        assert not accepts(grammar.ebnf(), f"Act: {skill}{skill}")


SHORT = DecisionGrammar(["go to kitchen 1", "go to kitchen 12", "done"], max_characters=30)


@pytest.mark.slow
@given(st.from_regex(SHORT.regex(), fullmatch=True))
@settings(max_examples=50)
def test_a_grammar_engine_takes_whatever_the_regular_expression_allows(text: str) -> None:
    assert accepts_regex(SHORT.regex(), text)
    assert accepts(SHORT.ebnf(), text)


values = st.one_of(st.none(), st.booleans(), st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3))


@given(values, st.text())
def test_a_choice_that_is_not_of_the_schema_is_refused_in_one_line(value: object, text: str) -> None:
    for refused in (text, json.dumps(value), json.dumps({"decision": value}), json.dumps({"choice2": value})):
        with pytest.raises(ValueError, match="Not of the JSON schema that was asked for") as raised:
            chosen_of_json(refused)
        assert "\n" not in str(raised.value)


def in_json(decision: Decision) -> str:
    if isinstance(decision, Expand):
        what: object = {"control_flow": str(decision.control_flow), "subgoals": list(decision.subgoals)}
    else:
        what = decision.thought if isinstance(decision, Think) else decision.skill
    return json.dumps({"decision": {type(decision).__name__: what}}, ensure_ascii=False)


@given(decisions.filter(names_its_subgoals))
@example(Act("EXPAND"))
@example(Act("think"))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_decision_in_json_is_read_in_the_words_of_the_grammar(decision: Decision) -> None:
    skills = [decision.skill] if isinstance(decision, Act) else ["done"]
    assert read(in_json(decision), DecisionGrammar(skills)) == (Said(str(decision), decision),)


@given(decisions.filter(names_its_subgoals), st.sampled_from(["json_schema", "one_schema"]))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_both_schemas_take_a_decision_and_the_one_stays_the_same_for_all_skills(decision: Decision, name: str) -> None:
    skills = [decision.skill, "x"] if isinstance(decision, Act) else ["x"]
    schema = getattr(DecisionGrammar(skills), name)()
    matcher = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    assert takes(matcher, in_json(decision))
    assert not takes(matcher, json.dumps({"decision": {"Say": "hello"}}))
    assert DecisionGrammar(["y"]).one_schema() == DecisionGrammar(["x"]).one_schema()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "starts with 'Think: ', 'Act: ' or 'Expand:', not with ''"),
        ("go to kitchen 1", "not with 'go to kitchen 1'"),
        ("Plan: go", "not with 'Plan: go'"),
        ("act: done", "not with 'act: done'"),
        ("Think:", "Nothing follows 'Think:'"),
        ("Act:   ", "Nothing follows 'Act:'"),
        ("Act: go to kitchen 1\nAct: done", "followed by one line, not by 2"),
        ("Expand:", "followed by exactly two lines"),
        ("Expand:\n- control flow: sequence", "followed by exactly two lines"),
        ("Expand:\n- subgoals: a\n- control flow: sequence", "followed by exactly two lines"),
        ("Expand:\n- control flow: loop\n- subgoals: a", "Control flow 'loop' is unknown; use one of sequence"),
        ("Expand: {'control_flow': 'sequence', 'conditions': 'a'}", "followed by exactly two lines"),
        ("x" * 200, "not with '" + "x" * 40 + "…'"),
    ],
)
def test_a_malformed_decision_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(MalformedDecision) as refused:
        parse_decision(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_final_and_is_dropped_by_default_and_kept_on_request() -> None:
    line = "move the apple, and move the juice."
    assert split_subgoals(line) == ("move the apple", "move the juice")
    assert split_subgoals(line, keep_and=True) == ("move the apple", "and move the juice.")


def test_an_expansion_with_blank_subgoals_has_no_subgoals() -> None:
    assert parse_decision("Expand:\n- control flow: sequence\n- subgoals:  , ") == Expand(SequenceFlow(), ())


@given(st.lists(subgoals.map(lambda text: f"{text}, {text}"), min_size=1, max_size=5).map(tuple))
def test_subgoals_that_contain_commas_are_read_back_as_they_were_written(goals: tuple[str, ...]) -> None:
    expand = Expand(SequenceFlow(), goals)
    assert parse_decision(str(expand)) == expand


def test_subgoals_are_split_at_semicolons_where_there_are_any_and_as_recorded_on_request() -> None:
    assert split_subgoals("find it, the red one; put it down;") == ("find it, the red one", "put it down")
    assert split_subgoals("find it, the red one;") == ("find it, the red one",)
    assert split_subgoals("a, b; c", keep_and=True) == ("a", "b; c")
