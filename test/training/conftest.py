"""A dataset and a model that was trained on it, once per session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for expert_data.py


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from expert_data import make_dataset

    return make_dataset(tmp_path_factory.mktemp("data") / "houses", houses=6, held_out=2, tasks=2)
