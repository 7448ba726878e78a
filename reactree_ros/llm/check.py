"""Tries a language model: what it is and can do, how long a decision takes cold and warm, what is wrong."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from reactree_ros.agent.example import Example
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt import start_turn, system_text, task_turn
from reactree_ros.agent.turns import Saw
from reactree_ros.background.pending import give_up_after
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.waiting import shown_while

#: Longest wait for one decision, in seconds.
PATIENCE = 300.0

_SKILLS = ("done", "failure", *(f"go to kitchen cabinet {number}" for number in range(1, 60)))


@dataclass
class Report:
    """The result of a check: facts, and problems with their solutions."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check(model: LanguageModel, household: Household, show: Callable[[str], object] = lambda words: None) -> Report:
    """Ask a ready language model for the same decision twice, and read its status."""
    report = Report(dict(model.status()))
    start = Saw(
        "You are in the house, and there are 2 rooms: bedroom (1), kitchen (1). You are in the middle of a kitchen "
        "(1). Looking quickly around the room, you see kitchen cabinet (1, 2, 3, 4, 5, 6, 7), table (1)."
    )
    # The mark makes the first request cold for every prompt cache.
    examples = [f"Trial {uuid.uuid4()}.", *(f"In example {number} nothing happened." for number in range(60))]
    turns = (
        start_turn(system_text(household), list(map(Example.of_text, examples))),
        task_turn("go to kitchen cabinet 7"),
        start,
    )
    for how in ("cold", "warm"):
        begin = time.monotonic()
        asked = DecisionRequest(turns, DecisionGrammar(_SKILLS), max_tokens=256, id=f"check {how}", patience=PATIENCE)
        pending = model.decide(asked)
        give_up_after(pending, PATIENCE, TimeoutError)
        shown_while(pending, model, show)
        try:
            reply = pending.result()
        except Exception as error:
            pending.cancel()
            report.problems.append(f"no decision: {str(error) or f'none within {PATIENCE:g} s'}")
            return report
        report.facts[f"a decision, {how}"] = _in_words(reply, time.monotonic() - begin)
    report.facts.update(model.status())  # a server may show only now what it does not take, or that its model thinks
    report.facts["it said"] = repr(reply.text[:100])
    if reply.reasoning:
        report.facts["it thought"] = repr(reply.reasoning[:100])
    report.problems += _problems(report.facts, reply)
    return report


def _in_words(reply: Reply, seconds: float) -> str:
    if reply.prompt_tokens is None:
        return f"{seconds:.2f} s"
    cached = "unknown" if reply.cached_tokens is None else str(reply.cached_tokens)
    thought = f" ({reply.reasoning_tokens} of them for thinking)" if reply.reasoning_tokens else ""
    return (
        f"{seconds:.2f} s, {reply.prompt_tokens} prompt tokens ({cached} cached), "
        f"{reply.output_tokens} output tokens{thought}"
    )


#: What a weaker method costs, and the way out.
_METHODS = {
    "one_schema": "it obeys JSON schemas only: the skills are checked here, and a decision with another skill is "
    "asked for again; vLLM, llama.cpp and SGLang take a grammar",
    "rounds": "it takes no grammar: each decision costs two or three requests; vLLM takes one",
    "unconstrained": "it obeys no constraint: decisions are parsed, checked and asked for again; vLLM obeys",
}


def _problems(facts: dict[str, str], warm: Reply) -> list[str]:
    problems = []
    if warm.warning:
        problems.append(warm.warning)
    if warm.objection:
        problems.append(f"its reply is no decision: {warm.objection}")
    method, thinks = facts.get("method", ""), facts.get("thinks", "no")
    if method in _METHODS:
        problems.append(_METHODS[method])
    if thinks == "in its text" and method != "unconstrained":
        problems.append(
            "it thinks in its text, but not if its text is constrained from the first token: start the server with "
            "its reasoning parser (vLLM, SGLang: --reasoning-parser; llama.cpp: --reasoning-format auto)"
        )
    if facts.get("told to think") == "no" and thinks != "no":
        problems.append(
            "it thinks although thinking is off: its server or chat template has another switch; set it with "
            "reasoning_effort, chat_template_kwargs or extra_body"
        )
    if facts.get("told to think") == "yes" and thinks == "no":
        problems.append("it does not think although thinking is on: its chat template may have no such switch")
    if warm.cached_tokens is None and warm.prompt_tokens is not None:
        problems.append(
            "it does not report what its prefix cache serves; start vLLM with --enable-prompt-tokens-details"
        )
    elif warm.cached_tokens == 0:
        problems.append("nothing came from a prefix cache; start vLLM with --enable-prefix-caching")
    return problems
