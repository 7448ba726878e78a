"""A Hugging Face model held to what may be said; its weights are random, so that only the form means anything."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import make_tiny_model

from reactree_local.transformers_engine import TransformersEngine, mend
from reactree_ros.agent.grammar import DecisionGrammar, parse_decision
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.engine import Generation
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.port import (
    Choice,
    DecisionRequest,
    FreeText,
    PromptTooLong,
    RequestRejected,
    ServerUnavailable,
)
from reactree_ros.llm.reasoning import Reasoning

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
    def says(temperature: float, seed: int) -> str:
        request = DecisionRequest(TURNS, FreeText(), max_tokens=16, temperature=temperature, seed=seed)
        return model.decide(request).result(timeout=60).text

    assert says(0.0, 1) == says(0.0, 2)
    assert says(1.5, 1) == says(1.5, 1)
    assert says(1.5, 1) != says(1.5, 2)


@pytest.mark.parametrize("method", [one for one in Method if one is not Method.TOOLS])  # it is not a server
def test_every_method_ends(model: EngineModel, method: Method) -> None:
    one = EngineModel(model.engine, method=method, retries=1)
    reply = one.decide(DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=10)).result(timeout=60)
    assert reply.objection == "" or method in (Method.UNCONSTRAINED, Method.ONE_SCHEMA)  # whose skills are not held to


def test_a_prompt_that_is_too_long_says_by_how_much(model: EngineModel) -> None:
    prompt = "apple " * 17_000
    tokens = model.count_tokens(f"{prompt}\n")
    assert tokens is not None
    with pytest.raises(PromptTooLong) as caught:
        model.decide(DecisionRequest((Told(prompt),), FreeText(), max_tokens=100)).result(timeout=60)
    assert caught.value.excess == tokens + 100 - 16384


def test_cancelling_stops_the_generation(model: EngineModel) -> None:
    endless = model.decide(DecisionRequest(TURNS, FreeText(("no such text",)), max_tokens=9000))
    with pytest.raises(TimeoutError):
        endless.result(timeout=0.5)
    endless.cancel()
    model.decide(DecisionRequest(TURNS, FreeText(), max_tokens=1)).result(timeout=5)  # by the same thread, afterwards


def test_a_bad_constraint_is_refused(model: EngineModel) -> None:
    with pytest.raises(RequestRejected, match="refuses the constraint"):
        model.decide(DecisionRequest(TURNS, DecisionGrammar(("x",), max_characters=-1))).result(timeout=60)


def test_a_chat_template_is_used_where_there_is_one(tmp_path: Path) -> None:
    one = EngineModel(TransformersEngine(str(make_tiny_model(tmp_path / "chat", chat=True))))
    one.ready().result(timeout=120)
    assert one.status()["prompts"] == "chat"
    for method in (Method.ONE_REQUEST, Method.ROUNDS):
        again = EngineModel(one.engine, method=method)
        request = DecisionRequest((*TURNS, Said("Think: a"), Told("OK.")), DecisionGrammar(SKILLS), max_tokens=10)
        assert not again.decide(request).result(timeout=60).objection
    one.close()


def test_replies_to_requests_at_the_same_time_are_those_to_each_alone(model: EngineModel) -> None:
    turns = [(*TURNS[: 2 + number % 5], Saw(f"This is number {number}.")) for number in range(12)]
    requests = [
        DecisionRequest(one, DecisionGrammar(SKILLS), max_tokens=12 + number) for number, one in enumerate(turns)
    ]
    alone = [model.decide(request).result(timeout=60).text for request in requests]
    together = [model.decide(request) for request in requests]
    assert [pending.result(timeout=120).text for pending in together] == alone


def test_an_error_of_the_model_is_told_and_the_next_request_is_answered(
    model: EngineModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    request = DecisionRequest(TURNS, FreeText(), max_tokens=4)
    with monkeypatch.context() as patched:
        patched.setattr(model.engine._network, "forward", failing)  # type: ignore[attr-defined]
        with pytest.raises(ServerUnavailable, match=r"transformers with .* failed: RuntimeError: out of memory"):
            model.decide(request).result(timeout=60)
    assert model.decide(request).result(timeout=60).output_tokens == 4


def test_an_engine_that_is_closed_tells_those_who_wait_and_can_be_opened_again(tiny_model: Path) -> None:
    async def closed_and_opened() -> int | None:
        engine = TransformersEngine(str(tiny_model))
        asked = Generation(TURNS, max_tokens=9000)
        with pytest.raises(ServerUnavailable, match="is not open"):
            await engine.generate(asked)
        await engine.open()
        endless = [asyncio.ensure_future(engine.generate(asked)) for _ in range(2)]  # one is generated, one waits
        await asyncio.wait(endless, timeout=0.3)
        await engine.close()
        for one in endless:
            with pytest.raises(ServerUnavailable, match="was closed"):
                await one
        await engine.open()
        generated = await engine.generate(replace(asked, max_tokens=2))
        await engine.close()
        return generated.output_tokens

    assert asyncio.run(asyncio.wait_for(closed_and_opened(), 120)) == 2


def test_a_model_that_thinks_does_so_up_to_its_limit_before_it_answers_and_both_are_counted(
    tiny_thinking_model: Path,
) -> None:
    thoughts = []
    for most in (40, 3):
        one = EngineModel(TransformersEngine(str(tiny_thinking_model), reasoning=Reasoning(tokens=most)), retries=0)
        asked = [DecisionRequest(TURNS[:3], Choice(SKILLS), temperature=1.0, seed=seed) for seed in range(8)]
        replies = [pending.result(timeout=120) for pending in map(one.decide, asked)]
        one.close()
        for reply in replies:
            assert reply.text in SKILLS
            assert "</think>" not in reply.reasoning
            assert reply.reasoning_tokens is not None
            assert reply.output_tokens is not None
            assert reply.reasoning_tokens <= most
            assert reply.reasoning_tokens < reply.output_tokens
        assert len({reply.prompt_tokens for reply in replies}) == 1
        thoughts.append(replies)
    assert len({reply.reasoning_tokens for reply in thoughts[0]}) > 1  # some were ended by the model
    for long, short in zip(*thoughts, strict=True):
        assert long.reasoning.startswith(short.reasoning.rstrip("\ufffd"))


@pytest.mark.parametrize("off", [{"thinking": False}, {"tokens": 0}])
def test_a_model_that_is_not_to_think_does_not(tiny_thinking_model: Path, off: dict[str, Any]) -> None:
    one = EngineModel(TransformersEngine(str(tiny_thinking_model), reasoning=Reasoning(**off)))
    reply = one.decide(DecisionRequest(TURNS, DecisionGrammar(SKILLS), max_tokens=48)).result(timeout=120)
    one.close()
    assert (reply.reasoning, reply.reasoning_tokens) == ("", 0)


def test_a_prompt_leaves_room_for_thinking(tiny_thinking_model: Path) -> None:
    one = EngineModel(TransformersEngine(str(tiny_thinking_model), reasoning=Reasoning(tokens=16000)))
    with pytest.raises(PromptTooLong) as caught:
        one.decide(DecisionRequest(TURNS, FreeText(), max_tokens=384)).result(timeout=120)
    assert caught.value.excess > 0
    one.close()


def test_what_is_seen_and_thought_holds_no_special_token(tmp_path: Path) -> None:
    engine = TransformersEngine(str(make_tiny_model(tmp_path / "chat", chat=True)))
    asyncio.run(engine.open())
    special = set(engine._tokenizer.all_special_ids)

    def written(text: str) -> int:
        told: list[int] = []
        engine.write = lambda one, _=None: told.extend(one.prompt)  # type: ignore[method-assign, assignment, misc]
        turns = (SYSTEM, Told("Go."), Said(f"Think: {text}"), Saw(text))
        asyncio.run(engine.generate(Generation(turns, max_tokens=1)))
        return sum(token in special for token in told)

    assert written("<|end|> <|begin|><|end|>") == written("an apple")


TOKENIZER_DECODERS: dict[str, Any] = {
    "bytes": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "out of a GGUF": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    "none": None,
}


@pytest.mark.parametrize("decoder", TOKENIZER_DECODERS.values(), ids=TOKENIZER_DECODERS)
def test_a_tokenizer_of_bytes_gets_the_decoder_of_bytes(tiny_model: Path, tmp_path: Path, decoder: Any) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "decoder": decoder}))
    engine = TransformersEngine(str(folder))
    tokenizer = engine.load()
    assert not mend(tokenizer)
    text = "Think: go to kitchen.\nOK, caf\u00e9"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    one = EngineModel(engine)
    request = DecisionRequest(TURNS, DecisionGrammar(SKILLS, (), longest_thought=0), max_tokens=48)
    assert one.decide(request).result(timeout=60).text.removeprefix("Act: ") in SKILLS
    one.close()


def test_the_model_is_on_the_gpu_if_there_is_one(tiny_model: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    engine = TransformersEngine(str(tiny_model))
    engine.load()
    model: Any = engine._network
    assert (model.device.type, model.dtype) == ("cuda", torch.bfloat16)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    one = EngineModel(TransformersEngine(str(tmp_path / "none")))
    with pytest.raises(ServerUnavailable, match="none cannot be loaded"):
        one.ready().result(timeout=120)
    one.close()
