"""The three control flows over agent nodes (paper, Algorithm 2).

With one robot children take turns, in order. A sequence is py_trees' own with memory. Its selector would wipe the
status of the children that failed, and its parallel would tick all children at once and stop at the first that
fails; both are kept as base classes, so that displays and viewers draw them for what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.decision import ControlFlow
from reactree_ros.tree.options import ParallelPolicy


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
        parallel_policy: ``majority`` (more than half succeeded) or ``all``.
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


def control_flow(flow: ControlFlow, children: Sequence[Behaviour], parallel_policy: ParallelPolicy) -> Composite:
    """Build the composite that carries out a control flow over its children."""
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
