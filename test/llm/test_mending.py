"""Tokenizers that libraries for grammars misread: mended where that is known, told with the way out where not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from reactree_local.transformers_engine import TransformersEngine
from reactree_ros.agent.grammar import DecisionGrammar, parse_decision
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.llm.engine import Engine
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.mending import mend
from reactree_ros.llm.port import DecisionRequest

pytestmark = pytest.mark.llm

TURNS = (Told("You are a robot.\nTarget_domain:", About.SYSTEM), Told("Your task is to: go"), Saw("You see a cup (1)."))
GRAMMAR = DecisionGrammar(("go to kitchen cabinet 1", "pick up apple 1", "done"))
REPLACE = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
WORDPIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}


def sequence(*decoders: Any) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(decoders)}


#: Decoders of a tokenizer that writes bytes, and whether they need mending.
DECODERS: dict[str, tuple[Any, bool]] = {
    "bytes": (BYTES, False),
    "bytes alone in a sequence": (sequence(BYTES), False),
    "joined bytes": (sequence(FUSE, BYTES), False),
    "out of a GGUF": (sequence(FALLBACK, FUSE, REPLACE, BYTES), True),
    "out of a GGUF, in another order": (sequence(REPLACE, FALLBACK, FUSE, BYTES), True),
    "of another family": (sequence(REPLACE, FALLBACK, FUSE), True),
    "none": (None, True),
}
#: Those of tokenizers that nothing tells how to mend.
UNKNOWN = {"is misread": sequence(REPLACE, FALLBACK, FUSE), "is not taken": WORDPIECE}


@pytest.fixture
def with_decoder(tiny_model: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a copy of the tiny model with another decoder."""

    def make(decoder: Any, **more: Any) -> Path:
        folder = tmp_path / "model"
        shutil.copytree(tiny_model, folder)
        file = folder / "tokenizer.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "decoder": decoder, **more}))
        return folder

    return make


def tokenizer_in(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(("decoder", "broken"), DECODERS.values(), ids=DECODERS)
def test_a_tokenizer_of_bytes_gets_the_decoder_of_bytes(
    with_decoder: Callable[..., Path], decoder: Any, broken: bool
) -> None:
    tokenizer = tokenizer_in(with_decoder(decoder))
    assert mend(tokenizer) is broken
    assert not mend(tokenizer)
    text = "Think: go to kitchen.\nOK, caf\u00e9"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_a_tokenizer_of_another_family_is_left_alone(with_decoder: Callable[..., Path]) -> None:
    tokenizer = tokenizer_in(with_decoder(sequence(REPLACE, FALLBACK, FUSE), pre_tokenizer=METASPACE))
    assert not mend(tokenizer)


def decides(engine: Engine) -> None:
    """Check that every decision is one, by the grammar, and that nothing is told."""
    model = EngineModel(engine)
    try:
        model.ready().result(timeout=300)
        assert model.status()["method"] == "one_request"
        assert "grammar" not in model.status()
        for seed in range(4):
            asked = DecisionRequest(TURNS, GRAMMAR, max_tokens=48, temperature=1.5, seed=seed)
            reply = model.decide(asked).result(timeout=120)
            if reply.finish_reason == "stop":
                parse_decision(reply.text)
    finally:
        model.close()


@pytest.mark.parametrize("decoder", [decoder for decoder, _ in DECODERS.values()], ids=list(DECODERS))
def test_the_grammar_holds_with_a_mended_tokenizer(with_decoder: Callable[..., Path], decoder: Any) -> None:
    decides(TransformersEngine(str(with_decoder(decoder))))


def test_vllm_reads_a_mended_copy_of_the_tokenizer(with_decoder: Callable[..., Path]) -> None:
    if find_spec("vllm") is None:
        pytest.skip("needs the vLLM engine; `make test-llm` has it")
    from reactree_ros.llm.vllm_engine import VllmEngine

    options = {"max_model_len": 2048, "dtype": "float32", "enforce_eager": True}
    decides(VllmEngine(str(with_decoder(sequence(FALLBACK, FUSE, REPLACE, BYTES))), options=options))


@pytest.mark.parametrize("decoder", UNKNOWN.values(), ids=UNKNOWN)
def test_a_tokenizer_that_cannot_be_mended_is_told_with_the_way_out_and_decisions_are_free(
    with_decoder: Callable[..., Path], decoder: Any, warnings: Callable[[], list[str]]
) -> None:
    model = EngineModel(TransformersEngine(str(with_decoder(decoder, pre_tokenizer=None))), retries=0)
    try:
        model.ready().result(timeout=120)
        (told,) = warnings()
        assert "its tokenizer does not go with the grammar" in told
        assert "give the model the tokenizer of its original release" in told
        assert "\n" not in told
        assert told.endswith(model.status()["grammar"])
        assert model.status()["method"] == "unconstrained"
        assert model.decide(DecisionRequest(TURNS, GRAMMAR, max_tokens=8)).result(timeout=60).objection
    finally:
        model.close()
