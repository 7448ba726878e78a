"""A tiny model of random weights, and one that thinks, once per session: fixtures; and how their tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from tiny import make_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _need_transformers()
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def tiny_thinking_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose chat template opens a thought, which the model of this seed ends at some time."""
    _need_transformers()
    return make_tiny_model(tmp_path_factory.mktemp("model") / "thinking", seed=2, thinking=True)


def _need_transformers() -> None:
    if find_spec("torch") is None or find_spec("transformers") is None:
        pytest.skip("needs torch and transformers; `make test-llm` has them")


def wait_until(condition: Callable[[], object], *, seconds: float = 120.0) -> None:
    """Wait until a condition holds: vLLM's processes spin where they wait, and leave the others little of two cores."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.01)
