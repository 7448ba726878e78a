"""Any OpenAI-compatible server: what it is asked, what it is found to obey, and what every failure becomes."""

from __future__ import annotations

import gzip
import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from clients import GRAMMAR_OF_THREE, PATIENCE, Model, Serve, ask, clients, decided, refusal, serving
from openai_peer import (
    CHOICE,
    GRAMMAR,
    JSON_SCHEMA,
    REGEX,
    TOOLS,
    Behaviour,
    Exchange,
    Peer,
    answer,
    answers,
    babbles,
    breaks_off,
    fails,
    hangs_up,
    never_answers,
    resets,
    says,
    says_the_key,
    shows_a_page,
)

from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.doctor import servers
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.engine import ConstraintKind
from reactree_ros.llm.fallback import Backup, FallbackModel
from reactree_ros.llm.openai.connection import LONGEST_ANSWER
from reactree_ros.llm.port import (
    Choice,
    DecisionRequest,
    FreeText,
    InvalidReply,
    LanguageModelError,
    NoAnswerInTime,
    PromptTooLong,
    RequestRejected,
    ServerUnavailable,
)
from reactree_ros.llm.waiting import log
from reactree_ros.plugins.installation import Level

SECRET, PASSWORD = "sk-hush-4711", "hush-4711"
THOUGHT = "Think: well"
GONE = "cannot be reached: nothing listens there, or it closed the connection"
REQUEST = DecisionRequest((Told("Say."),), GRAMMAR_OF_THREE)
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *map(str.upper, PROXIES), "REQUEST_METHOD", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def thinking(**more: Any) -> Peer:
    return Peer(**{"say": lambda prompt: THOUGHT, **more})


@pytest.fixture
def peer() -> Iterator[Peer]:
    with thinking() as one:
        yield one


@pytest.fixture
def model() -> Iterator[Model]:
    """Makes language models of a peer; without settings that say otherwise, what it obeys need not be tried out."""
    with clients(chat=False) as make:
        yield make


@pytest.fixture
def serve() -> Iterator[Serve]:
    with serving(chat=False) as one:
        yield one


# ---------------------------------------------------------------------- failures


def broken(message: Any = "Upstream is gone", **more: Any) -> dict[str, Any]:
    return {"message": message, **more}


def packed(exchange: Exchange) -> None:
    body = gzip.compress(b'{"choices": "' + b"a" * 50_000_000 + b'"}')
    exchange.raw(200, body, "application/json", {"Content-Encoding": "gzip"})


def endless(exchange: Exchange) -> None:
    with suppress(OSError):  # the client goes away
        exchange.raw(200, b'{"choices": "' + b"a" * (LONGEST_ANSWER + 1) + b'"}', "application/json")


def nested(exchange: Exchange) -> None:
    exchange.raw(200, b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "application/json")


def fails_inside(**error: Any) -> Any:
    return {"choices": [{"finish_reason": "error", "message": {"content": "half a th"}, "error": broken(**error)}]}


