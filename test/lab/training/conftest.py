"""A dataset of a few houses, and trainings on it, once per session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the trainings beside this file

from short_trainings import SHORT, TINY, train

from reactree_ros.cli import app


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "houses"
    houses = ("--houses", "9", "--first-seed", "7", "--rooms", "5", "--tasks-per-house", "2", "--no-varied")
    given = (*houses, "--held-out", "0.25", "--noise", "0", "--unclear", "0", "--workers", "1")
    app(["dataset", *given, "--out", str(folder)], standalone_mode=False)
    return folder


@pytest.fixture(scope="session")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that learns something."""
    return train(data, tmp_path_factory.mktemp("trained") / "out", (*TINY, "--tokens", 300000, "--reports", 3))


@pytest.fixture(scope="session")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short training that nothing disturbed."""
    return train(data, tmp_path_factory.mktemp("straight") / "out", SHORT)
