"""The LanguageModel port: a language model answers decision requests."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.text import LONGEST, LONGEST_ERROR, LONGEST_GENERATED, approximate_tokens, bounded
from reactree_ros.agent.turns import Said, Turn, render
from reactree_ros.background.pending import Pending
from reactree_ros.files.read_back import well_formed

#: Who answered, if a person made the decision.
A_PERSON = "a person"


class LanguageModelError(Exception):
    """The language model could not answer; the message says why and what to do.

    Attributes:
        took: A reply without words that holds the cost so far; None if unknown.
    """

    took: Reply | None = None


class ServerUnavailable(LanguageModelError):
    """The server or engine is unreachable, has died, or is still busy after every retry."""


class RequestRejected(LanguageModelError):
    """The server or engine refuses this request; asking again would not help."""


class NoAnswerInTime(LanguageModelError):
    """The answer did not come within the time limit: the model is slow, which is not to say that it is gone."""


class InvalidReply(LanguageModelError):
    """The reply is none of the options of a choice, after every retry."""


class PromptTooLong(LanguageModelError):
    """Prompt and longest reply do not fit into the model's context, by so many tokens."""

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
        stops: The stop strings. Blank lines before the text do not count; a line end as the only stop gives one line.
        thinks: Whether the text keeps reasoning between ``<think>`` and ``</think>``; otherwise it is removed.
    """

    stops: tuple[str, ...] = ("\n",)
    thinks: bool = False


#: Constraints on a reply.
MaySay = DecisionGrammar | SubgoalGrammar | Choice | FreeText


@dataclass(frozen=True)
class DecisionRequest:
    """One question to a language model.

    Attributes:
        turns: The prompt: the conversation so far, in order; the reply is the next turn, or the rest of it.
        words: Words of what the world's skills are done to, as :class:`~reactree_ros.world.port.World` has them.
    """

    turns: Sequence[Turn]
    may_say: MaySay  # the constraint on the reply
    begun: str = ""  # beginning of the reply; the reply's text follows it
    max_tokens: int = 512  # longest reply, in tokens of the model
    temperature: float = 0.0  # sampling temperature; 0 takes the likeliest token
    top_p: float = 1.0  # share of the probability that tokens are sampled from, the likeliest first
    seed: int = 0  # seed of the sampling
    id: str = ""  # unique within a run; names the request in logs and for aborting it
    planner: str = ""  # the asking planner; planners take turns in a queue
    patience: float = 120.0  # how long the asker waits for the reply, in seconds; several models share it
    trace: str = ""  # the trace that it belongs to, as W3C's ``traceparent``; empty: none
    words: Sequence[str] = ()
    things: Sequence[str] = ()  # those of them that can be picked up

    @property
    def prompt(self) -> str:
        return prompt_text(self.turns, self.begun)


def prompt_text(turns: Sequence[Turn], begun: str = "") -> str:
    return f"{render(turns)}\n{begun}"


#: The finish reason of an attempt that brought no text, because its request failed or was canceled.
FAILED = "failed"


@dataclass(frozen=True)
class Attempt:
    """One request that the model was sent for a reply.

    Attributes:
        constraint: What it was held to: ``grammar``, ``regex``, ``json_schema``, ``choice``, ``tools``; or nothing.
    """

    text: str = ""  # the model's words, shortened if they are long; empty if they are in the reply
    objection: str = ""  # why the words were not taken, or why none came; empty if they were
    finish_reason: str = "stop"  # ``stop``, ``length`` or :data:`FAILED`
    constraint: str = ""
    asked: str = ""  # digest of what was sent: the same if the prompt, its constraint and its sampling are
    prompt_tokens: int | None = None  # tokens of the prompt; None if the model does not count
    cached_tokens: int | None = None  # prompt tokens that a prefix cache served; None if unknown
    output_tokens: int | None = None  # generated tokens, including reasoning; None if the model does not count
    seconds: float = 0.0  # time from request to answer

    def __post_init__(self) -> None:
        for name in ("text", "objection"):
            object.__setattr__(self, name, well_formed(bounded(getattr(self, name), LONGEST_ERROR)))

    @property
    def refused(self) -> bool:
        """Whether words came that were not taken."""
        return bool(self.objection) and self.finish_reason != FAILED


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        text: The model's words, without what ended them and without reasoning; of a decision in JSON, and of a call of
            a tool, the words of the decision. A very long text is truncated as by the token limit.
        said: The decisions read from it, in order, with their words in a prompt. Empty for a choice, a free text, an
            objection, or a model whose asker reads the text.
        warning: A problem with how the reply came about, and the way out; empty if none. A run reports it once.
        objection: Why the text is not an allowed decision after every retry; empty otherwise. An agent node refuses the
            text and tells the model.
    """

    text: str
    finish_reason: str = "stop"  # ``stop`` or ``length`` (truncated at the token limit)
    prompt_tokens: int | None = None  # prompt tokens of all its requests; None if the model does not count
    cached_tokens: int | None = None  # prompt tokens that a prefix cache served; None if unknown
    output_tokens: int | None = None  # generated tokens, including reasoning; None if the model does not count
    seconds: float = 0.0  # time from request to answer
    answered_by: str = ""  # the language model that answered, if there are several
    objection: str = ""
    longest_prompt: int | None = None  # tokens of the longest of these prompts; None if the model does not count
    said: tuple[Said, ...] = ()
    reasoning: str = ""  # thoughts before the answer; never part of a prompt
    reasoning_tokens: int | None = None  # tokens of the reasoning; None if the model does not count them
    tried_prompt_tokens: int = 0  # prompt tokens spent earlier to find out what the model can do
    tried_output_tokens: int = 0  # tokens generated for that
    warning: str = ""
    attempts: tuple[Attempt, ...] = ()  # every request that it took, in order; empty if the model says nothing of them
    pictures: int = 0  # how many pictures the model was shown, in all its requests
    picture_tokens: int = 0  # about how many tokens of the prompts they took; a part of ``prompt_tokens``

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            object.__setattr__(self, "finish_reason", "length")
        for name, most in (("text", LONGEST), ("objection", LONGEST), ("reasoning", LONGEST_GENERATED)):
            object.__setattr__(self, name, well_formed(getattr(self, name)[:most]))

    @property
    def cut(self) -> bool:
        return self.finish_reason == "length"

    @property
    def requests(self) -> int:
        return len(self.attempts) or 1

    @property
    def in_vain(self) -> tuple[Attempt, ...]:
        """The requests after which the model was asked again, or another one was."""
        return tuple(one for one in self.attempts[:-1] if one.objection)

    def refused_for(self, reason: str) -> Reply:
        """Return the reply as one whose words were not taken by whoever asked; as it is if there is no reason."""
        if self.objection or not reason:
            return self
        attempts = (*self.attempts[:-1], *(replace(last, objection=reason) for last in self.attempts[-1:]))
        return replace(self, objection=reason, attempts=attempts)

    def tokens(self, prompt: Callable[[], str]) -> tuple[int, int]:
        """Return the tokens of all its prompts and texts; those that nobody counted are estimated from the prompt."""
        into, out = self.prompt_tokens, self.output_tokens
        if into is None:
            into = self.requests * approximate_tokens(prompt()) + self.picture_tokens
        if out is None:
            out = approximate_tokens("".join((self.reasoning, self.text, *(one.text for one in self.attempts))))
        return into, out

    def with_used(self, others: Sequence[Reply]) -> Reply:
        """Return the reply with the requests and the cost of others that failed."""
        counts: dict[str, Any] = {name: _added([self, *others], name) for name in _COUNTS}
        return replace(self, attempts=(*(one for other in others for one in other.attempts), *self.attempts), **counts)

    def further(self) -> Reply:
        """Return the reply for its second and later decisions: the first one carries the cost."""
        costs: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
        return replace(self, seconds=0.0, attempts=(), **costs)


