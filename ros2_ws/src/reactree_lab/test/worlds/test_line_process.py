"""Programs of ours in processes of their own: what becomes of them, and of what they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playing import Playing

from reactree_lab.worlds.running import Spare
from reactree_ros.world.port import WorldError


@pytest.fixture
def playing() -> Iterator[Playing]:
    process = Playing()
    yield process
    process.kill()


def wait_for_end(pid: int) -> None:
    status = Path(f"/proc/{pid}/status")
    for _ in range(1000):
        try:
            if "State:\tZ" in status.read_text():
                return
        except OSError:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"process {pid} still runs")


def test_it_answers_and_goes_on_after_an_error_of_the_player(playing: Playing) -> None:
    long = "ä\n" * 100_000
    assert playing.ask("say", long) == {"said": long}
    with pytest.raises(WorldError, match=r"^ValueError: no such thing$"):
        playing.ask("fail")
    assert playing.usable
    assert playing.ask("say", "again") == {"said": "again"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("end", r"it has ended with exit code 3 \(out of memory\)"),
        ("hang", "it does not answer within 0.5 s"),
        ("stopped", "it does not listen within 0.5 s"),
        ("killed", "it has ended by SIGKILL"),
    ],
)
def test_one_that_does_not_answer_is_gone_with_what_it_has_started(playing: Playing, request_: str, said: str) -> None:
    child = playing.ask("start")["pid"]
    playing.answer_limit = 0.5 if request_ in ("hang", "stopped") else 30.0
    if request_ == "stopped":
        os.kill(playing._process.pid, signal.SIGSTOP)
    if request_ == "killed":
        playing._process.kill()
    for _ in range(2):
        with pytest.raises(WorldError, match=f"^the player is gone: {said}$"):
            playing.ask(*(("say", "x" * 1_000_000) if request_ in ("stopped", "killed") else (request_,)))
    assert not playing.usable
    wait_for_end(child)


def test_it_is_stopped_while_somebody_waits_for_its_answer(playing: Playing) -> None:
    playing.ask("say", "")
    threading.Timer(0.1, playing.stop).start()
    with pytest.raises(WorldError, match="it has ended by SIGKILL"):
        playing.ask("hang")


def test_one_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Playing, "module", "no_such_player")
    process = Playing()
    with pytest.raises(WorldError, match=r"it has ended with exit code 1 \(.*No module named no_such_player"):
        process.ask("say", "")


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True], ids=["waiting", "busy"])
def test_it_ends_with_what_it_has_started_when_its_parent_is_killed(busy: bool) -> None:
    code = "import time; from playing import Playing; one = Playing(); print(one.ask('start')['pid'], flush=True); "
    code += "one.ask('hang')" if busy else "time.sleep(600)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_for_end(child)


def test_one_after_the_other_borrows_the_spare_one_and_leaves_nothing_behind() -> None:
    spare = Spare(Playing)
    first = spare.borrow()
    first.ask("say", "")
    spare.give_back(first)
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        borrowed = spare.borrow()
        assert borrowed is first
        borrowed.ask("say", "")
        other = spare.borrow()
        spare.give_back(borrowed)
        spare.give_back(other)
        assert other.lost == "the player was closed"
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, files)
    first._process.kill()
    first._process.wait()
    last = spare.borrow()
    assert last is not first
    last.kill()
