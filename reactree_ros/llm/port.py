"""The LanguageModel port: whatever answers a decision request."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.pending import Pending


class LanguageModelError(Exception):
    """The language model could not answer; the message says why and what to do."""


@dataclass(frozen=True)
class Choice:
    """The reply is exactly one of these texts."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class FreeText:
    """The reply is any text up to one of the stop strings."""

    stops: tuple[str, ...] = ("\n",)


@dataclass(frozen=True)
class DecisionRequest:
    """One question to a language model.

    Attributes:
        prompt: The whole text so far; the reply continues it.
        may_say: What the reply is held to.
        max_tokens: Longest reply, in tokens of the model.
        temperature: Sampling temperature; 0 takes the likeliest token.
        seed: Seed of the sampling.
        id: Unique within a run; names the request in logs and when it is aborted.
    """

    prompt: str
    may_say: DecisionGrammar | Choice | FreeText
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        text: What the model said, without what ended it.
        finish_reason: ``stop`` or ``length`` (cut at the token limit).
        prompt_tokens: Tokens of the prompt; None where the model does not count.
        cached_tokens: How many of them a prefix cache served; None where unknown.
        output_tokens: Tokens generated; None where the model does not count.
        seconds: From request to answer.
    """

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0


class LanguageModel(abc.ABC):
    """Answers decision requests, at its own pace."""

    @abc.abstractmethod
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Start answering; cancelling the pending reply stops the generation.

        A failure is a :class:`LanguageModelError` in the pending reply.
        """

    def count_tokens(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None where the model's tokenizer is not known."""
        return None

    def close(self) -> None:  # noqa: B027
        """Release what the model holds."""
