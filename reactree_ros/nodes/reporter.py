"""Tells what happens in a task while it is carried out: decisions on a topic, feedback to whoever sent the goal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Time
from py_trees.behaviour import Behaviour
from rclpy.node import Node
from rclpy.publisher import Publisher
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import Said
from reactree_ros.llm.port import Reply
from reactree_ros.nodes.messages import counted, decision_to_msg
from reactree_ros.nodes.shown_tree import ShownTree
from reactree_ros.nodes.task_board import TaskBoard
from reactree_ros.tree.context import Listener, RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.world.port import Observation

if TYPE_CHECKING:
    from reactree_ros.nodes.task import Task


def id_of(goal_handle: Any) -> str:
    """Return a goal's id as ``ros2 action`` prints it."""
    return bytes(goal_handle.goal_id.uuid).hex()


@dataclass(frozen=True)
class _Moment:
    """When something happened: the time, and what was used of the budget.

    Attributes:
        stamp: The time.
        decisions: Decisions so far, with this one.
        steps: Steps so far.
        is_new: Whether it was not told before, by the run that this one goes on with.
    """

    stamp: Time
    decisions: int
    steps: int
    is_new: bool


class Reporter(Listener):
    """Publishes what happens in a run as decisions and as feedback, and shows it in the tree and on the blackboard.

    What happens in a tick is told at the tick's end by :meth:`tell`: what the tick asks of the other nodes leaves
    first, and is worked on meanwhile.

    Args:
        node: The planner.
        task: What is carried out.
        decisions: Publishes the decisions.
        tree: Where it grows.
        board: On the blackboard.
    """

    def __init__(self, node: Node, task: Task, decisions: Publisher, tree: ShownTree, board: TaskBoard) -> None:
        self._node, self._task, self._decisions, self._tree, self._board = node, task, decisions, tree, board
        self._feedback = ExecuteTask.Feedback()
        self._compared = False  # what a run that is gone on with sees with its record
        self._happened = deque[Callable[[], None]]()

    def tell(self) -> None:
        """Tell what has happened since this was called last, in order."""
        while self._happened:
            self._happened.popleft()()

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        """Publish a decision."""
        moment = self._moment()
        self._happened.append(lambda: self._decision(moment, node, Said(str(decision), decision), reply))

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        """Publish what was not carried out, and why."""
        moment = self._moment()
        self._happened.append(lambda: self._decision(moment, node, said, Reply(said.text), reason))

    def observed(self, node: GoalNode, observation: Observation) -> None:
        """Tell what was seen."""
        moment = self._moment()

        def tell() -> None:
            self._feedback.last_observation = observation.text
            self._publish(moment, node)

        self._happened.append(tell)

    def saw(self, observation: Observation) -> None:
        """Show what was seen, and once what a run that is gone on with sees otherwise than its record."""
        self._happened.append(lambda: self._board.saw(observation, self._context))
        if self._task.way is not None and not self._task.returning and not self._compared:
            self._compared = True
            self._feedback.differences = self._task.way.otherwise(observation)
            for difference in self._feedback.differences:
                self._node.get_logger().warning(f"not as it was: {difference}")

    def held(self, node: GoalNode, reason: str) -> None:
        """Tell that the task holds, or goes on."""
        moment = self._moment()

        def tell() -> None:
            self._node.get_logger().info(f"held: {reason}" if reason else "the task goes on")
            self._board.held(reason)
            self._feedback.held = reason
            self._publish(moment, node)

        self._happened.append(tell)

    @property
    def _context(self) -> RunContext:
        assert self._task.episode is not None  # something happens in it
        return self._task.episode.context

    def _moment(self) -> _Moment:
        budget = self._context.budget
        return _Moment(
            self._node.get_clock().now().to_msg(), budget.decisions, budget.steps, is_new=not self._task.returning
        )

    def _decision(self, moment: _Moment, node: GoalNode, said: Said, reply: Reply, reason: str = "") -> None:
        decision = said.decision
        msg = DecisionMsg(text=said.text, reason=reason, **({} if decision is None else decision_to_msg(decision)))
        msg.stamp, msg.goal_id, msg.count = moment.stamp, self._task.goal_handle.goal_id, moment.decisions
        msg.node_id, msg.subgoal, msg.depth = node.index, node.subgoal, node.depth
        msg.seconds, msg.answered_by = reply.seconds, reply.answered_by
        msg.prompt_tokens, msg.cached_tokens = counted(reply.prompt_tokens), counted(reply.cached_tokens)
        msg.output_tokens = counted(reply.output_tokens)
        if moment.is_new:
            self._decisions.publish(msg)
        shown = " ".join(said.text.split()) if reason or decision is None else decision.in_a_line()
        self._tree.decided(node, f"refused: {shown}" if reason else shown)
        self._board.decided(node, shown, self._context)
        self._feedback.last_decision, self._feedback.refused = said.text, reason
        self._publish(moment, node)

    def _publish(self, moment: _Moment, node: GoalNode) -> None:
        if moment.is_new and self._task.goal_handle.is_active:
            self._feedback.decisions, self._feedback.steps = moment.decisions, moment.steps
            self._feedback.active_path = _path(node)
            self._task.goal_handle.publish_feedback(self._feedback)


def _path(node: GoalNode) -> list[str]:
    names: list[str] = []
    behaviour: Behaviour = node
    while behaviour.parent is not None:  # up to the tree's own root, which is no part of the task
        names.append(behaviour.name)
        behaviour = behaviour.parent
    return names[::-1]
