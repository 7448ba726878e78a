"""The inference node: hosts a language model behind a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from reactree_interfaces.srv import AbortGeneration, Generate, ModelReady

from reactree_ros.background.pending import Pending
from reactree_ros.episode.telemetry import serving
from reactree_ros.files.secrecy import redacted, without_credentials
from reactree_ros.llm.engine_model import FairQueue
from reactree_ros.llm.port import LanguageModel, LanguageModelError, Reply
from reactree_ros.llm.spec import MODELS, load_models_file, make_model, model_to_dict
from reactree_ros.llm.waiting import Rarely, kept_out_of_the_log, words_of
from reactree_ros.nodes import steady
from reactree_ros.nodes.diagnostics import OK, STALE, WARN, Diagnostics, Report
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.lifecycle import ManagedNode, logged
from reactree_ros.nodes.messages import failed, named_values, reply_to_msg, request_from_msg
from reactree_ros.nodes.parameters import declare, declare_chosen, settings_of
from reactree_ros.nodes.settings import InferenceNodeSettings
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import settled

#: How long an abort may overtake its request, in seconds.
OVERTAKING = 1.0
_KINDS = (
    *("MODEL_ERROR", "ABORTED", "NOT_ACTIVE", "INVALID_REQUEST", "TIMEOUT", "PROMPT_TOO_LONG"),
    *("UNAVAILABLE", "REJECTED", "INVALID_REPLY"),
)
#: What an error code is called in a span.
_ERRORS = {getattr(Generate.Response, kind): kind.lower() for kind in _KINDS}


class InferenceNode(ManagedNode):
    """Hosts a language model, its parameters' or the given one; docs/reference/ros.md lists its endpoints."""

    serves: Mapping[str, Any] = {}  # no actions

    def __init__(self, name: str = "inference", *, model: LanguageModel | None = None, **kwargs: Any) -> None:
        self._given = model
        self._about: Mapping[str, Any] = {}  # name and settings; nothing for a given model
        self._trained_for: tuple[str, ...] = ()
        self._model: FairQueue | None = None
        self._ready: Pending[None] = Pending.ready(None)
        self._active = False
        self._running: dict[str, tuple[Pending[Reply], float]] = {}
        self._aborted: set[str] = set()
        self._overtaken: dict[str, float] = {}  # requests that were aborted before they came, and when
        self._refused = 0  # texts of the model that were not taken
        self._count = self._errors = self._prompt_tokens = self._cached_tokens = self._tokens = 0
        self._latency = 0.0
        self._seconds = 0.0  # from request to reply, of all that took tokens together
        self._answered_by = ""
        self._error = ""  # the error of the last request; empty: it was answered
        self._warning = ""  # of the first reply that had one
        self._rarely = Rarely()
        super().__init__(name, **kwargs)
        self.made.callback(self.release)
        declare(self, InferenceNodeSettings)
        declare_chosen(self, MODELS, settings_of(self, InferenceNodeSettings).llm)
        self.heartbeat = Heartbeat(self)
        Diagnostics(self, "requests", self._report)

    def prepare(self) -> None:
        model = self._given or self._make()
        at_once = settings_of(self, InferenceNodeSettings).max_concurrent
        self._model = model if isinstance(model, FairQueue) else FairQueue(model, at_once)
        self._ready = self._model.ready()

    def _make(self) -> LanguageModel:
        named = settings_of(self, InferenceNodeSettings)
        if named.models_file:
            spec, settings = load_models_file(named.models_file)
        else:
            settings = settings_of(self, (spec := MODELS.get(named.llm)).settings)
        self._about, self._trained_for = model_to_dict(spec, settings), spec.trained_for(settings)
        return make_model(spec, settings)

    def offer(self) -> None:
        group = ReentrantCallbackGroup()
        self.create_service(Generate, "~/generate", self._on_generate, callback_group=group)
        self.create_service(AbortGeneration, "~/abort", self._on_abort, callback_group=group)
        self.create_service(ModelReady, "~/ready", self._on_ready, callback_group=group)
        steady.every(self, 0.1, self._look_after)

    @logged
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        answer = self._on_ready(ModelReady.Request(), ModelReady.Response())
        if answer.state != ModelReady.Response.READY:
            log = self.get_logger()
            (log.info if answer.state == ModelReady.Response.LOADING else log.error)(answer.message)
            return TransitionCallbackReturn.FAILURE
        self._active = True
        return super().on_activate(state)

    def _on_ready(self, request: ModelReady.Request, response: ModelReady.Response) -> ModelReady.Response:
        if self._model is None:
            response.state, response.message = ModelReady.Response.NONE, "the inference node is not configured"
        elif not self._ready.done():
            response.state = ModelReady.Response.LOADING
            response.message = "the language model is being loaded; activate when ~/ready says that it is there"
        elif self._ready.cancelled() or (error := self._ready.exception()) is not None:
            response.state = ModelReady.Response.FAILED
            response.message = f"{'stopped' if self._ready.cancelled() else error}"
        else:
            response.state, response.message = ModelReady.Response.READY, self._model.status().get("engine", "")
        settings = without_credentials(self._about)
        response.settings, response.trained_for = named_values(settings), list(self._trained_for)
        return response

    def release(self) -> None:
        if self._model is not None:
            self._ready.cancel()
            self._model.close()
            self._model = None

    async def _on_generate(self, msg: Generate.Request, response: Generate.Response) -> Generate.Response:
        served = serving("generate", msg.trace)
        answer = await self._answer(msg, response)
        if served is not None:
            served.end(_ERRORS.get(answer.error_code, ""), {"reactree.answered_by": redacted(answer.answered_by)})
        return answer

    async def _answer(self, msg: Generate.Request, response: Generate.Response) -> Generate.Response:
        if not self._active or self._model is None:
            return _failed(response, Generate.Response.NOT_ACTIVE, "the inference node is not active")
        if msg.id in self._running:
            return _failed(response, Generate.Response.INVALID_REQUEST, f"id '{msg.id}' is in use; give each its own")
        if steady.now() - self._overtaken.pop(msg.id, float("-inf")) < OVERTAKING:
            self._count += 1
            return _failed(response, Generate.Response.ABORTED, "aborted before it came")
        try:
            request = request_from_msg(msg)
        except ValueError as error:
            return _failed(response, Generate.Response.INVALID_REQUEST, str(error))
        limit = self.get_parameter("request_timeout").value * self._model.slowness(request)
        pending = self._model.decide(request)
        began = steady.now()
        self._running[msg.id] = (pending, began + limit)
        await settled(self, pending)
        del self._running[msg.id]
        self._count += 1
        response.seconds = self._latency = steady.now() - began
        if pending.cancelled():
            if msg.id in self._aborted:
                self._aborted.discard(msg.id)
                return _failed(response, Generate.Response.ABORTED, "aborted")
            return _failed(response, Generate.Response.TIMEOUT, f"no answer within {limit:g} s")
        try:
            reply = pending.take()
        except Exception as error:
            self._errors += 1
            self._error = str(error) or type(error).__name__
            if isinstance(error, LanguageModelError) and error.took is not None:
                self._used(error.took, response.seconds)
            return failed(response, error)
        self._error = ""
        self._used(reply, response.seconds)
        self._answered_by = reply.answered_by
        if reply.warning and not self._warning:
            self._warning = reply.warning
            self.get_logger().warning(reply.warning)
        return reply_to_msg(reply, response)

    def _used(self, reply: Reply, seconds: float) -> None:
        self._seconds += seconds
        self._tokens += reply.output_tokens or 0
        self._prompt_tokens += reply.prompt_tokens or 0
        self._cached_tokens += reply.cached_tokens or 0
        self._refused += sum(one.refused for one in reply.attempts)

    async def _on_abort(
        self, request: AbortGeneration.Request, response: AbortGeneration.Response
    ) -> AbortGeneration.Response:
        # A coroutine as _on_generate is, or it would often overtake a request that came before it.
        if request.id not in self._running:
            self._overtaken[request.id] = steady.now()
            return response
        response.aborted = self._running[request.id][0].cancel()
        if response.aborted:
            self._aborted.add(request.id)
        return response

    def _look_after(self) -> None:
        waits = None if self._model is None else self._model.waits_for()
        if self._rarely.due(waits):
            self.get_logger().warning(str(waits))
        now = steady.now()
        self._overtaken = {id: since for id, since in self._overtaken.items() if now - since < OVERTAKING}
        for pending, until in list(self._running.values()):
            if now > until:
                pending.cancel()

    def _report(self) -> Report:
        values = {
            "llm": str(self.get_parameter("llm").value),
            **({} if self._model is None else self._model.status()),
            "requests ended": self._count,
            "requests failed": self._errors,
            "texts refused": self._refused,
            "answered last": self._answered_by,
            "prompt tokens": self._prompt_tokens,
            "of them cached": self._cached_tokens,
            "output tokens": self._tokens,
            "output tokens a second": f"{self._tokens / self._seconds:.1f}" if self._seconds else "none yet",
            "last latency in seconds": f"{self._latency:.3f}",
        }
        if words := words_of(None if self._model is None else self._model.waits_for()):
            return Report(WARN, words, values)
        if not self._active:
            return Report(STALE, "not active", values)
        if self._warning and not self._error:
            return Report(WARN, self._warning, values)
        running = f"{len(self._running)} requests under way" if self._running else "waits for requests"
        return Report(WARN, self._error, values) if self._error else Report(OK, running, values)

    def begin_stop(self) -> None:
        self._active = False
        for id, (pending, _) in reversed(list(self._running.items())):  # waiting ones first, or they would begin
            if pending.cancel():
                self._aborted.add(id)

    def stopped(self) -> bool:
        return not self._running


def _failed(response: Generate.Response, code: int, message: str) -> Generate.Response:
    response.error_code, response.message = code, message
    return response


def main() -> None:
    with kept_out_of_the_log():  # they are in its own
        run_node(InferenceNode)


if __name__ == "__main__":
    main()
