"""The inference node: requests, their bounds and aborts, the lifecycle, the diagnostics."""

from __future__ import annotations

from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.lifecycle import TransitionCallbackReturn
from reactree_interfaces.msg import Argument, Example, Offer, SpokenDecision, Turn
from reactree_interfaces.srv import AbortGeneration, Generate
from ros_graph import Graph

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import BeginSubgoal, Think
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import Attempt, Choice, DecisionRequest, FreeText, LanguageModel, LanguageModelError, Reply
from reactree_ros.nodes.messages import reply_from_msg
from reactree_ros.tree.flows import FallbackFlow

OK, FAILED = Generate.Response.NONE, Generate.Response


class HeldModel(LanguageModel):
    """Keeps requests in flight, by id, until the test answers them."""

    def __init__(self) -> None:
        self.requests: dict[str, DecisionRequest] = {}
        self.in_flight: dict[str, Pending[Reply]] = {}
        self.cancelled: list[str] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests[request.id] = request
        pending = Pending[Reply](on_cancel=lambda: self.cancelled.append(request.id))
        self.in_flight[request.id] = pending
        return pending

    def answer(self, request_id: str, reply: Reply | None = None) -> None:
        self.in_flight.pop(request_id).succeed(reply or Reply(f"Think: {request_id}"))


