"""Reports waits: soon after they begin, and then rarely."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from reactree_ros.llm.port import LanguageModel, Wait

#: Seconds until a wait is first reported, and until a log reports any wait again.
SOON, RARELY = 2.0, 30.0
_FRAME = 0.25  # seconds between two updates of a status line
log = logging.getLogger(__name__)


class Rarely:
    """Decides when a log reports a wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")

    def due(self, waits: Wait | None) -> bool:
        """Return whether to report a wait now; it then counts as reported."""
        if waits is None or waits.seconds < SOON or self._clock() < self._next:
            return False
        self._next = self._clock() + RARELY
        return True


def words_of(waits: Wait | None) -> str:
    """Describe a wait; empty if it is too short to mention."""
    return str(waits) if waits is not None and waits.seconds >= SOON else ""


@contextmanager
def kept_out_of_the_log(shown: bool = True) -> Iterator[None]:
    """Keep waits out of the log while a status line shows them."""
    before = log.disabled
    log.disabled = shown or before
    try:
        yield
    finally:
        log.disabled = before


def shown_while(pending: Future[Any], model: LanguageModel, show: Callable[[str], object]) -> None:
    """Wait for a result, and show what the language model waits for."""
    while not wait([pending], _FRAME).done:
        show(words_of(model.waits_for()))
