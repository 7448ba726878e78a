"""A robot's own servers and topics: what is sent to them, stopped, and watched until nothing of it moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import RESTARTED, Calls, OneAnswer, ServerLost, Waiting, settled
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.mismatch import another_type, one_type, server_mismatch, topic_mismatch
from reactree_ros.nodes.robot.goal_templates import type_name
from reactree_ros.nodes.robot.mapped_skill import MappedCall, Order
from reactree_ros.nodes.robot.robot_topics import hear_all

#: How often a goal that does not stop is told so again, in seconds.
INSISTENCE = 1.0


class Rejected(Exception):
    """A server did not take a goal on."""


@dataclass(eq=False)
class Underway:
    """A goal that was sent, or is about to be; times are those of :func:`steady.now`, None: not yet.

    Its result is ``(status, result)``. It fails if the server rejects the goal (``Rejected``), was restarted
    (``ServerLost``), is not there or stays away (``ServerGone``).
    """

    what: str  # the skill that it is for
    server: str
    result: Pending[tuple[int, Any]] = field(default_factory=Pending)
    sent_at: float | None = None
    accepted: bool = False  # a service need not say so
    over: bool = False  # the server has ended it, or never began with it: nothing of it moves
    stopping: bool = False
    stop_since: float | None = None  # when it was told to stop first
    told_at: float = float("-inf")  # and last
    away: bool = False  # the server has gone since
    says: str = ""  # what was heard last that does not end it, in words
    handle: Any = None  # rclpy's, while an action server has it
    due: float = 0.0  # when its message is published next
    uses: frozenset[str] = frozenset()  # what of the robot it takes

    def end(self, error: BaseException | None = None) -> None:
        """Note that nothing of it moves; its result fails, or is cancelled if there is none yet."""
        self.over, self.handle = True, None
        if error is None:
            self.result.cancel()
        else:
            self.result.fail(error)


class Server:
    """A server or a topic; ``service`` is the name by which servers are counted, ``called`` what errors call it."""

    def __init__(
        self,
        node: Node,
        calls: Calls,
        name: str,
        *,
        ready: Callable[[], bool],
        unlike: Callable[[str], str],
        close: Callable[[], object],
        service: str = "",
        called: str = "",
    ) -> None:
        self.node, self.calls, self.name, self.ready, self.close = node, calls, name, ready, close
        self._unlike, self._service, self._called = unlike, service or name, called or name

    def send(self, what: str, goal: Any) -> Underway:
        underway = Underway(what, self.name)

        def begin() -> None:
            underway.sent_at = steady.now()
            self._begin(underway, goal)

        waiting = Waiting(
            *(self._called, self._service, self.ready, begin, partial(_give_up, underway), underway.result),
            lost=ServerLost,
            doubted=partial(self._doubt, underway) if isinstance(self, ActionOf) else None,
        )
        self.calls.wait(waiting)
        return underway

    def stop(self, underway: Underway) -> None:
        """Have a goal stopped; also one that was not accepted yet."""
        underway.stopping, underway.told_at = True, steady.now()
        if underway.stop_since is None:
            underway.stop_since = underway.told_at
        if underway.sent_at is None:
            underway.end()
        else:
            self._stop(underway)

    def watch(self, underway: Underway) -> None:
        """Look after a goal; to be called regularly.

        A server that has gone and is there again knows nothing of a goal of its former life, unless it says otherwise
        when it is told to stop that.
        """
        if underway.over:
            return
        if not self.ready():
            underway.away = True
        elif underway.away and underway.result.done():
            underway.away = False
            if underway.handle is None:
                underway.over = True
            else:
                self.stop(underway)
        elif underway.stopping and steady.now() - underway.told_at > INSISTENCE:
            self.stop(underway)

    def lacks(self, kind: str, role: str) -> str:
        return "" if self.ready() else self._unlike(kind) or f"{self._called} ({role}) is not there"

    def _begin(self, underway: Underway, goal: Any) -> None:
        raise NotImplementedError

    def _stop(self, underway: Underway) -> None:
        """Tell the server to stop; what a service was asked for cannot be, only be waited for."""


class ActionOf(Server):
    """An action server of the robot; a heartbeat tells of its goals, for a watchdog."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any, heartbeat: Heartbeat | None) -> None:
        self._heartbeat, self._client = heartbeat, OneAnswer(node, kind, name)
        ready, unlike = self._client.server_is_ready, partial(server_mismatch, node, name, action=True)
        close, service = self._client.destroy, f"{name}/_action/send_goal"
        super().__init__(node, calls, name, ready=ready, unlike=unlike, close=close, service=service)

    def _begin(self, underway: Underway, goal: Any) -> None:
        id = None if self._heartbeat is None else self._heartbeat.goal(self.name, lambda: underway.over)
        self._client.send_goal_async(goal, goal_uuid=id).add_done_callback(partial(self._accepted, underway))

    def _accepted(self, underway: Underway, future: Any) -> None:
        if (handle := _taken(future, underway.end)) is None:
            return
        if not handle.accepted:
            underway.end(Rejected(f"{self.name} rejected the goal"))
            return
        underway.accepted, underway.handle = True, handle
        handle.get_result_async().add_done_callback(partial(self._finished, underway))
        if underway.stopping:
            self.stop(underway)

    def _finished(self, underway: Underway, future: Any) -> None:
        if (answer := _taken(future, underway.end)) is None:
            return
        if answer.status == GoalStatus.STATUS_UNKNOWN:  # says a server that has never heard of it
            underway.end(ServerLost(f"{self.name} {RESTARTED}"))
        else:
            underway.over, underway.handle = True, None
            underway.result.succeed((answer.status, answer.result))

    def _doubt(self, underway: Underway) -> None:
        """Ask for the result once more: a server that was restarted knows nothing of the goal, another one goes on."""
        if underway.handle is not None:
            underway.handle.get_result_async().add_done_callback(partial(self._finished, underway))
        else:
            _give_up(underway)
            underway.result.fail(ServerLost(f"{self.name} {RESTARTED}"))

    def _stop(self, underway: Underway) -> None:
        if underway.handle is not None:
            underway.handle.cancel_goal_async().add_done_callback(partial(self._answered, underway))

    def _answered(self, underway: Underway, future: Any) -> None:
        answer = _taken(future, lambda error: None)
        unknown = (CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID, CancelGoal.Response.ERROR_GOAL_TERMINATED)
        if answer is None or answer.return_code not in unknown:
            return
        if underway.result.done():
            underway.over, underway.handle = True, None  # nobody will tell how it ended any more
        else:
            self._doubt(underway)  # restarted so fast that it never seemed to be away


