"""Stray goals, whose nodes fell silent: they are canceled until their servers say that they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rclpy
from action_msgs.msg import GoalInfo
from action_msgs.srv import CancelGoal
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from reactree_interfaces.msg import GoalUnderWay

from reactree_ros.nodes import steady
from reactree_ros.nodes.executors import make_executor

#: Time between two cancels of a goal, in seconds.
INSISTENCE = 0.5
#: How long a server may not know a goal before it counts as ended, in seconds: its request may be on its way.
UNKNOWN_FOR = 5.0
#: How long a goal is canceled, also if its server is away, in seconds.
INSIST_FOR = 60.0


@dataclass(eq=False)
class _Stray:
    goal: GoalUnderWay
    client: Any
    since: float
    told: float = float("-inf")
    unknown_since: float | None = None
    over: bool = False

    @property
    def name(self) -> str:
        return f"{bytes(self.goal.goal_id.uuid).hex()[:8]} on {self.goal.cancel_service.rpartition('/_action')[0]}"


class Strays:
    """Cancels goals."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._strays: list[_Stray] = []

    @property
    def left(self) -> int:
        return len(self._strays)

    def take(self, goals: Sequence[GoalUnderWay]) -> None:
        for goal in goals:
            client = self._node.create_client(CancelGoal, goal.cancel_service)
            self._strays.append(_Stray(goal, client, steady.now()))
        self.look()

    def forget(self, node: str) -> None:
        for stray in self._strays:
            stray.over = stray.over or stray.goal.cancel_service.startswith(f"{node}/")

    def look(self) -> None:
        """Cancel the goals whose time has come; to be called regularly."""
        for stray in [one for one in self._strays if not one.over]:
            if steady.now() - stray.since > INSIST_FOR:
                self._node.get_logger().error(f"goal {stray.name} was not ended within {INSIST_FOR:g} s; look after it")
                stray.over = True
            elif steady.now() - stray.told > INSISTENCE and stray.client.service_is_ready():
                stray.told = steady.now()
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
