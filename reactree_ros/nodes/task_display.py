"""What people see of a task: snapshots of its tree, the blackboard, and its decisions on a topic."""

from __future__ import annotations

import py_trees
from rclpy.node import Node
from reactree_interfaces.msg import Decision

from reactree_ros.nodes.reporter import Reporter, id_of
from reactree_ros.nodes.shown_tree import ShownTree
from reactree_ros.nodes.task import Task
from reactree_ros.nodes.task_board import TaskBoard
from reactree_ros.tree.growth import Growth


class TaskDisplay:
    """Shows the task that runs, and the last one until another begins.

    Args:
        node: The planner.

    Attributes:
        tree: The tree, in which each task grows anew.
        growth: What lets it grow.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.growth = Growth()
        self.tree = ShownTree(py_trees.composites.Sequence(node.get_name(), memory=True))
        self.tree.add_post_tick_handler(lambda _: self._report())  # before the tick's snapshot
        self.tree.setup(node=node)
        self.growth.follow(self.tree, node=node)
        self._board = TaskBoard(self.tree.root, node.get_fully_qualified_name())
        self._decisions = node.create_publisher(Decision, "~/decisions", 100)
        self._streams: set[str] = set()
        self._reporter: Reporter | None = None
        self._task: Task | None = None
        self._say("waits for a goal")

    def clear(self, task: Task) -> Reporter:
        """Remove the last task's tree; returns what reports what happens in this one."""
        self.tree.clear()
        self._reporter = Reporter(self._node, task, self._decisions, self.tree, self._board)
        return self._reporter

    def begin(self, task: Task) -> None:
        """Show a task that has an episode now."""
        assert task.episode is not None
        self._task = task
        self.tree.root.feedback_message = f"carries out {task.episode.instruction!r}, goal {id_of(task.goal_handle)}"
        self._board.begin(task.episode.instruction, task.episode.context)

    def end(self, task: Task, words: str) -> None:
        """Show how a task ended, if it is the one that is shown."""
        if task is self._task:
            self._say(words)

    def look_for_watchers(self, *, show: bool) -> None:
        """Look whether somebody began to watch.

        Args:
            show: Whether to send a snapshot then: between two tasks nothing else sends one.
        """
        streams = set(self.tree.snapshot_streams)
        if show and streams - self._streams:
            self.tree.show()
        self._streams = streams

    def close(self) -> None:
        """Take the keys off the blackboard."""
        self._board.close()

    def _say(self, words: str) -> None:
        self.tree.root.feedback_message = words
        self.tree.show()

    def _report(self) -> None:
        if self._reporter is not None:
            self._reporter.tell()
