"""Shared by all tests, also by those of the distributions under ros2_ws/src: a plug-in of pytest."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from command_line import Cli, OnATerminal

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "test" / "llm"))  # for openai_peer.py
sys.path.insert(0, str(ROOT / "ros2_ws/src/reactree_doors/test"))  # for mcp_peer.py
sys.path.insert(0, str(ROOT / "ros2_ws/src/reactree_lab/test"))  # for what tests of several planners and worlds share
sys.path.insert(0, str(ROOT / "ros2_ws/src/reactree_lab/test/simulators"))  # for the peers of the simulators

#: Every nth case of a sweep is tried.
SWEEP = int(os.environ.get("SWEEP", "1"))
# Whether a test passes is no matter of how busy the machine is, nor, in CI, of chance: `make fuzz` looks further.
settings.register_profile("patient", deadline=None, derandomize=SWEEP > 1, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
_NUMBERS = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take every nth case of each test that is marked as a sweep, n being the environment's SWEEP."""
    seen = Counter[str]()
    left_out = []
    for item in items:
        if item.get_closest_marker("sweep") is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % SWEEP:
                left_out.append(item)
            seen[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session")
def sweep() -> int:
    """Every nth case is tried, of a test that goes through many by itself."""
    return SWEEP


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let no test write into the user's folders, nor know the records of another one."""
    own = tmp_path_factory.getbasetemp() / "caches" / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    monkeypatch.setenv("XDG_STATE_HOME", f"{own}-state")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process."""
    from command_line import Ended

    from reactree_ros.cli import main

    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")  # whoever runs the tests may have defaults

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["reactree", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code: Any = 0
        except SystemExit as exit_:
            code = exit_.code or 0
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> OnATerminal:
    """The command line in this process, on a terminal of its own."""
    from command_line import FakeTerminal

    def run(*arguments: object, columns: int = 80, **variables: str) -> str:
        with FakeTerminal() as terminal, monkeypatch.context() as patch:
            for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
                patch.delenv(name, raising=False)
            for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns), **variables}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", terminal.file)
            patch.setattr(sys, "stderr", terminal.file)
            cli(*arguments)
        return terminal.shown

    return run


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
    folder = ROOT.resolve().parent / "shared" / name
    if not folder.exists():
        pytest.skip(f"the test material ../shared/{name} is not here")
    return folder
