"""A language model on top of an engine: what an engine's failures become, and what closing ends."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.errors import UserError
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.port import (
    FAILED,
    Choice,
    DecisionRequest,
    InvalidReply,
    LanguageModelError,
    NoAnswerInTime,
    RequestRejected,
    ServerUnavailable,
)

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
