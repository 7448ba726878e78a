"""Service calls that never wait: each is a pending result, bounded, cancellable, and fails when its server has gone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from reactree_ros.nodes import steady
from reactree_ros.pending import Pending


class ServerGone(Exception):
    """A server is not there, or went away while it was waited for."""


@dataclass
class Waiting:
    """One thing that is waited for.

    Attributes:
        what: Name of the server, for errors.
        servers: How many servers of that name there are; a killed one may be counted for a while yet.
        send: Sends the request; called once, as soon as the server is there.
        stop: Stops what was sent.
        pending: What comes of it.
        since: When it began, in seconds (:func:`steady.now`), or when the server was last seen.
        sent_to: How many servers there were when it was sent, or more since; 0: it was not sent.
        gone: Makes the error with which it fails where the server is not there or goes away.
    """

    what: str
    servers: Callable[[], int]
    send: Callable[[], None]
    stop: Callable[[], None]
    pending: Pending[Any]
    since: float
    sent_to: int = 0
    gone: Callable[[str], Exception] = ServerGone


class Calls:
    """Sends requests as soon as their servers are there and fails those whose server stays away.

    Args:
        node: Whose clients are used.
        patience: How long a server may be away before what waits on it fails, in seconds. The middleware needs some
            time of its own to notice that a killed process is gone (10 s with Cyclone DDS as it comes).
    """

    def __init__(self, node: Node, *, patience: float) -> None:
        self._node = node
        self.patience = patience
        self._waiting: list[Waiting] = []

    def call(
        self,
        client: Client,
        request: Any,
        *,
        on_cancel: Callable[[], None] = lambda: None,
        gone: Callable[[str], Exception] = ServerGone,
    ) -> Pending[Any]:
        """Call a service; cancelling the pending response forgets the request and calls ``on_cancel``.

        ``gone`` makes the error with which it fails where the server is not there or goes away.
        """
        sent: list[Future] = []

        def stop() -> None:
            if sent:
                client.remove_pending_request(sent[0])
                on_cancel()

        pending: Pending[Any] = Pending(on_cancel=stop)

        def send() -> None:
            future = client.call_async(request)
            sent.append(future)
            future.add_done_callback(lambda done: settle(pending, done))

        def servers() -> int:
            return self.count(client.srv_name) if client.service_is_ready() else 0

        self.wait(Waiting(client.srv_name, servers, send, stop, pending, steady.now(), gone=gone))
        return pending

    def count(self, service: str) -> int:
        """Count the servers of a service that is known to be there."""
        if not hasattr(self._node, "count_services"):  # before Jazzy
            return 1
        return max(1, int(self._node.count_services(self._node.resolve_service_name(service))))

    def wait(self, waiting: Waiting) -> None:
        """Send now or as soon as the server is there, and watch it until the pending result is settled."""
        self._waiting.append(waiting)
        self._look(waiting)

    def watch(self) -> None:
        """Look after everything that is waited for; to be called regularly."""
        for waiting in self._waiting:
            if not waiting.pending.done():
                self._look(waiting)
        self._waiting = [waiting for waiting in self._waiting if not waiting.pending.done()]

    def _look(self, waiting: Waiting) -> None:
        servers = waiting.servers()
        if servers and servers >= waiting.sent_to:
            waiting.since = steady.now()
            sent, waiting.sent_to = waiting.sent_to, servers
            if not sent:
                waiting.send()
        elif servers:
            self._give_up(waiting, "was restarted; what it was asked for is lost")
        elif steady.now() - waiting.since > self.patience:
            gone = "has gone" if waiting.sent_to else "is not there"
            self._give_up(waiting, f"{gone} (for {self.patience:g} s)")
        elif waiting.sent_to:
            waiting.sent_to = sys.maxsize  # whoever is there next is another one

    def _give_up(self, waiting: Waiting, why: str) -> None:
        if waiting.pending.fail(waiting.gone(f"{waiting.what} {why}")):
            waiting.stop()


def settle(pending: Pending[Any], future: Future) -> None:
    """Hand a finished rclpy future's result or error on."""
    if future.cancelled():
        pending.cancel()
    elif (error := future.exception()) is not None:
        pending.fail(error)
    else:
        pending.succeed(future.result())
