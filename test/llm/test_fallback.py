"""Several language models in order: who answers, who rests, what is said where nobody can."""

from __future__ import annotations

import threading

import pytest
from doubles import Clock

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending, give_up_after
from reactree_ros.llm.fallback import REST, Backup, FallbackModel
from reactree_ros.llm.port import (
    DecisionRequest,
    InvalidReply,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
    RequestRejected,
    ServerUnavailable,
)

PATIENCE = 20.0
REQUEST = DecisionRequest((Told("x"),), DecisionGrammar(["done"]))


class Moody(LanguageModel):
    """Answers with a text, fails with an error, raises it, or (None) keeps its answer for itself."""

    def __init__(self, mood: str | Exception | None, *, raises: bool = False) -> None:
        self.mood, self.raises = mood, raises
        self.asked = 0
        self.patience = 0.0
        self.held: list[Pending[Reply]] = []
        self.cancelled = threading.Event()
        self.getting_ready: Pending[None] = Pending()
        self.closed = False

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        self.patience = request.patience
        if isinstance(self.mood, str):
            return Pending.ready(Reply(self.mood, answered_by="what the engine says"))
        if self.mood is not None and self.raises:
            raise self.mood
        if self.mood is not None:
            return Pending.failed(self.mood)
        self.held.append(Pending(on_cancel=self.cancelled.set))
        return self.held[-1]

    def ready(self) -> Pending[None]:
        return self.getting_ready

    def count_tokens(self, text: str) -> int:
        return len(text)

    def status(self) -> dict[str, str]:
        return {"mood": str(self.mood)}

    def close(self) -> None:
        self.closed = True


def together(*models: Moody, clock: Clock | None = None, time_limit: float = PATIENCE) -> FallbackModel:
    names = ("first", "second", "third")
    backups = [Backup(model, name, time_limit) for model, name in zip(models, names, strict=False)]
    return FallbackModel(backups, clock=clock or Clock())


def test_the_first_that_can_answers_and_is_named() -> None:
    first, second = Moody("hello"), Moody("hi")
    reply = together(first, second).decide(REQUEST).take()
    assert (reply.text, reply.answered_by) == ("hello", "first")
    assert second.asked == 0


@pytest.mark.parametrize("raises", [False, True])
def test_the_next_one_answers_where_one_fails(raises: bool) -> None:
    first, second = Moody(ServerUnavailable("gone"), raises=raises), Moody("hi")
    reply = together(first, second).decide(REQUEST).take()
    assert (reply.text, reply.answered_by, first.asked) == ("hi", "second", 1)


def test_the_next_one_answers_where_one_takes_too_long_and_that_one_is_stopped() -> None:
    first, second = Moody(None), Moody("hi")
    model = together(first, second, time_limit=0.05)
    assert model.decide(REQUEST).result(PATIENCE).answered_by == "second"
    assert first.cancelled.wait(PATIENCE)
    assert model.decide(REQUEST).result(PATIENCE).answered_by == "second"
    assert first.asked == 1


def test_each_leaves_those_after_it_their_share_of_the_askers_patience() -> None:
    clock = Clock()
    first, second, third = Moody(ServerUnavailable("gone")), Moody(ServerUnavailable("gone")), Moody("hi")
    request = DecisionRequest((Told("x"),), DecisionGrammar(["done"]), patience=100.0)
    model = together(first, second, third, clock=clock, time_limit=1000.0)
    assert model.decide(request).take().answered_by == "third"
    assert [one.patience for one in (first, second, third)] == pytest.approx([95 / 3, 95 / 2, 95])
    assert together(Moody("hi"), first, time_limit=7.0).decide(request).take().text == "hi"
    slow, quick = Moody(None), Moody("hi")
    late = together(slow, quick, clock=clock, time_limit=1000.0)
    pending = late.decide(request)
    clock.now = 40.0
    slow.held[0].fail(ServerUnavailable("gone"))
    assert pending.take().answered_by == "second"
    assert (slow.patience, quick.patience) == pytest.approx((95 / 2, 95 - 40))


def test_an_answer_that_came_in_time_stays_when_the_time_is_over() -> None:
    first, second = Moody(None), Moody("hi")
    model = together(first, second, time_limit=0.05)
    in_time = model.decide(REQUEST)
    first.held[0].succeed(Reply("just in time"))
    assert model.decide(REQUEST).result(PATIENCE).answered_by == "second"  # later, by the same clock
    assert (in_time.take().text, in_time.take().answered_by) == ("just in time", "first")


def test_one_that_failed_rests_and_comes_back() -> None:
    clock, first, second = Clock(), Moody(ServerUnavailable("gone")), Moody("hi")
    model = together(first, second, clock=clock)
    model.decide(REQUEST).take()
    assert model.status()["first"] == "0 answers, rests after a failure"
    first.mood = "back"
    clock.now = REST - 0.1
    assert model.decide(REQUEST).take().answered_by == "second"
    clock.now = REST
    assert model.decide(REQUEST).take().answered_by == "first"
    assert model.status() == {
        "first": "1 answers",
        "first: mood": "back",
        "second": "2 answers",
        "second: mood": "hi",
    }


