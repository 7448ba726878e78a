"""Calls and goals between the nodes of one process: no message leaves it, the server's own callback is called.

What others see is the same, but for the hidden topics and services of an action: nothing of such a goal is on them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from action_msgs.msg import GoalStatus
from rclpy.action import GoalResponse
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID


class Beside:
    """The nodes that are called directly; ``node`` calls them. Each says in ``serves`` which actions it serves."""

    def __init__(self, node: Node, others: Sequence[Any]) -> None:
        self._node, self._others = node, others

    def call(self, client: Client, request: Any) -> Future:
        """Call a service of one of these nodes, or any other one as usual."""
        services = (one for other in self._others for one in other.services)
        name = client.service_name if self._others else ""
        service = next((one for one in services if one.service_name == name), None)
        if service is None:
            return client.call_async(request)
        return self._node.executor.create_task(service.callback, request, client.srv_type.Response())

    def serving(self, action: str) -> Any:
        """Return what serves an action, with the callbacks of its ``ActionServer``; None: none of these nodes does."""
        name = self._node.resolve_service_name(action)
        return next((other.serves[name] for other in self._others if name in other.serves), None)


class Ended(NamedTuple):
    """How a goal ended."""

    status: int
    result: Any


class NearGoal:
    """A goal of a node of this process: the handle for its client and for its server."""

    def __init__(self, node: Node, serving: Any, request: Any, goal_id: UUID | None) -> None:
        self.request, self.goal_id = request, goal_id or UUID(uuid=list(uuid.uuid4().bytes))
        self._serving, self.status = serving, GoalStatus.STATUS_EXECUTING
        self.accepted = serving.consider(request) is GoalResponse.ACCEPT
        self._ended = node.executor.create_task(self._carry_out) if self.accepted else None

    async def _carry_out(self) -> Ended:
        result = await self._serving.serve(self)
        return Ended(self.status, result)

    def get_result_async(self) -> Any:
        return self._ended

    def cancel_goal_async(self) -> None:
        if self.is_active:
            self.status = GoalStatus.STATUS_CANCELING
            self._serving.cancel(self)

    @property
    def is_active(self) -> bool:
        return self.status in (GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)

    @property
    def is_cancel_requested(self) -> bool:
        return self.status == GoalStatus.STATUS_CANCELING

    def succeed(self) -> None:
        self.status = GoalStatus.STATUS_SUCCEEDED

    def abort(self) -> None:
        self.status = GoalStatus.STATUS_ABORTED

    def canceled(self) -> None:
        self.status = GoalStatus.STATUS_CANCELED

    def publish_feedback(self, feedback: Any) -> None:
        """Tell nobody: the planner takes no feedback of a skill."""
