"""The servers of ``ask_person``: other nodes' questions wait on a desk until a person answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.validate_topic_name import validate_topic_name
from reactree_interfaces.action import AskPerson

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.people.ros_person import ACTION
from reactree_ros.nodes.waiting import settled
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Answer, Question

_ASKS = f"/{ACTION}/_action/send_goal"
_USES = "/execute_skill/_action/send_goal"
_HEARS = "/hear"


def check_node_name(name: str) -> str:
    try:
        validate_topic_name(name)
    except InvalidTopicNameException as error:
        raise UserError(f"{name!r} is no node's name, which is like /robot1/reactree_planner") from error
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
