"""Heartbeats: each node says several times a second that it lives, and which goals to cancel if it falls silent."""

from __future__ import annotations

import os
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import rclpy
from action_msgs.msg import GoalInfo
from action_msgs.srv import CancelGoal
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from reactree_interfaces.msg import GoalUnderWay
from reactree_interfaces.msg import Heartbeat as HeartbeatMsg
from unique_identifier_msgs.msg import UUID

from reactree_ros.nodes import steady
from reactree_ros.nodes.executors import make_executor
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.settings import SILENCE

#: Relative to the namespace, so that all nodes of a robot share one topic.
TOPIC = "heartbeat"
#: Seconds between two beats.
PERIOD = 0.2
#: Deep enough for all nodes that beat at the same moment; otherwise the last would hide the others.
HEARING = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: Time between two cancels of a stray goal, in seconds.
INSISTENCE = 0.5
#: How long a server may not know a goal before it counts as ended, in seconds: its request may be on its way.
UNKNOWN_FOR = 5.0
#: How long a stray goal is canceled, also if its server is away, in seconds.
INSIST_FOR = 60.0


class Heartbeat:
    """Publishes ``heartbeat`` (Heartbeat; reliable, transient local, depth 1) regularly, and before each goal."""

    def __init__(self, node: Node) -> None:
        self._under_way: list[tuple[GoalUnderWay, Callable[[], bool]]] = []
        self._node = node
        name, host, life = node.get_fully_qualified_name(), socket.gethostname(), uuid.uuid4().int >> 64
        self._said = HeartbeatMsg(node=name, host=host, pid=os.getpid(), life=life)
        self._publisher = node.create_publisher(HeartbeatMsg, TOPIC, LATCHED)
        self.beat()  # latched: heard also if the node dies before the next one
        steady.every(node, PERIOD, self.beat)

    def goal(self, action: str, over: Callable[[], bool]) -> UUID:
        """Announce a goal that is about to be sent, until it is ``over``; returns its id."""
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


class Lives:
    """Knows which nodes live; hears ``heartbeat`` in the node's own namespace, and in those of other nodes.

    Attributes:
        silence: Longest time between two heartbeats of a living node, in seconds.
        beats: How many heartbeats were heard, by the nodes' full names.
        first: When the first one was heard, in seconds (:func:`steady.now`), by the same.
    """

    def __init__(self, node: Node, *, silence: float = SILENCE, others: Iterable[str] = ()) -> None:
        self.silence = silence
        self._lives: dict[int, tuple[HeartbeatMsg, float]] = {}  # with the time of each life's last one
        self.beats = Counter[str]()
        self.first: dict[str, float] = {}
        self._died = set[str]()
        self._looked = steady.now()
        topics = (TOPIC, *(f"{name.rpartition('/')[0]}/{TOPIC}" for name in others if "/" in name))
        for topic in dict.fromkeys(map(node.resolve_topic_name, topics)):
            node.create_subscription(HeartbeatMsg, topic, self._hear, HEARING)

    def _hear(self, said: HeartbeatMsg) -> None:
        self._lives.pop(said.life, None)  # in the order in which they were heard last
        self._lives[said.life] = said, steady.now()
        self.beats[said.node] += 1
        self.first.setdefault(said.node, steady.now())

    def ended(self) -> list[HeartbeatMsg]:
        """Return the last heartbeats of nodes that fell silent since the last call; to be called regularly."""
        # Who looks late was busy or asleep, and hears only now what was said meanwhile: that time is nobody's silence.
        now = steady.now()
        late = max(now - self._looked - 2 * PERIOD, 0.0)
        self._looked = now
        self._lives = {life: (said, min(heard + late, now)) for life, (said, heard) in self._lives.items()}
        ended = [said for said, heard in self._lives.values() if now - heard > self.silence]
        for said in ended:
            del self._lives[said.life]
            self._died.add(said.node)
        return ended

    def living(self, node: str = "") -> list[HeartbeatMsg]:
        """Return the last heartbeats of living nodes: of all, or of one full name."""
        return [said for said, _ in self._lives.values() if node in ("", said.node)]

    def life(self, node: str) -> int | None:
        """Return the life of a full name that was heard last; None if no such node lives."""
        lives = self.living(node)
        return int(lives[-1].life) if lives else None

    def has_died(self, node: str) -> bool:
        """Whether a node ever fell silent, or none of its full name lives."""
        return node in self._died or not self.living(node)

    def was_heard(self, node: str) -> bool:
        """Whether a node was ever heard, so that its silence means something."""
        return node in self.beats


@dataclass(eq=False)
class _Stray:
    goal: GoalUnderWay
    client: Any
    since: float
    asked: float = float("-inf")
    unknown_since: float | None = None
    over: bool = False

    @property
    def name(self) -> str:
        return f"{bytes(self.goal.goal_id.uuid).hex()[:8]} on {self.goal.cancel_service.rpartition('/_action')[0]}"


class Strays:
    """Cancels goals whose nodes fell silent, until their servers say that they end; :meth:`look` regularly."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._strays: list[_Stray] = []

    @property
    def left(self) -> int:
        """Number of goals that may not have ended."""
        return len(self._strays)

    def take(self, goals: Sequence[GoalUnderWay]) -> None:
        for goal in goals:
            client = self._node.create_client(CancelGoal, goal.cancel_service)
            self._strays.append(_Stray(goal, client, steady.now()))
        self.look()

    def forget(self, node: str) -> None:
        """Give up goals that were sent to a dead node: it moves nothing any more."""
        for stray in self._strays:
            stray.over = stray.over or stray.goal.cancel_service.startswith(f"{node}/")

    def look(self) -> None:
        for stray in [one for one in self._strays if not one.over]:
            if steady.now() - stray.since > INSIST_FOR:
                self._node.get_logger().error(f"goal {stray.name} was not ended within {INSIST_FOR:g} s; look after it")
                stray.over = True
            elif steady.now() - stray.asked > INSISTENCE and stray.client.service_is_ready():
                stray.asked = steady.now()
                asked = stray.client.call_async(CancelGoal.Request(goal_info=GoalInfo(goal_id=stray.goal.goal_id)))
                asked.add_done_callback(lambda done, stray=stray: self._answered(stray, done.result()))
        for stray in [one for one in self._strays if one.over]:
            self._strays.remove(stray)
            self._node.destroy_client(stray.client)

    def _answered(self, stray: _Stray, answer: CancelGoal.Response) -> None:
        if answer.return_code == CancelGoal.Response.ERROR_UNKNOWN_GOAL_ID:
            stray.unknown_since = stray.unknown_since or steady.now()
            stray.over = steady.now() - stray.unknown_since > UNKNOWN_FOR
        elif answer.return_code == CancelGoal.Response.ERROR_GOAL_TERMINATED or answer.goals_canceling:
            self._node.get_logger().warning(f"goal {stray.name} is canceled")
            stray.over = True


def cancel_apart(goals: Sequence[GoalUnderWay], *, within: float) -> bool:
    """Cancel goals in a context of their own, when their node's is lost; returns whether all are confirmed in time."""
    context, end = rclpy.Context(), steady.now() + within
    rclpy.init(context=context, args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = Node("last_words", context=context, use_global_arguments=False, start_parameter_services=False)
        executor = make_executor(context)
        executor.add_node(node)
        strays = Strays(node)
        strays.take(goals)
        while strays.left and steady.now() < end:
            executor.spin_once(timeout_sec=0.1)
            strays.look()
        executor.shutdown(timeout_sec=within)
        node.destroy_node()
    finally:
        context.try_shutdown()
    return not strays.left
