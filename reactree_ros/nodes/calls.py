"""Service calls that never wait: each is a pending result, bounded, cancellable, and fails when its server has gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from reactree_ros.pending import Pending


class ServerGone(Exception):
    """A server is not there, or went away while it was waited for."""


@dataclass
class Waiting:
    """One thing that is waited for.

    Attributes:
        what: Name of the server, for errors.
        ready: Whether the server is there.
        send: Sends the request; called once, as soon as the server is there.
        pending: What comes of it.
        since: When it began, in seconds of the node's clock, or when the server was last seen.
        sent: Whether it was sent.
    """

    what: str
    ready: Callable[[], bool]
    send: Callable[[], None]
    pending: Pending[Any]
    since: float
    sent: bool = field(default=False)


class Calls:
    """Sends requests as soon as their servers are there and fails those whose server stays away.

    Args:
        node: Whose clients are used.
        patience: How long a server may be away before what waits on it fails, in seconds. The middleware needs some
            time of its own to notice that a killed process is gone (10 s with Cyclone DDS as it comes).
    """

    def __init__(self, node: Node, *, patience: float) -> None:
        self._node = node
        self._patience = patience
        self._waiting: list[Waiting] = []

    def call(self, client: Client, request: Any, *, on_cancel: Callable[[], None] = lambda: None) -> Pending[Any]:
        """Call a service; cancelling the pending response forgets the request and calls ``on_cancel``."""
        sent: list[Future] = []

        def cancel() -> None:
            if sent:
                client.remove_pending_request(sent[0])
                on_cancel()

        pending: Pending[Any] = Pending(on_cancel=cancel)

        def send() -> None:
            future = client.call_async(request)
            sent.append(future)
            future.add_done_callback(lambda done: settle(pending, done))

        self.wait(client.srv_name, client.service_is_ready, send, pending)
        return pending

    def wait(self, what: str, ready: Callable[[], bool], send: Callable[[], None], pending: Pending[Any]) -> None:
        """Send now or as soon as the server is there, and watch it until the pending result is settled."""
        waiting = Waiting(what, ready, send, pending, self._now())
        self._waiting.append(waiting)
        self._look(waiting)

    def watch(self) -> None:
        """Look after everything that is waited for; to be called regularly."""
        for waiting in self._waiting:
            if not waiting.pending.done():
                self._look(waiting)
        self._waiting = [waiting for waiting in self._waiting if not waiting.pending.done()]

    def _look(self, waiting: Waiting) -> None:
        if waiting.ready():
            waiting.since = self._now()
            if not waiting.sent:
                waiting.sent = True
                waiting.send()
        elif self._now() - waiting.since > self._patience:
            gone = "has gone" if waiting.sent else "is not there"
            waiting.pending.fail(ServerGone(f"{waiting.what} {gone} (for {self._patience:g} s)"))

    def _now(self) -> float:
        return float(self._node.get_clock().now().nanoseconds) / 1e9


def settle(pending: Pending[Any], future: Future) -> None:
    """Hand a finished rclpy future's result or error on."""
    if future.cancelled():
        pending.cancel()
    elif (error := future.exception()) is not None:
        pending.fail(error)
    else:
        pending.succeed(future.result())