class PromptModel(LanguageModel):
    """Says its prompt, or fails, or raises, as the prompt says."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        (turn,) = request.turns
        if turn.text == "raise":
            raise RuntimeError("the tokenizer is not loaded")
        if turn.text == "fail":
            return Pending.failed(LanguageModelError("the server is gone"))
        return Pending.ready(Reply(turn.text))


def ask(graph: Graph, request_id: str = "1", **request: Any) -> Any:
    """Send a request; returns the future."""
    given = {"id": request_id, "turns": task("p"), "max_tokens": 8} | request
    return graph.send(Generate, "inference/generate", **given)


def task(text: str) -> list[Turn]:
    return [Turn(kind=Turn.TASK, text=text)]


def answer(graph: Graph, future: Any) -> Any:
    return graph.wait(future, "the generation is answered")


def abort(graph: Graph, request_id: str) -> bool:
    return bool(graph.call(AbortGeneration, "inference/abort", id=request_id).aborted)


# ---------------------------------------------------------------------- requests


def test_a_request_reaches_the_model_and_the_reply_comes_back_whole(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model)
    asked = {"options": ["open fridge 1"], "control_flows": ["fallback"], "seed": 7, "top_p": 0.5}
    turns = [
        Turn(kind=Turn.SYSTEM, text="You are a robot."),
        Turn(kind=Turn.TASK, text="Your task is to: a"),
        Turn(kind=Turn.SAID, text="Think: so\nbe it"),
        Turn(kind=Turn.ANSWER, text="OK."),
        Turn(kind=Turn.SAID, text="Act: dance"),
        Turn(kind=Turn.REFUSAL, text="No."),
        Turn(kind=Turn.SAW, text="Zähl: eins"),
        Turn(kind=Turn.SUMMARY, text="Much."),
        Turn(kind=Turn.FAILED, text="It failed."),
        Turn(kind=Turn.SEARCHED, text="Searched: all."),
        Turn(kind=Turn.LIMIT, text="Enough."),
    ]
    future = ask(graph, turns=turns, begun="Act: ", **asked)
    graph.until(lambda: model.in_flight)
    request = model.requests["1"]
    assert request.turns == (
        Told("You are a robot.", About.SYSTEM),
        Told("Your task is to: a", About.TASK),
        Said("Think: so\nbe it"),
        Told("OK.", About.ANSWER),
        Said("Act: dance"),
        Told("No.", About.REFUSAL),
        Saw("Zähl: eins"),
        Told("Much.", About.SUMMARY),
        Told("It failed.", About.FAILED),
        Told("Searched: all.", About.SEARCHED),
        Told("Enough.", About.LIMIT),
    )
    assert (request.begun, request.max_tokens, request.seed) == ("Act: ", 8, 7)
    assert (request.temperature, request.top_p) == (0.0, 0.5)
    assert isinstance(request.may_say, DecisionGrammar)
    assert request.may_say.skills == ("open fridge 1",)
    assert [flow.name for flow in request.may_say.control_flows] == ["fallback"]
    counts = {"longest_prompt": 8, "reasoning": "So\nbe it.", "reasoning_tokens": 3}
    model.answer("1", Reply("Act: open fridge 1", "length", 12, 5, 4, **counts))
    response = answer(graph, future)
    assert (response.error_code, response.text, response.finish_reason) == (OK, "Act: open fridge 1", "length")
    assert (response.prompt_tokens, response.cached_tokens, response.output_tokens) == (12, 5, 4)
    assert (response.longest_prompt, response.reasoning, response.reasoning_tokens) == (8, "So\nbe it.", 3)
    assert response.seconds > 0


def test_what_a_reply_is_taken_for_comes_as_data(graph: Graph) -> None:
    said = (
        Said("Think: so", Think("so")),
        Said("2 Subgoal: a, b", BeginSubgoal("Subgoal 2: a, b", "a, b")),
        Said("Act: open fridge 1", Act("open fridge 1")),
        Said("Expand: …", Expand(FallbackFlow(), ("a, b", "c"))),
    )
    model = HeldModel()
    graph.inference(model)
    future = ask(graph)
    graph.until(lambda: model.in_flight)
    model.answer("1", Reply("much", said=said))
    assert reply_from_msg(answer(graph, future)).said == said


@pytest.mark.parametrize(
    ("kind", "arguments", "says"),
    [
        ("dance", {}, "kind is 'dance'; it must be one of think, act, expand, ask"),
        ("act", {"think": ["x"]}, "arguments of act lack 'act'"),
        ("expand", {"expand": ["loop"], "subgoals": ["a"]}, "control flow 'loop' is unknown"),
    ],
)
def test_a_decision_of_a_message_that_is_none_is_refused(kind: str, arguments: dict[str, list[str]], says: str) -> None:
    told = [Argument(name=name, values=values) for name, values in arguments.items()]
    with pytest.raises(ValueError, match=says):
        reply_from_msg(Generate.Response(said=[SpokenDecision(kind=kind, arguments=told)]))


def test_choice_and_text_reach_the_model_as_such(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model)
    ask(graph, "choice", kind=Generate.Request.CHOICE, options=["a", "b"])
    ask(graph, "text", kind=Generate.Request.TEXT, stops=["\n"], patience=7.5)
    ask(graph, "code", kind=Generate.Request.TEXT, thinks=True)
    subgoal = {"options": ["a", "b"], "number": 3, "begins": True, "goes_on": False}
    ask(graph, "subgoal", kind=Generate.Request.SUBGOAL, **subgoal)
    graph.until(lambda: len(model.requests) == 4)
    assert model.requests["choice"].may_say == Choice(("a", "b"))
    assert model.requests["text"].may_say == FreeText(("\n",))
    assert (model.requests["text"].patience, model.requests["code"].patience) == pytest.approx((7.5, 120.0), abs=1.0)
    assert model.requests["code"].may_say == FreeText((), thinks=True)
    assert model.requests["subgoal"].may_say == SubgoalGrammar(("a", "b"), 3, begins=True, goes_on=False)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"kind": 9}, "kind is 9; it must be one of the constants of Generate.srv"),
        ({"max_tokens": 0}, "max_tokens is 0; it must be above 0"),
        ({"patience": -1.0}, "patience is -1; it must be above 0"),
        ({"kind": 3}, "begins and goes_on are both false; one of them must be true"),
        (
            {"control_flows": ["sequence", "loop"]},
            "control_flows: control flow 'loop' is unknown; use one of sequence, fallback, parallel, repeat_until, "
            "while, within",
        ),
        ({"top_p": 0.0}, "top_p is 0; it must be above 0 and at most 1"),
        ({"kind": 1}, "options is empty; a choice needs at least one"),
        ({"offers": [Offer(skill="drive")]}, "offers: no skill 'drive' is declared"),
        (
            {"turns": [Turn(text="a"), Turn(kind=99, text="b")]},
            "turns[1]: kind is 99; it must be one of the constants of Turn.msg",
        ),
        (
            {"turns": [Turn(kind=11, examples=[Example(kinds=[99], texts=["b"])])]},
            "turns[0]: kind is 99; it must be one of the constants of Turn.msg",
        ),
        (
            {"turns": [Turn(kind=11, examples=[Example(kinds=[6, 7], texts=["b"])])]},
            "turns[0]: an example has 2 kinds for 1 texts",
        ),
    ],
)
def test_a_malformed_request_is_refused_with_its_field(graph: Graph, request_: dict[str, Any], message: str) -> None:
    graph.inference(PromptModel())
    response = answer(graph, ask(graph, **request_))
    assert (response.error_code, response.message) == (FAILED.INVALID_REQUEST, message)
    assert answer(graph, ask(graph)).error_code == OK


def test_an_id_that_is_in_use_is_refused_and_free_again_afterwards(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model)
    first = ask(graph)
    graph.until(lambda: model.in_flight)
    response = answer(graph, ask(graph))
    assert (response.error_code, response.message) == (
        FAILED.INVALID_REQUEST,
        "id '1' is in use; give each its own",
    )
    model.answer("1")
    assert answer(graph, first).error_code == OK
    again = ask(graph)
    graph.until(lambda: model.in_flight)
    model.answer("1")
    assert answer(graph, again).error_code == OK


@pytest.mark.parametrize(
    ("prompt", "message"), [("fail", "the server is gone"), ("raise", "the tokenizer is not loaded")]
)
def test_a_model_that_fails_is_named_and_the_node_lives_on(graph: Graph, prompt: str, message: str) -> None:
    graph.inference(PromptModel(), max_concurrent=1)
    response = answer(graph, ask(graph, turns=task(prompt)))
    assert (response.error_code, response.message) == (FAILED.MODEL_ERROR, message)
    assert answer(graph, ask(graph)).text == "p"


@pytest.mark.parametrize(
    "prompt", ["", "\n", "no prompt of an agent node", "Your task is to: ", "Your task is to: é\0"]
)
def test_the_expert_answers_whatever_the_prompt(graph: Graph, prompt: str) -> None:
    graph.inference()
    response = answer(graph, ask(graph, turns=task(prompt)))
    assert response.error_code in (OK, FAILED.MODEL_ERROR)
    assert response.text or response.message


def test_requests_beyond_the_limit_wait_their_turn(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model, max_concurrent=2)
    futures = {}
    for name in "abcd":
        futures[name] = ask(graph, name)
        graph.call(AbortGeneration, "inference/abort", id="none")  # so that it has come before the next one
    assert list(model.requests) == ["a", "b"]
    model.answer("a")
    assert answer(graph, futures["a"]).error_code == OK
    graph.until(lambda: "c" in model.requests)
    assert "d" not in model.requests
    for name in "bc":
        model.answer(name)
    graph.until(lambda: "d" in model.requests)
    model.answer("d")
    assert answer(graph, futures["d"]).error_code == OK


# ---------------------------------------------------------------------- abort, bounds


def test_a_request_whose_abort_has_overtaken_it_is_never_generated(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model)
    assert not abort(graph, "late")
    assert answer(graph, ask(graph, "late")).error_code == Generate.Response.ABORTED
    assert not model.requests


def test_abort_stops_a_generation_once(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model)
    future = ask(graph)
    graph.until(lambda: model.in_flight)
    assert abort(graph, "1")
    assert not abort(graph, "1"), "it has ended"
    response = answer(graph, future)
    assert (response.error_code, response.message) == (FAILED.ABORTED, "aborted")
    assert model.cancelled == ["1"]


def test_abort_of_a_request_that_waits_takes_it_out(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model, max_concurrent=1)
    first, second, third = ask(graph, "a"), ask(graph, "b"), ask(graph, "c")
    graph.until(lambda: model.in_flight)
    assert abort(graph, "b")
    response = answer(graph, second)
    assert (response.error_code, response.message) == (FAILED.ABORTED, "aborted")
    model.answer("a")
    graph.until(lambda: "c" in model.requests)
    model.answer("c")
    assert (answer(graph, first).error_code, answer(graph, third).error_code) == (OK, OK)
    assert list(model.requests) == ["a", "c"]


class SlowModel(HeldModel):
    """Is known to be slow."""

    def slowness(self, request: DecisionRequest) -> float:
        return 5.0


@pytest.mark.parametrize(("model", "limit"), [(HeldModel, "0.2"), (SlowModel, "1")])
def test_a_generation_that_takes_too_long_is_stopped_later_if_the_model_is_slow(
    graph: Graph, model: type[HeldModel], limit: str
) -> None:
    held = model()
    graph.inference(held, request_timeout=0.2)
    response = answer(graph, ask(graph))
    assert (response.error_code, response.message) == (FAILED.TIMEOUT, f"no answer within {limit} s")
    assert held.cancelled == ["1"]


# ---------------------------------------------------------------------- lifecycle, diagnostics


def test_an_inactive_node_says_so(graph: Graph) -> None:
    node = graph.inference(PromptModel(), active=False)
    node.trigger_configure()
    response = answer(graph, ask(graph))
    assert (response.error_code, response.message) == (FAILED.NOT_ACTIVE, "the inference node is not active")
    node.trigger_activate()
    assert answer(graph, ask(graph)).error_code == OK


def test_deactivating_stops_what_runs_and_what_waits(graph: Graph) -> None:
    model = HeldModel()
    node = graph.inference(model, max_concurrent=1)
    futures = [ask(graph, "a"), ask(graph, "b")]
    graph.until(lambda: model.in_flight)
    abort(graph, "none")  # so that b has come
    node.trigger_deactivate()
    assert [answer(graph, future).error_code for future in futures] == [FAILED.ABORTED, FAILED.ABORTED]
    assert model.cancelled == ["a"]
    assert node.stopped()


@pytest.mark.parametrize("way", ["cleanup", "shutdown"])
def test_taken_down_in_the_midst_of_a_generation_the_node_stays_whole(graph: Graph, way: str) -> None:
    model = HeldModel()
    node = graph.inference(model, max_concurrent=1)
    futures = [ask(graph, "a"), ask(graph, "b")]
    graph.until(lambda: model.in_flight)
    abort(graph, "none")  # so that b has come
    if way == "cleanup":
        node.trigger_deactivate()
        assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    else:
        assert node.trigger_shutdown() == TransitionCallbackReturn.SUCCESS
    assert [answer(graph, future).error_code for future in futures] == [FAILED.ABORTED, FAILED.ABORTED]
    assert answer(graph, ask(graph)).error_code == FAILED.NOT_ACTIVE


def test_diagnostics_tell_what_runs_what_waits_and_what_it_took(graph: Graph) -> None:
    model = HeldModel()
    graph.inference(model, max_concurrent=1)
    heard = graph.listen(DiagnosticArray, "/diagnostics")
    future = ask(graph, "a")
    ask(graph, "b")
    graph.until(lambda: heard and values(heard[-1]).get("requests waiting") == "1")
    assert (values(heard[-1])["requests running"], values(heard[-1])["requests ended"]) == ("1", "0")
    model.answer("a", Reply("Think: a", output_tokens=3, attempts=(Attempt("fly", "No."), Attempt())))
    answer(graph, future)
    graph.until(lambda: values(heard[-1])["requests ended"] == "1")
    assert (values(heard[-1])["output tokens"], values(heard[-1])["texts refused"]) == ("3", "1")
    assert float(values(heard[-1])["last latency in seconds"]) > 0
    status = heard[-1].status[0]
    assert (status.level, status.name) == (DiagnosticStatus.OK, "/inference: requests")


def values(array: DiagnosticArray) -> dict[str, str]:
    return {pair.key: pair.value for pair in array.status[0].values}


# ---------------------------------------------------------------------- parameters