class ServiceOf(Server):
    """A service of the robot; what it was asked for cannot be stopped, only be waited for."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        self._client = node.create_client(kind, name)
        ready, unlike = self._client.service_is_ready, partial(server_mismatch, node, name, action=False)
        close, service = partial(node.destroy_client, self._client), self._client.srv_name
        super().__init__(node, calls, name, ready=ready, unlike=unlike, close=close, service=service)

    def _begin(self, underway: Underway, goal: Any) -> None:
        underway.accepted = True
        self._client.call_async(goal).add_done_callback(partial(self._answered, underway))

    def _answered(self, underway: Underway, future: Any) -> None:
        underway.over = True
        if (response := _taken(future, underway.end)) is not None:
            underway.result.succeed((GoalStatus.STATUS_SUCCEEDED, response))


class Publishing(Server):
    """Publishes a message as soon as somebody hears the topic; one that lasts ends at once if it is stopped."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        with one_type(node, name, type_name(kind)):
            self._publisher = node.create_publisher(kind, name, 10)
        heard, full = self._publisher.get_subscription_count, node.resolve_topic_name(name)

        def unlike(kind: str) -> str:
            return another_type(full, (one.topic_type for one in node.get_subscriptions_info_by_topic(full)), kind)

        close, called = partial(node.destroy_publisher, self._publisher), f"who hears {name}"
        super().__init__(node, calls, name, ready=lambda: heard() > 0, unlike=unlike, close=close, called=called)
        self._orders: dict[Underway, Order] = {}

    def _begin(self, underway: Underway, goal: Order) -> None:
        underway.accepted, self._orders[underway] = True, goal
        self._publish(underway, goal)

    def watch(self, underway: Underway) -> None:
        super().watch(underway)
        if (order := self._orders.get(underway)) is not None:
            self._publish(underway, order)

    def _publish(self, underway: Underway, order: Order) -> None:
        now = steady.now()
        if underway.result.done():  # it was stopped, or nobody hears it any more
            del self._orders[underway]
            return
        if now >= underway.due:
            self._publisher.publish(order.goal)
            underway.due = now + order.every
        if underway.sent_at is not None and now - underway.sent_at >= order.lasting:
            del self._orders[underway]
            underway.over = True
            underway.result.succeed((GoalStatus.STATUS_SUCCEEDED, None))

    def _stop(self, underway: Underway) -> None:
        self._orders.pop(underway, None)
        underway.end()


