"""Finds the nodes that would ask a person: those with a client of ``ask_person``."""

from __future__ import annotations

from collections.abc import Iterator

from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.validate_topic_name import validate_topic_name

from reactree_ros.errors import UserError
from reactree_ros.nodes.people.ros_person import ACTION

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
