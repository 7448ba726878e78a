"""Goals on a robot's own servers, actions and services alike: sent, stopped, and watched until nothing moves."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.action import ActionClient
from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import RESTARTED, Calls, ServerLost, Waiting, settled
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.mapped_skill import MappedSkill
from reactree_ros.nodes.mismatch import server_mismatch

#: How often a goal that does not stop is told so again, in seconds.
INSISTENCE = 1.0


class Underway:
    """A goal that was sent, or is about to be.

    Attributes:
        what: The skill that it is for.
        result: The server's answer as ``(status, result)``; fails where the server rejects the goal (``Rejected``), was
            restarted (``ServerLost``), is not there or stays away (``ServerGone``).
        sent_at: When it was sent, in seconds (:func:`steady.now`); None: not yet.
        accepted: Whether the server has taken it on; a service need not say so.
        stop_since: When it was told to stop first, in seconds (:func:`steady.now`); None: it was not.
        over: Whether the server has ended it, or never began with it: nothing of it moves.
    """

    def __init__(self, what: str, server: str) -> None:
        self.what, self.server = what, server
        self.result: Pending[tuple[int, Any]] = Pending()
        self.sent_at: float | None = None
        self.accepted = False
        self.over = False
        self.stopping = False
        self.stop_since: float | None = None
        self.told = float("-inf")  # when it was told to stop last
        self.away = False  # the server has gone since

    def told_to_stop(self) -> None:
        """Note that it is told to stop."""
        self.stopping, self.told = True, steady.now()
        if self.stop_since is None:
            self.stop_since = self.told


class Rejected(Exception):
    """A server did not take a goal on."""


class Server(abc.ABC):
    """A server of the robot."""

    def __init__(self, node: Node, calls: Calls, name: str) -> None:
        self.node, self.calls, self.name = node, calls, name

    @abc.abstractmethod
    def send(self, what: str, goal: Any) -> Underway:
        """Send a goal as soon as the server is there."""

    @abc.abstractmethod
    def stop(self, underway: Underway) -> None:
        """Have a goal stopped; also one that was not accepted yet."""

    @abc.abstractmethod
    def ready(self) -> bool:
        """Whether the server is there."""

    @abc.abstractmethod
    def close(self) -> None:
        """Take the client out of the node."""

    def watch(self, underway: Underway) -> None:
        """Look after a goal that is not over; to be called regularly.

        A server that has gone and is there again knows nothing of a goal of its former life, unless it says otherwise
        when it is told to stop that.
        """
        if underway.over:
            return
        if not self.ready():
            underway.away = True
        elif underway.away and underway.result.done():
            underway.away = False
            self.returned(underway)
        elif underway.stopping and steady.now() - underway.told > INSISTENCE:
            self.stop(underway)

    def returned(self, underway: Underway) -> None:
        """Take in that the server is there again after it had been given up."""
        underway.over = True

    def wait(
        self,
        service: str,
        send: Callable[[], None],
        underway: Underway,
        doubted: Callable[[], None] | None = None,
    ) -> None:
        """Send a goal as soon as the server has a service; see :class:`Waiting`."""

        def given_up() -> None:
            _give_up(underway)

        result = underway.result
        self.calls.wait(
            Waiting(self.name, service, self.ready, send, given_up, result, lost=ServerLost, doubted=doubted)
        )


class _OneAnswer(ActionClient):
    """rclpy's client of an action, which takes the first answer to a goal; rclpy's own raises where another follows."""

    async def execute(self, taken_data: Any) -> None:
        """Take in what came; see :meth:`rclpy.waitable.Waitable.execute`."""
        goal = taken_data.get("goal")
        if goal is not None and (asked := self._pending_goal_requests.get(goal[0])) is not None and asked.done():
            self._node.get_logger().warning(f"{self._action_name} answers a goal twice: there is more than one server")
            taken_data = {name: data for name, data in taken_data.items() if name != "goal"}
        await super().execute(taken_data)


class ActionOf(Server):
    """An action server of the robot."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any, heartbeat: Heartbeat) -> None:
        super().__init__(node, calls, name)
        self._heartbeat = heartbeat
        self._client = _OneAnswer(node, kind, name)
        self._handles: dict[Underway, Any] = {}

    def send(self, what: str, goal: Any) -> Underway:
        """Send a goal as soon as the server is there."""
        underway = Underway(what, self.name)

        def accepted(future: Any) -> None:
            handle = _taken(future, lambda error: self._failed(underway, error))
            if handle is None:
                return
            if not handle.accepted:
                self._failed(underway, Rejected(f"{self.name} rejected the goal"))
                return
            underway.accepted = True
            self._handles[underway] = handle
            handle.get_result_async().add_done_callback(lambda future: self._finished(underway, future))
            if underway.stopping:
                self.stop(underway)

        def send() -> None:
            underway.sent_at = steady.now()
            id = self._heartbeat.goal(self.name, lambda: underway.over)
            self._client.send_goal_async(goal, goal_uuid=id).add_done_callback(accepted)

        self.wait(f"{self.name}/_action/send_goal", send, underway, doubted=lambda: self._doubt(underway))
        return underway

    def _finished(self, underway: Underway, future: Any) -> None:
        answer = _taken(future, lambda error: self._failed(underway, error))
        if answer is None:
            return
        underway.over = True
        self._handles.pop(underway, None)
        if answer.status == GoalStatus.STATUS_UNKNOWN:  # says a server that has never heard of it
            underway.result.fail(ServerLost(f"{self.name} {RESTARTED}"))
        else:
            underway.result.succeed((answer.status, answer.result))

    def _doubt(self, underway: Underway) -> None:
        """Ask for the result once more: a server that was restarted knows nothing of the goal, another one goes on."""
        if underway in self._handles:
            again = self._handles[underway].get_result_async()
            again.add_done_callback(lambda future: self._finished(underway, future))
        else:
            _give_up(underway)
            underway.result.fail(ServerLost(f"{self.name} {RESTARTED}"))

    def _failed(self, underway: Underway, error: BaseException) -> None:
        underway.over = True
        underway.result.fail(error)

    def stop(self, underway: Underway) -> None:
        """Have a goal stopped; also one that was not accepted yet."""
        underway.told_to_stop()
        if underway.sent_at is None:
            underway.over = True
            underway.result.cancel()
        elif underway in self._handles:
            self._handles[underway].cancel_goal_async().add_done_callback(lambda done: self._answered(underway, done))

    def _answered(self, underway: Underway, future: Any) -> None:
        answer = _taken(future, lambda error: None)
        unknown = (CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID, CancelGoal.Response.ERROR_GOAL_TERMINATED)
        if answer is not None and answer.return_code in unknown and underway.result.done():
            underway.over = True  # nobody will tell how it ended any more
            self._handles.pop(underway, None)

    def returned(self, underway: Underway) -> None:
        """Ask the server about a goal of its former life; it may have been away for this node only."""
        if underway in self._handles:
            self.stop(underway)
        else:
            underway.over = True

    def ready(self) -> bool:
        """Whether the server is there."""
        return bool(self._client.server_is_ready())

    def close(self) -> None:
        """Take the client out of the node."""
        self._client.destroy()


