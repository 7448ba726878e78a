"""Engines in this process that generate texts token by token, one after the other, in a thread of their own."""

from __future__ import annotations

import abc
import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

from reactree_local.matcher import Matcher
from reactree_local.text import Text
from reactree_ros.llm.chat import broken, special_tokens, spoken_to_server
from reactree_ros.llm.engine import ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.port import PromptTooLong, ServerUnavailable

#: Prompt tokens that are read at once: a request that nobody wants any more ends after as many.
CHUNK = 512


class InProcessEngine(Engine):
    """An engine that reads and writes tokens itself. What a constraint leaves no choice about is not computed.

    Attributes:
        vocabulary: The tokenizer for llguidance.
        ends: Tokens that end a text.
        most_kept: Earlier texts whose states are kept, so that a known beginning of a prompt is not read again.
    """

    constraints = frozenset({ConstraintKind.REGEX, ConstraintKind.JSON_SCHEMA, ConstraintKind.CHOICE})
    chat = False
    vocabulary: Any = None
    ends: frozenset[int] = frozenset()
    most_kept = 16
    _network: Any = None
    _tokenizer: Any = None
    _special: re.Pattern[str] | None = None

    def __init__(self, model: str) -> None:
        self.model = model
        self._worker: ThreadPoolExecutor | None = None
        self._closed = Event()
        self._kept: list[tuple[list[int], Any]] = []  # the newest last

    @abc.abstractmethod
    def load(self) -> Any:
        """Load the model, set what the others need of it, and return its tokenizer."""

    @abc.abstractmethod
    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        """Read more tokens of a text; return the next token's scores (float32) and the text's states."""

    @abc.abstractmethod
    def first(self, states: Any, count: int) -> Any:
        """Return a copy of the states of a text's first tokens; None if they cannot be cut there."""

    async def open(self) -> None:
        """Load the model."""
        if self._worker is None:
            self._closed, self._kept = Event(), []
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self.name)
        self._tokenizer = await asyncio.get_running_loop().run_in_executor(self._worker, self.load)
        self._special = special_tokens(self._tokenizer)

    async def generate(self, generation: Generation) -> Generated:
        """Generate; cancelling stops it before the next token."""
        spoken = replace(generation, turns=spoken_to_server(generation.turns))
        return await self.go_on(spoken.prompt, generation, begins=True)

    async def go_on(
        self, prompt: str, generation: Generation, *, begins: bool = False, marked: bool = False, more: int = 0
    ) -> Generated:
        """Continue a prompt, instead of the one of the request.

        Args:
            prompt: The prompt.
            generation: The request.
            begins: Whether the tokens that begin every text are missing in it.
            marked: Whether special tokens are part of the text.
            more: Tokens that are needed besides.

        Raises:
            PromptTooLong: It does not fit into the context.
        """
        if self._worker is None:
            raise ServerUnavailable(f"{self.name} is not open")
        tokens = self._encode(self.spelled(prompt) if begins else prompt, begins=begins)
        if self.context and (excess := len(tokens) + generation.max_tokens + more - self.context) > 0:
            raise PromptTooLong(excess, self.context)
        closed, cancelled = self._closed, Event()

        def write() -> Generated:
            matcher = None if generation.constraint is None else Matcher(self.vocabulary, generation.constraint)
            text = Text(tokens, generation, tokenizer=self._tokenizer, ends=self.ends, matcher=matcher, marked=marked)
            self.write(text, lambda: closed.is_set() or cancelled.is_set())
            return text.generated()

        try:
            generated = await asyncio.get_running_loop().run_in_executor(self._worker, write)
        except Exception:
            if not closed.is_set():
                raise
        finally:
            cancelled.set()
        if closed.is_set():
            raise ServerUnavailable(f"{self.name} was closed")
        return generated

    def spelled(self, text: str) -> str:
        """Return a text none of which becomes a special token."""
        return text if self._special is None else broken(text, self._special)

    def _encode(self, text: str, *, begins: bool = False) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=begins))

    def count_tokens(self, text: str) -> int | None:
        """Count with the model's tokenizer; None before it is loaded."""
        return None if self._tokenizer is None else len(self._encode(self.spelled(text)))

    def status(self) -> Mapping[str, str]:
        """Describe the model, and how it is asked."""
        return {"model": self.model, "prompts": "chat" if self.chat else "completion"}

    def write(self, text: Text, is_unwanted: Callable[[], bool] = lambda: False) -> None:
        """Generate a whole text, and keep its states; for one thread at a time, after loading."""
        text.cached, states = self._known(text.prompt)
        read = text.cached
        text.add_forced()
        while not text.finish:
            unread = [*text.prompt, *text.tokens][read:]
            for start in range(0, len(unread), CHUNK):
                if is_unwanted():
                    return
                scores, states = self.read(unread[start : start + CHUNK], states)
            read += len(unread)
            text.choose(scores)
            text.add_forced()
        if read > text.cached:
            whole = [*text.prompt, *text.tokens][:read]
            others = [one for one in self._kept if one[0] != whole[: len(one[0])]]
            self._kept = [*others, (whole, states)][-self.most_kept :]

    def _known(self, prompt: list[int]) -> tuple[int, Any]:
        """Return how many tokens of a prompt are known (never the last one), and their states or None."""
        known = [(min(shared(tokens, prompt), len(prompt) - 1), states) for tokens, states in self._kept]
        for count, states in sorted(known, key=lambda one: -one[0]):
            if count and (cut := self.first(states, count)) is not None:
                return count, cut
        return 0, None

    async def close(self) -> None:
        """Drop the model; texts that are generated or wait fail, a running one before its next token."""
        self._closed.set()
        if self._worker is not None:
            self._worker.shutdown(wait=False)
        self._network = self._worker = None
        self._kept = []


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of tokens that both texts begin with."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )
