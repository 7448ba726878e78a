"""Goals on topics: a message that is published, once or for a time, and a topic that is waited for."""

from __future__ import annotations

from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node

from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.mismatch import another_type, one_type, topic_mismatch
from reactree_ros.nodes.robot.goal_templates import type_name
from reactree_ros.nodes.robot.mapped_skill import Order
from reactree_ros.nodes.robot.robot_goals import Server, Underway
from reactree_ros.nodes.robot.robot_topics import hear_all


class Publishing(Server):
    """Publishes a message as soon as somebody hears the topic; one that lasts ends at once where it is stopped."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        super().__init__(node, calls, name, f"who hears {name}")
        with one_type(node, name, type_name(kind)):
            self._publisher = node.create_publisher(kind, name, 10)
        self._orders: dict[Underway, tuple[Order, float]] = {}  # with when each is published next

    def send(self, what: str, goal: Order) -> Underway:
        """Publish a message as soon as somebody hears it."""
        underway = Underway(what, self.name)

        def send() -> None:
            underway.sent_at, underway.accepted = steady.now(), True
            self._orders[underway] = goal, steady.now()
            self._publish(underway)

        self.wait(self.name, send, underway)
        return underway

    def watch(self, underway: Underway) -> None:
        """Publish again what lasts; see :meth:`Server.watch`."""
        super().watch(underway)
        if underway in self._orders:
            self._publish(underway)

    def _publish(self, underway: Underway) -> None:
        order, due = self._orders[underway]
        now = steady.now()
        if underway.result.done():  # nobody hears it any more
            del self._orders[underway]
            return
        if now >= due:
            self._publisher.publish(order.goal)
            self._orders[underway] = order, now + order.every
        if underway.sent_at is not None and now - underway.sent_at >= order.lasting:
            del self._orders[underway]
            underway.over = True
            underway.result.succeed((GoalStatus.STATUS_SUCCEEDED, None))

    def stop(self, underway: Underway) -> None:
        underway.told_to_stop()
        self._orders.pop(underway, None)
        underway.over = True
        underway.result.cancel()

    def ready(self) -> bool:
        return bool(self._publisher.get_subscription_count())

    def unlike(self, kind: str) -> str:
        """Say that the topic is heard with another type."""
        full = self.node.resolve_topic_name(self.name)
        return another_type(full, (one.topic_type for one in self.node.get_subscriptions_info_by_topic(full)), kind)

    def close(self) -> None:
        self.node.destroy_publisher(self._publisher)


class Listening(Server):
    """Waits for a message; hears the topic only meanwhile, so that no message from before counts but a latched one."""

    def __init__(self, node: Node, calls: Calls, name: str, kind: Any) -> None:
        super().__init__(node, calls, name, f"who publishes {name}")
        self._kind = kind
        self._hearing: dict[Underway, list[Any]] = {}

    def send(self, what: str, goal: Order) -> Underway:
        underway = Underway(what, self.name)
        underway.sent_at, underway.accepted = steady.now(), True
        underway.says = f"{self.name} was silent"

        def hear(message: Any) -> None:
            if underway.over:
                return
            if goal.ends(message):
                self._end(underway)
                underway.result.succeed((GoalStatus.STATUS_SUCCEEDED, message))
            else:
                underway.says = f"{self.name}: {', '.join(goal.unlike(message))}"

        self._hearing[underway] = hear_all(self.node, self._kind, self.name, hear)
        return underway

    def _end(self, underway: Underway) -> None:
        underway.over = True
        for subscription in self._hearing.pop(underway, ()):
            self.node.destroy_subscription(subscription)

    def stop(self, underway: Underway) -> None:
        underway.told_to_stop()
        self._end(underway)
        underway.result.cancel()

    def ready(self) -> bool:
        return bool(self.node.count_publishers(self.node.resolve_topic_name(self.name)))

    def unlike(self, kind: str) -> str:
        """Say that the topic is published with another type."""
        return topic_mismatch(self.node, self.name, kind)

    def close(self) -> None:
        for underway in list(self._hearing):
            self._end(underway)
