"""The inner port of language models: an engine makes one text of one prompt, under at most one constraint."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reactree_ros.agent.grammar import choice_ebnf, choice_regex, choice_schema, chosen_of_json
from reactree_ros.agent.text import LONGEST_GENERATED, approximate_tokens
from reactree_ros.agent.turns import Turn
from reactree_ros.files.read_back import well_formed
from reactree_ros.llm.port import prompt_text
from reactree_ros.llm.seeing import Seeing, Showing, pictures_of


class ConstraintKind(enum.Enum):
    """Kinds of constraint on a text."""

    GRAMMAR = "grammar"
    """An EBNF grammar in the GBNF notation."""
    REGEX = "regex"
    """A regular expression that matches the whole reply."""
    JSON_SCHEMA = "json_schema"
    """A JSON schema, as a dict."""
    CHOICE = "choice"
    """A list of texts; the reply is one of them."""
    TOOLS = "tools"
    """A list of tools, each with name, description and JSON schema; the reply is a call of one."""


@dataclass(frozen=True)
class Constraint:
    """The constraint of one generation: a str for GRAMMAR and REGEX, a dict for JSON_SCHEMA, a list for the others."""

    kind: ConstraintKind
    value: Any

    @classmethod
    def choice(cls, kind: ConstraintKind, options: Sequence[str]) -> Constraint:
        """Return a constraint to one of several options; :func:`chosen` reads the reply."""
        render: Mapping[ConstraintKind, Callable[[Sequence[str]], Any]] = {
            ConstraintKind.GRAMMAR: choice_ebnf,
            ConstraintKind.REGEX: choice_regex,
            ConstraintKind.JSON_SCHEMA: choice_schema,
            ConstraintKind.CHOICE: list,
            ConstraintKind.TOOLS: lambda options: [{"name": "choose", "parameters": choice_schema(options)}],
        }
        return cls(kind, render[kind](options))


def chosen(kind: ConstraintKind, text: str) -> str:
    """Return the chosen option; raises :class:`ValueError` for another JSON."""
    in_json = kind in (ConstraintKind.JSON_SCHEMA, ConstraintKind.TOOLS)
    return chosen_of_json(text) if in_json else text.removesuffix("\n")


@dataclass(frozen=True)
class Generation:
    """One text to generate.

    Attributes:
        stops: Strings that may end the text early; the caller looks for them as well. A chat engine ignores them,
            because a model may think first or begin with a blank line.
        until: Says how much of a text so far is all that is wanted, empty as long as it is not there. An engine that
            sees the text grow ends it there; the others need not ask.
    """

    turns: tuple[Turn, ...]
    begun: str = ""  # beginning of the reply; the generated text continues it
    constraint: Constraint | None = None
    stops: tuple[str, ...] = ()
    max_tokens: int = 512  # longest text, in tokens; thinking has its own limit
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    id: str = ""
    until: Callable[[str], str] | None = field(default=None, compare=False, repr=False)

    @property
    def prompt(self) -> str:
        return prompt_text(self.turns, self.begun)


@dataclass(frozen=True)
class ToolCall:
    """A tool that the model called, with arguments in JSON."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Generated:
    """A generated text, without what ended it; a token count is None if unknown.

    Attributes:
        text: The answer. Reasoning in tags may stand before it if the engine does not separate them.
    """

    text: str
    finish_reason: str  # ``stop``, or ``length`` if the token limit ended it
    prompt_tokens: int | None = None
    cached_tokens: int | None = None  # prompt tokens that a prefix cache served
    output_tokens: int | None = None  # generated tokens, including reasoning
    reasoning: str = ""  # thoughts before the answer, if the engine separates them
    reasoning_tokens: int | None = None
    calls: tuple[ToolCall, ...] = ()
    pictures: int = 0  # how many pictures the model was shown
    picture_tokens: int = 0  # about how many tokens of the prompt they took

    @property
    def words(self) -> str:
        """The words that were said; a call of tools alone is put into words, too."""
        return self.text.rstrip("\n") or "\n".join(f"{call.name}({call.arguments})" for call in self.calls)

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_GENERATED:
            object.__setattr__(self, "finish_reason", "length")
        for name in ("text", "reasoning"):
            object.__setattr__(self, name, well_formed(getattr(self, name)[:LONGEST_GENERATED]))


class Engine(abc.ABC):
    """Generates texts. All coroutines run in one event loop; cancelling one stops its generation.

    Attributes:
        name: A short description without secrets, e.g. ``vllm 0.32.0 at http://127.0.0.1:8000/v1``; final after
            :meth:`open`.
        constraints: Constraints that it obeys; final after :meth:`open`.
        chat: Whether prompts are laid out as chat messages; None until :meth:`open` finds out.
        context: Most tokens of prompt and reply together; None if unknown; final after :meth:`open`.
        lost: Whether it has died and must be opened again.
        loads: Whether opening it loads a model, which may take any time. Otherwise opening has a time limit.
        tried: Texts generated to find out what it can do; the next reply counts them.
        sees: Whether its model is shown pictures, as far as it is known; it may turn out that it cannot see.
        seeing: How it is shown them.
    """

    name: str = ""
    constraints: frozenset[ConstraintKind] = frozenset()
    chat: bool | None = None
    context: int | None = None
    lost: bool = False
    loads: bool = True
    tried: Sequence[Generated] = ()
    sees: bool = False
    seeing: Seeing = Seeing()

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect or load; called before the first generation, and again after a failure.

        Raises:
            LanguageModelError: It cannot be opened; the message says why and what to do.
        """

    @abc.abstractmethod
    async def generate(self, generation: Generation) -> Generated:
        """Generate one text.

        Raises:
            ServerUnavailable: The engine is gone or stays busy after all retries.
            RequestRejected: The engine refuses this request.
            PromptTooLong: The prompt does not fit into the context.
        """

    async def close(self) -> None:  # noqa: B027
        """Release all resources; the engine may be opened again."""

    def shown(self, generation: Generation) -> Showing:
        """Return the pictures of a prompt that the model is shown: as many as are wanted and fit into the context."""
        if not self.sees or not any(map(pictures_of, generation.turns)):
            return {}
        counted = self.count_tokens(generation.prompt)
        text = approximate_tokens(generation.prompt) if counted is None else counted
        room = None if self.context is None else max(0, self.context - generation.max_tokens - text)
        return self.seeing.shown(generation.turns, room)

    def count_tokens(self, text: str) -> int | None:
        """Count the tokens of a text; None if the tokenizer is unknown. Any thread may call this."""
        return None

    def status(self) -> Mapping[str, str]:
        return {}
