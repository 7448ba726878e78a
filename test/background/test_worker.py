"""A thread that does one thing after another: order, what is cancelled, what is given up, the end."""

from __future__ import annotations

import threading

import pytest

from reactree_ros.background.pending import Pending, Worker
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
