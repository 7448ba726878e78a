"""The port to a person over ROS: a question is a goal of the action ``~/ask_person``, whose servers answer.

There may be several servers: all get the question, and the first answer counts. Then the goal is canceled, and the
others take the question back. For rclpy's ActionClient the answers of a second server are errors, so this client uses
the action's services directly.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from action_msgs.msg import GoalInfo, GoalStatus
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from reactree_interfaces.action import AskPerson
from unique_identifier_msgs.msg import UUID

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import ask, count_servers, settled
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.waiting import Handover
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question, is_stop

#: Name of the action, below the name of the asking node.
ACTION = "ask_person"
#: The ways to answer, for errors that nobody does.
HINT = "`reactree robot answer` in a terminal does, and the page of `reactree view --ros` while somebody looks at it"
#: Time between two checks of open questions, in seconds.
LOOK_PERIOD = 0.1
#: Longest wait for a server after the start of the asking node, in seconds.
DISCOVERY = 3.0
#: Longest wait for a server later, in seconds.
AT_ONCE = 1.0
#: Time before a question is put again, for servers that came since, and before a cancel is repeated, in seconds.
AGAIN = 1.0
#: How long it may seem that no server is left while one of several leaves, in seconds.
LEAVES = 1.0
_PROTOCOL = AskPerson.Impl


@dataclass(eq=False)
class _Asked:
    """A question that is on its way; times are those of :func:`steady.now`."""

    question: Question
    id: UUID  # the goal's id
    answer: Pending[Answer]  # the answer that is to come
    until: float  # when the wait for it ends
    there_by: float  # when a server must be there
    put_at: float | None = None  # when it was put last; None: it was not
    requests: list[tuple[Client, Future]] = field(default_factory=list)
    asked_of: int = 0  # number of servers when they were asked for the answer, or fewer since
    nobody: str = ""  # why one of the servers does not answer; empty: none has said so


class RosPerson(Person):
    """A person behind the servers of ``~/ask_person`` (AskPerson); any thread may put and cancel a question.

    A question fails at once if there is no server, or none any more.
    """

    def __init__(self, node: Node, heartbeat: Heartbeat, stop: Callable[[str], object] | None = None) -> None:
        self._node, self._heartbeat, self._stop = node, heartbeat, stop
        self.name = f"{node.get_fully_qualified_name()}/{ACTION}"
        self._send = node.create_client(_PROTOCOL.SendGoalService, f"{self.name}/_action/send_goal")
        self._cancel = node.create_client(_PROTOCOL.CancelGoalService, f"{self.name}/_action/cancel_goal")
        self._get = node.create_client(_PROTOCOL.GetResultService, f"{self.name}/_action/get_result")
        self._open: list[_Asked] = []
        self._over: list[tuple[float, Callable[[], None]]] = []  # what is due when for questions whose wait is over
        self._since = steady.now()
        self._there_at = float("-inf")  # when somebody was there last
        self._handover = Handover(node)
        steady.every(node, LOOK_PERIOD, self._look)

    @property
    def there(self) -> bool:
        return all(client.service_is_ready() for client in (self._send, self._cancel, self._get))

    def ask(self, question: Question) -> Pending[Answer]:
        now = steady.now()
        answer: Pending[Answer] = Pending()
        there_by = max(self._since + DISCOVERY, now + AT_ONCE)
        id = self._heartbeat.goal(self.name, answer.done)
        one = _Asked(question, id, answer, now + question.seconds, there_by)
        answer.add_done_callback(lambda _: self._handover.put(self._look))
        self._handover.put(partial(self._open.append, one))
        self._handover.put(self._look)
        return answer

    # ------------------------------------------------------------------ in the node's executor

    def _look(self) -> None:
        now, servers = steady.now(), self._servers()
        if servers:
            self._there_at = now
        for one in self._open:
            if not one.answer.done():
                self._look_after(one, now, servers)
        for one in [one for one in self._open if one.answer.done()]:
            self._open.remove(one)
            self._forget(one, self._get)
            if one.put_at is not None:
                self._tell_over(one)  # and again: this cancel may overtake the question
                forget = partial(self._forget, one, self._send, self._get, self._cancel)
                self._over += [(now + AGAIN, partial(self._tell_over, one)), (now + 2 * AGAIN, forget)]
        due, self._over = [do for at, do in self._over if now > at], [one for one in self._over if now <= one[0]]
        for do in due:
            do()

    def _look_after(self, one: _Asked, now: float, servers: int) -> None:
        one.asked_of = min(one.asked_of, servers)
        if now > one.until:
            one.answer.fail(NobodyAnswers(f"nobody answered within {one.question.seconds:g} s"))
        elif servers:
            if one.put_at is None or now - one.put_at > AGAIN:
                self._put(one, now)
        elif one.put_at is None:
            if now > one.there_by:
                one.answer.fail(NobodyAnswers(f"nobody answers {self.name}; {HINT}"))
        elif now - self._there_at > LEAVES:
            one.answer.fail(NobodyAnswers(one.nobody or "whoever was asked has gone"))

    def _servers(self) -> int:
        return count_servers(self._node, self._send.srv_name) if self.there else 0

    def _put(self, one: _Asked, now: float) -> None:
        first, one.put_at = one.put_at is None, now
        asked = one.question
        goal = AskPerson.Goal(question=asked.text, reason=asked.goal, skill=asked.skill, seconds=one.until - now)
        request = _PROTOCOL.SendGoalService.Request(goal_id=one.id, goal=goal)
        self._request(one, self._send, request, partial(self._taken, one, first))

    def _taken(self, one: _Asked, first: bool, response: Any) -> None:
        servers = self._servers()
        if one.answer.done():
            self._tell_over(one)
        elif first and not response.accepted and servers <= 1:
            one.answer.fail(NobodyAnswers("nobody is there"))
        elif response.accepted or one.nobody or servers > one.asked_of:
            one.asked_of, one.nobody = servers, ""
            request = _PROTOCOL.GetResultService.Request(goal_id=one.id)
            self._request(one, self._get, request, partial(self._told, one))

    def _told(self, one: _Asked, response: Any) -> None:
        if one.answer.done() or steady.now() > one.until:
            return
        told = response.result
        if response.status == GoalStatus.STATUS_SUCCEEDED and told.error_code == AskPerson.Result.ANSWERED:
            self._answered(one, Answer(told.text, told.by))
            return
        one.nobody = told.message or "whoever was asked does not answer"
        knows_it = response.status != GoalStatus.STATUS_UNKNOWN  # otherwise it is new, and gets the question soon
        if knows_it and self._servers() <= 1:
            one.answer.fail(NobodyAnswers(one.nobody))

    def _answered(self, one: _Asked, answer: Answer) -> None:
        if self._stop is not None and is_stop(answer.text):
            with suppress(UserError):  # it has ended
                self._stop(answer.text)
                return  # the run's end gives the question up
        if answer.text.strip():
            one.answer.succeed(answer)
        else:
            one.answer.fail(NobodyAnswers("the answer is empty"))

    def _request(self, one: _Asked, client: Client, request: Any, take: Callable[[Any], object]) -> None:
        def answered(future: Future) -> None:
            if (client, future) in one.requests:
                one.requests.remove((client, future))
            came = settled(future)
            if not came.cancelled() and came.exception() is None:
                take(came.take())

        one.requests.append((client, ask(client, request, answered)))

    def _forget(self, one: _Asked, *clients: Client) -> None:
        for client, future in list(one.requests):
            if client in clients:
                client.remove_pending_request(future)
                one.requests.remove((client, future))

    def _tell_over(self, one: _Asked) -> None:
        request = _PROTOCOL.CancelGoalService.Request(goal_info=GoalInfo(goal_id=one.id))
        self._request(one, self._cancel, request, lambda response: None)
