"""Servers that refuse a parameter: what is left out or renamed, what is said of it, and what stays an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from clients import PATIENCE, Model, ask, clients, refusal
from hosted_peers import (
    fastapi_lacks,
    gemini_lacks,
    groq_lacks,
    litellm_lacks,
    mistral_lacks,
    openai_lacks,
    openai_takes_only,
    out_of_range,
    xai_lacks,
)
from openai_peer import JSON_SCHEMA, REGEX, Behaviour, Peer, answers, fails

from reactree_ros.agent.turns import Told
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.port import DecisionRequest, FreeText, PromptTooLong, RequestRejected

THOUGHT = "Think: well"
DIALECTS = {
    "OpenAI": openai_lacks,
    "FastAPI": fastapi_lacks,
    "Mistral": mistral_lacks,
    "Groq": groq_lacks,
    "Gemini": gemini_lacks,
    "xAI": xai_lacks,
    "LiteLLM": litellm_lacks,
}
SENT = {"temperature": 0.5, "top_p": 0.9, "seed": 9, "max_tokens": 70, "stop": ["\n"]}


@pytest.fixture
def model() -> Iterator[Model]:
    with clients(dialect="ollama") as make:
        yield make


def hosted(lacks: dict[str, Behaviour]) -> Peer:
    """A server that chats and calls itself nothing that is known."""
    return Peer(owned_by="hosted", speaks="openai", obeys={JSON_SCHEMA}, chats=True, lacks=lacks, say=lambda _: THOUGHT)


@pytest.mark.parametrize("lacks", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("name", ["temperature", "top_p", "seed"])
def test_a_parameter_that_a_refusal_names_is_left_out_from_then_on_and_that_is_said_once(
    model: Model, lacks: Callable[[str], Behaviour], name: str, warnings: Callable[[], list[str]]
) -> None:
    with hosted({name: lacks(name)}) as peer:
        one = model(peer, chat=True)
        for _ in range(3):
            assert ask(one, may_say=FreeText(), top_p=0.9).text == THOUGHT
        assert one.status()["left out"] == name
        refused = [request for request in peer.requests if request.body and name in request.body]
        assert len(refused) == 1
        for request in peer.asked:
            assert {"temperature", "top_p", "seed", "max_tokens"} - request.body.keys() <= {name}
    (told,) = warnings()
    assert told.endswith(f"; from now on left out: {name}")
    assert "hosted at http://127.0.0.1" in told


@pytest.mark.parametrize("lacks", DIALECTS.values(), ids=DIALECTS)
def test_the_token_limit_gets_its_newer_name(model: Model, lacks: Callable[[str], Behaviour]) -> None:
    with hosted({"max_tokens": lacks("max_tokens")}) as peer:
        one = model(peer, chat=True)
        assert ask(one, may_say=FreeText(), max_tokens=70).text == THOUGHT
        assert one.status()["renamed"] == "max_tokens to max_completion_tokens"
        assert peer.asked[-1].body["max_completion_tokens"] == 70


def test_the_token_limit_gets_its_older_name_where_the_newer_one_is_not_known(model: Model) -> None:
    lacks = {"max_completion_tokens": fails(400, "Unrecognized request argument supplied: max_completion_tokens")}
    with Peer(owned_by="system", speaks="openai", chats=True, lacks=lacks, say=lambda _: THOUGHT) as peer:
        one = model(peer, dialect="auto")
        assert ask(one, may_say=FreeText(), max_tokens=70).text == THOUGHT
        assert one.status()["renamed"] == "max_completion_tokens to max_tokens"
        assert peer.asked[-1].body["max_tokens"] == 70


def test_what_is_refused_under_every_name_is_left_out(model: Model) -> None:
    names = ("max_tokens", "max_completion_tokens")
    with hosted({name: groq_lacks(name) for name in names}) as peer:
        one = model(peer, chat=True)
        assert ask(one, may_say=FreeText()).text == THOUGHT
        assert one.status()["left out"] == "max_tokens"
        assert not peer.asked[-1].body.keys() & set(names)


def test_several_parameters_are_left_out_one_after_the_other(model: Model) -> None:
    names = ("temperature", "top_p", "seed", "max_tokens")
    with hosted({name: openai_lacks(name) for name in names}) as peer:
        one = model(peer, chat=True)
        assert ask(one, may_say=FreeText(), top_p=0.9).text == THOUGHT
        assert one.status()["left out"] == "temperature, top_p, seed"
        streaming = {"stream", "stream_options"}
        assert peer.asked[-1].body.keys() == {"model", "messages", "max_completion_tokens", *streaming}


@pytest.mark.parametrize(
    "refused", [openai_takes_only("temperature", 1), out_of_range("temperature")], ids=["OpenAI", "pydantic"]
)
def test_a_value_out_of_range_is_left_out(model: Model, refused: Behaviour) -> None:
    with hosted({"temperature": refused}) as peer:
        one = model(peer, chat=True)
        assert ask(one, may_say=FreeText()).text == THOUGHT
        assert one.status()["left out"] == "temperature"


def test_a_token_limit_that_is_too_high_is_for_the_user_to_lower(model: Model) -> None:
    said = "max_tokens is too large: 90000. This model supports at most 16384 completion tokens."
    with hosted({}) as peer:
        one = model(peer, chat=True)
        one.ready().result(PATIENCE)
        peer.lacks["max_tokens"] = fails(400, said, param="max_tokens", code="invalid_value")
        failure = refusal(one, may_say=FreeText(), max_tokens=90_000)
        assert type(failure) is RequestRejected
        assert str(failure).endswith(f"answered HTTP 400: {said}")
        assert "left out" not in one.status()


def test_all_of_the_requests_that_are_refused_at_once_go_through(
    model: Model, warnings: Callable[[], list[str]]
) -> None:
    with hosted({}) as peer:
        one = model(peer, chat=True)
        one.ready().result(PATIENCE)
        peer.lacks |= {"seed": mistral_lacks("seed"), "temperature": groq_lacks("temperature")}
        requests = [DecisionRequest((Told(f"Say {n}."),), FreeText()) for n in range(16)]
        assert {pending.result(PATIENCE).text for pending in map(one.decide, requests)} == {THOUGHT}
        assert one.status()["left out"] == "temperature, seed"
    assert len(warnings()) == 2


OWN = {
    "the model": ("Unsupported parameter: 'model' is not supported with this key.", "model"),
    "the messages": ("Invalid value: 'name' is unknown in 'messages[0]'.", "messages[0].name"),
    "a field of the constraint": ("'response_format' of type 'json_schema' is not supported.", "response_format"),
    "nothing": ("This model is not supported.", None),
    "a parameter, in a request that is repeated": (
        "1 validation error: {'type': 'value_error', 'msg': 'must be one of a few', "
        "'input': {'model': 'tiny', 'temperature': 0.0, 'seed': 0, 'stop': None}}",
        None,
    ),
}


@pytest.mark.parametrize(("message", "param"), OWN.values(), ids=OWN)
def test_a_refusal_of_something_else_stays_an_error(model: Model, message: str, param: str | None) -> None:
    with hosted({}) as peer:
        one = model(peer, chat=True)
        one.ready().result(PATIENCE)
        peer.script.append(fails(400, message, param=param))
        failure = refusal(one, may_say=FreeText())
        assert type(failure) is RequestRejected
        assert message in str(failure)
        assert (len(peer.asked), one.status().keys() & {"left out", "renamed"}) == (1, set())


def test_a_parameter_of_the_users_own_that_is_refused_stays_an_error(model: Model) -> None:
    with hosted({"top_k": openai_lacks("top_k")}) as peer:
        failure = refusal(model(peer, chat=True, extra_body={"top_k": 20}))
        assert type(failure) is RequestRejected
        assert "'top_k' is not supported" in str(failure)


def test_a_prompt_that_is_too_long_is_no_refusal_of_the_limit(model: Model) -> None:
    with hosted({}) as peer:
        one = model(peer, chat=True)
        one.ready().result(PATIENCE)
        peer.context = 3000
        assert isinstance(refusal(one, "word " * 3000, may_say=FreeText(), max_tokens=200), PromptTooLong)
        assert "left out" not in one.status()


# ---------------------------------------------------------------------- by itself


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize(
    "words",
    [
        "Unsupported parameter: '{}' is not supported with this model.",
        "{}: Extra inputs are not permitted; property `{}` is unknown",
        "Unrecognized request argument supplied: {}",
        "extraneous key [{}] is not permitted",
        "Model grok does not support parameter {}.",
        'detail: [{{"type":"extra_forbidden","loc":["body","{}"]}}]',
        'the upstream said {{\\"loc\\":[\\"body\\",\\"{}\\"],\\"msg\\":\\"Extra inputs are not permitted\\"}}',
        "Validation: “{}” is not allowed here",
    ],
)
def test_a_name_is_found_in_whatever_words_it_is_refused(words: str, name: str) -> None:
    message = words.replace("{}", name).replace("{{", "{").replace("}}", "}")
    assert Refused(400, {"message": message}).parameters(SENT) == (name,)


@pytest.mark.parametrize(
    "message",
    [
        "The temperature of the room is not supported.",
        "Please stop: this model is not supported",
        "'seed' was taken, and the request went well",
        "'seeds' is not supported",
    ],
)
def test_a_word_that_names_no_parameter_is_none(message: str) -> None:
    assert Refused(400, message).parameters(SENT) == ()


def test_only_a_refusal_of_a_request_names_parameters() -> None:
    assert Refused(500, "parameter 'seed' is not supported").parameters(SENT) == ()
    assert Refused(422, "parameter 'seed' is not supported").parameters(SENT) == ("seed",)


# ---------------------------------------------------------------------- a refusal that does not say what it means


ASTRAY = {
    "another one": openai_lacks("temperature"),
    "nothing": fails(400, "Bad Request"),
    "what was never sent": openai_lacks("logit_bias"),
    "a part of the body": fails(422, "messages.0: Extra inputs are not permitted"),
    "another language": fails(400, "不支持的参数"),
    "a place without a name": answers({"detail": [{"type": "value_error", "loc": ["body"], "msg": "No"}]}, 422),
    "a list of others": answers(
        {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra"} for name in ("top_k", "n")]}, 422
    ),
    "no JSON": lambda exchange: exchange.raw(400, b"<html>Bad Request</html>", "text/html"),
    "empty": lambda exchange: exchange.raw(400, b"", "text/plain"),
}


@pytest.mark.parametrize("refuse", ASTRAY.values(), ids=ASTRAY)
def test_what_is_optional_is_left_out_together_where_a_refusal_does_not_name_its_reason(
    model: Model, refuse: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    with hosted({"seed": refuse}) as peer:
        one = model(peer, chat=True)
        for _ in range(3):
            assert ask(one, may_say=FreeText()).text == THOUGHT
        assert one.status()["left out"] == "temperature, seed"
        assert len(peer.asked) == 3
        assert all("seed" not in request.body for request in peer.asked)
        assert sum("seed" in request.body for request in peer.requests if request.is_a_chat) <= 2
    assert sum("from now on" in record.message for record in caplog.records) <= 2


def test_what_a_server_took_before_stays(model: Model) -> None:
    with hosted({"top_p": fails(400, "Bad Request")}) as peer:
        one = model(peer, chat=True)
        one.ready().result(PATIENCE)
        for _ in range(2):
            assert ask(one, may_say=FreeText(), top_p=0.5).text == THOUGHT
        assert one.status()["left out"] == "top_p"
        assert len(peer.asked) == 3


@pytest.mark.slow
def test_a_server_that_refuses_whatever_is_sent_is_asked_a_bounded_number_of_times(model: Model) -> None:
    for refuse in ASTRAY.values():
        with hosted({}) as peer:
            one = model(peer, chat=True)
            one.ready().result(PATIENCE)
            peer.script.extend([refuse] * 20)
            for _ in range(3):
                assert type(refusal(one, may_say=FreeText(), seed=4)) is RequestRejected
            assert len(peer.asked) <= 8
            assert "seed" not in one.status().get("left out", "")


def test_a_constraint_that_is_refused_is_no_reason_to_leave_parameters_out(model: Model) -> None:
    with Peer(owned_by="me", chats=True, say=lambda prompt: THOUGHT, refuses=(REGEX, JSON_SCHEMA)) as peer:
        one = model(peer, dialect="auto")
        ask(one)
        assert one.status()["constraints"] == "none"
        assert "left out" not in one.status()
        tried = [request.body for request in peer.requests if "Say a word:" in request.prompt]
        assert len(tried) == 2
        assert all({"temperature", "seed"} <= body.keys() for body in tried)
