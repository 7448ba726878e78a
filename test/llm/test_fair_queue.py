"""A bound on requests at once, and a fair order between planners."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter

import pytest

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.llm.engine_model import FairQueue
from reactree_ros.llm.port import DecisionRequest, LanguageModel, LanguageModelError, Reply

PATIENCE = 20.0


class Held(LanguageModel):
    """Keeps every request until it is answered by hand, and counts how many it had at once."""

    def __init__(self) -> None:
        self.asked: list[DecisionRequest] = []
        self.pending: list[Pending[Reply]] = []
        self.cancelled: list[str] = []
        self.most = 0
        self._lock = threading.Lock()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending = Pending[Reply](on_cancel=lambda: self.cancelled.append(request.id))
        with self._lock:
            self.asked.append(request)
            self.pending.append(pending)
            self.most = max(self.most, len([one for one in self.pending if not one.done()]))
        return pending

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.asked]

    def answer(self, request_id: str) -> None:
        self.pending[self.ids.index(request_id)].succeed(Reply(request_id))


class AtOnce(LanguageModel):
    """Answers or fails before it returns."""

    def __init__(self, error: Exception | None = None, *, raises: bool = False) -> None:
        self.error, self.raises, self.asked = error, raises, 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        if self.error is None:
            return Pending.ready(Reply(request.id))
        if self.raises:
            raise self.error
        return Pending.failed(self.error)


def request(name: str, planner: str = "") -> DecisionRequest:
    return DecisionRequest((Told("x"),), DecisionGrammar(["done"]), id=name, planner=planner)


def test_no_more_than_the_bound_run_and_the_others_follow_in_order() -> None:
    model = Held()
    queue = FairQueue(model, 2)
    pending = [queue.decide(request(str(number))) for number in range(5)]
    assert (model.ids, queue.running, queue.waiting) == (["0", "1"], 2, 3)
    assert (queue.status()["requests running"], queue.status()["requests waiting"]) == ("2", "3")
    model.answer("1")
    assert pending[1].take().text == "1"
    assert model.ids == ["0", "1", "2"]
    for name in ("2", "0", "3", "4"):
        model.answer(name)
    assert [one.take().text for one in pending] == ["0", "1", "2", "3", "4"]
    assert (model.most, queue.running, queue.waiting) == (2, 0, 0)


def test_a_planner_with_a_hundred_requests_does_not_hold_up_one_with_one() -> None:
    model = Held()
    queue = FairQueue(model, 1)
    for number in range(100):
        queue.decide(request(f"a{number}", "a"))
    queue.decide(request("b0", "b"))
    queue.decide(request("c0", "c"))
    queue.decide(request("b1", "b"))
    for _ in range(6):
        model.answer(model.ids[-1])
    # a's second was at the front of the queue already; then it is each of the others
    assert model.ids == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]


def test_whoever_waits_is_answered_after_at_most_one_request_of_each_other_planner() -> None:
    generator = random.Random(1)
    model = Held()
    queue = FairQueue(model, 1)
    planners = "abcde"
    for number in range(300):
        planner = generator.choice(planners)
        queue.decide(request(f"{planner}{number}", planner))
    while queue.running:
        model.answer(model.ids[-1])
    order = [one.planner for one in model.asked]
    assert len(order) == 300
    for planner in planners:
        places = [place for place, one in enumerate(order) if one == planner]
        for earlier, later in itertools.pairwise(places):
            between = Counter(order[earlier + 1 : later])
            assert all(count <= 1 for count in between.values())
        numbers = [int(one.id[1:]) for one in model.asked if one.planner == planner]
        assert numbers == sorted(numbers)


def test_a_waiting_request_that_is_cancelled_is_never_asked() -> None:
    model = Held()
    queue = FairQueue(model, 1)
    pending = [queue.decide(request(str(number))) for number in range(3)]
    assert pending[1].cancel()
    assert queue.waiting == 1
    model.answer("0")
    assert model.ids == ["0", "2"]
    assert model.cancelled == []


def test_a_running_request_that_is_cancelled_is_cancelled_at_the_model_and_frees_its_place() -> None:
    model = Held()
    queue = FairQueue(model, 1)
    first, second = queue.decide(request("0")), queue.decide(request("1"))
    assert first.cancel()
    assert model.cancelled == ["0"]
    assert model.ids == ["0", "1"]
    model.answer("1")
    assert second.take().text == "1"
    assert queue.running == 0


@pytest.mark.parametrize("raises", [False, True])
def test_an_error_frees_the_place(raises: bool) -> None:
    queue = FairQueue(AtOnce(LanguageModelError("gone"), raises=raises), 1)
    for _ in range(3):
        with pytest.raises(LanguageModelError, match="gone"):
            queue.decide(request("0")).take()
    assert (queue.running, queue.waiting) == (0, 0)


def test_a_request_that_is_made_when_another_is_answered_is_answered_too() -> None:
    queue = FairQueue(AtOnce(), 1)
    more: list[Pending[Reply]] = []
    first = queue.decide(request("0"))
    first.add_done_callback(lambda _: more.append(queue.decide(request("1"))))
    assert more[0].take().text == "1"
    assert queue.running == 0


@pytest.mark.slow
def test_the_bound_holds_under_threads_and_nothing_is_lost() -> None:
    model = Held()
    queue = FairQueue(model, 3)
    done = threading.Semaphore(0)
    pending: list[Pending[Reply]] = []
    ended = threading.Event()

    def ask(planner: str) -> None:
        generator = random.Random(planner)
        for number in range(100):
            one = queue.decide(request(f"{planner}{number}", planner))
            pending.append(one)
            one.add_done_callback(lambda _: done.release())
            if generator.random() < 0.2:
                one.cancel()

    def answer() -> None:
        place = 0
        while not ended.is_set():
            with model._lock:
                open_ = model.pending[place:]
            for one in open_:
                one.succeed(Reply(""))
            place += len(open_)

    threads = [threading.Thread(target=ask, args=(planner,)) for planner in "abcd"]
    threads += [threading.Thread(target=answer)]
    for thread in threads:
        thread.start()
    for _ in range(400):
        assert done.acquire(timeout=PATIENCE)
    ended.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert model.most <= 3
    assert (queue.running, queue.waiting, len(pending)) == (0, 0, 400)
