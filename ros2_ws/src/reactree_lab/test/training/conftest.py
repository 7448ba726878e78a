"""A dataset of a few houses, and trainings on it, once for all test processes."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the trainings beside this file

from short_trainings import SHORT, TINY, train

from reactree_ros.cli import app

Make = Callable[[Path], object]
Shared = Callable[[str, Make], Path]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Makes a folder in one of the test processes, while the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def of_all(name: str, make: Make) -> Path:
        with (folder / f"{name}.made").open("a+b") as made:
            fcntl.flock(made, fcntl.LOCK_EX)
            if not os.fstat(made.fileno()).st_size:
                make(folder / name)
                made.write(b"yes")
        return folder / name

    return of_all


@pytest.fixture(scope="session")
def data(shared: Shared) -> Path:
    houses = ("--houses", "9", "--first-seed", "7", "--rooms", "5", "--tasks-per-house", "2", "--no-varied")
    given = (*houses, "--held-out", "0.25", "--noise", "0", "--unclear", "0", "--workers", "1")
    return shared("houses", lambda out: app(["lab", "dataset", *given, "--out", str(out)], standalone_mode=False))


@pytest.fixture(scope="session")
def trained(data: Path, shared: Shared) -> Path:
    """The folder of a training that learns something."""
    return shared("trained", lambda out: train(data, out, (*TINY, "--tokens", 300000, "--reports", 3)))


@pytest.fixture(scope="session")
def straight(data: Path, shared: Shared) -> Path:
    """The folder of a short training that nothing disturbed."""
    return shared("straight", lambda out: train(data, out, SHORT))
