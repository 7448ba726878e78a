"""The emergency stop of a robot: engaged until its topic says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rclpy.node import Node

from reactree_ros.nodes import steady
from reactree_ros.nodes.executors import WithInfo
from reactree_ros.nodes.robot.goal_templates import constant, reader
from reactree_ros.nodes.robot.robot_topics import ConfiguredTopic, hear_all
from reactree_ros.robot.config import StopEntry


class EmergencyStop(ConfiguredTopic):
    """Says whether the robot may move.

    It may if the last message released the stop and the topic is alive: it has a publisher or, with ``silent_for``, was
    heard within that time (wall time, whatever clock the node has). With ``fail_open`` the robot may move until a
    message engages the stop.

    Several subscriptions hear the topic, so a message can come twice and late. A release that was sent before the
    latest engagement, by the senders' clocks, is ignored.

    Args:
        entry: The configuration's entry; None: there is no stop, and the robot may always move.

    Raises:
        UserError: The topic's type does not fit.
    """

    hearing = None

    def __init__(self, node: Node, entry: StopEntry | None, *, where: str) -> None:
        super().__init__(node, entry, at := f"{where}: emergency_stop")
        self._engaged: bool | None = None  # None: not heard yet
        self._engaged_at = -1  # when the latest engagement was sent, in nanoseconds
        self._heard_at = steady.now()
        if entry is None:
            node.get_logger().warning(f"{where}: emergency_stop is null: nothing but a cancel stops the robot")
            return
        self._field, slot = reader(self._kind, entry.field, at)
        self._value = constant(slot, entry.engaged, f"{at}.engaged")
        if entry.fail_open:
            node.get_logger().warning(
                f"{at}: fail_open is true: the robot moves as long as {entry.topic} is not heard to be engaged, also "
                "if nobody publishes it"
            )

    def listen(self) -> None:
        if self._entry is not None:
            self._subscriptions += hear_all(self._node, self._kind, self._entry.topic, WithInfo(self._hear))

    def _hear(self, msg: Any, info: Mapping[str, int]) -> None:
        engaged, sent_at = self._field(msg) == self._value, info["source_timestamp"]
        self._heard_at = steady.now()
        if engaged:
            self._engaged_at = max(self._engaged_at, sent_at)
        elif sent_at <= self._engaged_at:
            return
        if engaged != self._engaged:
            self._node.get_logger().warning(f"emergency stop {'engaged' if engaged else 'released'}")
        self._engaged = engaged

    def engaged(self) -> str:
        """Say why nothing may move; empty if the robot may."""
        entry = self._entry
        if entry is None:
            return ""
        if self._engaged:
            return "the emergency stop is engaged"
        if entry.fail_open:
            return ""
        if self._engaged is None:
            mismatch = self.mismatch()
            return f"the emergency stop's topic {mismatch or f'{entry.topic} has not been heard yet'}"
        if entry.silent_for and steady.now() - self._heard_at > entry.silent_for:
            return f"the emergency stop's topic {entry.topic} has been silent for {entry.silent_for:g} s"
        if not entry.silent_for and not self._node.count_publishers(entry.topic):
            return f"nobody publishes the emergency stop's topic {entry.topic} any more"
        return ""

    def in_words(self) -> str:
        """Say whether it is engaged, for people."""
        return "there is none" if self._entry is None else self.engaged() or "released"
