"""The LanguageModel port: whatever answers a decision request."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.text import LONGEST, LONGEST_GENERATED
from reactree_ros.agent.turns import Said, Turn, render
from reactree_ros.background.pending import Pending
from reactree_ros.files.read_back import well_formed


class LanguageModelError(Exception):
    """The language model could not answer; the message says why and what to do.

    Attributes:
        took: A reply without words that holds what was used nevertheless; None: nothing that is known.
    """

    took: Reply | None = None


class ServerUnavailable(LanguageModelError):
    """The server or engine cannot be reached, has died, or is still busy after every retry."""


class RequestRejected(LanguageModelError):
    """The server or engine refuses this request; asking again would not help."""


class NoAnswerInTime(LanguageModelError):
    """The answer did not come within the time limit."""


class InvalidReply(LanguageModelError):
    """What was said is none of the options of a choice, after every retry."""


class PromptTooLong(LanguageModelError):
    """Prompt and longest reply do not fit into the model's context.

    Args:
        excess: How many tokens there are too many.
        context: Tokens that the model's context holds.
    """

    def __init__(self, excess: int, context: int) -> None:
        super().__init__(
            f"the prompt is {excess} tokens too long for the model's context of {context} tokens; "
            "use a model with a longer context, fewer examples or a lower max_tokens"
        )
        self.excess = excess
        self.context = context


@dataclass(frozen=True)
class Choice:
    """The reply is exactly one of these texts."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class FreeText:
    """The reply is any text up to one of the stop strings, which are not part of it.

    Attributes:
        stops: The stop strings; blank lines before the text are none of it. With a line end alone, it is one line.
        thinks: Whether reasoning between ``<think>`` and ``</think>`` is part of what is asked for, and left in the
            text; otherwise it is taken out of it.
    """

    stops: tuple[str, ...] = ("\n",)
    thinks: bool = False


#: What a reply can be held to.
MaySay = DecisionGrammar | SubgoalGrammar | Choice | FreeText


@dataclass(frozen=True)
class DecisionRequest:
    """One question to a language model.

    Attributes:
        turns: The prompt: what was told, said and seen so far, in order; the reply is the next turn, or the rest of it.
        may_say: What the reply is held to.
        begun: How the reply begins; it is said already, and the reply's text follows it.
        max_tokens: Longest reply, in tokens of the model.
        temperature: Sampling temperature; 0 takes the likeliest token.
        top_p: Share of the probability that tokens are sampled from, the likeliest first.
        seed: Seed of the sampling.
        id: Unique within a run; names the request in logs and when it is aborted.
        planner: Who asks; requests that wait are answered fairly between planners.
        patience: How long the asker waits for the reply, in seconds; who asks several models leaves each its share.
    """

    turns: Sequence[Turn]
    may_say: MaySay
    begun: str = ""
    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    id: str = ""
    planner: str = ""
    patience: float = 120.0

    @property
    def prompt(self) -> str:
        """The prompt as text, as a base model gets it and as the recordings have it."""
        return prompt_text(self.turns, self.begun)


def prompt_text(turns: Sequence[Turn], begun: str = "") -> str:
    """Write a prompt as text: the turns on lines of their own, then how the reply begins."""
    return f"{render(turns)}\n{begun}"


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        text: What the model said, without what ended it and without its reasoning; a very long one is cut, and then it
            was cut as by the token limit.
        said: What it was taken for: each decision, in order, with the words that stand for it in a prompt. Empty where
            nothing was read: a choice, a free text, an objection, or a language model that leaves reading to the asker.
        finish_reason: ``stop`` or ``length`` (cut at the token limit).
        prompt_tokens: Tokens of the prompts of all requests that it took; None where the model does not count.
        longest_prompt: Tokens of the longest of these prompts; None where the model does not count.
        cached_tokens: How many of the prompt tokens a prefix cache served; None where unknown.
        output_tokens: Tokens generated, those of the reasoning too; None where the model does not count.
        tried_prompt_tokens: Tokens of prompts that were sent before, to find out what the model can do.
        tried_output_tokens: Tokens generated then.
        reasoning: What the model thought before it answered; never part of a prompt.
        reasoning_tokens: Tokens of that; None where the model does not count them.
        seconds: From request to answer.
        answered_by: Which language model answered, where there are several.
        warning: What is wrong with how the reply came about, and the way out; empty: nothing is. A run tells one.
        objection: Why the text is no decision that may be said, where it is none even after every retry; empty
            otherwise. An agent node refuses it, and the model is told.
    """

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0
    answered_by: str = ""
    objection: str = ""
    longest_prompt: int | None = None
    said: tuple[Said, ...] = ()
    reasoning: str = ""
    reasoning_tokens: int | None = None
    tried_prompt_tokens: int = 0
    tried_output_tokens: int = 0
    warning: str = ""

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            object.__setattr__(self, "finish_reason", "length")
        for name, most in (("text", LONGEST), ("objection", LONGEST), ("reasoning", LONGEST_GENERATED)):
            object.__setattr__(self, name, well_formed(getattr(self, name)[:most]))

    @property
    def cut(self) -> bool:
        """Whether the token limit ended it."""
        return self.finish_reason == "length"

    def with_used(self, others: Iterable[Reply]) -> Reply:
        """Return the reply with what others took besides, which came to nothing."""
        counts: dict[str, Any] = {name: _added([self, *others], name) for name in _COUNTS}
        return replace(self, **counts)

    def further(self) -> Reply:
        """Return the reply as it goes with its second decision and those after it: what it took goes with the first."""
        return replace(
            self, prompt_tokens=0, cached_tokens=0, output_tokens=0, reasoning_tokens=0, seconds=0.0, **_TRIED
        )


_TRIED: dict[str, Any] = {"tried_prompt_tokens": 0, "tried_output_tokens": 0}
_COUNTS = ("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", *_TRIED)


def _added(replies: Iterable[Reply], name: str) -> int | None:
    known = [count for reply in replies if (count := getattr(reply, name)) is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class Wait:
    """What a language model waits for.

    Attributes:
        what: A server or an engine, in words.
        seconds: For how long already.
    """

    what: str
    seconds: float

    def __str__(self) -> str:
        return f"waiting for {self.what}, {self.seconds:.0f} s"


class LanguageModel(abc.ABC):
    """Answers decision requests, at its own pace."""

    @abc.abstractmethod
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Start answering; cancelling the pending reply stops the generation. Both return at once.

        A failure is a :class:`LanguageModelError` in the pending reply.
        """

    def ready(self) -> Pending[None]:
        """Start getting ready (load, connect): settled when the model can answer, failed where it never will.

        :meth:`decide` may be called before; it waits.
        """
        return Pending.of(None)

    def count_tokens(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None where the model's tokenizer is not known."""
        return None

    def waits_for(self) -> Wait | None:
        """Return what has been waited for longest; None: for nothing."""
        return None

    def status(self) -> Mapping[str, str]:
        """Say what the model is and how it fares, in words, for diagnostics."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Release what the model holds."""
