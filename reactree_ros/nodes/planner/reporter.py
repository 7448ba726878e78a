"""Reports what happens in a task: to viewers, on topics, and as feedback to the goal's client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Time
from py_trees.behaviour import Behaviour
from py_trees.common import Access, Status
from py_trees.composites import Sequence
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import Said
from reactree_ros.episode import Episode
from reactree_ros.llm.port import Reply
from reactree_ros.nodes.messages import attempts_to_msg, counted, decision_to_msg
from reactree_ros.routine.running import RoutineNode
from reactree_ros.tree.context import Call, Listener, RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.growth import GrowingTree, Growth
from reactree_ros.world.port import GONE, Observation

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


#: Keys of the board, under the node's name, with their values while there is nothing to show.
BLANK = {
    **dict.fromkeys(("instruction", "subgoal", "decision", "decisions", "steps", "observation", "seen"), "-"),
    "holding": "nothing",
    "held_because": "it is not",
}
#: Number of sightings shown: the last ones.
SIGHTINGS = 12


class TaskBoard:
    """Writes a task's state to the blackboard."""

    def __init__(self, root: Behaviour, name: str) -> None:
        self._board = root.attach_blackboard_client(name=name.lstrip("/"), namespace=name)
        self._places: dict[str, str] = {}
        for key, blank in BLANK.items():
            self._board.register_key(key, access=Access.WRITE)
            self._board.set(key, blank)

    def begin(self, instruction: str, context: RunContext) -> None:
        self._places = {}
        for key, blank in BLANK.items():
            self._board.set(key, blank)
        self._board.set("instruction", instruction)
        self._count(context)

    def decided(self, node: GoalNode, decision: str, context: RunContext) -> None:
        self._board.set("subgoal", node.subgoal)
        self._board.set("decision", decision)
        self._count(context)

    def saw(self, observation: Observation, context: RunContext) -> None:
        self._board.set("observation", observation.text)
        for seen in observation.seen:
            name = context.household.name_of(seen.word, seen.instance)
            self._places.pop(name, None)  # the latest sighting comes last
            if GONE not in seen.states:
                self._places[name] = "held" if seen.held else seen.place or seen.room or "here"
        holding = ", ".join(name for name, place in self._places.items() if place == "held")
        self._board.set("holding", holding or BLANK["holding"])
        last = list(self._places.items())[-SIGHTINGS:]
        self._board.set("seen", ", ".join(f"{name} ({place})" for name, place in reversed(last)) or BLANK["seen"])

    def held(self, reason: str) -> None:
        """Show why the task holds; empty: it goes on."""
        self._board.set("held_because", reason or BLANK["held_because"])

    def close(self) -> None:
        self._board.unregister()

    def _count(self, context: RunContext) -> None:
        budget = context.budget
        self._board.set("decisions", f"{budget.decisions} of {budget.max_decisions}")
        self._board.set("steps", f"{budget.steps} of {budget.max_steps}")


if TYPE_CHECKING:
    from reactree_ros.nodes.planner.task import Task


def id_of(goal_handle: Any) -> str:
    """Return a goal's id as ``ros2 action`` prints it."""
    return bytes(goal_handle.goal_id.uuid).hex()


@dataclass(frozen=True)
class _Moment:
    """The time of an event, and the budget used so far."""

    stamp: Time  # the time
    decisions: int  # decisions so far, with this one
    steps: int  # steps so far
    is_new: bool  # whether it was not reported before, by the run that this one resumes


