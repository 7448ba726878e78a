"""An engine in this process that answers requests at the same time together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from reactree_ros.llm.batching.row import Row
from reactree_ros.llm.batching.thread_engine import ThreadEngine
from reactree_ros.llm.engine import Generated, Generation
from reactree_ros.llm.port import ServerUnavailable


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


class BatchedEngine(ThreadEngine):
    """An engine whose texts are generated together."""

    _batch: Together | None = None
    _working: asyncio.Task[None] | None = None

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._waited_for: dict[Row, asyncio.Future[Generated]] = {}

    async def _complete(self, prompt: list[int], generation: Generation, *, marked: bool) -> Generated:
        """Generate together with the other texts; cancelling removes the text before its next token."""
        batch = self._batch
        if batch is None:
            raise ServerUnavailable(f"{self.name} is not open")
        row = await self._row(prompt, generation, marked=marked, model=batch)
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

    async def close(self) -> None:
        """Drop the model; running generations fail."""
        if self._working is not None:
            self._working.cancel()
        for future in self._waited_for.values():
            if not future.done():
                future.set_exception(ServerUnavailable(f"{self.name} was closed"))
        await super().close()
        self._waited_for.clear()
        self._batch = self._working = None
