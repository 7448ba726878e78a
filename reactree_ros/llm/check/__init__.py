"""Tries a language model before it plans: what it is, how long a prompt takes, how it is asked best, what to set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reactree_ros.agent.turns import ToldStart
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.check.advice import advice, more_time, problems
from reactree_ros.llm.check.asking import PATIENCE, Asking, Way
from reactree_ros.llm.check.findings import HOLDING, Findings, Given, small
from reactree_ros.llm.check.first_prompt import ask_first
from reactree_ros.llm.check.looking import COLOURS, look
from reactree_ros.llm.check.questions import Lesson, Moment, a_thought, after_a_refusal, which_is_nearer
from reactree_ros.llm.port import LanguageModel, LanguageModelError, NoAnswerInTime

#: With a cached prompt that takes longer, in seconds, fewer questions are asked.
_SLOW = 15.0

__all__ = ["Given", "Lesson", "Moment", "Report", "check"]


@dataclass
class Report:
    """The result of a check.

    Attributes:
        facts: What was found, in words.
        problems: What is wrong, with the way out.
        advice: What to set, and why: ``set …: …``.
        is_whole: Whether all was asked.
    """

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    is_whole: bool = False


def check(
    model: LanguageModel,
    lesson: Lesson,
    given: Given | None = None,
    *,
    show: Callable[[str], object] = lambda words: None,
    tell: Callable[[str], object] = lambda words: None,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Try a ready language model with real prompts; it remembers how it is asked best, if it remembers anything.

    Args:
        model: The language model.
        lesson: What it is asked about.
        given: The settings that the user has given.
        show: Shows what is waited for.
        tell: Tells each thing when it is found.
        clock: Seconds, never going back.
    """
    given = given or Given()
    model.learn(examples=None, method=None).result()  # an earlier check decides nothing in this one
    patience = max(PATIENCE, given.request_timeout or 0)
    asking, report = Asking(model, show, tell, clock, patience=patience), Report(dict(model.status()))
    asking.planned = _requests(lesson, report.facts, given)
    tell(f"about {asking.planned} requests: two with a planner's first prompt, the others small")
    try:
        asking.greet()
        first = ask_first(asking, lesson)
        # Only now may a server show what it does not take, or that its model thinks.
        found = Findings(first, dict(model.status()), given, lesson.max_tokens)
        if lesson.moments and isinstance(first.start, ToldStart):
            moments = lesson.moments
            if first.cached[1] > _SLOW:
                tell(f"a prompt that is cached takes longer than {_SLOW:g} s, so half of the questions are left out")
                moments = moments[: len(moments) // 2]
                asking.planned = _requests(replace(lesson, moments=moments), report.facts, given)
            found = _asked(asking, small(first.start), moments, found)
            found = replace(found, remembered=model.learn(examples=found.examples, method=found.method).result())
        if given.sees:
            sight, blind = look(asking)
            found = replace(found, sight=sight, blind=blind)
    except LanguageModelError as error:
        report.facts["answered"] = f"{asking.answered} of about {asking.planned} requests; the check broke off there"
        report.problems.append(f"no decision: {error}")
        if isinstance(error, NoAnswerInTime):
            why = f"there was no answer in {asking.waited:.0f} s"
            report.advice.append(f"set {more_time(asking.waited, given.request_timeout or 0, why)}")
        return report
    report.facts = {**model.status(), **found.in_words(), **_kept(found)}
    report.problems += problems(found)
    report.advice += advice(found)
    report.is_whole = True
    return report


def _asked(asking: Asking, start: ToldStart, moments: Sequence[Moment], found: Findings) -> Findings:
    """Return the findings with what comes of small questions."""
    nearer, nearest = list(which_is_nearer(moments)), "the right skill of three"
    free = {way: asking.score(start, nearer, way, nearest) for way in _ways(found.status, found.given)}
    found = replace(found, nearer=free)
    if _holds(found.status):
        held = replace(found.free, held=True)
        found = replace(found, nearer={**free, held: asking.score(start, nearer, held, nearest)})
    thoughts = asking.score(start, a_thought(moments), found.free, "a thought")
    refusals = asking.score(start, after_a_refusal(moments), found.free, "after a refusal")
    return replace(found, thoughts=thoughts, refusals=refusals)


def _ways(status: Mapping[str, str], given: Given) -> Sequence[Way]:
    """Return the free ways to ask: a chat may have its examples in two."""
    if not status.get("prompts", "").startswith("chat"):
        return (Way("text"),)
    both: tuple[Examples, ...] = ("turns", "text")
    return [Way(one) for one in both if given.examples in (None, one)]


def _holds(status: Mapping[str, str]) -> bool:
    return status.get("method") in HOLDING


def _requests(lesson: Lesson, status: Mapping[str, str], given: Given) -> int:
    """Return about how many requests a check makes."""
    moments = lesson.moments
    each = len(_ways(status, given)) + _holds(status)
    return (
        (3 + len(COLOURS) if given.sees else 3)
        + each * len(moments)
        + len(list(a_thought(moments)))
        + len(list(after_a_refusal(moments)))
    )


def _kept(found: Findings) -> dict[str, str]:
    """Say what is remembered of it."""
    if not found.remembered:
        return {}
    ways = [f"examples={found.examples}"] if found.examples else []
    ways += [f"method={found.method.value}"] if found.method else []
    return {"remembered": f"{', '.join(ways)}; `reactree llm forget` forgets it"} if ways else {}
