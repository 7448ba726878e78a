"""An engine in this process that answers requests at the same time together."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from reactree_ros.llm.batching.held import Held
from reactree_ros.llm.batching.row import Row
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.local_engine import LocalEngine
from reactree_ros.llm.port import LanguageModelError, RequestRejected, ServerUnavailable


class Together(Protocol):
    """Texts that are generated together. Only :attr:`waiting` may be used from other threads."""

    @property
    def waiting(self) -> Any:
        """Texts that have not joined yet, a deque."""

    @property
    def rows(self) -> list[Row]:
        """Texts that are being generated."""

    @property
    def advance(self) -> Callable[[], list[Row]]:
        """Generates some more; returns the texts that left."""


def _held(vocabulary: Any, constraint: Constraint, batch: Together) -> Held:
    """Return what holds a text; meanwhile the model is kept, into which the vocabulary may point."""
    return Held(vocabulary, constraint)


class BatchedEngine(LocalEngine):
    """An engine whose texts are generated together, in a thread of its own."""

    constraints = frozenset({ConstraintKind.REGEX, ConstraintKind.JSON_SCHEMA, ConstraintKind.CHOICE})
    _ends: frozenset[int] = frozenset()
    _vocabulary: Any = None
    _misfit = ""
    _batch: Together | None = None
    _worker: ThreadPoolExecutor | None = None
    _working: asyncio.Task[None] | None = None

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._waited_for: dict[Row, asyncio.Future[Generated]] = {}

    async def open(self) -> None:
        """Load the model."""
        if self._worker is None:
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=type(self).__name__)
        await self._take(await asyncio.get_running_loop().run_in_executor(self._worker, self._load))

    @abc.abstractmethod
    def _load(self) -> Any:
        """Load the model, set what the others need of it, and return its tokenizer."""

    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Generate together with the other texts; cancelling removes the text before its next token."""
        batch = self._batch
        if batch is None:
            raise ServerUnavailable(f"{self.name} is not open")
        held = None
        if generation.constraint is not None:
            if self._vocabulary is None:
                raise RequestRejected(f"llguidance does not take its tokenizer: {self._misfit}")
            held = await asyncio.to_thread(_held, self._vocabulary, generation.constraint, batch)
        row = Row(prompt, generation, tokenizer=self._tokenizer, ends=self._ends, held=held, marked=marked)
        self._waited_for[row] = asyncio.get_running_loop().create_future()
        batch.waiting.append(row)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work(batch))
        try:
            return await self._waited_for[row]
        finally:
            row.cancelled = True

    async def _work(self, batch: Together) -> None:
        """Advance the texts until none is left."""
        while batch.waiting or batch.rows:
            for row in await asyncio.get_running_loop().run_in_executor(self._worker, batch.advance):
                self._settle(row)

    def _settle(self, row: Row) -> None:
        future = self._waited_for.pop(row)
        if future.done():  # cancelled
            return
        if row.failure is None:
            future.set_result(row.generated())
        else:
            future.set_exception(self._told(row.failure))

    def _told(self, failure: Exception) -> LanguageModelError:
        problem = f"{type(failure).__name__}: {' '.join(str(failure).split())[:400]}"
        told = ServerUnavailable(f"{self.name} failed: {problem}")
        told.__cause__ = failure
        return told

    async def close(self) -> None:
        """Drop the model; running generations fail."""
        if self._working is not None:
            self._working.cancel()
        for future in self._waited_for.values():
            if not future.done():
                future.set_exception(ServerUnavailable(f"{self.name} was closed"))
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
        self._waited_for.clear()
        self._batch = self._worker = self._working = None
