"""Lets the person at this terminal answer planners and bridges, and talk to a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from rclpy.validate_topic_name import validate_topic_name
from reactree_interfaces.action import AskPerson
from reactree_interfaces.srv import Hear

from reactree_ros.agent.text import in_one_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.people.ros_person import ACTION
from reactree_ros.nodes.spinning import LAST_WORDS, Spinner, interruptible, refuse
from reactree_ros.nodes.waiting import Handover, settled
from reactree_ros.person.desk import Desk, at_the_terminal
from reactree_ros.person.port import Answer, Question, is_stop

_ASKS = f"/{ACTION}/_action/send_goal"
_USES = "/execute_skill/_action/send_goal"
_HEARS = "/hear"


def check_node_name(name: str) -> str:
    try:
        validate_topic_name(name)
    except InvalidTopicNameException as error:
        raise UserError(f"{name!r} is not a node's name, which is like /robot1/reactree_planner") from error
    return name


def askers(node: Node) -> frozenset[str]:
    """Return the full names of all nodes that would ask a person.

    Of two nodes with one name, ROS lists the clients of one only, for a while those of a killed one. So clients are
    counted if this ROS can count them, as it can since Jazzy.
    """
    if not hasattr(node, "count_clients"):
        names = node.get_node_names_and_namespaces()
        return frozenset(asker for name, namespace in names for asker in _of(node, name, namespace, _ASKS))
    services = [name for name, _ in node.get_service_names_and_types() if name.endswith(_ASKS)]
    return frozenset(name.removesuffix(_ASKS) for name in services if node.count_clients(name))


def askers_for(node: Node, planner: str) -> frozenset[str]:
    return askers(node) & {planner, *bridges_of(node, planner)}


def bridges_of(node: Node, planner: str) -> frozenset[str]:
    namespace, _, name = planner.rpartition("/")
    return frozenset(_of(node, name, namespace or "/", _USES))


def listeners(node: Node) -> frozenset[str]:
    """Return the full names of the nodes with a service ``hear``, for a person's words during a run."""
    kind = "reactree_interfaces/srv/Hear"
    services = node.get_service_names_and_types()
    return frozenset(name.removesuffix(_HEARS) for name, kinds in services if kind in kinds and name.endswith(_HEARS))


def _of(node: Node, name: str, namespace: str, ending: str) -> Iterator[str]:
    try:
        clients = node.get_client_names_and_types_by_node(name, namespace)
    except NodeNameNonExistentError:  # it has gone meanwhile
        return
    for client, _ in clients:
        if client.endswith(ending):
            yield client.removesuffix(ending)


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
        error = future.exception()
        answer = None if error else future.result()
        if answer is not None and answer.success:
            told.succeed(None)
        else:
            refusals.append(str(error or (answer and answer.message)))
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
        refuse(error)


if __name__ == "__main__":
    main()