_COUNTS = (
    *("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
    *("tried_prompt_tokens", "tried_output_tokens"),
    *("pictures", "picture_tokens"),
)


def _added(replies: Iterable[Reply], name: str) -> int | None:
    known = [count for reply in replies if (count := getattr(reply, name)) is not None]
    return sum(known) if known else None


def tally(replies: Iterable[Reply]) -> dict[str, Any]:
    """Count replies and the requests for them, by the fields of :class:`~reactree_ros.record.verdict.EpisodeResult`."""
    some = list(replies)
    sent = list[Attempt]()
    for one in some:
        sent += one.attempts or [Attempt(objection=one.objection, output_tokens=one.output_tokens)]
    refused, asked = [one for one in sent if one.refused], [one.asked for one in sent if one.asked]
    tokens = [one.output_tokens for one in refused if one.output_tokens is not None]
    return {
        "replies": len(some),
        "attempts": len(sent),
        "refused_attempts": len(refused),
        "repeated_attempts": len(asked) - len(set(asked)),
        "refused_tokens": sum(tokens) if len(tokens) == len(refused) else None,
    }


def requests_in_words(counts: Any) -> str:
    """Say of a result, or a message with its counts, what was in vain; empty if nothing was."""
    if not (counts.refused_attempts or counts.repeated_attempts):
        return ""
    return (
        f"{counts.attempts} requests for {counts.replies} replies of the language model: "
        f"{counts.refused_attempts} refused, {counts.repeated_attempts} repeated"
    )


@dataclass(frozen=True)
class Wait:
    what: str  # A server or an engine, in words
    seconds: float  # how long it has waited

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
        """Start loading or connecting; settled when the model can answer, failed if it never will.

        :meth:`decide` may be called before; it waits.
        """
        return Pending.ready(None)

    def count_tokens(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None if the model's tokenizer is unknown."""
        return None

    def slowness(self, request: DecisionRequest) -> float:
        """Return how many times longer than usual to wait for a request: more than 1 if it has much to read, slowly."""
        return 1.0

    def waits_for(self) -> Wait | None:
        """Return the longest current wait; None if there is none."""
        return None

    def status(self) -> Mapping[str, str]:
        """Describe the model and its state in words, for diagnostics."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Release all resources."""


class Around(LanguageModel):
    """Decides in its own way, and leaves everything else to the language model that it stands around."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return self.model.decide(request)

    def ready(self) -> Pending[None]:
        return self.model.ready()

    def count_tokens(self, text: str) -> int | None:
        return self.model.count_tokens(text)

    def slowness(self, request: DecisionRequest) -> float:
        return self.model.slowness(request)

    def waits_for(self) -> Wait | None:
        return self.model.waits_for()

    def status(self) -> Mapping[str, str]:
        return self.model.status()

    def close(self) -> None:
        self.model.close()
