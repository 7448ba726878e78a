"""Several language models in order: the next one answers where one fails or takes too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from reactree_ros.llm.port import DecisionRequest, LanguageModel, LanguageModelError, PromptTooLong, Reply
from reactree_ros.pending import Pending, pass_on

#: How long a model that could not answer is passed over, in seconds.
REST = 30.0


@dataclass(frozen=True)
class Backup:
    """One of several language models.

    Attributes:
        model: Answers.
        name: Its name in replies, errors and diagnostics.
        time_limit: Longest wait for its answer, in seconds.
    """

    model: LanguageModel
    name: str
    time_limit: float


class FallbackModel(LanguageModel):
    """Asks language models in order until one answers; the reply says which.

    A model that failed is passed over for a while, so that one that is gone does not cost its time limit at every
    decision; where all rest, all are asked. A prompt that is too long for one may fit the next one; it is no reason
    to rest.

    Args:
        backups: The language models, the best first.
        clock: Seconds, never going back.
    """

    def __init__(self, backups: Sequence[Backup], *, clock: Callable[[], float] = time.monotonic) -> None:
        if not backups:
            raise ValueError("there is no language model; give at least one")
        self._backups = tuple(backups)
        self._clock = clock
        self._rests_until = [0.0] * len(backups)
        self._answered = [0] * len(backups)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Ask the first; cancelling stops whoever is answering."""
        pending: Pending[Reply] = Pending()
        now = self._clock()
        order = [number for number, until in enumerate(self._rests_until) if until <= now]
        self._ask(request, pending, order or list(range(len(self._backups))), [])
        return pending

    def _ask(
        self, request: DecisionRequest, pending: Pending[Reply], order: Sequence[int], errors: list[Exception]
    ) -> None:
        if pending.done():
            return
        if not order:
            pending.fail(self._all_failed(errors))
            return
        number, *others = order
        backup = self._backups[number]
        try:
            answer = backup.model.decide(request)
        except Exception as error:
            answer = Pending.failed(error)
        one: Pending[Reply] = Pending()  # of this model within its time limit
        pass_on(answer, one)
        late = LanguageModelError(f"no answer within {backup.time_limit:g} s")
        timer = threading.Timer(backup.time_limit, lambda: one.fail(late))
        timer.daemon = True

        def ended(done: Pending[Reply]) -> None:
            timer.cancel()
            if done.cancelled():
                pending.cancel()
                return
            error = done.exception()
            if error is None and not (done.result().objection and others):
                self._answered[number] += 1
                pending.succeed(replace(done.result(), answered_by=backup.name))
                return
            answer.cancel()
            if error is None:  # it answered, though with no decision that may be said
                error = LanguageModelError(done.result().objection)
            elif not isinstance(error, PromptTooLong):
                self._rests_until[number] = self._clock() + REST
            wrapped = error if isinstance(error, PromptTooLong) else LanguageModelError(f"{backup.name}: {error}")
            self._ask(request, pending, others, [*errors, wrapped])

        pending.add_done_callback(lambda _: one.cancel() if pending.cancelled() else None)
        one.add_done_callback(ended)  # type: ignore[arg-type]
        if not one.done():
            timer.start()

    @staticmethod
    def _all_failed(errors: Sequence[Exception]) -> Exception:
        too_long = [error for error in errors if isinstance(error, PromptTooLong)]
        if too_long:
            return min(too_long, key=lambda error: error.excess)
        return LanguageModelError(f"no language model answered: {'; '.join(map(str, errors))}")

    def ready(self) -> Pending[None]:
        """Start getting all of them ready; settled when one is, failed where none ever will be."""
        pending: Pending[None] = Pending()
        lock, errors = threading.Lock(), list[str]()

        def settled(name: str, done: Future[None]) -> None:
            error = "was closed" if done.cancelled() else done.exception()
            if error is None:
                pending.succeed(None)
                return
            with lock:
                errors.append(f"{name}: {error}")
            if len(errors) == len(self._backups):
                pending.fail(LanguageModelError(f"no language model is ready: {'; '.join(errors)}"))

        for backup in self._backups:
            backup.model.ready().add_done_callback(partial(settled, backup.name))
        return pending

    def count_tokens(self, text: str) -> int | None:
        """Count with the first one's tokenizer."""
        return self._backups[0].model.count_tokens(text)

    def status(self) -> Mapping[str, str]:
        """Say who has answered how often, and who rests."""
        now, status = self._clock(), {}
        for number, backup in enumerate(self._backups):
            rests = ", rests after a failure" if self._rests_until[number] > now else ""
            status[backup.name] = f"{self._answered[number]} answers{rests}"
            status |= {f"{backup.name}: {key}": value for key, value in backup.model.status().items()}
        return status

    def close(self) -> None:
        """Release all of them."""
        for backup in self._backups:
            backup.model.close()
