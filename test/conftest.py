"""Shared by all tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for doubles.py
sys.path.insert(0, str(Path(__file__).parent / "llm"))  # for openai_peer.py
sys.path.insert(0, str(Path(__file__).parent / "worlds"))  # for the peers of the simulators


@pytest.fixture(scope="session")
def wah_nl() -> Path:
    """The folder of the WAH-NL test material, which is not part of the repository."""
    return _shared("data/wah_nl")


@pytest.fixture(scope="session")
def alfred() -> Path:
    """The folder of the ALFRED test material."""
    return _shared("data/alfred")


@pytest.fixture(scope="session")
def papers() -> Path:
    """The folder of the papers."""
    return _shared("papers")


@pytest.fixture(scope="session")
def scenes() -> Path:
    """The folder of whole VirtualHome apartments."""
    return _shared("data/virtualhome_scenes")


def _shared(name: str) -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared" / name
    if not folder.exists():
        pytest.skip(f"the test material ../shared/{name} is not here")
    return folder
