"""What is wrong with a language model, and what to set: each rule looks at the findings of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from math import ceil

from reactree_ros.agent.grammar import LONGEST_THOUGHT
from reactree_ros.agent.turns import ToldStart
from reactree_ros.llm.check.findings import Findings
from reactree_ros.llm.check.first_prompt import ROOM

Rule = Callable[[Findings], Iterator[str]]

#: What a weaker method costs, and the way out.
_METHODS = {
    "one_schema": "it obeys JSON schemas only: the skills are checked here, and a decision with another skill is "
    "asked for again; vLLM, llama.cpp and SGLang take a grammar",
    "rounds": "it takes no grammar: each decision costs two or three requests; vLLM takes one",
    "unconstrained": "it obeys no constraint: decisions are parsed, checked and asked for again; vLLM obeys",
}


def problems(found: Findings) -> list[str]:
    """Return what is wrong, with the way out."""
    return [*chain.from_iterable(rule(found) for rule in _PROBLEMS)]


def advice(found: Findings) -> list[str]:
    """Return what to set, with the reasons."""
    return [f"set {one}" for one in chain.from_iterable(rule(found) for rule in _ADVICE)]


def _reply(found: Findings) -> Iterator[str]:
    warm = found.first.cached[0]
    if warm.warning:
        yield warm.warning
    if warm.objection:
        yield f"its reply is no decision: {warm.objection}"


def _weak_method(found: Findings) -> Iterator[str]:
    if (method := found.status.get("method", "")) in _METHODS and found.given.method is None:
        yield _METHODS[method]


def _thinking(found: Findings) -> Iterator[str]:
    status = found.status
    thinks, told = status.get("thinks", "no"), status.get("told to think")
    if thinks == "in its text" and status.get("method") != "unconstrained":
        yield (
            "it thinks in its text, but not if its text is constrained from the first token: start the server with "
            "its reasoning parser (vLLM, SGLang: --reasoning-parser; llama.cpp: --reasoning-format auto)"
        )
    if told == "no" and thinks != "no":
        yield (
            "it thinks although thinking is off: its server or chat template has another switch; set it with "
            "reasoning_effort, chat_template_kwargs or extra_body"
        )
    if told == "yes" and thinks == "no":
        yield "it does not think although thinking is on: its chat template may have no such switch"


def _cache(found: Findings) -> Iterator[str]:
    warm = found.first.cached[0]
    if warm.cached_tokens is None and warm.prompt_tokens is not None:
        yield "it does not report what its prefix cache serves; start vLLM with --enable-prompt-tokens-details"
    elif warm.cached_tokens == 0:
        yield "nothing came from a prefix cache; start vLLM with --enable-prefix-caching"


def _nothing_allowed(found: Findings) -> Iterator[str]:
    if found.nearer and not found.best.allowed:
        yield "none of its replies to a small question was allowed; use another model, or a server that takes a grammar"


def _refusals(found: Findings) -> Iterator[str]:
    if found.refusals.asked and not found.refusals.right and not found.is_held:
        yield "after a refusal it says nothing else that is allowed, so nodes may end as refused"


def _sight(found: Findings) -> Iterator[str]:
    if found.blind:
        yield f"sees is true, but {found.blind}"
    elif found.sight.asked and found.sight.right < found.sight.asked - 1:
        yield (
            f"it named the colour of a drawn square {found.sight.right} of {found.sight.asked} times, so it does not "
            "see, or its server drops pictures in silence: set sees=false, or use a model that sees"
        )


_PROBLEMS: tuple[Rule, ...] = (_reply, _weak_method, _thinking, _cache, _nothing_allowed, _refusals, _sight)


def _context(found: Findings) -> Iterator[str]:
    start = found.first.start
    examples = len(start.examples) if isinstance(start, ToldStart) else 0
    if found.first.excess:
        needed = found.context + found.first.excess + ROOM
        fewer = "memory=none" if not examples else f"max_examples={examples}"
        yield (
            f"the context to {needed} (llama.cpp: -c {needed}, vLLM: --max-model-len {needed}), or {fewer}: the "
            f"planner's first prompt is {found.first.excess} tokens too long for {found.context}"
        )
    elif found.spare is not None and found.spare < ROOM:
        needed = found.context + ROOM - found.spare
        yield (
            f"the context to {needed}, or max_examples={max(1, examples // 2)}: beside the first prompt there is room "
            f"for {found.spare} tokens of what is done and seen"
        )


def more_time(took: float, limit: float, why: str) -> str:
    """Return what to set where a request took so many seconds and had a limit."""
    needed = max(1, ceil(2 * max(took, limit) / 60)) * 60
    less = "or a smaller max_examples, which is less to read"
    return f"request_timeout={needed} and decision_timeout={needed}: {why}; {less}"


def _time(found: Findings) -> Iterator[str]:
    limit, cold = found.given.request_timeout, found.first.cold[1]
    if limit and (cold > limit or found.first.late):
        yield more_time(cold, limit, f"the first prompt took {cold:.0f} s, longer than {limit:g} s")


def _model(found: Findings) -> Iterator[str]:
    if found.nearer and found.is_luck:
        yield (
            f"a larger model, or one that follows instructions: this one named the right skill of three "
            f"{found.best.right} of {found.best.asked} times, as guessing might, so expect few goals"
        )


def _way(found: Findings) -> Iterator[str]:
    if not found.nearer or found.remembered:
        return
    if found.examples == "text":
        yield f"examples=text: {_better(found)}"
    if found.method is not None:
        yield f"method={found.method.value}: {_freer(found)}"


def _better(found: Findings) -> str:
    counts = {way.examples: score for way, score in found.nearer.items() if not way.held}
    return f"{counts['text'].allowed} replies were allowed, with examples as turns {counts['turns'].allowed}"


def _freer(found: Findings) -> str:
    held = found.held
    assert held is not None  # without, there is no choice of method
    free, bound = found.nearer[found.free].right, found.nearer[held].right
    return f"free replies were right {free} times, those held to a grammar {bound} times"


def _thoughts(found: Findings) -> Iterator[str]:
    if found.thoughts.right < found.thoughts.asked and not found.is_held:
        yield (
            f"max_tokens=128: a thought does not end within {LONGEST_THOUGHT} characters, and no grammar ends it here"
        )


_ADVICE: tuple[Rule, ...] = (_context, _time, _way, _thoughts, _model)
