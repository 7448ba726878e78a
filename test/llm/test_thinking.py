"""How a model thinks and then answers: what it is asked in which order, whatever engine generates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from reactree_ros.agent.turns import Told
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.reasoning import MARKS
from reactree_ros.llm.thinking import Thinking

HELD = Constraint(ConstraintKind.CHOICE, ["done", "failure"])
ASKED = Generation((Told("x"),), begun="Act: ", constraint=HELD, stops=("\n",), max_tokens=9)
THINK = Thinking(marks=MARKS[0], after="\n\n", tokens=20, always=False, mark_tokens=3)
CHANNELS = Thinking(marks=MARKS[-1], after="", tokens=20, always=True, mark_tokens=9)


class Speaker:
    """Says what follows each text; keeps what it was asked."""

    def __init__(self, says: Mapping[str, str]) -> None:
        self.says = says
        self.asked: list[tuple[str, Generation, bool]] = []

    async def __call__(self, text: str, generation: Generation, *, marked: bool = False) -> Generated:
        self.asked.append((text, generation, marked))
        return Generated(self.says[text], "stop", len(text), len(self.asked), len(self.says[text]))


def answered(thinking: Thinking, prompt: str, says: Mapping[str, str]) -> tuple[Generated, Speaker]:
    speaker = Speaker(says)
    return asyncio.run(thinking.answer(prompt, ASKED, speaker)), speaker


def test_a_thought_that_the_prompt_opens_is_thought_freely_and_the_answer_is_held_to_what_may_be_said() -> None:
    prompt = "user: x assistant: <think>\n"
    generated, speaker = answered(THINK, prompt, {prompt: "Hm.\n", f"{prompt}Hm.\n</think>\n\nAct: ": "done"})
    (_, thinking, marked), (_, answering, unmarked) = speaker.asked
    assert thinking == replace(ASKED, constraint=None, stops=("</think>",), max_tokens=20)
    assert answering == ASKED
    assert (marked, unmarked) == (True, False)
    assert generated == Generated("done", "stop", len(prompt), 1, 8, reasoning="Hm.", reasoning_tokens=4)


def test_a_model_that_begins_to_think_where_that_is_up_to_it_thinks() -> None:
    says = {"x": "\n<think>", "x<think>": "Hm.", "x<think>Hm.</think>\n\nAct: ": "done"}
    generated, speaker = answered(THINK, "x", says)
    assert [generation.max_tokens for _, generation, _ in speaker.asked] == [3, 20, 9]
    assert (generated.reasoning, generated.reasoning_tokens, generated.output_tokens) == ("Hm.", 3, 8 + 3 + 4)
    assert (generated.prompt_tokens, generated.cached_tokens) == (1, 1)


def test_a_model_that_begins_otherwise_answers() -> None:
    generated, _ = answered(THINK, "x", {"x": "Act", "xAct: ": "done"})
    assert (generated.text, generated.reasoning, generated.reasoning_tokens) == ("done", "", None)
    assert generated.output_tokens == 3 + 4


def test_a_model_that_is_told_to_think_is_not_asked_whether_it_would() -> None:
    says = {"x<think>": "Hm.", "x<think>Hm.</think>\n\nAct: ": "done"}
    generated, _ = answered(replace(THINK, always=True), "x", says)
    assert generated.reasoning == "Hm."


@pytest.mark.parametrize("thinking", [THINK, replace(THINK, tokens=0), replace(THINK, always=True)])
def test_a_thought_that_the_prompt_closes_is_none(thinking: Thinking) -> None:
    prompt = "x<think>\n\n</think>\n\n"
    generated, speaker = answered(thinking, prompt, {f"{prompt}Act: ": "done"})
    assert [generation for _, generation, _ in speaker.asked] == [ASKED]
    assert generated.reasoning_tokens is None
    assert thinking.room(prompt) == 0


@pytest.mark.parametrize("prompt", ["x", "x<think>\n"])
def test_a_model_that_is_not_to_think_finds_its_thought_closed(prompt: str) -> None:
    closed = "x<think></think>\n\n" if prompt == "x" else "x<think>\n</think>\n\n"
    generated, _ = answered(replace(THINK, tokens=0), prompt, {f"{closed}Act: ": "done"})
    assert (generated.text, generated.reasoning) == ("done", "")


def test_channels_are_left_at_the_end_of_the_first_and_the_answer_has_its_own() -> None:
    begin = "<|start|>assistant<|channel|>analysis<|message|>"
    end = "<|end|><|start|>assistant<|channel|>final<|message|>"
    says = {begin: "Hm.", f"{begin}Hm.{end}Act: ": "done"}
    generated, speaker = answered(CHANNELS, "<|start|>assistant", says)
    assert speaker.asked[0][1].stops == ("<|end|>",)
    assert (generated.text, generated.reasoning) == ("done", "Hm.")


def test_room_is_left_for_the_thought_and_its_marks() -> None:
    assert THINK.room("x") == 20 + 2 * 3


def test_what_is_not_counted_stays_unknown() -> None:
    async def uncounted(text: str, generation: Generation, *, marked: bool = False) -> Generated:
        return Generated("<think>", "stop")

    assert asyncio.run(THINK.answer("x", ASKED, uncounted)).output_tokens is None
