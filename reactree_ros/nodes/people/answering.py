"""The servers of ``ask_person``: other nodes' questions wait on a desk until a person answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.action import AskPerson

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.people.ros_person import ACTION
from reactree_ros.nodes.waiting import settled
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Answer, Question

#: How often expired questions are given up, in seconds.
PERIOD = 0.1
#: Longest time that a question may have, in seconds.
LONGEST = 86400.0


class Answering:
    """Offers actions ``ASKER/ask_person`` (AskPerson), and keeps questions until a person answers."""

    def __init__(self, node: Node, desk: Desk) -> None:
        self._node, self._desk = node, desk
        self._group = ReentrantCallbackGroup()
        self._servers: dict[str, ActionServer] = {}
        self._open: dict[bytes, tuple[str, Pending[Answer] | None]] = {}  # by goal, with the asker
        steady.every(node, PERIOD, lambda: desk.next)

    @property
    def askers(self) -> frozenset[str]:
        return frozenset(self._servers)

    @property
    def idle(self) -> bool:
        return not self._open

    def offer(self, askers: Iterable[str]) -> None:
        wanted = set(askers)
        for asker in wanted - set(self._servers):
            self._servers[asker] = ActionServer(
                self._node,
                AskPerson,
                f"{asker}/{ACTION}",
                execute_callback=partial(self._ask, asker),
                goal_callback=self._consider,
                handle_accepted_callback=partial(self._accepted, asker),
                cancel_callback=self._cancel,
                callback_group=self._group,
                result_timeout=10,
            )
        for asker in set(self._servers) - wanted - {asker for asker, _ in self._open.values()}:
            self._servers.pop(asker).destroy()

    def close(self) -> None:
        for server in self._servers.values():
            server.destroy()
        self._servers.clear()

    def _consider(self, goal: AskPerson.Goal) -> GoalResponse:
        there = self._desk.staffed and 0.0 < goal.seconds <= LONGEST and (goal.question or goal.skill)
        return GoalResponse.ACCEPT if there else GoalResponse.REJECT

    def _accepted(self, asker: str, goal_handle: Any) -> None:
        self._open[bytes(goal_handle.goal_id.uuid)] = asker, None  # keeps the server, also before execution
        goal_handle.execute()

    def _cancel(self, goal_handle: Any) -> CancelResponse:
        _, answer = self._open.get(bytes(goal_handle.goal_id.uuid), ("", None))
        if answer is not None:
            answer.cancel()
        return CancelResponse.ACCEPT

    async def _ask(self, asker: str, goal_handle: Any) -> AskPerson.Result:
        id, goal = bytes(goal_handle.goal_id.uuid), goal_handle.request
        try:
            if goal_handle.is_cancel_requested:
                answer: Pending[Answer] = Pending()
                answer.cancel()
            else:
                put = Question(goal.question, goal.seconds, goal=goal.reason, skill=goal.skill, asker=asker)
                answer = self._desk.ask(put)
                self._open[id] = asker, answer
                await settled(self._node, answer)
        finally:
            del self._open[id]
        if answer.cancelled():
            goal_handle.canceled() if goal_handle.is_cancel_requested else goal_handle.abort()
            return AskPerson.Result(error_code=AskPerson.Result.CANCELED, message="nobody waits for it any more")
        if (error := answer.exception()) is not None or goal_handle.is_cancel_requested:
            goal_handle.canceled() if goal_handle.is_cancel_requested else goal_handle.abort()
            return AskPerson.Result(error_code=AskPerson.Result.NOBODY, message=str(error or "it is too late"))
        goal_handle.succeed()
        said = answer.take()
        return AskPerson.Result(text=said.text, by=said.by)
