"""Asks the person at this terminal whether skills may be carried out that the skill policy wants confirmed."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from reactree_interfaces.srv import ConfirmSkill

from reactree_ros.nodes import steady
from reactree_ros.nodes.spinning import LAST_WORDS, Spinner, interruptible
from reactree_ros.nodes.waiting import Waker
from reactree_ros.pending import Pending

#: How often the terminal is looked at, in seconds.
PERIOD = 0.1
ANSWERED, NOBODY = 0, 1


@dataclass
class _Question:
    """A skill that is to be confirmed.

    Attributes:
        request: Which, and why.
        until: When whoever asks gives up.
        answer: What the person says; empty: yes.
        shown: Whether it was put to the person.
    """

    request: Any
    until: float
    answer: Pending[str] = field(default_factory=Pending)
    shown: bool = False


class ConfirmNode(Node):
    """Puts one question after the other to a person, and says no where none comes in time.

    Services:
        ``confirm_skill`` (ConfirmSkill): approved where the person says ``y``.
    """

    def __init__(self, name: str = "confirm", *, terminal: int = 0, **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            terminal: File descriptor of what the person types.
            kwargs: Passed on to :class:`rclpy.node.Node`.
        """
        super().__init__(name, **kwargs)
        self._terminal, self._typed = terminal, b""
        self._closed = False
        self._questions: deque[_Question] = deque()
        self._waker = Waker(self)
        self.create_service(ConfirmSkill, "confirm_skill", self._ask, callback_group=ReentrantCallbackGroup())
        steady.every(self, PERIOD, self._look)

    def nobody_is_there(self) -> bool:
        """Whether the terminal was closed."""
        return self._closed

    def idle(self) -> bool:
        """Whether nothing is asked."""
        return not self._questions

    def leave(self) -> None:
        """Say no to whatever is asked."""
        for question in self._questions:
            question.answer.succeed("the person has left")

    async def _ask(self, request: ConfirmSkill.Request, response: ConfirmSkill.Response) -> ConfirmSkill.Response:
        question = _Question(request, steady.now() + request.seconds)
        self._questions.append(question)
        await self._waker.settled(question.answer)
        self._questions.remove(question)
        response.message = question.answer.take()
        response.approved = not response.message
        _say(f"    {request.skill}: {f'refused, {response.message}' if response.message else 'approved'}")
        return response

    def _look(self) -> None:
        lines = self._lines()
        question = next((one for one in self._questions if not one.answer.done()), None)
        if question is None:
            return
        if self._closed:
            question.answer.succeed("nobody is at the terminal")
        elif steady.now() > question.until:
            question.answer.succeed(f"nobody answered within {question.request.seconds:g} s")
        elif not question.shown:  # what was typed before it is no answer to it
            question.shown = True
            left = question.until - steady.now()
            _say(f"{question.request.reason}. May '{question.request.skill}' be carried out? ({left:.0f} s)")
            _say("    y: yes; anything else: no, and the language model is told what you type")
        elif lines:
            said = lines[0].strip()
            question.answer.succeed("" if said.lower() in ("y", "yes") else said or "the person said no")

    def _lines(self) -> list[str]:
        """Return the lines that were typed since the last look, without waiting for any."""
        while not self._closed and select.select([self._terminal], [], [], 0)[0]:
            typed = os.read(self._terminal, 4096)
            self._closed = not typed
            self._typed += typed
        *lines, self._typed = self._typed.split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main() -> None:
    """Run from the command line."""
    argparse.ArgumentParser(description=__doc__).parse_args(remove_ros_args(sys.argv)[1:])
    with interruptible() as asked:
        node = ConfirmNode()
        with Spinner(node, asked) as spinner:
            _say(f"answers {node.resolve_service_name('confirm_skill')}; Ctrl-C ends it")
            closed = spinner.spin_until(node.nobody_is_there)
            asked.clear()  # a second Ctrl-C ends the wait for the last answers
            node.leave()
            spinner.spin_until(node.idle, seconds=LAST_WORDS)
    if closed:
        print("error: nobody is at the terminal; run it where somebody can type", file=sys.stderr)  # noqa: T201
    sys.exit(NOBODY if closed else ANSWERED)


if __name__ == "__main__":
    main()
