"""The same pretrained model by vLLM on the CPU, from a folder that transformers makes of its GGUF."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Cli
from metered_server import MeteredServer
from smollm2 import assert_nothing_broke, need, unpacked

pytestmark = pytest.mark.llm


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeteredServer]:
    need("vllm", "test-llm")
    folder = unpacked(tmp_path_factory.mktemp("model") / "smollm2")
    with MeteredServer(folder, max_model_len=8192) as one:
        one.wait_until_ready()
        yield one


def test_vllm_is_checked_and_a_run_comes_to_an_end_and_replays(cli: Cli, server: MeteredServer, tmp_path: Path) -> None:
    chosen = ("--llm", "openai", "--base-url", server.base_url)
    checked = cli("llm", "check", *chosen)
    assert (checked.code in (0, 1), "Traceback" in checked.err) == (True, False), checked.err
    record = tmp_path / "run.jsonl"
    short = (
        "--planner",
        "react_wm:fixed_example=false",
        "--max-decisions",
        3,
        "--option",
        "max_tokens=32",
        "--save",
        record,
    )
    ended = cli("run", "Put the book on the bed", "--house", "villa", *chosen, *short)
    assert ended.code in (0, 1), ended.err
    assert_nothing_broke(cli, record)
