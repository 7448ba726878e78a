"""Servers that do not answer, or answer by halves: one bound for a decision and for getting ready, and a word soon."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from clients import PATIENCE, Model, ask, clients
from openai_peer import Behaviour, Exchange, Peer, fails, never_answers

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.engine_model import FairQueue
from reactree_ros.llm.fallback import Backup, FallbackModel
from reactree_ros.llm.port import (
    DecisionRequest,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    Reply,
)
from reactree_ros.llm.waiting import log

THOUGHT = "Think: well"
REQUEST = DecisionRequest((Told("Say."),), DecisionGrammar(("done",)))
#: A limit that is met only where nothing adds up: each half of an answer is given within less.
LIMIT = 1.0


@pytest.fixture
def model() -> Iterator[Model]:
    with clients(retries=3, request_timeout=LIMIT) as make:
        yield make


def drips(exchange: Exchange) -> None:
    """Send a byte of the answer now and then, for ever: each read of it is in time."""
    begin(exchange)
    while _write(exchange, b" "):
        threading.Event().wait(LIMIT / 10)


def only_begins(exchange: Exchange) -> None:
    """Send the headers, and then nothing."""
    begin(exchange)
    exchange.hold()


def keeps_alive(exchange: Exchange) -> None:
    """Send lines that say nothing, as servers do that stream."""
    begin(exchange, "text/event-stream")
    while _write(exchange, b": keep-alive\n\n"):
        threading.Event().wait(LIMIT / 10)


def begin(exchange: Exchange, kind: str = "application/json") -> None:
    exchange.handler.send_response(200)
    exchange.handler.send_header("Content-Type", kind)
    exchange.handler.send_header("Content-Length", "1000000")
    exchange.handler.end_headers()
    exchange.handler.wfile.flush()


def _write(exchange: Exchange, what: bytes) -> bool:
    try:
        exchange.handler.wfile.write(what)
        exchange.handler.wfile.flush()
    except OSError:
        return False
    return True


MUTE: dict[str, Behaviour] = {
    "silent": never_answers,
    "headers alone": only_begins,
    "a byte at a time": drips,
    "blank lines": keeps_alive,
    "busy for an hour": lambda exchange: exchange.reply(503, {}, {"Retry-After": "3600"}),
}


@contextmanager
def black_hole() -> Iterator[str]:
    """Yield the URL of a server that accepts connections, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.mark.slow
def test_a_server_that_only_accepts_connections_is_given_up_within_one_limit(model: Model) -> None:
    with black_hole() as url:
        one = model(url)
        with pytest.raises(NoAnswerInTime, match=f"the server at {url}: no answer within 1 s"):
            one.ready().result(PATIENCE)
        with pytest.raises(NoAnswerInTime, match=f"the server at {url}: no answer within 1 s"):
            one.decide(REQUEST).result(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", MUTE.values(), ids=MUTE)
def test_getting_ready_has_one_limit_whatever_stands_in_between(model: Model, behaviour: Behaviour) -> None:
    with Peer(chats=True) as peer:
        one = model(peer)
        peer.on_models = behaviour
        with pytest.raises(LanguageModelError):
            one.ready().result(PATIENCE)
        peer.on_models = None
        assert len(peer.requests) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [never_answers, only_begins, drips, keeps_alive])
def test_a_decision_has_one_limit_whatever_comes_meanwhile(model: Model, behaviour: Behaviour) -> None:
    with Peer(say=lambda prompt: THOUGHT) as peer:
        one = model(peer, chat=False)
        assert ask(one).text == THOUGHT
        peer.script.append(behaviour)
        with pytest.raises(NoAnswerInTime, match="no answer within 1 s"):
            ask(one)
        assert ask(one).text == THOUGHT
        assert len(peer.asked) == 3


@pytest.mark.slow
def test_trials_and_retries_share_the_limit(model: Model) -> None:
    with Peer(chats=True, say=lambda prompt: THOUGHT) as peer:

        def slowly(exchange: Exchange) -> None:
            threading.Event().wait(LIMIT / 2)
            fails(500)(exchange)

        peer.on_models = slowly
        with pytest.raises(NoAnswerInTime, match="no answer within 1 s"):
            model(peer).ready().result(PATIENCE)
        assert len(peer.requests) <= 3


def test_what_the_asker_has_less_patience_for_is_given_up_sooner(model: Model) -> None:
    with black_hole() as url:
        request = DecisionRequest(REQUEST.turns, REQUEST.may_say, patience=0.25)
        with pytest.raises(NoAnswerInTime, match=r"no answer within 0\.25 s"):
            model(url).decide(request).result(PATIENCE)


def test_cancelling_ends_the_wait_also_while_it_gets_ready(model: Model) -> None:
    with black_hole() as url:
        pending = model(url, request_timeout=PATIENCE).decide(REQUEST)
        assert pending.cancel()
        assert pending.cancelled()


@pytest.mark.slow
def test_the_next_language_model_answers_within_the_limit_of_the_mute_one(model: Model) -> None:
    with black_hole() as url:
        backups = [Backup(model(url), "mute", LIMIT), Backup(ExpertModel(), "other", LIMIT)]
        both = FallbackModel(backups)
        both.ready().result(PATIENCE)
        assert both.decide(REQUEST).result(PATIENCE).answered_by == "other"


# ---------------------------------------------------------------------- the queue


class Held(LanguageModel):
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[DecisionRequest, Pending[Reply]]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.append((request, Pending()))
        return self.asked[-1][1]


def test_what_is_waited_for_in_the_queue_is_part_of_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("reactree_ros.llm.engine_model.time.monotonic", lambda: now[0])
    held = Held()
    queue = FairQueue(held, 1)
    requests = [DecisionRequest((Told("Say."),), REQUEST.may_say, patience=10.0) for _ in range(3)]
    pendings = [queue.decide(request) for request in requests]
    now[0] += 4.0
    held.asked[0][1].succeed(Reply(THOUGHT))
    assert held.asked[1][0].patience == pytest.approx(6.0)
    now[0] += 7.0
    held.asked[1][1].succeed(Reply(THOUGHT))
    assert len(held.asked) == 2  # nobody waits for the third any more
    with pytest.raises(NoAnswerInTime, match="busy with other requests"):
        pendings[2].result(0)


# ---------------------------------------------------------------------- a word soon


@pytest.mark.slow
def test_a_mute_server_is_told_in_the_log_while_it_is_waited_for(
    model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reactree_ros.llm.engine_model.SOON", 0.05)
    monkeypatch.setattr("reactree_ros.llm.waiting.SOON", 0.05)
    with black_hole() as url, caplog.at_level(logging.WARNING, log.name):
        one = model(url)
        with pytest.raises(NoAnswerInTime):
            one.ready().result(PATIENCE)
        waits = [record.message for record in caplog.records if record.name == log.name]
        assert waits == [f"waiting for the server at {url}, 0 s"]
        assert one.waits_for() is None
