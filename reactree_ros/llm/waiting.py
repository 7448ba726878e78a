"""Says what is waited for, before somebody wonders: soon, and then rarely."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from reactree_ros.llm.port import LanguageModel, Wait

#: After how many seconds a wait is told, and after how many more a log has the next line of any wait.
SOON, RARELY = 2.0, 30.0
_FRAME = 0.25  # seconds between two looks where a line is kept up to date
log = logging.getLogger(__name__)


class Rarely:
    """Decides when a log has a line of a wait.

    Args:
        clock: Seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")

    def due(self, waits: Wait | None) -> bool:
        """Whether a wait is to be told now; it then counts as told."""
        if waits is None or waits.seconds < SOON or self._clock() < self._next:
            return False
        self._next = self._clock() + RARELY
        return True


def words_of(waits: Wait | None) -> str:
    """Say what is waited for; empty where it is not worth a word yet."""
    return str(waits) if waits is not None and waits.seconds >= SOON else ""


@contextmanager
def kept_out_of_the_log(shown: bool = True) -> Iterator[None]:
    """Keep waits out of the log, if a line that is kept up to date shows them."""
    before = log.disabled
    log.disabled = shown or before
    try:
        yield
    finally:
        log.disabled = before


def shown_while(pending: Future[Any], model: LanguageModel, show: Callable[[str], object]) -> None:
    """Wait until a result is there, and show meanwhile what the language model waits for.

    Args:
        pending: The result.
        model: What makes it, in a time that it bounds.
        show: Shows words; empty ones are for nothing.
    """
    while not wait([pending], _FRAME).done:
        show(words_of(model.waits_for()))
