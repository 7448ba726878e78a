"""What every node says several times a second: that it lives, and what is to be canceled where it falls silent."""

from __future__ import annotations

import os
import socket
import uuid
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

#: Relative to the node's namespace, so that all nodes of a robot are heard on one topic.
TOPIC = "heartbeat"
#: Seconds between two beats.
PERIOD = 0.2
#: The depth is that of all who speak together: with a smaller one, who speaks right before another would go unheard.
HEARING = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Heartbeat:
    """Publishes ``heartbeat`` (Heartbeat; reliable, transient local, depth 1) regularly, and before each goal.

    Args:
        node: Whose heartbeat it is.
    """

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
        self.beat()  # who comes late hears it, also where the node dies before the next one
        steady.every(node, PERIOD, self.beat)

    def goal(self, action: str, over: Callable[[], bool]) -> UUID:
        """Return the id of a goal that is about to be sent, after whoever listens was told of it.

        Args:
            action: Name of the action.
            over: Whether the goal has ended, or was never begun.
        """
        id = UUID(uuid=list(uuid.uuid4().bytes))
        service = self._node.resolve_service_name(f"{action}/_action/cancel_goal")
        self._under_way.append((GoalUnderWay(cancel_service=service, goal_id=id), over))
        self.beat()
        return id

    @property
    def goals(self) -> list[GoalUnderWay]:
        """What is under way."""
        self._under_way = [(goal, over) for goal, over in self._under_way if not over()]
        return [goal for goal, _ in self._under_way]

    def beat(self) -> None:
        """Say it."""
        self._said.goals = self.goals
        self._publisher.publish(self._said)


@dataclass
class _Life:
    said: HeartbeatMsg
    heard: float


class Lives:
    """Who lives, by their heartbeats; subscribes to ``heartbeat``.

    Args:
        node: Whose subscription is used.
        silence: For how long one who lives may say nothing, in seconds.
        namespaces: Where else somebody is listened to, relative to the node's own.
    """

    def __init__(self, node: Node, *, silence: float = SILENCE, namespaces: Sequence[str] = ()) -> None:
        self._silence = silence
        self._lives: dict[int, _Life] = {}
        self._heard = set[str]()  # names of all who were heard
        self._died = set[str]()  # of those who have fallen silent
        self._looked = steady.now()
        for topic in (TOPIC, *(f"{namespace}/{TOPIC}" for namespace in namespaces)):
            node.create_subscription(HeartbeatMsg, topic, self._hear, HEARING)

    def _hear(self, said: HeartbeatMsg) -> None:
        self._lives[said.life] = _Life(said, steady.now())
        self._heard.add(said.node)

    def ended(self) -> list[HeartbeatMsg]:
        """Return the last words of those who have fallen silent since this was asked last; to be asked regularly."""
        slept, self._looked = steady.now() - self._looked > self._silence / 2, steady.now()
        if slept:  # what was said meanwhile is heard only now
            for life in self._lives.values():
                life.heard = self._looked
        ended = [life.said for life in self._lives.values() if self._looked - life.heard > self._silence]
        for said in ended:
            del self._lives[said.life]
            self._died.add(said.node)
        return ended

    def living(self, node: str = "") -> list[HeartbeatMsg]:
        """Return what those said last who live: all, or those of one full name."""
        return [life.said for life in self._lives.values() if node in ("", life.said.node)]

    def life(self, node: str) -> int | None:
        """Return the life of one full name that was heard last; None where nobody of that name lives."""
        lives = [life for life in self._lives.values() if life.said.node == node]
        return int(max(lives, key=lambda life: life.heard).said.life) if lives else None

    def has_died(self, node: str) -> bool:
        """Whether one of a full name has fallen silent at any time, or none lives."""
        return node in self._died or not self.living(node)

    def was_heard(self, node: str) -> bool:
        """Whether one of a full name was heard at any time, so that its silence says something."""
        return node in self._heard
