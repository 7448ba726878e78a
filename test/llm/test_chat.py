"""Turns as the messages of a chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.llm.chat import ChatLayout, Message, Rendering, chat_messages, find_layout
from reactree_ros.llm.port import RequestRejected, ServerUnavailable, prompt_text

START = start_turn("System text.", ["Your task is to: an example\nThink: e\nOK."])
TASK = (Told("Your task is to: x"), Saw("You are here."))
OK = Told("OK.", About.ANSWER)


def contents(*turns: Turn, begun: str = "") -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in chat_messages(turns, begun)]


def test_who_it_is_with_the_examples_is_the_systems_and_the_task_is_the_users() -> None:
    assert chat_messages((START, *TASK)) == [
        {"role": "system", "content": START.text},
        {"role": "user", "content": "Your task is to: x\nYou are here."},
    ]


def test_what_the_model_said_is_the_assistants_and_the_answers_are_the_users() -> None:
    refusal = Told("That is not there.", About.REFUSAL)
    assert contents(START, *TASK, Said("Think: a"), OK, Said("Act: b"), Saw("You b."), Said("Act: c"), refusal)[2:] == [
        ("assistant", "Think: a"),
        ("user", "OK."),
        ("assistant", "Act: b"),
        ("user", "You b."),
        ("assistant", "Act: c"),
        ("user", "That is not there."),
    ]


def test_what_is_begun_is_the_last_message() -> None:
    assert contents(START, *TASK, begun="Expand:\n- control flow:")[-1] == ("assistant", "Expand:\n- control flow:")


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


def test_a_task_that_looks_like_a_target_stays_the_users() -> None:
    task = Told("Your task is to: find\nTarget_domain:\nit")
    assert contents(START, task) == [("system", START.text), ("user", task.text)]
    assert contents(task) == [("user", task.text)]


WITHOUT_SYSTEM = ChatLayout(system=False)


def test_where_no_system_message_is_taken_its_text_begins_the_first_message_of_the_users() -> None:
    turns = (START, *TASK, Said("Think: a"), OK)
    with_system, without = chat_messages(turns), chat_messages(turns, layout=WITHOUT_SYSTEM)
    assert without[0] == {"role": "user", "content": f"{START.text}\n{with_system[1]['content']}"}
    assert without[1:] == with_system[2:]


def test_a_system_text_that_nothing_of_the_users_follows_is_the_users() -> None:
    assert contents(START) == [("user", START.text)]
    assert contents(START, Said("Think: a"), OK) == [("user", START.text), ("assistant", "Think: a"), ("user", "OK.")]


def test_a_system_text_that_comes_later_is_the_users() -> None:
    assert contents(START, *TASK, Said("Think: a"), Told("Be quick.", About.SYSTEM))[-1] == ("user", "Be quick.")


lines = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=20)
#: What is left of what a world says; a turn of nothing is no message.
seen = lines.map(lambda text: Saw(text).text).filter(lambda text: text and "\n" not in text)
exchanges = st.lists(st.tuples(lines, seen), max_size=8)


@given(exchanges)
def test_messages_hold_the_whole_prompt_and_grow_at_their_end_only(exchanged: list[tuple[str, str]]) -> None:
    turns: tuple[Turn, ...] = (START, *TASK)
    earlier = chat_messages(turns)
    for text, answer in exchanged:
        turns += (Said(text), Saw(answer))
        messages = chat_messages(turns)
        assert messages[: len(earlier)] == earlier
        assert [message["content"] for message in messages[len(earlier) :]] == [text, answer]
        earlier = messages
    assert "\n".join(message["content"] for message in earlier) + "\n" == prompt_text(turns)


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


TAKES_IT = {as_they_are: True, opens_the_reply: True, joins_it_to_the_first_message: True}
DOES_NOT = {refuses_a_system_message: False, drops_a_system_message: False, joins_it_to_the_last_message: False}


def layout_of(write: Callable[[list[Message]], Rendering]) -> ChatLayout:
    async def render(messages: list[Message]) -> Rendering:
        return write(messages)

    return asyncio.run(find_layout(render))


@pytest.mark.parametrize(("template", "takes_it"), [*TAKES_IT.items(), *DOES_NOT.items()])
def test_what_a_template_does_to_the_system_message_is_found_by_text_and_by_tokens(
    template: Callable[[list[Message]], str], takes_it: bool
) -> None:
    assert layout_of(template) == ChatLayout(system=takes_it)
    assert layout_of(lambda messages: [ord(letter) for letter in template(messages)]) == ChatLayout(system=takes_it)


@pytest.mark.parametrize("template", [as_they_are, drops_a_system_message, refuses_a_system_message])
def test_by_the_number_of_tokens_it_is_found_whether_a_system_message_is_kept(
    template: Callable[[list[Message]], str],
) -> None:
    assert layout_of(lambda messages: len(template(messages))) == ChatLayout(system=template is as_they_are)


@pytest.mark.parametrize("template", [leaves_thoughts_out, leaves_all_thoughts_but_the_last_out])
@pytest.mark.parametrize("shown", [str, list, len])
def test_whether_earlier_thoughts_are_left_out_is_found_by_text_tokens_and_their_number(
    template: Callable[[list[Message]], str], shown: Callable[[str], Rendering]
) -> None:
    assert layout_of(lambda messages: shown(template(messages))) == ChatLayout(thoughts=False)


def test_thoughts_that_a_template_would_leave_out_later_are_left_out_from_the_first() -> None:
    said = Said("<think>It is there.</think>\nAct: go to kitchen 1")
    assert chat_messages((*TASK, said))[-1]["content"] == said.text
    assert chat_messages((*TASK, said), layout=ChatLayout(thoughts=False))[-1]["content"] == "Act: go to kitchen 1"


def test_what_cannot_be_known_is_taken_for_granted() -> None:
    assert layout_of(lambda _: None) == ChatLayout()
    assert layout_of(lambda messages: as_they_are(messages) if len(messages) < 3 else None) == ChatLayout()


def test_a_server_that_is_gone_meanwhile_is_no_layout() -> None:
    def gone(_: list[Message]) -> str:
        raise ServerUnavailable("nothing listens there")

    with pytest.raises(ServerUnavailable):
        layout_of(gone)
