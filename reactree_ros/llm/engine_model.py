"""A language model on top of an engine: pending replies, a time limit, an event loop in its own thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.errors import UserError
from reactree_ros.llm.decoding import Method, decode, method_for
from reactree_ros.llm.engine import Engine
from reactree_ros.llm.pace import Pace
from reactree_ros.llm.port import (
    DecisionRequest,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    Reply,
    RequestRejected,
    ServerUnavailable,
    Wait,
)
from reactree_ros.llm.usage import Noticed, Usage
from reactree_ros.llm.waiting import RARELY, SOON, Rarely, log

#: How much longer than one request all trials of an engine may take together.
TRIALS = 4
#: Longest wait for an engine to close, in seconds.
CLOSE_TIMEOUT = 30.0
_log = logging.getLogger(__name__)


class EngineModel(LanguageModel):
    """Answers decision requests with an engine.

    The first request (or :meth:`ready`) opens the engine; after a failure, the next request opens it again.

    Args:
        method: How to ask for a decision; None takes the best that the engine obeys.
        request_timeout: Longest time for one reply, in seconds, including all retries. A request that is expected to
            take longer than usual has more time (:class:`Pace`). Opening an engine that loads nothing has as much time,
            again after each answer of a server that is tried; the asker's patience bounds both.
        retries: How often to ask again for a reply that is not allowed.
    """

    def __init__(
        self, engine: Engine, *, method: Method | None = None, request_timeout: float = 120.0, retries: int = 3
    ) -> None:
        self.engine = engine
        self._method = method
        self._request_timeout = request_timeout
        self._retries = retries
        self._opening: asyncio.Task[None] | None = None
        self._closed = False
        self._noticed = Noticed()
        self._pace = Pace()
        self._since: dict[Pending[Any], float] = {}  # work in progress, the oldest first
        self._rarely = Rarely()
        self._lock = threading.Lock()  # work arrives before closing, or is refused
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="language-model", daemon=True)
        self._thread.start()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Start answering; cancelling closes the connection or aborts the generation in the engine."""
        return self._start(partial(self._answer, request))

    def ready(self) -> Pending[None]:
        """Start opening the engine."""
        return self._start(self._open)

    def count_tokens(self, text: str) -> int | None:
        """Count with the engine's tokenizer."""
        return self.engine.count_tokens(text)

    def slowness(self, request: DecisionRequest) -> float:
        """Return what is to be expected by what was measured of the engine."""
        return self._pace.times(request.prompt)

    def waits_for(self) -> Wait | None:
        """Return how long the oldest work in progress has taken."""
        since = next(iter(tuple(self._since.values())), None)
        return None if since is None else Wait(self.engine.name, time.monotonic() - since)

    def status(self) -> Mapping[str, str]:
        """Describe the engine and the constraints that it obeys."""
        engine = self.engine
        method = self._method or method_for(engine.constraints)
        return {
            "engine": engine.name,
            "constraints": ", ".join(sorted(kind.value for kind in engine.constraints)) or "none",
            "method": method.value,
            "context in tokens": "unknown" if engine.context is None else str(engine.context),
            **engine.status(),
        }

    def close(self) -> None:
        """Stop all work, close the engine, end the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop)
        self._thread.join(CLOSE_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    async def _shut(self) -> None:
        try:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.wait_for(self.engine.close(), CLOSE_TIMEOUT / 2)
        finally:
            self._loop.stop()

    async def _answer(self, request: DecisionRequest) -> Reply:
        usage = Usage(self.engine, self._noticed)
        limit = min(self._request_timeout * self.slowness(request), request.patience)
        decoded = partial(self._decoded, partial(self._decode, request, usage), limit)
        try:
            if self.engine.loads:
                await self._open()
            reply = cast("Reply", await self._in_time(decoded, request.patience))
            self._pace.learn(request.prompt, reply)
            return reply
        except LanguageModelError as error:
            if isinstance(error, NoAnswerInTime):
                self._pace.late(request.prompt, limit)
            error.took = usage.took(str(error))
            raise
        except UserError as error:  # a wrong setting may show only when the engine opens
            raise RequestRejected(str(error)) from error

    async def _decoded(self, decode: Callable[[], Awaitable[Reply]], limit: float) -> Reply:
        """Get a reply of an open engine."""
        await self._open()
        return cast("Reply", await self._in_time(decode, limit))

    async def _decode(self, request: DecisionRequest, usage: Usage) -> Reply:
        return await decode(self.engine, request, method=self._method, retries=self._retries, usage=usage)

    async def _in_time(self, work: Callable[[], Awaitable[Any]], limit: float) -> Any:
        """Do work within a time limit, in seconds."""
        try:
            return await asyncio.wait_for(self._told(work), limit)
        except asyncio.TimeoutError:  # this limit; the engine reports its own as a failure
            raise self._is_late(limit) from None

    async def _open(self) -> None:
        """Open the engine once; all callers wait for the same attempt."""
        if self._opening is None or (self._opening.done() and (self.engine.lost or self._failed(self._opening))):
            self._opening = asyncio.ensure_future(self._opened())
            self._opening.add_done_callback(self._failed)  # handles the error even if nobody waits any more
        await asyncio.shield(self._opening)

    async def _opened(self) -> None:
        """Open the engine; unless it loads a model, within a time limit that begins again with each answer to a trial.

        All trials together have :data:`TRIALS` times the limit.
        """
        if self.engine.loads:
            await self.engine.open()
            return
        limit = self._request_timeout
        opening, tried = asyncio.ensure_future(self._told(self.engine.open)), None
        end = self._loop.time() + TRIALS * limit
        try:
            while not opening.done() and self.engine.tried is not tried and (left := end - self._loop.time()) > 0:
                tried = self.engine.tried
                await asyncio.wait((opening,), timeout=min(limit, left))
            if not opening.done() and self._loop.time() >= end:
                raise NoAnswerInTime(
                    f"{self.engine.name}: it answers, but was not tried out within {TRIALS * limit:.3g} s"
                )
            if not opening.done():
                raise self._is_late(limit)
        finally:
            opening.cancel()
            await asyncio.wait((opening,))
        opening.result()

    @staticmethod
    def _failed(opening: asyncio.Task[None]) -> bool:
        return opening.cancelled() or opening.exception() is not None

    async def _told(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do work; turn an engine's own error into one of the port.

        The work is only begun here, so that nothing of it is left over if this is cancelled before it runs.
        """
        try:
            return await work()
        except (LanguageModelError, UserError):
            raise
        except Exception as error:
            _log.exception("%s failed", self.engine.name)
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
            raise ServerUnavailable(f"{self.engine.name} failed: {problem}") from error

    async def _settling(self, work: Callable[[], Awaitable[Any]], pending: Pending[Any]) -> Any:
        """Do the work of a pending result; if the engine cancels it and nobody else did, the engine has failed."""
        soon = self._loop.call_later(SOON, self._tell, pending)
        try:
            return await self._told(work)
        except asyncio.CancelledError:
            if self._closed:
                raise self._is_closed() from None
            if pending.cancelled():
                raise
            raise ServerUnavailable(f"{self.engine.name} failed: it cancelled the request") from None
        finally:
            soon.cancel()

    def _tell(self, pending: Pending[Any]) -> None:
        """Announce the wait, and check again later whether it goes on."""
        if pending.done() or self._closed:
            return
        if self._rarely.due(waits := self.waits_for()):
            log.warning("%s", waits)
        self._loop.call_later(RARELY, self._tell, pending)

    def _is_late(self, limit: float) -> NoAnswerInTime:
        return NoAnswerInTime(f"{self.engine.name}: no answer within {limit:.3g} s")

    def _is_closed(self) -> ServerUnavailable:
        return ServerUnavailable(f"{self.engine.name}: the language model is closed")

    def _start(self, work: Callable[[], Awaitable[Any]]) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        with self._lock:
            if self._closed:
                return Pending.failed(self._is_closed())
            self._since[pending] = time.monotonic()
            pending.add_done_callback(lambda done: self._since.pop(pending, None))
            future = asyncio.run_coroutine_threadsafe(self._settling(work, pending), self._loop)
        pass_on(future, pending)
        return pending
