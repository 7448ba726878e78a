"""The real server of llama.cpp with eyes of random weights: a picture is counted, cached, and told from another."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clients import Model, ask
from drawn import drawn
from smollm2 import need

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import Picture
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.llm.port import FreeText, Reply

pytestmark = pytest.mark.real

_SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.mmproj.path = sys.argv[1], sys.argv[2]
params.mmproj_use_gpu = False
params.hostnames, params.port, params.n_ctx, params.n_batch, params.n_parallel = ["127.0.0.1"], 0, 4096, 256, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.use_jinja, params.endpoint_props, params.warmup = True, True, False
server = xllamacpp.Server(params)
print("at", server.listening_address, flush=True)
while True: time.sleep(3600)
"""
START: tuple[Turn, ...] = (Told("You are a robot. " * 20, About.SYSTEM), Told("Your task is to: look."))


@contextmanager
def served(model: Path, eyes: str) -> Iterator[str]:
    command = [sys.executable, "-u", "-c", _SERVE, str(model), eyes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            at = next((line.split()[1] for line in process.stdout if line.startswith("at ")), None)
            assert at, "the server has ended"
            yield f"{at}/v1"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    need("xllamacpp", "test-real")
    need("gguf", "test-real")
    from tiny_gguf import make_tiny_gguf
    from tiny_mmproj import make_tiny_mmproj

    folder = tmp_path_factory.mktemp("tiny")
    return make_tiny_gguf(folder / "tiny.gguf", chat=True), make_tiny_mmproj(folder / "mmproj.gguf")


def saw(*pictures: Picture) -> Saw:
    observation = Observation("You look around.", pictures=pictures)
    return Saw(observation.told, observation)


def test_a_picture_is_counted_cached_and_told_from_another(files: tuple[Path, Path], model: Model) -> None:
    from tiny_mmproj import TOKENS

    first, second = drawn(1, width=100, height=80), drawn(2, width=100, height=80)

    def asked(*turns: Turn) -> Reply:
        return ask(sees, *START, *turns, may_say=FreeText(), max_tokens=4)

    with served(files[0], str(files[1])) as url:
        sees = model(url, chat=True)
        blank, shown, again = asked(saw()), asked(saw(first)), asked(saw(first))
        grown, other = asked(saw(first), Said("Think: a cup"), Told("OK."), saw(second)), asked(saw(second))
    assert [one.pictures for one in (blank, shown, again, grown, other)] == [0, 1, 1, 2, 1]
    counts = [one.prompt_tokens or 0 for one in (blank, shown, again)]
    assert counts[1] == counts[2]
    assert counts[1] - counts[0] >= TOKENS
    cached = [one.cached_tokens or 0 for one in (shown, again, grown, other)]
    assert cached[1] == counts[1] - 1, "all of it but the last token, which is read again"
    assert cached[2] >= counts[1] - 10, "what follows is read on"
    assert cached[3] <= counts[0], "another picture is read anew"
    assert all(not one.warning for one in (blank, shown, again, grown, other))


@pytest.mark.parametrize("settings", [{}, {"sees": True}], ids=["auto", "said to see"])
def test_a_model_without_eyes_goes_on_with_the_words(
    files: tuple[Path, Path], model: Model, settings: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    turns = (*START, saw(drawn(1, words="a cup")))
    with served(files[0], "") as url, caplog.at_level(logging.WARNING):
        blind = model(url, chat=True, **settings)
        replies = [ask(blind, *turns, may_say=FreeText(), max_tokens=4) for _ in "ab"]
    assert all(one.pictures == 0 and "sees no pictures" in one.warning for one in replies)
    refusals = [one.getMessage() for one in caplog.records if "it is shown no pictures" in one.getMessage()]
    assert len(refusals) == len(settings), "it is asked before, unless somebody says that it sees"
