"""Heartbeats: each node says several times a second that it lives, and which goals to cancel if it falls silent."""

from __future__ import annotations

import os
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from reactree_interfaces.msg import GoalUnderWay
from reactree_interfaces.msg import Heartbeat as HeartbeatMsg
from unique_identifier_msgs.msg import UUID

from reactree_ros.nodes import steady
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.settings import SILENCE

#: Relative to the namespace, so that all nodes of a robot share one topic.
TOPIC = "heartbeat"
#: Seconds between two beats.
PERIOD = 0.2
#: Deep enough for all nodes that beat at the same moment; otherwise the last would hide the others.
HEARING = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Heartbeat:
    """Publishes ``heartbeat`` (Heartbeat; reliable, transient local, depth 1) regularly, and before each goal."""

    def __init__(self, node: Node) -> None:
        self._under_way: list[tuple[GoalUnderWay, Callable[[], bool]]] = []
        self._node = node
        self._said = HeartbeatMsg(
            node=node.get_fully_qualified_name(),
            host=socket.gethostname(),
            pid=os.getpid(),
            life=uuid.uuid4().int >> 64,
        )
        self._publisher = node.create_publisher(HeartbeatMsg, TOPIC, LATCHED)
        self.beat()  # latched: heard also if the node dies before the next one
        steady.every(node, PERIOD, self.beat)

    def goal(self, action: str, over: Callable[[], bool]) -> UUID:
        id = UUID(uuid=list(uuid.uuid4().bytes))
        service = self._node.resolve_service_name(f"{action}/_action/cancel_goal")
        self._under_way.append((GoalUnderWay(cancel_service=service, goal_id=id), over))
        self.beat()
        return id

    @property
    def goals(self) -> list[GoalUnderWay]:
        self._under_way = [(goal, over) for goal, over in self._under_way if not over()]
        return [goal for goal, _ in self._under_way]

    def beat(self) -> None:
        self._said.goals = self.goals
        self._publisher.publish(self._said)


@dataclass
class _Life:
    said: HeartbeatMsg
    heard: float


class Lives:
    """Knows which nodes live; subscribes to ``heartbeat``.

    Args:
        silence: Longest time between two heartbeats of a living node, in seconds.
        namespaces: Further namespaces to hear, relative to the node's own.

    Attributes:
        silence: The same.
        beats: How many heartbeats were heard, by the nodes' full names.
        first: When the first one was heard, in seconds (:func:`steady.now`), by the same.
    """

    def __init__(self, node: Node, *, silence: float = SILENCE, namespaces: Sequence[str] = ()) -> None:
        self.silence = silence
        self._lives: dict[int, _Life] = {}
        self.beats = Counter[str]()
        self.first: dict[str, float] = {}
        self._died = set[str]()  # names of those that fell silent
        self._looked = steady.now()
        for topic in (TOPIC, *(f"{namespace}/{TOPIC}" for namespace in namespaces)):
            node.create_subscription(HeartbeatMsg, topic, self._hear, HEARING)

    def _hear(self, said: HeartbeatMsg) -> None:
        self._lives.pop(said.life, None)  # in the order in which they were heard last
        self._lives[said.life] = _Life(said, steady.now())
        self.beats[said.node] += 1
        self.first.setdefault(said.node, steady.now())

    def ended(self) -> list[HeartbeatMsg]:
        """Return the last heartbeats of nodes that fell silent since the last call; to be called regularly."""
        # Who looks late was busy or asleep, and hears only now what was said meanwhile: that time is nobody's silence.
        now = steady.now()
        late = max(now - self._looked - 2 * PERIOD, 0.0)
        self._looked = now
        for life in self._lives.values():
            life.heard = min(life.heard + late, now)
        ended = [life.said for life in self._lives.values() if self._looked - life.heard > self.silence]
        for said in ended:
            del self._lives[said.life]
            self._died.add(said.node)
        return ended

    def living(self, node: str = "") -> list[HeartbeatMsg]:
        return [life.said for life in self._lives.values() if node in ("", life.said.node)]

    def life(self, node: str) -> int | None:
        """Return the life of a full name that was heard last; None if no such node lives."""
        lives = [life for life in self._lives.values() if life.said.node == node]
        return int(lives[-1].said.life) if lives else None

    def has_died(self, node: str) -> bool:
        return node in self._died or not self.living(node)

    def was_heard(self, node: str) -> bool:
        return node in self.beats
