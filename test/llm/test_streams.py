"""Replies that are streamed: where they end, what they cost, and servers that cannot stream or break off."""

from __future__ import annotations

import contextlib
import gzip
import itertools
from collections.abc import Iterator
from functools import partial

import pytest
from clients import PATIENCE, Model, ask, clients, decided, refusal
from openai_peer import Behaviour, Exchange, Peer, answers, fails, hangs_up, holds, pieces, resets, says, streams

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import read, whole_part
from reactree_ros.agent.turns import Told
from reactree_ros.llm.openai.connection import LONGEST_ANSWER
from reactree_ros.llm.port import DecisionRequest, FreeText, RequestRejected, ServerUnavailable

SKILLS = ("done", "failure", "go to kitchen 1", "go to kitchen 12", "pick up apple 1")
GRAMMAR = DecisionGrammar(SKILLS)
BABBLE = "You arrive at the kitchen (1). You see a lot.\\n"


@pytest.fixture
def model() -> Iterator[Model]:
    with clients(method="unconstrained", chat=True) as make:
        yield make


@pytest.fixture(params=["vllm", "llamacpp", "someone"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    with Peer(owned_by=request.param, chats=True) as one:
        yield one


# ---------------------------------------------------------------------- where a reply is whole

WHOLE = {
    "an act": ("Act: go to kitchen 1\n", BABBLE),
    "an act in other words": ("**Action:** go to the kitchen (1)\n", BABBLE),
    "an act after prose": ("Sure!\n\nAct: done\n", "I hope that helps.\n"),
    "a thought and an act": ("Think: hm\nAct: pick up apple 1\n", BABBLE),
    "a thought that is answered": ("Think: hm\n", "You see the apple (1). It is red.\n"),
    "a turn of somebody else": ("Think: hm", "<|im_end|>\n<|im_start|>user\nOK."),
    "an expansion": ("Expand:\n- control flow: sequence\n- subgoals: find it, bring it\n", "Act: done\n"),
    "JSON": ('{"decision": {"Act": "done"}}', "\n\nHere you are."),
    "a skill that is not offered": ("Act: fly\n", "Act: land\nAct: done\n"),
    "an argument on its own line": ("Action: pick up\nAction Input: apple 1\n", BABBLE),
}


@pytest.mark.parametrize(("said", "more"), WHOLE.values(), ids=WHOLE)
def test_a_reply_ends_with_its_decision(said: str, more: str) -> None:
    grammar = DecisionGrammar(SKILLS, default_flows())
    parts = list(itertools.accumulate(pieces(said + more)))
    found = [whole_part(text, grammar) for text in parts]
    first = next(filter(None, found))
    assert first.strip() == said.strip()
    assert len(parts[found.index(first)]) < len(said + more)


@pytest.mark.parametrize(
    "said",
    [
        "Act: go to kitchen 1",  # … or 12
        "Think: I go to the kitchen.\n",  # an act may follow
        "Expand:\n- control flow: sequence\n- subgoals:\n1. find it\n",
        "Expand:\n- control flow: sequence\n",
        "Act:\n",
        "Action: pick up\nAction Input: apple",
        '{\n"thought": "hm",\n"act": "done"\n',
        "I will go to the kitchen, and then I am done.\n",
        "\n\n",
    ],
)
def test_what_may_become_another_decision_goes_on(said: str) -> None:
    grammar = DecisionGrammar(SKILLS, default_flows())
    assert not any(whole_part(text, grammar) for text in itertools.accumulate(pieces(said)))


@pytest.mark.parametrize(
    "said", ["True\n", "The example is a great example of how to use it.\n\n", "Think: so it is, "]
)
def test_a_reply_that_goes_round_in_circles_ends(said: str) -> None:
    found = [whole_part(said * times, GRAMMAR) for times in range(6)]
    assert found == ["", "", "", "", said * 4, said * 5]


@pytest.mark.parametrize("said", ["----" * 20, "Expand:\n- control flow: sequence\n- subgoals: " + "find it, " * 9])
def test_a_line_of_signs_and_a_list_of_subgoals_are_no_circles(said: str) -> None:
    assert not whole_part(said, DecisionGrammar(SKILLS, default_flows()))


def test_the_part_is_read_as_the_whole_reply_is() -> None:
    for said, more in WHOLE.values():
        if "fly" in said or said.startswith("{"):
            continue
        part = next(filter(None, (whole_part(text, GRAMMAR) for text in itertools.accumulate(pieces(said + more)))))
        assert read(part, GRAMMAR) == read(said, GRAMMAR)


# ---------------------------------------------------------------------- the request is closed


def closed(peer: Peer) -> None:
    """Wait until the client has closed the stream that the peer holds."""
    assert peer.gone.get(timeout=PATIENCE).is_a_chat


def test_the_request_is_closed_once_a_decision_is_whole(peer: Peer, model: Model) -> None:
    counts = {"vllm": "usage", "llamacpp": "timings", "someone": ""}[peer.owned_by]
    peer.script.append(streams("Act: go to kitchen 1\nYou", counts=counts, then=holds))
    reply = ask(model(peer), "Say.", may_say=GRAMMAR)
    closed(peer)
    assert (decided(reply), reply.finish_reason) == ("Act: go to kitchen 1", "stop")
    (asked,) = peer.asked
    assert asked.body["stream"] is True
    if counts:
        assert (reply.prompt_tokens, reply.output_tokens) == (1, 6)
        assert reply.cached_tokens == (0 if counts == "timings" else None)
    else:
        assert (reply.prompt_tokens, reply.output_tokens) == (None, None)


def test_thoughts_in_the_text_end_no_reply(peer: Peer, model: Model) -> None:
    peer.script.append(streams("<think>\nAct: done\nNo.\n</think>\nAct: go to kitchen 1\nAct: done\n", then=holds))
    reply = ask(model(peer), "Say.", may_say=GRAMMAR)
    closed(peer)
    assert (decided(reply), reply.reasoning) == ("Act: go to kitchen 1", "Act: done\nNo.")


def test_a_free_text_ends_at_its_stop(peer: Peer, model: Model) -> None:
    peer.script.append(streams("\nIt is there.\nAnd so on", then=holds))
    assert ask(model(peer), "Say.", may_say=FreeText()).text == "It is there."
    closed(peer)


def test_a_server_that_streams_for_ever_is_left_at_the_limit(peer: Peer, model: Model) -> None:
    peer.script.append(streams("Think: hm", more=" hm"))
    reply = ask(model(peer), "Say.", may_say=FreeText(), max_tokens=20)
    assert (reply.text[:11], reply.finish_reason) == ("Think: hm h", "length")


def test_what_is_constrained_is_not_streamed(peer: Peer) -> None:
    with clients(chat=True) as make:
        peer.script.append(says("Act: done"))
        ask(make(peer), may_say=GRAMMAR)
    assert "stream" not in peer.asked[0].body


def test_a_stream_is_cancelled_with_its_request(peer: Peer, model: Model) -> None:
    one = model(peer)
    one.ready().result(PATIENCE)
    peer.script.append(streams("Act: go", then=holds))
    pending = one.decide(DecisionRequest((Told("Say."),), GRAMMAR))
    peer.held.get(timeout=PATIENCE)
    pending.cancel()
    closed(peer)


# ---------------------------------------------------------------------- servers that cannot stream


def test_a_server_that_ignores_streaming_is_read_as_ever(peer: Peer, model: Model) -> None:
    peer.script.append(says("Act: go to kitchen 1\nYou see it."))
    reply = ask(model(peer), may_say=GRAMMAR)
    assert (decided(reply), len(peer.asked)) == ("Act: go to kitchen 1", 1)
    assert reply.output_tokens == 8


REFUSALS: dict[str, tuple[Behaviour, set[str]]] = {
    "stream": (fails(400, "'stream' is not supported."), set()),
    "streaming": (fails(404, "Streaming responses: no such thing here; streaming is off"), set()),
    "stream_options": (fails(422, "extra inputs are not permitted: body.stream_options"), {"stream"}),
}


@pytest.mark.parametrize(("refuses", "left"), REFUSALS.values(), ids=REFUSALS)
def test_a_server_that_refuses_to_stream_is_asked_without(
    peer: Peer, model: Model, refuses: Behaviour, left: set[str]
) -> None:
    peer.script.extend([refuses, says("Act: done"), says("Act: failure")])
    one = model(peer)
    assert [decided(ask(one, may_say=GRAMMAR)) for _ in range(2)] == ["Act: done", "Act: failure"]
    streamed = [{name for name in one.body if name in ("stream", "stream_options")} for one in peer.asked]
    assert streamed == [{"stream", "stream_options"}, left, left]


BROKEN: dict[str, Behaviour] = {
    "it dies": streams("Act: go to", then=hangs_up),
    "it is killed": streams("Act: go to", then=resets),
    "it ends too early": streams("Act: go to", then=lambda exchange: None),
    "it ends at once": streams("", then=lambda exchange: None),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_a_stream_that_breaks_off_is_asked_for_as_a_whole(peer: Peer, model: Model, breaks: Behaviour) -> None:
    peer.script.extend([breaks, says("Act: done")])
    assert decided(ask(model(peer), may_say=GRAMMAR)) == "Act: done"
    assert ["stream" in one.body for one in peer.asked] == [True, False]


@pytest.mark.slow
def test_a_server_that_dies_in_its_stream_and_stays_away_is_gone(peer: Peer, model: Model) -> None:
    def dies(exchange: Exchange) -> None:
        peer.close_port()
        exchange.hang_up()

    one = model(peer)
    one.ready().result(PATIENCE)
    peer.script.append(streams("Act: go to", then=dies))
    assert type(refusal(one, may_say=GRAMMAR)) is ServerUnavailable


def test_an_error_within_a_stream_is_the_servers(peer: Peer, model: Model) -> None:
    def fails_inside(exchange: Exchange) -> None:
        exchange.send_part({"error": {"message": "no\ngood", "code": 400}})

    peer.script.append(streams("Act:", then=fails_inside))
    failure = refusal(model(peer), may_say=GRAMMAR)
    assert type(failure) is RequestRejected
    assert "no good" in str(failure)


@pytest.mark.parametrize("value", [[1], {"choices": [3]}, {"choices": {}}, "null"])
def test_a_part_that_is_none_is_told(peer: Peer, model: Model, value: object) -> None:
    peer.script.append(streams("Act:", then=lambda exchange: exchange.send_part(value)))
    peer.script.append(answers({"choices": []}))
    failure = refusal(model(peer), may_say=GRAMMAR)
    assert type(failure) is ServerUnavailable
    assert "no completion" in str(failure)


def longer_than_is_read(exchange: Exchange, parts: bool = False) -> None:
    """Answer with more than is read, as a whole or in parts that say nothing."""
    begin, size = b'data: {"choices": []}\n\n' if parts else b'{"choices": "', 1 << 20
    with contextlib.suppress(OSError):  # the client goes away
        exchange.begin_stream("text/event-stream" if parts else "application/json")
        for _ in range(LONGEST_ANSWER // size + 2):
            exchange.handler.wfile.write(begin * (size // len(begin) + 1))


TOO_MUCH: dict[str, tuple[Behaviour, str]] = {
    "long": (longer_than_is_read, "its answer is longer than 16 MiB"),
    "long, in parts": (partial(longer_than_is_read, parts=True), "its answer is longer than 16 MiB"),
    "packed": (
        lambda exchange: exchange.raw(200, gzip.compress(b"{}"), "text/event-stream", {"Content-Encoding": "gzip"}),
        "its answer is compressed (gzip)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("behaviour", "said"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_an_answer_that_is_not_read_to_its_end_is_told_in_one_line(
    peer: Peer, model: Model, behaviour: Behaviour, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = model(peer, retries=0)
    one.ready().result(PATIENCE)
    peer.script.append(behaviour)
    assert said in str(refusal(one, may_say=GRAMMAR))
    assert not [record for record in caplog.records if record.exc_info], "no traceback"
