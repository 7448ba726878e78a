"""Sequence, fallback and parallel: control flows over subgoals that take turns, or have a robot each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import ParallelPolicy
from reactree_ros.tree.team import Post


def in_turn(composite: Composite) -> Iterator[Behaviour]:
    """Yield the children from the one whose turn it is, which becomes the current child."""
    if composite.status != Status.RUNNING:
        begin_anew(composite)
        composite.initialise()
    current = composite.current_child
    first = 0 if current is None else composite.children.index(current)
    for child in composite.children[first:]:
        composite.current_child = child
        yield child


def take_turns(composite: Composite, after: Container[Status], otherwise: Callable[[], Status]) -> Iterator[Behaviour]:
    """Tick the child whose turn it is, and those after it as long as each ends so; the first other one concludes."""
    for child in in_turn(composite):
        yield from child.tick()
        if child.status not in after:
            conclude(composite, child.status)
            break
    else:
        conclude(composite, otherwise())
    yield composite


def begin_anew(composite: Composite) -> None:
    for child in composite.children:
        if child.status != Status.INVALID:
            child.stop(Status.INVALID)
    composite.current_child = None


def conclude(composite: Composite, status: Status) -> None:
    if status == Status.RUNNING:
        composite.status = status
    else:
        composite.stop(status)


class SequenceFlow(ControlFlow):
    name = "sequence"
    text = '"sequence" (achieve subgoals sequentially; if any subgoal fails, the sequence is interrupted)'
    phrase = "in sequence"
    ordered = True
    sign = "→"
    summary = "one after the other, until one fails"

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        return py_trees.composites.Sequence(str(self), memory=True, children=list(children))


class FallbackFlow(ControlFlow):
    name = "fallback"
    text = (
        '"fallback" (attempt subgoals in order until one succeeds; if a subgoal is successful, the remaining '
        "subgoals are not attempted)"
    )
    phrase = "using a fallback strategy"
    ordered = False
    sign = "?"
    summary = "one after the other, until one succeeds"

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        return Fallback(str(self), children)


class Fallback(py_trees.composites.Selector):
    """Tries its children in order until one succeeds.

    py_trees' selector would wipe the status of the children that failed. It is the base class, so that displays and
    viewers draw this one for what it is.

    Status: SUCCESS as soon as a child succeeds, FAILURE when every child has failed, RUNNING in between.
    Children that failed keep their status.
    """

    def __init__(self, name: str, children: Sequence[Behaviour]) -> None:
        super().__init__(name, memory=True, children=list(children))

    def tick(self) -> Iterator[Behaviour]:
        return take_turns(self, (Status.FAILURE,), lambda: Status.FAILURE)


class ParallelFlow(ControlFlow):
    name = "parallel"
    text = (
        '"parallel" (achieve subgoals in parallel; this enables tasks to continue independently, even if one '
        "subgoal fails)"
    )
    phrase = "in parallel"
    ordered = False
    sign = "⇉"
    summary = "each to its end; with several robots at the same time"

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        policy = node.context.options.parallel
        if policy is ParallelPolicy.ALL:
            return Parallel(str(self), children, policy)
        if policy is not ParallelPolicy.CONCURRENT or node.context.team.takes_turns:
            return Parallel(str(self), children, ParallelPolicy.MAJORITY)
        return Concurrent(str(self), children, node)


class Majority(py_trees.common.ParallelPolicy.Base):
    """More than half of the children succeeded; its name is what viewers show."""


class All(py_trees.common.ParallelPolicy.Base):
    """Every child succeeded; its name is what viewers show."""


class Parallel(py_trees.composites.Parallel):
    """Runs every child to its end, one after the other; then ``all`` must have succeeded, or by any other policy most.

    py_trees' parallel would tick all children at once and stop at the first that fails. It is the base class, so that
    displays and viewers draw this one for what it is.

    Status: RUNNING until every child has ended, then SUCCESS or FAILURE by the policy.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], parallel_policy: ParallelPolicy) -> None:
        super().__init__(name, All() if parallel_policy is ParallelPolicy.ALL else Majority(), list(children))
        self.parallel_policy = parallel_policy

    def tick(self) -> Iterator[Behaviour]:
        return take_turns(self, (Status.SUCCESS, Status.FAILURE, Status.INVALID), self._verdict)

    def _verdict(self) -> Status:
        succeeded = sum(child.status == Status.SUCCESS for child in self.children)
        enough = len(self.children) if self.parallel_policy is ParallelPolicy.ALL else len(self.children) // 2 + 1
        return Status.SUCCESS if succeeded >= enough else Status.FAILURE


class Posts:
    """Robots for the children of a composite that are at work at the same time, or the parts of one robot."""

    def __init__(self, node: GoalNode) -> None:
        self._node, self._context = node, node.context
        self._posts: dict[Behaviour, Post] = {}  # of those that are at work
        self._begun_at = self._latest = 0  # how far the robots were when it began, and when its children ended

    def begin(self) -> None:
        self._begun_at = self._latest = self._node.post.robot.elapsed
        self._context.team.claims.rest(self._node.post.robot)  # until what grew has ended

    def have(self, child: Behaviour) -> bool:
        """Return whether a child has a robot, which it keeps to its end; it gets one that is free."""
        if child in self._posts:
            return True
        nodes = [node for node in child.iterate() if isinstance(node, GoalNode)]
        team = self._context.team
        post = team.send(child, "; ".join(node.subgoal for node in nodes), self._node.post)
        if post is None:
            return False
        post.robot.elapsed = max(post.robot.elapsed, self._begun_at)
        self._posts[child] = post
        for node in nodes:
            node.post = post
        if post.robot.name:
            self._context.listener.manned(child, post.robot.name)
        return True

    def ended(self, child: Behaviour) -> None:
        post = self._posts.pop(child)
        self._latest = max(self._latest, post.robot.elapsed)
        self._context.team.ended(post)
        self._context.wake()

    def end(self) -> None:
        for child in list(self._posts):
            self.ended(child)
        robot = self._node.post.robot
        robot.idle, robot.elapsed = False, max(robot.elapsed, self._latest)


class Concurrent(Parallel):
    """Runs its children at the same time, each by a robot of its own; then the majority decides.

    A child without a robot waits until one is free. A robot stays with its child to that one's end. One robot works for
    all of them: a child has what its skills take of the robot to its end, and waits at a skill for what others have.
    Where a failure ends the whole tree, the children that are still at work are stopped.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], node: GoalNode) -> None:
        super().__init__(name, children, ParallelPolicy.CONCURRENT)
        self._context, self._posts = node.context, Posts(node)
        self._ended: set[Behaviour] = set()

    def tick(self) -> Iterator[Behaviour]:
        if self.status != Status.RUNNING:
            begin_anew(self)
            self._ended.clear()
            self.initialise()
            self._posts.begin()
        if self._context.paused:
            self._context.team.stop()
        for child in self.children:
            if child in self._ended or not self._posts.have(child):
                continue
            self.current_child = child
            yield from child.tick()
            if child.status != Status.RUNNING:
                self._ended.add(child)
                self._posts.ended(child)
        if len(self._ended) == len(self.children):
            conclude(self, self._verdict())
        else:
            conclude(self, Status.RUNNING if self._context.fatal is None else Status.FAILURE)
        yield self

    def stop(self, new_status: Status = Status.INVALID) -> None:
        super().stop(new_status)
        self._posts.end()
