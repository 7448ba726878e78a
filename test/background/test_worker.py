"""A thread that does one thing after another: order, what is cancelled, what is given up, the end."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reactree_ros.background.pending import Pending, Worker
from reactree_ros.background.worker_process import deaf_to_the_terminal, python_module
from reactree_ros.doctor.installation import in_a_process
from reactree_ros.world.port import WorldError

PATIENCE = 20.0


class Busy:
    """A worker that is busy until it is released."""

    def __init__(self) -> None:
        self.worker = Worker("test", WorldError)
        self.begun, self.released = threading.Event(), threading.Event()
        self.first = self.worker.do(self._work)
        assert self.begun.wait(PATIENCE)

    def _work(self) -> str:
        self.begun.set()
        self.released.wait(PATIENCE)
        self.worker.check_wanted()
        return "done"


def test_one_thing_is_done_after_the_other() -> None:
    busy = Busy()
    rest = busy.worker.at_rest()
    failing: Pending[int] = busy.worker.do(lambda: 1 // 0)
    assert not rest.done()
    busy.released.set()
    rest.result(PATIENCE)
    assert busy.first.result(0) == "done"
    with pytest.raises(ZeroDivisionError):  # a bug stays one
        failing.result(PATIENCE)
    assert busy.worker.do(lambda: 2).result(PATIENCE) == 2


def test_what_is_cancelled_before_its_turn_is_left_out_and_while_it_runs_is_left() -> None:
    busy, done = Busy(), []
    waiting = busy.worker.do(lambda: done.append("waiting"))
    assert waiting.cancel()
    assert busy.first.cancel()
    busy.released.set()
    busy.worker.at_rest().result(PATIENCE)
    assert done == []


def test_what_is_given_up_fails_now_and_ever_after() -> None:
    busy = Busy()
    waiting = busy.worker.do(lambda: None)
    busy.worker.give_up("the simulator is gone")
    busy.worker.give_up("something else")
    for pending in (busy.first, waiting, busy.worker.do(lambda: None), busy.worker.at_rest()):
        with pytest.raises(WorldError, match="the simulator is gone"):
            pending.result(0)
    busy.released.set()


def test_a_worker_that_is_closed_ends_what_it_was_given_and_one_last_thing() -> None:
    busy, done = Busy(), []
    waiting = busy.worker.do(lambda: done.append("waiting"))
    ended = busy.worker.close(lambda: done.append("last"))
    for pending in (busy.worker.do(lambda: None), busy.worker.close()):
        with pytest.raises(WorldError, match="test was closed"):
            pending.result(0)
    busy.released.set()
    ended.result(PATIENCE)
    assert waiting.done()
    assert done == ["waiting", "last"]


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
