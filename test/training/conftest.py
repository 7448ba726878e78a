"""A dataset of a few houses, once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactree_ros.cli import app


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "houses"
    houses = ("--houses", "9", "--first-seed", "7", "--rooms", "5", "--tasks-per-house", "2", "--no-varied")
    given = (*houses, "--held-out", "0.25", "--noise", "0", "--unclear", "0", "--workers", "1")
    app(["dataset", *given, "--out", str(folder)], standalone_mode=False)
    return folder
