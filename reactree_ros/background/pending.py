"""A result that is on its way: both ports return it, so that a tick never waits."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_log = logging.getLogger(__name__)


class Pending(Future[T]):
    """A result that can be polled and cancelled.

    It is a :class:`concurrent.futures.Future` that stays cancellable until it is settled, because its work (a
    generation on a server, a goal of a robot) can be stopped while it runs. The producer calls :meth:`succeed` or
    :meth:`fail`. Both are ignored after a cancellation, so a late answer does no harm.

    Args:
        on_cancel: Called once, if the result is cancelled before it is settled.
    """

    def __init__(self, on_cancel: Callable[[], object] | None = None) -> None:
        super().__init__()
        if on_cancel is not None:
            self.add_done_callback(lambda _: on_cancel() if self.cancelled() else None)

    @classmethod
    def ready(cls, value: T) -> Pending[T]:
        pending = cls()
        pending.set_result(value)
        return pending

    @classmethod
    def failed(cls, error: BaseException) -> Pending[T]:
        pending = cls()
        pending.set_exception(error)
        return pending

    def succeed(self, value: T) -> bool:
        """Settle with a value; return False if it was settled or cancelled before."""
        try:
            self.set_result(value)
        except InvalidStateError:
            return False
        return True

    def fail(self, error: BaseException) -> bool:
        try:
            self.set_exception(error)
        except InvalidStateError:
            return False
        return True

    def take(self) -> T:
        """Return the value of a settled result without waiting, or raise its error; TimeoutError if it is not there."""
        if not self.done():
            raise TimeoutError("the result is not there yet")
        return self.result()


def asked(ask: Callable[P, Pending[T]], *given: P.args, **named: P.kwargs) -> Pending[T]:
    """Call what returns a pending result. If it raises at once, or returns something else, the result fails."""
    try:
        pending = ask(*given, **named)
        if not isinstance(pending, Future):
            name = getattr(ask, "__qualname__", ask)
            raise TypeError(f"{name} returned a {type(pending).__name__}, no pending result: use Pending.ready(value)")
        return pending
    except Exception as error:
        return Pending.failed(error)


def settle_as(done: Future[Any], target: Pending[T], read: Callable[[Any], T] = lambda value: value) -> None:
    if done.cancelled():
        target.cancel()
        return
    try:
        target.succeed(read(done.result()))
    except BaseException as error:
        target.fail(error)


def pass_on(source: Future[T], target: Pending[T]) -> None:
    """Settle a pending result like another one; cancelling it cancels the other one.

    If somebody else cancels the source, the target is cancelled, too.
    """
    target.add_done_callback(lambda _: source.cancel() if target.cancelled() else None)
    source.add_done_callback(lambda done: settle_as(done, target))


def mapped(source: Pending[Any], function: Callable[[Any], T]) -> Pending[T]:
    pending: Pending[T] = Pending(on_cancel=source.cancel)
    source.add_done_callback(lambda done: None if done.cancelled() else settle_as(done, pending, function))
    return pending


def after(first: Future[Any], ask: Callable[[], Pending[T]]) -> Pending[T]:
    """Ask a port once something else has ended, however it did; nothing is asked if it is cancelled before."""
    if first.done():
        return asked(ask)
    pending: Pending[T] = Pending()
    first.add_done_callback(lambda _: None if pending.done() else pass_on(asked(ask), pending))
    return pending


def followed(first: Pending[Any], then: Callable[[Any], Pending[T]]) -> Pending[T]:
    """Return what comes of one pending result and then of another; cancelling it cancels the one that is waited for."""

    def program() -> Generator[Pending[Any], Any, T]:
        end: T = yield asked(then, (yield first))
        return end

    return stepwise(program())


def stepwise(program: Generator[Pending[Any], Any, T]) -> Pending[T]:
    """Run a program that yields what it waits for; returns what it returns.

    Cancelling that cancels what is awaited, and closes the program.
    """
    awaited: Pending[Any] = Pending.ready(None)
    outcome = Pending[T]()
    outcome.add_done_callback(lambda done: awaited.cancel() if done.cancelled() else None)

    def go_on(step: Future[Any]) -> None:
        nonlocal awaited
        while not outcome.done():  # a loop, as very many steps may be there at once
            try:
                problem = CancelledError() if step.cancelled() else step.exception()
                step = awaited = program.send(step.result()) if problem is None else program.throw(problem)
            except StopIteration as end:
                outcome.succeed(end.value)
            except Exception as error:
                outcome.fail(error)
            else:
                if outcome.cancelled():  # meanwhile, by another thread
                    step.cancel()
                elif not step.done():
                    step.add_done_callback(go_on)
                    return
        program.close()

    go_on(awaited)
    return outcome


class _Alarms:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, weakref.ref[Pending[Any]], Callable[[Pending[Any]], object]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def set(self, seconds: float, pending: Pending[Any], call: Callable[[Pending[Any]], object]) -> None:
        with self._changed:
            if self._thread is None or not self._thread.is_alive():  # a fork has no other threads
                self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
                self._thread.start()
            due = (time.monotonic() + seconds, next(self._numbers), weakref.ref(pending), call)
            heapq.heappush(self._due, due)
            if self._due[0] is due:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or (left := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX) if self._due else None)
                _, _, watched, call = heapq.heappop(self._due)
            try:
                if (late := watched()) is not None and not late.done():
                    call(late)
                del late
            except Exception:
                _log.exception("what was to be called after a time failed")


_alarms = _Alarms()


def where_late(pending: Pending[T], seconds: float, call: Callable[[Pending[T]], object]) -> None:
    """Call a function with a pending result if it is not settled in time; from another thread.

    There is one thread for all results, so the function must return at once.
    """
    if not pending.done():
        _alarms.set(seconds, pending, call)


def give_up_after(pending: Pending[Any], seconds: float, error: Callable[[], BaseException]) -> None:
    """Fail a pending result if it is not settled in time; the caller must cancel its work."""
    where_late(pending, seconds, lambda late: late.fail(error()))


def in_time(source: Pending[T], seconds: float, late: BaseException) -> Pending[T]:
    """Return a result that fails, in a thread of its own, if another one is not settled in time; that is cancelled."""
    pending: Pending[T] = Pending()
    pass_on(source, pending)
    pending.add_done_callback(lambda _: source.cancel())
    where_late(pending, seconds, lambda it: threading.Thread(target=it.fail, args=(late,), daemon=True).start())
    return pending


class Stopped(Exception):
    """A worker's current work was cancelled."""


