"""Reports what happens in a task: to viewers, on topics, and as feedback to the goal's client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Access, Status
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg
from std_msgs.msg import Header

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import Said
from reactree_ros.episode import Episode
from reactree_ros.llm.port import Reply
from reactree_ros.nodes import steady
from reactree_ros.nodes.messages import attempts_to_msg, decision_to_msg, fill
from reactree_ros.nodes.planner.task import Task
from reactree_ros.routine.running import RoutineNode
from reactree_ros.tree.context import GrowingTree, Growth, RunContext
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.listener import Call, Listener
from reactree_ros.world.port import GONE, Observation


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


#: Keys of the board, under the node's name, with their values while there is nothing to show.
BLANK = {
    **dict.fromkeys(("instruction", "subgoal", "decision", "decisions", "steps", "observation", "seen"), "-"),
    "holding": "nothing",
    "held_because": "it is not",
}
#: Number of sightings shown: the last ones.
SIGHTINGS = 12
#: Least time between two feedbacks, in seconds: nobody reads faster, and each costs as much as a request.
FED_EVERY = 0.1


def id_of(goal_handle: Any) -> str:
    """Return a goal's id as ``ros2 action`` prints it."""
    return bytes(goal_handle.goal_id.uuid).hex()


@dataclass(frozen=True)
class _Moment:
    """The time of an event, and the budget used so far."""

    header: Header  # with the time
    decisions: int  # decisions so far, with this one
    steps: int  # steps so far
    is_new: bool  # whether it was not reported before, by the run that this one resumes


