"""A result that is on its way: what both ports return, so that a tick never waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TypeVar

T = TypeVar("T")


class Pending(Future[T]):
    """A result that can be polled and cancelled.

    It is a :class:`concurrent.futures.Future` that stays cancellable until it is settled, because what it stands
    for (a generation on a server, a goal of a robot) can be stopped while it runs. Whoever produces the result
    calls :meth:`succeed` or :meth:`fail`; both are ignored after a cancellation, so a late answer does no harm.

    Args:
        on_cancel: Called once, when the result is cancelled before it is settled.
    """

    def __init__(self, on_cancel: Callable[[], object] | None = None) -> None:
        super().__init__()
        if on_cancel is not None:
            self.add_done_callback(lambda _: on_cancel() if self.cancelled() else None)

    @classmethod
    def of(cls, value: T) -> Pending[T]:
        """Return a pending result that is there already."""
        pending = cls()
        pending.set_result(value)
        return pending

    @classmethod
    def failed(cls, error: BaseException) -> Pending[T]:
        """Return a pending result that has failed already."""
        pending = cls()
        pending.set_exception(error)
        return pending

    def succeed(self, value: T) -> bool:
        """Settle with a value; returns False where it was settled or cancelled before."""
        try:
            self.set_result(value)
        except InvalidStateError:
            return False
        return True

    def fail(self, error: BaseException) -> bool:
        """Settle with an error; returns False where it was settled or cancelled before."""
        try:
            self.set_exception(error)
        except InvalidStateError:
            return False
        return True

    def take(self) -> T:
        """Return the value of a settled result without waiting.

        Raises:
            TimeoutError: The result is not there yet.
            concurrent.futures.CancelledError: It was cancelled.
            BaseException: The error it failed with.
        """
        if not self.done():
            raise TimeoutError("the result is not there yet")
        return self.result()


def pass_on(source: Future[T], target: Pending[T]) -> None:
    """Settle a pending result as another one is settled; cancelling it cancels the other one.

    Where the source is cancelled by somebody else, the target is cancelled, too.
    """

    def settle(done: Future[T]) -> None:
        if done.cancelled():
            target.cancel()
        elif (error := done.exception()) is not None:
            target.fail(error)
        else:
            target.succeed(done.result())

    target.add_done_callback(lambda _: source.cancel() if target.cancelled() else None)
    source.add_done_callback(settle)
