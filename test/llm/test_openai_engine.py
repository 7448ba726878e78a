"""Any OpenAI-compatible server: what it is asked, what it is found to obey, and what every failure becomes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients import GRAMMAR_OF_THREE, PATIENCE, Model, ask, clients, decided, refusal
from openai_peer import (
    CHOICE,
    GRAMMAR,
    JSON_SCHEMA,
    REGEX,
    Behaviour,
    Peer,
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
from reactree_ros.errors import UserError
from reactree_ros.llm.engine import ConstraintKind
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

SECRET = "sk-hush-4711"
THOUGHT = "Think: well"
GONE = "cannot be reached: nothing listens there, or it closed the connection"


@pytest.fixture(autouse=True)
def _no_server_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(say=lambda prompt: THOUGHT) as one:
        yield one


@pytest.fixture
def model() -> Iterator[Model]:
    """Makes language models of a peer; without settings that say otherwise, what it obeys need not be tried out."""
    with clients(chat=False) as make:
        yield make


# ---------------------------------------------------------------------- failures

FAILURES: dict[str, tuple[Behaviour, type[LanguageModelError], str, int]] = {
    "500": (fails(500, "CUDA error"), ServerUnavailable, "answered HTTP 500: CUDA error", 2),
    "503": (fails(503, "loading model"), ServerUnavailable, "answered HTTP 503: loading model", 2),
    "429": (fails(429, "slow down"), ServerUnavailable, "answered HTTP 429: slow down", 2),
    "400": (fails(400, "bad\ngrammar"), RequestRejected, "answered HTTP 400: bad grammar", 1),
    "422": (fails(422, "no such field"), RequestRejected, "answered HTTP 422: no such field", 1),
    "404": (fails(404, "The model `tiny` does not exist."), RequestRejected, "The model `tiny` does not exist", 1),
    "401": (fails(401, "no"), RequestRejected, "does not accept the key (HTTP 401); set OPENAI_API_KEY or api_key", 1),
    "403": (fails(403, "no"), RequestRejected, "does not accept the key (HTTP 403); set OPENAI_API_KEY or api_key", 1),
    "no JSON": (babbles, ServerUnavailable, "answered with garbage", 1),
    "a web page": (shows_a_page, ServerUnavailable, "no completion: '<html>Welcome</html>'", 1),
    "another JSON": (answers({"message": "hi"}), ServerUnavailable, "no completion: {'message': 'hi'}", 1),
    "a list": (answers([]), ServerUnavailable, "no completion: []", 1),
    "null": (answers(None), ServerUnavailable, "no completion: None", 1),
    "no choices": (answers({"choices": []}), ServerUnavailable, "no completion", 1),
    "half an answer": (breaks_off, ServerUnavailable, GONE, 2),
    "no word": (hangs_up, ServerUnavailable, GONE, 2),
}


@pytest.mark.parametrize(("behaviour", "error", "message", "sent"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_named_and_the_next_request_succeeds(
    peer: Peer, model: Model, behaviour: Behaviour, error: type[LanguageModelError], message: str, sent: int
) -> None:
    one = model(peer)
    peer.script.extend([behaviour] * sent)
    failure = refusal(one)
    assert type(failure) is error
    assert message in str(failure)
    assert f"vllm 0.32.0 at {peer.base_url}" in str(failure)
    assert len(peer.asked) == sent
    assert ask(one).text == THOUGHT


@pytest.mark.parametrize(
    "behaviour", [fails(500), fails(429), hangs_up, breaks_off], ids=["500", "429", "gone", "half"]
)
def test_a_passing_failure_is_asked_again(peer: Peer, model: Model, behaviour: Behaviour) -> None:
    peer.script.append(behaviour)
    assert ask(model(peer)).text == THOUGHT
    assert [request.body for request in peer.asked] == [peer.asked[0].body] * 2


def test_a_server_that_is_not_there_is_named_and_used_when_it_is(peer: Peer, model: Model) -> None:
    peer.stop()
    one = model(peer, retries=0)
    for _ in range(2):
        failure = refusal(one)
        assert type(failure) is ServerUnavailable
        assert str(failure) == f"the server at {peer.base_url} {GONE}"
    with pytest.raises(ServerUnavailable, match=GONE):
        one.ready().result(PATIENCE)
    peer.start()
    assert ask(one).text == THOUGHT


def test_a_server_that_dies_between_requests_is_named_and_used_when_it_is_back(peer: Peer, model: Model) -> None:
    one = model(peer, retries=0)
    assert ask(one).text == THOUGHT
    peer.stop()
    assert str(refusal(one)).endswith(GONE)
    peer.start()
    assert ask(one).text == THOUGHT


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


@pytest.mark.slow
def test_an_answer_that_does_not_come_in_time_is_given_up_and_the_server_is_told(peer: Peer, model: Model) -> None:
    peer.script.append(never_answers)
    one = model(peer, request_timeout=0.5)
    failure = refusal(one)
    assert type(failure) is NoAnswerInTime
    assert str(failure).endswith("no answer within 0.5 s")
    assert peer.gone.get(timeout=PATIENCE).prompt == "Say.\n"
    assert ask(one).text == THOUGHT


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
    pending = one.decide(DecisionRequest((Told("Say."),), GRAMMAR_OF_THREE))
    peer.held.get(timeout=PATIENCE)
    one.close()
    with pytest.raises(ServerUnavailable, match="the language model is closed"):
        pending.result(PATIENCE)
    assert peer.gone.get(timeout=PATIENCE).prompt == "Say.\n"
    assert "closed" in str(refusal(one))
    one.close()


# ---------------------------------------------------------------------- a prompt that is too long


@pytest.mark.parametrize("owner", ["vllm", "llamacpp", "sglang", "tgi", "openai"])
def test_a_prompt_that_is_too_long_says_by_how_much(model: Model, owner: str) -> None:
    with Peer(owned_by=owner, context=3000, say=lambda prompt: THOUGHT) as peer:
        one = model(peer)
        for words, excess in ((3000, 200), (4900, 2100)):
            failure = refusal(one, "word " * words, max_tokens=200)
            assert isinstance(failure, PromptTooLong)
            assert (failure.excess, failure.context) == (excess, 3000)
        assert len(peer.asked) == 2


def test_a_reply_that_was_cut_because_the_context_was_full_means_a_prompt_that_is_too_long(model: Model) -> None:
    with Peer(owned_by="llamacpp", context=3000, say=lambda prompt: "Think: " + "well " * 300) as peer:
        failure = refusal(model(peer), "word " * 2900, max_tokens=200)
        assert isinstance(failure, PromptTooLong)
        assert (failure.excess, failure.context) == (100, 3000)


def test_the_excess_is_what_tokenize_counts(model: Model) -> None:
    with Peer(context=100, chats=True, say=lambda prompt: THOUGHT) as peer:
        one = model(peer, chat=True)
        failure = refusal(one, Told("System", About.SYSTEM), f"task {'word ' * 200}", max_tokens=50)
        assert isinstance(failure, PromptTooLong)
        assert (peer.requests[-1].path, peer.requests[-1].body["messages"]) == (
            "/tokenize",
            peer.asked[0].body["messages"],
        )
        assert failure.excess == len(peer.requests[-1].prompt.split()) + 50 - 100


# ---------------------------------------------------------------------- the key


@pytest.fixture(params=["environment", "file"])
def key_settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The key, given in one of the two ways."""
    if request.param == "environment":
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
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
    long = answers({"an answer that is no completion " + "x" * 68: SECRET})
    with Peer(key=SECRET, say=lambda prompt: THOUGHT) as peer:
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "holds no key"),
        (b" \n", "holds no key"),
        (b"sk-hush two\n", "holds no key"),
        ("sk-hush-ä".encode(), "holds no key"),
        (b"sk-hush\xff", "cannot be read"),
    ],
)
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


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "localhost/v1",
        "ftp://localhost/v1",
        "http://",
        "http:///v1",
        "http://localhost:0/v1",
        "http://localhost:99999/v1",
        "http://localhost:port/v1",
        "http://[::1/v1",
        "http://local host/v1",
        "http://localhost/v1#part",
        "http://localhost/v1\n",
    ],
)
def test_what_is_no_url_is_refused_in_one_line(model: Model, url: str) -> None:
    with pytest.raises(UserError) as refused:
        model(url)
    assert "it looks like http://127.0.0.1:8000/v1" in str(refused.value)
    begin = re.match(r"[^#]*?//(?:\[::1|localhost:(?:port|99999)|[^#]*)", url)  # what may be a key is left out
    assert repr((begin[0] if begin else url).removesuffix(":port"))[1:-1] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@localhost/v1",
        f"http://{SECRET}@localhost/v1",
        f"http://localhost/v1?key={SECRET}",
        f"http://user:{SECRET}@localhost:99999/v1",
        f"http://user:{SECRET}@[::1/v1",
        f"ftp://user:{SECRET}@localhost/v1",
        f"user:{SECRET}@localhost",
    ],
)
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


