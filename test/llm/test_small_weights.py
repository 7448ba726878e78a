"""The weights of the small model that comes with the package, run by vLLM: it decides as transformers does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metered_server import MeteredServer

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.episode import Episode
from reactree_ros.llm.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.llm.settings import make_model, model_settings
from reactree_ros.llm.small.engine import PACKAGED
from reactree_ros.llm.trained import trained_for
from reactree_ros.pending import Pending
from reactree_ros.planners.spec import planner
from reactree_ros.world.virtualhome.generator import generate_house
from reactree_ros.world.virtualhome.symbolic import SymbolicWorld
from reactree_ros.world.virtualhome.tasks import parse_tasks

pytestmark = pytest.mark.llm

DECISIONS = 60


class Asked(ExpertModel):
    """The expert, which keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, DecisionGrammar):
            self.requests.append(request)
        return super().decide(request)


@pytest.fixture(scope="module")
def requests() -> list[DecisionRequest]:
    """What a planner asks on its way through houses."""
    asked, (name,) = Asked(), trained_for(PACKAGED)
    for task in parse_tasks(generate_house(seed=9_000_200, tasks=6)):
        with SymbolicWorld(task) as world:
            Episode(task.instruction, world=world, model=asked, planner=planner(name)).run()
    assert len(asked.requests) >= DECISIONS
    return asked.requests[:DECISIONS]


def said(requests: list[DecisionRequest], llm: str, **settings: Any) -> list[str]:
    model = make_model(*model_settings(llm, settings, where="test"))
    try:
        model.ready().result(timeout=300)
        return [model.decide(request).result(timeout=120).text for request in requests]
    finally:
        model.close()


@pytest.fixture(scope="module")
def by_transformers(requests: list[DecisionRequest], tiny_model: Path) -> list[str]:  # which needs torch, too
    return said(requests, "transformers", model=str(PACKAGED))


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    pytest.importorskip("vllm", reason="needs the vLLM engine; `make test-llm` has it")
    with MeteredServer(PACKAGED, max_model_len=8192) as server:
        server.wait_until_ready()
        yield server.base_url


def same(said_there: list[str], by_transformers: list[str]) -> None:
    differ = sum(pair[0] != pair[1] for pair in zip(said_there, by_transformers, strict=True))
    print(f"{differ} of {len(by_transformers)} decisions differ")  # noqa: T201
    assert not differ


def test_vllm_in_this_process_decides_alike(requests: list[DecisionRequest], by_transformers: list[str]) -> None:
    pytest.importorskip("vllm", reason="needs the vLLM engine; `make test-llm` has it")
    options = {"dtype": "float32", "max_model_len": 8192, "engine_args": {"enforce_eager": True}}
    same(said(requests, "vllm", model=str(PACKAGED), **options), by_transformers)


def test_vllms_server_decides_alike(requests: list[DecisionRequest], by_transformers: list[str], base_url: str) -> None:
    same(said(requests, "openai", base_url=base_url, chat=False), by_transformers)
