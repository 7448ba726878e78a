"""Everything that was sent to a robot's servers and topics, watched until nothing moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.mapped_skill import MappedCall, Order
from reactree_ros.nodes.robot.robot_goals import ActionOf, Server, ServiceOf, Underway
from reactree_ros.nodes.robot.robot_topic_goals import Listening, Publishing

#: What each kind of entry but an action goes to.
_KINDS: Mapping[str, Callable[..., Server]] = {
    "service": ServiceOf,
    "publish": Publishing,
    "wait_for": Listening,
    "camera": Listening,
}


class Servers:
    """The servers and topics that a robot's file names, and everything that was sent to them and has not ended."""

    def __init__(self, node: Node, calls: Calls, mapped: Iterable[MappedCall], heartbeat: Heartbeat) -> None:
        self._node = node
        self._servers: dict[tuple[str, str, str], Server] = {}  # by kind, name and type: several skills may share one
        for call in mapped:
            if (key := _key(call)) not in self._servers:
                of = (node, calls, call.entry.server, call.type)
                own = _KINDS.get(call.entry.kind)
                self._servers[key] = ActionOf(*of, heartbeat) if own is None else own(*of)
        self._underway: list[tuple[Server, Underway]] = []
        self._resting: deque[Pending[None]] = deque()
        self._emergency = ""

    def of(self, call: MappedCall) -> Server:
        """Return what a call goes to."""
        return self._servers[_key(call)]

    def send(self, what: str, order: Order) -> Underway:
        """Send what is asked for as soon as its server is there."""
        server = self.of(order.call)
        underway = server.send(what, order if isinstance(server, Publishing | Listening) else order.goal)
        self._underway.append((server, underway))
        return underway

    def watch(self, stop_timeout: float) -> None:
        """Look after what is under way; to be called regularly."""
        for server, underway in self._underway:
            server.watch(underway)
        self._underway = [(server, underway) for server, underway in self._underway if not underway.over]
        while self._resting and not self._underway:
            self._resting.popleft().succeed(None)
        self._say_emergency(stop_timeout)

    def _say_emergency(self, stop_timeout: float) -> None:
        before, self._emergency = self._emergency, self.emergency(stop_timeout)
        if self._emergency and not before:
            self._node.get_logger().fatal(f"emergency: {self._emergency}")
        elif before and not self._emergency:
            self._node.get_logger().warning("the emergency is over: what did not stop has ended")

    def obstacle(self) -> str:
        """Say why nothing may be begun now; empty if something may."""
        for _, underway in self._underway:
            if not underway.over:
                gone = f"{underway.server} has gone, and it is not known whether the robot has stopped"
                return f"'{underway.what}' has not stopped yet{f'; {gone}' if underway.away else ''}"
        return ""

    def emergency(self, stop_timeout: float) -> str:
        """Say what was told to stop and has not, for longer than it may take; nobody but a person can stop it then."""
        now = steady.now()
        for server, underway in self._underway:
            if underway.stop_since is not None and now - underway.stop_since > stop_timeout and not underway.over:
                return (
                    f"'{underway.what}' was told to stop and {server.name} has not ended it within "
                    f"{stop_timeout:g} s: the robot may still move; stop it by hand"
                )
        return ""

    def at_rest(self) -> Pending[None]:
        """Settle when everything has ended that was sent, at the next :meth:`watch`."""
        if not self._underway:
            return Pending.of(None)
        pending: Pending[None] = Pending()
        self._resting.append(pending)
        return pending

    def away(self) -> list[str]:
        """Say of each server that is not there so."""
        return [server.lacks(kind, kind) for (_, _, kind), server in self._servers.items()]

    def status(self) -> dict[str, str]:
        """Say of each server whether it is there."""
        return {server.name: "there" if server.ready() else "away" for server in self._servers.values()}

    def close(self) -> None:
        for pending in self._resting:
            pending.cancel()
        for server in self._servers.values():
            server.close()


def _key(call: MappedCall) -> tuple[str, str, str]:
    return call.entry.kind, call.entry.server, call.entry.type
