"""The weights of the small model that comes with the package, run by vLLM: it decides as transformers does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asked import Asked

from reactree_lab.household.generator import generate_house
from reactree_local.small import PACKAGED
from reactree_ros.episode import Episode
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.llm.spec import make_model, model_settings, trained_for
from reactree_ros.planners.spec import planner

pytestmark = pytest.mark.llm

DECISIONS = 60


@pytest.fixture(scope="module")
def requests() -> list[DecisionRequest]:
    """What a planner asks on its way through houses."""
    asked, (name, *_) = Asked(), trained_for(PACKAGED)
    for task in parse_tasks(generate_house(seed=9_000_200, tasks=6)):
        with SymbolicWorld(task) as world:
            Episode(task.instruction, world=world, model=asked, planner=planner(name)).run()
    assert len(asked.requests) >= DECISIONS
    return asked.requests[:DECISIONS]


def decisions(requests: list[DecisionRequest], llm: str, **settings: Any) -> list[str]:
    model = make_model(*model_settings(llm, settings, where="test"))
    try:
        model.ready().result(timeout=300)
        return [model.decide(request).result(timeout=120).text for request in requests]
    finally:
        model.close()


def test_vllm_decides_as_transformers_does(requests: list[DecisionRequest], tiny_model: Path) -> None:
    """With ``tiny_model``, which needs torch, too; vLLM's server is asked in ``benchmarks/small.py``."""
    pytest.importorskip("vllm", reason="needs the vLLM engine; `make test-llm` has it")
    by_transformers = decisions(requests, "transformers", model=str(PACKAGED))
    options = {"dtype": "float32", "max_model_len": 8192, "engine_args": {"enforce_eager": True}}
    by_vllm = decisions(requests, "vllm", model=str(PACKAGED), **options)
    differ = sum(one != other for one, other in zip(by_vllm, by_transformers, strict=True))
    print(f"{differ} of {len(requests)} decisions differ")  # noqa: T201
    assert not differ
