"""How a run ended, as one value: the source for everything that shows, prints, sends or counts it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from reactree_ros.agent.budget import Limit

GAVE_UP = "gave up"
#: An explanation of GSR and SSR for their first use.
SCORES = "GSR: 1 if the whole goal holds, else 0. SSR: the share of the goal that holds."
#: Undone subgoals that a verdict names in words.
MOST_NAMED = 5
#: What is said of a score whose goal no task has.
BY_WORDS = "judged by the goal read from the instruction"


class EpisodeEnd(enum.Enum):
    """The end of an episode, with the event in words; an end without own words is shown by its value."""

    words: str

    def __new__(cls, value: str, words: str = "") -> EpisodeEnd:
        end = object.__new__(cls)
        end._value_, end.words = value, words or value.replace("_", " ")
        return end

    DONE = "done", "the planner says that it is done"
    FAILURE = "failure", f"the planner {GAVE_UP}"
    OUT_OF_DECISIONS = "out_of_decisions"
    OUT_OF_STEPS = "out_of_steps"
    OUT_OF_TOKENS = "out_of_tokens"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_MONEY = "out_of_money"
    STUCK = "stuck"
    REFUSED = "refused", "what the language model said was refused"
    CONTEXT_FULL = "context_full", "the prompt no longer fits into the language model's context"
    INTERRUPTED = "interrupted", "somebody stopped it"
    MODEL_GONE = "model_gone", "the language model does not answer"
    TOO_SLOW = "too_slow", "the language model is too slow for its time limits"
    WORLD_GONE = "world_gone", "the world does not answer"
    MEMORY_GONE = "memory_gone", "the memory does not answer"
    HELD = "held", "it was held for too long"
    BUG = "bug", "a bug"


#: Ends for want of a language model's answer.
UNANSWERED = frozenset({EpisodeEnd.MODEL_GONE, EpisodeEnd.TOO_SLOW})
#: Ends that say nothing about the planner: such an episode has no result and is repeated.
BROKEN = UNANSWERED | {EpisodeEnd.WORLD_GONE, EpisodeEnd.MEMORY_GONE, EpisodeEnd.HELD, EpisodeEnd.BUG}
#: Ends by a limit of the run; with a higher limit, the run can be resumed.
LIMITED = frozenset(EpisodeEnd(limit.end) for limit in Limit)


class Judgement(enum.Enum):
    """The judgement of a run, in words for people, with one character to put before it and a status.

    The status is that of a behaviour with the same look; no behaviour has ``claimed`` or ``partly``.
    """

    REACHED = "Goal reached", "✓", "success"
    CLAIMED = "Claimed, not checked", "≟", "claimed"
    PARTLY = "Done in part", "◐", "partly"
    NOT_REACHED = "Goal not reached", "✗", "failure"
    INTERRUPTED = "Interrupted", "◌", "interrupted"
    BROKEN = "Broken off", "✗", "failure"
    OPEN = "No end yet", "●", "running"

    def __init__(self, words: str, mark: str, status: str) -> None:
        self.words, self.mark, self.status = words, mark, status

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Verdict:
    judgement: Judgement
    because: str = ""  # why, in words; empty if there is nothing to add
    end: str = ""  # the value of :class:`EpisodeEnd`; empty if there is none yet
    score: str = ""  # GSR and SSR, and by which goal; empty if the run had no goal to be judged by
    branches: int = 0  # this and what follows as in :class:`EpisodeResult`
    branches_done: int = 0
    untouched: tuple[str, ...] = ()
    cost: str = ""  # what it cost, with and without the prefix cache; empty if that is unknown
    reasons: tuple[str, ...] = ()  # the parts of ``because``, with every undone subgoal

    @property
    def achieved(self) -> bool:
        """Whether the goal was reached, as a goal that the run was judged by says."""
        return self.judgement is Judgement.REACHED

    @property
    def claimed(self) -> bool:
        """Whether the planner says that all is done, nothing contradicts it, and there was no goal to judge it by."""
        return self.judgement is Judgement.CLAIMED

    @property
    def whole(self) -> bool:
        """Whether all was done as far as anybody can say, which is exit code 0: achieved, or claimed."""
        return self.achieved or self.claimed

    @property
    def words(self) -> str:
        """The judgement for people, e.g. ``Done in part: 2 of 3``."""
        words, part, count = self.judgement.words, Judgement.PARTLY, f"{self.branches_done} of {self.branches}"
        if self.judgement is part and self.branches > self.branches_done:
            return f"{words}: {count}"
        some = self.judgement is Judgement.NOT_REACHED and 0 < self.branches_done < self.branches
        return f"{words}, {part.words.lower()}: {count}" if some else words

    @property
    def headline(self) -> str:
        """The judgement with end, score and cost, e.g. ``Goal reached (end: done, GSR 1.00, SSR 1.00)``."""
        facts = ", ".join(filter(None, (self.end and f"end: {self.end}", self.score, self.cost)))
        return f"{self.words} ({facts})" if facts else self.words

    def __str__(self) -> str:
        return f"{self.headline}: {self.because}" if self.because else self.headline

    def as_dict(self) -> dict[str, Any]:
        return {
            "judgement": self.judgement.word,
            "achieved": self.achieved,
            "claimed": self.claimed,
            "checked": bool(self.score),
            "branches": self.branches,
            "branches_done": self.branches_done,
            "untouched": list(self.untouched),
            "words": self.words,
            "because": self.because,
            "reasons": list(self.reasons),
            "cost": self.cost,
            "mark": self.judgement.mark,
            "status": self.judgement.status,
        }


@dataclass(frozen=True)
class EpisodeResult:
    """The result of an episode.

    Attributes:
        prompt_tokens: Tokens of all prompts together, those of questions about pictures too; None if the model does not
            count.
        reason: What the run itself says of its end: which limit is reached, or what the node that failed last thought,
            saw or met; empty where it says nothing.
        cost: Money, by the prices that were set; None where none is set, or the model does not count.
        cost_uncached: What it would have been without a prefix cache; None likewise.
        goal: The goal that GSR and SSR are of, if it was read from the instruction; empty: it is the task's, or there
            is none.
        unmet: The goal's conditions that do not hold, in words; empty: all hold, or the world may not say.
        undone: What was not, if there were several, in words: ``'…' failed: …`` or ``'…' was not reached``.
    """

    task_id: int | None  # the task, if the instruction belongs to one
    instruction: str
    status: str  # ``success`` or ``failure`` of the root goal node, ``interrupted`` if it was stopped
    gsr: float | None  # goal success rate, 0 or 1; None if the world knows no goal
    ssr: float | None  # subgoal success rate, 0 to 1; None if the world knows no goal
    decisions: int  # decisions taken
    steps: int  # skills and recalls taken
    max_depth: int  # depth of the deepest goal node; the root is 1
    agent_nodes: int  # goal nodes that started
    seconds: float  # from the first tick to the last
    prompt_tokens: int | None
    cached_tokens: int | None  # how many of them a prefix cache served; None if that is unknown
    output_tokens: int | None  # tokens that the model generated; None if it does not count
    reasoning_tokens: int | None  # how many of them it spent on reasoning; None if it does not count them
    model_seconds: float  # time that the model took for its replies, together
    end: str  # A value of :class:`EpisodeEnd`
    message: str  # problems on the way, whatever the end; empty if there were none
    robots: int = 1  # how many robots there were
    makespan: int = 0  # steps, with simultaneous steps of several robots counted once
    questions: int = 0  # questions that a person was asked
    cost: float | None = None
    cost_uncached: float | None = None
    reason: str = ""
    replies: int = 0  # replies asked of the language model, also those that failed
    attempts: int = 0  # requests that it was sent for them
    refused_attempts: int = 0  # requests whose words were not taken
    repeated_attempts: int = 0  # requests that were the same as an earlier one, byte for byte
    refused_tokens: int | None = 0  # tokens generated for refused requests; None if the model does not count
    goal: Mapping[str, int] = field(default_factory=dict)
    unmet: Sequence[str] = field(default_factory=list)
    branches: int = 0  # how many things were to be done: the subgoals that ``reactree_ros.tree.tried.branches`` counts
    branches_done: int = 0  # how many of them were done as a whole
    undone: Sequence[str] = field(default_factory=list)
    untouched: Sequence[str] = field(default_factory=list)  # what the instruction names and no done skill has named

    @property
    def verdict(self) -> Verdict:
        return verdict_of(asdict(self))

    @property
    def achieved(self) -> bool:
        return self.verdict.achieved

    @property
    def whole(self) -> bool:
        return self.verdict.whole

    @property
    def broken(self) -> bool:
        """Whether something other than the planner failed; then this says nothing about the planner."""
        return EpisodeEnd(self.end) in BROKEN


def verdict_of(result: Mapping[str, Any] | None) -> Verdict:
    """Return how a run ended, from the fields of an :class:`EpisodeResult`; some may lack. None: it has no end."""
    if not isinstance(result, Mapping) or not result.get("end"):
        return Verdict(Judgement.OPEN)
    judgement = _judgement(result)
    of, done, untouched = (result.get(name) for name in ("branches", "branches_done", "untouched"))
    score, cost, undone = score_words(result), cost_words(result), list(result.get("undone") or ())
    few = undone if len(undone) <= MOST_NAMED else [*undone[:MOST_NAMED], f"{len(undone) - MOST_NAMED} more"]
    reasons, why = (_reasons(judgement, result, those) for those in (undone, few))
    counts = of or 0, done or 0, tuple(untouched or ())
    return Verdict(judgement, "; ".join(why), str(result["end"]), score, *counts, cost, tuple(reasons))


def _judgement(result: Mapping[str, Any]) -> Judgement:
    """Judge: the world's score counts most, then what broke the run off, then what is left, the planner's word last."""
    gsr, end = result.get("gsr"), result["end"]
    if gsr == 1:
        return Judgement.REACHED
    if end in {one.value for one in BROKEN}:
        return Judgement.BROKEN
    if end == EpisodeEnd.INTERRUPTED.value:
        return Judgement.INTERRUPTED
    said = result.get("status") == "success" and not _is_empty(result)
    some = 0 < (result.get("branches_done") or 0) < (result.get("branches") or 0)
    if gsr is not None or not (said or some):
        return Judgement.NOT_REACHED
    whole = said and end == EpisodeEnd.DONE.value and not any(result.get(name) for name in ("undone", "untouched"))
    return Judgement.CLAIMED if whole else Judgement.PARTLY


def _is_empty(result: Mapping[str, Any]) -> bool:
    return not any(result.get(name, 1) for name in ("decisions", "steps"))


def _reasons(judgement: Judgement, result: Mapping[str, Any], undone: Sequence[str]) -> list[str]:
    end, reason = result["end"], str(result.get("reason") or "")
    happened = next((one.words for one in EpisodeEnd if one.value == end), str(end).replace("_", " "))
    unmet = ", ".join(result.get("unmet") or ())
    fails = f"the goal does not hold: {unmet}" if unmet else ""
    untouched = " and ".join(map(repr, result.get("untouched") or ()))
    left = [reason, *undone, untouched and f"nothing was done with {untouched}"]
    if end != EpisodeEnd.DONE.value:
        detail = "" if reason and reason in "; ".join(undone) else reason or str(result.get("message") or "")
        if happened.endswith(GAVE_UP) and detail.startswith(GAVE_UP):
            happened, detail = happened.replace(GAVE_UP, detail), ""
        before = "although " if judgement is Judgement.REACHED else ""
        reasons = [f"{before}{happened}{detail and f': {detail}'}", fails, *undone]
    elif judgement is Judgement.REACHED:
        reasons = [f"although {one}" if not at else one for at, one in enumerate(undone)]
    elif judgement is Judgement.PARTLY:
        first, *more = filter(None, left)
        reasons = [f"{happened}, but {first}", *more]
    elif judgement is Judgement.CLAIMED:
        reasons = [f"{happened}, and the run had no goal to be judged by", *left]
    else:
        unjudged = result.get("gsr") is None and _is_empty(result)
        but = "nothing was decided or done" if unjudged else fails or "the goal does not hold"
        reasons = [f"{happened}, but {but}", *left]
    return [one for one in reasons if one]


def score_words(result: Mapping[str, Any]) -> str:
    """Return a result's GSR and SSR in words, and by what they are if no task says it; empty if it has none."""
    named = ((name, result.get(name)) for name in ("gsr", "ssr"))
    told = [f"{name.upper()} {value:.2f}" for name, value in named if isinstance(value, (int, float))]
    return ", ".join([*told, BY_WORDS] if told and result.get("goal") else told)


def cost_words(result: Mapping[str, Any]) -> str:
    """Return a result's cost in words, by the prices that were set; empty if it has none."""
    cost, uncached = result.get("cost"), result.get("cost_uncached")
    if not isinstance(cost, (int, float)):
        return ""
    return f"cost {cost:.6g}" + (f", without the cache {uncached:.6g}" if isinstance(uncached, (int, float)) else "")
