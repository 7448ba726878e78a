"""Models behind servers that think before they answer: how that is found, what room they get, what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clients import PATIENCE, Model, ask, clients, decided
from openai_peer import GRAMMAR, JSON_SCHEMA, THOUGHT, Behaviour, Peer, Request, answers, fails, says

from reactree_ros.agent.turns import Said, Told
from reactree_ros.llm.port import FreeText

ACT = "Act: go to kitchen 1"
WORDS = len(THOUGHT.split())


@pytest.fixture(autouse=True)
def _no_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def model() -> Iterator[Model]:
    with clients() as make:
        yield make


def thinking(thinks: str, **more: Any) -> Peer:
    return Peer(**{"chats": True, "thinks": thinks, "say": lambda prompt: ACT, **more})


def trials(peer: Peer) -> list[Request]:
    return [one for one in peer.requests if one.path == "/v1/chat/completions" and one.is_a_trial]


FIELDS = {"reasoning": "in a field of its own", "reasoning_content": "in a field of its own", "hidden": "unseen"}


@pytest.mark.parametrize(("field", "where"), FIELDS.items(), ids=FIELDS)
def test_a_model_that_thinks_is_found_out_and_has_room_to_think_and_to_speak(
    model: Model, field: str, where: str
) -> None:
    with thinking(field) as peer:
        one = model(peer, reasoning_tokens=300)
        reply = ask(one, max_tokens=60)
        assert decided(reply) == ACT
        assert reply.reasoning == ("" if field == "hidden" else THOUGHT)
        assert reply.output_tokens == WORDS + len(ACT.split())
        assert one.status()["thinks"] == where
        assert one.status()["constraints"] == "choice, grammar, json_schema, regex"
        assert [request.limit for request in peer.asked] == [360]
        hello, *others = trials(peer)
        assert hello.limit < WORDS
        assert {request.limit for request in others} == {hello.limit + 300}


def test_thoughts_in_a_field_are_counted(model: Model) -> None:
    with thinking("reasoning") as peer:
        reply = ask(model(peer))
        assert (reply.reasoning_tokens, reply.text) == (WORDS, ACT)


def answered(**message: Any) -> Behaviour:
    """An answer of vLLM's, whose reasoning parser counts only what is behind the beginning of a thought."""
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 0}}
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": None, **message}}
    return answers({"choices": [choice], "usage": usage})


def test_thoughts_that_the_server_does_not_count_are_what_was_generated_before_the_answer(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, constraints=("grammar",))
        peer.script.append(answered(content=ACT, reasoning="one two"))
        reply = ask(one)
        assert (reply.reasoning_tokens, reply.output_tokens) == (9 - len(ACT.split()), 9)
        assert (peer.requests[-1].path, peer.requests[-1].prompt) == ("/tokenize", ACT)


def test_an_answer_that_is_taken_for_a_thought_by_the_parser_is_one_where_no_thought_was_asked_for(
    model: Model,
) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, constraints=("grammar",), thinking=False)
        peer.script.append(answered(reasoning=ACT))
        reply = ask(one)
        assert (decided(reply), reply.reasoning) == (ACT, "")
        one = model(peer, constraints=("grammar",))
        peer.script.append(answered(reasoning="Act: done"))
        reply = ask(one)
        assert decided(reply) == ACT
        assert "Act: done" in reply.reasoning


def test_thoughts_in_the_text_are_taken_out_of_it(model: Model) -> None:
    with thinking("text", obeys=()) as peer:
        one = model(peer, reasoning_tokens=300)
        reply = ask(one, max_tokens=60)
        assert (decided(reply), reply.text.strip(), reply.reasoning) == (ACT, ACT, THOUGHT)
        assert (one.status()["thinks"], one.status()["method"]) == ("in its text", "unconstrained")
        assert [request.limit for request in peer.asked] == [360]


def test_thoughts_are_no_part_of_what_is_asked_next(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer)
        said = ask(one, "Do.").said
        ask(one, Told("Do."), *said, Told("You are in the kitchen."))
        assert "Let me see" not in peer.asked[-1].prompt
        assert Said(ACT, said[0].decision) == said[0]


def test_a_model_that_does_not_think_has_the_limit_that_was_asked_for(model: Model) -> None:
    with Peer(chats=True, say=lambda prompt: ACT) as peer:
        one = model(peer, reasoning_tokens=300)
        ask(one, max_tokens=60)
        assert one.status()["thinks"] == "no"
        assert [request.limit for request in peer.asked] == [60]


def test_a_model_that_thinks_about_some_things_only_has_room_from_then_on(model: Model) -> None:
    with Peer(chats=True, say=lambda prompt: ACT) as peer:
        one = model(peer, reasoning_tokens=300)
        one.ready().result(PATIENCE)
        peer.thinks = "reasoning"
        for _ in range(2):
            assert decided(ask(one, max_tokens=60)) == ACT
        assert [request.limit for request in peer.asked] == [60, 360]