class Reporter(Listener):
    """Shows the running task as snapshots of its tree, on the blackboard, on ``~/decisions``, and as feedback.

    The last task is shown until another begins. The events of a tick are reported at its end: the tick's requests to
    other nodes leave first.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.growth = Growth()
        self.tree = task_tree(Sequence(node.get_name(), memory=True), node)
        self.tree.add_post_tick_handler(lambda _: self._report())  # before the tick's snapshot
        self.tree.setup(node=node)
        self.growth.follow(self.tree, node=node)
        self._board = TaskBoard(self.tree.root, node.get_fully_qualified_name())
        self._decisions = node.create_publisher(DecisionMsg, "~/decisions", 100)
        self._streams: set[str] = set()
        self._task: Task | None = None
        self._shown: Task | None = None  # the one whose tree is there
        self._feedback = ExecuteTask.Feedback()
        self._compared = False  # whether a resumed run was compared with its record
        self._happened = deque[Callable[[], None]]()
        self._replies: dict[int, Reply] = {}  # by node, those that nothing is reported of yet
        self._say("waits for a goal")

    def clear(self, task: Task) -> None:
        self.tree.clear()
        self._task, self._feedback, self._compared = task, ExecuteTask.Feedback(), False
        self._happened.clear()
        self._replies.clear()

    def begin(self, task: Task, episode: Episode) -> None:
        self._shown = task
        self.tree.root.feedback_message = f"carries out {episode.instruction!r}, goal {id_of(task.goal_handle)}"
        self._board.begin(episode.instruction, episode.context)

    def end(self, task: Task, words: str) -> None:
        if task is self._shown:
            self._say(words)

    def look_for_watchers(self, *, show: bool) -> None:
        streams = set(self.tree.snapshot_streams)
        if show and streams - self._streams:
            self.tree.show()
        self._streams = streams

    def close(self) -> None:
        self._board.close()

    def _say(self, words: str) -> None:
        self.tree.root.feedback_message = words
        self.tree.show()

    def _report(self) -> None:
        while self._happened:
            self._happened.popleft()()

    def came(self, node: GoalNode, call: Call, answer: Any) -> None:
        if isinstance(answer, Reply):
            self._replies[node.index] = answer

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        moment = self._moment()
        self._replies.pop(node.index, None)
        self._happened.append(lambda: self._decision(moment, node, Said(str(decision), decision), reply))

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        moment, reply = self._moment(), self._replies.pop(node.index, Reply(said.text))
        self._happened.append(lambda: self._decision(moment, node, said, reply, reason))

    def observed(self, node: GoalNode, observation: Observation) -> None:
        moment = self._moment()

        def tell() -> None:
            self._feedback.last_observation = observation.text
            self._publish(moment, node)

        self._happened.append(tell)

    def saw(self, observation: Observation) -> None:
        self._happened.append(lambda: self._board.saw(observation, self._context))
        if self._current.way is not None and not self._current.returning and not self._compared:
            self._compared = True
            self._feedback.differences = self._current.way.otherwise(observation)
            for difference in self._feedback.differences:
                self._node.get_logger().warning(f"not as it was: {difference}")

    def held(self, node: GoalNode, reason: str) -> None:
        moment = self._moment()

        def tell() -> None:
            self._node.get_logger().info(f"held: {reason}" if reason else "the task goes on")
            self._board.held(reason)
            self._feedback.held = reason
            self._publish(moment, node)

        self._happened.append(tell)

    @property
    def _current(self) -> Task:
        assert self._task is not None  # something happens in it
        return self._task

    @property
    def _context(self) -> RunContext:
        assert self._current.episode is not None
        return self._current.episode.context

    def _moment(self) -> _Moment:
        budget = self._context.budget
        return _Moment(
            self._node.get_clock().now().to_msg(), budget.decisions, budget.steps, is_new=not self._current.returning
        )

    def _decision(self, moment: _Moment, node: GoalNode, said: Said, reply: Reply, reason: str = "") -> None:
        decision = said.decision
        msg = DecisionMsg(text=said.text, reason=reason, **({} if decision is None else decision_to_msg(decision)))
        msg.stamp, msg.goal_id, msg.count = moment.stamp, self._current.goal_handle.goal_id, moment.decisions
        msg.node_id, msg.subgoal, msg.depth = node.index, node.subgoal, node.depth
        msg.seconds, msg.answered_by = reply.seconds, reply.answered_by
        msg.prompt_tokens, msg.cached_tokens = counted(reply.prompt_tokens), counted(reply.cached_tokens)
        msg.output_tokens, msg.attempts = counted(reply.output_tokens), attempts_to_msg(reply)
        if moment.is_new:
            self._decisions.publish(msg)
        shown = " ".join(said.text.split()) if reason or decision is None else decision.in_a_line()
        self.tree.decided(node, f"refused: {shown}" if reason else shown)
        self._board.decided(node, shown, self._context)
        self._feedback.last_decision, self._feedback.refused = said.text, reason
        self._feedback.asked_again = list(dict.fromkeys(one.objection for one in reply.in_vain))
        self._publish(moment, node)

    def _publish(self, moment: _Moment, node: GoalNode) -> None:
        if moment.is_new and self._current.goal_handle.is_active:
            self._feedback.decisions, self._feedback.steps = moment.decisions, moment.steps
            above = _from_root(node)
            self._feedback.active_path = [behaviour.name for behaviour in above]
            self._feedback.routine = next((one.name for one in above if isinstance(one, RoutineNode)), "")
            self._current.goal_handle.publish_feedback(self._feedback)
            self._current.feedbacks += 1


def _from_root(node: GoalNode) -> list[Behaviour]:
    above: list[Behaviour] = []
    behaviour: Behaviour = node
    while behaviour.parent is not None:  # up to the tree's own root, which is no part of the task
        above.append(behaviour)
        behaviour = behaviour.parent
    return above[::-1]
