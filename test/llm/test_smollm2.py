"""A real pretrained model decides: what it says may reach nothing, but breaks nothing. No goal is asked of it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Cli
from docs.blocks import blocks_of
from smollm2 import PAGE, TOLD, Served, assert_nothing_broke, requests, served
from tiny_models import wait_until

from reactree_lab.planners import zsp
from reactree_ros.memory.embedding import WordEmbedder
from reactree_ros.planners.spec import PLANNERS
from reactree_ros.record.reader import read_record

pytestmark = pytest.mark.real

#: What makes a planner's run short, beside a short prompt.
SHORTER = {"tree_planner": ":plans=2", "recode": ":corrections=1"}

Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("llama.cpp") / "log") as one:
        yield one


@pytest.fixture
def run(server: Served) -> Run:
    """The arguments of a run that the model decides, into a record."""

    def arguments(record: Path, *options: object) -> list[str]:
        chosen = ("--house", "villa", "--llm", "openai", "--base-url", server.base_url, "--option", "max_tokens=32")
        return [str(one) for one in ("run", "Put the book on the bed", *chosen, "--save", record, *options)]

    return arguments


def commands() -> Iterator[list[str]]:
    """Yield the arguments of every `reactree` in the page."""
    for block in blocks_of(PAGE):
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.language == "bash" and line.startswith("reactree "):
                yield shlex.split(line, comments=True)[1:]


def test_the_tutorials_commands_end_as_it_says(
    cli: Cli, server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in commands():
        ended = cli(*(server.base_url if word == TOLD else word for word in command))
        assert ended.code in ((0,) if command[:2] == ["record", "replay"] else (0, 1)), ended.err
        assert "Traceback" not in ended.err
        if command[:2] == ["llm", "check"]:
            assert not ended.out.rstrip().endswith("┘"), "the check's table has no verdict below it"
    (record,) = tmp_path.glob("*.jsonl")
    assert_nothing_broke(cli, record)


@pytest.mark.parametrize("name", PLANNERS.own)  # a plug-in's may want another world
def test_a_run_of_every_planner_comes_to_an_end_and_replays(
    cli: Cli, run: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zsp, "default_embedder", WordEmbedder)  # the sentence embedder needs torch
    monkeypatch.setitem(PLANNERS._loaded, "zsp", replace(zsp.SPEC, needs=()))
    short = f"{name}{SHORTER.get(name, '')}:fixed_example=false"
    ended = cli(*run(tmp_path / "run.jsonl", "--planner", short, "--max-decisions", 2, "--max-steps", 4, "--json"))
    assert ended.code in (0, 1), ended.err
    assert json.loads(ended.out)["attempts"]
    assert_nothing_broke(cli, tmp_path / "run.jsonl")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda one: one.name)
def test_a_run_that_is_killed_in_a_request_is_recorded_up_to_there_and_goes_on(
    cli: Cli, run: Run, server: Served, tmp_path: Path, number: signal.Signals
) -> None:
    record, rest = tmp_path / "run.jsonl", tmp_path / "rest.jsonl"
    command = run(record, "--planner", "react:fixed_example=false", "--option", "stuck_after=0")
    with subprocess.Popen(
        [sys.executable, "-m", "reactree_ros.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:

        def is_in_a_later_request() -> bool:
            assert process.poll() is None, process.communicate()
            return record.exists() and b'"e":"reply"' in record.read_bytes() and server.busy()

        try:
            wait_until(is_in_a_later_request)
            process.send_signal(number)
            assert process.wait(60) == {signal.SIGINT: 130, signal.SIGKILL: -9}[number]
        finally:
            process.kill()
    wait_until(lambda: not server.busy())
    broken_off = read_record(record)
    assert (broken_off.end is not None) == (number == signal.SIGINT)
    decided = len(requests(broken_off))
    again = ("--llm-option", f"base_url={server.base_url}")  # a record may not say whom to ask
    ended = cli("resume", record, *again, "--max-decisions", decided + 2, "--save", rest)
    assert ended.code in (0, 1), ended.err
    assert len(requests(read_record(rest))) > decided
    assert_nothing_broke(cli, rest)
