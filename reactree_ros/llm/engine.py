"""The inner port of language models: whatever makes one text of one prompt, held to at most one constraint."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.grammar import choice_ebnf, choice_regex, choice_schema, chosen_of_json
from reactree_ros.agent.text import LONGEST_GENERATED
from reactree_ros.agent.turns import Turn
from reactree_ros.files.read_back import well_formed
from reactree_ros.llm.port import prompt_text


class ConstraintKind(enum.Enum):
    """How a generation can be held to what may be said."""

    GRAMMAR = "grammar"
    """An EBNF grammar in the GBNF notation."""
    REGEX = "regex"
    """A regular expression that the whole reply matches."""
    JSON_SCHEMA = "json_schema"
    """A JSON schema, as a dict."""
    CHOICE = "choice"
    """A list of texts, one of which is the reply."""


@dataclass(frozen=True)
class Constraint:
    """What one generation is held to: a str for GRAMMAR and REGEX, a dict for JSON_SCHEMA, a list for CHOICE."""

    kind: ConstraintKind
    value: Any

    @classmethod
    def choice(cls, kind: ConstraintKind, options: Sequence[str]) -> Constraint:
        """Return what holds a text to one of some options; :func:`chosen` reads what comes back."""
        render: Mapping[ConstraintKind, Callable[[Sequence[str]], Any]] = {
            ConstraintKind.GRAMMAR: choice_ebnf,
            ConstraintKind.REGEX: choice_regex,
            ConstraintKind.JSON_SCHEMA: choice_schema,
            ConstraintKind.CHOICE: list,
        }
        return cls(kind, render[kind](options))


def chosen(kind: ConstraintKind, text: str) -> str:
    """Return the option that was said.

    Raises:
        ValueError: The text is not of the JSON schema that was asked for.
    """
    return chosen_of_json(text) if kind is ConstraintKind.JSON_SCHEMA else text.removesuffix("\n")


@dataclass(frozen=True)
class Generation:
    """One text to generate.

    Attributes:
        turns: The prompt: what was told, said and seen so far, in order.
        begun: How the reply begins; it is said already, and the text generated follows it.
        constraint: What the text is held to; None: nothing.
        stops: Strings that may end the text, to save what comes after them; the caller looks for them as well. An
            engine that chats leaves them alone: a model may think first, or begin with a blank line.
        max_tokens: Longest text, in tokens; what is thought before it has a limit of its own.
        temperature: 0 takes the likeliest token.
        top_p: Share of the probability that tokens are sampled from, the likeliest first.
        seed: Seed of the sampling.
        id: Names the request.
    """

    turns: tuple[Turn, ...]
    begun: str = ""
    constraint: Constraint | None = None
    stops: tuple[str, ...] = ()
    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    id: str = ""

    @property
    def prompt(self) -> str:
        """The prompt as text, as a base model gets it: how the reply begins is its end."""
        return prompt_text(self.turns, self.begun)


@dataclass(frozen=True)
class ToolCall:
    """A tool that the model called instead of saying something, though it was given none.

    Attributes:
        name: The tool's name.
        arguments: Its arguments, in JSON.
    """

    name: str
    arguments: str


@dataclass(frozen=True)
class Generated:
    """A generated text, without what ended it; token counts are None where they are unknown.

    Attributes:
        text: The answer. Where the engine does not tell the two apart, reasoning in tags may stand before it.
        finish_reason: ``stop``, or ``length`` where the token limit ended it.
        prompt_tokens: Tokens of the prompt.
        cached_tokens: How many of them a prefix cache served.
        output_tokens: Tokens generated, those of the reasoning too.
        reasoning: What was thought before the answer, as far as the engine tells the two apart.
        reasoning_tokens: Tokens of that.
        calls: Tools that were called.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning: str = ""
    reasoning_tokens: int | None = None
    calls: tuple[ToolCall, ...] = ()

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_GENERATED:
            object.__setattr__(self, "finish_reason", "length")
        for name in ("text", "reasoning"):
            object.__setattr__(self, name, well_formed(getattr(self, name)[:LONGEST_GENERATED]))


class Engine(abc.ABC):
    """Generates texts. All coroutines run in one event loop; cancelling one stops its generation.

    Attributes:
        name: What it is, in a few words without secrets, e.g. ``vllm 0.32.0 at http://127.0.0.1:8000/v1``; final
            after :meth:`open`.
        constraints: What it obeys; final after :meth:`open`.
        chat: Whether prompts are laid out as the messages of a chat; None before :meth:`open` where that is found out.
        context: Tokens that prompt and reply may have together; None where unknown; final after :meth:`open`.
        lost: Whether it has died and is to be opened again.
        loads: Whether opening it loads a model, which may take any time; otherwise a time limit is one for that, too.
        tried: What it generated to find out what it can do; the next reply counts it.
    """

    name: str = ""
    constraints: frozenset[ConstraintKind] = frozenset()
    chat: bool | None = None
    context: int | None = None
    lost: bool = False
    loads: bool = True
    tried: Sequence[Generated] = ()

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect or load; called before the first generation, and again where it failed or the engine has died.

        Raises:
            LanguageModelError: It cannot be; the message says why and what to do.
        """

    @abc.abstractmethod
    async def generate(self, generation: Generation) -> Generated:
        """Generate one text.

        Raises:
            ServerUnavailable: The engine is gone or stays busy; retries, where they make sense, were made.
            RequestRejected: The engine refuses this request.
            PromptTooLong: It does not fit into the context.
        """

    async def close(self) -> None:  # noqa: B027
        """Release what it holds; it may be opened again."""

    def count_tokens(self, text: str) -> int | None:
        """Count the tokens of a text; None where the tokenizer is not at hand. Called from any thread."""
        return None

    def status(self) -> Mapping[str, str]:
        """Say more about it, in words, for diagnostics and ``reactree llm check``."""
        return {}
