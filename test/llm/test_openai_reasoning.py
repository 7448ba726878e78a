"""Models behind servers that think before they answer: how that is found, what room they get, what they are told."""

from __future__ import annotations

from typing import Any

import pytest
from clients import PATIENCE, Model, ask, decided, refusal
from openai_peer import JSON_SCHEMA, REGEX, THOUGHT, Behaviour, Peer, Request, answers, fails, says

from reactree_ros.agent.turns import Said, Told
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.port import FreeText, ServerUnavailable
from reactree_ros.planners.spec import planner

ACT = "Act: go to kitchen 1"
WORDS = len(THOUGHT.split())


def thinking(thinks: str, **more: Any) -> Peer:
    return Peer(**{"chats": True, "thinks": thinks, "say": lambda prompt: ACT, **more})


def trials(peer: Peer) -> list[Request]:
    return [one for one in peer.requests if one.path == "/v1/chat/completions" and one.is_a_trial]


FIELDS = {"reasoning": "in a field of its own", "reasoning_content": "in a field of its own", "hidden": "unseen"}


@pytest.mark.parametrize(("field", "where"), FIELDS.items(), ids=FIELDS)
def test_a_model_that_thinks_is_found_out_and_has_room_to_think_and_to_speak(
    model: Model, field: str, where: str
) -> None:
    with thinking(field, owned_by="me", speaks="vllm") as peer:
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


def test_a_thought_that_leaves_no_room_to_speak_is_asked_for_again_with_room_and_counted(model: Model) -> None:
    with thinking("reasoning") as peer:
        reply = ask(model(peer, reasoning_tokens=300), max_tokens=20)
        assert decided(reply) == ACT
        assert [request.limit for request in peer.asked] == [23, 323]
        assert (reply.tried_output_tokens, reply.requests) == (23, 1)


def test_thoughts_in_a_field_are_counted(model: Model) -> None:
    with thinking("reasoning") as peer:
        reply = ask(model(peer))
        assert (reply.reasoning_tokens, reply.text) == (WORDS, ACT)


def answered(*, finish: str = "stop", **message: Any) -> Behaviour:
    """An answer of vLLM's, whose reasoning parser counts only what is behind the beginning of a thought."""
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 0}}
    choice = {"finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
    return answers({"choices": [choice], "usage": usage})


def test_thoughts_that_the_server_does_not_count_are_what_was_generated_before_the_answer(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer)
        peer.script.append(answered(content=ACT, reasoning="one two"))
        reply = ask(one)
        assert (reply.reasoning_tokens, reply.output_tokens) == (9 - len(ACT.split()), 9)
        assert (peer.requests[-1].path, peer.requests[-1].prompt) == ("/tokenize", ACT)


def test_an_answer_that_is_taken_for_a_thought_by_the_parser_is_one_where_no_thought_was_asked_for(
    model: Model,
) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, thinking=False)
        peer.script.append(answered(reasoning=ACT))
        reply = ask(one)
        assert (decided(reply), reply.reasoning) == (ACT, "")


EXACT = {
    "an act": ACT,
    "done": "Act: done",
    "a thought": "Think: I look first",
    "an expansion": "Expand:\n- control flow: sequence\n- subgoals: find it, take it",
    "blanks around it": f"\n{ACT}\n",
    "the schema": '{"decision": {"Act": "go to kitchen 1"}}',
}