class Worker:
    """Does its work in order, in a thread of its own that does not keep the process alive.

    Work cancelled before its turn is skipped. Work cancelled while it runs stops at the next :meth:`check_wanted`;
    without one it runs to its end unheard, so it needs its own time limit.

    Args:
        name: Name of the thread.
        error: Class of the error for work after :meth:`close` or :meth:`give_up`.
    """

    def __init__(self, name: str, error: type[Exception] = RuntimeError) -> None:
        self._error = error
        self.lost = ""  # why no more work is accepted
        self._name = name
        self._queue: queue.SimpleQueue[tuple[Pending[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._open: set[Pending[Any]] = set()
        self._current: Pending[Any] = Pending()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], T]) -> Pending[T]:
        """Do something in its turn; the pending result settles in the worker's thread.

        After :meth:`close` or :meth:`give_up` it fails with the worker's error.
        """
        pending: Pending[T] = Pending()
        with self._lock:
            if self.lost:
                return Pending.failed(self._error(self.lost))
            self._open.add(pending)
            self._queue.put((pending, work))
        pending.add_done_callback(lambda _: self._open.discard(pending))
        return pending

    def check_wanted(self) -> None:
        """Check, in the worker's thread, whether the current work is still wanted. Raises Stopped."""
        if self._current.done():
            raise Stopped

    def at_rest(self) -> Pending[None]:
        return self.do(lambda: None)

    def give_up(self, reason: str) -> None:
        """Fail all current and future work, from any thread; the first reason counts."""
        with self._lock:
            self.lost = self.lost or reason
            left = list(self._open)
        for pending in left:
            pending.fail(self._error(self.lost))
        self._queue.put(None)

    def close(self, last: Callable[[], object] = lambda: None) -> Pending[object]:
        """End the thread after its work and one last thing; return the result of the last thing."""
        ended: Pending[object] = Pending()
        with self._lock:
            if self.lost:
                return Pending.failed(self._error(self.lost))
            self.lost = f"{self._name} was closed"
            self._queue.put((ended, last))
            self._queue.put(None)
        return ended

    def _run(self) -> None:
        while (given := self._queue.get()) is not None:
            pending, work = given
            if pending.done():
                continue
            self._current = pending
            try:
                pending.succeed(work())
            except Stopped:
                continue
            except Exception as error:
                pending.fail(error)


def in_a_thread(work: Callable[[], T], name: str) -> Pending[T]:
    """Do something in a thread of its own that does not keep the process alive."""
    pending: Pending[T] = Pending()

    def do() -> None:
        try:
            pending.succeed(work())
        except BaseException as error:
            pending.fail(error)

    threading.Thread(target=do, name=name, daemon=True).start()
    return pending
