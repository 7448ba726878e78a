"""The three control flows over agent nodes (paper, Algorithm 2).

With one robot children take turns, in order; with several those of a parallel run at the same time. A sequence is
py_trees' own with memory. Its selector would wipe the status of the children that failed, and its parallel would tick
all children at once and stop at the first that fails; both are kept as base classes, so that displays and viewers draw
them for what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.decision import ControlFlow
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import ParallelPolicy
from reactree_ros.tree.team import Post


class Fallback(py_trees.composites.Selector):
    """Tries its children in order until one succeeds.

    Status: SUCCESS as soon as a child succeeds, FAILURE when every child has failed, RUNNING in between.
    Children that failed keep their status.
    """

    def __init__(self, name: str, children: Sequence[Behaviour]) -> None:
        super().__init__(name, memory=True, children=list(children))

    def tick(self) -> Iterator[Behaviour]:
        """Tick the child whose turn it is, and those after it as long as each fails at once."""
        for child in _in_turn(self):
            yield from child.tick()
            if child.status != Status.FAILURE:
                _conclude(self, child.status)
                break
        else:
            _conclude(self, Status.FAILURE)
        yield self


class Majority(py_trees.common.ParallelPolicy.Base):
    """More than half of the children succeeded; its name is what viewers show."""


class All(py_trees.common.ParallelPolicy.Base):
    """Every child succeeded; its name is what viewers show."""


class Parallel(py_trees.composites.Parallel):
    """Runs every child to its end, one after the other, then lets a policy decide.

    Status: RUNNING until every child has ended, then SUCCESS or FAILURE by the policy.

    Args:
        name: Name in displays.
        children: What to run.
        parallel_policy: ``all``, or, by any other, more than half succeeded.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], parallel_policy: ParallelPolicy) -> None:
        super().__init__(name, All() if parallel_policy is ParallelPolicy.ALL else Majority(), list(children))
        self.parallel_policy = parallel_policy

    def tick(self) -> Iterator[Behaviour]:
        """Tick the child whose turn it is, and those after it as long as each ends at once."""
        for child in _in_turn(self):
            yield from child.tick()
            if child.status == Status.RUNNING:
                _conclude(self, Status.RUNNING)
                break
        else:
            _conclude(self, self._verdict())
        yield self

    def _verdict(self) -> Status:
        succeeded = sum(child.status == Status.SUCCESS for child in self.children)
        enough = len(self.children) if self.parallel_policy is ParallelPolicy.ALL else len(self.children) // 2 + 1
        return Status.SUCCESS if succeeded >= enough else Status.FAILURE


class Concurrent(Parallel):
    """Runs its children at the same time, each by a robot of its own; then the majority decides.

    A child without a robot waits until one is free. A robot stays with its child to that one's end. With one robot the
    children take turns, as under :class:`Parallel`. Where a failure ends the whole tree, the children that are still at
    work are stopped.

    Status: RUNNING until every child has ended, then SUCCESS or FAILURE by the policy.

    Args:
        name: Name in displays.
        children: What to run.
        node: The goal node that they grow under.
        context: What the goal nodes of the run share.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], node: GoalNode, context: RunContext) -> None:
        super().__init__(name, children, ParallelPolicy.CONCURRENT)
        self._node, self._context = node, context
        self._posts: dict[Behaviour, Post] = {}  # of those that are at work
        self._ended: set[Behaviour] = set()
        self._latest = 0  # how far the robots were when their children ended

    def tick(self) -> Iterator[Behaviour]:
        """Tick every child that has a robot or gets one now."""
        if self.status != Status.RUNNING:
            self._begin()
        if self._context.paused:
            self._context.team.stop()
        for child in self.children:
            if child in self._ended or not self._has_robot(child):
                continue
            self.current_child = child
            yield from child.tick()
            if child.status != Status.RUNNING:
                self._child_ended(child)
        if len(self._ended) == len(self.children):
            _conclude(self, self._verdict())
        elif self._context.fatal is not None:
            _conclude(self, Status.FAILURE)
        else:
            _conclude(self, Status.RUNNING)
        yield self

    def stop(self, new_status: Status = Status.INVALID) -> None:
        """Stop the children that are at work, and give their robots back."""
        super().stop(new_status)
        for child in list(self._posts):
            self._child_ended(child)
        self._context.team.resume(self._node.post, self._latest)

    def _begin(self) -> None:
        for child in self.children:
            if child.status != Status.INVALID:
                child.stop(Status.INVALID)
        self._ended.clear()
        self.initialise()
        self._begun_at = self._latest = self._node.post.robot.elapsed
        self._context.team.lend(self._node.post)

    def _has_robot(self, child: Behaviour) -> bool:
        if child in self._posts:
            return True
        nodes = [node for node in child.iterate() if isinstance(node, GoalNode)]
        team, memory = self._context.team, self._context.working_memory
        post = team.send(child, "; ".join(node.subgoal for node in nodes), self._node.post, memory)
        if post is None:
            return False
        post.robot.elapsed = max(post.robot.elapsed, self._begun_at)
        self._posts[child] = post
        for node in nodes:
            node.post = post
        self._context.listener.manned(child, post.robot.name)
        return True

    def _child_ended(self, child: Behaviour) -> None:
        post = self._posts.pop(child)
        self._ended.add(child)
        self._latest = max(self._latest, post.robot.elapsed)
        self._context.team.ended(post)
        self._context.wake()


def control_flow(flow: ControlFlow, children: Sequence[Behaviour], parallel_policy: ParallelPolicy) -> Composite:
    """Build the composite that carries out a control flow over its children, which take turns."""
    if flow is ControlFlow.SEQUENCE:
        return py_trees.composites.Sequence(flow.value, memory=True, children=list(children))
    if flow is ControlFlow.FALLBACK:
        return Fallback(flow.value, children)
    return Parallel(flow.value, children, parallel_policy)


def _in_turn(composite: Composite) -> Iterator[Behaviour]:
    """Yield the children from the one whose turn it is, which becomes the current child."""
    if composite.status != Status.RUNNING:
        for child in composite.children:
            if child.status != Status.INVALID:
                child.stop(Status.INVALID)
        composite.current_child = None
        composite.initialise()
    current = composite.current_child
    first = 0 if current is None else composite.children.index(current)
    for child in composite.children[first:]:
        composite.current_child = child
        yield child


def _conclude(composite: Composite, status: Status) -> None:
    if status == Status.RUNNING:
        composite.status = status
    else:
        composite.stop(status)
