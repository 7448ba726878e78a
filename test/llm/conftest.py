"""The real engine for tests: a tiny model of random weights, and a vLLM server of it, once per session."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from clients import Model, clients
from metered_server import SECRET, MeteredServer
from tiny_models import tiny_model, tiny_thinking_model

from reactree_ros.llm import waiting

__all__ = ["tiny_model", "tiny_thinking_model"]

# Of torch and of vLLM in this process: several threads of several engines on few cores wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")


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


@pytest.fixture(scope="session")
def tiny_server(tiny_model: Path) -> Iterator[MeteredServer]:
    """One server for all tests, which leave it alive: starting one takes as long as all of them. It asks for a key."""
    _need_vllm()
    with MeteredServer(tiny_model, max_model_len=8192, api_key=SECRET) as server:
        server.wait_until_ready()
        yield server


def _need_vllm() -> None:
    if find_spec("vllm") is None:
        pytest.skip("needs the vLLM engine; `make test-llm` has it")