def test_thinking_that_does_not_end_is_a_reply_of_nothing_that_was_cut(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, reasoning_tokens=5)
        reply = ask(one, may_say=FreeText(), max_tokens=5)
        assert (reply.text, reply.cut) == ("", True)
        assert THOUGHT.startswith(reply.reasoning)
        assert reply.reasoning


def test_a_decision_after_thinking_that_was_cut_is_asked_for_again(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, constraints=("grammar",))
        one.ready().result(PATIENCE)
        peer.script.append(says("", finish="length", thought=THOUGHT))
        assert decided(ask(one)) == ACT
        assert len(peer.asked) == 2


def test_a_model_that_thinks_does_not_go_on_with_a_message_that_was_begun(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, constraints=("grammar",))
        assert ask(one, "task", may_say=FreeText(), begun="Act:").text == ACT
        (request,) = peer.asked
        assert request.body["messages"][-1] == {"role": "user", "content": "task"}
        assert "continue_final_message" not in request.body


def test_a_completion_has_no_room_to_think(model: Model) -> None:
    with Peer(say=lambda prompt: ACT) as peer:
        ask(model(peer, chat=False, thinking=True, constraints=("grammar",)), max_tokens=60)
        assert [request.limit for request in peer.asked] == [60]


# ---------------------------------------------------------------------- what a model is told


@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp"])
def test_a_server_that_knows_the_chat_template_is_told_whether_to_think(model: Model, owner: str) -> None:
    with thinking("reasoning_content", owned_by=owner) as peer:
        one = model(peer, thinking=False)
        reply = ask(one, max_tokens=60)
        assert (decided(reply), reply.reasoning) == (ACT, "")
        assert (one.status()["thinks"], one.status()["told to think"]) == ("no", "no")
        for request in peer.requests:
            if request.body and "messages" in request.body:
                assert request.body["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
        assert peer.asked[0].limit == 60


@pytest.mark.parametrize("owner", ["system", "hosted", "tgi"])
def test_a_server_that_does_not_know_the_chat_template_is_told_the_effort_alone(model: Model, owner: str) -> None:
    with thinking("reasoning", owned_by=owner) as peer:
        ask(model(peer, thinking=True, reasoning_effort="low", constraints=("json_schema",), method="unconstrained"))
        (request,) = peer.asked
        assert request.body["reasoning_effort"] == "low"
        assert "chat_template_kwargs" not in request.body


def test_vllm_is_told_the_effort_in_both_ways(model: Model) -> None:
    with thinking("reasoning") as peer:
        ask(model(peer, reasoning_effort="high", chat_template_kwargs={"custom": True}))
        (request,) = peer.asked
        assert request.body["reasoning_effort"] == "high"
        assert request.body["chat_template_kwargs"] == {"reasoning_effort": "high", "custom": True}


def test_what_the_chat_template_is_to_be_told_besides_is_sent_to_any_server(model: Model) -> None:
    with thinking("reasoning", owned_by="my gateway", speaks="vllm") as peer:
        one = model(peer, chat_template_kwargs="{enable_thinking: false}")
        assert ask(one).reasoning == ""
        assert peer.asked[0].body["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_model_that_is_told_to_think_has_room_from_the_first_request(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, thinking=True, reasoning_tokens=300, constraints=("grammar",))
        assert decided(ask(one, max_tokens=60)) == ACT
        assert trials(peer)[0].limit > 300
        assert [request.limit for request in peer.asked] == [360]


def test_an_effort_that_the_server_refuses_is_an_error_that_names_it(model: Model) -> None:
    said = "Unrecognized request argument supplied: reasoning_effort"
    with thinking("hidden", owned_by="system", lacks={"reasoning_effort": fails(400, said)}) as peer:
        one = model(peer, chat=True, reasoning_effort="low")
        with pytest.raises(Exception, match=said):
            one.ready().result(PATIENCE)


# ---------------------------------------------------------------------- what it is held to


@pytest.mark.parametrize("obeys", [{GRAMMAR}, {JSON_SCHEMA}])
def test_what_is_obeyed_is_found_out_behind_thoughts_in_the_text(model: Model, obeys: Any) -> None:
    """Some servers let the model think in its text before they hold it to something."""

    class Late(Peer):
        def thought(self, request: Request, held: bool) -> str:
            return super().thought(request, held=False)

    with Late(chats=True, thinks="text", obeys=obeys, say=lambda prompt: ACT) as peer:
        one = model(peer, reasoning_tokens=300)
        reply = ask(one)
        assert (decided(reply), reply.reasoning) == (ACT, THOUGHT)
        assert one.status()["constraints"] == ", ".join(kind.value for kind in obeys)
