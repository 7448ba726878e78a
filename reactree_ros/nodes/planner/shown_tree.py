"""The planner's tree as people see it: the content of its snapshot streams."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import py_trees_ros
from diagnostic_msgs.msg import KeyValue
from py_trees.behaviour import Behaviour
from py_trees.blackboard import Blackboard
from py_trees.common import Status
from py_trees.composites import Composite
from py_trees_ros import conversions
from py_trees_ros_interfaces.msg import Behaviour as BehaviourMsg
from py_trees_ros_interfaces.msg import BehaviourTree as BehaviourTreeMsg
from py_trees_ros_interfaces.msg import Statistics
from rclpy.clock import Clock

from reactree_ros.nodes import steady
from reactree_ros.nodes.planner.reporter import TaskTree
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.tried import is_unreached, telling_names

#: Longest detail of a behaviour's box, in characters; the viewer cuts it to some 15 to 25.
DETAIL = 40
#: In a tree of more behaviours, subtrees of goal nodes that are not at work are not sent: whenever the tree grows, the
#: viewer needs seconds for each hundred.
LARGE = 150
#: Replaces ``<`` in everything that is shown.
ANGLE = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
#: A snapshot is due when this share of its period is over.
CLOSE_ENOUGH = 0.98


class ShownTree(TaskTree, py_trees_ros.trees.BehaviourTree):
    """Sends snapshots that people understand.

    A goal node is shown as a selector without memory, in the watcher ``[o]`` next to a fallback's ``{o}``: the type
    COMPOSITE ends the watcher, and viewers before 0.3.0, with an error, and of a DECORATOR the watcher shows one child.
    A box of the viewer shows some 15 characters of name and detail each. So siblings are named by their differences,
    and details begin with a class or a robot. The root counts as visited, so that its blackboard is shown. The viewer
    interprets every text as HTML and runs its scripts, so ``<`` is sent as another character.

    A snapshot is sent from the start, when a decision has changed, and at once on a reconfigured stream. Unchanged
    behaviours are not converted again; of a large tree, what is not at work is only counted: ``agent +9: done``.
    """

    def __init__(self, root: Behaviour) -> None:
        super().__init__(root)
        self._decisions: dict[UUID, str] = {}
        self._news = False
        self._names: dict[UUID, str] = {}
        self._kept: dict[UUID, tuple[object, BehaviourMsg]] = {}

    def setup(self, *given: Any, **kwargs: Any) -> None:
        """Make the endpoints; snapshots are sent from now on (py_trees_ros 2.5 sends one here)."""
        self.statistics = Statistics()
        super().setup(*given, **kwargs)

    def clear(self) -> None:
        super().clear()
        self._decisions.clear()
        self._names.clear()

    def decided(self, node: Behaviour, decision: str) -> None:
        self._decisions[node.id] = decision
        self._news = True

    def show(self) -> None:
        self._on_tree_update_handler()

    # ------------------------------------------------------------------ when: called by py_trees_ros

    def _on_tree_update_handler(self) -> None:
        if self.statistics is not None:  # the tree may change before its setup
            self.statistics.stamp = Clock().now().to_msg()  # as py_trees_ros does it
            self._send(changed=True)

    def _reconfigure_snapshot_stream(self, request: Any, response: Any) -> Any:
        answer = super()._reconfigure_snapshot_stream(request, response)
        if answer.result:  # seen at once, also without ticks
            self.snapshot_streams[request.topic_name].last_snapshot_timestamp = None
            self._send(changed=False)
        return answer

    def _snapshots_post_tick_handler(self, tree: Any) -> None:
        self._send(changed=self.snapshot_visitor.changed or self._news)
        self.blackboard_exchange.post_tick_handler(
            visited_client_ids=self.snapshot_visitor.visited_blackboard_client_ids
        )

    def _send(self, *, changed: bool) -> None:
        now, due = steady.now(), []
        for stream in self.snapshot_streams.values():
            last, period = stream.last_snapshot_timestamp, stream.parameters.snapshot_period
            if last is None or changed or now - last >= CLOSE_ENOUGH * period:
                due.append(stream)
        if changed:
            self._news = False
        if not due:
            return
        behaviours = self._messages()
        for stream in due:
            first = stream.last_snapshot_timestamp is None
            msg = BehaviourTreeMsg(behaviours=behaviours, changed=changed or first, statistics=self.statistics)
            if stream.parameters.blackboard_data:
                msg.blackboard_on_visited_path = self._blackboard()
            if stream.parameters.blackboard_activity and Blackboard.activity_stream is not None:
                msg.blackboard_activity = conversions.activity_stream_to_msgs()
                for item in msg.blackboard_activity:
                    item.current_value = _plain(item.current_value)
            stream.publisher.publish(msg)
            stream.last_snapshot_timestamp = now

    # ------------------------------------------------------------------ what

    def _blackboard(self) -> list[Any]:
        own = {client.id() for client in self.root.blackboards}
        clients = self.snapshot_visitor.visited_blackboard_client_ids | own
        keys = sorted(Blackboard.keys_filtered_by_clients(clients))
        return [KeyValue(key=key, value=_plain(str(Blackboard.storage.get(key, "-")))) for key in keys]

    def _messages(self) -> list[BehaviourMsg]:
        kept, self._kept = self._kept, {}
        folded = self._folded()
        tips: dict[UUID, UUID | None] = {}
        for behaviour in _unfolded(self.root, folded):
            below = folded.get(behaviour.id, 0)
            current = behaviour.current_child if isinstance(behaviour, Composite) and not below else None
            own_tip = None if behaviour.status == Status.INVALID else behaviour.id
            tips[behaviour.id] = own_tip if current is None else tips.get(current.id)
            said = behaviour.feedback_message or self._decisions.get(behaviour.id, "")
            state = (
                behaviour.status,
                said,
                self._visited(behaviour),
                tips[behaviour.id],
                None if current is None else current.id,
                below,
                [child.id for child in behaviour.children],
            )
            before = kept.get(behaviour.id)
            msg = before[1] if before is not None and before[0] == state else self._message(behaviour, said, below)
            self._kept[behaviour.id] = state, msg
        return [msg for _, msg in self._kept.values()]

    def _folded(self) -> dict[UUID, int]:
        everything: list[Behaviour] = [self.root]
        for behaviour in everything:  # it grows meanwhile
            everything += behaviour.children
        if len(everything) <= LARGE:
            return {}
        folded: dict[UUID, int] = {}
        sizes: dict[UUID, int] = {}
        for behaviour in reversed(everything):  # children come before their parents
            below = sum([sizes[child.id] for child in behaviour.children])
            sizes[behaviour.id] = 1 + below
            if below and isinstance(behaviour, GoalNode) and not self._at_work(behaviour):
                folded[behaviour.id] = below
        return folded

    def _at_work(self, behaviour: Behaviour) -> bool:
        return behaviour.status == Status.RUNNING or self._visited(behaviour)

    def _visited(self, behaviour: Behaviour) -> bool:
        return behaviour is self.root or behaviour.id in self.snapshot_visitor.visited

    def _message(self, behaviour: Behaviour, said: str, below: int) -> BehaviourMsg:
        msg = conversions.behaviour_to_msg(behaviour)
        msg.name, msg.message = _plain(self._name(behaviour)), _plain(said)
        msg.is_active = self._visited(behaviour)
        if is_unreached(behaviour):
            msg.status = BehaviourMsg.INVALID  # grey in the viewer
        if isinstance(behaviour, GoalNode):
            msg.type = BehaviourMsg.SELECTOR
            kind = f"{_kind(behaviour)} +{below}" if below else _kind(behaviour)
            msg.additional_detail = _short(f"{kind}: {said.removeprefix('Act: ')}").rstrip(": ")
        elif behaviour is self.root or not behaviour.children:
            msg.additional_detail = _short(said)
        if below:
            nothing = type(msg.own_id)()
            msg.child_ids, msg.current_child_id, msg.tip_id = [], nothing, nothing
        return msg

    def _name(self, behaviour: Behaviour) -> str:
        parent = behaviour.parent
        if not isinstance(behaviour, GoalNode) or parent is None or isinstance(parent, GoalNode):
            return behaviour.name
        if behaviour.id not in self._names:
            names = telling_names([child.name for child in parent.children])
            self._names |= {child.id: name for child, name in zip(parent.children, names, strict=True)}
        return self._names[behaviour.id]


def _unfolded(behaviour: Behaviour, folded: Mapping[UUID, int]) -> Iterator[Behaviour]:
    if behaviour.id not in folded:
        for child in behaviour.children:
            yield from _unfolded(child, folded)
    yield behaviour


def _kind(node: GoalNode) -> str:
    return node.post.robot.name or re.sub("(?<=[a-z])(?=[A-Z])", " ", type(node).__name__.removesuffix("Node")).lower()


def _short(said: str) -> str:
    return textwrap.shorten(_plain(said), DETAIL, placeholder=" ...")


def _plain(text: str) -> str:
    return text.replace("<", ANGLE)
