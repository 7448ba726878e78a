"""What a model said is read leniently in form, strictly in meaning: a reading is taken where one decision is meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactree_ros.agent.control_flow import ControlFlow, default_flows
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import DecisionGrammar, Grammar, parse_decision
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import BeginSubgoal, Think
from reactree_ros.agent.reading import LONGEST, Unreadable, own_words, read, read_call, read_choice
from reactree_ros.agent.reading.skills import NEAREST
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import Said
from reactree_ros.tree.flows import FallbackFlow, ParallelFlow, SequenceFlow

SKILLS = (
    "done", "failure", "go to kitchen 1", "go to kitchen 12", "go to bedroom 2", "pick up apple 1",
    "pick up apple 2", "put down apple 1", "open fridge 1", "close fridge 1", "recall location of apple",
    "go to step stool 1", "pick up action figure 1", "open answering machine 1",
)  # fmt: skip
GRAMMAR = DecisionGrammar(SKILLS)
Taken = TypeVar("Taken")
GO, OPEN = Act("go to kitchen 1"), Act("open fridge 1")


def decisions(text: str, grammar: Grammar = GRAMMAR, *, cut: bool = False) -> list[Decision | None]:
    return [said.decision for said in read(text, grammar, cut=cut)]


def refusal(text: str, grammar: Grammar = GRAMMAR, *, cut: bool = False) -> str:
    with pytest.raises(Unreadable) as refused:
        read(text, grammar, cut=cut)
    reason = str(refused.value)
    assert len(reason.splitlines()) == 1
    return reason


# ---------------------------------------------------------------------- an act

ACTS = {
    "plain": "Act: go to kitchen 1",
    "a full stop": "Act: Go to kitchen 1.",
    "an article": "Act: go to the kitchen 1",
    "an instance in brackets": "Act: go to kitchen (1)",
    "an instance with a sign": "Act: go to kitchen #1",
    "an instance with an underscore": "Act: go_to(kitchen_1)",
    "quotes around all of it": '"Act: go to kitchen 1"',
    "full width": "Act：go to kitchen １",  # noqa: RUF001
    "a dash": "Act — go to kitchen 1",
    "bold kind": "**Act:** go to kitchen 1",
    "bold everything": "**Act: go to kitchen 1**",
    "backticks": "Act: `go to kitchen 1`",
    "a fence with a language": "Here is my decision:\n```text\nAct: go to kitchen 1\n```\nI look for the apple there.",
    "a heading": "### Act: go to kitchen 1",
    "a list number": "2. Act: go to kitchen 1",
    "a blockquote of all of it": "> Act: go to kitchen 1",
    "my action is": "My next action is: go to kitchen 1",
    "two labels": "Decision: Act: go to kitchen 1",
    "a step": "Step 4: go to kitchen 1",
    "on the next line": "Act:\ngo to kitchen 1",
    "a preamble on the line": "Sure! Act: go to kitchen 1",
    "a reason in the announcement": "Since the apple is not in here, my next action is:\nAct: go to kitchen 1",
    "a reason after it": "Act: go to kitchen 1\nReason: the apple is likely there.",
    "an observation made up": "Act: go to kitchen 1\nObservation: a fridge.\nAct: open fridge 1",
    "the end of the turn": "Act: go to kitchen 1<|im_end|>",
    "another turn": "Act: go to kitchen 1<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAct: open fridge 1",
    "a tag": "<action>go to kitchen 1</action>",
    "action and input": "Action: go to\nAction Input: kitchen 1",
    "action and an input that is said already": "Action: go to kitchen 1\nAction Input: kitchen 1",
    "action and input in JSON": 'Action: go to\nAction Input: {"room": "kitchen 1"}',
    "JSON": '{"action": "go to kitchen 1"}',
    "JSON after a preamble": 'Here is my decision:\n{"action": "go to kitchen 1"}\nI look for the apple there.',
    "JSON behind a label": 'Action: {"skill": "go to kitchen 1"}',
    "JSON with a kind": '{"type": "act", "content": "go to kitchen 1"}',
    "JSON with what is to be said": '{"decision": "Act: go to kitchen 1"}',
    "JSON with an input": '{"action": "go to", "action_input": "kitchen 1"}',
    "JSON in an array": '[{"action": "go to kitchen 1"}]',
    "a call": '{"name": "go to", "arguments": {"room": "kitchen", "number": 1}}',
    "a call of a function": json.dumps(
        {"type": "function", "function": {"name": "act", "arguments": json.dumps({"skill": "go to kitchen 1"})}}
    ),
    "a call in tags": '<tool_call>\n{"name": "go to", "arguments": {"object": "kitchen 1"}}\n</tool_call>',
}


@pytest.mark.parametrize("text", ACTS.values(), ids=ACTS)
def test_an_act_in_any_dress_is_read_in_the_words_of_the_grammar(text: str) -> None:
    assert read(text, GRAMMAR) == (Said("Act: go to kitchen 1", GO),)


@pytest.mark.parametrize("skill", ["go to step stool 1", "pick up action figure 1", "open answering machine 1"])
def test_a_skill_with_the_word_of_a_label_in_it_is_a_skill(skill: str) -> None:
    for text in (f"Act: {skill}", f"**Action:** {skill.capitalize()}.", f"Think: I need it.\nAct: {skill}", skill):
        assert decisions(text)[-1] == Act(skill)


def test_a_skill_in_its_own_characters_is_taken_before_any_that_looks_like_it() -> None:
    grammar = DecisionGrammar(["press the button A 1", "press button a 1", "set heat -1", "set heat 1", "say: done"])
    for skill in grammar.skills:
        assert decisions(f"Act: {skill}", grammar) == [Act(skill)]
    assert decisions("Act: set heat (-1)", grammar) == [Act("set heat -1")]
    assert decisions("Act: Set heat #1.", grammar) == [Act("set heat 1")]


@pytest.mark.parametrize(
    ("skills", "said"),
    [
        (["turn on Lamp 1", "turn on lamp 1"], "turn on LAMP 1"),
        (["go to dock 1-2", "go to dock 1 2"], "go to dock (1) (2)"), (["set heat -1"], "set heat 1"),
        (["set heat 1"], "set heat -1"), (["press 🟢"], "press 🔴"), (["go to room a"], "go to room"),
        (["go to room a"], "go to a room"), (["take knot 1"], "take not knot 1"), (["take knot 1"], "take k not 1"),
        (["go to 1.5"], "go to 1 5"), (["raise x+1"], "raise x-1"),
    ],
)  # fmt: skip
def test_what_may_be_another_skill_is_none(skills: list[str], said: str) -> None:
    assert "is not among the skills" in refusal(f"Act: {said}", DecisionGrammar(skills))


# ---------------------------------------------------------------------- a thought, and what comes with it

THOUGHTS = {
    "Think: I need the apple.": "I need the apple.",
    "Thought: I need the apple.": "I need the apple.",
    "Thinking - I need the apple.": "I need the apple.",
    "**Reasoning:**\nI need\nthe apple.": "I need the apple.",
    "1. Think: I need the apple.": "I need the apple.",
    "<thought>I need the apple.</thought>": "I need the apple.",
    '{"thought": "I need\\nthe apple."}': "I need the apple.",
    '{"name": "think", "arguments": {"thought": "I need the apple."}}': "I need the apple.",
    "Think: I need the apple.\nOK.": "I need the apple.",
    "Think: I need the apple.\nObservation: it is here\nAct: open fridge 1": "I need the apple.",
    "Think: Action is needed": "Action is needed",
    "Think: Plan: find the apple": "Plan: find the apple",
    "Think: Act: open fridge 1": "Act: open fridge 1",
    "Think: two things: an apple: and a pear": "two things: an apple: and a pear",
    "Think: The right kind is Act: open fridge 1": "The right kind is Act: open fridge 1",
    'Think: "I should go. Act: go to kitchen 1"': '"I should go. Act: go to kitchen 1"',
    'Think: It said "Act: open fridge 1." to me': 'It said "Act: open fridge 1." to me',
    "Think: a control flow: sequence would do": "a control flow: sequence would do",
}


@pytest.mark.parametrize(("text", "thought"), THOUGHTS.items())
def test_a_thought_is_read_on_one_line_and_what_it_speaks_of_is_not_done(text: str, thought: str) -> None:
    assert read(text, GRAMMAR) == (Said(f"Think: {thought}", Think(thought)),)


BOTH = (
    "Think: It is not here.\nAct: go to kitchen 1",
    "Think: It is not here.\nOK.\nAct: go to kitchen 1",
    "Thought: It is not here.\nAction: go to kitchen 1\nObservation: You are there.\nThought: Now\nAction: done",
    "Thought 1: It is not here.\nAction 1: go to[kitchen 1]",
    "**Think:** It is not here.\n\n**Act:** go to kitchen 1",
    "### Thought\nIt is not here.\n\n### Action\ngo to kitchen 1",
    "1. Think: It is not here.\n2. Act: go to kitchen 1",
    "Think: It is\nThink: not here.\nAct: go to kitchen 1",
    '{"thought": "It is not here.", "action": "go to kitchen 1"}',
    '{"response": {"reasoning": "It is not here.", "act": "go to kitchen 1"}}',
    'Thought: It is not here.\nAction:\n```json\n{"action": "go to", "action_input": "kitchen 1"}\n```',
    "<thought>It is not here.</thought><action>go to kitchen 1</action>",
)


@pytest.mark.parametrize("text", BOTH)
def test_a_thought_with_the_act_after_it_is_both(text: str) -> None:
    think = Think("It is not here.")
    assert read(text, GRAMMAR) == (Said("Think: It is not here.", think), Said("Act: go to kitchen 1", GO))


@pytest.mark.parametrize(
    "thought",
    [
        "I should not stay. If it is not in the fridge, then I will look elsewhere or give up",
        "Is it in the kitchen?",
        "I did that before, and never will I open the freezer again.",
        "Wait, actually I was wrong.",
        "For example, I could look into the kitchen",
        "No.",
    ],
)
def test_a_thought_may_deny_and_doubt_whatever_it_likes_before_an_act(thought: str) -> None:
    assert decisions(f"Think: {thought}\nAct: go to kitchen 1") == [Think(thought), GO]


# ---------------------------------------------------------------------- an expansion

IN_JSON = {"control_flow": "sequence", "subgoals": ["find the apple", "put it down"]}
EXPANSIONS = {
    "plain": "Expand:\n- control flow: sequence\n- subgoals: find the apple, put it down",
    "bold": "**Expand:**\n- **control flow:** sequence\n- **subgoals:** find the apple, put it down",
    "bullets": "Expand:\n- control flow: sequence\n- subgoals:\n  - find the apple\n  - put it down",
    "numbers": "Expand:\n- control flow: sequence\n- subgoals:\n  1. find the apple\n  2. put it down",
    "one a line": "Expand:\n- control flow: sequence\n- subgoals:\nfind the apple\nput it down",
    "an array": 'Expand:\n- control flow: sequence\n- subgoals: ["find the apple", "put it down"]',
    "an and": "Expand:\n- control flow: sequence\n- subgoals:\n  - find the apple\n  - and put it down",
    "one line": "Expand: control flow: sequence, subgoals: find the apple, put it down",
    "the control flow first": "Expand: sequence: find the apple, put it down",
    "the control flow in brackets": "Expand (sequence):\n1. find the apple\n2. put it down",
    "a plan": "Plan:\n- control flow: sequence\n- subgoals: find the apple, put it down",
    "JSON": json.dumps({"expand": IN_JSON}),
    "JSON with a kind": json.dumps({"action": "expand", **IN_JSON}),
    "JSON without a kind": '{"control_flow": "sequence", "subgoals": "find the apple, put it down"}',
    "JSON behind the label": f"Expand: {json.dumps(IN_JSON)}",
    "a call": json.dumps({"name": "expand", "arguments": IN_JSON}),
}


@pytest.mark.parametrize("text", EXPANSIONS.values(), ids=EXPANSIONS)
def test_an_expansion_in_any_dress_is_read_in_the_words_of_the_grammar(text: str) -> None:
    expand = Expand(SequenceFlow(), ("find the apple", "put it down"))
    assert read(text, GRAMMAR) == (Said(str(expand), expand),)


@pytest.mark.parametrize("goals", [("pour 1.5 l of milk", "2 apples"), ("12:30 wake her", "1 pear"), ("a) is", "b")])
def test_the_numbers_of_a_subgoal_stay_with_it(goals: tuple[str, ...]) -> None:
    expand = Expand(SequenceFlow(), goals)
    assert decisions(json.dumps({"control_flow": "sequence", "subgoals": goals})) == [expand]
    bullets = "".join(f"\n- {goal}" for goal in goals)
    assert decisions(f"Expand:\n- control flow: sequence\n- subgoals:{bullets}") == [expand]


COMMAS = (
    "Expand:\n- control flow: parallel\n- subgoals: find it, the red one; put it down",
    "Expand:\n- control flow: parallel\n- subgoals:\n  - find it, the red one\n  - put it down",
    "Expand:\n- control flow: parallel\n- subgoals:\n1. find it, the red one\n2. put it down",
    'Expand:\n- control flow: parallel\n- subgoals: ["find it, the red one", "put it down"]',
    '{"decision": {"Expand": {"control_flow": "parallel", "subgoals": ["find it, the red one", "put it down"]}}}',
    '{"decision": {"Expand": {"control_flow": "parallel", "subgoals": ["find it; the red one", "put it down"]}}}',
)


@pytest.mark.parametrize("text", COMMAS)
def test_a_subgoal_may_contain_a_comma(text: str) -> None:
    (said,) = read(text, GRAMMAR)
    assert said.decision == Expand(ParallelFlow(), ("find it, the red one", "put it down"))
    assert parse_decision(said.text) == said.decision


@pytest.mark.parametrize(
    ("line", "goals"),
    [
        ("find it, and bring it.", ("find it", "bring it")),
        ("find it, the red one; bring it;", ("find it, the red one", "bring it")),
        ("put a capsule in. Shut the door, go", ("put a capsule in. Shut the door", "go")),
    ],
)
def test_an_expansion_in_the_words_of_the_grammar_stays_as_it_was_said(line: str, goals: tuple[str, ...]) -> None:
    text = f"Expand:\n- control flow: sequence\n- subgoals: {line}"
    assert read(f"{text}\n", GRAMMAR) == (Said(text, Expand(SequenceFlow(), goals)),)
    assert parse_decision(text) == Expand(SequenceFlow(), goals)


def test_a_thought_with_the_expansion_after_it_is_both() -> None:
    expand = Expand(FallbackFlow(), ("look here", "look there"))
    text = "Think: It may be in two places.\nExpand:\n- control flow: fallback\n- subgoals: look here, look there"
    assert decisions(text) == [Think("It may be in two places."), expand]
    assert decisions(text.replace("Expand:\n", "")) == [Think("It may be in two places."), expand]


def test_a_control_flow_that_is_not_allowed_is_refused_with_those_that_are() -> None:
    text = "Expand:\n- control flow: parallel\n- subgoals: a1, b1"
    assert "'parallel' is not allowed here; allowed: sequence." in refusal(
        text, DecisionGrammar(SKILLS, [SequenceFlow])
    )
    assert "An expansion is not allowed here; think or act." in refusal(text, DecisionGrammar(SKILLS, []))


# ---------------------------------------------------------------------- what is not taken

#: Prose that denies, doubts, tells or imagines the decision after it, or may do so.
PROSE = (
    *("Never do this:", "I would never do the following.", "Do not do the following.\nIt is dangerous."),
    *("Should I open it?", "If the fridge is closed:", "Input: do not do the following", "The robot said"),
    *("I look in the kitchen to find the apple", "Observation: I am in the bedroom."),
)


@pytest.mark.parametrize("prose", PROSE)
@pytest.mark.parametrize("gap", ["\n", "\n\n", " "])
def test_a_decision_behind_prose_is_not_taken(prose: str, gap: str) -> None:
    assert refusal(f"{prose}{gap}Act: open fridge 1")


NOT_TAKEN = {
    # two skills
    "then": "Act: go to kitchen 1, then open fridge 1",
    "and": "Act: go to kitchen 1 and open fridge 1",
    "or": "Act: go to kitchen 1 or go to bedroom 2",
    "two acts": "Act: go to kitchen 1\nAct: open fridge 1",
    "an act and an expansion": "Act: open fridge 1\nExpand:\n- control flow: sequence\n- subgoals: a, b",
    "an expansion and an act": "Expand:\n- control flow: sequence\n- subgoals: a, b\nAct: open fridge 1",
    "an array of two": '[{"action": "open fridge 1"}, {"action": "go to kitchen 1"}]',
    # another skill
    "no skill": "Act: fly to the moon",
    "another verb": "Act: grab apple 2",
    "no instance": "Act: go to kitchen",
    "a word more": "Act: go to kitchen 1 quickly",
    "nothing": "Act:",
    "a letter of another alphabet": "Act: \u043epen fridge 1",
    "an act behind the label of an expansion": 'Expand: {"act": "open fridge 1"}',
    "an input that is unknown": "Action: go to\nAction Input: moon",
    # denied, taken back
    "not": "Act: do not open fridge 1",
    "I will not": "I will not Act: open fridge 1",
    "not before the skill": "I will not open fridge 1",
    "do not do this": "Do not do this. Act: open fridge 1",
    "no": "No. Act: open fridge 1",
    "no action": "No action: open fridge 1",
    "a thought that announces what not": "Think: I should not do this:\nAct: open fridge 1",
    "on the line": "Act: open fridge 1 - no, wait",
    "would be": "Act: open fridge 1 would be a mistake.",
    "a cross before": "❌ Act: open fridge 1",
    "a cross after": "Act: open fridge 1 ❌",
    "struck through": "~~Act: open fridge 1~~",
    "an expansion denied": "Expand: I will never do this:\n- control flow: sequence\n- subgoals: a, b",
    "JSON denied": 'Never do this: {"thought": "x", "action": "open fridge 1"}',
    "JSON taken back": '{"action": "open fridge 1"} would be wrong.',
    "a field that denies": '{"action": {"not": "open fridge 1"}}',
    "an argument that denies": '{"name": "open", "arguments": {"except": "fridge 1"}}',
    "a field that forbids": '{"rejected_action": "open fridge 1"}',
    "a flag": '{"action": "open fridge 1", "execute": false}',
    "a flag among the arguments": '{"name": "open", "arguments": {"object": "fridge 1", "really": false}}',
    "no in German": "Nein. Act: open fridge 1",
    "ignore": "Ignore what follows. Act: open fridge 1",
    "a comment": '{"action": "open fridge 1", "comment": "do not execute"}',
    "a comment in HTML": "<!-- Act: open fridge 1 -->",
    # asked, on a condition
    "a question": "Act: open fridge 1?",
    "should I": "Should I Act: open fridge 1",
    "if before": "If the fridge is closed, Act: open fridge 1",
    "if after": "Act: open fridge 1 if it is closed",
    # quoted, told, imagined
    "a quotation": 'The manual says: "Act: open fridge 1"',
    "a quotation over lines": 'Think: "I should go.\nAct: go to kitchen 1\nand so on"',
    "a blockquote": "This is written there:\n> Act: open fridge 1",
    "a blockquote amid prose": "My reasoning goes like this.\n> Act: open fridge 1\n\nI go on.",
    "an example in tags": "<example>\nAct: open fridge 1\n</example>",
    "a story": "Once upon a time there was a robot.\nAct: open fridge 1\nThe end.",
    "a story in prose": "First I went to kitchen 1, and then I opened fridge 1.",
    "did": "I went there. I did Act: open fridge 1",
    "the last action": "Last action: open fridge 1",
    "would": "I would Act: open fridge 1",
    "prose": "I will go to kitchen 1.",
    "prose with a label's word": "My next action is to open fridge 1",
    "options": "Options:\n- Act: open fridge 1\n- Act: close fridge 1",
    "an option": "Options:\n- Act: open fridge 1",
    "a possible action": "Possible action: open fridge 1",
    "an observation in JSON": 'Observation: {"action": "open fridge 1"}',
    "JSON as a format": 'The format is {"action": "open fridge 1"}',
    "a refusal": "I'm sorry, I can't help with Act: open fridge 1",
    "a refusal alone": "I'm sorry, but I can't assist with that.",
    "a result": "Result: done",
    # words around it
    "prose before a thought": "I cannot see it here.\nThink: I need the apple.",
    "JSON as Python writes it": "{'action': 'go to kitchen 1', 'thought': None}",
    "numbers on one line": "Expand:\n- control flow: sequence\n- subgoals: 1. find the apple 2. put it down",
    "the control flow last": "Expand:\n- subgoals: find the apple, put it down\n- control flow: sequence",
    # the prompt's form, and what is not a decision
    "a placeholder": "Act: <skill>",
    "subgoals to fill in": "Expand:\n- control flow: sequence\n- subgoals: <subgoal 1>, <subgoal 2>",
    "two control flows": "Expand:\n- control flow: sequence or parallel\n- subgoals: a, b",
    "two kinds of marks": "Expand:\n- control flow: sequence\n- subgoals:\n1. a1\n- b1\n2. c1",
    "no control flow": "Expand:\n- subgoals: a, b",
    "no control flow in JSON": '{"expand": {"subgoals": ["a", "b"]}}',
    "no subgoals": "Expand:\n- control flow: sequence",
    "subgoals that are none": '{"control_flow": "sequence", "subgoals": [["a"], 1]}',
    "a list inside a list": "Expand:\n- control flow: sequence\n- subgoals:\n  1. a\n    - b\n  2. c",
    "two expansions": "Expand:\n- control flow: sequence\n- subgoals: a, b\n- control flow: parallel\n- subgoals: c, d",
    "an object of nothing": "{}",
    "an emoji cut in half": "Act: open fridge 1 \ud83d",
}


@pytest.mark.parametrize("text", NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_what_may_not_be_meant_is_not_taken_and_the_reason_is_one_line(text: str) -> None:
    assert refusal(text)


BEHIND = (
    "Wait, no.", "But that would be wrong.", "Is that right?", "if it is closed", "Then open fridge 1", "Нет.", "🚫",
    "Think: That was a mistake.", "Do not Act: go to kitchen 1", "You see, that was a mistake.",
    "Act: go to kitchen 1",
)  # fmt: skip


@pytest.mark.parametrize("behind", BEHIND)
def test_what_goes_on_behind_a_decision_in_full_is_dropped(behind: str) -> None:
    assert decisions(f"Act: go to kitchen 1\n{behind}") == [GO]
    assert decisions(f"Think: hm\nAct: go to kitchen 1\n\n{behind}") == [Think("hm"), GO]


CUT = {
    "a skill that goes on": ("Act: go to kitchen 1", "'go to kitchen 1' was cut"),
    "the same in another dress": ("**Action:** Go to the kitchen (1", "was cut"),
    "half a skill": ("Act: open frid", "'open frid' was cut"),
    "the label": ("Act:", "was cut"),
    "a list": ("Expand:\n- control flow: sequence\n- subgoals: find it, put", "list of subgoals was cut"),
    "an object": ('{"action": "go to ki', "cut before it came to a decision"),
    "a skill alone": ("go to kitchen 1", "cut before it came to a decision"),
}


@pytest.mark.parametrize(("text", "reason"), CUT.values(), ids=CUT)
def test_what_was_cut_is_not_taken(text: str, reason: str) -> None:
    assert reason in refusal(text, cut=True)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("Think: I was cu", [Think("I was cu")]),
        ("Think: It is there.\nAct: go to kit", [Think("It is there.")]),
        ("Act: go to kitchen 12", [Act("go to kitchen 12")]),
        ("Act: go to kitchen 1\n\nThis is beca", [GO]),
        ("Act: go to kitchen 1\nObservation: You are in the", [GO]),
        ('{"action": "go to kitchen 1"}', [GO]),
        ("Expand:\n- control flow: sequence\n- subgoals:\n  - find it\n  - put it\n\nThis is beca", None),
    ],
)
def test_what_was_whole_before_the_reply_was_cut_is_taken(text: str, taken: list[Decision] | None) -> None:
    assert decisions(text, cut=True) == (taken or [Expand(SequenceFlow(), ("find it", "put it"))])


def test_a_reply_that_is_far_too_long_is_not_read() -> None:
    assert "too long to be read (200000 characters)" in refusal("Act: open fridge 1\n" + "x" * 199_981)
    assert decisions("Think: " + "Let me see. " * 3000 + "\nAct: open fridge 1")[-1] == OPEN


# ---------------------------------------------------------------------- near misses


@pytest.mark.parametrize(
    ("said", "nearest"),
    [
        ("grab apple 2", ["pick up apple 2", "pick up apple 1"]),
        ("take the apple (1)", ["pick up apple 1", "pick up apple 2"]),
        ("pick up apple 7", ["pick up apple 1", "pick up apple 2"]),
        ("place apple 1", ["put down apple 1"]),
        ("walk to kitchen 12", ["go to kitchen 12", "go to kitchen 1"]),
        ("enter the kitchen", ["go to kitchen 1", "go to kitchen 12"]),
        ("shut fridge 1", ["close fridge 1", "open fridge 1"]),
        ("go to fridge 1", ["open fridge 1"]),
        ("open fridg 1", ["open fridge 1"]),
        ("find apple", ["recall location of apple"]),
    ],
)
def test_a_near_miss_is_refused_with_the_nearest_skills_the_nearest_first(said: str, nearest: list[str]) -> None:
    for text in (f"Act: {said}", said, f"Think: I need it.\nAction: {said}", json.dumps({"action": said})):
        reason = refusal(text)
        named = reason.partition("The nearest that are: ")[2].rstrip(".").split(", ")
        assert named[: len(nearest)] == nearest
        assert len(named) <= NEAREST


def test_at_most_five_skills_are_named_and_none_where_none_is_near() -> None:
    many = DecisionGrammar([f"open drawer {number}" for number in range(50)])
    assert refusal("Act: open drawer 77", many).count("open drawer") == 1 + NEAREST == 6


def test_where_none_is_near_some_are_named_of_each_verb_one_and_the_ends_last() -> None:
    said = "'dance' is not among the skills that are available now."
    assert refusal("Act: dance") == (
        f"{said} Some that are: go to kitchen 1, pick up apple 1, put down apple 1, open fridge 1, close fridge 1."
    )
    assert refusal('{"decision": {"Act": "1"}}').endswith(
        "Some that are: " + refusal("Act: dance").partition("are: ")[2]
    )
    assert refusal("Act: dance", DecisionGrammar(["wave", "done"])) == f"{said} Some that are: wave."
    assert refusal("Act: dance", DecisionGrammar(["done", "failure"])) == f"{said} Some that are: done, failure."


KITCHEN = DecisionGrammar(
    (
        "done", "failure", "recall location of pie", "recall location of coffee pot", "go to kitchen 1",
        "go to kitchen table 1", "go to kitchen cabinet 1", "go to kitchen cabinet 2", "go to drawer 2",
        "open kitchen cabinet 1", "open kitchen cabinet 2", "open drawer 1", "turn on light switch 1",
        "pick up pie 1", "put down pie 1", "pick up plum 1", "put down plum 1", "pick up mug 1", "pick up mug 2",
        "put mug 1 in microwave 1", "put mug 2 in microwave 1", "go to room 2B", "go to dock 1-2", "wait 5 s",
        "set 3",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "near"),
    [
        ("put down pie on shelf", ["put down pie 1", "put down plum 1"]),
        ("put down coffee on kitchen table", ["put down pie 1", "put down plum 1"]),
        ("put down a plum and a coffee on the kitchen cabinet", ["put down plum 1", "put down pie 1"]),
        ("open the fridge in kitchen", ["open drawer 1", "open kitchen cabinet 1", "open kitchen cabinet 2"]),
        ("pick up mug", ["pick up mug 1", "pick up mug 2"]),
        ("grab the mugs from kitchen table 1", ["pick up mug 1"]),
        ("open kitchen cabinet", ["open kitchen cabinet 1", "open kitchen cabinet 2"]),
        ("slice pie 1", ["pick up pie 1", "put down pie 1"]),
        ("find coffee pot 1", ["recall location of coffee pot"]),
    ],
)
def test_the_verb_counts_first_then_the_thing_and_what_stands_behind_on_in_and_from_last(
    said: str, near: list[str]
) -> None:
    named = refusal(f"Act: {said}", KITCHEN).partition("The nearest that are: ")[2].rstrip(".").split(", ")
    assert sorted(named[: len(near)]) == sorted(near)


# ---------------------------------------------------------------------- nothing is completed

DRESSES = [
    "Act: {}", "**Action:** {}", "{}", "Think: so\nAct: {}", '{"action": "{}"}',
    "```\nAct: {}\n```\n```\nAct: {}\n```",
]  # fmt: skip


@pytest.mark.parametrize(
    "said", ["go to kitchen", "pick up mug", "open drawer", "put down pie on kitchen table", "wait"]
)
@pytest.mark.parametrize("dress", DRESSES)
def test_a_number_that_is_missing_and_a_place_that_is_added_are_asked_for(said: str, dress: str) -> None:
    assert refusal(dress.replace("{}", said), KITCHEN)


@pytest.mark.parametrize("dress", DRESSES)
def test_memory_may_be_asked_for_a_thing_that_no_skill_names(dress: str) -> None:
    for said in ("recall location of banana", "Recall location of the cup of tea."):
        recall = said.lower().replace("the ", "").rstrip(".")
        assert decisions(dress.replace("{}", said), KITCHEN)[-1] == Act(recall)


@pytest.mark.parametrize(
    "thing",
    [
        *("pies", "coffee", "drawer", "kitchenn"),  # memory may know it by another word
        *("banana 1", "banana on kitchen table", "banana in the fridge", "bananas, grapes", "banana and grape"),
        *("[object]", "<banana>", "{name}", "", "of", "a thing that I would like to have", "banana?"),
    ],
)
def test_what_is_another_word_for_a_thing_or_none_is_not_asked(thing: str) -> None:
    assert refusal(f"Act: recall location of {thing}", KITCHEN)


# ---------------------------------------------------------------------- what a model says again, and of itself

GO_ON = "Expand:\n- control flow: sequence\n- subgoals: find it, put it"
BLOCKS = ("Act: go to kitchen 1", "Think: a\nAct: go to kitchen 1", GO_ON, '{"action": "go to kitchen 1"}')


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("fence", ["```\n{}\n```\n", "```json\n{}\n```\n\n", "~~~\n{}\n~~~\n"])
def test_the_same_code_block_again_is_said_once(block: str, fence: str) -> None:
    once = fence.replace("{}", block)
    assert read(once * 2, GRAMMAR) == read(once * 5, GRAMMAR) == read(once, GRAMMAR)
    assert refusal(once + fence.replace("{}", "Act: open fridge 1"))


def test_a_decision_that_is_said_again_may_be_cut_the_second_time() -> None:
    for again in ("Act: go to ki", "Act: go to", "Act:", "```\nAct: go to kitch"):
        assert decisions(f"Act: go to kitchen 12\nAct: go to kitchen 12\n{again}", cut=True) == [
            Act("go to kitchen 12")
        ]
    assert refusal("Act: go to kitchen 12\nAct: go to kitchen 1", cut=True)


@pytest.mark.parametrize(
    "listed", ["1. Think: about what to do", "- **Reasoning**: I can explain.", "1. Act: go to kitchen 1"]
)
def test_what_a_model_lists_when_it_declines_is_no_decision(listed: str) -> None:
    assert refusal(f"I can only perform one of the following tasks:\n{listed}")


def test_a_refusal_quotes_no_words_that_were_not_said_in_a_row() -> None:
    titled = (
        "1. Think\n   - You need to find the pie.\n\n2. Act\n   - Pick up the pie.\n\n3. Act\n   - Put down the pie."
    )
    assert refusal(titled).endswith("not with 'Think…'.")
    assert "'Look around…'" in refusal("Look around\nThen go on\nThe end")


def test_what_is_refused_is_told_as_the_decision_that_it_would_be() -> None:
    with pytest.raises(Unreadable) as refused:
        read("Think: hm\n**Act:** grab apple 2.", GRAMMAR)
    assert refused.value.said_turns == (Said("Act: grab apple 2.", Act("grab apple 2.")),)


# ---------------------------------------------------------------------- tools that are called


@pytest.mark.parametrize(
    ("name", "arguments", "taken"),
    [
        ("go to", '{"room": "kitchen 1"}', [GO]),
        ("go_to", '{"room": "kitchen", "instance": 1}', [GO]),
        ("act", '{"skill": "go to kitchen 1"}', [GO]),
        ("act", '{"thought": "hm", "action": "go to kitchen 1"}', [Think("hm"), GO]),
        ("Act", '"go to kitchen 1"', [GO]),
        ("done", "{}", [Act("done")]),
        ("think", '{"thought": "hm"}', [Think("hm")]),
        ("expand", '{"control_flow": "parallel", "subgoals": ["a1", "b1"]}', [Expand(ParallelFlow(), ("a1", "b1"))]),
    ],
)
def test_a_tool_that_is_called_is_the_decision(name: str, arguments: str, taken: list[Decision]) -> None:
    assert [said.decision for said in read_call([(name, arguments)], GRAMMAR)] == taken


def test_what_is_said_beside_a_call_counts_too() -> None:
    call = [("go to", '{"room": "kitchen 1"}')]
    assert [one.decision for one in read_call(call, GRAMMAR, text="Think: hm")] == [Think("hm"), GO]
    assert [one.decision for one in read_call(call, GRAMMAR, text="I will look there.")] == [GO]
    for text in ("Never do this:", "Act: open fridge 1", "Should I do it?"):
        with pytest.raises(Unreadable, match="Say one decision at a time"):
            read_call(call, GRAMMAR, text=text)


@pytest.mark.parametrize(
    "calls",
    [
        [("go to", '{"room": "kitchen 1"}'), ("open", '{"object": "fridge 1"}')],
        [("launch", "{}")],
        [("go to", '{"room": "kitch')],
        [("go to", '{"room": ["kitchen", {"not": 1}]}')],
        [("go to", "[" * 5000)],
        [("", "")],
    ],
)
def test_calls_of_which_none_is_meant_are_refused(calls: list[tuple[str, str]]) -> None:
    with pytest.raises(Unreadable) as refused:
        read_call(calls, GRAMMAR)
    assert len(str(refused.value).splitlines()) == 1


# ---------------------------------------------------------------------- choices


@pytest.mark.parametrize(
    "text", ["go to kitchen 1", "Go to the kitchen (1).", "**Answer:** go to kitchen 1", "Act: go to kitchen 1"]
)
def test_a_choice_is_read_as_a_skill_is(text: str) -> None:
    assert read_choice(text, SKILLS) == "go to kitchen 1"
    assert read_choice(text, [" go to kitchen 1", " done"]) == " go to kitchen 1"


@pytest.mark.parametrize(
    "text", ["", "go", "Think: hm", "go to kitchen 1 or done", "not done", "go to kitchen 1\ndone"]
)
def test_a_choice_of_none_of_the_options_or_of_two_is_refused(text: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_choice(text, SKILLS)
    assert len(str(refused.value).splitlines()) == 1


# ---------------------------------------------------------------------- subgoals of one node (HiAgent)

SECOND = SubgoalGrammar(SKILLS, number=2)
FIND = BeginSubgoal("Subgoal 2: find it", "find it")


@pytest.mark.parametrize(
    "text",
    [
        "2 Subgoal: find it\nAction: open fridge 1",
        "Subgoal: find it\nAction: open fridge 1",
        "2 Subgoal: find it Action: open fridge 1",
        "**2 Subgoal:** find it\n**Action:** open fridge 1",
        "**Subgoal 2:** find it\n**Action:** Open the fridge (1).",
        "Thought: so\nSubgoal: find it\nAct: open fridge 1",
        '{"decision": {"Subgoal": "find it", "Action": "open fridge 1"}}',
        '```json\n{"thought": "so", "subgoal": "find it", "action": "open fridge 1"}\n```',
    ],
)
def test_a_subgoal_comes_with_its_first_action(text: str) -> None:
    assert read(text, SECOND) == (Said("2 Subgoal: find it", FIND), Said("Action: open fridge 1", OPEN))


@pytest.mark.parametrize(
    "text", ["Action: open fridge 1", "Act: Open the fridge 1.", '{"action": "open fridge 1"}', "open fridge 1"]
)
def test_an_action_goes_on_with_the_subgoal(text: str) -> None:
    assert read(text, SECOND) == (Said("Action: open fridge 1", OPEN),)


@pytest.mark.parametrize(
    ("text", "grammar", "reason"),
    [
        ("Subgoal: find it", SECOND, "A subgoal comes with its first action."),
        ("**Subgoal:**\nAction: done", SECOND, "A subgoal is one line, not an empty one."),
        ("Action: done", SubgoalGrammar(SKILLS, goes_on=False), "There is no subgoal yet."),
        ("Subgoal: a\nAction: done", SubgoalGrammar(SKILLS, begins=False), "has just begun"),
        ("Subgoal: a\nSubgoal: b\nAction: done", SECOND, "Say one subgoal at a time."),
        ("Subgoal: a\nAction: done\nSubgoal: b\nAction: failure", SECOND, "Say one decision at a time"),
        ("Subgoal: a\nAction: fly", SECOND, "'fly' is not among the skills"),
        ("Expand:\n- control flow: sequence\n- subgoals: a, b", SECOND, "Say 'Action: ' and an action, or 'Subgoal: '"),
    ],
)
def test_a_subgoal_that_cannot_begin_is_refused(text: str, grammar: Grammar, reason: str) -> None:
    assert reason in refusal(text, grammar)


# ---------------------------------------------------------------------- skills that are not listed

FREE = DecisionGrammar(SKILLS, free=True)


@pytest.mark.parametrize(
    "text",
    [
        "Act: pour jug in pot", "Act:  pour jug   in pot.", "Action: `pour jug in pot`",
        "**Act:** [pour jug in pot]", "Act: pour jug in pot\nAct: Pour jug in pot.",
        "Act: pour jug in pot\nObservation: You pour it.\nAct: done", '{"action": "pour jug in pot"}',
    ],
)  # fmt: skip
def test_where_skills_are_free_one_that_is_not_listed_is_what_was_said(text: str) -> None:
    assert decisions(text, FREE) == [Act("pour jug in pot")]


def test_a_free_skill_may_have_sentences_in_its_brackets() -> None:
    assert decisions("Act: search[18 oz. Water bottle]", FREE) == [Act("search[18 oz. Water bottle]")]
    assert "It cannot be told" in refusal("Act: search[18 oz. Water]. It is near.", FREE)
    assert decisions("Act: click[< Prev]", FREE) == [Act("click[< Prev]")]
    assert "It cannot be told" in refusal("Act: search[18 oz. Water]. Or should I not?", FREE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pour jug in pot", "A decision starts with"),
        ("open the jug", "A decision starts with"),
        ("Act: pour jug in pot\nAct: pour jug in sink", "Say one decision at a time"),
        ("Do not\nAct: pour jug in pot", "It cannot be told whether"),
        ("Act:", "Nothing follows 'Act:'"),
        ('Act: " "', "Nothing follows 'Act:'"),
        (f"Act: pour {'very ' * 200}much", "is too long for an action (1009 characters)"),
        ("Act: Act: Act: Act: Act: pour", "begins like another decision"),
    ],
)
def test_a_free_skill_is_not_guessed_either(text: str, reason: str) -> None:
    assert reason in refusal(text, FREE)


def test_a_free_skill_that_was_cut_is_not_taken() -> None:
    assert "was cut" in refusal("Act: pour jug in", FREE, cut=True)


# ---------------------------------------------------------------------- any text at all

FRAGMENTS = [
    "Think:", "Act:", "Action:", "Thought:", "Expand:", "Observation:", "Subgoal:", "Answer:", "Step 1:", "OK.",
    "- control flow: ", "- subgoals: ", "sequence", "parallel", "a, b", ";", "1. ", "2) ", "- ", "* ", "> ", "# ",
    "go to kitchen 1", "open fridge 1", "done", "grab apple 2", "the", "not", "if", "or", "You see", "Wait", "No.",
    "{", "}", "[", "]", '"', "'", ":", ",", "{}", "[]", '{"action": "', '"}', "null", "{'act': 'done'}", "\\", "\\u",
    "```", "```json\n", "**", "__", "`", "~~", "<", ">", "<think>", "</think>", "<action>", "</action>",
    "<|im_end|>", *("\n\r\t \u00a0\u2028\x00\x85\ud83dé\uff1a\uff11❌…"),
]  # fmt: skip
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=30).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(" ".join),
)
grammars = st.sampled_from(
    [
        GRAMMAR, DecisionGrammar(SKILLS, []), DecisionGrammar([], [SequenceFlow]), FREE, SECOND,
        SubgoalGrammar(SKILLS, goes_on=False), SubgoalGrammar(SKILLS, begins=False),
    ]
)  # fmt: skip


def taken(reading: Callable[[], Taken]) -> Taken | None:
    try:
        return reading()
    except Unreadable as error:
        reason = str(error)
    assert len(reason.splitlines()) == 1
    return None


@pytest.mark.slow
@given(texts, grammars, st.booleans())
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_decision_that_may_be_said_or_is_refused_in_one_line(
    text: str, grammar: Grammar, cut: bool
) -> None:
    said = taken(lambda: read(text, grammar, cut=cut))
    if said is None:
        return
    *before, last = [one.decision for one in said]
    assert all(isinstance(thought, Think) for thought in before)
    assert all(len(one.text.split("\n")) == (3 if isinstance(one.decision, Expand) else 1) for one in said)
    if isinstance(last, Act):
        assert last.skill in grammar.skills or (grammar.free and last.skill == " ".join(last.skill.split()) != "")
    if isinstance(last, Expand):
        assert isinstance(grammar, DecisionGrammar)
        assert type(last.control_flow) in grammar.control_flows
        assert last.subgoals
        assert all(goal.strip() for goal in last.subgoals)
    if isinstance(grammar, DecisionGrammar):
        assert [parse_decision(one.text) for one in said] == [*before, last]
        assert isinstance(last, Think) or read(said[-1].text, grammar) == said[-1:]


@given(texts, st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_a_choice_is_an_option_or_refused_in_one_line(text: str, options: list[str]) -> None:
    assert taken(lambda: read_choice(text, options)) in (*options, None)


@given(st.lists(st.tuples(texts, texts), max_size=3), texts)
@settings(max_examples=200, deadline=None)
def test_any_call_is_a_decision_that_may_be_said_or_is_refused_in_one_line(
    calls: list[tuple[str, str]], text: str
) -> None:
    said = taken(lambda: read_call(calls, GRAMMAR, text=text)) or ()
    assert all(not isinstance(one.decision, Act) or one.decision.skill in SKILLS for one in said)


some_words = st.sampled_from(["go", "to", "pick", "up", "kitchen", "apple", "not", "1", "2", "12", "l", "a", "the"])
skill_words = st.lists(some_words, min_size=1, max_size=5)
dressed = st.sampled_from(
    [
        "Act: {}", "**Action:** {}.", "2. Act: `{}`", "Sure! Act: {}", '{{"action": "{}"}}', "Act[{}]", "{}",
    ]
)  # fmt: skip


def without_articles(skill: str) -> list[str]:
    return [word for word in skill.split() if word not in ("a", "the")]


@pytest.mark.slow
@given(st.lists(skill_words.map(" ".join), min_size=1, max_size=8, unique=True), skill_words.map(" ".join), dressed)
@settings(max_examples=300, deadline=None)
def test_a_skill_is_taken_only_where_its_words_and_no_others_are_said(
    available: list[str], said: str, dress: str
) -> None:
    decided = taken(lambda: read(dress.format(said), DecisionGrammar(available)))
    if decided is not None and isinstance(act := decided[-1].decision, Act):
        assert act.skill == said or said not in available
        assert without_articles(act.skill) == without_articles(said)


LONG = {
    "braces": "{" * LONGEST,
    "arrays in an argument": '{"action": "go", "input": ' + "[" * 900 + "1" + "]" * 900 + "}",
    "stars": "x" + "*" * 30_000 + "y",
    "labels and questions": "so, " * 9000 + "act: done",
    "numbers": "Expand:\n- control flow: sequence\n- subgoals: " + "1. a " * 7000,
    "sentences": "I go. " * 6000 + "Act: done",
    "turns": "<|im_end|>" * 3500,
    "escapes": '{"a": "' + "\\" * 30_000,
    "lines": "Act: done\n" * 3900,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_texts_are_read_or_refused_as_others_are(text: str) -> None:
    # A pattern that takes time in the square of a text's length would take minutes here, one that is worse for ever.
    for grammar in (GRAMMAR, SECOND):
        said = taken(lambda: read(text[:LONGEST], grammar, cut=True))  # noqa: B023
        assert all(isinstance(one.decision, Act | Think | Expand) for one in said or ())
    assert len(own_words(text, GRAMMAR)) <= len(text)


@pytest.mark.parametrize("flow", default_flows())
@given(st.lists(st.text(max_size=30), max_size=4))
@settings(max_examples=60, deadline=None)
def test_an_expansion_in_json_holds_the_subgoals_as_they_were_or_is_refused(
    flow: type[ControlFlow], goals: list[str]
) -> None:
    text = json.dumps({"expand": {"control_flow": flow.name, "subgoals": goals}})
    for said in taken(lambda: read(text, GRAMMAR)) or ():
        assert isinstance(said.decision, Expand)
        assert said.decision.control_flow == flow()
        assert len(said.decision.subgoals) <= len(goals)
        assert parse_decision(said.text) == said.decision
