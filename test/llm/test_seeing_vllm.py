"""The vLLM engine in this process with tiny models that see, of two families: only the form has meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clients import Model, ask
from drawn import drawn
from tiny import TinyServer

from reactree_ros.agent.grammar import DecisionGrammar, parse_decision
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import Picture
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.errors import UserError
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.port import DecisionRequest, FreeText, MaySay, Reply
from reactree_ros.llm.seeing import Seeing

pytestmark = pytest.mark.llm

OPTIONS = {"dtype": "float32", "enforce_eager": True, "max_model_len": 2048, "distributed_executor_backend": "uni"}
START: tuple[Turn, ...] = (Told("You are a robot. " * 60, About.SYSTEM), Told("Your task is to: look."))
#: A block of vLLM's prefix cache on the CPU, in tokens: what does not fill one is not kept.
BLOCK = 128


def make(family: str) -> Callable[[Path], Path]:
    pytest.importorskip("vllm", reason="needs the vLLM engine; `make test-llm` has it")
    if family == "Qwen2-VL":
        pytest.importorskip("torchvision", reason="this family needs torchvision, which the lock leaves out")
    import tiny_eyes

    return tiny_eyes.make_qwen if family == "Qwen2-VL" else tiny_eyes.make_idefics


@pytest.fixture(scope="module", params=["Idefics 3", "Qwen2-VL"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineModel]:
    folder = make(request.param)(tmp_path_factory.mktemp("model"))
    from reactree_ros.llm.vllm_engine import VllmEngine

    one = EngineModel(VllmEngine(str(folder), options=OPTIONS, seeing=Seeing(most=2)))
    one.ready().result(timeout=300)
    yield one
    one.close()


def saw(*pictures: Picture) -> Saw:
    observation = Observation("You look around. " * 40, pictures=pictures)
    return Saw(observation.told, observation)


def shade(number: int) -> Picture:
    return drawn(number, width=112, height=84, words=f"shade {number}")


def asked(engine: EngineModel, *turns: Turn, may_say: MaySay | None = None, max_tokens: int = 4) -> Reply:
    request = DecisionRequest((*START, *turns), may_say or FreeText(), max_tokens=max_tokens)
    return engine.decide(request).result(timeout=120)


def test_a_picture_is_counted_cached_and_told_from_another(engine: EngineModel) -> None:
    assert engine.engine.sees
    blank, shown, again, other = (
        asked(engine, *turns)
        for turns in ((saw(),), (saw(shade(1)), saw()), (saw(shade(1)), saw()), (saw(shade(2)), saw()))
    )
    assert [one.pictures for one in (blank, shown, again, other)] == [0, 1, 1, 1]
    assert shown.picture_tokens == again.picture_tokens > 0 == blank.picture_tokens
    assert shown.prompt_tokens == again.prompt_tokens
    assert shown.prompt_tokens is not None
    assert (again.cached_tokens or 0) > shown.prompt_tokens - BLOCK - 1
    assert (other.cached_tokens or 0) < (again.cached_tokens or 0) - BLOCK, "what follows another picture is read anew"


def test_decisions_are_held_to_the_grammar_after_pictures(engine: EngineModel) -> None:
    reply = asked(engine, saw(shade(3)), may_say=DecisionGrammar(("go to bed 1", "done", "failure")), max_tokens=64)
    assert reply.pictures == reply.requests, "one with each"
    if not reply.objection:
        parse_decision(reply.text)


def test_older_pictures_are_left_out(engine: EngineModel) -> None:
    turns = [turn for number in range(4) for turn in (saw(shade(number)), Said(f"Think: {number}"))]
    reply = asked(engine, *turns, Told("OK."))
    assert reply.pictures == 2


def test_vllms_server_counts_and_caches_a_picture_that_came_with_a_request(tmp_path: Path, model: Model) -> None:
    with TinyServer(make("Idefics 3")(tmp_path / "model"), max_model_len=2048) as server:
        server.wait_until_ready()
        sees = model(server.base_url, sees_newest=2)
        blank, shown, again = (
            ask(sees, *START, *turns, may_say=FreeText(), max_tokens=4)
            for turns in ((saw(),), (saw(shade(1)), saw()), (saw(shade(1)), saw()))
        )
    assert [one.pictures for one in (blank, shown, again)] == [0, 1, 1]
    assert not shown.warning
    assert shown.prompt_tokens == again.prompt_tokens
    assert shown.prompt_tokens is not None
    assert (again.cached_tokens or 0) > shown.prompt_tokens - BLOCK - 1


def test_a_model_that_does_not_see_is_told_in_words(tiny_model: Path) -> None:
    pytest.importorskip("vllm", reason="needs the vLLM engine; `make test-llm` has it")
    from reactree_ros.llm.vllm_engine import VllmEngine

    blind = EngineModel(VllmEngine(str(tiny_model), options=OPTIONS))
    try:
        reply = asked(blind, saw(shade(1)))
        assert (reply.pictures, "sees no pictures" in reply.warning) == (0, True)
        blind.engine._sees = True  # type: ignore[attr-defined]
        with pytest.raises(UserError, match=r"sees is true .* but it is no model that sees"):
            blind.engine._can_see()  # type: ignore[attr-defined]
    finally:
        blind.close()
