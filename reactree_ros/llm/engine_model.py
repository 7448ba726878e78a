"""A language model on top of an engine: a time limit, an event loop in its own thread, and a queue in front."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from reactree_ros.background.pending import Pending, asked, pass_on
from reactree_ros.errors import UserError
from reactree_ros.llm.decoding import Method, decode, form_of, method_for
from reactree_ros.llm.engine import Engine
from reactree_ros.llm.port import (
    Around,
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
from reactree_ros.llm.waiting import RARELY, SOON, Pace, Rarely, log

T = TypeVar("T")
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
        return self._start(partial(self._answer, request))

    def ready(self) -> Pending[None]:
        return self._start(self._open)

    def count_tokens(self, text: str) -> int | None:
        return self.engine.count_tokens(text)

    def slowness(self, request: DecisionRequest) -> float:
        return self._pace.times(request.prompt)

    def waits_for(self) -> Wait | None:
        since = next(iter(tuple(self._since.values())), None)
        return None if since is None else Wait(self.engine.name, time.monotonic() - since)

    def status(self) -> Mapping[str, str]:
        engine = self.engine
        method = self._method or method_for(engine.constraints)
        return {
            "engine": engine.name,
            "constraints": ", ".join(sorted(kind.value for kind in engine.constraints)) or "none",
            "method": method.value,
            "form": form_of(method, engine.constraints).value,
            "context in tokens": "unknown" if engine.context is None else str(engine.context),
            **engine.status(),
        }

    def close(self) -> None:
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

        async def decoded() -> Reply:
            await self._open()
            asked = partial(decode, self.engine, request, method=self._method, retries=self._retries, usage=usage)
            return await self._in_time(asked, limit)

        try:
            if self.engine.loads:
                await self._open()
            reply = await self._in_time(decoded, request.patience)
            self._pace.learn(request.prompt, reply)
            return reply
        except LanguageModelError as error:
            if isinstance(error, NoAnswerInTime):
                self._pace.late(request.prompt, limit)
            error.took = usage.took(str(error))
            raise
        except UserError as error:  # a wrong setting may show only when the engine opens
            raise RequestRejected(str(error)) from error

    async def _in_time(self, work: Callable[[], Awaitable[T]], limit: float) -> T:
        try:
            return await asyncio.wait_for(self._begun(self._working(work)), limit)
        except asyncio.TimeoutError:  # this limit; the engine reports its own as a failure
            raise NoAnswerInTime(f"{self.engine.name}: no answer within {limit:.3g} s") from None

    async def _open(self) -> None:
        if self._opening is None or (self._opening.done() and (self.engine.lost or self._failed(self._opening))):
            self._opening = self._begun(self._opened())
        await asyncio.shield(self._opening)

    async def _opened(self) -> None:
        """Open the engine; unless it loads a model, within a time limit that begins again with each answer to a trial.

        All trials together have :data:`TRIALS` times the limit.
        """
        if self.engine.loads:
            await self.engine.open()
            return
        limit, tried = self._request_timeout, None
        opening = self._begun(self._working(self.engine.open))
        end = self._loop.time() + TRIALS * limit
        try:
            while not opening.done() and self.engine.tried is not tried and (left := end - self._loop.time()) > 0:
                tried = self.engine.tried
                await asyncio.wait((opening,), timeout=min(limit, left))
            if not opening.done() and self._loop.time() < end:
                raise NoAnswerInTime(f"{self.engine.name}: no answer within {limit:.3g} s")
            if not opening.done():
                late = f"it answers, but was not tried out within {TRIALS * limit:.3g} s"
                raise NoAnswerInTime(f"{self.engine.name}: {late}")
        finally:
            opening.cancel()
            await asyncio.wait((opening,))
        opening.result()

    def _begun(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin work whose error counts as read even if nobody waits any more: asyncio would log it."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._failed)
        return task

    @staticmethod
    def _failed(task: asyncio.Task[Any]) -> bool:
        return task.cancelled() or task.exception() is not None

    async def _working(self, work: Callable[[], Awaitable[T]]) -> T:
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

    async def _settling(self, work: Callable[[], Awaitable[T]], pending: Pending[T]) -> T:
        """Do the work of a pending result; if the engine cancels it and nobody else did, the engine has failed."""
        soon = self._loop.call_later(SOON, self._announce, pending)
        try:
            return await self._working(work)
        except BaseException as error:
            if pending.cancelled():  # nobody reads the error any more, and asyncio would log it
                raise asyncio.CancelledError from None
            if not isinstance(error, asyncio.CancelledError):
                raise
            if self._closed:
                raise self._is_closed() from None
            raise ServerUnavailable(f"{self.engine.name} failed: it cancelled the request") from None
        finally:
            soon.cancel()

    def _announce(self, pending: Pending[Any]) -> None:
        if pending.done() or self._closed:
            return
        if self._rarely.due(waits := self.waits_for()):
            log.warning("%s", waits)
        self._loop.call_later(RARELY, self._announce, pending)

    def _is_closed(self) -> ServerUnavailable:
        return ServerUnavailable(f"{self.engine.name}: the language model is closed")

    def _start(self, work: Callable[[], Awaitable[T]]) -> Pending[T]:
        pending: Pending[T] = Pending()
        with self._lock:
            if self._closed:
                return Pending.failed(self._is_closed())
            self._since[pending] = time.monotonic()
            pending.add_done_callback(lambda done: self._since.pop(pending, None))
            future = asyncio.run_coroutine_threadsafe(self._settling(work, pending), self._loop)
        pass_on(future, pending)
        return pending


class FairQueue(Around):
    """A language model with a limit on requests at once, and a queue in front of it.

    Planners with waiting requests take turns, and a planner's requests keep their order. Waiting here counts against
    the asker's patience.
    """

    def __init__(self, model: LanguageModel, at_most: int) -> None:
        super().__init__(model)
        self.running = 0
        self._at_most = at_most
        self._lock = threading.Lock()
        self._here = threading.local()
        self._queues: dict[str, deque[tuple[DecisionRequest, float, Pending[Reply]]]] = {}  # the next planner first

    @property
    def waiting(self) -> int:
        with self._lock:
            return sum(not pending.done() for queue in self._queues.values() for *_, pending in queue)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending: Pending[Reply] = Pending()
        with self._lock:
            self._queues.setdefault(request.planner, deque()).append((request, time.monotonic(), pending))
        self._go_on()
        return pending

    def _go_on(self) -> None:
        if getattr(self._here, "asking", False):  # a reply came at once; the loop below continues after it
            return
        self._here.asking = True
        try:
            while (first := self._next()) is not None:
                request, pending = first
                answer = asked(self._ask, request)
                pass_on(answer, pending)
                answer.add_done_callback(self._ended)
        finally:
            self._here.asking = False

    def _ask(self, request: DecisionRequest) -> Pending[Reply]:
        if request.patience <= 0:
            busy = "the language model was busy with other requests until the patience for this one ended"
            return Pending.failed(NoAnswerInTime(busy))
        return self.model.decide(request)

    def _next(self) -> tuple[DecisionRequest, Pending[Reply]] | None:
        with self._lock:
            while self.running < self._at_most and self._queues:
                planner = next(iter(self._queues))
                queue = self._queues.pop(planner)
                request, since, pending = queue.popleft()
                if queue:
                    self._queues[planner] = queue  # to the end of the queue
                if not pending.done():
                    self.running += 1
                    return replace(request, patience=request.patience - (time.monotonic() - since)), pending
        return None

    def _ended(self, _: object) -> None:
        with self._lock:
            self.running -= 1
        self._go_on()

    def status(self) -> Mapping[str, str]:
        return {**self.model.status(), "requests running": str(self.running), "requests waiting": str(self.waiting)}
