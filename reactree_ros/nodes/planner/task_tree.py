"""The planner's tree, which others can watch if py_trees_ros is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from rclpy.node import Node

from reactree_ros.tree.growth import GrowingTree

#: Without these nothing can be watched.
WATCHING = ("py_trees_ros", "py_trees_ros_interfaces")


class TaskTree(GrowingTree):
    """Carries out tasks; nobody can watch it."""

    snapshot_streams: Mapping[str, Any] = {}

    def clear(self) -> None:
        self.root.stop(Status.INVALID)
        for child in list(self.root.children):
            self.prune_subtree(child.id)

    def decided(self, node: Behaviour, decision: str) -> None:
        """Show a goal node's decision."""

    def show(self) -> None:
        """Send a snapshot now."""


def task_tree(root: Behaviour, node: Node) -> TaskTree:
    """Make the tree of a planner node; without py_trees_ros, one that sends no snapshots, after a warning."""
    try:
        from reactree_ros.nodes.planner.shown_tree import ShownTree
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in WATCHING:
            raise
        node.get_logger().warning(
            f"{package} is not installed: no snapshots are sent, so no viewer and no py-trees-tree-watcher can show "
            "the tree; tasks are carried out all the same (sudo apt install ros-$ROS_DISTRO-py-trees-ros)"
        )
        return TaskTree(root)
    return ShownTree(root)
