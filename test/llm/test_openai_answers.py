"""What a server answers: words, calls of tools, reasoning, half characters, and errors that look like answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from clients import Model, ask, clients, decided, refusal
from openai_peer import Behaviour, Exchange, Peer, answers, fails, says

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.llm.engine import Generated, ToolCall
from reactree_ros.llm.openai.answer import read_answer
from reactree_ros.llm.openai.connection import LONGEST_ANSWER
from reactree_ros.llm.port import (
    FreeText,
    LanguageModelError,
    PromptTooLong,
    RequestRejected,
    ServerUnavailable,
)

SECRET = "sk-hush-4711"


@pytest.fixture(autouse=True)
def _the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


@pytest.fixture
def model() -> Iterator[Model]:
    with clients(chat=True, method="unconstrained") as make:
        yield make


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(chats=True, say=lambda prompt: "Think: well") as one:
        yield one


def answer(message: dict[str, Any], finish: str | None = "stop", **usage: Any) -> dict[str, Any]:
    """An answer of a chat."""
    return {"choices": [{"index": 0, "finish_reason": finish, "message": message}], "usage": usage}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


ANSWERS: dict[str, tuple[dict[str, Any], Generated]] = {
    "text": (answer({"content": "yes"}), Generated("yes", "stop")),
    "no content": (answer({"content": None}), Generated("", "stop")),
    "content missing": (answer({"role": "assistant"}), Generated("", "stop")),
    "cut": (answer({"content": "ye"}, "length"), Generated("ye", "length")),
    "cut, in Mistral's words": (answer({"content": "ye"}, "model_length"), Generated("ye", "length")),
    "ended without a reason": (answer({"content": "yes"}, None), Generated("yes", "stop")),
    "a completion": ({"choices": [{"text": "yes", "finish_reason": "eos"}]}, Generated("yes", "stop")),
    "a refusal": (answer({"content": None, "refusal": "I will not."}), Generated("I will not.", "stop")),
    "reasoning_content": (
        answer({"content": "yes", "reasoning_content": "hm"}),
        Generated("yes", "stop", reasoning="hm"),
    ),
    "reasoning": (answer({"content": "yes", "reasoning": "hm"}), Generated("yes", "stop", reasoning="hm")),
    "both, one of them empty": (
        answer({"content": "yes", "reasoning_content": None, "reasoning": "hm"}),
        Generated("yes", "stop", reasoning="hm"),
    ),
    "parts, in Mistral's form": (
        answer(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "yes"},
                ]
            }
        ),
        Generated("yes", "stop", reasoning="hm"),
    ),
    "counts": (
        answer(
            {"content": "yes"},
            prompt_tokens=5,
            completion_tokens=4,
            prompt_tokens_details={"cached_tokens": 3},
            completion_tokens_details={"reasoning_tokens": 2},
        ),
        Generated("yes", "stop", 5, 3, 4, reasoning_tokens=2),
    ),
    "thoughts that were not counted": (
        answer(
            {"content": "yes", "reasoning": "hm"},
            completion_tokens=4,
            completion_tokens_details={"reasoning_tokens": 0},
        ),
        Generated("yes", "stop", output_tokens=4, reasoning="hm"),
    ),
    "counts without details": (
        answer({"content": "yes"}, prompt_tokens=5, prompt_tokens_details=None, completion_tokens_details=None),
        Generated("yes", "stop", 5),
    ),
    "a call": (
        answer({"content": None, "tool_calls": [call("Act", '{"skill": "x"}')]}, "tool_calls"),
        Generated("", "stop", calls=(ToolCall("Act", '{"skill": "x"}'),)),
    ),
    "a call with an object, and words beside it": (
        answer({"content": "Now.", "tool_calls": [call("Act", {"skill": "x"}), call("Think", None)]}),
        Generated("Now.", "stop", calls=(ToolCall("Act", '{"skill": "x"}'), ToolCall("Think", "{}"))),
    ),
    "a call of the older form": (
        answer({"content": None, "function_call": {"name": "Act", "arguments": '{"skill": "x"}'}}, "function_call"),
        Generated("", "stop", calls=(ToolCall("Act", '{"skill": "x"}'),)),
    ),
    "half a character": (answer({"content": "\ud83d!", "reasoning": "\udc00"}), Generated("?!", "stop", reasoning="?")),
}


@pytest.mark.parametrize(("sent", "read"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_for_what_it_holds(sent: dict[str, Any], read: Generated) -> None:
    assert read_answer(sent) == read


@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
@pytest.mark.parametrize(
    "text", ["Think: well", "Act: go to kitchen 1", "Expand:\n- control flow: sequence\n- subgoals: a, b"]
)
def test_a_decision_may_come_as_the_call_of_a_tool(model: Model, field: str, text: str) -> None:
    with Peer(chats=True, calls=field, say=lambda prompt: text) as peer:
        assert decided(ask(model(peer))) == text
        assert len(peer.asked) == 1


def test_a_tool_that_is_none_of_the_decisions_is_refused_and_asked_about_again(peer: Peer, model: Model) -> None:
    peer.script.append(answers(answer({"content": None, "tool_calls": [call("fly", "{}")]}, "tool_calls")))
    assert decided(ask(model(peer))) == "Think: well"
    assert len(peer.asked) == 2


# ---------------------------------------------------------------------- errors that look like answers


def broken(message: Any = "Upstream is gone", **more: Any) -> dict[str, Any]:
    return {"message": message, **more}


ERRORS: dict[str, tuple[Any, type[LanguageModelError], str]] = {
    "an error of the gateway's": (
        {"error": broken(code=502)},
        ServerUnavailable,
        "with an error (502): Upstream is gone",
    ),
    "an error of a number in words": ({"error": broken(code="429")}, ServerUnavailable, "(429): Upstream is gone"),
    "an error without a code": ({"error": broken()}, ServerUnavailable, "with an error: Upstream is gone"),
    "an error that is a text": ({"error": "no GPU"}, ServerUnavailable, "with an error: no GPU"),
    "a refusal": ({"error": broken("bad schema", code=400)}, RequestRejected, "with an error (400): bad schema"),
    "a refusal in words": (
        {"error": broken("bad schema", type="invalid_request_error", code=None)},
        RequestRejected,
        "with an error: bad schema",
    ),
    "a wrong key": ({"error": broken("no", code=401)}, RequestRejected, "does not accept the key (HTTP 401)"),
    "an error with a choice": (
        answer({"content": "half a th"}) | {"error": broken(code=502)},
        ServerUnavailable,
        "Upstream is gone",
    ),
    "an error in the choice": (
        {"choices": [{"finish_reason": "error", "message": {"content": "half a th"}, "error": broken(code=502)}]},
        ServerUnavailable,
        "with an error (502): Upstream is gone",
    ),
    "an engine's error": (
        answer({"content": "half a th"}, "error"),
        ServerUnavailable,
        "with an error: its engine ended the text (finish_reason 'error')",
    ),
    "an abort": (
        answer({"content": ""}, "abort"),
        ServerUnavailable,
        "its engine ended the text (finish_reason 'abort')",
    ),
    "a content filter": (
        answer({"content": "Act: "}, "content_filter"),
        RequestRejected,
        "answered with nothing: its content filter withheld the answer",
    ),
    "no choice": ({"choices": []}, ServerUnavailable, "no completion: {'choices': []}"),
    "a message that is none": ({"choices": [{"message": "yes"}]}, ServerUnavailable, "no completion"),
    "a key in an error": ({"error": broken(f"key {SECRET}", code=400)}, RequestRejected, "(400): key ***"),
    "a key in no completion": ({"said": SECRET}, ServerUnavailable, "no completion: {'said': '***'}"),
}


@pytest.mark.parametrize(("sent", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_in_the_form_of_an_answer_is_told_once_and_never_taken_for_words(
    peer: Peer, model: Model, sent: Any, error: type[LanguageModelError], message: str
) -> None:
    one = model(peer)
    peer.script.append(answers(sent))
    failure = refusal(one)
    assert type(failure) is error
    assert message in str(failure)
    assert f"vllm 0.32.0 at {peer.base_url}" in str(failure)
    for text in (str(failure), repr(failure.__cause__), repr(failure.__context__)):
        assert SECRET not in text
    assert len(peer.asked) == 1
    assert decided(ask(one)) == "Think: well"


def test_a_prompt_that_is_too_long_may_be_told_in_an_answer(model: Model) -> None:
    told = "The maximum context length is 3000 tokens. However, you requested 3300 tokens (3100 in the messages)."
    with Peer(owned_by="hosted", chats=True) as peer:
        peer.script.append(answers({"error": broken(told, code="context_length_exceeded")}))
        failure = refusal(model(peer, dialect="openai"), max_tokens=200)
    assert isinstance(failure, PromptTooLong)
    assert (failure.excess, failure.context) == (300, 3000)


def test_thinking_up_to_the_limit_is_a_reply_of_nothing_also_where_that_is_an_error(peer: Peer, model: Model) -> None:
    told = "Could not finish the message because max_tokens or model output limit was reached."
    one = model(peer)
    peer.script.append(fails(400, told))
    peer.script.append(fails(400, told))  # it was taken for thinking, and asked for again with room for that
    reply = ask(one, may_say=FreeText())
    assert (reply.text, reply.cut) == ("", True)
    assert peer.asked[1].limit > peer.asked[0].limit


def test_half_a_character_in_an_answer_becomes_a_question_mark(peer: Peer, model: Model) -> None:
    peer.script.append(says("Think: fine \ud83d"))
    assert decided(ask(model(peer))) == "Think: fine ?"


# ---------------------------------------------------------------------- half characters


@pytest.mark.parametrize("chat", [True, False])
def test_half_a_character_in_a_prompt_or_a_skill_is_sent_as_a_question_mark(
    peer: Peer, model: Model, chat: bool
) -> None:
    one = model(peer, chat=chat, method="one_request")
    grammar = DecisionGrammar(("done", "pick up \udc4d"))
    assert decided(ask(one, Told("A sign: \ud83d"), may_say=grammar)) == "Think: well"
    (request,) = peer.asked
    assert request.prompt.strip() == "A sign: ?"
    assert r"pick\ up\ ?" in request.body["structured_outputs"]["regex"]
    json.dumps(request.body, ensure_ascii=False).encode()


ODD_COUNTS = ("12", -5, 1.5, True, float("nan"), 10**400, [1], {"tokens": 1}, None)


@pytest.mark.parametrize("odd", ODD_COUNTS, ids=lambda odd: repr(odd)[:10])
def test_a_count_that_is_none_is_not_counted(odd: Any) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": odd}, "completion_tokens_details": {"reasoning_tokens": odd}}
    read = read_answer(answer({"content": "yes"}, prompt_tokens=odd, completion_tokens=odd, **details))
    assert read == Generated("yes", "stop")
    assert read_answer(answer({"content": "yes"}, prompt_tokens_details=odd)) == Generated("yes", "stop")
    assert read_answer({"choices": [{"text": "yes"}], "usage": odd}) == Generated("yes", "stop")


def test_thoughts_that_are_nested_are_no_reason_to_end() -> None:
    nested: Any = "hm"
    for _ in range(5000):
        nested = [{"type": "thinking", "thinking": nested}]
    assert read_answer(answer({"content": nested})) == Generated("", "stop")


def packed(exchange: Exchange) -> None:
    body = gzip.compress(b'{"choices": "' + b"a" * 50_000_000 + b'"}')
    exchange.raw(200, body, "application/json", {"Content-Encoding": "gzip"})


def endless(exchange: Exchange) -> None:
    with suppress(OSError):  # the client goes away
        exchange.raw(200, b'{"choices": "' + b"a" * (LONGEST_ANSWER + 1) + b'"}', "application/json")


def nested(exchange: Exchange) -> None:
    exchange.raw(200, b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "application/json")


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [(packed, "its answer is compressed"), (endless, "its answer is longer than"), (nested, "garbage")],
)
def test_an_answer_that_is_too_much_is_an_error_in_one_line(
    peer: Peer, model: Model, behaviour: Behaviour, problem: str
) -> None:
    one = model(peer, retries=0)
    ask(one)
    peer.script.append(behaviour)
    assert problem in str(refusal(one))
    assert decided(ask(one)) == "Think: well"


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
