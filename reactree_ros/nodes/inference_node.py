"""The inference node: hosts a language model behind a service."""

from __future__ import annotations

from typing import Any

import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from reactree_interfaces.srv import AbortGeneration, Generate, ModelReady

from reactree_ros.errors import UserError
from reactree_ros.llm.models import NAMES, ModelSettings, load_settings, make_model, settings_of
from reactree_ros.llm.port import LanguageModel, Reply
from reactree_ros.llm.saying import Method
from reactree_ros.llm.turns import TakingTurns
from reactree_ros.nodes.messages import failed, reply_to_msg, request_from_msg
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Waker
from reactree_ros.pending import Pending

#: Name, default and meaning of parameters that may be any text or number; an empty text or 0 leaves it to the engine.
PARAMETERS: tuple[tuple[str, Any, str], ...] = (
    ("model", "", "name or folder of the model; empty with a server: the first one that it has"),
    ("base_url", "", "of the server, e.g. http://127.0.0.1:8000/v1; empty: $OPENAI_BASE_URL"),
    ("api_key_file", "", "file with the server's key; empty: $OPENAI_API_KEY, or none"),
    ("constraints", "", "what the server obeys, of grammar, regex, json_schema, choice; empty: it is tried out"),
    ("models_file", "", "YAML file with every setting of one or several language models; outranks the others here"),
    ("enable_prefix_caching", True, "keep what was computed for prompts that begin alike"),
    ("engine_args", "", "further engine arguments as YAML, e.g. '{max_num_seqs: 64}'"),
)
#: Likewise; passed on to the engine by the same names.
ENGINE_PARAMETERS: tuple[tuple[str, Any, str], ...] = (
    ("dtype", "", "number type of the weights, e.g. bfloat16"),
    ("tensor_parallel_size", 0, "GPUs that share the model"),
    ("quantization", "", "how the weights are quantized, e.g. awq"),
    ("max_model_len", 0, "tokens that prompt and reply may have together"),
    ("gpu_memory_utilization", 0.0, "share of the GPU's memory that may be used"),
    ("kv_cache_dtype", "", "number type of the KV cache, e.g. fp8"),
)