# ---------------------------------------------------------------------- the model


def test_the_first_model_is_taken_unless_one_is_named(model: Model) -> None:
    with Peer(models=("a", "b"), say=lambda prompt: THOUGHT) as peer:
        ask(model(peer))
        ask(model(peer, model="b"))
        assert [request.body["model"] for request in peer.asked] == ["a", "b"]
        failure = refusal(model(peer, model="c"))
        assert type(failure) is RequestRejected
        assert str(failure).endswith("The model `c` does not exist.; it lists no model 'c', but a, b")


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (answers({"object": "list", "data": []}), "has no model"),
        (answers({"hello": "you"}), "lists no models; is its base URL right?"),
        (answers({"data": [{}]}), "lists no models; is its base URL right?"),
        (shows_a_page, "lists no models; is its base URL right?"),
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


OTHER_LISTS = {
    "401": fails(401, "no"),
    "403": fails(403, "no"),
    "404": fails(404, "404 page not found"),
    "405": fails(405, "Method Not Allowed"),
    "500": fails(500, "no"),
    "501": fails(501, "no"),
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
def test_a_model_that_is_named_need_not_be_listed(behaviour: Behaviour, chats: bool) -> None:
    with Peer(chats=chats, say=lambda prompt: THOUGHT) as peer, clients() as make:
        peer.on_models = behaviour
        one = make(peer, model="tiny")
        one.ready().result(PATIENCE)
        assert ask(one).text == THOUGHT
        assert one.status()["model"] == "tiny"
        assert {request.body["model"] for request in peer.asked} == {"tiny"}
        assert sum(request.path == "/v1/models" for request in peer.requests) == 1


def test_a_server_without_list_and_chat_is_doubted(model: Model) -> None:
    with Peer(models=()) as peer:
        peer.on_models = fails(404, "Not Found")
        assert str(refusal(model(peer, model="tiny"))).endswith(
            "it has no list of models either: is its base URL right?"
        )


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


def test_a_chat_has_what_the_model_said_as_its_messages(model: Model) -> None:
    system = Told("System.\nSource domain:\nexample\nTarget_domain:", About.SYSTEM)
    own = (Told("Your task is to: x"), Said("Think: a"), Told("OK.", About.ANSWER), Said("Act: b"), Saw("You b."))
    with Peer(chats=True, say=lambda prompt: THOUGHT) as peer:
        assert ask(model(peer, chat=None), system, *own).text == THOUGHT
        (request,) = peer.asked
        assert request.path == "/v1/chat/completions"
        assert request.body["messages"] == [
            {"role": "system", "content": "System.\nSource domain:\nexample\nTarget_domain:"},
            {"role": "user", "content": "Your task is to: x"},
            {"role": "assistant", "content": "Think: a"},
            {"role": "user", "content": "OK."},
            {"role": "assistant", "content": "Act: b"},
            {"role": "user", "content": "You b."},
        ]
        assert "continue_final_message" not in request.body


def test_what_a_chat_has_begun_to_say_is_its_last_message_to_be_continued(model: Model) -> None:
    with Peer(chats=True, choose=lambda options: options[1 if "Act:" in options else 0]) as peer:
        one = model(peer, chat=True, method="rounds")
        assert ask(one, Told("System.", About.SYSTEM), "task").text == "Act: done"
        first, second = peer.asked
        assert first.body["messages"][-1] == {"role": "user", "content": "task"}
        assert second.body["messages"][-2:] == [first.body["messages"][-1], {"role": "assistant", "content": "Act:"}]
        assert (second.body["continue_final_message"], second.body["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize(
    ("chats", "completes", "path"), [(True, True, "chat/"), (False, True, ""), (True, False, "chat/")]
)
def test_the_chat_is_used_where_there_is_one(model: Model, chats: bool, completes: bool, path: str) -> None:
    with Peer(chats=chats, completes=completes, say=lambda prompt: THOUGHT) as peer:
        one = model(peer, chat=None)
        assert ask(one, Told("a", About.SYSTEM), "b").text == THOUGHT
        assert peer.asked[0].path == f"/v1/{path}completions"
        assert one.status()["prompts"] == ("chat" if chats else "completion")


def test_a_chat_is_sent_without_stops(model: Model) -> None:
    with Peer(chats=True, say=lambda prompt: "\n\na subgoal\nand more") as peer:
        assert ask(model(peer, chat=True), may_say=FreeText(("\n",))).text == "a subgoal"
        assert "stop" not in peer.asked[0].body


def test_further_settings_of_the_server_are_put_into_every_request_and_win(model: Model) -> None:
    extra = "{top_k: 20, temperature: 0.7, provider: {sort: price}}"
    with Peer(chats=True, say=lambda prompt: THOUGHT) as peer:
        assert ask(model(peer, chat=True, extra_body=extra), temperature=0.1).text == THOUGHT
        texts = [request for request in peer.requests if request.path == "/v1/chat/completions"]
        for request in texts:
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
    model: Model, owner: str, speaks: str, obeys: set[ConstraintKind]
) -> None:
    with Peer(owned_by=owner, speaks=speaks, say=lambda prompt: THOUGHT) as peer:
        one = model(peer)
        assert decided(ask(one)) == THOUGHT
        assert one.status()["constraints"] == ", ".join(sorted(kind.value for kind in obeys))
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
def test_a_server_that_nobody_knows_is_tried_with_three_requests_at_most(
    model: Model, obeys: set[ConstraintKind], speaks: str, method: str, chats: bool, refused: bool
) -> None:
    act = "Act: go to kitchen 1"
    others = EVERYTHING - obeys if refused else ()
    with Peer(owned_by="me", speaks=speaks, obeys=obeys, refuses=others, chats=chats, say=lambda prompt: act) as peer:
        one = model(peer, chat=None)
        assert decided(ask(one)) == act
        told = one.status()
        assert told["prompts"] == ("chat" if chats else "completion")
        assert told["method"] == (method if chats or speaks == "vllm" else "unconstrained")
        trials = [request for request in peer.requests if request.is_a_trial]
        assert (len(trials) <= 3, len(peer.asked)) == (True, 1)


def test_a_server_that_obeys_nothing_is_asked_again_with_the_reason(model: Model) -> None:
    texts = [says(text) for text in ("I would go.", "Act: fly", "Act: done\nYou are done.\n" + "more " * 600)]
    with Peer(obeys=()) as peer:
        peer.script.extend(texts)
        one = model(peer, dialect="none")
        assert decided(ask(one, "Do.")) == "Act: done"
        assert one.status()["method"] == "unconstrained"
        first, second, third = [request.prompt for request in peer.asked]
        assert first == "Do.\n"
        assert "'I would go.'" in second.removeprefix("Do.\nI would go.\n")
        assert "\nAct: fly\n'fly' is not among " in third.removeprefix(second.rstrip("\n"))


def test_a_server_that_never_says_what_may_be_said_is_given_up(model: Model) -> None:
    with Peer(obeys=(), say=lambda prompt: "Act: fly") as peer:
        one = model(peer, dialect="none")
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


def test_a_constraint_that_a_server_of_its_name_refuses_says_what_to_set(model: Model) -> None:
    with Peer(refuses=(REGEX,)) as peer:
        failure = refusal(model(peer))
    assert type(failure) is RequestRejected
    assert str(failure).endswith("regex is not supported; if it takes no constraints, set dialect=none")


def test_a_method_that_the_server_cannot_do_is_refused(peer: Peer, model: Model) -> None:
    failure = refusal(model(peer, dialect="none", method="one_request"))
    assert type(failure) is RequestRejected
    assert "obeys none of grammar, json_schema, regex; the method 'one_request' needs one of them" in str(failure)
