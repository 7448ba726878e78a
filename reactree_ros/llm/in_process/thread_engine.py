"""Engines in this process that generate texts token by token, in a thread of their own."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.in_process.held import Held
from reactree_ros.llm.in_process.kept_prompts import KeptPrompts
from reactree_ros.llm.in_process.row import Row
from reactree_ros.llm.local_engine import LocalEngine
from reactree_ros.llm.port import LanguageModelError, RequestRejected, ServerUnavailable


def _held(vocabulary: Any, constraint: Constraint, model: Any) -> Held:
    """Return what holds a text; meanwhile the model is kept, into which the vocabulary may point."""
    return Held(vocabulary, constraint)


class ThreadEngine(LocalEngine):
    """An engine that generates texts in a thread of its own.

    Attributes:
        vocabulary: The tokenizer for llguidance; None if it takes none.
        misfit: Why it takes none.
        ends: Tokens that end a text.
    """

    constraints = frozenset({ConstraintKind.REGEX, ConstraintKind.JSON_SCHEMA, ConstraintKind.CHOICE})
    vocabulary: Any = None
    misfit = ""
    ends: frozenset[int] = frozenset()
    _worker: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Load the model."""
        if self._worker is None:
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=type(self).__name__)
        await self._take(await asyncio.get_running_loop().run_in_executor(self._worker, self.load))

    @abc.abstractmethod
    def load(self) -> Any:
        """Load the model, set what the others need of it, and return its tokenizer."""

    async def _row(self, prompt: list[int], generation: Generation, *, marked: bool, model: Any) -> Row:
        """Return a text that is to be generated."""
        held = None
        if generation.constraint is not None:
            if self.vocabulary is None:
                raise RequestRejected(f"llguidance does not take its tokenizer: {self.misfit}")
            held = await asyncio.to_thread(_held, self.vocabulary, generation.constraint, model)
        return Row(prompt, generation, tokenizer=self._tokenizer, ends=self.ends, held=held, marked=marked)

    def _told(self, failure: Exception) -> LanguageModelError:
        problem = f"{type(failure).__name__}: {' '.join(str(failure).split())[:400]}"
        told = ServerUnavailable(f"{self.name} failed: {problem}")
        told.__cause__ = failure
        return told

    async def close(self) -> None:
        """Drop the thread, which ends with what it has to do."""
        if self._worker is not None:
            self._worker.shutdown(wait=False)
        self._worker = None


class Network(Protocol):
    """What reads texts."""

    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        """Read more tokens of a text; return the next token's scores (float32) and the text's states."""


class OneByOneEngine(ThreadEngine):
    """An engine that generates one text after the other.

    The states of prompts are kept, so that a prompt with a known beginning is only read from there on. What a
    constraint leaves no choice about is not computed.

    Attributes:
        chunk: Prompt tokens that are read at once.
    """

    chunk = 512
    _network: Network | None = None

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._kept = KeptPrompts(0)
        self._rows: list[Row] = []

    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Generate; cancelling stops it before the next token."""
        row = await self._row(prompt, generation, marked=marked, model=self._network)
        if self._worker is None:
            raise ServerUnavailable(f"{self.name} is not open")
        self._rows.append(row)
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._try, row)
        finally:
            self._rows.remove(row)
            closed, row.cancelled = row.cancelled, True
        if closed:
            raise ServerUnavailable(f"{self.name} was closed")
        if row.failure is not None:
            raise self._told(row.failure)
        return row.generated()

    def _try(self, row: Row) -> None:
        try:
            self.say(row)
        except Exception as error:
            row.failure = error

    def say(self, row: Row) -> None:
        """Generate a whole text, and keep its states; for one thread at a time, after loading."""
        network = self._network
        if network is None or row.is_done:
            return
        row.cached, row.states = self._kept.find(row.prompt)
        row.read = row.cached
        row.say_forced()
        while not row.is_done:
            unread = [*row.prompt, *row.said][row.read :]
            for start in range(0, len(unread), self.chunk):
                if row.cancelled:
                    return
                scores, row.states = network.read(unread[start : start + self.chunk], row.states)
            row.read += len(unread)
            row.take(scores)
            row.say_forced()
        if row.read:
            self._kept.keep([*row.prompt, *row.said][: row.read], row.states)

    async def close(self) -> None:
        """Drop the model; texts that are generated or wait fail, a running one before its next token."""
        for row in self._rows:
            row.cancelled = True
        self._network, self._kept = None, KeptPrompts(0)
        await super().close()
