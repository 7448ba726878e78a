"""What a server answers: words, calls of tools, thoughts, streams, half characters."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from clients import PATIENCE, Model, Serve, ask, clients, decided, refusal
from openai_peer import (
    JSON_SCHEMA,
    REGEX,
    THOUGHT,
    Behaviour,
    Exchange,
    Peer,
    Request,
    answer,
    answers,
    fails,
    hangs_up,
    holds,
    pieces,
    resets,
    says,
    streams,
)

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import read, whole_part
from reactree_ros.agent.turns import Said, Told
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.engine import Generated, Generation, ToolCall
from reactree_ros.llm.openai.answer import read_answer
from reactree_ros.llm.openai.connection import LONGEST_ANSWER
from reactree_ros.llm.port import DecisionRequest, FreeText, RequestRejected, ServerUnavailable
from reactree_ros.llm.usage import Noticed
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions

ACT = "Act: go to kitchen 1"
WORDS = len(THOUGHT.split())


@pytest.fixture
def free() -> Iterator[Model]:
    """Makes language models that are asked for free text."""
    with clients(chat=True, method="unconstrained") as make:
        yield make


def thinking(thinks: str = "reasoning", **more: Any) -> Peer:
    return Peer(**{"chats": True, "thinks": thinks, "say": lambda prompt: ACT, **more})


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def thought(*parts: Any) -> list[dict[str, Any]]:
    """Thoughts in Mistral's form."""
    return [{"type": "thinking", "thinking": [{"type": "text", "text": part} for part in parts]}]