@pytest.mark.parametrize("said", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking", "parts", "open tag", "closed tags"])
def test_a_thought_that_is_exactly_a_decision_is_taken_where_there_is_no_answer(
    model: Model, field: str, said: str
) -> None:
    inline = {"open tag": f"<think>{said}", "closed tags": f"<think>{said}</think>"}
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": said}]}]
    content = inline.get(field, parts if field == "parts" else "")
    more = {field: said} if field in ("reasoning_content", "reasoning", "thinking") else {}
    with thinking("reasoning") as peer:
        one = model(peer)
        peer.script.append(answered(content=content, **more))
        reply = ask(one)
        assert (len(peer.asked), reply.objection, reply.reasoning) == (1, "", "")
        if said.startswith("{"):
            assert decided(reply) == ACT
        else:
            assert decided(reply) == said.strip()


MENTIONED = {
    "in a sentence": f"I could say '{ACT}', but first I look.",
    "at the end": f"The kitchen is near.\n{ACT}",
    "at the beginning": f"{ACT}\nThat would be good.",
    "twice": f"{ACT}\nAct: done",
    "what may not be said": "Act: go to the moon 1",
    "a skill alone": "go to kitchen 1",
    "in a fence": f"```\n{ACT}\n```",
    "in quotes": f'"{ACT}"',
    "JSON in a sentence": 'I answer {"decision": {"Act": "done"}}.',
    "JSON of another shape": '{"thought": "I am done", "action": "done"}',
    "two in JSON": '{"decision": {"Think": "well", "Act": "done"}}',
    "very long": "Think: " + "well " * 10_000,
    "nested": "[" * 100_000,
}


@pytest.mark.parametrize("thought", MENTIONED.values(), ids=MENTIONED)
@pytest.mark.parametrize("field", ["reasoning_content", "open tag"])
def test_a_thought_that_mentions_a_decision_is_none(model: Model, field: str, thought: str) -> None:
    with thinking("reasoning") as peer:
        one = model(peer)
        tag = field == "open tag"
        peer.script.append(answered(content=f"<think>{thought}") if tag else answered(**{field: thought}))
        reply = ask(one)
        assert (decided(reply), len(peer.asked)) == (ACT, 2)
        assert thought.strip() in reply.reasoning


def test_a_thought_that_the_limit_ended_is_no_decision(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer)
        peer.script.append(answered(finish="length", reasoning_content="Act: done"))
        assert decided(ask(one)) == ACT


SILENT = {
    "nothing": (answered(), "empty texts came (9 output tokens)", "chat=false"),
    "a thought": (answered(reasoning_content="Hm."), "a thought came ('Hm.')", "thinking=false"),
    "no end": (answered(finish="length", reasoning_content="Hm."), "still thought", "raise reasoning_tokens"),
    "blanks": (answered(content=" \n"), "empty texts came", "read its log"),
}


@pytest.mark.parametrize(("behaviour", "came", "way_out"), SILENT.values(), ids=SILENT)
def test_a_model_that_says_nothing_again_and_again_is_gone_and_the_error_says_what_came(
    model: Model, behaviour: Behaviour, came: str, way_out: str
) -> None:
    with thinking("reasoning") as peer:
        one = model(peer)
        peer.script.extend([behaviour] * 50)
        assert ask(one).objection
        failure = refusal(one)
        assert type(failure) is ServerUnavailable
        assert f"at {peer.base_url} said nothing 8 times in a row" in str(failure)
        assert came in str(failure)
        assert way_out in str(failure)
        assert len(peer.asked) == (9 if came == "still thought" else 8)  # the first thought was given room


def test_a_run_with_a_model_that_says_nothing_ends_soon_and_says_so(model: Model) -> None:
    with thinking("reasoning") as peer:
        peer.say = lambda prompt: ""
        peer.obeys = frozenset()
        world = SymbolicWorld(load_tasks(HOUSES["apartment"])[0])
        result = Episode("Go to the kitchen", world=world, model=model(peer), planner=planner("reactree")).run()
        assert result.end == "model_gone"
        assert "said nothing 8 times in a row" in result.message
        assert sum(request.path.endswith("/completions") for request in peer.requests) <= 20


def test_thoughts_in_the_text_are_taken_out_of_it(model: Model) -> None:
    with thinking("text", obeys=(), owned_by="me") as peer:
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


def test_thinking_that_does_not_end_is_a_reply_of_nothing_that_was_cut(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, reasoning_tokens=5)
        reply = ask(one, may_say=FreeText(), max_tokens=5)
        assert (reply.text, reply.cut) == ("", True)
        assert THOUGHT.startswith(reply.reasoning)
        assert reply.reasoning


def test_a_decision_after_thinking_that_was_cut_is_asked_for_again(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer)
        one.ready().result(PATIENCE)
        peer.script.append(says("", finish="length", thought=THOUGHT))
        assert decided(ask(one)) == ACT
        assert len(peer.asked) == 2


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
        ask(model(peer, thinking=True, reasoning_effort="low", dialect="openai", method="unconstrained"))
        (request,) = peer.asked
        assert request.body["reasoning_effort"] == "low"
        assert "chat_template_kwargs" not in request.body


def test_what_the_chat_template_is_to_be_told_besides_is_sent_to_any_server(model: Model) -> None:
    with thinking("reasoning", owned_by="my gateway", speaks="vllm") as peer:
        one = model(peer, chat_template_kwargs="{enable_thinking: false}")
        assert ask(one).reasoning == ""
        assert peer.asked[0].body["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_model_that_is_told_to_think_has_room_from_the_first_request(model: Model) -> None:
    with thinking("reasoning") as peer:
        one = model(peer, thinking=True, reasoning_tokens=300)
        assert decided(ask(one, max_tokens=60)) == ACT
        assert [request.limit for request in peer.asked] == [360]


def test_an_effort_that_the_server_refuses_is_an_error_that_names_it(model: Model) -> None:
    said = "Unrecognized request argument supplied: reasoning_effort"
    with thinking("hidden", owned_by="system", lacks={"reasoning_effort": fails(400, said)}) as peer:
        one = model(peer, chat=True, reasoning_effort="low")
        with pytest.raises(Exception, match=said):
            one.ready().result(PATIENCE)


# ---------------------------------------------------------------------- what it is held to


@pytest.mark.parametrize(("speaks", "kind"), [("vllm", REGEX), ("openai", JSON_SCHEMA)])
def test_what_is_obeyed_is_found_out_behind_thoughts_in_the_text(model: Model, speaks: str, kind: Any) -> None:
    """Some servers let the model think in its text before they hold it to something."""

    class Late(Peer):
        def thought(self, request: Request, held: bool) -> str:
            return super().thought(request, held=False)

    with Late(owned_by="me", speaks=speaks, chats=True, thinks="text", obeys={kind}, say=lambda prompt: ACT) as peer:
        one = model(peer, reasoning_tokens=300)
        reply = ask(one)
        assert (decided(reply), reply.reasoning) == (ACT, THOUGHT)
        assert kind.value in one.status()["constraints"]