GONE_, REJECTED = ServerUnavailable, RequestRejected
NO_KEY = "does not accept the key (HTTP 401); set OPENAI_API_KEY or api_key"
FILTERED = "answered with nothing: its content filter withheld the answer"
#: What servers do, or answer, what becomes of it, what is said, and how often it is asked.
FAILURES: dict[str, tuple[Any, type[LanguageModelError], str, int]] = {
    "500": (fails(500, "CUDA error"), GONE_, "answered HTTP 500: CUDA error", 2),
    "503": (fails(503, "loading model"), GONE_, "answered HTTP 503: loading model", 2),
    "429": (fails(429, "slow down"), GONE_, "answered HTTP 429: slow down", 2),
    "400": (fails(400, "bad\ngrammar"), REJECTED, "answered HTTP 400: bad grammar", 1),
    "422": (fails(422, "no such field"), REJECTED, "answered HTTP 422: no such field", 1),
    "404": (fails(404, "The model `tiny` does not exist."), REJECTED, "The model `tiny` does not exist", 1),
    "401": (fails(401, "no"), REJECTED, NO_KEY, 1),
    "403": (fails(403, "no"), REJECTED, NO_KEY.replace("401", "403"), 1),
    "no JSON": (babbles, GONE_, "answered with garbage", 1),
    "a web page": (shows_a_page, GONE_, "not a completion: '<html>Welcome</html>'", 1),
    "another JSON": ({"message": "hi"}, GONE_, "not a completion: {'message': 'hi'}", 1),
    "a list": ([], GONE_, "not a completion: []", 1),
    "null": (None, GONE_, "not a completion: None", 1),
    "no choice": ({"choices": []}, GONE_, "not a completion: {'choices': []}", 1),
    "a message that is none": ({"choices": [{"message": "yes"}]}, GONE_, "not a completion", 1),
    "half an answer": (breaks_off, GONE_, GONE, 2),
    "no word": (hangs_up, GONE_, GONE, 2),
    "too much, packed": (packed, GONE_, "its answer is compressed", 2),
    "too much": (endless, GONE_, "its answer is longer than", 2),
    "too deep": (nested, GONE_, "garbage", 1),
    # in the form of an answer
    "a gateway's error": ({"error": broken(code=502)}, GONE_, "with an error (502): Upstream is gone", 1),
    "a number in words": ({"error": broken(code="429")}, GONE_, "(429): Upstream is gone", 1),
    "no code": ({"error": broken()}, GONE_, "with an error: Upstream is gone", 1),
    "a text": ({"error": "no GPU"}, GONE_, "with an error: no GPU", 1),
    "a refusal": ({"error": broken("no schema", code=400)}, REJECTED, "with an error (400): no schema", 1),
    "a refusal in words": (
        {"error": broken("no schema", type="invalid_request_error", code=None)},
        REJECTED,
        "with an error: no schema",
        1,
    ),
    "a wrong key": ({"error": broken("no", code=401)}, REJECTED, NO_KEY, 1),
    "an error with a choice": (answer({"content": "half"}) | {"error": broken(code=502)}, GONE_, "Upstream is gone", 1),
    "an error in the choice": (fails_inside(code=502), GONE_, "with an error (502): Upstream is gone", 1),
    "an engine's error": (
        answer({"content": "half a th"}, "error"),
        GONE_,
        "with an error: its engine ended the text (finish_reason 'error')",
        1,
    ),
    "an abort": (answer({"content": ""}, "abort"), GONE_, "its engine ended the text (finish_reason 'abort')", 1),
    "a content filter": (answer({"content": "Act: "}, "content_filter"), REJECTED, FILTERED, 1),
    "a key in an error": ({"error": broken(f"key {SECRET}", code=400)}, REJECTED, "(400): key ***", 1),
    "a key in no completion": ({"said": SECRET}, GONE_, "not a completion: {'said': '***'}", 1),
}


