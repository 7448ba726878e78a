"""Lets the person at this terminal answer planners and bridges, and talk to a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from reactree_interfaces.srv import Hear

from reactree_ros.agent.text import in_one_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import settled
from reactree_ros.nodes.people.answering import Answering, askers, askers_for, check_node_name, listeners
from reactree_ros.nodes.spinning import LAST_WORDS, Spinner, interruptible
from reactree_ros.nodes.waiting import Handover
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import is_stop
from reactree_ros.person.terminal import at_the_terminal

#: Time between two searches for askers, in seconds.
LOOK_PERIOD = 0.5
#: Longest wait for planners to take words, in seconds.
PATIENCE = 5.0
#: Time for the last answers to leave, in seconds.
LAST_ANSWERS = 0.1
ANSWERED, NOBODY = 0, 1


class AnswerNode(Node):
    """Takes questions of planners and bridges, and passes a person's words to planners.

    ``stop`` goes to all planners, other words to the only one. With ``planner``, a name relative to this node's
    namespace, only that one and its bridges are served.
    """

    def __init__(
        self, desk: Desk, planner: str = "", *, say: Callable[[str], None], name: str = "answer", **kwargs: Any
    ) -> None:
        check_node_name(planner or "any")
        super().__init__(name, start_parameter_services=False, **kwargs)
        self._planner = self.resolve_topic_name(planner) if planner else ""
        self._say = say
        self._answering = Answering(self, desk)
        self._hearers: dict[str, Client] = {}
        self._handover = Handover(self)
        desk.follow(self._tell)
        steady.every(self, LOOK_PERIOD, self._look)

    @property
    def idle(self) -> bool:
        return self._answering.idle

    def destroy_node(self) -> None:
        self._answering.close()
        super().destroy_node()

    def _look(self) -> None:
        before, found = self._answering.askers, askers_for(self, self._planner) if self._planner else askers(self)
        self._answering.offer(found)
        for asker in sorted(self._answering.askers - before):
            self._say(f"answers {asker}")
        for asker in sorted(before - self._answering.askers):
            self._say(f"{asker} has gone")
        hearers = {self._planner} if self._planner else listeners(self)
        for name in hearers - set(self._hearers):
            self._hearers[name] = self.create_client(Hear, f"{name}/hear")

    # ------------------------------------------------------------------ words, from the terminal's thread

    def _tell(self, words: str) -> None:
        told: Pending[None] = Pending()
        self._handover.put(partial(self._send, words, told))
        try:
            told.result(timeout=PATIENCE)
        except TimeoutError:
            raise UserError(f"no planner has answered within {PATIENCE:g} s") from None

    def _send(self, words: str, told: Pending[None]) -> None:
        there = {name: client for name, client in self._hearers.items() if client.service_is_ready()}
        if not there:
            told.fail(UserError(f"there is no planner {self._planner}".rstrip() + " that could take in what you say"))
        elif len(there) > 1 and not is_stop(words):
            named = ", ".join(sorted(there))
            told.fail(UserError(f"which planner is meant, {named}? Name it with --planner-node; 'stop' stops them all"))
        else:
            left, refusals = set(there), list[str]()
            for name, client in there.items():
                client.call_async(Hear.Request(words=words)).add_done_callback(
                    partial(self._heard, name, left, refusals, told)
                )

    def _heard(self, name: str, left: set[str], refusals: list[str], told: Pending[None], future: Future) -> None:
        left.discard(name)
        answer = settled(future)
        if answer.exception() is None and answer.take().success:
            told.succeed(None)
        else:
            refusals.append(str(answer.exception() or answer.take().message))
            if not left:
                told.fail(UserError("; ".join(dict.fromkeys(refusals))))


def serve(planner: str = "", *, terminal: int = 0, args: Sequence[str] | None = None) -> int:
    desk = Desk()
    with interruptible(args) as asked:
        node = AnswerNode(desk, planner, say=_say)
        typing = at_the_terminal(desk, terminal, _say, piped=not os.isatty(terminal))
        with Spinner(node, asked) as spinner, typing as typist:
            _say("Questions appear here; what you type answers them, or goes to the run; Ctrl-C ends it")
            closed = spinner.spin_until(lambda: not desk.staffed)
            asked.clear()  # a second Ctrl-C ends the wait for the last answers
            desk.leave()
            spinner.spin_until(lambda: node.idle, seconds=LAST_WORDS)
            spinner.spin_until(lambda: False, seconds=LAST_ANSWERS)
    if closed and typist.answered:  # a pipe at its end
        return ANSWERED
    if closed:
        print("error: the terminal is closed; run this in one where somebody can type", file=sys.stderr)  # noqa: T201
    return NOBODY if closed else ANSWERED


def _say(text: str) -> None:
    print(in_one_line(text), flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planner-node", default="", help="serve only this planner and its bridges")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    try:
        sys.exit(serve(options.planner_node))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


if __name__ == "__main__":
    main()
