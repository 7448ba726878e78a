"""Several language models in order: if one fails or takes too long, the next one answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field, model_validator

from reactree_ros.background.pending import Pending, asked, in_time, stepwise
from reactree_ros.errors import UserError
from reactree_ros.llm.engine_settings import EngineSettings
from reactree_ros.llm.port import (
    DecisionRequest,
    InvalidReply,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
    RequestRejected,
    ServerUnavailable,
    Wait,
)
from reactree_ros.llm.spec import ModelSpec, make_model, model_from_dict, reaching_of_model, read_yaml
from reactree_ros.plugins.settings import Harmless, Settings

#: How long a model that failed is skipped, in seconds.
REST = 30.0
#: Share of the asker's patience that the models may use, so that the last failure still arrives in time.
_SHARE = 0.95


@dataclass(frozen=True)
class Backup:
    model: LanguageModel
    name: str  # its name in replies, errors and diagnostics
    time_limit: float  # longest wait for its answer, in seconds; the asker's patience may shorten it


class FallbackModel(LanguageModel):
    """Asks language models in order until one answers; the reply says which.

    A model that failed rests for a while, so that a dead one does not cost its time limit at every decision. If all
    rest, all are asked. A model does not rest if the prompt was too long for it, or if its reply was not allowed.

    If no model answers, the failure sums theirs up: :class:`PromptTooLong` if one would take a shorter prompt,
    :class:`ServerUnavailable` if none was reachable.
    """

    def __init__(self, backups: Sequence[Backup], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.backups = tuple(backups)
        self.clock = clock
        self.rests_until = [0.0] * len(backups)
        self.answered = [0] * len(backups)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return stepwise(self._asked(request))

    def _asked(self, request: DecisionRequest) -> Generator[Pending[Reply], Reply, Reply]:
        """Ask one model after the other; those that are left share the time left of the asker's patience."""
        now = self.clock()
        order = [number for number, until in enumerate(self.rests_until) if until <= now] or [*range(len(self.backups))]
        errors: list[Exception] = []
        used: list[Reply] = []  # what those that failed used
        objected: tuple[int, Reply] | None = None  # who made a reply that was not allowed: better than nothing
        while order:
            left = (now + request.patience * _SHARE - self.clock()) / len(order)
            number = order.pop(0)
            backup = self.backups[number]
            limit = max(0.0, min(backup.time_limit * backup.model.slowness(request), left))
            late = NoAnswerInTime(f"no answer within {limit:.3g} s")
            try:
                reply = yield in_time(asked(backup.model.decide, replace(request, patience=limit)), limit, late)
            except Exception as error:
                if not isinstance(error, (InvalidReply, PromptTooLong)):
                    self.rests_until[number] = self.clock() + REST
                errors.append(_named(backup.name, error))
                used += [took for took in (getattr(error, "took", None),) if took is not None]
                continue
            reply = replace(reply, answered_by=backup.name)
            if not reply.objection:
                return self._answer(number, reply, used)
            objected = objected or (number, reply)
            used.append(reply)
        if objected is not None:
            return self._answer(*objected, used)
        failure = _all_failed(errors)
        if used and isinstance(failure, LanguageModelError):
            failure.took = Reply("").with_used(used)
        raise failure

    def _answer(self, number: int, reply: Reply, used: Sequence[Reply]) -> Reply:
        self.answered[number] += 1
        others = [one for one in used if one is not reply]
        return reply.with_used(others) if others else reply

    def ready(self) -> Pending[None]:
        pending: Pending[None] = Pending()
        lock, errors = threading.Lock(), list[str]()

        def settled(name: str, done: Future[None]) -> None:
            error = "was closed" if done.cancelled() else done.exception()
            if error is None:
                pending.succeed(None)
                return
            with lock:
                errors.append(f"{name}: {error}")
            if len(errors) == len(self.backups):
                pending.fail(ServerUnavailable(f"no language model is ready: {'; '.join(errors)}"))

        for backup in self.backups:
            backup.model.ready().add_done_callback(partial(settled, backup.name))
        return pending

    def count_tokens(self, text: str) -> int | None:
        return self.backups[0].model.count_tokens(text)

    def slowness(self, request: DecisionRequest) -> float:
        return max(backup.model.slowness(request) for backup in self.backups)

    def waits_for(self) -> Wait | None:
        waits = [one for backup in self.backups if (one := backup.model.waits_for()) is not None]
        return max(waits, key=lambda one: one.seconds, default=None)

    def status(self) -> Mapping[str, str]:
        now, status = self.clock(), {}
        for number, backup in enumerate(self.backups):
            rests = ", rests after a failure" if self.rests_until[number] > now else ""
            status[backup.name] = f"{self.answered[number]} answers{rests}"
            status |= {f"{backup.name}: {key}": value for key, value in backup.model.status().items()}
        return status

    def close(self) -> None:
        for backup in self.backups:
            backup.model.close()