class InferenceNode(LifecycleNode):
    """Hosts a language model.

    Services:
        ``~/generate`` (Generate): several requests at once, up to ``max_concurrent``; further ones take turns between
            planners.
        ``~/abort`` (AbortGeneration): stops one, waiting or running.
        ``~/ready`` (ModelReady): whether the model can answer; loading one may take minutes. The node can be activated
            when it can.

    Publishes:
        ``/diagnostics`` (DiagnosticArray, once a second): what answers, requests waiting and running, tokens, latency.

    Parameters:
        ``llm``, ``model``, ``base_url``, ``api_key_file``, ``chat``, ``method``, ``constraints``, ``retries``,
        ``models_file``, ``max_concurrent``, ``request_timeout``, and of the engine ``dtype``, ``tensor_parallel_size``,
        ``quantization``, ``max_model_len``, ``gpu_memory_utilization``, ``kv_cache_dtype``, ``enable_prefix_caching``,
        ``engine_args``; read when the node is configured.
    """

    def __init__(self, name: str = "inference", *, model: LanguageModel | None = None, **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            model: A language model to host instead of the one that the parameters name.
            kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
        """
        super().__init__(name, **kwargs)
        for parameter in (*PARAMETERS, *ENGINE_PARAMETERS):
            declare(self, *parameter)
        declare(self, "llm", "expert", "which language model to host", one_of=NAMES)
        declare(self, "chat", "auto", "lay prompts out as turns of a chat", one_of=("auto", "true", "false"))
        declare(self, "method", "auto", "how a decision is asked for", one_of=("auto", *(one.value for one in Method)))
        declare(self, "retries", 3, "how often what failed for a passing reason is sent again", between=(0, 100))
        declare(self, "max_concurrent", 32, "requests that run at once", between=(1, 4096))
        declare(self, "request_timeout", 120.0, "longest time for one request, in seconds", between=(0.1, 86400.0))
        self._given = model
        self._model: TakingTurns | None = None
        self._ready: Pending[None] = Pending.of(None)
        self._active = False
        self._running: dict[str, tuple[Pending[Reply], float]] = {}
        self._aborted: set[str] = set()
        self._offered: list[Any] = []
        self._count = self._errors = self._prompt_tokens = self._cached_tokens = self._tokens = 0
        self._latency = 0.0
        self._answered_by = ""

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start loading the language model, make the endpoints."""
        places = self.get_parameter("max_concurrent").value
        try:
            model = self._given or make_model(self._settings())
        except UserError as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        self._model = model if isinstance(model, TakingTurns) else TakingTurns(model, places)
        self._ready = self._model.ready()
        if not self._offered:
            self._offer()
        return TransitionCallbackReturn.SUCCESS

    def _settings(self) -> ModelSettings:
        """Return what the parameters say about the language model; a file of settings outranks them."""

        def value(name: str) -> Any:
            return self.get_parameter(name).value

        if value("models_file"):
            return load_settings(value("models_file"))
        limits = {"max_concurrent": value("max_concurrent"), "time_limit": value("request_timeout")}
        engine = {name: value(name) for name, _, _ in ENGINE_PARAMETERS if value(name)}
        try:
            further = yaml.safe_load(value("engine_args")) or {}
        except yaml.YAMLError as error:
            raise UserError(f"parameter engine_args: {' '.join(str(error).split())}") from error
        if not isinstance(further, dict):
            raise UserError(
                f"parameter engine_args is '{value('engine_args')}'; it must be like '{{max_num_seqs: 64}}'"
            )
        if value("llm") == "vllm":
            engine["enable_prefix_caching"] = value("enable_prefix_caching")
        named = {name: value(name) for name in ("llm", "model", "base_url", "api_key_file", "retries")}
        chosen = {name: value(name) for name in ("chat", "method") if value(name) != "auto"}
        if constraints := [one.strip() for one in value("constraints").split(",") if one.strip()]:
            chosen["constraints"] = constraints
        return settings_of({**named, **chosen, **limits, "engine": {**engine, **further}}, where="parameters")

    def _offer(self) -> None:
        """Make the endpoints; they stay, so that what is under way when the node is cleaned up can be answered."""
        group = ReentrantCallbackGroup()
        self._waker = Waker(self)
        self._offered = [
            self.create_service(Generate, "~/generate", self._on_generate, callback_group=group),
            self.create_service(AbortGeneration, "~/abort", self._on_abort, callback_group=group),
            self.create_service(ModelReady, "~/ready", self._on_ready, callback_group=group),
        ]
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(1.0, self._diagnose)
        self.create_timer(0.1, self._look_after)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to answer; fails as long as the model is not there."""
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
        return response

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop what runs and refuse further requests."""
        self.begin_stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release the model."""
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop what runs, release the model."""
        self.begin_stop()
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def _release(self) -> None:
        if self._model is not None:
            self._ready.cancel()
            self._model.close()
            self._model = None

    async def _on_generate(self, msg: Generate.Request, response: Generate.Response) -> Generate.Response:
        if not self._active or self._model is None:
            return _failed(response, Generate.Response.NOT_ACTIVE, "the inference node is not active")
        if msg.id in self._running:
            return _failed(response, Generate.Response.INVALID_REQUEST, f"id '{msg.id}' is in use; give each its own")
        try:
            request = request_from_msg(msg)
        except ValueError as error:
            return _failed(response, Generate.Response.INVALID_REQUEST, str(error))
        pending = self._model.decide(request)
        began = self._seconds()
        self._running[msg.id] = (pending, began)
        await self._waker.settled(pending)
        del self._running[msg.id]
        self._count += 1
        response.seconds = self._latency = self._seconds() - began
        if pending.cancelled():
            if msg.id in self._aborted or not self._active:
                self._aborted.discard(msg.id)
                return _failed(response, Generate.Response.ABORTED, "aborted")
            limit = self.get_parameter("request_timeout").value
            return _failed(response, Generate.Response.TIMEOUT, f"no answer within {limit:g} s")
        try:
            reply = pending.take()
        except Exception as error:
            self._errors += 1
            return failed(response, error)
        self._tokens += reply.output_tokens or 0
        self._prompt_tokens += reply.prompt_tokens or 0
        self._cached_tokens += reply.cached_tokens or 0
        self._answered_by = reply.answered_by
        return reply_to_msg(reply, response)

    def _on_abort(
        self, request: AbortGeneration.Request, response: AbortGeneration.Response
    ) -> AbortGeneration.Response:
        if request.id in self._running:
            response.aborted = self._running[request.id][0].cancel()
            if response.aborted:
                self._aborted.add(request.id)
        return response

    def _look_after(self) -> None:
        """Keep the bound of what runs."""
        limit = self.get_parameter("request_timeout").value
        for pending, began in list(self._running.values()):
            if self._seconds() - began > limit:
                pending.cancel()

    def _diagnose(self) -> None:
        values = {
            "llm": str(self.get_parameter("llm").value),
            **({} if self._model is None else self._model.status()),
            "requests ended": self._count,
            "requests failed": self._errors,
            "answered last": self._answered_by,
            "prompt tokens": self._prompt_tokens,
            "of them cached": self._cached_tokens,
            "output tokens": self._tokens,
            "last latency in seconds": f"{self._latency:.3f}",
        }
        status = DiagnosticStatus(
            level=DiagnosticStatus.OK if self._active else DiagnosticStatus.STALE,
            name=f"{self.get_fully_qualified_name()}: requests",
            message="active" if self._active else "not active",
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)

    def _seconds(self) -> float:
        return float(self.get_clock().now().nanoseconds) / 1e9

    def begin_stop(self) -> None:
        """Stop what runs and what waits."""
        self._active = False
        for pending, _ in reversed(list(self._running.values())):  # what waits first, or it would begin
            pending.cancel()

    def stopped(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def destroy_node(self) -> None:
        """Release model and endpoints."""
        self._release()
        super().destroy_node()


def _failed(response: Generate.Response, code: int, message: str) -> Generate.Response:
    response.error_code, response.message = code, message
    return response


def main() -> None:
    """Run the node."""
    run_node(InferenceNode)


if __name__ == "__main__":
    main()