class Reporter(Listener):
    """Shows the running task as snapshots of its tree, on the blackboard, on ``~/decisions``, and as feedback.

    The last task is shown until another begins. The events of a tick are reported at its end: the tick's requests to
    other nodes leave first.
    """

    def __init__(self, node: Node, tree: TaskTree) -> None:
        self._node, self.tree = node, tree
        self.growth = Growth()
        self.tree.add_post_tick_handler(lambda _: self._report())  # before the tick's snapshot
        self.tree.setup(node=node)
        self.growth.follow(self.tree, node=node)
        name = node.get_fully_qualified_name()
        self._board = self.tree.root.attach_blackboard_client(name=name.lstrip("/"), namespace=name)
        for key in BLANK:
            self._board.register_key(key, access=Access.WRITE)
        self._show(**BLANK)
        self._places: dict[str, str] = {}  # of what was seen, the latest last
        self._decisions = node.create_publisher(DecisionMsg, "~/decisions", 100)
        self._streams: set[str] = set()
        self._task: Task | None = None
        self._shown: Task | None = None  # the one whose tree is there
        self._told: list[str] = []  # what happened since the last feedback
        self._now: dict[str, Any] = {}  # the other fields of the next one
        self._fed = float("-inf")  # when the last one was sent
        self._compared = False  # whether a resumed run was compared with its record
        self._happened = deque[Callable[[], None]]()
        self._replies: dict[int, Reply] = {}  # by node, those that nothing is reported of yet
        self._say("waits for a goal")

    def clear(self, task: Task) -> None:
        """Remove the last task's tree; report a new task from now on."""
        self.tree.clear()
        self._task, self._told, self._now, self._compared = task, [], {}, False
        self._happened.clear()
        self._replies.clear()

    def begin(self, task: Task, episode: Episode) -> None:
        self._shown, self._places = task, {}
        self.tree.root.feedback_message = f"carries out {episode.instruction!r}, goal {id_of(task.goal_handle)}"
        self._show(**BLANK | {"instruction": episode.instruction} | self._counts())

    def end(self, task: Task, words: str) -> None:
        """Show how a task ended, if it is the one that is shown."""
        if task is self._shown:
            self._say(words)

    def look_for_watchers(self, *, show: bool) -> None:
        """Look whether somebody began to watch; between two tasks nothing else would ``show`` the tree."""
        streams = set(self.tree.snapshot_streams)
        if show and streams - self._streams:
            self.tree.show()
        self._streams = streams

    def feed_back(self, *, late: bool = False) -> None:
        """Send the feedback that is due; ``late``: also if one was sent just before."""
        task = self._task
        if task is None or not (self._told and self._now and task.goal_handle.is_active):
            return
        if late or steady.now() - self._fed >= FED_EVERY:
            task.goal_handle.publish_feedback(ExecuteTask.Feedback(told=self._told, **self._now))
            self._told, self._fed = [], steady.now()
            task.feedbacks += 1

    def close(self) -> None:
        self._board.unregister()

    def _say(self, words: str) -> None:
        self.tree.root.feedback_message = words
        self.tree.show()

    def _show(self, **values: str) -> None:
        for key, value in values.items():
            self._board.set(key, value)

    def _counts(self) -> dict[str, str]:
        budget = self._context.budget
        decisions, steps = f"{budget.decisions} of {budget.max_decisions}", f"{budget.steps} of {budget.max_steps}"
        return {"decisions": decisions, "steps": steps}

    def _report(self) -> None:
        while self._happened:
            self._happened.popleft()()
        self.feed_back()

    def came(self, node: Goal, call: Call, answer: Any) -> None:
        if isinstance(answer, Reply):
            self._replies[node.index] = answer

    def decided(self, node: Goal, decision: Decision, reply: Reply) -> None:
        moment = self._moment()
        self._replies.pop(node.index, None)
        self._happened.append(lambda: self._decision(moment, node, Said(str(decision), decision), reply))

    def refused(self, node: Goal, said: Said, reason: str) -> None:
        moment, reply = self._moment(), self._replies.pop(node.index, Reply(said.text))
        self._happened.append(lambda: self._decision(moment, node, said, reply, reason))

    def observed(self, node: Goal, observation: Observation) -> None:
        moment = self._moment()

        def publish() -> None:
            self._tell(moment, node, f"    {observation.text}", last_observation=observation.text)

        self._happened.append(publish)

    def saw(self, observation: Observation) -> None:
        self._happened.append(lambda: self._show_seen(observation))
        if self._current.way is not None and not self._current.returning and not self._compared:
            self._compared = True
            for difference in self._current.way.otherwise(observation):
                self._told.append(f"not as it was: {difference}")
                self._node.get_logger().warning(self._told[-1])

    def _show_seen(self, observation: Observation) -> None:
        for seen in observation.seen:
            name = self._context.household.name_of(seen.word, seen.instance)
            self._places.pop(name, None)
            if GONE not in seen.states:
                self._places[name] = "held" if seen.held else seen.place or seen.room or "here"
        holding = ", ".join(name for name, place in self._places.items() if place == "held")
        last = ", ".join(f"{name} ({place})" for name, place in list(self._places.items())[: -SIGHTINGS - 1 : -1])
        self._show(observation=observation.text, holding=holding or BLANK["holding"], seen=last or BLANK["seen"])

    def held(self, node: Goal, reason: str) -> None:
        moment = self._moment()

        def publish() -> None:
            said = f"held: {reason}" if reason else "the task goes on"
            self._node.get_logger().info(said)
            self._show(held_because=reason or BLANK["held_because"])
            self._tell(moment, node, said, held=reason)

        self._happened.append(publish)

    @property
    def _current(self) -> Task:
        assert self._task is not None  # something happens in it
        return self._task

    @property
    def _context(self) -> RunContext:
        assert self._current.episode is not None
        return self._current.episode.context

    def _moment(self) -> _Moment:
        budget, header = self._context.budget, Header(stamp=self._node.get_clock().now().to_msg())
        return _Moment(header, budget.decisions, budget.steps, is_new=not self._current.returning)

    def _decision(self, moment: _Moment, node: Goal, said: Said, reply: Reply, reason: str = "") -> None:
        decision = said.decision
        if moment.is_new and self._decisions.get_subscription_count():
            about = {"header": moment.header, "goal_id": self._current.goal_handle.goal_id}
            about |= {"count": moment.decisions, "node_id": node.index, "subgoal": node.subgoal, "depth": node.depth}
            about |= {"text": said.text, "reason": reason, "attempts": attempts_to_msg(reply)}
            about |= {} if decision is None else decision_to_msg(decision)
            self._decisions.publish(fill(DecisionMsg(), reply, **about))
        shown = " ".join(said.text.split()) if reason or decision is None else decision.in_a_line()
        self.tree.decided(node, f"refused: {shown}" if reason else shown)
        self._show(subgoal=node.subgoal, decision=shown, **self._counts())
        objections = dict.fromkeys(one.objection for one in reply.in_vain)
        told = [*(f"    asked again: {one}" for one in objections), f"[{moment.decisions}] {said.text}"]
        told += [f"    refused: {reason}"] if reason else []
        self._tell(moment, node, *told, last_decision=said.text, refused=reason)

    def _tell(self, moment: _Moment, node: Goal, *told: str, **now: str) -> None:
        if moment.is_new:
            above = _from_root(node)
            by = next((one.name for one in above if isinstance(one, RoutineNode)), "")
            self._told += [*([f"by {by}"] if by not in ("", self._now.get("routine")) else []), *told]
            self._now |= now | {"decisions": moment.decisions, "steps": moment.steps, "routine": by}
            self._now["active_path"] = [behaviour.name for behaviour in above]


def _from_root(node: Goal) -> list[Behaviour]:
    above: list[Behaviour] = []
    behaviour: Behaviour = node
    while behaviour.parent is not None:  # up to the tree's own root, which is not part of the task
        above.append(behaviour)
        behaviour = behaviour.parent
    return above[::-1]