YES, HM = Generated("yes", "stop"), Generated("yes", "stop", reasoning="hm")
CALL = Generated("", "stop", calls=(ToolCall("Act", '{"skill": "x"}'),))
DETAILS: dict[str, Any] = {
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
UNCOUNTED: dict[str, Any] = {"completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 0}}
NO_DETAILS: dict[str, Any] = {"prompt_tokens": 5, "prompt_tokens_details": None, "completion_tokens_details": None}
ANSWERS: dict[str, tuple[dict[str, Any], Generated]] = {
    "text": (answer({"content": "yes"}), YES),
    "no content": (answer({"content": None}), Generated("", "stop")),
    "content missing": (answer({"role": "assistant"}), Generated("", "stop")),
    "cut": (answer({"content": "ye"}, "length"), Generated("ye", "length")),
    "cut, in Mistral's words": (answer({"content": "ye"}, "model_length"), Generated("ye", "length")),
    "ended without a reason": (answer({"content": "yes"}, None), YES),
    "a completion": ({"choices": [{"text": "yes", "finish_reason": "eos"}]}, YES),
    "a refusal": (answer({"content": None, "refusal": "I will not."}), Generated("I will not.", "stop")),
    "reasoning_content": (answer({"content": "yes", "reasoning_content": "hm"}), HM),
    "reasoning": (answer({"content": "yes", "reasoning": "hm"}), HM),
    "both, one of them empty": (answer({"content": "yes", "reasoning_content": None, "reasoning": "hm"}), HM),
    "parts, in Mistral's form": (answer({"content": [*thought("hm"), {"type": "text", "text": "yes"}]}), HM),
    "counts": (
        answer({"content": "yes"}, prompt_tokens=5, completion_tokens=4, **DETAILS),
        Generated("yes", "stop", 5, 3, 4, reasoning_tokens=2),
    ),
    "thoughts that were not counted": (
        answer({"content": "yes", "reasoning": "hm"}, **UNCOUNTED),
        Generated("yes", "stop", output_tokens=4, reasoning="hm"),
    ),
    "counts without details": (answer({"content": "yes"}, **NO_DETAILS), Generated("yes", "stop", 5)),
    "a call": (answer({"content": None, "tool_calls": [call("Act", '{"skill": "x"}')]}, "tool_calls"), CALL),
    "a call with an object, and words beside it": (
        answer({"content": "Now.", "tool_calls": [call("Act", {"skill": "x"}), call("Think", None)]}),
        Generated("Now.", "stop", calls=(*CALL.calls, ToolCall("Think", "{}"))),
    ),
    "half a character": (answer({"content": "\ud83d!", "reasoning": "\udc00"}), Generated("?!", "stop", reasoning="?")),
}


@pytest.mark.parametrize(("sent", "found"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_for_what_it_holds(sent: dict[str, Any], found: Generated) -> None:
    assert read_answer(sent) == found


ODD_COUNTS = ("12", -5, 1.5, True, float("nan"), 10**400, [1], {"tokens": 1}, None)


@pytest.mark.parametrize("odd", ODD_COUNTS, ids=lambda odd: repr(odd)[:10])
def test_a_count_that_is_none_is_not_counted(odd: Any) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": odd}, "completion_tokens_details": {"reasoning_tokens": odd}}
    assert read_answer(answer({"content": "yes"}, prompt_tokens=odd, completion_tokens=odd, **details)) == YES
    assert read_answer(answer({"content": "yes"}, prompt_tokens_details=odd)) == YES
    assert read_answer({"choices": [{"text": "yes"}], "usage": odd}) == YES


def test_thoughts_that_are_nested_are_no_reason_to_end() -> None:
    nested: Any = "hm"
    for _ in range(5000):
        nested = [{"type": "thinking", "thinking": nested}]
    assert read_answer(answer({"content": nested})) == Generated("", "stop")


@pytest.mark.parametrize("text", ["Think: well", ACT, "Expand:\n- control flow: sequence\n- subgoals: a, b"])
def test_a_decision_may_come_as_the_call_of_a_tool(free: Model, text: str) -> None:
    with Peer(chats=True, calls="tool_calls", say=lambda prompt: text) as peer:
        assert decided(ask(free(peer))) == text
        assert len(peer.asked) == 1


def test_a_tool_that_is_none_of_the_decisions_is_refused_and_asked_about_again(free: Model) -> None:
    with thinking("") as peer:
        peer.script.append(answers(answer({"content": None, "tool_calls": [call("fly", "{}")]}, "tool_calls")))
        assert decided(ask(free(peer))) == ACT
        assert len(peer.asked) == 2


def test_thinking_up_to_the_limit_is_a_reply_of_nothing_also_where_that_is_an_error(free: Model) -> None:
    told = "Could not finish the message because max_tokens or model output limit was reached."
    with thinking("") as peer:
        one = free(peer)
        # It is taken for thinking, and asked for again with room for that.
        peer.script.extend([fails(400, told)] * 2)
        reply = ask(one, may_say=FreeText())
        assert (reply.text, reply.cut) == ("", True)
        assert peer.asked[1].limit > peer.asked[0].limit


@pytest.mark.parametrize("chat", [True, False])
def test_half_a_character_is_sent_and_read_as_a_question_mark(free: Model, chat: bool) -> None:
    with thinking("") as peer:
        one = free(peer, chat=chat, method="one_request")
        peer.script.append(says("Think: fine \ud83d"))
        grammar = DecisionGrammar(("done", "pick up \udc4d"))
        assert decided(ask(one, Told("A sign: \ud83d"), may_say=grammar)) == "Think: fine ?"
        (request,) = peer.asked
        assert request.prompt.strip() == "A sign: ?"
        assert r"pick\ up\ ?" in request.body["structured_outputs"]["regex"]
        json.dumps(request.body, ensure_ascii=False).encode()


# ---------------------------------------------------------------------- thoughts: how they are found, and their room

FIELDS = {"reasoning": "in a field of its own", "reasoning_content": "in a field of its own", "hidden": "unseen"}


@pytest.mark.parametrize(("field", "where"), FIELDS.items(), ids=FIELDS)
def test_a_model_that_thinks_is_found_out_and_has_room_to_think_and_to_speak(
    serve: Serve, field: str, where: str
) -> None:
    peer, one = serve(thinking(field, owned_by="me", speaks="vllm"), reasoning_tokens=300)
    reply = ask(one, max_tokens=60)
    assert decided(reply) == ACT
    assert reply.reasoning == ("" if field == "hidden" else THOUGHT)
    assert reply.output_tokens == WORDS + len(ACT.split())
    assert one.status()["thinks"] == where
    assert one.status()["constraints"] == "choice, grammar, json_schema, regex, tools"
    assert [request.limit for request in peer.asked] == [360]
    hello, *others = [one for one in peer.requests if one.is_a_chat and one.is_a_trial]
    assert hello.limit < WORDS
    assert {request.limit for request in others} == {hello.limit + 300}


def test_a_thought_that_leaves_no_room_to_speak_is_asked_for_again_with_room_and_counted(serve: Serve) -> None:
    peer, one = serve(thinking(), reasoning_tokens=300)
    reply = ask(one, max_tokens=20)
    assert decided(reply) == ACT
    assert [request.limit for request in peer.asked] == [23, 323]
    assert (reply.tried_output_tokens, reply.requests) == (23, 1)


@pytest.mark.parametrize(("thinks", "limit"), [({"thinking": True}, 360), ({}, 60)], ids=["told to", "does not"])
def test_a_model_has_room_for_thoughts_from_the_first_request_if_it_is_told_to_think(
    serve: Serve, thinks: dict[str, bool], limit: int
) -> None:
    peer, one = serve(thinking("reasoning" if thinks else ""), reasoning_tokens=300, **thinks)
    assert decided(ask(one, max_tokens=60)) == ACT
    assert [request.limit for request in peer.asked] == [limit]
    assert one.status()["thinks"] == ("in a field of its own" if thinks else "no")


def answered(*, finish: str = "stop", **message: Any) -> Behaviour:
    """An answer of vLLM's, whose reasoning parser counts only what is behind the beginning of a thought."""
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 0}}
    return answers(answer({"role": "assistant", "content": None, **message}, finish, **usage))


def test_thoughts_that_the_server_does_not_count_are_what_was_generated_before_the_answer(serve: Serve) -> None:
    peer, one = serve(thinking())
    assert ask(one).reasoning_tokens == WORDS
    peer.script.append(answered(content=ACT, reasoning="one two"))
    reply = ask(one)
    assert (reply.reasoning_tokens, reply.output_tokens) == (9 - len(ACT.split()), 9)
    assert (peer.requests[-1].path, peer.requests[-1].prompt) == ("/tokenize", ACT)


def test_an_answer_that_the_parser_takes_for_a_thought_is_one_where_no_thought_was_asked_for(serve: Serve) -> None:
    peer, one = serve(thinking(), thinking=False)
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
    serve: Serve, field: str, said: str
) -> None:
    contents: dict[str, Any] = {
        "open tag": f"<think>{said}",
        "closed tags": f"<think>{said}</think>",
        "parts": thought(said),
    }
    peer, one = serve(thinking())
    message = {"content": contents[field]} if field in contents else {"content": "", field: said}
    peer.script.append(answered(**message))
    reply = ask(one)
    assert (len(peer.asked), reply.objection, reply.reasoning) == (1, "", "")
    assert decided(reply) == (ACT if said.startswith("{") else said.strip())


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


@pytest.mark.parametrize("said", MENTIONED.values(), ids=MENTIONED)
@pytest.mark.parametrize("field", ["reasoning_content", "open tag"])
def test_a_thought_that_mentions_a_decision_is_none(serve: Serve, field: str, said: str) -> None:
    peer, one = serve(thinking())
    peer.script.append(answered(content=f"<think>{said}") if field == "open tag" else answered(**{field: said}))
    reply = ask(one)
    assert (decided(reply), len(peer.asked)) == (ACT, 2)
    assert said.strip() in reply.reasoning


@pytest.mark.parametrize(
    "cut",
    [answered(finish="length", reasoning_content="Act: done"), says("", finish="length", thought=THOUGHT)],
    ids=["a decision", "a thought"],
)
def test_a_thought_that_the_limit_ended_is_no_decision_and_asked_for_again(serve: Serve, cut: Behaviour) -> None:
    peer, one = serve(thinking())
    one.ready().result(PATIENCE)
    peer.script.append(cut)
    assert decided(ask(one)) == ACT
    assert len(peer.asked) == 2


SILENT = {
    "nothing": (answered(), "empty texts came (9 output tokens)", "chat=false"),
    "a thought": (answered(reasoning_content="Hm."), "a thought came ('Hm.')", "thinking=false"),
    "no end": (answered(finish="length", reasoning_content="Hm."), "still thought", "raise reasoning_tokens"),
    "blanks": (answered(content=" \n"), "empty texts came", "read its log"),
}


@pytest.mark.parametrize(("behaviour", "came", "way_out"), SILENT.values(), ids=SILENT)
def test_a_model_that_says_nothing_again_and_again_is_gone_and_the_error_says_what_came(
    serve: Serve, behaviour: Behaviour, came: str, way_out: str
) -> None:
    peer, one = serve(thinking())
    peer.script.extend([behaviour] * 50)
    assert ask(one).objection
    failure = refusal(one)
    assert type(failure) is ServerUnavailable
    assert f"at {peer.base_url} said nothing 8 times in a row" in str(failure)
    assert came in str(failure)
    assert way_out in str(failure)
    assert len(peer.asked) == (9 if came == "still thought" else 8)  # the first thought was given room


def test_a_run_with_a_model_that_says_nothing_ends_soon_and_says_so(serve: Serve) -> None:
    peer, one = serve(thinking(say=lambda prompt: "", obeys=()))
    world = SymbolicWorld(load_tasks(HOUSES["apartment"])[0])
    result = Episode("Go to the kitchen", world=world, model=one, planner=planner("reactree")).run()
    assert result.end == "model_gone"
    assert "said nothing 8 times in a row" in result.message
    assert sum(request.path.endswith("/completions") for request in peer.requests) <= 20


def test_thoughts_in_the_text_are_taken_out_of_it(serve: Serve) -> None:
    peer, one = serve(thinking("text", obeys=(), owned_by="me"), reasoning_tokens=300)
    reply = ask(one, max_tokens=60)
    assert (decided(reply), reply.text.strip(), reply.reasoning) == (ACT, ACT, THOUGHT)
    assert (one.status()["thinks"], one.status()["method"]) == ("in its text", "unconstrained")
    assert [request.limit for request in peer.asked] == [360]


def test_thoughts_are_no_part_of_what_is_asked_next(serve: Serve) -> None:
    peer, one = serve(thinking())
    said = ask(one, "Do.").said
    ask(one, Told("Do."), *said, Told("You are in the kitchen."))
    assert "Let me see" not in peer.asked[-1].prompt
    assert Said(ACT, said[0].decision) == said[0]


def test_thinking_that_does_not_end_is_a_reply_of_nothing_that_was_cut(serve: Serve) -> None:
    _, one = serve(thinking(), reasoning_tokens=5)
    reply = ask(one, may_say=FreeText(), max_tokens=5)
    assert (reply.text, reply.cut) == ("", True)
    assert THOUGHT.startswith(reply.reasoning)
    assert reply.reasoning


@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp"])
def test_a_server_that_knows_the_chat_template_is_told_whether_to_think(serve: Serve, owner: str) -> None:
    peer, one = serve(thinking("reasoning_content", owned_by=owner), thinking=False)
    reply = ask(one, max_tokens=60)
    assert (decided(reply), reply.reasoning) == (ACT, "")
    assert (one.status()["thinks"], one.status()["told to think"]) == ("no", "no")
    for request in peer.requests:
        if request.body and "messages" in request.body:
            assert request.body["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    assert peer.asked[0].limit == 60


@pytest.mark.parametrize("owner", ["system", "hosted", "tgi"])
def test_a_server_that_does_not_know_the_chat_template_is_told_the_effort_alone(serve: Serve, owner: str) -> None:
    told = {"thinking": True, "reasoning_effort": "low", "dialect": "openai", "method": "unconstrained"}
    peer, one = serve(thinking(owned_by=owner), **told)
    ask(one)
    (request,) = peer.asked
    assert request.body["reasoning_effort"] == "low"
    assert "chat_template_kwargs" not in request.body


def test_what_the_chat_template_is_to_be_told_besides_is_sent_to_any_server(serve: Serve) -> None:
    gateway = thinking(owned_by="my gateway", speaks="vllm")
    peer, one = serve(gateway, chat_template_kwargs="{enable_thinking: false}")
    assert ask(one).reasoning == ""
    assert peer.asked[0].body["chat_template_kwargs"] == {"enable_thinking": False}


def test_an_effort_that_the_server_refuses_is_an_error_that_names_it(serve: Serve) -> None:
    said = "Unrecognized request argument supplied: reasoning_effort"
    refuses = thinking("hidden", owned_by="system", lacks={"reasoning_effort": fails(400, said)})
    _, one = serve(refuses, chat=True, reasoning_effort="low")
    with pytest.raises(Exception, match=said):
        one.ready().result(PATIENCE)


@pytest.mark.parametrize(("speaks", "kind"), [("vllm", REGEX), ("openai", JSON_SCHEMA)])
def test_what_is_obeyed_is_found_out_behind_thoughts_in_the_text(serve: Serve, speaks: str, kind: Any) -> None:
    """Some servers let the model think in its text before they hold it to something."""

    class Late(Peer):
        def thought(self, request: Request, held: bool) -> str:
            return super().thought(request, held=False)

    late = {"owned_by": "me", "speaks": speaks, "chats": True, "thinks": "text"}
    _, one = serve(Late(**late, obeys={kind}, say=lambda prompt: ACT), reasoning_tokens=300)
    reply = ask(one)
    assert (decided(reply), reply.reasoning) == (ACT, THOUGHT)
    assert kind.value in one.status()["constraints"]


# ---------------------------------------------------------------------- streams: where a reply is whole

SKILLS = ("done", "failure", "go to kitchen 1", "go to kitchen 12", "pick up apple 1")
SKILLS_ALONE, WITH_FLOWS = DecisionGrammar(SKILLS), DecisionGrammar(SKILLS, default_flows())
BABBLE = "You arrive at the kitchen (1). You see a lot.\\n"
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


def wholes(text: str, grammar: DecisionGrammar) -> list[str]:
    """Return what is whole of a text after each of its pieces."""
    return [whole_part(part, grammar) for part in itertools.accumulate(pieces(text))]


@pytest.mark.parametrize(("said", "more"), WHOLE.values(), ids=WHOLE)
def test_a_reply_ends_with_its_decision_and_is_read_as_the_whole_is(said: str, more: str) -> None:
    found = wholes(said + more, WITH_FLOWS)
    first = next(filter(None, found))
    assert first.strip() == said.strip()
    assert len("".join(pieces(said + more)[: found.index(first) + 1])) < len(said + more)
    if not ("fly" in said or said.startswith(("{", "Expand"))):
        part = next(filter(None, wholes(said + more, SKILLS_ALONE)))
        assert read(part, SKILLS_ALONE) == read(said, SKILLS_ALONE)


UNFINISHED = (
    "Act: go to kitchen 1",  # … or 12
    "Think: I go to the kitchen.\n",  # an act may follow
    "Expand:\n- control flow: sequence\n- subgoals:\n1. find it\n",
    "Expand:\n- control flow: sequence\n",
    "Act:\n",
    "Action: pick up\nAction Input: apple",
    '{\n"thought": "hm",\n"act": "done"\n',
    "I will go to the kitchen, and then I am done.\n",
    "\n\n",
    # neither a line of signs nor a list of subgoals goes round in circles
    "----" * 20,
    "Expand:\n- control flow: sequence\n- subgoals: " + "find it, " * 9,
)


@pytest.mark.parametrize("said", UNFINISHED)
def test_what_may_become_another_decision_goes_on(said: str) -> None:
    assert not any(wholes(said, WITH_FLOWS))


@pytest.mark.parametrize(
    "said", ["True\n", "The example is a great example of how to use it.\n\n", "Think: so it is, "]
)
def test_a_reply_that_goes_round_in_circles_ends(said: str) -> None:
    found = [whole_part(said * times, SKILLS_ALONE) for times in range(6)]
    assert found == ["", "", "", "", said * 4, said * 5]


# ---------------------------------------------------------------------- streams: the request is closed


@pytest.fixture(params=["vllm", "llamacpp", "someone"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    with Peer(owned_by=request.param, chats=True) as one:
        yield one


def closed(peer: Peer) -> None:
    """Wait until the client has closed the stream that the peer holds."""
    assert peer.gone.get(timeout=PATIENCE).is_a_chat


def test_the_request_is_closed_once_a_decision_is_whole(peer: Peer, free: Model) -> None:
    counts = {"vllm": "usage", "llamacpp": "timings", "someone": ""}[peer.owned_by]
    peer.script.append(streams("Act: go to kitchen 1\nYou", counts=counts, then=holds))
    reply = ask(free(peer), "Say.", may_say=SKILLS_ALONE)
    closed(peer)
    assert (decided(reply), reply.finish_reason) == (ACT, "stop")
    (asked,) = peer.asked
    assert asked.body["stream"] is True
    words = len(asked.prompt.split())
    assert (reply.prompt_tokens, reply.output_tokens) == ((words, 6) if counts else (None, None))
    assert reply.cached_tokens == (words // 2 if counts == "timings" else None)


def test_thoughts_in_the_text_end_no_reply(peer: Peer, free: Model) -> None:
    peer.script.append(streams("<think>\nAct: done\nNo.\n</think>\nAct: go to kitchen 1\nAct: done\n", then=holds))
    reply = ask(free(peer), "Say.", may_say=SKILLS_ALONE)
    closed(peer)
    assert (decided(reply), reply.reasoning) == (ACT, "Act: done\nNo.")


def test_a_free_text_ends_at_its_stop(peer: Peer, free: Model) -> None:
    peer.script.append(streams("\nIt is there.\nAnd so on", then=holds))
    assert ask(free(peer), "Say.", may_say=FreeText()).text == "It is there."
    closed(peer)


def test_a_server_that_streams_for_ever_is_left_at_the_limit(peer: Peer, free: Model) -> None:
    peer.script.append(streams("Think: hm", more=" hm"))
    reply = ask(free(peer), "Say.", may_say=FreeText(), max_tokens=20)
    assert (reply.text[:11], reply.finish_reason) == ("Think: hm h", "length")


def test_what_is_constrained_is_not_streamed(peer: Peer, model: Model) -> None:
    peer.script.append(says("Act: done"))
    ask(model(peer, chat=True), may_say=SKILLS_ALONE)
    assert "stream" not in peer.asked[0].body


def test_a_stream_is_cancelled_with_its_request(peer: Peer, free: Model) -> None:
    one = free(peer)
    one.ready().result(PATIENCE)
    peer.script.append(streams("Act: go", then=holds))
    pending = one.decide(DecisionRequest((Told("Say."),), SKILLS_ALONE))
    peer.held.get(timeout=PATIENCE)
    pending.cancel()
    closed(peer)


REFUSALS: dict[str, tuple[Behaviour, set[str]]] = {
    "stream": (fails(400, "'stream' is not supported."), set()),
    "streaming": (fails(404, "Streaming responses: no such thing here; streaming is off"), set()),
    "stream_options": (fails(422, "extra inputs are not permitted: body.stream_options"), {"stream"}),
}


@pytest.mark.parametrize(("refuses", "left"), REFUSALS.values(), ids=REFUSALS)
def test_a_server_that_refuses_to_stream_is_asked_without(
    peer: Peer, free: Model, refuses: Behaviour, left: set[str]
) -> None:
    peer.script.extend([refuses, says("Act: done"), says("Act: failure")])
    one = free(peer)
    assert [decided(ask(one, may_say=SKILLS_ALONE)) for _ in range(2)] == ["Act: done", "Act: failure"]
    streamed = [{name for name in one.body if name in ("stream", "stream_options")} for one in peer.asked]
    assert streamed == [{"stream", "stream_options"}, left, left]


def test_a_server_that_ignores_streaming_is_read_as_ever(peer: Peer, free: Model) -> None:
    peer.script.append(says("Act: go to kitchen 1\nYou see it."))
    reply = ask(free(peer), may_say=SKILLS_ALONE)
    assert (decided(reply), len(peer.asked), reply.output_tokens) == (ACT, 1, 8)


BROKEN: dict[str, Behaviour] = {
    "it dies": streams("Act: go to", then=hangs_up),
    "it is killed": streams("Act: go to", then=resets),
    "it ends too early": streams("Act: go to", then=lambda exchange: None),
    "it ends at once": streams("", then=lambda exchange: None),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_a_stream_that_breaks_off_is_asked_for_as_a_whole(peer: Peer, free: Model, breaks: Behaviour) -> None:
    peer.script.extend([breaks, says("Act: done")])
    assert decided(ask(free(peer), may_say=SKILLS_ALONE)) == "Act: done"
    assert ["stream" in one.body for one in peer.asked] == [True, False]


@pytest.mark.slow
def test_a_server_that_dies_in_its_stream_and_stays_away_is_gone(peer: Peer, free: Model) -> None:
    one = free(peer)
    one.ready().result(PATIENCE)
    peer.script.append(streams("Act: go to", then=lambda exchange: (peer.close_port(), hangs_up(exchange))[1]))
    assert type(refusal(one, may_say=SKILLS_ALONE)) is ServerUnavailable


def test_an_error_within_a_stream_is_the_servers(peer: Peer, free: Model) -> None:
    error = {"error": {"message": "no\ngood", "code": 400}}
    peer.script.append(streams("Act:", then=lambda exchange: exchange.send_part(error)))
    failure = refusal(free(peer), may_say=SKILLS_ALONE)
    assert type(failure) is RequestRejected
    assert "no good" in str(failure)


@pytest.mark.parametrize("value", [[1], {"choices": [3]}, {"choices": {}}, "null"])
def test_a_part_that_is_none_is_told(peer: Peer, free: Model, value: object) -> None:
    peer.script.append(streams("Act:", then=lambda exchange: exchange.send_part(value)))
    peer.script.append(answers({"choices": []}))
    failure = refusal(free(peer), may_say=SKILLS_ALONE)
    assert type(failure) is ServerUnavailable
    assert "not a completion" in str(failure)


def longer_than_is_read(exchange: Exchange, parts: bool = False) -> None:
    """Answer with more than is read, as a whole or in parts that say nothing."""
    size = 1 << 20
    begin = b'data: {"choices": [], "id": "%s"}\n\n' % (b"x" * 4096) if parts else b'{"choices": "'
    with contextlib.suppress(OSError):  # the client goes away
        exchange.begin_stream("text/event-stream" if parts else "application/json")
        for _ in range(LONGEST_ANSWER // size + 2):
            exchange.handler.wfile.write(begin * (size // len(begin) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("parts", [False, True])
def test_a_stream_that_is_not_read_to_its_end_is_told_in_one_line(
    peer: Peer, free: Model, parts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    one = free(peer, retries=0)
    one.ready().result(PATIENCE)
    peer.script.append(partial(longer_than_is_read, parts=parts))
    assert "its answer is longer than 16 MiB" in str(refusal(one, may_say=SKILLS_ALONE))
    assert not [record for record in caplog.records if record.exc_info], "no traceback"


# ---------------------------------------------------------------------- servers that cut a prompt without a word

SENTENCE = "You are in the kitchen, and you see a table and a chair. "


def prompt(sentences: int) -> str:
    return SENTENCE * sentences


def warned(
    counts: Sequence[tuple[str, int | None]], cached: Callable[[int], int | None] = lambda tokens: None
) -> list[str]:
    """Return what is said of prompts with what the server counts of them."""
    noticed, said = Noticed(), []
    for text, tokens in counts:
        generated = Generated("Think: well", "stop", prompt_tokens=tokens, cached_tokens=cached(tokens or 0))
        said.append(noticed.cut_of("a server", Generation((), text[1:]), generated))
    return [one for one in said if one]


TRUNCATED: dict[str, list[tuple[str, int | None]]] = {
    "stays the same": [(prompt(100), 1300), (prompt(160), 1984), (prompt(170), 1984)],
    "cut from the beginning": [(prompt(400), 1984), (prompt(410), 1984)],
    "falls to half": [(prompt(310), 4042), (prompt(340), 2051)],
    "falls a little": [(prompt(160), 1990), (prompt(164), 1960)],
    "between prompts of others": [(prompt(160), 1984), ("Another. " * 400, 1200), (prompt(164), 1984)],
}


@pytest.mark.parametrize("counts", TRUNCATED.values(), ids=TRUNCATED)
def test_a_prompt_that_grows_while_its_tokens_do_not_was_cut(counts: list[tuple[str, int | None]]) -> None:
    (said,) = warned(counts)
    earlier = next(one for one in reversed(counts[:-1]) if one[0].startswith(SENTENCE))
    for number in (len(earlier[0]), len(counts[-1][0]), earlier[1], counts[-1][1]):
        assert str(number) in said
    for way_out in ("num_ctx", "OLLAMA_CONTEXT_LENGTH", "--ctx-size"):
        assert way_out in said


UNCUT: dict[str, list[tuple[str, int | None]]] = {
    "grows": [(prompt(n), 13 * n) for n in range(1, 300, 7)],
    "another node's": [(prompt(300), 3900), ("Another. " * 300, 900), ("Yet another. " * 400, 900)],
    "really shorter": [(prompt(300), 3900), (prompt(100), 1300), (prompt(290), 3770)],
    "the same again": [(prompt(100), 1300), (prompt(100), 1300)],
    "a word more": [(prompt(100), 1300), (f"{prompt(100)}So.", 1300)],
    "zero": [(prompt(n), 0) for n in range(1, 300, 7)],
    "unknown": [(prompt(n), None) for n in range(1, 300, 7)],
    "only what is new": [(prompt(300), 3900), *((prompt(n), 65) for n in range(305, 400, 5))],
    "a constant": [(prompt(n), 7) for n in range(1, 300, 7)],
    "negative": [(prompt(n), -1) for n in range(1, 300, 7)],
}


@pytest.mark.parametrize("counts", UNCUT.values(), ids=WHOLE)
def test_counts_that_show_nothing_are_not_told(counts: list[tuple[str, int | None]]) -> None:
    assert warned(counts) == []


# ---------------------------------------------------------------------- over a server


@pytest.fixture
def candid() -> Iterator[Model]:
    with clients(dialect="none", retries=0) as make:
        yield make


def cutting(most: int, **more: Any) -> Peer:
    """A server like Ollama: it answers a longer prompt as if it were one of so many tokens."""
    peer = Peer(**{"owned_by": "library", "chats": True, "context": None, "say": lambda prompt: "Think: well", **more})

    def answer(exchange: Exchange) -> None:
        whole = peer.completion(exchange.request, peer.say(exchange.request.prompt), "stop")
        whole["usage"]["prompt_tokens"] = min(whole["usage"]["prompt_tokens"], most)
        answers(whole)(exchange)

    peer.text = answer  # type: ignore[method-assign]
    return peer


def test_a_reply_says_that_its_prompt_was_cut(candid: Model) -> None:
    with cutting(500) as peer:
        one = candid(peer)
        turns = [Told(SENTENCE) for _ in range(60)]
        assert ask(one, *turns[:20]).warning == ""
        assert ask(one, *turns[:50]).warning == ""
        assert "tokens went from 500 to 500" in ask(one, *turns).warning


def test_it_is_told_once_a_run_and_is_in_its_record(candid: Model) -> None:
    task = load_tasks(HOUSES["apartment"])[0]
    with cutting(700) as peer:
        one = candid(peer)
        for _ in range(2):
            events: list[dict[str, Any]] = []
            Episode(
                task.instruction,
                world=SymbolicWorld(task),
                model=one,
                planner=planner("react"),
                record=Recorder(events.append),
                options=TreeOptions(max_decisions=12),
            ).run()
            warnings = [event["warning"] for event in events if event.get("warning")]
            assert len(warnings) == 1
            assert "library at" in warnings[0]
