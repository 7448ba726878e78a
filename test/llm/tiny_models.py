"""A tiny model of random weights, and one that thinks, once per session: fixtures."""

from __future__ import annotations

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
