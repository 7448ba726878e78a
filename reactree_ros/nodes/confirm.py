"""Asks the person at this terminal whether skills may be carried out that the skill policy wants confirmed."""

from __future__ import annotations

import argparse
import os
import select
import sys
from typing import Any

from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from reactree_ros.nodes import steady
from reactree_ros.nodes.questions import Question, Questions
from reactree_ros.nodes.spinning import LAST_WORDS, Spinner, interruptible

#: How often the terminal is looked at, in seconds.
PERIOD = 0.1
ANSWERED, NOBODY = 0, 1


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
        self._questions = Questions(self, self._answered)
        self._questions.offer()
        steady.every(self, PERIOD, self._look)

    def nobody_is_there(self) -> bool:
        """Whether the terminal was closed."""
        return self._closed

    def idle(self) -> bool:
        """Whether nothing is asked."""
        return self._questions.idle()

    def leave(self) -> None:
        """Say no to whatever is asked."""
        self._questions.leave()

    def _answered(self, question: Question) -> None:
        refusal = question.answer.take()
        _say(f"    {question.request.skill}: {f'refused, {refusal}' if refusal else 'approved'}")

    def _look(self) -> None:
        lines, question = self._lines(), self._questions.next()
        if question is None:
            return
        if self._closed:
            question.answer.succeed("nobody is at the terminal")
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
