"""Kinds of failure, told apart by type: what ended a goal node, and with it perhaps the whole run."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from reactree_ros.agent.budget import Limit
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.port import InvalidReply, LanguageModelError, NoAnswerInTime, PromptTooLong
from reactree_ros.world.port import WorldError


class FailureKind(enum.Enum):
    """What kind of failure it is; its value, unless it is a limit's, is that of the run that it ends."""

    GAVE_UP = "failure"  # the planner says so, its expansion failed, or it could not be held to what may be said
    BUDGET = "budget"  # a limit of the run is reached: decisions, steps, tokens, seconds or money
    STUCK = "stuck"  # the same thing came again and again, and nothing new
    REFUSED = "refused"  # what the language model said was refused again and again
    CONTEXT_FULL = "context_full"  # the prompt does not fit, and nothing is left to leave out
    MODEL_GONE = "model_gone"  # the language model does not answer
    TOO_SLOW = "too_slow"  # the language model did not answer in time, though it may be there
    WORLD_GONE = "world_gone"  # the world does not answer
    MEMORY_GONE = "memory_gone"  # episodic memory cannot say whether it has examples
    HELD = "held"  # the run was held, by an emergency stop or a person, for longer than it may be
    BUG = "bug"  # anything else that was raised


class GaveUp(Exception):
    """A program gives up; the message says why."""


class Refused(Exception):
    """Too many replies were refused; the message says which."""


class MemoryGone(Exception):
    """Episodic memory did not answer; the message says why."""


class Held(Exception):
    """The run is held, which broke off what a goal node waited for, or lasts too long; the message says why."""


class BrokenOff(Held):
    """What a program waits for was cancelled, because the run is held."""


class RobotLost(BrokenOff):
    """The robot that was to do what a program waits for is gone; another one goes on."""


class LimitReached(Exception):
    """The budget forbids a further decision; ``reason`` says how far, in words; empty: its line says enough."""

    def __init__(self, limit: Limit, reason: str = "") -> None:
        super().__init__(reason or limit.line)
        self.limit = limit


class EndedBelow(Exception):
    """A goal node below ended by a failure that this one cannot do anything about."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class Failure:
    kind: FailureKind
    message: str

    @property
    def ends_the_tree(self) -> bool:
        """Whether the whole tree ends with it, at once, whatever stands above the node: nothing could do better."""
        return self.kind in FATAL

    @property
    def is_error(self) -> bool:
        """Whether it is none of what a goal node may come to, so that nothing is to be learnt from it."""
        return self.ends_the_tree or self.kind in (FailureKind.CONTEXT_FULL, FailureKind.REFUSED)


#: Kinds that are a limit of the run, and those that end the whole tree.
BY_LIMIT = frozenset({FailureKind.BUDGET, FailureKind.STUCK})
FATAL = frozenset(FailureKind) - BY_LIMIT - {FailureKind.GAVE_UP, FailureKind.REFUSED, FailureKind.CONTEXT_FULL}
_KINDS: tuple[tuple[tuple[type[Exception], ...], FailureKind], ...] = (
    ((GaveUp, InvalidReply), FailureKind.GAVE_UP),
    ((Refused,), FailureKind.REFUSED),
    ((PromptTooLong,), FailureKind.CONTEXT_FULL),
    ((NoAnswerInTime,), FailureKind.TOO_SLOW),
    ((LanguageModelError,), FailureKind.MODEL_GONE),
    ((WorldError,), FailureKind.WORLD_GONE),
    ((MemoryGone,), FailureKind.MEMORY_GONE),
    ((Held,), FailureKind.HELD),
)
_TOO_SLOW = (
    "raise decision_timeout and the language model's request_timeout, or give it fewer examples (max_examples) or a "
    "faster model"
)


def failure_of(error: Exception) -> Failure:
    if isinstance(error, EndedBelow):
        return error.failure
    message = redacted(str(error)) or type(error).__name__
    if isinstance(error, LimitReached):
        return Failure(FailureKind.STUCK if error.limit is Limit.STUCK else FailureKind.BUDGET, message)
    for kinds, kind in _KINDS:
        if isinstance(error, kinds):
            return Failure(kind, f"{message}; {_TOO_SLOW}" if kind is FailureKind.TOO_SLOW else message)
    return Failure(FailureKind.BUG, f"{type(error).__name__}: {message}" if str(error) else message)
