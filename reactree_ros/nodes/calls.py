"""Service calls that never block: each is a pending result that fails in time if its server has gone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from action_msgs.msg import GoalStatus
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger
from unique_identifier_msgs.msg import UUID

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.heartbeat import Lives
from reactree_ros.nodes.near import Beside, NearGoal

#: Stands for the number of servers after there was none: the next one may be another one.
AWAY = sys.maxsize
RESTARTED = "was restarted; what it was asked for is lost"
#: Time between two questions of an introduction, in seconds.
ASKED_AGAIN = 1.0
#: Longest introduction to a node without a heartbeat, in seconds: it may have no service for it.
INTRODUCED_FOR = 5.0


class ServerGone(Exception):
    """A server is not there, or went away during a call."""


class ServerLost(ServerGone):
    """A server has died or was restarted, and has lost the call; it may be called again."""


@dataclass
class Waiting:
    """One call."""

    what: str  # name of the server, for errors
    service: str  # name of a service that the server has, by which servers are counted
    ready: Callable[[], bool]  # whether a request that is sent now reaches the server
    send: Callable[[], None]  # sends the request; called once, as soon as the server is there
    stop: Callable[[], None]  # stops the request
    pending: Pending[Any]  # the result
    since: float = field(default_factory=steady.now)  # when it began, or the server was last seen
    sent_to: int = 0  # number of servers when the request was sent, or more since; 0: it was not sent
    gone: Callable[[str], Exception] = ServerGone  # makes the error if the server is not there or goes away
    lost: Callable[[str], Exception] | None = None  # the same if the server has died or was restarted; None: as `gone`
    doubted: Callable[[], None] | None = None  # asks a server that may have been restarted about the request
    node: str = ""  # full name of the answering node, if it has a heartbeat: its silence tells of a death at once
    life: int | None = None  # the life of that node that got the request; None: unknown


def count_servers(node: Node, service: str) -> int:
    """Return the number of servers of a service that is there; a killed one may be counted for a while yet."""
    if not hasattr(node, "count_services"):  # before Jazzy
        return 1
    return max(1, int(node.count_services(node.resolve_service_name(service))))


class Calls:
    """Sends requests as soon as their servers are there, and fails those whose server dies or stays away.

    Args:
        patience: How long a server may be away before its calls fail, in seconds. The middleware needs time of its own
            to notice a killed process (10 s with Cyclone DDS by default).
        lives: Hears heartbeats; None: only the middleware tells who lives.
        beside: Nodes of the same process; they are called directly.
    """

    def __init__(self, node: Node, *, patience: float, lives: Lives | None = None, beside: Sequence[Any] = ()) -> None:
        self._node, self._lives, self.beside = node, lives, Beside(node, beside)
        self.patience = patience
        self._waiting: list[Waiting] = []
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._introductions: dict[str, Introduction] = {}  # by the server's node

    def call(
        self,
        client: Client,
        request: Any,
        *,
        take: Callable[[Any], Any] = lambda response: response,
        on_cancel: Callable[[], None] = lambda: None,
        gone: Callable[[str], Exception] = ServerGone,
        lost: Callable[[str], Exception] | None = None,
        of: str = "",
    ) -> Pending[Any]:
        """Call a service of the node ``of``; the result is what ``take`` makes of the response.

        Cancelling the result drops the request and calls ``on_cancel``.
        """
        sent: list[Future] = []

        def stop() -> None:
            if sent:
                client.remove_pending_request(sent[0])
                on_cancel()

        pending: Pending[Any] = Pending(on_cancel=stop)

        def send() -> None:
            sent.append(ask(client, request, lambda done: settle(pending, done, take), self.beside.call))

        name, ready = client.srv_name, client.service_is_ready
        self.wait(Waiting(name, name, ready, send, stop, pending, gone=gone, lost=lost, node=of))
        return pending

    def life(self, node: str) -> int | None:
        """Return the life of a node with a heartbeat; None if it is silent, or was not heard yet."""
        return None if self._lives is None else self._lives.life(node)

    def introduce(self, node: str) -> bool:
        """Introduce this node to another; returns whether that one knows it.

        The middleware lists a killed node and its services for a while yet, and a request that only it gets is lost.
        A node makes ``~/check`` last, so whoever is answered on it reaches all services of the life that answers.
        """
        if node not in self._introductions:
            self._introductions[node] = Introduction(self._node, node, Trigger, "check", self._send_what_waits)
        introduction, life = self._introductions[node], self.life(node)
        return introduction.done(life) or (life is None and introduction.seconds > INTRODUCED_FOR)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self._later.append((steady.now() + seconds, call))

    def wait(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self._look(waiting)

    def watch(self) -> None:
        """Watch all calls; to be called regularly."""
        if self._lives is not None:
            self._lives.ended()
        now, later = steady.now(), self._later
        self._later = [one for one in later if one[0] > now]
        for due, call in later:
            if due <= now:
                call()
        self._look_at(self._waiting)
        self._waiting = [waiting for waiting in self._waiting if not waiting.pending.done()]

    def _look_at(self, calls: list[Waiting]) -> None:
        for waiting in list(calls):
            if not waiting.pending.done():
                self._look(waiting)

    def _send_what_waits(self) -> None:
        self._look_at([waiting for waiting in self._waiting if not waiting.sent_to])

    def _look(self, waiting: Waiting) -> None:
        servers = count_servers(self._node, waiting.service) if waiting.ready() else 0
        life = self.life(waiting.node) if waiting.node else None
        if waiting.sent_to and waiting.life is None:
            waiting.life = life
        if self._lives is not None and waiting.life is not None and not self._lives_on(waiting):
            why = f"has gone (silent for {self._lives.silence:g} s)" if life is None else RESTARTED
            self._give_up(waiting, why, lost=True)
        elif not servers or (not waiting.sent_to and life is None and self._was_heard(waiting)):
            self._look_how_long(waiting)
        elif servers >= waiting.sent_to or (waiting.life is not None and waiting.sent_to < AWAY):
            waiting.since = steady.now()
            if not waiting.sent_to and waiting.node and not self.introduce(waiting.node):
                return
            sent, waiting.sent_to = waiting.sent_to, servers
            if not sent:
                waiting.life = life
                waiting.send()
        elif waiting.doubted is not None:
            waiting.since, waiting.sent_to = steady.now(), servers
            waiting.doubted()
        else:
            self._give_up(waiting, RESTARTED, lost=True)

    def _look_how_long(self, waiting: Waiting) -> None:
        if steady.now() - waiting.since > self.patience:
            gone = "has gone" if waiting.sent_to or self._was_heard(waiting) else "is not there"
            self._give_up(waiting, f"{gone} (for {self.patience:g} s)")
        elif waiting.sent_to:
            waiting.sent_to = AWAY

    def _lives_on(self, waiting: Waiting) -> bool:
        return self._lives is not None and any(waiting.life == said.life for said in self._lives.living(waiting.node))

    def _was_heard(self, waiting: Waiting) -> bool:
        return self._lives is not None and self._lives.was_heard(waiting.node)

    def _give_up(self, waiting: Waiting, why: str, *, lost: bool = False) -> None:
        error = waiting.lost if lost and waiting.lost is not None else waiting.gone
        if waiting.pending.fail(error(f"{waiting.what} {why}")):
            waiting.stop()


class Introduction:
    """Makes sure that a node of another process knows the clients that a node has made before.

    Fast DDS drops the answer to a client that the server has not discovered within 0.1 s, so the first answer can be
    lost. A server discovers clients in the order in which they were made. The client of an introduction is made last,
    and sends an empty request of a ``kind`` that does nothing again and again until it is answered: it is ``known``.
    """

    def __init__(
        self,
        node: Node,
        server: str,
        kind: Any = GetParameters,
        name: str = "get_parameters",
        known: Callable[[], object] = lambda: None,
    ) -> None:
        self._client, self._known = node.create_client(kind, f"{server}/{name}"), known
        self._begin(None)

    def _begin(self, life: int | None) -> None:
        self._life, self._done = life, False
        self._since, self._asked = steady.now(), float("-inf")

    @property
    def seconds(self) -> float:
        return steady.now() - self._since

    def done(self, life: int | None = None) -> bool:
        if life != self._life:
            self._begin(life)
        if not self._done and steady.now() - self._asked > ASKED_AGAIN and self._client.service_is_ready():
            self._asked = steady.now()
            ask(self._client, self._client.srv_type.Request(), partial(self._answered, life))
        return self._done

    def _answered(self, life: int | None, future: Future) -> None:
        if life == self._life and not self._done:
            self._done = True
            self._known()


class OneAnswer(ActionClient):
    """rclpy's client of an action, which takes the first answer to a goal; a node ``beside`` gets its goals directly.

    rclpy's own raises at a second one (see known bugs), and what came with that answer would be lost.
    """

    def __init__(self, node: Node, kind: Any, name: str, beside: Beside | None = None) -> None:
        super().__init__(node, kind, name)
        self._from, self._name, self._beside = node, name, beside

    def send_goal_async(self, goal: Any, feedback_callback: Any = None, goal_uuid: UUID | None = None) -> Future:
        serving = None if self._beside is None else self._beside.serving(self._name)
        if serving is None:
            return super().send_goal_async(goal, feedback_callback, goal_uuid)
        sent = Future(executor=self._from.executor)
        sent.set_result(NearGoal(self._from, serving, goal, goal_uuid))
        return sent

    async def execute(self, taken_data: Any) -> None:
        for kind, taken in taken_data.items():
            with suppress(RuntimeError) if kind == "goal" else nullcontext():
                await super().execute({kind: taken})


class SentGoal:
    """A goal for an action server; it may be canceled at any time, also before it is accepted.

    Args:
        rejected: The message of the ``error`` if the server does not take it on.

    Attributes:
        end: Its result; fails if it was rejected, or if the server knows nothing of it, because it was restarted.
        over: Settles when nothing of it is under way.
    """

    def __init__(
        self,
        client: ActionClient,
        action: str,
        goal: Any,
        *,
        rejected: str,
        error: Callable[[str], Exception] = ServerGone,
    ) -> None:
        self._client, self._action, self._goal, self._rejected, self._error = client, action, goal, rejected, error
        self.end: Pending[Any] = Pending()
        self.over: Pending[None] = Pending()
        self._handle: Any = None  # once it is accepted
        self._unwanted = False

    def send(self, id: UUID | None = None) -> None:
        self._client.send_goal_async(self._goal, goal_uuid=id).add_done_callback(self._sent)

    def cancel(self) -> None:
        """Have it canceled; if it is not accepted yet, then."""
        self.give_up()
        if self._handle is not None and not self.over.done():
            self._handle.cancel_goal_async()

    def give_up(self, _: object = None) -> None:
        """Have it canceled if it is not accepted yet."""
        self._unwanted = True

    def _sent(self, future: Any) -> None:
        answer = settled(future)
        if answer.exception() is not None or not answer.take().accepted:
            self.end.fail(answer.exception() or self._error(self._rejected))
            self.over.succeed(None)
            return
        self._handle = answer.take()
        self._handle.get_result_async().add_done_callback(self._ended)
        if self._unwanted:
            self.cancel()

    def _ended(self, future: Any) -> None:
        settle(self.end, future, self._result)
        self.over.succeed(None)

    def _result(self, answer: Any) -> Any:
        if answer.status == GoalStatus.STATUS_UNKNOWN:
            raise self._error(f"{self._action} {RESTARTED}")
        return answer.result


def ask(
    client: Client,
    request: Any,
    answered: Callable[[Future], object],
    call: Callable[[Client, Any], Future] = Client.call_async,
) -> Future:
    future = call(client, request)
    future.add_done_callback(answered)
    return future


def settled(future: Future) -> Pending[Any]:
    pending: Pending[Any] = Pending()
    settle(pending, future)
    return pending


def settle(pending: Pending[Any], future: Future, take: Callable[[Any], Any] = lambda result: result) -> None:
    """Settle a pending result with what ``take`` makes of a finished rclpy future's result, or with its error."""
    if future.cancelled():
        pending.cancel()
    elif (error := future.exception()) is not None:
        pending.fail(error)
    else:
        try:
            pending.succeed(take(future.result()))
        except Exception as wrong:
            pending.fail(wrong)