class ServiceOf(Server):
    """A service of the robot; what it was asked for cannot be stopped, only be waited for."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        super().__init__(node, calls, name)
        self._client = node.create_client(kind, name)

    def send(self, what: str, goal: Any) -> Underway:
        """Send a request as soon as the server is there."""
        underway = Underway(what, self.name)

        def answered(future: Any) -> None:
            underway.over = True
            response = _taken(future, underway.result.fail)
            if response is not None:
                underway.result.succeed((GoalStatus.STATUS_SUCCEEDED, response))

        def send() -> None:
            underway.sent_at, underway.accepted = steady.now(), True
            self._client.call_async(goal).add_done_callback(answered)

        self.wait(self._client.srv_name, send, underway)
        return underway

    def stop(self, underway: Underway) -> None:
        """Have a request forgotten that was not sent yet."""
        underway.told_to_stop()
        if underway.sent_at is None:
            underway.over = True
            underway.result.cancel()

    def ready(self) -> bool:
        """Whether the server is there."""
        return bool(self._client.service_is_ready())

    def close(self) -> None:
        """Take the client out of the node."""
        self.node.destroy_client(self._client)


class Servers:
    """The servers of a robot's skills, and everything that was sent to them and has not ended."""

    def __init__(self, node: Node, calls: Calls, mapped: Iterable[MappedSkill], heartbeat: Heartbeat) -> None:
        self._node = node
        self._servers: dict[tuple[str, str], Server] = {}  # by name and type: several skills may share one
        for entry, kind in ((one.entry, one.type) for one in mapped):
            if (entry.server, entry.type) not in self._servers:
                of = (node, calls, entry.server, kind)
                self._servers[entry.server, entry.type] = ActionOf(*of, heartbeat) if entry.action else ServiceOf(*of)
        self._underway: list[tuple[Server, Underway]] = []
        self._resting: deque[Pending[None]] = deque()
        self._emergency = ""

    def of(self, mapped: MappedSkill) -> Server:
        """Return a skill's server."""
        return self._servers[mapped.entry.server, mapped.entry.type]

    def send(self, server: Server, what: str, goal: Any) -> Underway:
        """Send a goal as soon as its server is there."""
        underway = server.send(what, goal)
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
        """Say once that the robot does not stop, and that it has stopped after all."""
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
        return [lacking(self._node, server, name, kind, kind) for (name, kind), server in self._servers.items()]

    def status(self) -> dict[str, str]:
        """Say of each server whether it is there."""
        return {server.name: "there" if server.ready() else "away" for server in self._servers.values()}

    def close(self) -> None:
        """Take the clients out of the node."""
        for pending in self._resting:
            pending.cancel()
        for server in self._servers.values():
            server.close()


def lacking(node: Node, server: Server, name: str, kind: str, told: str) -> str:
    """Say that a server is not there, or is of another type; empty if neither is so."""
    if server.ready():
        return ""
    unlike = server_mismatch(node, name, kind, action=isinstance(server, ActionOf))
    return unlike or f"{name} ({told}) is not there"


def _give_up(underway: Underway) -> None:
    """Note that a server is not asked any more; what it has of a goal is stopped when it is there again."""
    underway.over, underway.stopping, underway.away = underway.sent_at is None, True, True


def _taken(future: Any, failed: Callable[[BaseException], object]) -> Any:
    """Return the result of a future; None if it has failed or was cancelled."""
    try:
        return settled(future).take()
    except BaseException as error:
        failed(error)
        return None
