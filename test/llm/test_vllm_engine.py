"""The vLLM engine in this process, with a tiny model of random weights: only the form of what it says has meaning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from metered_server import wait_until
from thinkers import check_thoughts, generated

from reactree_ros.agent.grammar import DecisionGrammar, parse_decision
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.engine import Generation
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, PromptTooLong, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

pytestmark = pytest.mark.llm

SKILLS = (*(f"go to kitchen cabinet {number}" for number in range(1, 60)), "done", "failure")
SYSTEM = Told("You are a robot.\nTarget_domain:", About.SYSTEM)
TURNS = (SYSTEM, Told("Your task is to: go"), *[Saw("You see a kitchen cabinet (1).")] * 20)
OPTIONS = {"dtype": "float32", "enforce_eager": True, "max_model_len": 8192, "distributed_executor_backend": "uni"}


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Iterator[EngineModel]:
    pytest.importorskip("vllm", reason="needs the vLLM engine; `make test-llm` has it")
    from reactree_ros.llm.vllm_engine import VllmEngine

    one = EngineModel(VllmEngine(str(tiny_model), options=OPTIONS))
    one.ready().result(timeout=180)
    yield one
    one.close()


def running(model: EngineModel) -> int:
    """Requests that the engine has, by its own count."""
    return int(model.engine._llm.output_processor.get_num_unfinished_requests())  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(6))
def test_every_decision_is_one(model: EngineModel, seed: int) -> None:
    request = DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=48, temperature=1.5, seed=seed)
    reply = model.decide(request).result(timeout=60)
    if not reply.objection:
        parse_decision(reply.text)
    else:
        assert reply.finish_reason == "length"


def test_a_choice_is_one_of_the_options_and_repeatable(model: EngineModel) -> None:
    said = {model.decide(DecisionRequest(TURNS, Choice(SKILLS), max_tokens=1)).result(timeout=60).text for _ in "ab"}
    assert len(said) == 1
    assert said < set(SKILLS)


def test_the_prefix_cache_serves_what_was_asked_before(model: EngineModel) -> None:
    request = DecisionRequest((Told("Once more."), *TURNS * 8), FreeText(), max_tokens=4)
    first, second = (model.decide(request).result(timeout=60) for _ in "ab")
    assert first.cached_tokens == 0
    assert second.cached_tokens is not None
    assert second.prompt_tokens is not None
    assert second.cached_tokens > 0.9 * second.prompt_tokens


def test_rounds_come_to_a_decision(model: EngineModel) -> None:
    model._method = Method.ROUNDS  # of this model: the engine belongs to the event loop that it was opened in
    try:
        reply = model.decide(DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=10)).result(timeout=60)
    finally:
        model._method = None
    parse_decision(reply.text)


def test_a_prompt_that_is_too_long_says_by_how_much(model: EngineModel) -> None:
    prompt = "apple " * 9000
    tokens = model.count_tokens(f"{prompt}\n")
    assert tokens is not None
    with pytest.raises(PromptTooLong) as caught:
        model.decide(DecisionRequest((Told(prompt),), FreeText(), max_tokens=100)).result(timeout=60)
    assert abs(caught.value.excess - (tokens + 100 - 8192)) <= 1  # the first token of a text may be a special one


def test_cancelling_aborts_in_the_engine(model: EngineModel) -> None:
    endless = model.decide(DecisionRequest(TURNS, FreeText(("no such text",)), max_tokens=7000))
    wait_until(lambda: running(model) == 1)
    endless.cancel()
    wait_until(lambda: running(model) == 0)


def test_a_run_is_ended_by_its_budget_and_every_skill_was_available(model: EngineModel) -> None:
    task = load_tasks(HOUSES["apartment"])[0]
    episode = Episode(
        task.instruction,
        world=SymbolicWorld(task),
        model=model,
        planner=planner("reactree_wm"),
        options=TreeOptions(
            max_decisions=8, max_tokens=64, temperature=1.0, stuck_after=0, refused_in_a_row=0, refused_share=1.0
        ),
    )
    result = episode.run()
    assert result.end in ("done", "failure", "out_of_decisions"), result.message
    assert not any("not available" in node.text for node in episode.context.nodes)
    assert result.prompt_tokens
    assert result.cached_tokens is not None


def test_an_engine_that_dies_is_named_and_started_again(model: EngineModel) -> None:
    psutil = pytest.importorskip("psutil")
    endless = model.decide(DecisionRequest(TURNS, FreeText(("no such text",)), max_tokens=7000))
    wait_until(lambda: running(model) == 1)
    for process in psutil.Process().children(recursive=True):
        if "EngineCore" in process.name():
            process.kill()
    with pytest.raises(ServerUnavailable, match="has died; the next request starts it again"):
        endless.result(timeout=60)
    assert model.decide(DecisionRequest(TURNS, FreeText(), max_tokens=2)).result(timeout=180).text is not None


def test_a_model_that_thinks_does_so_before_it_answers_and_both_are_counted(tiny_thinking_model: Path) -> None:
    pytest.importorskip("vllm")
    from reactree_ros.llm.vllm_engine import VllmEngine

    engine = VllmEngine(str(tiny_thinking_model), reasoning=Reasoning(tokens=10), options=OPTIONS)
    replies = generated(engine, range(16))
    check_thoughts(replies, tokens=10)
    assert len({reply.prompt_tokens for reply in replies}) == 1
    assert engine.status()["thinks"] == "between <think> and </think>, at most 10 tokens"


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_request_that_the_engine_gives_up_on_is_a_failure_and_no_text(tiny_model: Path, reason: str) -> None:
    pytest.importorskip("vllm")
    from reactree_ros.llm.vllm_engine import VllmEngine

    async def given_up(*_: object, **__: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(outputs=[SimpleNamespace(text="Act: ", finish_reason=reason, token_ids=[1])])

    engine = VllmEngine(str(tiny_model), options=OPTIONS)
    engine._llm = SimpleNamespace(generate=given_up)
    with pytest.raises(ServerUnavailable, match=f"gave up on the request .finish_reason '{reason}'"):
        asyncio.run(engine._complete([1], Generation(TURNS), marked=False))


def test_an_unknown_option_is_named(tiny_model: Path) -> None:
    pytest.importorskip("vllm")
    from reactree_ros.llm.vllm_engine import VllmEngine

    one = EngineModel(VllmEngine(str(tiny_model), options={"max_model_length": 4}))
    with pytest.raises(UserError, match=r"'max_model_length' is unknown to vllm .*near: max_model_len"):
        one.ready().result(timeout=120)
    one.close()
