"""Free text is never cut, dropped or changed: in words, JSON and calls of tools, also while a reply still comes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.parameters import ParameterError, Person, Text
from reactree_ros.agent.reading import Unreadable, read, read_call, whole_part
from reactree_ros.agent.skill import Offer, Skill, SkillCall

SAY = Skill(name="say", wording="say {text}", parameters={"text": Text(200)})
TELL = Skill(name="tell", wording="tell {text} to {person}", parameters={"text": Text(200), "person": Person()})
GRAMMAR = DecisionGrammar(
    ("done", "failure", "pick up cup 1", "recall location of cup"),
    offers=(Offer(SAY), Offer(TELL, {"person": ("Anna", "Bob")})),
)
#: What means something to a reader, and nothing inside a text.
TRAPS = (
    "Hello Anna. This is from Bob. Please take it", "Please wait and then press up", "I'm sorry, I can't help.",
    "done", "Act: done", "Hello Anna. Act: done", "Thought: I am here", "Observation: you are here", "Answer: 42",
    "Expand:", "*important*", "**Anna**, `now`", "_so_ it is", "1. one", "- item", "# heading", "> quoted",
    "<b>bold</b>", 'He said "hi" and left', "'single' and more", "it’s “curly”", "😀 hi", "\uff11 cup",
    "Hello — Anna", "no. 5 is alive", "[hi]", "(whisper) hi", '{"a": 1}', "a ``` b", "C:\\new\\table", "none",
    "null", "a, b; c", "a_b_c", "?", "…", "hi.", "on kitchen table 1", "pick up cup 1", "wait! No, stop.", "say hi",
    "Human: hi", "double  blank", "You are at home", "tell Bob to Anna", "to Anna", ": colon", "ends with a colon:",
    "{text}", "// not a comment", "<|im_end|> is said", ":)", "!", "no</s>", "end_of.", "A" * 200,
)  # fmt: skip


def in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


#: The ways to say a text to its end.
WAYS: dict[str, Callable[[str], str]] = {
    "in quotes": lambda text: f"Act: say {in_quotes(text)}",
    "in quotes, with a full stop": lambda text: f"Act: say {in_quotes(text)}.",
    "in quotes, explained": lambda text: f"**Action:** say {in_quotes(text)}\nI say this because Anna waits.",
    "in quotes, in brackets": lambda text: f"Action: say({in_quotes(text)})",
    "after a thought": lambda text: f"Think: Somebody has to be told.\nAct: say {in_quotes(text)}",
    "in a tag": lambda text: f"<answer>Act: say {in_quotes(text)}</answer>",
    "in bold": lambda text: f"**Act: say {in_quotes(text)}**",
    "in a fence": lambda text: f"Here is my action:\n```\nAct: say {in_quotes(text)}\n```",
    "alone": lambda text: f"say {in_quotes(text)}",
    "as an input": lambda text: f"Action: say\nAction Input: {in_quotes(text)}",
    "as a JSON input": lambda text: f"Action: say\nAction Input: {json.dumps({'text': text})}",
    "as JSON": lambda text: json.dumps({"decision": {"Act": {"say": {"text": text}}}}),
    "as words in JSON": lambda text: json.dumps({"decision": {"Act": f"say {in_quotes(text)}"}}),
    "as fields": lambda text: f"Sure.\n```json\n{json.dumps({'skill': 'say', 'text': text}, ensure_ascii=False)}\n```",
    "as fields behind its name": lambda text: f"Think: Anna waits.\n**Act:** say {json.dumps({'text': text})}",
    "as fields in lines": lambda text: f"```json\n{json.dumps({'act': {'say': {'text': text}}}, indent=2)}\n```",
    "as an input in lines": lambda text: (
        f"Action: say\nAction Input:\n{json.dumps({'text': text}, indent=2)}\nI say this because Anna waits."
    ),
    "as a tool": lambda text: json.dumps({"name": "say", "arguments": {"text": text}}),
}
#: Those in which nothing marks its end but that of the line.
TO_THE_END: dict[str, Callable[[str], str]] = {
    "by its label": lambda text: f"Act: say {text}",
    "by another label": lambda text: f"**Action**: say {text}",
    "explained": lambda text: f"Act: say {text}\nThis is because Anna waits.",
    "after a thought": lambda text: f"Think: Somebody has to be told.\nAct: say {text}",
    "as words in JSON": lambda text: json.dumps({"decision": {"Act": f"say {text}"}}),
    "before a tag": lambda text: f"<answer>\nAct: say {text}\n</answer>",
}


def said(reply: str) -> SkillCall:
    decision = read(reply, GRAMMAR)[-1].decision
    assert isinstance(decision, Act)
    assert isinstance(decision.skill, SkillCall)
    return decision.skill


def is_plain(text: str) -> bool:
    return text[:1] not in "\"'“„«\u2018({:" and "</" not in text and "<|" not in text


MARKS = (
    "Act:", "say", "to Anna", "done", "**", "*x*", "`", "{", "}", "[", ")", "#", "“", "\u2019", "...", "Expand:",
    "\\", ". I", "?", "! No", '"', "'", "on kitchen table 1", "and then", "<b>", "</b>", "😀", "—", ",",
)  # fmt: skip
#: Any text of one line, of words, marks and blanks that a reader knows.
LINES = (
    st.lists(
        st.one_of(
            st.sampled_from(MARKS),
            st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8),
        ),
        min_size=1,
        max_size=12,
    )
    .map(" ".join)
    .filter(lambda text: len(text) <= 200 and any(map(str.isalnum, text)))
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", TRAPS)
def test_what_stands_in_quotes_is_the_text_in_every_way(way: str, text: str) -> None:
    assert said(WAYS[way](text)).values == {"text": text}


@pytest.mark.parametrize("way", TO_THE_END)
@pytest.mark.parametrize("text", [text for text in TRAPS if is_plain(text)])
def test_what_goes_to_the_end_of_the_line_is_the_text(way: str, text: str) -> None:
    assert said(TO_THE_END[way](text)).values == {"text": text}


@pytest.mark.slow
@given(st.sampled_from(sorted(WAYS)), LINES)
def test_whatever_stands_in_quotes_is_the_text(way: str, text: str) -> None:
    assert said(WAYS[way](text)).values == {"text": text}


@given(st.sampled_from(sorted(TO_THE_END)), LINES.filter(is_plain))
def test_whatever_goes_to_the_end_of_the_line_is_the_text(way: str, text: str) -> None:
    assert said(TO_THE_END[way](text)).values == {"text": text}


@pytest.mark.parametrize("text", ["Hello. " * 40, "I wait. " * 30 + "on kitchen table 1"])
@pytest.mark.parametrize("way", [*WAYS.values(), *TO_THE_END.values()])
def test_a_text_that_is_too_long_is_refused_and_never_cut(way: Callable[[str], str], text: str) -> None:
    with pytest.raises(
        Unreadable, match=r"text: a text of \d+ characters may not stand here, but a text of at most 200"
    ):
        read(way(text.strip()), GRAMMAR)
    with pytest.raises(Unreadable, match="text: a text of"):
        read_call([("say", json.dumps({"text": text.strip()}))], GRAMMAR)


@pytest.mark.parametrize("text", ["Hello Anna,\nplease take it.", "Hello.\nAct: done", "It's me,\n\nObservation: b"])
def test_a_text_of_several_lines_is_one_in_json_and_refused_in_words(text: str) -> None:
    one = " ".join(text.split())
    assert said(json.dumps({"act": f"say {text}"})).values == {"text": one}
    assert said(f"Act: say {json.dumps(text)}").values == {"text": one}
    for begin, end in ('""', "“”", "„“", "«»", "\u2018\u2019", "''"):
        with pytest.raises(Unreadable, match=r"has no end|Say one decision|A decision"):
            read(f"Act: say {begin}{text}{end}", GRAMMAR)


@pytest.mark.parametrize("way", ["as fields in lines", "as an input in lines"])
def test_nor_inside_a_value_of_several_lines(way: str) -> None:
    reply = WAYS[way]("Hello Anna. Act: done").removesuffix("\nI say this because Anna waits.")
    wholes = [whole_part(reply[:at], GRAMMAR) for at in range(len(reply))]
    assert {read(whole, GRAMMAR)[-1].decision for whole in wholes if whole} <= {read(reply, GRAMMAR)[-1].decision}


def test_a_skill_that_nothing_announces_and_another_decision_on_its_line_are_asked_back() -> None:
    for reply in ("say Hello Anna. Act: done", "Say hello first. Act: say Hello"):
        with pytest.raises(Unreadable):
            read(reply, GRAMMAR)


@pytest.mark.parametrize(
    "quotes", ["“{}”", "„{}“", "«{}»", "\u2018{}\u2019", "'{}'", "'{}'.", "“{}”.", ':"{}"', '("{}")', '(text="{}")']
)
def test_quotes_and_calls_of_every_kind_are_no_part_of_the_text(quotes: str) -> None:
    blank = "" if quotes[0] in ":(" else " "
    for text in ("Hello Anna. I wait", "It's Anna\u2019s, isn't it"):
        assert said(f"Act: say{blank}{quotes.format(text)}").values == {"text": text}


@pytest.mark.parametrize("nothing", ['""', '" "', "", '{"text": ""}'])
def test_an_empty_text_is_refused(nothing: str) -> None:
    with pytest.raises(Unreadable, match="text: nothing is said here"):
        read(f"Act: say {nothing}", GRAMMAR)


@pytest.mark.parametrize(
    "fields", ['{"text": "a", "text": "b"}', '{"text": "a", "TEXT": "b"}', '{"a": 1}', "{}", '["a"]']
)
def test_only_its_own_fields_once_are_read_behind_its_name(fields: str) -> None:
    assert SAY.read(f"say {fields}") == f"say {in_quotes(fields) if fields[0] == '{' else fields}"
    with pytest.raises(ParameterError, match="is not said as"):
        TELL.read(f"tell {fields}")
    assert TELL.read('tell {"person": "Anna", "text": "b"}', {"person": ["Anna"]}) == 'tell "b" to Anna'