def test_where_all_rest_all_are_asked() -> None:
    first, second = Moody(ServerUnavailable("gone")), Moody(ServerUnavailable("gone"))
    model = together(first, second)
    for _ in range(2):
        with pytest.raises(LanguageModelError):
            model.decide(REQUEST).take()
    assert (first.asked, second.asked) == (2, 2)
    second.mood = "hi"
    assert model.decide(REQUEST).take().answered_by == "second"


GONE, REJECTED, NONE_OF_THEM = ServerUnavailable("gone"), RequestRejected("no"), InvalidReply("'x' is none of them")


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ([GONE, NoAnswerInTime("late")], NoAnswerInTime),
        ([REJECTED, GONE], ServerUnavailable),
        ([REJECTED, REJECTED], RequestRejected),
        ([GONE, NONE_OF_THEM, REJECTED], InvalidReply),
    ],
)
def test_what_all_failures_come_to(errors: list[Exception], kind: type[LanguageModelError]) -> None:
    with pytest.raises(LanguageModelError) as raised:
        together(*map(Moody, errors)).decide(REQUEST).take()
    assert type(raised.value) is kind


class Objected(Moody):
    """Says what may not be said."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked += 1
        return Pending.ready(Reply(str(self.mood), objection="that may not be said"))


def test_the_next_one_answers_where_one_says_what_may_not_be_said_and_that_one_does_not_rest() -> None:
    first, second = Objected("Act: fly"), Moody("hi")
    model = together(first, second)
    for _ in range(2):
        assert model.decide(REQUEST).take().answered_by == "second"
    assert first.asked == 2


def test_what_may_not_be_said_comes_with_its_objection_where_no_other_answers() -> None:
    model = together(Objected("Act: fly"), Objected("Act: swim"), Moody(ServerUnavailable("gone")))
    reply = model.decide(REQUEST).take()
    assert (reply.text, reply.objection, reply.answered_by) == ("Act: fly", "that may not be said", "first")
    assert model.status()["first"] == "1 answers"


def test_a_prompt_too_long_for_one_may_fit_the_next_and_is_no_reason_to_rest() -> None:
    first, second = Moody(PromptTooLong(100, 1000)), Moody("hi")
    model = together(first, second)
    assert model.decide(REQUEST).take().answered_by == "second"
    assert model.decide(REQUEST).take().answered_by == "second"
    assert first.asked == 2


def test_cancelling_stops_whoever_answers() -> None:
    first, second, third = Moody(ServerUnavailable("gone")), Moody(None), Moody("hi")
    model = together(first, second, third)
    pending = model.decide(REQUEST)
    assert pending.cancel()
    assert second.cancelled.is_set()
    assert third.asked == 0
    assert "rests" not in model.status()["second"]


def test_the_next_one_answers_where_one_cancels_its_own_reply() -> None:
    first, second = Moody(None), Moody("hi")
    pending = together(first, second).decide(REQUEST)
    first.held[0].cancel()
    assert pending.take().answered_by == "second"


class Blocks(Moody):
    """Does not return from being asked until it is let."""

    def __init__(self) -> None:
        super().__init__("at last")
        self.entered, self.let = threading.Event(), threading.Event()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.entered.set()
        self.let.wait(PATIENCE)
        return super().decide(request)


def test_a_model_that_blocks_when_it_is_asked_stalls_no_other_limit() -> None:
    blocks = Blocks()
    pending = together(Moody(None), blocks, time_limit=0.05).decide(REQUEST)
    assert blocks.entered.wait(PATIENCE)
    other: Pending[None] = Pending()
    give_up_after(other, 0.01, lambda: TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        other.result(PATIENCE / 4)
    blocks.let.set()
    assert pending.result(PATIENCE).text == "at last"


def test_it_is_ready_when_one_is() -> None:
    first, second = Moody("a"), Moody("b")
    ready = together(first, second).ready()
    first.getting_ready.fail(ServerUnavailable("gone"))
    assert not ready.done()
    second.getting_ready.succeed(None)
    assert ready.take() is None
    ready = together(first, second).ready()
    assert ready.done()


def test_it_never_is_where_none_is_and_the_error_names_each() -> None:
    first, second = Moody("a"), Moody("b")
    ready = together(first, second).ready()
    second.getting_ready.cancel()
    assert not ready.done()
    first.getting_ready.fail(ServerUnavailable("gone"))
    with pytest.raises(ServerUnavailable) as raised:
        ready.take()
    assert str(raised.value) == "no language model is ready: second: was closed; first: gone"


def test_it_counts_as_the_first_and_closes_all() -> None:
    first, second = Moody("a"), Moody("b")
    model = together(first, second)
    assert model.count_tokens("four") == 4
    model.close()
    assert (first.closed, second.closed) == (True, True)
