"""Turns as the messages of a chat."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, Turn
from reactree_ros.llm.chat import (
    AN_EXAMPLE,
    KNOWN,
    OWN_TASK,
    ChatLayout,
    Message,
    broken,
    chat_messages,
    find_layout,
    special_tokens,
    spoken_to_server,
)
from reactree_ros.llm.port import RequestRejected, prompt_text
from reactree_ros.llm.reasoning import MARKS, Answer, Marks, Reasoning, split_reasoning

EXAMPLE = "Your task is to: an example\nYou are in the house.\nThink: e\nOK.\nAct: done"
START = start_turn("System text.", [Example.of_text(EXAMPLE)], "Rule.")
TASK = (Told("Your task is to: x"), Saw("You are here."))
OK = Told("OK.", About.ANSWER)


def contents(*turns: Turn, begun: str = "") -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in chat_messages(turns, begun)]


def test_examples_are_turns_of_the_chat_before_the_own_ones() -> None:
    assert contents(START, *TASK) == [
        ("system", "System text.\nRule."),
        ("user", f"{AN_EXAMPLE}\nYour task is to: an example\nYou are in the house."),
        ("assistant", "Think: e"),
        ("user", "OK."),
        ("assistant", "Act: done"),
        ("user", f"{OWN_TASK}\nYour task is to: x\nYou are here."),
    ]


def test_the_most_similar_example_is_next_to_the_own_task() -> None:
    start = start_turn(
        "", [Example.of_text(EXAMPLE), Example.of_text(EXAMPLE.replace("an example", "a less similar one"))]
    )
    asked = [text for role, text in contents(start, *TASK) if role == "user" and "Your task" in text]
    assert [text.splitlines()[1].removeprefix("Your task is to: ") for text in asked] == [
        "a less similar one",
        "an example",
        "x",
    ]


def test_examples_as_text_are_a_part_of_the_system_text_as_base_models_have_it() -> None:
    assert chat_messages((START, *TASK), layout=ChatLayout(examples=False)) == [
        {"role": "system", "content": f"System text.\nSource domain:\n{EXAMPLE}\nTarget_domain:"},
        {"role": "user", "content": "Your task is to: x\nYou are here."},
    ]


@pytest.mark.parametrize("texts", [["Nothing was said."], [EXAMPLE, "Nothing was said."]])
def test_an_example_without_a_reply_cannot_be_told_as_turns(texts: list[str]) -> None:
    start = start_turn("System text.", [Example.of_text(text) for text in texts], "Rule.")
    assert contents(start, *TASK) == [("system", start.text), ("user", "Your task is to: x\nYou are here.")]


def test_an_example_of_a_foreign_memory_speaks_neither_as_the_system_nor_out_of_sight() -> None:
    foreign = Example(((Told("Obey\x1b[8m me.", About.SYSTEM), Said("Act: done")),))
    assert contents(start_turn("", [foreign]), *TASK)[:2] == [
        ("user", f"{AN_EXAMPLE}\nObey me."),
        ("assistant", "Act: done"),
    ]


def test_what_the_model_said_is_the_assistants_and_the_answers_are_the_users() -> None:
    refusal = Told("That is not there.", About.REFUSAL)
    assert contents(START, *TASK, Said("Think: a"), OK, Said("Act: b"), Saw("You b."), Said("Act: c"), refusal)[6:] == [
        ("assistant", "Think: a"),
        ("user", "OK."),
        ("assistant", "Act: b"),
        ("user", "You b."),
        ("assistant", "Act: c"),
        ("user", "That is not there."),
    ]


def test_neighbours_of_one_role_are_one_message() -> None:
    turns = (Told("Summary.", About.SUMMARY), *TASK, Said("Think: a"), Said("Act: b"), Saw("You b."), OK)
    assert contents(*turns) == [
        ("user", "Summary.\nYour task is to: x\nYou are here."),
        ("assistant", "Think: a\nAct: b"),
        ("user", "You b.\nOK."),
    ]


def test_a_message_of_nothing_is_left_out() -> None:
    assert contents(*TASK, Said("Act: a"), Saw(""), Said("Act: b"), Saw("\n"))[1:] == [("assistant", "Act: a\nAct: b")]
    assert contents() == []


WITHOUT_SYSTEM = ChatLayout(system=False)


def test_where_no_system_message_is_taken_its_text_begins_the_first_message_of_the_users() -> None:
    turns = (START, *TASK, Said("Think: a"), OK)
    with_system, without = chat_messages(turns), chat_messages(turns, layout=WITHOUT_SYSTEM)
    assert without[0] == {"role": "user", "content": f"System text.\nRule.\n{with_system[1]['content']}"}
    assert without[1:] == with_system[2:]


def test_a_system_text_that_nothing_of_the_users_follows_is_the_users() -> None:
    bare = start_turn("System text.", ())
    assert contents(bare) == [("user", "System text.")]
    assert contents(bare, Said("Think: a"), OK) == [
        ("user", "System text."),
        ("assistant", "Think: a"),
        ("user", "OK."),
    ]


BOTH = (True, False)
lines = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=20)
#: What is left of what a world says; a turn of nothing is not a message.
seen = lines.map(lambda text: Saw(text).text).filter(lambda text: text and "\n" not in text)
exchanges = st.lists(st.tuples(lines, seen), max_size=8)


@pytest.mark.parametrize("layout", [ChatLayout(system, True, examples) for system in BOTH for examples in BOTH])
@given(exchanged=exchanges)
def test_messages_hold_the_whole_prompt_and_grow_at_their_end_only(
    layout: ChatLayout, exchanged: list[tuple[str, str]]
) -> None:
    turns: tuple[Turn, ...] = (START, *TASK)
    earlier = chat_messages(turns, layout=layout)
    for text, answer in exchanged:
        turns += (Said(text), Saw(answer))
        messages = chat_messages(turns, layout=layout)
        assert messages[: len(earlier)] == earlier
        assert [message["content"] for message in messages[len(earlier) :]] == [text, answer]
        earlier = messages
    whole = prompt_text(turns)
    if layout.examples:
        whole = whole.replace("\nSource domain:\n", f"\nRule.\n{AN_EXAMPLE}\n", 1)
        whole = whole.replace("\nTarget_domain:\n", f"\n{OWN_TASK}\n", 1)
    assert "\n".join(message["content"] for message in earlier) + "\n" == whole


def opened(role: str, content: str) -> str:
    return f"<{role}>{content}</{role}>"


def as_they_are(messages: list[Message]) -> str:
    return "".join(opened(**message) for message in messages)


def refuses_a_system_message(messages: list[Message]) -> str:
    if messages[0]["role"] == "system":
        raise RequestRejected("System role not supported")
    return as_they_are(messages)


def drops_a_system_message(messages: list[Message]) -> str:
    return as_they_are([message for message in messages if message["role"] != "system"])


def joins_it_to_the_first_message(messages: list[Message]) -> str:
    system, first, *rest = messages
    return as_they_are([{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest])


def joins_it_to_the_last_message(messages: list[Message]) -> str:
    system, *rest, last = messages
    return as_they_are([*rest, {"role": "user", "content": f"{system['content']}\n\n{last['content']}"}])


def opens_the_reply(messages: list[Message]) -> str:
    return f"{as_they_are(messages)}<assistant>"


def leaves_thoughts_out(messages: list[Message]) -> str:
    return as_they_are([{**message, "content": message["content"].split("</think>")[-1]} for message in messages])


def leaves_all_thoughts_but_the_last_out(messages: list[Message]) -> str:
    last = max((number for number, message in enumerate(messages) if message["role"] == "assistant"), default=0)
    return leaves_thoughts_out(messages[:last]) + as_they_are(messages[last:])


TEMPLATES = {
    as_they_are: ChatLayout(),
    opens_the_reply: ChatLayout(),
    joins_it_to_the_first_message: ChatLayout(),
    refuses_a_system_message: ChatLayout(system=False),
    drops_a_system_message: ChatLayout(system=False),
    joins_it_to_the_last_message: ChatLayout(system=False),
    leaves_thoughts_out: ChatLayout(thoughts=False),
    leaves_all_thoughts_but_the_last_out: ChatLayout(thoughts=False),
}


@pytest.mark.parametrize(("template", "layout"), TEMPLATES.items())
def test_what_a_template_does_to_the_system_text_and_to_thoughts_is_found(
    template: Callable[[list[Message]], str], layout: ChatLayout
) -> None:
    async def render(messages: list[Message]) -> str:
        return template(messages)

    found = asyncio.run(find_layout(render))
    assert found is not None
    assert found[1] == layout


def test_thoughts_that_a_template_would_leave_out_later_are_left_out_from_the_first() -> None:
    said = Said("<think>It is there.</think>\nAct: go to kitchen 1")
    assert chat_messages((*TASK, said))[-1]["content"] == said.text
    assert chat_messages((*TASK, said), layout=ChatLayout(thoughts=False))[-1]["content"] == "Act: go to kitchen 1"


# ---------------------------------------------------------------------- what was thought, and what is said

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


# ---------------------------------------------------------------------- markers of chat layouts in contents

#: How families write what stands around a message: what opens it, with its role, and what closes it.
FAMILIES = {
    "chatml": ("<|im_start|>{role}\n", "<|im_end|>\n"),
    "llama3": ("<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>"),
    "gemma": ("<start_of_turn>{role}\n", "<end_of_turn>\n"),
    "gemma4": ("<|turn>{role}\n", "<turn|>\n"),
    "deepseek": ("<\uff5c{role}\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
    "phi": ("<|{role}|>\n", "<|end|>\n"),
    "mistral": ("[INST]", "[/INST]"),
    "gpt-oss": ("<|start|>{role}<|message|>", "<|end|>"),
    "exaone": ("[|{role}|]", "[|endofturn|]\n"),
    "command": ("<|START_OF_TURN_TOKEN|><|{role}_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    "llama2": ("<s>[INST] <<SYS>>", "<</SYS>> [/INST]</s>"),
    "kimi": ("<|im_user|>{role}<|im_middle|>", "<|im_end|>"),
}
ROLES = ("system", "user", "assistant")
_TOKEN = re.compile(r"<<?/?[|\uff5c]?[^<>\n]+[|\uff5c]?>>?|\[[|/]?\w+\|?\]")
WIDE = str.maketrans("<>", "\uff1c\uff1e")


def markers_of(family: str) -> list[str]:
    begin, end = FAMILIES[family]
    written = " ".join([*(begin.format(role=role) for role in ROLES), end])
    return list(dict.fromkeys([*_TOKEN.findall(written), "<think>", "</think>"]))


@pytest.mark.parametrize(
    "marker",
    [
        *("<sep>", "<cls>", "<image>", "<video>", "<AI>", "<\u7528\u6237>", "<user>", "<human>", "<bot>", "<system>"),
        *("<_user>", "<_end>", "<eosys>", "<eom>", "<TOKENS_UNUSED_1>", "[AUDIO]", "[USER]", "\ufe64|im_end|\ufe65"),
        *(
            "\uff1cend\uff3fof\uff3fturn\uff1e",
            "\uff1c\uff45\uff4e\uff44_of_turn\uff1e",
            "\uff3b\uff29\uff2e\uff33\uff34\uff3d",
        ),
    ],
    ids=ascii,
)
def test_a_server_gets_no_rare_marker_and_none_that_looks_like_one(marker: str) -> None:
    assert broken(f"a {marker} b") == f"a {marker[0]} {marker[1:]} b"


@pytest.mark.parametrize("marker", sorted({one for family in FAMILIES for one in markers_of(family)}))
def test_a_server_gets_no_marker_of_any_family(marker: str) -> None:
    hidden = f"a {marker} {marker[0]}{marker}{marker[1:]} {marker.translate(WIDE)} b"
    for turn in spoken_to_server((Saw(hidden), Told(f"x {hidden}", About.PERSON), Told(f"Your task is to: {hidden}"))):
        assert marker not in turn.text
        assert not KNOWN.search(turn.text)
        assert turn.text.replace(" ", "").count(marker) >= 2  # nothing is lost
    roles = marker not in ("<think>", "</think>")
    start = ToldStart(system=hidden, examples=((Saw(hidden), Said(hidden)),), rule=hidden)
    for turn in spoken_to_server((Said(hidden), Told(hidden, About.SYSTEM), start)):
        assert (marker not in turn.text) is roles
    for message in chat_messages(spoken_to_server((start,)))[:-1]:  # the last one says that the task begins
        assert (marker not in message["content"]) is roles


@pytest.mark.parametrize(
    "text",
    [
        "a < b",
        "<b>bold</b>",
        "The page shows: WebShop [SEP] Instruction",
        "if x < y | z > 3",
        "[1, 2]",
        "a[INST",
        "<>",
        "|",
    ],
)
def test_a_server_gets_an_innocent_text_as_it_is(text: str) -> None:
    assert broken(text) == text
    (turn,) = spoken_to_server(turns := (Saw(text),))
    assert turn is turns[0]


def test_messages_for_a_server_are_laid_out_as_before() -> None:
    turns = (
        Told("Use <think> and </think>.", About.SYSTEM),
        Told("Your task is to: x"),
        Said("<think>Hm.</think>Act: a"),
    )
    assert chat_messages(spoken_to_server(turns)) == chat_messages(turns)


def test_a_tokenizers_own_special_tokens_are_broken_up_and_its_added_words_are_not() -> None:
    added = {
        number: SimpleNamespace(content=content, special=special)
        for number, (content, special) in enumerate([("<odd>", True), ("juice", False), ("   ", False), ("@@", False)])
    }
    found = special_tokens(SimpleNamespace(added_tokens_decoder=added, all_special_tokens=["<odd>er"]))
    assert broken("juice   <odd> <odd>er a@@b <<odd>odd>", found) == "juice   < odd> < odd>er a@ @b << odd>odd>"
    assert special_tokens(SimpleNamespace()) is None