class Listening(Server):
    """Waits for a message; hears the topic only meanwhile, so that no message from before counts but a latched one."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        full, unlike = node.resolve_topic_name(name), partial(topic_mismatch, node, name)
        ready, called = lambda: node.count_publishers(full) > 0, f"who publishes {name}"
        super().__init__(node, calls, name, ready=ready, unlike=unlike, close=self._end_all, called=called)
        self._kind = kind
        self._hearing: dict[Underway, list[Any]] = {}

    def send(self, what: str, goal: Order) -> Underway:
        underway = Underway(what, self.name, sent_at=steady.now(), accepted=True, says=f"{self.name} was silent")
        self._begin(underway, goal)
        return underway

    def _begin(self, underway: Underway, goal: Order) -> None:
        def hear(message: Any) -> None:
            if underway.over:
                return
            if goal.ends(message):
                self._end(underway)
                underway.result.succeed((GoalStatus.STATUS_SUCCEEDED, message))
            else:
                underway.says = f"{self.name}: {', '.join(goal.unlike(message))}"

        self._hearing[underway] = hear_all(self.node, self._kind, self.name, hear)

    def _end(self, underway: Underway) -> None:
        underway.over = True
        for subscription in self._hearing.pop(underway, ()):
            self.node.destroy_subscription(subscription)

    def _stop(self, underway: Underway) -> None:
        self._end(underway)
        underway.end()

    def _end_all(self) -> None:
        for underway in list(self._hearing):
            self._end(underway)


def _give_up(underway: Underway) -> None:
    """Note that a server is not asked any more; what it has of a goal is stopped when it is there again."""
    underway.over, underway.stopping, underway.away = underway.sent_at is None, True, True


def _taken(future: Any, failed: Callable[[BaseException], object]) -> Any:
    try:
        return settled(future).take()
    except BaseException as error:
        failed(error)
        return None


#: What each kind of entry but an action goes to.
_KINDS: Mapping[str, Callable[..., Server]] = {
    "service": ServiceOf,
    "publish": Publishing,
    "wait_for": Listening,
    "camera": Listening,
}


class Servers:
    """The servers and topics that a robot's file names, and everything that was sent to them and has not ended.

    Attributes:
        emergency: What was told to stop and has not within ``stop_timeout`` seconds; only a person can stop it then.
    """

    def __init__(
        self,
        node: Node,
        calls: Calls,
        mapped: Iterable[MappedCall],
        heartbeat: Heartbeat | None,
        *,
        stop_timeout: float,
    ) -> None:
        self._node, self._stop_timeout = node, stop_timeout
        self._servers: dict[tuple[str, str, str], Server] = {}  # by kind, name and type: several skills may share one
        for call in mapped:
            if (key := _key(call)) not in self._servers:
                given = (node, calls, call.entry.server, call.type)
                own = _KINDS.get(call.entry.kind)
                self._servers[key] = ActionOf(*given, heartbeat) if own is None else own(*given)
        self._underway: list[tuple[Server, Underway]] = []
        self._resting: deque[Pending[None]] = deque()
        self.emergency = ""

    def server_for(self, call: MappedCall) -> Server:
        return self._servers[_key(call)]

    def send(self, what: str, order: Order, uses: frozenset[str] = frozenset()) -> Underway:
        server = self.server_for(order.call)
        underway = server.send(what, order if isinstance(server, Publishing | Listening) else order.goal)
        underway.uses = uses
        self._underway.append((server, underway))
        return underway

    def watch(self, wanted: Collection[Underway] = ()) -> None:
        """Look after what was sent; ``wanted`` is what goes on, and so keeps nobody from rest."""
        for server, underway in self._underway:
            server.watch(underway)
        self._underway = [one for one in self._underway if not one[1].over]
        while self._resting and all(one in wanted for _, one in self._underway):
            self._resting.popleft().succeed(None)
        before, self.emergency = self.emergency, self._does_not_stop()
        if self.emergency and not before:
            self._node.get_logger().fatal(f"emergency: {self.emergency}")
        elif before and not self.emergency:
            self._node.get_logger().warning("the emergency is over: what did not stop has ended")

    def _does_not_stop(self) -> str:
        now, limit = steady.now(), self._stop_timeout
        for _, underway in self._underway:
            if underway.stop_since is not None and now - underway.stop_since > limit:
                return (
                    f"'{underway.what}' was told to stop and {underway.server} has not ended it within {limit:g} s: "
                    "the robot may still move; stop it by hand"
                )
        return ""

    def obstacle(self, uses: frozenset[str] | None = None) -> str:
        """Say why nothing may be begun that uses this of the robot; None: anything. Empty if it may."""
        for _, underway in self._underway:
            if not underway.over and (uses is None or uses & underway.uses):
                gone = f"; {underway.server} has gone, and it is not known whether the robot has stopped"
                return f"'{underway.what}' has not stopped yet{gone if underway.away else ''}"
        return ""

    def at_rest(self) -> Pending[None]:
        """Settle when everything has ended that was sent and is not wanted any more, at the next :meth:`watch`."""
        if not self._underway:
            return Pending.ready(None)
        pending: Pending[None] = Pending()
        self._resting.append(pending)
        return pending

    def away(self) -> list[str]:
        return [server.lacks(kind, kind) for (_, _, kind), server in self._servers.items()]

    def status(self) -> dict[str, str]:
        return {server.name: "there" if server.ready() else "away" for server in self._servers.values()}

    def close(self) -> None:
        for pending in self._resting:
            pending.cancel()
        for server in self._servers.values():
            server.close()


def _key(call: MappedCall) -> tuple[str, str, str]:
    return call.entry.kind, call.entry.server, call.entry.type
