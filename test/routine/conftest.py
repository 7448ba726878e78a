"""Shared by the tests of routines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the helpers beside this file
# For who counts harm; last, because benchmarks have names of folders of tests, too.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from memory.word_hash_embedder import WordHashEmbedder

from reactree_ros.memory.stores.sqlite import SqliteMemory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SqliteMemory]:
    """An empty episodic memory on disk."""
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as opened:
        yield opened
