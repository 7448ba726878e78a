"""Limits the requests that a language model answers at once; planners take turns."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.llm.port import Around, DecisionRequest, LanguageModel, NoAnswerInTime, Reply


class FairQueue(Around):
    """A language model with a limit on requests at once, and a queue in front of it.

    Planners with waiting requests take turns, and a planner's requests keep their order. Waiting here counts against
    the asker's patience.
    """

    def __init__(self, model: LanguageModel, at_most: int) -> None:
        if at_most < 1:
            raise ValueError(f"at_most is {at_most}; it must be at least 1")
        super().__init__(model)
        self.running = 0
        self._at_most = at_most
        self._lock = threading.Lock()
        self._here = threading.local()
        self._queues: dict[str, deque[tuple[DecisionRequest, float, Pending[Reply]]]] = {}  # the next planner first

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        with self._lock:
            return sum(not pending.done() for queue in self._queues.values() for *_, pending in queue)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Answer now, or when it is the planner's turn; a request that is cancelled while it waits is never sent."""
        pending: Pending[Reply] = Pending()
        with self._lock:
            self._queues.setdefault(request.planner, deque()).append((request, time.monotonic(), pending))
        self._go_on()
        return pending

    def _go_on(self) -> None:
        """Send requests while there is room and something waits."""
        if getattr(self._here, "asking", False):  # a reply came at once; the loop below continues after it
            return
        self._here.asking = True
        try:
            while (first := self._next()) is not None:
                request, pending = first
                try:
                    if request.patience <= 0:
                        raise NoAnswerInTime(
                            "the language model was busy with other requests until the patience for this one ended"
                        )
                    answer = self.model.decide(request)
                except Exception as error:
                    answer = Pending.failed(error)
                pass_on(answer, pending)
                answer.add_done_callback(self._ended)
        finally:
            self._here.asking = False

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
        """Return the model's status, and how many requests run and wait."""
        return {**self.model.status(), "requests running": str(self.running), "requests waiting": str(self.waiting)}
