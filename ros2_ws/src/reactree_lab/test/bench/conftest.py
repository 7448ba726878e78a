"""Shared by the tests of the bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for bench_runs.py

from bench_runs import bench_here


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the bench, carried out in one go."""
    out = tmp_path_factory.mktemp("bench") / "undisturbed"
    bench_here(out)
    return out
