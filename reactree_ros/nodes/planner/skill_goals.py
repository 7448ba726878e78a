"""Skills as goals of a bridge's action, by the services that every action is made of.

rclpy's ActionClient takes in the status of every goal that the server keeps whenever one changes, and asks for each
result. A bridge tells the end of a skill on ``~/skill_ended``, too; so this client sends a goal and hears its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from action_msgs.msg import GoalInfo, GoalStatus
from rclpy.node import Node
from rclpy.task import Future
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import SkillEnded
from unique_identifier_msgs.msg import UUID

from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import RESTARTED, ask, settled
from reactree_ros.world.port import WorldError

#: How long a skill lasts before its result is asked for, too, in seconds; a bridge keeps results for 1 s.
ASK_AFTER = 0.2
_ENDED = (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_ABORTED, GoalStatus.STATUS_CANCELED)


@dataclass(eq=False)
class SkillGoal:
    """A skill that is sent, or is about to be."""

    skill: str  # in words
    trace: str = ""  # the trace that it belongs to; empty: none
    end: Pending[Any] = field(default_factory=Pending)
    over: Pending[None] = field(default_factory=Pending)  # settles when nothing of it is under way
    accepted_at: float | None = None  # when it was accepted, in seconds (:func:`steady.now`); None: not yet
    stopping: bool = False  # whether it is to be canceled, as soon as it is accepted
    asked: Future | None = None  # the result that is asked for; None: it is not
    id: UUID = field(default_factory=UUID)  # of the goal, where it was sent

    def give_up(self) -> None:
        self.stopping = True

    @property
    def key(self) -> bytes:
        return bytes(self.id.uuid)


class SkillGoals:
    """Sends skills to a bridge."""

    def __init__(self, node: Node, bridge: str) -> None:
        self._node, self._bridge = node, bridge
        self.name = f"{bridge}/execute_skill"
        protocol = ExecuteSkill.Impl
        self._send_goal = node.create_client(protocol.SendGoalService, f"{self.name}/_action/send_goal")
        self._cancel_goal = node.create_client(protocol.CancelGoalService, f"{self.name}/_action/cancel_goal")
        self._get_result = node.create_client(protocol.GetResultService, f"{self.name}/_action/get_result")
        self.clients = (self._send_goal, self._cancel_goal, self._get_result)
        self._ended = node.create_subscription(SkillEnded, f"{bridge}/skill_ended", self._hear, 10)
        self._timer = steady.every(node, ASK_AFTER, self._look)
        self._goals: dict[bytes, SkillGoal] = {}

    def server_is_ready(self) -> bool:
        return all(client.service_is_ready() for client in self.clients)

    def send(self, goal: SkillGoal, id: UUID) -> None:
        goal.id = id
        self._goals[goal.key] = goal
        goal.over.add_done_callback(lambda _: self._forget(goal))
        request = ExecuteSkill.Impl.SendGoalService.Request(goal_id=goal.id, goal=_goal(goal.skill, goal.trace))
        ask(self._send_goal, request, partial(self._answered, goal))

    def cancel(self, goal: SkillGoal) -> None:
        goal.stopping = True
        if goal.accepted_at is not None and not goal.end.done():
            info = GoalInfo(goal_id=goal.id)
            self._cancel_goal.call_async(ExecuteSkill.Impl.CancelGoalService.Request(goal_info=info))

    def close(self) -> None:
        self._node.destroy_timer(self._timer)
        self._node.destroy_subscription(self._ended)
        for client in self.clients:
            self._node.destroy_client(client)

    def _answered(self, goal: SkillGoal, future: Future) -> None:
        answer = settled(future)
        if answer.exception() is not None or not answer.take().accepted:
            why = answer.exception() or WorldError(f"{self._bridge} rejected '{goal.skill}': it is busy or not active")
            self._finish(goal, lambda: goal.end.fail(why))
            return
        goal.accepted_at = steady.now()
        if goal.stopping:
            self.cancel(goal)

    def _hear(self, told: SkillEnded) -> None:
        goal = self._goals.get(bytes(told.goal_id.uuid))
        if goal is not None:
            self._finish(goal, lambda: goal.end.succeed(told))

    def _look(self) -> None:
        for goal in self._goals.values():
            if goal.accepted_at is not None and goal.asked is None and steady.now() - goal.accepted_at > ASK_AFTER:
                request = ExecuteSkill.Impl.GetResultService.Request(goal_id=goal.id)
                goal.asked = ask(self._get_result, request, partial(self._take_result, goal))

    def _take_result(self, goal: SkillGoal, future: Future) -> None:
        answer = settled(future)
        if (error := answer.exception()) is None and answer.take().status not in _ENDED:  # it knows nothing of the goal
            error = WorldError(f"{self.name} {RESTARTED}")
        if error is not None:
            self._finish(goal, lambda: goal.end.fail(error))
        else:
            self._finish(goal, lambda: goal.end.succeed(answer.take().result))

    def _finish(self, goal: SkillGoal, end: Callable[[], object]) -> None:
        end()
        goal.over.succeed(None)

    def _forget(self, goal: SkillGoal) -> None:
        self._goals.pop(goal.key, None)
        if goal.asked is not None:
            self._get_result.remove_pending_request(goal.asked)


def _goal(skill: str, trace: str) -> ExecuteSkill.Goal:
    if not isinstance(skill, SkillCall):
        return ExecuteSkill.Goal(skill=skill, trace=trace)
    arguments = json.dumps(skill.values)
    return ExecuteSkill.Goal(skill=str(skill), name=skill.skill.name, arguments=arguments, trace=trace)