def _named(name: str, error: Exception) -> Exception:
    if isinstance(error, PromptTooLong):
        return error
    if isinstance(error, CancelledError):
        error = ServerUnavailable("it cancelled its own reply")
    kinds = (InvalidReply, RequestRejected, NoAnswerInTime)
    return next((kind for kind in kinds if isinstance(error, kind)), ServerUnavailable)(f"{name}: {error}")


def _all_failed(errors: Sequence[Exception]) -> Exception:
    """Sum up all failures: a prompt to shorten, a reply to refuse, a late one (which is not gone), or nobody there."""
    too_long = [error for error in errors if isinstance(error, PromptTooLong)]
    if too_long:
        return min(too_long, key=lambda error: error.excess)
    message = f"no language model answered: {'; '.join(map(str, errors))}"
    for kind in (InvalidReply, NoAnswerInTime):
        if any(isinstance(error, kind) for error in errors):
            return kind(message)
    rejected = all(isinstance(error, RequestRejected) for error in errors)
    return RequestRejected(message) if rejected else ServerUnavailable(message)


def _all_harmless(models: Any) -> bool:
    return isinstance(models, list | tuple) and all(not reaching_of_model(one) for one in models)


class FallbackSettings(Settings):
    """The language models to ask, in order."""

    models: Annotated[tuple[dict[str, Any], ...], Harmless(_all_harmless)] = Field(
        default=(),
        description="the language models, the best first, each as {llm: NAME, SETTING: VALUE, ...}; "
        "each leaves those after it their share of the time",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_models(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Not in a field validator: its error would repeat the value, which may hold a key.
        given = values.get("models", ())
        models = (read_yaml(given) if isinstance(given, str) else given) or ()
        if not isinstance(models, (list, tuple)):
            raise ValueError("models must be a list, one language model an entry: [{llm: openai}, {llm: expert}]")
        try:
            _chosen(models)
        except UserError as error:
            raise ValueError(str(error)) from error
        return {**values, "models": tuple(models)}


def _chosen(models: Iterable[Any]) -> list[tuple[ModelSpec, Settings]]:
    chosen = [model_from_dict(values, where=f"models.{number}") for number, values in enumerate(models)]
    if any(spec.name == "fallback" for spec, _ in chosen):
        raise UserError("a fallback cannot stand in a fallback; list the models themselves")
    return chosen


def _make(settings: FallbackSettings) -> FallbackModel:
    if not settings.models:
        raise UserError("llm is 'fallback', but models is empty; list the language models in order")
    return FallbackModel([_backup(spec, one) for spec, one in _chosen(settings.models)])


def _backup(spec: ModelSpec, settings: Settings) -> Backup:
    limit = getattr(settings, "request_timeout", EngineSettings.model_fields["request_timeout"].default)
    name = " ".join(part for part in (spec.name, getattr(settings, "model", "")) if part)
    return Backup(make_model(spec, settings), name, limit)


SPEC = ModelSpec(
    name="fallback",
    summary="several language models in order: the next one answers if one fails",
    settings=FallbackSettings,
    make=_make,
)
