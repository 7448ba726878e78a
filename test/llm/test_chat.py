"""Turns as the messages of a chat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.port import prompt_text

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


lines = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=20)
exchanges = st.lists(st.tuples(lines, lines), max_size=8)


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
