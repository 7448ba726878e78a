"""The planner's tree as py_trees' own viewers see it."""

from __future__ import annotations

from py_trees_ros_interfaces.msg import Behaviour, BehaviourTree
from py_trees_ros_interfaces.srv import OpenSnapshotStream, ReconfigureSnapshotStream
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_graph import Graph

#: Who comes late hears the last snapshots, too.
LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def open_stream(graph: Graph) -> list[BehaviourTree]:
    opened = graph.call(OpenSnapshotStream, "/reactree_planner/snapshot_streams/open")
    return graph.listen(BehaviourTree, opened.topic_name, LATCHED)


class Viewer:
    """Hears what the viewer hears, as the viewer asks for it: snapshots when something changes, with the blackboard."""

    def __init__(self, graph: Graph) -> None:
        asked = OpenSnapshotStream.Request().parameters
        asked.snapshot_period, asked.blackboard_data, asked.blackboard_activity = float("inf"), True, True
        opened = graph.call(OpenSnapshotStream, "/reactree_planner/snapshot_streams/open", parameters=asked)
        self._graph, self._asked, self._topic = graph, asked, opened.topic_name
        self.trees: list[BehaviourTree] = graph.listen(BehaviourTree, opened.topic_name, LATCHED)

    def want_board(self, wanted: bool) -> None:
        self._asked.blackboard_data = wanted
        service, topic = "/reactree_planner/snapshot_streams/reconfigure", self._topic
        changed = self._graph.call(ReconfigureSnapshotStream, service, topic_name=topic, parameters=self._asked)
        assert changed.result

    @property
    def last(self) -> dict[str, Behaviour]:
        return {behaviour.name: behaviour for behaviour in self.trees[-1].behaviours} if self.trees else {}

    def seen(self, name: str) -> list[Behaviour]:
        return [one for tree in self.trees for one in tree.behaviours if one.name == name]

    def says(self, name: str, text: str) -> bool:
        return name in self.last and self.last[name].message.startswith(text)

    def board(self) -> dict[str, str]:
        values = {one.key: one.value for one in self.trees[-1].blackboard_on_visited_path} if self.trees else {}
        return {key.removeprefix("/reactree_planner/"): value for key, value in values.items()}
