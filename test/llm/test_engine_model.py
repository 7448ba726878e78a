"""A language model on top of an engine: what an engine's failures become, and what closing ends."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.engine_model import EngineModel, FairQueue
from reactree_ros.llm.port import (
    FAILED,
    Attempt,
    Choice,
    DecisionRequest,
    InvalidReply,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    Reply,
    RequestRejected,
    ServerUnavailable,
    tally,
)
from reactree_ros.llm.waiting import MOST, USUAL, Pace

PATIENCE = 20.0
REQUEST = DecisionRequest((Told("Your task is to: x"),), DecisionGrammar(["done"]))


class Moody(Engine):
    """Says what it is told to, fails, or (None) never answers."""

    name = "an engine"

    def __init__(self) -> None:
        self.on_open: Exception | None = None
        self.mood: str | Generated | BaseException | None = "Act: done"
        self.opened = self.asked = 0

    async def open(self) -> None:
        self.opened += 1
        if self.on_open is not None:
            raise self.on_open

    async def generate(self, generation: Generation) -> Generated:
        self.asked += 1
        if isinstance(self.mood, BaseException):
            raise self.mood
        if self.mood is None:
            await asyncio.Event().wait()
        return self.mood if isinstance(self.mood, Generated) else Generated(self.mood, "stop")


@pytest.fixture
def engine() -> Moody:
    return Moody()


@pytest.fixture
def model(engine: Moody) -> Iterator[EngineModel]:
    one = EngineModel(engine)
    yield one
    one.close()


def failure(model: EngineModel) -> LanguageModelError:
    with pytest.raises(LanguageModelError) as raised:
        model.decide(REQUEST).result(PATIENCE)
    return raised.value


@pytest.mark.parametrize("error", [ValueError("no such token"), RuntimeError("out of\nmemory")])
def test_a_bug_of_an_engine_is_a_failure_of_the_port_told_once(
    engine: Moody, model: EngineModel, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    engine.mood = error
    told = failure(model)
    assert type(told) is ServerUnavailable
    assert str(told) == f"an engine failed: {type(error).__name__}: {' '.join(str(error).split())}"
    assert told.__cause__ is error
    assert engine.asked == 1
    assert [record.message for record in caplog.records] == ["an engine failed"]
    engine.mood = "Act: done"
    assert model.decide(REQUEST).result(PATIENCE).text == "Act: done"


def test_an_engine_that_cannot_be_opened_is_opened_again(engine: Moody, model: EngineModel) -> None:
    engine.on_open = ImportError("No module named 'x'")
    with pytest.raises(ServerUnavailable, match="an engine failed: ImportError: No module named 'x'"):
        model.ready().result(PATIENCE)
    engine.on_open = None
    assert model.decide(REQUEST).result(PATIENCE).text == "Act: done"
    assert engine.opened == 2


def test_a_wrong_setting_is_the_users_error_when_it_gets_ready_and_the_ports_when_it_is_asked(
    engine: Moody, model: EngineModel
) -> None:
    engine.on_open = UserError("option 'x' is unknown")
    with pytest.raises(UserError, match="option 'x' is unknown"):
        model.ready().result(PATIENCE)
    told = failure(model)
    assert (type(told), str(told)) == (RequestRejected, "option 'x' is unknown")


def test_an_answer_that_does_not_come_in_time_is_given_up(engine: Moody) -> None:
    engine.mood = None
    model = EngineModel(engine, request_timeout=0.05)
    told = failure(model)
    assert (type(told), str(told)) == (NoAnswerInTime, "an engine: no answer within 0.05 s")
    model.close()


class Tried(Moody):
    """Is tried when it is opened; between its answers the clock of its loop goes on."""

    loads = False

    def __init__(self, *seconds: float, answers: bool = True) -> None:
        super().__init__()
        self.seconds, self.answers, self.later = seconds, answers, 0.0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time
        loop.time = lambda: now() + self.later  # type: ignore[method-assign]
        for waited in self.seconds:
            self.later += waited
            for _ in range(9):
                await asyncio.sleep(0)  # what is due is done
            if self.answers:
                self.tried = [*self.tried, Generated("Hello", "stop")]
        await super().open()


def test_a_server_that_is_tried_has_its_time_again_after_each_answer() -> None:
    patient = replace(REQUEST, patience=1000.0)
    with closing(EngineModel(Tried(*[100.0] * 4), request_timeout=120.0)) as one:
        assert one.decide(patient).result(PATIENCE).text == "Act: done"
    with closing(EngineModel(engine := Tried(*[100.0] * 4, answers=False), request_timeout=120.0)) as one:
        with pytest.raises(NoAnswerInTime, match="no answer within 120 s"):
            one.decide(patient).result(PATIENCE)
        assert engine.opened == 0
    with (
        closing(EngineModel(Tried(*[100.0] * 6), request_timeout=120.0)) as one,
        pytest.raises(NoAnswerInTime, match="it answers, but was not tried out within 480 s"),
    ):
        one.decide(patient).result(PATIENCE)


@pytest.mark.slow
def test_the_limit_grows_with_the_prompt_and_with_each_late_reply(engine: Moody) -> None:
    engine.mood, limits = None, []
    with closing(EngineModel(engine, request_timeout=0.05)) as one:
        for prompt in ("Your task is to: x", "word " * 2_000, "word " * 2_000):
            with pytest.raises(NoAnswerInTime) as raised:
                one.decide(replace(REQUEST, turns=(Told(prompt),))).result(PATIENCE)
            limits.append(float(str(raised.value).split()[-2]))
    assert 0.05 == limits[0] < limits[1] < limits[2]


@pytest.mark.slow
def test_a_request_that_is_broken_off_before_it_begins_leaves_nothing_behind(
    engine: Moody, model: EngineModel, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(NoAnswerInTime):
        model.decide(replace(REQUEST, patience=0.0)).result(PATIENCE)
    for _ in range(20):
        model.decide(REQUEST).cancel()
    assert model.decide(REQUEST).result(PATIENCE).text == "Act: done"
    gc.collect()
    assert [str(one.message) for one in recwarn if "never awaited" in str(one.message)] == []


def test_an_engine_that_fails_when_nobody_waits_any_more_leaves_no_error_that_nobody_reads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Gone(Moody):
        begun = threading.Event()

        async def generate(self, generation: Generation) -> Generated:
            try:
                self.begun.set()
                return await super().generate(generation)
            except asyncio.CancelledError:
                raise ServerUnavailable("gone") from None

    engine = Gone()
    engine.mood = None
    with closing(EngineModel(engine)) as one:
        pending = one.decide(REQUEST)
        assert engine.begun.wait(PATIENCE)
        assert pending.cancel()
        engine.mood = "Act: done"
        assert one.decide(REQUEST).result(PATIENCE).text == "Act: done"
        gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_what_failed_tells_of_every_request_and_why_it_brought_nothing(engine: Moody) -> None:
    model = EngineModel(engine, request_timeout=0.05)
    for mood, problem in (
        (RequestRejected("no, by sk-abcdefghijklmnopqrstuvwx"), "no, by ***"),
        (None, "it was stopped before its end"),
    ):
        engine.mood = mood
        took = failure(model).took
        assert took is not None
        (attempt,) = took.attempts
        assert (attempt.finish_reason, attempt.objection, attempt.refused) == (FAILED, problem, False)
        assert took.seconds == attempt.seconds
    model.close()


def test_words_without_use_in_a_request_that_failed_are_kept_as_refused(engine: Moody, model: EngineModel) -> None:
    engine.mood = "fly"
    with pytest.raises(InvalidReply) as raised:
        model.decide(replace(REQUEST, may_say=Choice(("walk", "swim")))).result(PATIENCE)
    assert raised.value.took is not None
    assert [(one.text, one.refused) for one in raised.value.took.attempts] == [("fly", True)] * 4
    engine.mood, engine.context = Generated("Act: go", "length", prompt_tokens=90, output_tokens=10), 100
    took = failure(model).took
    assert took is not None
    (attempt,) = took.attempts
    assert (attempt.text, attempt.refused, took.prompt_tokens) == ("Act: go", True, 90)
    assert attempt.objection.startswith("the prompt is")


def test_closing_fails_what_is_under_way_and_what_comes_later(engine: Moody, model: EngineModel) -> None:
    engine.mood = None
    pending = model.decide(REQUEST)
    model.close()
    for one in (pending, model.decide(REQUEST), model.ready()):
        with pytest.raises(ServerUnavailable, match="an engine: the language model is closed"):
            one.result(PATIENCE)
    model.close()


def test_an_engine_that_cancels_what_it_was_asked_has_failed(engine: Moody, model: EngineModel) -> None:
    engine.mood = asyncio.CancelledError()
    told = failure(model)
    assert (type(told), str(told)) == (ServerUnavailable, "an engine failed: it cancelled the request")
    engine.mood = "Act: done"
    assert model.decide(REQUEST).result(PATIENCE).text == "Act: done"


def test_a_request_that_is_handed_in_while_it_is_closed_settles(
    engine: Moody, model: EngineModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = asyncio.run_coroutine_threadsafe
    closing = threading.Thread(target=model.close)

    def submit(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        if closing.ident is None:  # the request is about to be handed in
            closing.start()
            closing.join(0.3)  # it would be through by then, if it did not wait for the request
        return real(work, loop)

    engine.mood = None
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit)
    with pytest.raises(ServerUnavailable, match="an engine: the language model is closed"):
        model.decide(REQUEST).result(PATIENCE)
    closing.join(PATIENCE)
    assert not closing.is_alive()


# ---------------------------------------------------------------------- the queue


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


def test_what_is_waited_for_in_the_queue_is_part_of_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("reactree_ros.llm.engine_model.time.monotonic", lambda: now[0])
    held = Held()
    queue = FairQueue(held, 1)
    pendings = [queue.decide(replace(request(name), patience=10.0)) for name in "012"]
    now[0] += 4.0
    held.answer("0")
    assert held.asked[1].patience == pytest.approx(6.0)
    now[0] += 7.0
    held.answer("1")
    assert len(held.asked) == 2  # nobody waits for the third any more
    with pytest.raises(NoAnswerInTime, match="busy with other requests"):
        pendings[2].result(0)


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


# ---------------------------------------------------------------------- how long a reply is waited for

SHORT, LONG = "go " * 50, "go " * 5000


def reply(seconds: float, *, read: int | None = None, cached: int | None = None, output: int = 10) -> Reply:
    return Reply("Act: done", prompt_tokens=read, cached_tokens=cached, output_tokens=output, seconds=seconds)


def test_a_short_prompt_has_its_limit_and_a_long_one_more() -> None:
    pace = Pace()
    assert pace.times("") == pace.times(SHORT) == 1
    assert pace.times(LONG) * USUAL > 271  # the first prompt of a 0.5B model on two cores


def test_only_what_was_not_sent_before_counts() -> None:
    pace = Pace()
    pace.learn(LONG, reply(200))
    assert pace.times(f"{LONG}and on") == 1
    assert pace.times(f"{LONG[:-300]}x") == 1  # another node, after the same examples
    assert pace.times(f"x{LONG}") > 2


def test_a_server_slow_by_tokens_is_given_longer() -> None:
    slow, slower = Pace(), Pace()
    slow.learn(SHORT, reply(10, read=50, cached=0))
    slower.learn(SHORT, reply(20, read=50, cached=0))
    assert 1 < slow.times(LONG) < slower.times(LONG) <= MOST
    chatty = Pace()
    chatty.learn(SHORT, reply(115, output=512))
    assert chatty.times(SHORT) * USUAL > 2 * 115  # the next may be as long


def test_a_server_that_forgets_reads_all_again() -> None:
    keeps, forgets = Pace(), Pace()
    for one, cached in ((keeps, 5000), (forgets, 0)):
        one.learn(LONG, reply(100, read=5000, cached=0))
        one.learn(LONG + SHORT, reply(3, read=5050, cached=cached))
    assert forgets.times(LONG + SHORT) > keeps.times(LONG + SHORT) == 1


def test_what_is_late_is_given_longer_the_next_time_but_not_for_ever() -> None:
    pace, given = Pace(), []
    for _ in range(8):
        given.append(pace.times(LONG))
        pace.late(LONG, USUAL * given[-1])
    assert given[0] < given[1]
    assert given == sorted(given)
    assert given[-1] == MOST


# ---------------------------------------------------------------------- how often it was asked in vain

REFUSED = Attempt("fly", "No.", asked="a", output_tokens=3)
TAKEN = Attempt(asked="b", output_tokens=4)
GONE = Attempt(objection="It is gone.", finish_reason=FAILED, asked="c")


@pytest.mark.parametrize(
    ("replies", "counts"),
    [
        ([], (0, 0, 0, 0, 0)),
        ([Reply("Act: done")], (1, 1, 0, 0, 0)),
        ([Reply("Act: done", output_tokens=2, objection="No.")], (1, 1, 1, 0, 2)),
        ([Reply("Act: done", attempts=(TAKEN,))], (1, 1, 0, 0, 0)),
        ([Reply("Act: done", attempts=(REFUSED, REFUSED, TAKEN))], (1, 3, 2, 1, 6)),
        ([Reply("", attempts=(REFUSED, GONE)), Reply("Act: done", attempts=(REFUSED, TAKEN))], (2, 4, 2, 1, 6)),
        ([Reply("Act: done", attempts=(Attempt("fly", "No."), REFUSED, TAKEN))], (1, 3, 2, 0, None)),
    ],
)
def test_requests_are_counted_by_what_came_of_them(replies: list[Reply], counts: tuple[int | None, ...]) -> None:
    assert tuple(tally(replies).values()) == counts


def test_what_others_used_in_vain_comes_before() -> None:
    reply = Reply("Act: done", attempts=(TAKEN,)).with_used(
        [Reply("", attempts=(GONE,)), Reply("fly", attempts=(REFUSED,))]
    )
    assert reply.attempts == (GONE, REFUSED, TAKEN)
    assert reply.in_vain == (GONE, REFUSED)
    assert reply.further().attempts == ()


def test_tokens_that_nobody_counted_are_estimated_for_every_request() -> None:
    reply = Reply("Act: done", reasoning="so", attempts=(Attempt("fly high", "No."), Attempt()))
    assert reply.tokens(lambda: "one two three") == (6, Reply("soAct: donefly high").tokens(lambda: "")[1])
    assert Reply("a b", prompt_tokens=7, output_tokens=9).tokens(lambda: "x") == (7, 9)
