"""What may be said: grammar, parser and rendering agree with each other."""

from __future__ import annotations

import re

import llguidance
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.decision import Act, ControlFlow, Decision, Expand, Think
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.parser import MalformedDecision, parse_decision, split_subgoals

words = st.text(st.characters(codec="utf-8", exclude_characters="\n\r,", exclude_categories=("C", "Z")), min_size=1)
phrases = st.lists(words, min_size=1, max_size=5).map(" ".join)
subgoals = phrases.filter(lambda text: not text.startswith("and ") and not text.endswith("."))
skills = st.lists(phrases, min_size=1, max_size=30, unique=True)
decisions = st.one_of(
    st.builds(Think, phrases),
    st.builds(Act, phrases),
    st.builds(Expand, st.sampled_from(ControlFlow), st.lists(subgoals, min_size=1, max_size=5).map(tuple)),
)


@given(decisions)
def test_a_decision_is_read_back_as_it_was_written(decision: Decision) -> None:
    assert parse_decision(str(decision)) == decision


@given(skills, st.data())
def test_the_regular_expression_matches_every_decision_that_is_allowed(allowed: list[str], data: st.DataObject) -> None:
    pattern = DecisionGrammar(allowed).regex()
    decision = data.draw(
        st.one_of(decisions.filter(lambda d: not isinstance(d, Act)), st.sampled_from(allowed).map(Act))
    )
    assert re.fullmatch(pattern, str(decision))


@given(skills, phrases)
def test_the_regular_expression_matches_no_other_skill(allowed: list[str], other: str) -> None:
    assert bool(re.fullmatch(DecisionGrammar(allowed).regex(), f"Act: {other}")) == (other in allowed)


def test_a_control_flow_that_is_not_allowed_does_not_match() -> None:
    grammar = DecisionGrammar(["done"], [ControlFlow.SEQUENCE])
    assert re.fullmatch(grammar.regex(), "Expand:\n- control flow: sequence\n- subgoals: a, b")
    assert not re.fullmatch(grammar.regex(), "Expand:\n- control flow: parallel\n- subgoals: a, b")
    assert not re.fullmatch(DecisionGrammar(["done"], []).regex(), "Expand:\n- control flow: sequence\n- subgoals: a")


def accepts(ebnf: str, text: str) -> bool:
    """Whether a maintained grammar engine, the one servers use, takes the whole text."""
    grammar = llguidance.LLMatcher.grammar_from_lark(llguidance.gbnf_to_lark.gbnf_to_lark(ebnf))
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    assert not matcher.is_error(), matcher.get_error()
    tokens = tokenizer.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('Think: Now, I need to find "it" \\ there.', True),
        ("Act: go to kitchen 1", True),
        ("Act: pick up slice of bread 1", True),
        ("Act: go to kitchen 2", False),
        ("Act: go to kitchen 12", False),
        ("Think: ", False),
        ("Think: two\nlines", False),
        ("Expand:\n- control flow: fallback\n- subgoals: find it, and bring it", True),
        ("Expand:\n- control flow: parallel\n- subgoals: find it", False),
        ("Expand:\n- control flow: fallback", False),
        ("Say: hello", False),
    ],
)
def test_both_renderings_of_the_grammar_take_the_same_texts(text: str, allowed: bool) -> None:
    grammar = DecisionGrammar(
        ["go to kitchen 1", "pick up slice of bread 1", "done"], [ControlFlow.SEQUENCE, ControlFlow.FALLBACK]
    )
    assert bool(re.fullmatch(grammar.regex(), text)) == allowed
    assert accepts(grammar.ebnf(), text) == allowed


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
    assert parse_decision("Expand:\n- control flow: sequence\n- subgoals:  , ") == Expand(ControlFlow.SEQUENCE, ())
