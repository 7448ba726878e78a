"""A Hugging Face model held to what may be said; its weights are random, so that only the form means anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from metered_server import wait_until
from tiny import make_tiny_model

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.parser import parse_decision
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.transformers_engine import TransformersEngine

pytestmark = pytest.mark.llm

SKILLS = (*(f"go to kitchen cabinet {number}" for number in range(1, 60)), "done", "failure")
SYSTEM = Told("You are a robot.\nTarget_domain:", About.SYSTEM)
TURNS = (SYSTEM, Told("Your task is to: go"), *[Saw("You see a kitchen cabinet (1).")] * 20)


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Iterator[EngineModel]:
    one = EngineModel(TransformersEngine(str(tiny_model)))
    one.ready().result(timeout=120)
    yield one
    one.close()


@pytest.mark.parametrize("seed", range(12))
def test_every_decision_is_one(model: EngineModel, seed: int) -> None:
    request = DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=48, temperature=1.5, seed=seed)
    reply = model.decide(request).result(timeout=60)
    if not reply.objection:  # an expansion that was cut is none, and is said to be none
        parse_decision(reply.text)
    else:
        assert reply.finish_reason == "length"


def test_a_choice_is_one_of_the_options(model: EngineModel) -> None:
    for seed in range(8):
        reply = model.decide(DecisionRequest(TURNS, Choice(SKILLS), max_tokens=1, temperature=2.0, seed=seed))
        assert reply.result(timeout=60).text in SKILLS


def test_what_is_known_of_a_prompt_changes_nothing_but_the_time(tiny_model: Path, model: EngineModel) -> None:
    longer = DecisionRequest((*TURNS, Saw("You see a fridge (1).")), DecisionGrammar(SKILLS), max_tokens=32)
    model.decide(DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=32)).result(timeout=60)
    warm = model.decide(longer).result(timeout=60)
    fresh = EngineModel(TransformersEngine(str(tiny_model)))
    cold = fresh.decide(longer).result(timeout=120)
    fresh.close()
    assert (warm.text, warm.prompt_tokens) == (cold.text, cold.prompt_tokens)
    assert cold.cached_tokens == 0
    assert warm.cached_tokens is not None
    assert warm.prompt_tokens is not None
    assert warm.cached_tokens > 0.9 * warm.prompt_tokens


def test_seed_and_temperature(model: EngineModel) -> None:
    def said(temperature: float, seed: int) -> str:
        request = DecisionRequest(TURNS, FreeText(), max_tokens=16, temperature=temperature, seed=seed)
        return model.decide(request).result(timeout=60).text

    assert said(0.0, 1) == said(0.0, 2)
    assert said(1.5, 1) == said(1.5, 1)
    assert said(1.5, 1) != said(1.5, 2)


@pytest.mark.parametrize("method", list(Method))
def test_every_method_ends(model: EngineModel, method: Method) -> None:
    one = EngineModel(model.engine, method=method, retries=1)
    reply = one.decide(DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=24)).result(timeout=60)
    assert reply.objection == "" or method is Method.UNCONSTRAINED


def test_a_prompt_that_is_too_long_says_by_how_much(model: EngineModel) -> None:
    prompt = "apple " * 17_000
    tokens = model.count_tokens(f"{prompt}\n")
    assert tokens is not None
    with pytest.raises(PromptTooLong) as caught:
        model.decide(DecisionRequest((Told(prompt),), FreeText(), max_tokens=100)).result(timeout=60)
    assert caught.value.excess == tokens + 100 - 16384


def test_cancelling_stops_the_generation(model: EngineModel) -> None:
    endless = model.decide(DecisionRequest(TURNS, FreeText(("no such text",)), max_tokens=9000))
    wait_until(model.engine._worker._work_queue.empty)  # type: ignore[attr-defined]
    endless.cancel()
    assert model.decide(DecisionRequest(TURNS, FreeText(), max_tokens=2)).result(timeout=20).text is not None


def test_a_bad_constraint_is_refused(model: EngineModel) -> None:
    with pytest.raises(RequestRejected, match="refuses the constraint"):
        model.decide(DecisionRequest(TURNS, DecisionGrammar(("x",), max_characters=-1))).result(timeout=60)


def test_a_chat_template_is_used_where_there_is_one(tmp_path: Path) -> None:
    one = EngineModel(TransformersEngine(str(make_tiny_model(tmp_path / "chat", chat=True))))
    one.ready().result(timeout=120)
    assert one.status()["prompts"] == "chat"
    for method in (Method.ONE_REQUEST, Method.ROUNDS):
        again = EngineModel(one.engine, method=method)
        request = DecisionRequest((*TURNS, Said("Think: a"), Told("OK.")), DecisionGrammar(SKILLS), max_tokens=24)
        assert not again.decide(request).result(timeout=60).objection
    one.close()


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    one = EngineModel(TransformersEngine(str(tmp_path / "none")))
    with pytest.raises(ServerUnavailable, match="none cannot be loaded"):
        one.ready().result(timeout=120)
    one.close()
