"""Tries a language model: what it is, what it can do, what a decision takes cold and warm, what is wrong."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.prompt import start_turn, system_text, task_turn
from reactree_ros.agent.turns import Saw
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.world.virtualhome.household import WAH_NL

#: Longest wait for one decision, in seconds.
PATIENCE = 300.0

_SKILLS = ("done", "failure", *(f"go to kitchen cabinet {number}" for number in range(1, 60)))


@dataclass
class Report:
    """What was found out: facts in words, and what is wrong or could be better, each with the way out."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check(model: LanguageModel) -> Report:
    """Ask a language model that is ready for the same decision twice, and read its status."""
    report = Report(dict(model.status()))
    start = Saw(
        "You are in the house, and there are 2 rooms: bedroom (1), kitchen (1). You are in the middle of a kitchen "
        "(1). Looking quickly around the room, you see kitchen cabinet (1, 2, 3, 4, 5, 6, 7), table (1)."
    )
    # The mark makes the first one cold for whoever keeps prompts.
    examples = [f"Trial {uuid.uuid4()}.", *(f"In example {number} nothing happened." for number in range(60))]
    turns = (start_turn(system_text(WAH_NL), examples), task_turn("go to kitchen cabinet 7"), start)
    for how in ("cold", "warm"):
        begin = time.monotonic()
        pending = model.decide(DecisionRequest(turns, DecisionGrammar(_SKILLS), max_tokens=256, id=f"check {how}"))
        try:
            reply = pending.result(timeout=PATIENCE)
        except Exception as error:
            pending.cancel()
            report.problems.append(f"no decision: {str(error) or f'none within {PATIENCE:g} s'}")
            return report
        report.facts[f"a decision, {how}"] = _in_words(reply, time.monotonic() - begin)
    report.facts["it said"] = repr(reply.text[:100])
    report.problems += _problems(report.facts, reply)
    return report


def _in_words(reply: Reply, seconds: float) -> str:
    if reply.prompt_tokens is None:
        return f"{seconds:.2f} s"
    cached = "unknown" if reply.cached_tokens is None else str(reply.cached_tokens)
    return (
        f"{seconds:.2f} s, {reply.prompt_tokens} prompt tokens ({cached} cached), {reply.output_tokens} output tokens"
    )


def _problems(facts: dict[str, str], warm: Reply) -> list[str]:
    problems = []
    if warm.objection:
        problems.append(f"what it said is no decision: {warm.objection}")
    if facts.get("method") == "rounds":
        problems.append("it takes no grammar: each decision costs two or three requests; vLLM takes one")
    if facts.get("method") == "unconstrained":
        problems.append("it obeys no constraint: decisions are parsed, checked and asked for again; vLLM obeys")
    if warm.cached_tokens is None and warm.prompt_tokens is not None:
        problems.append("it does not say what its prefix cache serves; start vLLM with --enable-prompt-tokens-details")
    elif warm.cached_tokens == 0:
        problems.append("nothing came from a prefix cache; start vLLM with --enable-prefix-caching")
    return problems