@pytest.mark.parametrize(("does", "error", "message", "sent"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_named_without_the_key_and_the_next_request_succeeds(
    peer: Peer, model: Model, does: Any, error: type[LanguageModelError], message: str, sent: int
) -> None:
    one = model(peer)
    peer.script.extend([does if callable(does) else answers(does)] * sent)
    failure = refusal(one)
    assert type(failure) is error
    assert message in str(failure)
    assert f"vllm 0.32.0 at {peer.base_url}" in str(failure)
    assert SECRET not in f"{failure}{failure.__cause__!r}{failure.__context__!r}"
    assert len(peer.asked) == sent
    assert ask(one).text == THOUGHT


@pytest.mark.parametrize(
    "behaviour", [fails(500), fails(429), hangs_up, breaks_off], ids=["500", "429", "gone", "half"]
)
def test_a_passing_failure_is_asked_again(peer: Peer, model: Model, behaviour: Behaviour) -> None:
    peer.script.append(behaviour)
    assert ask(model(peer)).text == THOUGHT
    assert [request.body for request in peer.asked] == [peer.asked[0].body] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_told_and_not_followed(peer: Peer, model: Model, status: int) -> None:
    with Peer(chats=True) as elsewhere:

        def redirects(exchange: Exchange) -> None:
            path = exchange.request.path
            exchange.reply(status, {}, {"Location": f"{elsewhere.base_url.removesuffix('/v1')}{path}?key={SECRET}"})

        peer.on_models = redirects
        told = refusal(model(peer))
        assert isinstance(told, RequestRejected), "to ask again would not help"
        assert f"it redirects to {elsewhere.base_url}; if that is the server, set --base-url" in str(told)
        peer.on_models = None
        one = model(peer)
        one.ready().result(20)
        peer.script.append(redirects)
        assert f"it redirects to {elsewhere.base_url}" in str(refusal(one))
        assert elsewhere.requests == [], "neither the key nor a prompt goes to another host"


@pytest.mark.parametrize("place", ["", "/v1/models", "http://[", "//"])
def test_a_redirect_to_nowhere_else_is_told(peer: Peer, model: Model, place: str) -> None:
    peer.on_models = lambda exchange: exchange.reply(307, {}, {"Location": place})
    assert "redirects in circles" in str(refusal(model(peer)))


def test_a_server_that_is_not_there_is_named_and_used_when_it_is_and_comes_back(peer: Peer, model: Model) -> None:
    peer.stop()
    one = model(peer, retries=0)
    for _ in range(2):
        failure = refusal(one)
        assert type(failure) is ServerUnavailable
        assert str(failure) == f"the server at {peer.base_url} {GONE}"
    with pytest.raises(ServerUnavailable, match=GONE):
        one.ready().result(PATIENCE)
    for _ in range(2):
        peer.start()
        assert ask(one).text == THOUGHT
        peer.stop()
        assert str(refusal(one)).endswith(GONE)


@pytest.mark.parametrize("end", [hangs_up, resets, breaks_off], ids=["closed", "reset", "half an answer"])
def test_a_server_that_dies_in_a_request_is_told_as_one_that_refuses_it(
    peer: Peer, model: Model, end: Behaviour
) -> None:
    one = model(peer, retries=0)
    peer.script.append(lambda exchange: (peer.close_port(), end(exchange))[1])
    failures = [refusal(one), refusal(one)]
    assert [type(failure) for failure in failures] == [ServerUnavailable] * 2
    assert [str(failure) for failure in failures] == [f"vllm 0.32.0 at {peer.base_url} {GONE}"] * 2
    peer.start()
    assert ask(one).text == THOUGHT


def test_a_host_without_an_address_is_named(model: Model) -> None:
    failure = refusal(model("http://nowhere.invalid/v1", retries=0))
    assert type(failure) is ServerUnavailable
    assert "http://nowhere.invalid/v1 cannot be reached" in str(failure)


def test_cancelling_closes_the_connection(peer: Peer, model: Model) -> None:
    one = model(peer)
    peer.script.append(never_answers)
    pending = one.decide(DecisionRequest((Told("Stop me."),), GRAMMAR_OF_THREE))
    peer.held.get(timeout=PATIENCE)
    assert ask(one, "Not me.").text == THOUGHT
    assert pending.cancel()
    assert peer.gone.get(timeout=PATIENCE).prompt == "Stop me.\n"
    assert [request.prompt for request in peer.asked] == ["Stop me.\n", "Not me.\n"]


def test_closing_ends_what_is_in_flight(peer: Peer, model: Model) -> None:
    one = model(peer)
    peer.script.append(never_answers)
    pending = one.decide(REQUEST)
    peer.held.get(timeout=PATIENCE)
    one.close()
    with pytest.raises(ServerUnavailable, match="the language model is closed"):
        pending.result(PATIENCE)
    assert peer.gone.get(timeout=PATIENCE).prompt == "Say.\n"
    assert "closed" in str(refusal(one))
    one.close()


# ---------------------------------------------------------------------- servers that do not answer, or by halves

#: A limit that is met only where nothing adds up: each half of an answer is given within less.
LIMIT = 1.0


def repeats(what: bytes, kind: str = "application/json") -> Behaviour:
    """Send something now and then, for ever: each read of it is in time."""

    def behave(exchange: Exchange) -> None:
        exchange.begin(kind)
        with suppress(OSError):
            while True:
                exchange.handler.wfile.write(what)
                exchange.handler.wfile.flush()
                threading.Event().wait(LIMIT / 10)

    return behave


def only_begins(exchange: Exchange) -> None:
    exchange.begin("application/json")
    exchange.hold()


MUTE: dict[str, Behaviour] = {
    "silent": never_answers,
    "headers alone": only_begins,
    "a byte at a time": repeats(b" "),
    "blank lines": repeats(b": keep-alive\n\n", "text/event-stream"),
    "busy for an hour": lambda exchange: exchange.reply(503, {}, {"Retry-After": "3600"}),
}


@pytest.fixture
def black_hole() -> Iterator[str]:
    """The URL of a server that accepts connections, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.fixture
def hurried() -> Iterator[Model]:
    with clients(retries=3, request_timeout=LIMIT) as make:
        yield make


@pytest.mark.slow
def test_a_server_that_only_accepts_connections_is_given_up_within_one_limit_and_told_in_the_log(
    hurried: Model, black_hole: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reactree_ros.llm.engine_model.SOON", 0.05)
    monkeypatch.setattr("reactree_ros.llm.waiting.SOON", 0.05)
    one = hurried(black_hole)
    late = f"the server at {black_hole}: no answer within 1 s"
    with caplog.at_level(logging.WARNING, log.name), pytest.raises(NoAnswerInTime, match=late):
        one.ready().result(PATIENCE)
    waits = [record.message for record in caplog.records if record.name == log.name]
    assert waits == [f"waiting for the server at {black_hole}, 0 s"]
    assert one.waits_for() is None
    with pytest.raises(NoAnswerInTime, match=late):
        one.decide(REQUEST).result(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", MUTE.values(), ids=MUTE)
def test_getting_ready_has_one_limit_whatever_stands_in_between(hurried: Model, behaviour: Behaviour) -> None:
    with Peer(chats=True) as peer:
        one = hurried(peer)
        peer.on_models = behaviour
        with pytest.raises(LanguageModelError):
            one.ready().result(PATIENCE)
        peer.on_models = None
        assert len(peer.requests) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [*MUTE.values()][:4], ids=[*MUTE][:4])
def test_a_decision_has_one_limit_whatever_comes_meanwhile_and_the_server_is_told(
    peer: Peer, hurried: Model, behaviour: Behaviour
) -> None:
    one = hurried(peer, chat=False)
    assert ask(one).text == THOUGHT
    peer.script.append(behaviour)
    failure = refusal(one)
    assert type(failure) is NoAnswerInTime
    assert str(failure).endswith("no answer within 1 s")
    if behaviour in (never_answers, only_begins):
        assert peer.gone.get(timeout=PATIENCE).prompt == "Say.\n"
    assert ask(one).text == THOUGHT
    assert len(peer.asked) == 3


@pytest.mark.slow
def test_trials_and_retries_share_the_limit(hurried: Model) -> None:
    with thinking(chats=True) as peer:
        peer.on_models = lambda exchange: (threading.Event().wait(LIMIT / 2), fails(500)(exchange))[1]
        with pytest.raises(NoAnswerInTime, match="no answer within 1 s"):
            hurried(peer).ready().result(PATIENCE)
        assert len(peer.requests) <= 3


def test_what_the_asker_has_less_patience_for_is_given_up_sooner(hurried: Model, black_hole: str) -> None:
    with pytest.raises(NoAnswerInTime, match=r"no answer within 0\.25 s"):
        ask(hurried(black_hole), patience=0.25)


def test_cancelling_ends_the_wait_also_while_it_gets_ready(model: Model, black_hole: str) -> None:
    pending = model(black_hole).decide(REQUEST)
    assert pending.cancel()
    assert pending.cancelled()


@pytest.mark.slow
def test_the_next_language_model_answers_within_the_limit_of_the_mute_one(hurried: Model, black_hole: str) -> None:
    both = FallbackModel([Backup(hurried(black_hole), "mute", LIMIT), Backup(ExpertModel(), "other", LIMIT)])
    both.ready().result(PATIENCE)
    assert both.decide(REQUEST).result(PATIENCE).answered_by == "other"


# ---------------------------------------------------------------------- a prompt that is too long


@pytest.mark.parametrize("owner", ["vllm", "llamacpp", "sglang", "tgi", "openai"])
def test_a_prompt_that_is_too_long_says_by_how_much(serve: Serve, owner: str) -> None:
    peer, one = serve(thinking(owned_by=owner, context=3000))
    for words, excess in ((3000, 200), (4900, 2100)):
        failure = refusal(one, "word " * words, max_tokens=200)
        assert isinstance(failure, PromptTooLong)
        assert (failure.excess, failure.context) == (excess, 3000)
    assert len(peer.asked) == 2


def test_a_prompt_that_is_too_long_may_be_told_in_an_answer(serve: Serve) -> None:
    told = "The maximum context length is 3000 tokens. However, you requested 3300 tokens (3100 in the messages)."
    peer, one = serve(Peer(owned_by="hosted"), dialect="openai")
    peer.script.append(answers({"error": broken(told, code="context_length_exceeded")}))
    failure = refusal(one, max_tokens=200)
    assert isinstance(failure, PromptTooLong)
    assert (failure.excess, failure.context) == (300, 3000)


def test_a_reply_that_was_cut_because_the_context_was_full_means_a_prompt_that_is_too_long(serve: Serve) -> None:
    _, one = serve(Peer(owned_by="llamacpp", context=3000, say=lambda prompt: "Think: " + "well " * 300))
    failure = refusal(one, "word " * 2900, max_tokens=200)
    assert isinstance(failure, PromptTooLong)
    assert (failure.excess, failure.context) == (100, 3000)


def test_the_excess_is_what_tokenize_counts(serve: Serve) -> None:
    peer, one = serve(thinking(context=100, chats=True), chat=True)
    failure = refusal(one, Told("System", About.SYSTEM), f"task {'word ' * 200}", max_tokens=50)
    assert isinstance(failure, PromptTooLong)
    last = peer.requests[-1]
    assert (last.path, last.body["messages"]) == ("/tokenize", peer.asked[0].body["messages"])
    assert failure.excess == len(last.prompt.split()) + 50 - 100


# ---------------------------------------------------------------------- the key


@pytest.fixture(params=["environment", "file"])
def key_settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The key, given in one of the two ways."""
    if request.param == "environment":
        return {}
    (tmp_path / "key").write_text(f"{SECRET}\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    return {"api_key_file": str(tmp_path / "key")}


def test_the_key_reaches_the_server_and_nothing_else(
    model: Model, key_settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    long = answers({"an answer that is not a completion " + "x" * 68: SECRET})
    with thinking(key=SECRET) as peer:
        one = model(peer, chat=None, **key_settings)
        shown = [repr(ask(one))]
        for behaviour in (says_the_key, fails(500, f"I know {SECRET}"), fails(500, f"I know {SECRET}"), long):
            peer.script.append(behaviour)
        for _ in range(3):
            failure = refusal(one)
            shown += [str(failure), repr(failure), repr(failure.__cause__), repr(failure.__context__)]
        assert all(request.headers["authorization"] == f"Bearer {SECRET}" for request in peer.requests)
        peer.key = "another"
        shown.append(str(refusal(one)))
        shown += [repr(one), repr(one.status()), repr(vars(one).keys())]
    assert "Incorrect key: Bearer ***" in shown[1]
    assert "does not accept the key (HTTP 401)" in shown[-4]
    for text in [*shown, caplog.text]:
        assert "sk-" not in text.replace("Task-", "")
    assert "httpx" in caplog.text or "openai" in caplog.text


NO_KEYS = {
    "not there": (None, "cannot be read (No such file or directory)"),
    "empty": (b"", "holds no key"),
    "blank": (b" \n", "holds no key"),
    "two words": (b"sk-hush two\n", "holds no key"),
    "no ASCII": ("sk-hush-ä".encode(), "holds no key"),
    "no UTF-8": (b"sk-hush\xff", "cannot be read"),
}


@pytest.mark.parametrize(("content", "message"), NO_KEYS.values(), ids=NO_KEYS)
def test_a_file_without_a_key_is_named_and_not_repeated(
    peer: Peer, model: Model, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        model(peer, api_key_file=str(path))
    assert str(path) in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("key", ["sk-hush two", "sk-hush\ntwo", "sk-hush\x1btwo", "sk-hush-ä", "sk-hush\x7f"])
def test_what_cannot_be_a_key_is_refused_and_not_repeated(
    peer: Peer, model: Model, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UserError, match=r"\$OPENAI_API_KEY: holds no key") as refused:
        model(peer)
    assert "hush" not in str(refused.value)


# ---------------------------------------------------------------------- the URL

NO_URLS = (
    *("127.0.0.1:8000", "localhost/v1", "ftp://localhost/v1", "http://", "http:///v1", "http://localhost:0/v1"),
    *("http://localhost:99999/v1", "http://localhost:port/v1", "http://[::1/v1", "http://local host/v1"),
    *("http://localhost/v1#part", "http://localhost/v1\n"),
)
WITH_A_SECRET = (
    *(f"http://user:{SECRET}@localhost/v1", f"http://{SECRET}@localhost/v1", f"http://localhost/v1?key={SECRET}"),
    *(f"http://user:{SECRET}@localhost:99999/v1", f"http://user:{SECRET}@[::1/v1", f"ftp://user:{SECRET}@localhost/v1"),
    f"user:{SECRET}@localhost",
)


@pytest.mark.parametrize("url", NO_URLS)
def test_what_is_no_url_is_refused_in_one_line(model: Model, url: str) -> None:
    with pytest.raises(UserError) as refused:
        model(url)
    assert "it looks like http://127.0.0.1:8000/v1" in str(refused.value)
    begin = re.match(r"[^#]*?//(?:\[::1|localhost:(?:port|99999)|[^#]*)", url)  # what may be a key is left out
    assert repr((begin[0] if begin else url).removesuffix(":port"))[1:-1] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("url", WITH_A_SECRET)
def test_a_url_with_a_secret_is_refused_and_not_repeated(model: Model, url: str) -> None:
    with pytest.raises(UserError, match="must hold no user, password or query") as refused:
        model(url)
    assert SECRET not in str(refused.value)


def test_the_url_may_come_from_the_environment_and_without_a_path(
    peer: Peer, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"needs a base URL, e\.g\. http://127\.0\.0\.1:8000/v1"):
        model("")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{peer.port}/")
    assert ask(model("")).text == THOUGHT


# ---------------------------------------------------------------------- proxies of the environment

ELSEWHERE = "http://gpu.example:8000/v1"


@pytest.fixture
def nowhere() -> str:
    """The address of a proxy that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", "https://", "socks4://", "socks5://", "socks5h://", ""])
def test_a_server_on_this_machine_is_reached_without_a_proxy(
    peer: Peer, model: Model, monkeypatch: pytest.MonkeyPatch, nowhere: str, variable: str, scheme: str
) -> None:
    monkeypatch.setenv(variable, f"{scheme}{nowhere}")
    assert ask(model(peer, retries=0)).text == THOUGHT
    (found,) = servers.servers(peer.base_url, None)
    assert found.level is Level.RIGHT


class ProxyPeer(Peer):
    """A server that is asked as a proxy, with the whole URL."""

    def answer(self, exchange: Exchange) -> None:
        exchange.request.path = urlsplit(exchange.request.path).path
        super().answer(exchange)


def test_a_server_elsewhere_is_reached_through_the_proxy(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProxyPeer(say=lambda prompt: THOUGHT) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}")
        assert ask(model(ELSEWHERE)).text == THOUGHT
        assert all(request.headers["host"] == "gpu.example:8000" for request in proxy.requests)
        assert any("proxy-authorization" in request.headers for request in proxy.requests)


@pytest.mark.parametrize(
    "proxy", ["socks4://{}@proxy:1080", "ftp://{}@proxy", "http://{}@proxy:port", "http://{}@[::1"]
)
def test_a_proxy_that_cannot_be_used_is_the_users_error_in_one_line(
    model: Model, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.format(f"me:{PASSWORD}"))
    one = model(ELSEWHERE)
    with pytest.raises(UserError, match=r"the proxy of the environment cannot be used .*ALL_PROXY") as raised:
        one.ready().result(PATIENCE)
    assert "\n" not in str(raised.value)
    assert type(refusal(one)) is RequestRejected
    (found,) = servers.servers(ELSEWHERE, None)
    assert found.level is Level.WRONG
    assert PASSWORD not in f"{raised.value} {found}"


def test_a_proxy_that_is_not_there_is_no_secret_of_its_password(
    model: Model, monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@{nowhere}")
    failure = refusal(model(ELSEWHERE, retries=0))
    assert type(failure) is ServerUnavailable
    assert f"the server at {ELSEWHERE} cannot be reached" in str(failure)
    (found,) = servers.servers(ELSEWHERE, None)
    assert PASSWORD not in f"{failure} {failure.__cause__!r} {failure.__context__!r} {found}"


# ---------------------------------------------------------------------- the model


def test_the_first_model_is_taken_unless_one_is_named(model: Model) -> None:
    with thinking(models=("a", "b")) as peer:
        ask(model(peer))
        ask(model(peer, model="b"))
        assert [request.body["model"] for request in peer.asked] == ["a", "b"]
        failure = refusal(model(peer, model="c"))
        assert type(failure) is RequestRejected
        assert str(failure).endswith("The model `c` does not exist.; it lists no model 'c', but a, b")


IS_IT_RIGHT = "lists no models; is its base URL right?"


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (answers({"object": "list", "data": []}), "has no model"),
        (answers({"hello": "you"}), IS_IT_RIGHT),
        (answers({"data": [{}]}), IS_IT_RIGHT),
        (shows_a_page, IS_IT_RIGHT),
        (babbles, "answered with garbage"),
        (fails(404, "Not Found"), "answered HTTP 404: Not Found"),
    ],
)
def test_a_server_of_something_else_is_named_and_asked_anew(
    peer: Peer, model: Model, behaviour: Behaviour, message: str
) -> None:
    peer.on_models = behaviour
    one = model(peer)
    failure = refusal(one)
    assert type(failure) in (ServerUnavailable, RequestRejected)
    assert message in str(failure)
    assert peer.base_url in str(failure)
    assert str(failure).endswith("name the model (--model NAME)")
    peer.on_models = None
    assert ask(one).text == THOUGHT


OTHER_LISTS: dict[str, Behaviour] = {
    **{str(status): fails(status, "no") for status in (401, 403, 404, 405, 500, 501)},
    "a web page": shows_a_page,
    "no JSON": babbles,
    "null": answers(None),
    "a list": answers(["tiny"]),
    "no names": answers({"data": [{}, 1, None]}),
    "data of another kind": answers({"data": "tiny"}),
    "another shape": answers({"models": [{"name": "tiny"}]}),
    "nothing": answers({"object": "list", "data": []}),
    "other models": answers({"data": [{"id": "other", "owned_by": "somebody"}]}),
}


@pytest.mark.parametrize("behaviour", OTHER_LISTS.values(), ids=OTHER_LISTS)
@pytest.mark.parametrize("chats", [True, False])
def test_a_model_that_is_named_need_not_be_listed(model: Model, behaviour: Behaviour, chats: bool) -> None:
    with thinking(chats=chats) as peer:
        peer.on_models = behaviour
        one = model(peer, model="tiny", chat=None)
        one.ready().result(PATIENCE)
        assert ask(one).text == THOUGHT
        assert one.status()["model"] == "tiny"
        assert {request.body["model"] for request in peer.asked} == {"tiny"}
        assert sum(request.path == "/v1/models" for request in peer.requests) == 1


def test_a_server_without_list_and_chat_is_doubted(serve: Serve) -> None:
    peer, one = serve(Peer(models=()), model="tiny")
    peer.on_models = fails(404, "Not Found")
    assert str(refusal(one)).endswith("it has no list of models either: is its base URL right?")


# ---------------------------------------------------------------------- what a request holds


def test_a_completion_holds_what_was_asked_for(peer: Peer, model: Model) -> None:
    reply = ask(model(peer), "Once upon a time.", max_tokens=77, temperature=0.5, top_p=0.9, seed=9)
    (request,) = peer.asked
    assert request.path == "/v1/completions"
    assert request.body == {
        "model": "tiny",
        "prompt": "Once upon a time.\n",
        "max_tokens": 77,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 9,
        "structured_outputs": {"regex": GRAMMAR_OF_THREE.regex()},
    }
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (4, 2, 2)
    assert reply.answered_by == f"vllm 0.32.0 at {peer.base_url}"


def test_a_chat_has_what_the_model_said_as_its_messages(serve: Serve) -> None:
    system = Told("System.\nSource domain:\nexample\nTarget_domain:", About.SYSTEM)
    own = (Told("Your task is to: x"), Said("Think: a"), Told("OK.", About.ANSWER), Said("Act: b"), Saw("You b."))
    peer, one = serve(thinking(chats=True), chat=None)
    assert ask(one, system, *own).text == THOUGHT
    (request,) = peer.asked
    assert request.path == "/v1/chat/completions"
    roles = ("system", "user", "assistant", "user", "assistant", "user")
    assert request.body["messages"] == [
        {"role": role, "content": turn.text} for role, turn in zip(roles, (system, *own), strict=True)
    ]
    assert "continue_final_message" not in request.body


def test_what_a_chat_has_begun_to_say_is_its_last_message_to_be_continued(serve: Serve) -> None:
    second = Peer(chats=True, choose=lambda options: options[1 if "Act:" in options else 0])
    peer, one = serve(second, chat=True, method="rounds")
    assert ask(one, Told("System.", About.SYSTEM), "task").text == "Act: done"
    kind, skill = peer.asked
    assert kind.body["messages"][-1] == {"role": "user", "content": "task"}
    assert skill.body["messages"][-2:] == [kind.body["messages"][-1], {"role": "assistant", "content": "Act:"}]
    assert (skill.body["continue_final_message"], skill.body["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    ("chats", "completes", "path"), [(True, True, "chat/"), (False, True, ""), (True, False, "chat/")]
)
def test_the_chat_is_used_where_there_is_one(serve: Serve, chats: bool, completes: bool, path: str) -> None:
    peer, one = serve(thinking(chats=chats, completes=completes), chat=None)
    assert ask(one, Told("a", About.SYSTEM), "b").text == THOUGHT
    assert peer.asked[0].path == f"/v1/{path}completions"
    assert one.status()["prompts"] == ("chat" if chats else "completion")


def test_a_chat_is_sent_without_stops(serve: Serve) -> None:
    peer, one = serve(Peer(chats=True, say=lambda prompt: "\n\na subgoal\nand more"), chat=True)
    assert ask(one, may_say=FreeText(("\n",))).text == "a subgoal"
    assert "stop" not in peer.asked[0].body


def test_further_settings_of_the_server_are_put_into_every_request_and_win(serve: Serve) -> None:
    extra = "{top_k: 20, temperature: 0.7, provider: {sort: price}}"
    peer, one = serve(thinking(chats=True), chat=True, extra_body=extra)
    assert ask(one, temperature=0.1).text == THOUGHT
    for request in [one for one in peer.requests if one.path == "/v1/chat/completions"]:
        assert (request.body["top_k"], request.body["temperature"]) == (20, 0.7)
        assert request.body["provider"] == {"sort": "price"}


# ---------------------------------------------------------------------- what it obeys

EVERYTHING = {GRAMMAR, REGEX, JSON_SCHEMA, CHOICE}
OWNERS = {
    "vllm": ("vllm", "vllm", EVERYTHING),
    "llama.cpp": ("llamacpp", "llamacpp", {GRAMMAR, JSON_SCHEMA}),
    "SGLang": ("sglang", "sglang", {GRAMMAR, REGEX, JSON_SCHEMA}),
    "TGI": ("tgi", "tgi", {REGEX, JSON_SCHEMA}),
    "OpenAI": ("system", "openai", {JSON_SCHEMA}),
    "Ollama": ("library", "openai", {JSON_SCHEMA}),
    "a gateway to vLLM": ("my company", "vllm", EVERYTHING),
    "a gateway to OpenAI": ("me", "openai", {JSON_SCHEMA}),
}


@pytest.mark.parametrize(("owner", "speaks", "obeys"), OWNERS.values(), ids=OWNERS)
def test_what_a_server_obeys_is_found_out_in_its_own_words(
    serve: Serve, owner: str, speaks: str, obeys: set[ConstraintKind]
) -> None:
    peer, one = serve(thinking(owned_by=owner, speaks=speaks))
    assert decided(ask(one)) == THOUGHT
    assert one.status()["constraints"] == ", ".join(sorted(kind.value for kind in {*obeys, TOOLS}))
    assert one.status()["method"] == ("one_schema" if obeys == {JSON_SCHEMA} else "one_request")
    assert len(peer.asked) == 1


SOME = {
    "everything": (EVERYTHING, "vllm", "one_request"),
    "regex only": ({REGEX}, "vllm", "one_request"),
    "schemas of OpenAI's": ({JSON_SCHEMA}, "openai", "one_schema"),
    "nothing": (set(), "vllm", "unconstrained"),
}


@pytest.mark.parametrize("refused", [False, True], ids=["ignored", "refused"])
@pytest.mark.parametrize("chats", [False, True], ids=["completions", "chat"])
@pytest.mark.parametrize(("obeys", "speaks", "method"), SOME.values(), ids=SOME)
def test_a_server_that_nobody_knows_is_tried_with_four_requests_at_most(
    serve: Serve, obeys: set[ConstraintKind], speaks: str, method: str, chats: bool, refused: bool
) -> None:
    act = "Act: go to kitchen 1"
    unknown = {"owned_by": "me", "speaks": speaks, "refuses": EVERYTHING - obeys if refused else ()}
    peer, one = serve(thinking(**unknown, obeys=obeys, chats=chats, say=lambda prompt: act), chat=None)
    assert decided(ask(one)) == act
    told = one.status()
    assert told["prompts"] == ("chat" if chats else "completion")
    assert told["method"] == method
    trials = [request for request in peer.requests if request.is_a_trial]
    assert (len(trials) <= 4, len(peer.asked)) == (True, 1)


def test_a_server_that_obeys_nothing_is_asked_again_with_the_reason(serve: Serve) -> None:
    peer, one = serve(Peer(obeys=()), dialect="none")
    texts = ("I would go.", "Act: fly", "Act: done\nYou are done.\n" + "more " * 600)
    peer.script.extend([says(text) for text in texts])
    assert decided(ask(one, "Do.")) == "Act: done"
    assert one.status()["method"] == "unconstrained"
    first, second, third = [request.prompt for request in peer.asked]
    assert first == "Do.\n"
    assert "'I would go.'" in second.removeprefix("Do.\nI would go.\n")
    assert "\nAct: fly\n'fly' is not among " in third.removeprefix(second.rstrip("\n"))


def test_a_server_that_never_says_what_may_be_said_is_given_up(serve: Serve) -> None:
    peer, one = serve(Peer(obeys=(), say=lambda prompt: "Act: fly"), dialect="none")
    reply = ask(one)
    assert reply.text == "Act: fly"
    assert reply.objection.startswith("'fly' is not among ")
    assert len(peer.asked) == 4
    failure = refusal(one, may_say=Choice(("walk", "swim")))
    assert type(failure) is InvalidReply
    assert "fly" in str(failure)
    assert "was asked 4 times" in str(failure)
    assert len(peer.asked) == 8


def test_a_dialect_that_nobody_knows_is_the_users_error(peer: Peer, model: Model) -> None:
    with pytest.raises(UserError, match="dialect is 'klingon': use one of auto, vllm, llamacpp"):
        model(peer, dialect="klingon")


@pytest.mark.parametrize(
    ("refuses", "settings", "message"),
    [
        ((REGEX,), {}, "regex is not supported; if it takes no constraints, set dialect=none"),
        ((), {"dialect": "none", "method": "one_request"}, "the method 'one_request' needs one of them"),
    ],
    ids=["a constraint that a server of its name refuses", "a method that it cannot do"],
)
def test_what_the_server_does_not_take_says_what_to_set(
    serve: Serve, refuses: tuple[ConstraintKind, ...], settings: dict[str, str], message: str
) -> None:
    _, one = serve(Peer(refuses=refuses), **settings)
    failure = refusal(one)
    assert type(failure) is RequestRejected
    assert str(failure).endswith(message)
    assert not settings or "obeys none of grammar, json_schema, regex; " in str(failure)
