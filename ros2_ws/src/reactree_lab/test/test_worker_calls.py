"""Calls in worker processes: every answer comes once, and no death of a worker, at whatever moment, is waited for."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reactree_lab import worker_calls
from reactree_lab.worker_calls import call_in_workers
from reactree_ros.errors import UserError

sys.path.insert(0, str(Path(__file__).parent))  # the workers import from there, too
from worker_functions import LARGE, begin, same

PATIENCE = 60.0


@pytest.mark.slow
def test_every_call_is_answered_once() -> None:
    for workers, calls in ((1, 0), (2, 1), (2, 50), (3, 3)):
        answers = dict(call_in_workers(begin, ("double",), range(calls), workers=workers))
        assert answers == {number: 2 * number for number in range(calls)}


def test_large_calls_and_large_answers_do_not_wait_for_each_other() -> None:
    calls = [bytes(LARGE)] * 6
    assert [answer for _, answer in sorted(call_in_workers(same, (), calls, workers=1))] == calls


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        ("fails", UserError, "3 is refused"),
        ("refuses", UserError, "there is no model"),
        ("foreign", RuntimeError, "NotForThePost: no way"),
        ("dies", UserError, "a worker died"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_said_and_all_workers_end(what: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        dict(call_in_workers(begin, (what,), range(100), workers=2))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("closed", [True, False])
def test_a_worker_killed_in_the_middle_of_an_answer_is_not_waited_for(
    closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_and_kill(ends: list[Any]) -> list[Any]:
        ready = connection.wait(ends)
        if closed:
            raise KeyboardInterrupt
        for worker in multiprocessing.active_children():  # no pipe takes all of its answer, and nobody has read yet
            worker.kill()
            worker.join(PATIENCE)
        return ready

    monkeypatch.setattr(worker_calls, "connection", SimpleNamespace(wait=wait_and_kill))
    with pytest.raises(KeyboardInterrupt if closed else UserError):
        dict(call_in_workers(begin, ("large",), [3, 3, 3, 3], workers=1))
    assert not multiprocessing.active_children()
