"""Questions of a bridge: may a skill be carried out that its skill policy wants confirmed?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.srv import ConfirmSkill

from reactree_ros.nodes import steady
from reactree_ros.nodes.waiting import Waker
from reactree_ros.pending import Pending


@dataclass
class Question:
    """A skill that is to be confirmed.

    Attributes:
        number: Tells it from others.
        request: Which, and why.
        until: When whoever asks gives up.
        answer: What the person says; empty: yes.
        shown: Whether it was put to the person.
    """

    number: int
    request: Any
    until: float
    answer: Pending[str] = field(default_factory=Pending)
    shown: bool = False


class Questions:
    """Offers the service ``confirm_skill`` (ConfirmSkill), and keeps what it is asked until a person has answered.

    Args:
        node: Whose service it is.
        answered: Told of each question that has its answer.
    """

    def __init__(self, node: Node, answered: Callable[[Question], None]) -> None:
        self._node, self._answered = node, answered
        self._waker = Waker(node)
        self._group = ReentrantCallbackGroup()
        self._numbers = itertools.count(1)
        self._open: list[Question] = []
        self._service: Any = None

    @property
    def offered(self) -> bool:
        """Whether anybody can ask."""
        return self._service is not None

    def offer(self) -> None:
        """Let whoever wants to ask."""
        if self._service is None:
            self._service = self._node.create_service(
                ConfirmSkill, "confirm_skill", self._ask, callback_group=self._group
            )

    def withdraw(self) -> None:
        """Let nobody ask any more; as long as somebody waits for an answer, nothing happens."""
        if self._service is not None and not self._open:
            self._node.destroy_service(self._service)
            self._service = None

    def next(self) -> Question | None:
        """Return the question that a person is to answer now; the time of those before it is over."""
        for question in self._open:
            if not question.answer.done() and steady.now() > question.until:
                question.answer.succeed(f"nobody answered within {question.request.seconds:g} s")
        return next((question for question in self._open if not question.answer.done()), None)

    def leave(self) -> None:
        """Say no to whatever is asked."""
        for question in self._open:
            question.answer.succeed("the person has left")

    def idle(self) -> bool:
        """Whether nothing is asked."""
        return not self._open

    async def _ask(self, request: ConfirmSkill.Request, response: ConfirmSkill.Response) -> ConfirmSkill.Response:
        question = Question(next(self._numbers), request, steady.now() + request.seconds)
        self._open.append(question)
        await self._waker.settled(question.answer)
        self._open.remove(question)
        response.message = question.answer.take()
        response.approved = not response.message
        self._answered(question)
        return response
