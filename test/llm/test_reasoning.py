"""A reply taken apart into what was thought and what is said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.llm.reasoning import MARKS, Answer, Marks, Reasoning, split_reasoning

ACT = "Act: open fridge 1"


@pytest.mark.parametrize("marks", MARKS, ids=lambda marks: marks.begin)
def test_what_stands_between_a_models_marks_is_reasoning(marks: Marks) -> None:
    answer = split_reasoning(f"{marks.begin}\nIs it there?\nAct: done\n{marks.end}\n\n{ACT}")
    assert (answer.text.strip(), answer.reasoning, answer.unfinished) == (ACT, "Is it there?\nAct: done", False)


@pytest.mark.parametrize("marks", MARKS[:-1], ids=lambda marks: marks.end)
def test_the_opening_mark_may_be_part_of_the_prompt(marks: Marks) -> None:
    answer = split_reasoning(f"Is it there?\nAct: done\n{marks.end}\n\n{ACT}")
    assert (answer.text.strip(), answer.reasoning) == (ACT, "Is it there?\nAct: done")


@pytest.mark.parametrize("marks", MARKS, ids=lambda marks: marks.begin)
def test_reasoning_that_nothing_closes_says_nothing(marks: Marks) -> None:
    assert split_reasoning(f"\n{marks.begin}I could say {ACT}") == Answer("", f"I could say {ACT}", unfinished=True)


TEXTS = {
    "nothing thought": (ACT, Answer(ACT)),
    "an empty thought": (f"<think>\n\n</think>\n\n{ACT}", Answer(f"\n\n{ACT}")),
    "another tag": (f"<thinking>a</thinking>{ACT}", Answer(ACT, "a")),
    "capitals": (f"<THINK>a</THINK>{ACT}", Answer(ACT, "a")),
    "Cohere's": (f"<|START_THINKING|>a<|END_THINKING|>{ACT}", Answer(ACT, "a")),
    "closed twice": (f"<think>a</think>b</think>{ACT}", Answer(ACT, "ab")),
    "thought twice": (f"<think>a</think>\n<think>b</think>{ACT}", Answer(ACT, "a\nb")),
    "a word before": (f"Sure.\n<think>a</think>\n{ACT}", Answer(f"Sure.\n{ACT}", "a")),
    "a mark in a thought": ("Think: the <think> tag", Answer("Think: the <think> tag")),
    "open again": (f"a</think>{ACT}\n<think>no", Answer(f"{ACT}\n<think>no", "a")),
    "a tag that is a label": ("<thought>a</thought>", Answer("<thought>a</thought>")),
    "channels": (
        f"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>{ACT}<|return|>",
        Answer(ACT, "a"),
    ),
    "the final channel alone": (f"<|start|>assistant<|channel|>final<|message|>{ACT}", Answer(ACT)),
    "channels with what is told": (
        f"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>Hm.<|end|>"
        f"<|start|>assistant<|channel|>final <|constrain|>text<|message|>{ACT}",
        Answer(f"Hm.\n{ACT}", "a"),
    ),
    "a tool's channel": (
        '<|channel|>commentary to=functions.act <|constrain|>json<|message|>{"skill": "open fridge 1"}<|call|>',
        Answer(json.dumps({"name": "act", "arguments": '{"skill": "open fridge 1"}'})),
    ),
    "an open channel": ("<|channel|>analysis<|message|>I could", Answer("", "I could", unfinished=True)),
    "a channel without a message": ("<|channel|>final", Answer("", unfinished=True)),
    "leaked channels": (f"analysisWe need it.assistantfinal{ACT}", Answer(ACT, "We need it.")),
    "leaked channels with a role": (f"assistantanalysisWe need it.assistantfinal{ACT}", Answer(ACT, "We need it.")),
    "a leaked channel that is open": (f"analysisWe say {ACT}", Answer("", f"We say {ACT}", unfinished=True)),
    "the word": ("analysis of the kitchen", Answer("analysis of the kitchen")),
}


@pytest.mark.parametrize(("text", "answer"), TEXTS.values(), ids=TEXTS)
def test_reasoning_is_told_from_what_is_said(text: str, answer: Answer) -> None:
    assert split_reasoning(text) == answer


NOT_SAID = (
    f"<think>I could say\n{ACT}",
    f"<think>{ACT}</think>",
    f"{ACT}</think>",
    f"[THINK]{ACT}",
    f"analysisI could say {ACT}",
    f"<|channel|>analysis<|message|>{ACT}<|end|>",
    f"{ACT}<think>Wait.</think>No, Act: done",
)


@pytest.mark.parametrize("text", NOT_SAID)
def test_an_act_in_the_reasoning_or_before_more_of_it_is_not_taken(text: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(split_reasoning(text).text, DecisionGrammar(["open fridge 1", "done"]))
    assert len(str(refused.value).splitlines()) == 1


marks = [mark for one in MARKS for mark in (one.begin, one.end)]
fragments = st.sampled_from(
    [*marks, "<|channel|>", "<|message|>", "<|end|>", "analysis", "assistantfinal", "\n", " ", "a"]
)


@pytest.mark.slow
@given(st.lists(fragments, max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_text_is_taken_apart_and_nothing_is_said_twice(text: str) -> None:
    answer = split_reasoning(text)
    assert answer.text.count("a") + answer.reasoning.count("a") <= text.count("a")
    assert not (answer.unfinished and answer.text)


@given(st.lists(st.sampled_from([*marks, ACT, "Think: hm", "\n", "No.", "Wait. "]), max_size=8).map("".join))
@settings(max_examples=300, deadline=None)
def test_what_is_taken_of_a_reply_with_reasoning_stands_outside_of_it(text: str) -> None:
    answer = split_reasoning(text)
    try:
        said = read(answer.text, DecisionGrammar(["open fridge 1", "done"]))
    except Unreadable:
        return
    if isinstance(said[-1].decision, Act | Expand):
        assert ACT in answer.text


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 200_000,
        "<|channel|>" + "a" * 200_000,
        "<think>" * 30_000,
        "</think>" * 30_000,
        "<|channel|>final" * 12_000,
    ],
)
def test_long_texts_are_taken_apart_as_others_are(text: str) -> None:
    # A pattern that takes time in the square of a text's length would take minutes here.
    answer = split_reasoning(text)
    assert len(answer.text) + len(answer.reasoning) <= len(text)


def test_a_chat_template_is_told_what_is_set_and_no_more() -> None:
    assert Reasoning().template_arguments == {}
    assert Reasoning(thinking=False).template_arguments == {"enable_thinking": False, "thinking": False}
    told = Reasoning(thinking=True, effort="low", template={"thinking": "yes", "tools": []}).template_arguments
    assert told == {"enable_thinking": True, "thinking": "yes", "reasoning_effort": "low", "tools": []}
