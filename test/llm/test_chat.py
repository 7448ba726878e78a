"""A prompt as the turns of a chat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.prompt import TARGET
from reactree_ros.llm.chat import chat_turns

START = f"System text.\nSource domain:\nYour task is to: an example\nThink: e\nOK.{TARGET}"
TASK = "Your task is to: x\nYou are here.\n"


def spans(prompt: str, *said: str) -> list[tuple[int, int]]:
    """Where texts stand in a prompt, one after the other."""
    found, begin = [], 0
    for text in said:
        begin = prompt.index(text, begin)
        found.append((begin, begin + len(text)))
        begin += len(text)
    return found


def test_what_comes_before_the_task_is_the_systems() -> None:
    assert chat_turns(START + TASK) == [
        {"role": "system", "content": START.strip("\n")},
        {"role": "user", "content": TASK.strip("\n")},
    ]


def test_what_the_model_said_is_the_assistants_and_the_answers_are_the_users() -> None:
    prompt = f"{START}{TASK}Think: a\nOK.\nAct: b\nYou b.\n"
    assert [
        (turn["role"], turn["content"]) for turn in chat_turns(prompt, spans(prompt, "Think: a", "Act: b"))[1:]
    ] == [
        ("user", TASK.strip("\n")),
        ("assistant", "Think: a"),
        ("user", "OK."),
        ("assistant", "Act: b"),
        ("user", "You b."),
    ]


def test_what_is_begun_is_the_last_turn() -> None:
    assert chat_turns(START + TASK, begun="Expand:\n- control flow:")[-1] == {
        "role": "assistant",
        "content": "Expand:\n- control flow:",
    }


def test_a_prompt_without_a_target_is_the_users() -> None:
    assert chat_turns("Say a word: ") == [{"role": "user", "content": "Say a word: "}]


def test_an_instruction_that_looks_like_a_target_stays_the_users() -> None:
    prompt = f"{START}Your task is to: find{TARGET}it\n"
    assert [turn["role"] for turn in chat_turns(prompt)] == ["system", "user"]


lines = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=20)
exchanges = st.lists(st.tuples(lines, lines), max_size=8)


@given(exchanges)
def test_turns_hold_the_whole_prompt_and_grow_at_their_end_only(exchanged: list[tuple[str, str]]) -> None:
    prompt, said = START + TASK, list[tuple[int, int]]()
    earlier = chat_turns(prompt)
    for text, answer in exchanged:
        said.append((len(prompt), len(prompt) + len(text)))
        prompt += f"{text}\n{answer}\n"
        turns = chat_turns(prompt, said)
        assert turns[: len(earlier)] == earlier
        assert [turn["content"] for turn in turns[len(earlier) :]] == [text, answer]
        earlier = turns
    assert "\n".join(turn["content"] for turn in earlier) + "\n" == prompt
