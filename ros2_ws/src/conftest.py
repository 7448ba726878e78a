"""What the tests of every distribution share is in test/common.py at the top."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TEST = Path(__file__).resolve().parents[2] / "test"
if str(TEST) not in sys.path:
    sys.path.insert(0, str(TEST))

import common  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(common):
        config.pluginmanager.register(common, "common")
