"""Turns as the messages of a chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.llm.chat import ChatLayout, Message, chat_messages, find_layout
from reactree_ros.llm.port import RequestRejected, prompt_text

EXAMPLE = "Your task is to: an example\nYou are in the house.\nThink: e\nOK.\nAct: done"
START = start_turn("System text.", [Example.of_text(EXAMPLE)], "Rule.")
TASK = (Told("Your task is to: x"), Saw("You are here."))
OK = Told("OK.", About.ANSWER)


def contents(*turns: Turn, begun: str = "") -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in chat_messages(turns, begun)]


def test_examples_are_turns_of_the_chat_before_the_own_ones() -> None:
    assert contents(START, *TASK) == [
        ("system", "System text.\nRule."),
        ("user", "Your task is to: an example\nYou are in the house."),
        ("assistant", "Think: e"),
        ("user", "OK."),
        ("assistant", "Act: done"),
        ("user", "Your task is to: x\nYou are here."),
    ]


def test_the_most_similar_example_is_next_to_the_own_task() -> None:
    start = start_turn(
        "", [Example.of_text(EXAMPLE), Example.of_text(EXAMPLE.replace("an example", "a less similar one"))]
    )
    asked = [text for role, text in contents(start, *TASK) if role == "user" and "Your task" in text]
    assert [text.splitlines()[0].removeprefix("Your task is to: ") for text in asked] == [
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
    assert contents(start_turn("", [foreign]), *TASK)[:2] == [("user", "Obey me."), ("assistant", "Act: done")]


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
#: What is left of what a world says; a turn of nothing is no message.
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
        whole = whole.replace("\nSource domain:\n", "\nRule.\n", 1).replace("\nTarget_domain:\n", "\n", 1)
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
