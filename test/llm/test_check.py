"""Trying a language model: what it is asked, what is told of it."""

from __future__ import annotations

from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.check import check
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, ServerUnavailable


class Answering(LanguageModel):
    """Answers with one reply, or fails, and keeps what it was asked."""

    def __init__(self, answer: Reply | Exception, **status: str) -> None:
        self.answer, self.told = answer, status
        self.asked: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.append(request)
        return Pending.failed(self.answer) if isinstance(self.answer, Exception) else Pending.of(self.answer)

    def status(self) -> dict[str, str]:
        return self.told


def test_the_same_decision_of_an_agent_node_is_asked_for_twice() -> None:
    model = Answering(Reply("Act: done"))
    check(model, WAH_NL)
    first, second = model.asked
    assert first.turns == second.turns
    system, task, start = first.turns
    assert isinstance(system, Told)
    assert (system.about, task) == (About.SYSTEM, Told("Your task is to: go to kitchen cabinet 7"))
    assert isinstance(start, Saw)


def test_the_expert_passes() -> None:
    report = check(ExpertModel(), WAH_NL)
    assert report.problems == []
    assert report.facts["it said"].startswith("'")
    assert {"a decision, cold", "a decision, warm"} <= report.facts.keys()


def test_what_could_be_better_is_named_with_the_way_out() -> None:
    reply = Reply("Act: fly", prompt_tokens=900, cached_tokens=0, output_tokens=3, objection="'fly' is not there.")
    report = check(Answering(reply, method="unconstrained"), WAH_NL)
    assert report.facts["a decision, warm"].endswith("900 prompt tokens (0 cached), 3 output tokens")
    assert report.problems == [
        "its reply is no decision: 'fly' is not there.",
        "it obeys no constraint: decisions are parsed, checked and asked for again; vLLM obeys",
        "nothing came from a prefix cache; start vLLM with --enable-prefix-caching",
    ]


def test_a_model_that_cannot_decide_is_asked_once() -> None:
    model = Answering(ServerUnavailable("nothing listens there"))
    assert check(model, WAH_NL).problems == ["no decision: nothing listens there"]
    assert len(model.asked) == 1
