"""The inference node: hosts a language model behind a service."""

from __future__ import annotations

from collections import deque
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from reactree_interfaces.srv import AbortGeneration, Generate

from reactree_ros.errors import UserError
from reactree_ros.llm.models import MODELS
from reactree_ros.llm.port import LanguageModel, Reply
from reactree_ros.nodes.messages import counted, request_from_msg
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Waker
from reactree_ros.pending import Pending


class InferenceNode(LifecycleNode):
    """Hosts a language model.

    Services:
        ``~/generate`` (Generate): several requests at once, up to ``max_concurrent``; further ones wait their turn.
        ``~/abort`` (AbortGeneration): stops one, waiting or running.

    Publishes:
        ``/diagnostics`` (DiagnosticArray, once a second): requests waiting and running, tokens, latency.

    Parameters:
        ``llm``, ``max_concurrent``, ``request_timeout``; read when the node is configured.
    """

    def __init__(self, name: str = "inference", *, model: LanguageModel | None = None, **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            model: A language model to host instead of the one that the parameter names.
            kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
        """
        super().__init__(name, **kwargs)
        declare(self, "llm", "expert", "which language model to host", one_of=tuple(MODELS))
        declare(self, "max_concurrent", 32, "requests that run at once", between=(1, 4096))
        declare(self, "request_timeout", 120.0, "longest time for one request, in seconds", between=(0.1, 86400.0))
        self._given = model
        self._model: LanguageModel | None = None
        self._active = False
        self._turns: deque[Pending[None]] = deque()
        self._running: dict[str, tuple[Pending[Reply], float]] = {}
        self._waiting: dict[str, Pending[None]] = {}
        self._aborted: set[str] = set()
        self._places = self.get_parameter("max_concurrent").value
        self._offered: list[Any] = []
        self._count = self._errors = self._tokens = 0
        self._latency = 0.0

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the language model, make the endpoints."""
        try:
            self._model = self._given or MODELS[str(self.get_parameter("llm").value)]()
        except UserError as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        if not self._offered:
            self._offer()
        return TransitionCallbackReturn.SUCCESS

    def _offer(self) -> None:
        """Make the endpoints; they stay, so that what is under way when the node is cleaned up can be answered."""
        group = ReentrantCallbackGroup()
        self._waker = Waker(self)
        self._offered = [
            self.create_service(Generate, "~/generate", self._on_generate, callback_group=group),
            self.create_service(AbortGeneration, "~/abort", self._on_abort, callback_group=group),
        ]
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(1.0, self._diagnose)
        self.create_timer(0.1, self._look_after)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to answer."""
        self._active = True
        return super().on_activate(state)

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
            self._model.close()
            self._model = None

    async def _on_generate(self, msg: Generate.Request, response: Generate.Response) -> Generate.Response:
        if not self._active or self._model is None:
            return _failed(response, Generate.Response.NOT_ACTIVE, "the inference node is not active")
        if msg.id in self._running or msg.id in self._waiting:
            return _failed(response, Generate.Response.INVALID_REQUEST, f"id '{msg.id}' is in use; give each its own")
        try:
            request = request_from_msg(msg)
        except ValueError as error:
            return _failed(response, Generate.Response.INVALID_REQUEST, str(error))
        if not await self._turn(msg.id):
            return _failed(response, Generate.Response.ABORTED, "aborted while it waited for its turn")
        try:
            pending = self._model.decide(request)
        except Exception as error:
            pending = Pending.failed(error)
        self._running[msg.id] = (pending, self._seconds())
        await self._waker.settled(pending)
        _, began = self._running.pop(msg.id)
        self._next_turn()
        self._count += 1
        response.seconds = self._seconds() - began
        self._latency = response.seconds
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
            return _failed(response, Generate.Response.MODEL_ERROR, str(error))
        response.text, response.finish_reason = reply.text, reply.finish_reason
        response.prompt_tokens, response.cached_tokens = counted(reply.prompt_tokens), counted(reply.cached_tokens)
        response.output_tokens = counted(reply.output_tokens)
        self._tokens += reply.output_tokens or 0
        return response

    async def _turn(self, request_id: str) -> bool:
        """Wait for a free place, first come, first served; False where the request was aborted before."""
        if self._places > 0:
            self._places -= 1
            return True
        turn: Pending[None] = Pending()
        self._turns.append(turn)
        self._waiting[request_id] = turn
        await self._waker.settled(turn)
        del self._waiting[request_id]
        if turn.cancelled():
            return False
        if self._active and request_id not in self._aborted:
            return True
        self._aborted.discard(request_id)  # aborted between its turn and now
        self._next_turn()
        return False

    def _next_turn(self) -> None:
        """Hand a place on to who waits longest, or give it back."""
        while self._turns:
            if self._turns.popleft().succeed(None):
                return
        self._places += 1

    def _on_abort(
        self, request: AbortGeneration.Request, response: AbortGeneration.Response
    ) -> AbortGeneration.Response:
        if request.id in self._waiting:
            response.aborted = True
            if not self._waiting[request.id].cancel():
                self._aborted.add(request.id)
        elif request.id in self._running:
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
            "requests running": len(self._running),
            "requests waiting": len(self._waiting),
            "requests ended": self._count,
            "requests failed": self._errors,
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
        for turn in list(self._waiting.values()):
            turn.cancel()
        for pending, _ in list(self._running.values()):
            pending.cancel()

    def stopped(self) -> bool:
        """Whether nothing runs."""
        return not self._running and not self._waiting

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
