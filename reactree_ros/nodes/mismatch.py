"""Finds names that exist in the graph with another type or quality of service.

ROS does not connect such endpoints and says nothing: a subscriber or client would wait forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from rclpy.action import get_action_server_names_and_types_by_node
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from reactree_ros.errors import UserError


def another_type(full: str, kinds: Iterable[str], wanted: str) -> str:
    """Say that a name exists with other types only; empty if it does not."""
    kinds = sorted(set(kinds))
    return f"{full} is of type {', '.join(kinds)}, not {wanted}" if kinds and wanted not in kinds else ""


@contextmanager
def one_type(node: Node, topic: str, wanted: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        full = node.resolve_topic_name(topic)
        unlike = another_type(full, dict(node.get_topic_names_and_types()).get(full, ()), wanted)
        if not unlike:
            raise
        raise UserError(unlike) from error


def topic_mismatch(node: Node, topic: str, wanted: str, hearing: QoSProfile | None = None) -> str:
    """Say why no publisher of a topic can be heard; empty if one can, or if there is none."""
    full = node.resolve_topic_name(topic)
    publishers = node.get_publishers_info_by_topic(full)
    if unlike := another_type(full, (one.topic_type for one in publishers), wanted):
        return unlike
    offers = [one.qos_profile for one in publishers if one.topic_type == wanted]
    whys = sorted({_unheard(offer, hearing) for offer in offers}) if hearing is not None else [""]
    return f"{full} {' and '.join(whys)}" if offers and all(whys) else ""


def _unheard(offer: QoSProfile, hearing: QoSProfile) -> str:
    reliable = hearing.reliability is ReliabilityPolicy.RELIABLE
    if reliable and offer.reliability is ReliabilityPolicy.BEST_EFFORT:
        return "is published best effort, but must be reliable to be heard"
    latched = hearing.durability is DurabilityPolicy.TRANSIENT_LOCAL
    if latched and offer.durability is DurabilityPolicy.VOLATILE:
        return "is published volatile, but must be transient local to be heard"
    return ""


def server_mismatch(node: Node, name: str, wanted: str, *, action: bool) -> str:
    """Say that the servers of an action or service have another type; empty if they have not, or if there is none."""
    full = node.resolve_topic_name(name) if action else node.resolve_service_name(name)
    kinds = set[str]()
    for other, namespace in node.get_node_names_and_namespaces():  # the whole graph's list has the clients' types, too
        with suppress(NodeNameNonExistentError):  # it has gone meanwhile
            by_node = get_action_server_names_and_types_by_node
            listed = (
                by_node(node, other, namespace)
                if action
                else node.get_service_names_and_types_by_node(other, namespace)
            )
            kinds.update(dict(listed).get(full, ()))
    return another_type(full, kinds, wanted)
