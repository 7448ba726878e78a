"""Shared by the tests of routines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the helpers beside this file

from memory.word_hash_embedder import WordHashEmbedder

from reactree_ros.memory.stores.sqlite import SqliteMemory

# Who counts harm is in a benchmark. Its folder is not a place to import from: it has names of folders of tests.
_spec = spec_from_file_location("routines", Path(__file__).resolve().parents[2] / "benchmarks/routines.py")
assert _spec is not None
assert _spec.loader is not None
sys.modules["routines"] = module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["routines"])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SqliteMemory]:
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as opened:
        yield opened
