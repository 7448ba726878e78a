"""How a run ended, as one value: the source for everything that shows, prints, sends or counts it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reactree_ros.agent.budget import Limit

#: An explanation of GSR and SSR for their first use.
SCORES = "GSR: 1 if the whole goal holds, else 0. SSR: the share of the goal that holds."


class EpisodeEnd(enum.Enum):
    """The end of an episode; an end without own words is shown by its value.

    Attributes:
        words: The event in words.
    """

    words: str

    def __new__(cls, value: str, words: str = "") -> EpisodeEnd:
        """Make a member from its value and its words."""
        end = object.__new__(cls)
        end._value_, end.words = value, words or value.replace("_", " ")
        return end

    DONE = "done", "the planner says that it is done"
    FAILURE = "failure", "the planner gave up"
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


class _Shown(NamedTuple):
    words: str
    mark: str
    status: str


class Judgement(enum.Enum):
    """The judgement of a run, as shown to people."""

    REACHED = _Shown("Goal reached", "✓", "success")
    CLAIMED = _Shown("Claimed, not checked", "≟", "claimed")
    NOT_REACHED = _Shown("Goal not reached", "✗", "failure")
    INTERRUPTED = _Shown("Interrupted", "◌", "interrupted")
    BROKEN = _Shown("Broken off", "✗", "failure")
    OPEN = _Shown("No end yet", "●", "running")

    @property
    def word(self) -> str:
        """Its name in JSON and messages."""
        return self.name.lower()

    @property
    def words(self) -> str:
        """The words for people."""
        return self.value.words

    @property
    def mark(self) -> str:
        """One character to put before it."""
        return self.value.mark

    @property
    def status(self) -> str:
        """The status of a behaviour with the same look; no behaviour has ``claimed``."""
        return self.value.status


@dataclass(frozen=True)
class Verdict:
    """How a run ended.

    Attributes:
        judgement: The judgement.
        because: Why, in words; empty if there is nothing to add.
        end: The value of :class:`EpisodeEnd`; empty if there is none yet.
        score: GSR and SSR in words; empty if the run had no goal to be judged by.
    """

    judgement: Judgement
    because: str = ""
    end: str = ""
    score: str = ""

    @property
    def achieved(self) -> bool:
        """Whether the goal was reached, or is claimed to be and could not be checked."""
        return self.judgement in (Judgement.REACHED, Judgement.CLAIMED)

    @property
    def headline(self) -> str:
        """The judgement with end and score, e.g. ``Goal reached (end: done, GSR 1.00, SSR 1.00)``."""
        facts = ", ".join(filter(None, (self.end and f"end: {self.end}", self.score)))
        return f"{self.judgement.words} ({facts})" if facts else self.judgement.words

    def __str__(self) -> str:
        """Return everything in one line."""
        return f"{self.headline}: {self.because}" if self.because else self.headline

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "judgement": self.judgement.word,
            "achieved": self.achieved,
            "checked": bool(self.score),
            "words": self.judgement.words,
            "because": self.because,
            "mark": self.judgement.mark,
            "status": self.judgement.status,
        }


def verdict_of(result: Mapping[str, Any] | None) -> Verdict:
    """Return how a run ended, from a result in a record, a bench or a program.

    Args:
        result: Fields of :class:`~reactree_ros.episode.EpisodeResult`; an older version may lack some. None: the run
            has no end.
    """
    if not isinstance(result, Mapping) or not result.get("end"):
        return Verdict(Judgement.OPEN)
    judgement = _judgement(result)
    return Verdict(judgement, _because(judgement, result), str(result["end"]), score_words(result))


def _judgement(result: Mapping[str, Any]) -> Judgement:
    """Judge: the world's score counts most, then a failure that broke the run off, and the planner's word last."""
    gsr, end = result.get("gsr"), result["end"]
    if gsr == 1:
        return Judgement.REACHED
    if end in {one.value for one in BROKEN}:
        return Judgement.BROKEN
    if end == EpisodeEnd.INTERRUPTED.value:
        return Judgement.INTERRUPTED
    if gsr is None and result.get("status") == "success" and not _is_empty(result):
        return Judgement.CLAIMED
    return Judgement.NOT_REACHED


def _is_empty(result: Mapping[str, Any]) -> bool:
    """Whether nothing was decided or done; a tree of one's own does skills that nobody decided."""
    return not any(result.get(name, 1) for name in ("decisions", "steps"))


def _because(judgement: Judgement, result: Mapping[str, Any]) -> str:
    end, reason = result["end"], str(result.get("reason") or "")
    happened = next((one.words for one in EpisodeEnd if one.value == end), str(end).replace("_", " "))
    if end != EpisodeEnd.DONE.value:
        detail = reason or str(result.get("message") or "")
        why = f"{happened}: {detail}" if detail else happened
        return f"although {why}" if judgement is Judgement.REACHED else why
    if judgement is Judgement.REACHED:
        return reason and f"although {reason}"
    if judgement is Judgement.CLAIMED:
        but = "and the run had no goal to be judged by"
    else:
        unjudged = result.get("gsr") is None and _is_empty(result)
        but = "but nothing was decided or done" if unjudged else "but the goal does not hold"
    return f"{happened}, {but}{reason and f'; {reason}'}"


def score_words(result: Mapping[str, Any]) -> str:
    """Return a result's GSR and SSR in words; empty if it has none."""
    named = ((name, result.get(name)) for name in ("gsr", "ssr"))
    return ", ".join(f"{name.upper()} {value:.2f}" for name, value in named if isinstance(value, (int, float)))
