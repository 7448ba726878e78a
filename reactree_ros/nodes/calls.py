"""Service calls that never block: each is a pending result that fails in time if its server has gone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.heartbeat import Lives
from reactree_ros.nodes.settings import SILENCE

#: Stands for the number of servers after there was none: the next one may be another one.
AWAY = sys.maxsize
RESTARTED = "was restarted; what it was asked for is lost"
#: How long a count of servers is used again, if the next request reaches one, in seconds.
FRESH = 0.15
#: Longest time for the middleware to list a killed server, in seconds.
LISTED_FOR = 25.0
#: How long a service may seem to be away while one of several servers leaves the list, in seconds.
TAKES_OFF = 1.0
#: Time between two questions of an introduction, in seconds.
ASKED_AGAIN = 1.0
#: Longest introduction before a call, in seconds: a node may have no service for it.
INTRODUCED_FOR = 5.0
#: How long a node may send heartbeats after its server left the list, in seconds.
SPEAKS_ON = 5.0


class ServerGone(Exception):
    """A server is not there, or went away during a call."""


class ServerLost(ServerGone):
    """A server has died or was restarted, and has lost the call; it may be called again."""


@dataclass
class Waiting:
    """One call.

    Attributes:
        what: Name of the server, for errors.
        service: Name of a service that the server has, by which servers are counted.
        ready: Whether a request that is sent now reaches the server.
        send: Sends the request; called once, as soon as the server is there.
        stop: Stops the request.
        pending: The result.
        since: When the call began, or when the server was last seen, in seconds (:func:`steady.now`).
        sent_to: Number of servers when the request was sent, or more since; 0: it was not sent.
        gone: Makes the error if the server is not there or goes away.
        lost: The same if the server has died or was restarted; None: as `gone`.
        doubted: Called instead of failing if the server may have been restarted; asks it about the request.
        node: Full name of the answering node, if it has a heartbeat: its silence tells of a death long before the
            middleware does.
        life: The life of that node that got the request; None: unknown.
    """

    what: str
    service: str
    ready: Callable[[], bool]
    send: Callable[[], None]
    stop: Callable[[], None]
    pending: Pending[Any]
    since: float = field(default_factory=steady.now)
    sent_to: int = 0
    gone: Callable[[str], Exception] = ServerGone
    lost: Callable[[str], Exception] | None = None
    doubted: Callable[[], None] | None = None
    node: str = ""
    life: int | None = None


@dataclass
class _Listed:
    """The servers of one service of a node with a heartbeat, as the middleware lists them.

    The middleware lists a killed server for a while yet, and a request that only it gets is lost. So servers of silent
    nodes count as dead, until that many have left the list, or the same life speaks again after a network failure.

    Attributes:
        node: Full name of the node.
        servers: Counts them; 0 also for a moment while one of several leaves.
        count: The last known number.
        away_since: Since when there seem to be none; None: there are.
        life: The node's life at the last look.
        taken_off: When servers left the list whose node has not fallen silent since.
        dead: When the others fell silent, and their lives.
        looked: When the last look was.
    """

    node: str
    servers: Callable[[], int]
    count: int = 0
    away_since: float | None = None
    life: int | None = None
    taken_off: list[float] = field(default_factory=list)
    dead: list[tuple[float, int]] = field(default_factory=list)
    looked: float = float("-inf")

    def known(self, life: int | None) -> bool:
        """Whether there was a server a moment ago, and the node has the same life."""
        return self.living > 0 and life == self.life and steady.now() - self.looked < FRESH

    def look(self, life: int | None) -> None:
        """Update the number of servers and the node's life."""
        now, count = steady.now(), self.servers()
        back = count > 0 and self.away_since is not None
        self.away_since = None if count else now if self.away_since is None else self.away_since
        if self.away_since is None or now - self.away_since > TAKES_OFF:
            # As many as before none seemed to be left: one has gone, and another one has come.
            self._take_off(1 if back and count == self.count else self.count - count)
            self.count = count
        self.taken_off = [since for since in self.taken_off if now - since < SPEAKS_ON]
        if self.life is not None and life != self.life:
            if self.taken_off:
                self.taken_off.pop(0)
            elif len(self.dead) < self.count:
                self.dead.append((now, self.life))
        self.dead = [(since, dead) for since, dead in self.dead if now - since < LISTED_FOR and dead != life]
        self.life, self.looked = life, now

    def _take_off(self, servers: int) -> None:
        for _ in range(servers):
            if self.dead:
                self.dead.pop(0)
            else:
                self.taken_off.append(steady.now())

    @property
    def living(self) -> int:
        """Number of listed servers that are not known to be dead."""
        return 0 if self.away_since is not None else max(0, self.count - len(self.dead))


