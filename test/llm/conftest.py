"""The real engine for tests: a tiny model of random weights, and a vLLM server of it, once per session."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator

import pytest
from clients import Model, Serve, clients, serving
from tiny import CPU
from tiny_models import tiny_model, tiny_thinking_model

from reactree_ros.llm import waiting

__all__ = ["tiny_model", "tiny_thinking_model"]

for name, value in CPU.items():
    os.environ.setdefault(name, value)


@pytest.fixture(autouse=True)
def _no_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Reads the warnings logged so far, without those of waits: a busy machine has them anywhere."""

    def read() -> list[str]:
        logged = (one for one in caplog.records if one.levelno >= logging.WARNING and one.name != waiting.log.name)
        return [one.getMessage() for one in logged]

    return read


@pytest.fixture
def model() -> Iterator[Model]:
    """Makes language models of a peer."""
    with clients() as make:
        yield make


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts peers with a language model each."""
    with serving() as one:
        yield one
