"""Goals on a robot's own servers, actions and services alike: sent and stopped."""

from __future__ import annotations

import abc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.action import ActionClient
from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import RESTARTED, Calls, ServerLost, Waiting, settled
from reactree_ros.nodes.heartbeat import Heartbeat
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
        says: What was heard last that does not end it, in words.
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
        self.says = ""
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
    """A server of the robot.

    Attributes:
        called: What errors call it.
    """

    def __init__(self, node: Node, calls: Calls, name: str, called: str = "") -> None:
        self.node, self.calls, self.name, self.called = node, calls, name, called or name

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
    def unlike(self, kind: str) -> str:
        """Say that something of its name is there with another type than the robot's configuration says."""

    @abc.abstractmethod
    def close(self) -> None:
        """Take the client out of the node."""

    def lacks(self, kind: str, told: str) -> str:
        """Say that it is not there, or is of another type; empty if neither is so."""
        return "" if self.ready() else self.unlike(kind) or f"{self.called} ({told}) is not there"

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

        def given_up() -> None:
            _give_up(underway)

        result = underway.result
        self.calls.wait(
            Waiting(self.called, service, self.ready, send, given_up, result, lost=ServerLost, doubted=doubted)
        )


class _OneAnswer(ActionClient):
    """rclpy's client of an action, which takes the first answer to a goal: rclpy's own may raise at a second one."""

    async def execute(self, taken_data: Any) -> None:
        """Receive what came; see :meth:`rclpy.waitable.Waitable.execute`."""
        with suppress(RuntimeError):
            await super().execute(taken_data)


class ActionOf(Server):
    """An action server of the robot."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any, heartbeat: Heartbeat) -> None:
        super().__init__(node, calls, name)
        self._heartbeat = heartbeat
        self._client = _OneAnswer(node, kind, name)
        self._handles: dict[Underway, Any] = {}

    def send(self, what: str, goal: Any) -> Underway:
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
        underway.told_to_stop()
        if underway.sent_at is None:
            underway.over = True
            underway.result.cancel()
        elif underway in self._handles:
            self._handles[underway].cancel_goal_async().add_done_callback(lambda done: self._answered(underway, done))

    def _answered(self, underway: Underway, future: Any) -> None:
        answer = _taken(future, lambda error: None)
        unknown = (CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID, CancelGoal.Response.ERROR_GOAL_TERMINATED)
        if answer is None or answer.return_code not in unknown:
            return
        if not underway.result.done():
            self._doubt(underway)  # restarted so fast that it never seemed to be away
            return
        underway.over = True  # nobody will tell how it ended any more
        self._handles.pop(underway, None)

    def returned(self, underway: Underway) -> None:
        """Ask the server about a goal of its former life; it may have been away for this node only."""
        if underway in self._handles:
            self.stop(underway)
        else:
            underway.over = True

    def ready(self) -> bool:
        return bool(self._client.server_is_ready())

    def unlike(self, kind: str) -> str:
        return server_mismatch(self.node, self.name, kind, action=True)

    def close(self) -> None:
        self._client.destroy()


class ServiceOf(Server):
    """A service of the robot; what it was asked for cannot be stopped, only be waited for."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        super().__init__(node, calls, name)
        self._client = node.create_client(kind, name)

    def send(self, what: str, goal: Any) -> Underway:
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
        underway.told_to_stop()
        if underway.sent_at is None:
            underway.over = True
            underway.result.cancel()

    def ready(self) -> bool:
        return bool(self._client.service_is_ready())

    def unlike(self, kind: str) -> str:
        return server_mismatch(self.node, self.name, kind, action=False)

    def close(self) -> None:
        self.node.destroy_client(self._client)


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
