"""Whatever comes from outside has a bound before anything reads it, or before it stands in a prompt."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable

import pytest
from doubles import ScriptedWorld
from recode_doubles import run_of

from reactree_lab.planners.recode.sandbox import Limits, Raised, Sandbox
from reactree_ros.agent.decision import DONE
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.text import LONGEST, LONGEST_ERROR, LONGEST_GENERATED, LONGEST_TOLD, bounded
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.llm.decoding import decode
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.port import DecisionRequest, Reply

needs_monty = pytest.mark.skipif(not importlib.util.find_spec("pydantic_monty"), reason="needs the recode extra")
LONG = "a" * 1_000_000
MADE: dict[str, tuple[Callable[[str], str], int]] = {
    "what is said": (lambda text: Said(text).text, LONGEST),
    "what is seen": (lambda text: Saw(text).text, LONGEST),
    "what is told": (lambda text: Told(text, About.ANSWER).text, LONGEST_TOLD),
    "a refusal": (lambda text: Told(text, About.REFUSAL).text, LONGEST_TOLD),
    "an observation": (lambda text: Observation(text).text, LONGEST_TOLD),
    "an error of code": (lambda text: Raised(text, "").traceback, LONGEST_ERROR),
}


@pytest.mark.parametrize("name", MADE)
def test_of_a_long_text_the_beginning_and_the_end_stay_and_it_says_how_much_is_left_out(name: str) -> None:
    make, most = MADE[name]
    text = make(f"the beginning {LONG} the end")
    assert len(text) <= most
    assert text.startswith("the beginning aaa")
    assert text.endswith("aaa the end")
    assert "characters are left out)" in text
    assert make("short, and\nin two lines") == "short, and\nin two lines"


def test_how_much_is_left_out_is_right() -> None:
    text = bounded("b" * 5000, 1000)
    assert text.count("b") + int(text.split("(")[1].split()[0]) == 5000
    assert bounded("b" * 1000, 1000) == "b" * 1000


def test_a_reply_that_is_too_long_was_cut() -> None:
    reply = Reply(LONG)
    assert (len(reply.text), reply.cut) == (LONGEST, True)
    generated = Generated("b" * (LONGEST_GENERATED + 1), "stop")
    assert (len(generated.text), generated.finish_reason) == (LONGEST_GENERATED, "length")


class Says(Engine):
    """Says one thing."""

    name = "it"

    def __init__(self, text: str) -> None:
        self._text = text

    async def open(self) -> None:
        """Is open."""

    async def generate(self, generation: Generation) -> Generated:
        return Generated(self._text, "stop")


def test_a_decision_behind_more_than_may_be_said_is_none() -> None:
    asked = DecisionRequest((), DecisionGrammar((DONE,)))
    reply = asyncio.run(decode(Says(f"{LONG}\nAct: done"), asked, retries=0))
    assert reply.objection
    assert len(reply.text) <= LONGEST
    thought = asyncio.run(decode(Says(f"<think>{LONG}</think>Act: done"), asked, retries=0))
    assert [str(one.decision) for one in thought.said] == ["Act: done"]


# ---------------------------------------------------------------------- code


@needs_monty
@pytest.mark.parametrize("code", ["x = 'a' * 10_000_000", "z = 'a' * 10_000_000\nx = z + z"])
def test_a_variable_that_is_too_large_is_refused_and_the_code_goes_on(code: str) -> None:
    sandbox = Sandbox(limits=Limits(), seed=0)
    try:
        sandbox.start("y = 1").result(timeout=60)
        refused = sandbox.start(code).result(timeout=60)
        assert isinstance(refused, Raised)
        assert refused.traceback.startswith("MemoryError: ")
        assert sandbox.show(["y"]).result(timeout=60) == "- y (int): 1"
        assert isinstance(sandbox.start("x").result(timeout=60), Raised)
    finally:
        sandbox.close().result(timeout=60)


@needs_monty
def test_the_model_is_told_of_an_error_in_few_words_whatever_its_length() -> None:
    script = {"solve": ["raise ValueError('e' * 9_000_000)", "x = 'a' * 10_000_000", "done = 1"]}
    run = run_of(script, ScriptedWorld())
    result = run.run()
    assert result.end != "bug"
    told = [turn.text for turn in run.root.turns if isinstance(turn, Told)]
    assert any("ValueError: eee" in text for text in told)
    assert all(len(text) < 3 * LONGEST_ERROR for text in told)
