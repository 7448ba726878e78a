"""Engines in this process that generate texts token by token, one after the other, in a thread of their own."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from reactree_local.matcher import Matcher
from reactree_local.text import Text
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.local_engine import LocalEngine
from reactree_ros.llm.port import RequestRejected, ServerUnavailable

#: Prompt tokens that are read at once: a request that nobody wants any more ends after as many.
CHUNK = 512


class InProcessEngine(LocalEngine):
    """An engine that reads and writes tokens itself. What a constraint leaves no choice about is not computed.

    Attributes:
        vocabulary: The tokenizer for llguidance; None if it takes none.
        misfit: Why it takes none.
        ends: Tokens that end a text.
        most_kept: Earlier texts whose states are kept, so that a known beginning of a prompt is not read again.
    """

    constraints = frozenset({ConstraintKind.REGEX, ConstraintKind.JSON_SCHEMA, ConstraintKind.CHOICE})
    vocabulary: Any = None
    misfit = ""
    ends: frozenset[int] = frozenset()
    most_kept = 16
    _network: Any = None

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
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
        await self._take(await asyncio.get_running_loop().run_in_executor(self._worker, self.load))

    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Generate; cancelling stops it before the next token."""
        if self._worker is None:
            raise ServerUnavailable(f"{self.name} is not open")
        closed, cancelled = self._closed, Event()

        def write() -> Generated:
            matcher = None if generation.constraint is None else self._matcher(generation.constraint)
            text = Text(prompt, generation, tokenizer=self._tokenizer, ends=self.ends, matcher=matcher, marked=marked)
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

    def _matcher(self, constraint: Constraint) -> Matcher:
        if self.vocabulary is None:
            raise RequestRejected(f"llguidance does not take its tokenizer: {self.misfit}")
        return Matcher(self.vocabulary, constraint)

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
