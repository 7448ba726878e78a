"""Waits for a language model: how they are reported, and how long they may take by what was measured of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from reactree_ros.agent.text import approximate_tokens
from reactree_ros.llm.port import LanguageModel, Reply, Wait

#: Seconds until a wait is first reported, and until a log reports any wait again.
SOON, RARELY = 2.0, 30.0
_FRAME = 0.25  # seconds between two updates of a status line
log = logging.getLogger(__name__)
#: Seconds that a prompt token takes as long as nothing was measured: a small model on a busy CPU.
UNMEASURED = 0.05
#: A generated token takes as long as so many prompt tokens that are read together.
GENERATED = 8
#: Seconds within which a request comes as expected that time limits are set for.
USUAL = 120.0
#: How many times longer than expected a request may take, and how many times longer than its limit at most.
MARGIN, MOST = 3.0, 20.0
#: Tokens that a server with a prefix cache may read again: a block of the cache, and what its chat template adds.
READ_ANYWAY = 256
#: Prompts and measurements that are kept, the latest.
_KEPT = 16


class Rarely:
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
    while not wait([pending], _FRAME).done:
        show(words_of(model.waits_for()))


class Pace:
    """What was measured of a language model, and what is to be expected of it; any thread may ask.

    What a request takes is counted in prompt tokens that are read: those that no earlier prompt began with, and for
    each generated token some more.
    """

    def __init__(self) -> None:
        self._prompts: tuple[str, ...] = ()
        self._measured: tuple[float, ...] = ()  # seconds for each token read
        self._output: tuple[int, ...] = ()
        self._forgets = False  # whether it had to read a prompt again that it was sent before

    def times(self, prompt: str) -> float:
        """Return how many times its limit a request may take: 1 unless it is expected to take longer than usual."""
        return min(MOST, max(1.0, MARGIN * self._work(prompt) * self._slowest / USUAL))

    def learn(self, prompt: str, reply: Reply) -> None:
        unread, output = self._unread(prompt), reply.output_tokens or approximate_tokens(reply.text)
        if reply.prompt_tokens is not None and reply.cached_tokens is not None:
            read = reply.prompt_tokens - reply.cached_tokens
            self._forgets = read > 2 * unread + READ_ANYWAY
            unread = read
        self._prompts = (*self._prompts, prompt)[-_KEPT:]
        self._output = (*self._output, output)[-_KEPT:]
        self._measure(reply.seconds, unread + GENERATED * output)

    def late(self, prompt: str, seconds: float) -> None:
        """Give the next one longer: a reply did not come in that time."""
        work = self._work(prompt)
        self._measure(max(seconds, 2 * work * self._slowest), work)

    @property
    def _slowest(self) -> float:
        return max(self._measured, default=UNMEASURED)

    def _measure(self, seconds: float, work: int) -> None:
        if work > 0:
            self._measured = (*self._measured, seconds / work)[-_KEPT:]

    def _work(self, prompt: str) -> int:
        return self._unread(prompt) + GENERATED * max(self._output, default=0)

    def _unread(self, prompt: str) -> int:
        """Return how many tokens of a prompt are new: those after the beginning that it shares with earlier ones."""
        if self._forgets or not self._prompts:
            return approximate_tokens(prompt)
        longest = max((one for one in self._prompts if prompt.startswith(one)), key=len, default="")
        shared = len(longest) or _shared(prompt, self._prompts[-1])
        return approximate_tokens(prompt[shared:])


def _shared(prompt: str, other: str) -> int:
    """Return how many characters two prompts have in common at their beginning, by halves: one by one takes long."""
    low, high = 0, min(len(prompt), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if prompt.startswith(other[low:middle], low) else (low, middle - 1)
    return low