class Calls:
    """Sends requests as soon as their servers are there, and fails those whose server dies or stays away.

    Args:
        patience: How long a server may be away before its calls fail, in seconds. The middleware needs time of its own
            to notice a killed process (10 s with Cyclone DDS by default).
        lives: Hears heartbeats; None: only the middleware tells who lives.
    """

    def __init__(self, node: Node, *, patience: float, lives: Lives | None = None) -> None:
        self._node, self._lives = node, lives
        self.patience = patience
        self._waiting: list[Waiting] = []
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._listed: dict[str, _Listed] = {}  # by what is waited for, of nodes with a heartbeat
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
        """Call a service; the result is what ``take`` makes of the response.

        Cancelling the result drops the request and calls ``on_cancel``. ``of`` is the node of the service; for it,
        ``gone`` and ``lost`` see :class:`Waiting`.
        """
        sent: list[Future] = []

        def stop() -> None:
            if sent:
                client.remove_pending_request(sent[0])
                on_cancel()

        pending: Pending[Any] = Pending(on_cancel=stop)

        def send() -> None:
            sent.append(ask(client, request, lambda done: settle(pending, done, take)))

        name, ready = client.srv_name, client.service_is_ready
        self.wait(Waiting(name, name, ready, send, stop, pending, gone=gone, lost=lost, node=of))
        return pending

    def life(self, node: str) -> int | None:
        """Return the life of a node with a heartbeat; None if it is silent, or was not heard yet."""
        return None if self._lives is None else self._lives.life(node)

    def introduce(self, node: str) -> bool:
        """Introduce this node to another; returns whether that one knows it, or did not answer for too long."""
        if node not in self._introductions:
            self._introductions[node] = Introduction(self._node, node, self._send_what_waits)
        introduction = self._introductions[node]
        return introduction.done(self.life(node)) or introduction.seconds > INTRODUCED_FOR

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function after so many seconds."""
        self._later.append((steady.now() + seconds, call))

    def count(self, service: str, ready: Callable[[], bool] = lambda: True) -> int:
        """Count the servers of a service; a killed one may be counted for a while yet."""
        if not ready():
            return 0
        if not hasattr(self._node, "count_services"):  # before Jazzy
            return 1
        return max(1, int(self._node.count_services(self._node.resolve_service_name(service))))

    def wait(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self._look(waiting)

    def watch(self) -> None:
        """Watch all calls; to be called regularly."""
        if self._lives is not None:
            self._lives.ended()
            for listed in self._listed.values():
                listed.look(self._lives.life(listed.node))
        now, later = steady.now(), self._later
        self._later = [one for one in later if one[0] > now]
        for due, call in later:
            if due <= now:
                call()
        for waiting in self._waiting:
            if not waiting.pending.done():
                self._look(waiting)
        self._waiting = [waiting for waiting in self._waiting if not waiting.pending.done()]

    def _look(self, waiting: Waiting) -> None:
        servers, life = self._servers(waiting), self._life(waiting)
        if waiting.sent_to and waiting.life is None:
            waiting.life = life
        if waiting.life is not None and not self._lives_on(waiting):
            self._give_up(waiting, f"has gone (silent for {SILENCE:g} s)" if life is None else RESTARTED, lost=True)
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

    def _send_what_waits(self) -> None:
        for waiting in list(self._waiting):
            if not waiting.sent_to and not waiting.pending.done():
                self._look(waiting)

    def _look_how_long(self, waiting: Waiting) -> None:
        if steady.now() - waiting.since > self.patience:
            gone = "has gone" if waiting.sent_to or self._was_heard(waiting) else "is not there"
            self._give_up(waiting, f"{gone} (for {self.patience:g} s)")
        elif waiting.sent_to:
            waiting.sent_to = AWAY

    def _servers(self, waiting: Waiting) -> int:
        count = partial(self.count, waiting.service, waiting.ready)
        if self._lives is None or not waiting.node or waiting.sent_to:
            return count()
        listed = self._listed.setdefault(waiting.what, _Listed(waiting.node, count))
        life = self._lives.life(waiting.node)
        if not (listed.known(life) and waiting.ready()):
            listed.look(life)
        return listed.living

    def _life(self, waiting: Waiting) -> int | None:
        return self.life(waiting.node) if waiting.node else None

    def _lives_on(self, waiting: Waiting) -> bool:
        return self._lives is not None and any(waiting.life == said.life for said in self._lives.living(waiting.node))

    def _was_heard(self, waiting: Waiting) -> bool:
        return self._lives is not None and bool(waiting.node) and self._lives.was_heard(waiting.node)

    def _give_up(self, waiting: Waiting, why: str, *, lost: bool = False) -> None:
        error = waiting.lost if lost and waiting.lost is not None else waiting.gone
        if waiting.pending.fail(error(f"{waiting.what} {why}")):
            waiting.stop()


class Introduction:
    """Makes sure that a node of another process knows the clients that a node has made before.

    Fast DDS drops the answer to a client that the server has not discovered within 0.1 s, so the first answer can be
    lost. A server discovers clients in the order in which they were made. The client of an introduction is made last,
    and sends an empty request again and again until it is answered.

    Args:
        known: Called as soon as it is answered.
    """

    def __init__(self, node: Node, server: str, known: Callable[[], object] = lambda: None) -> None:
        self._client = node.create_client(GetParameters, f"{server}/get_parameters")
        self._known = known
        self._begin(None)

    def _begin(self, life: int | None) -> None:
        self._life, self._done = life, False
        self._since, self._asked = steady.now(), float("-inf")

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return steady.now() - self._since

    def done(self, life: int | None = None) -> bool:
        """Whether the other node knows them; to be called until it does, while this one is spun.

        Args:
            life: The other node's; another one has to get to know them anew.
        """
        if life != self._life:
            self._begin(life)
        if not self._done and steady.now() - self._asked > ASKED_AGAIN and self._client.service_is_ready():
            self._asked = steady.now()
            ask(self._client, GetParameters.Request(), partial(self._answered, life))
        return self._done

    def _answered(self, life: int | None, future: Future) -> None:
        if life == self._life and not self._done:
            self._done = True
            self._known()


def ask(client: Client, request: Any, answered: Callable[[Future], object]) -> Future:
    """Send a request; ``answered`` is called with the future when the answer comes."""
    future = client.call_async(request)
    future.add_done_callback(answered)
    return future


def settled(future: Future) -> Pending[Any]:
    """Return a finished rclpy future's result or error as a settled pending result."""
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
