"""Python processes of ours import nothing from the folder that a command runs in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reactree_ros.background.worker_process import deaf_to_the_terminal, python_module
from reactree_ros.doctor.installation import in_a_process


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # what is set here ends with the test
    mark = f"import posix\nposix.mkdir({str(tmp_path / 'imported')!r})\nraise ImportError\n"
    names = {one for one in sys.stdlib_module_names if not one.startswith("_")} - {"posix", "sys"}
    for name in (*names, "reactree_ros", "torch", "numpy", "yaml"):
        (tmp_path / f"{name}.py").write_text(mark)
    return tmp_path


def test_a_look_of_doctor(strangers: Path) -> None:
    assert in_a_process("import json; print(json.dumps(1))", seconds=30) == 1
    assert not (strangers / "imported").exists()


def test_a_module_of_a_simulator(strangers: Path) -> None:
    ended = subprocess.run(python_module("this"), capture_output=True, text=True, check=False)
    assert (ended.returncode, "Zen of Python" in ended.stdout) == (0, True), ended.stderr
    assert not (strangers / "imported").exists()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 Python has no safe path")
def test_a_worker(strangers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import multiprocessing

    monkeypatch.delenv("PYTHONSAFEPATH")
    with deaf_to_the_terminal():
        process = multiprocessing.get_context("spawn").Process(target=print)
        process.start()
    process.join()
    assert process.exitcode == 0
    assert not (strangers / "imported").exists()
