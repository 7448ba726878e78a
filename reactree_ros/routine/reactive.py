"""Composites of trees that exist elsewhere: what begins its children anew in each tick, and what keeps its turn.

Each is also a sequence or a selector of py_trees: viewers draw by that, and some end with an error at anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.tree.flows import Posts, begin_anew, conclude
from reactree_ros.tree.goal_node import GoalNode


class Again(Composite):
    """Ticks its children in order in each tick; one that is done again breaks nothing off that comes after.

    Nav2's PipelineSequence, and a reactive node whose conditions take time. If a robot's skills say what they use, what
    is done again runs beside what comes after. Otherwise it waits for the skill under way.

    Status: SUCCESS after the last child, FAILURE with the first that fails; a fallback the other way round. RUNNING as
    long as the last child that was begun runs.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], node: GoalNode, goes_on: Status) -> None:
        super().__init__(name, memory=False, children=list(children))  # type: ignore[call-arg]
        self._goes_on, self._last, self._context, self._posts = goes_on, 0, node.context, Posts(node)
        works = {one for one in children if any(isinstance(each, GoalNode) for each in one.iterate())}
        self._shares = works if node.context.team.alone and not node.context.team.takes_turns else set[Behaviour]()

    def tick(self) -> Iterator[Behaviour]:
        if self.status != Status.RUNNING:
            begin_anew(self)
            self._last = 0
            if self._shares:
                self._posts.begin()
        for at, child in enumerate(self.children):
            self.current_child, before = child, child.status
            if child in self._shares:
                self._posts.have(child)
            yield from child.tick()
            if child.status != Status.RUNNING and child in self._shares:
                self._posts.ended(child)
            if before == Status.RUNNING != child.status:
                self._context.wake()  # to do it again
            if child.status != self._goes_on and (child.status != Status.RUNNING or at >= self._last):
                self._last = at
                conclude(self, child.status)
                break
        else:
            conclude(self, self._goes_on)
        yield self

    def stop(self, new_status: Status = Status.INVALID) -> None:
        for child in self.children:
            if child.status == Status.RUNNING:
                child.stop(Status.INVALID)
        super().stop(new_status)
        if self._shares:
            self._posts.end()


class Kept(Composite):
    """Goes on with the child whose turn it is, also from one time to the next.

    BehaviorTree.CPP's SequenceWithMemory, which stays at a child that failed, and Nav2's RoundRobin, which goes on
    after each, and begins anew if all failed or it is broken off.

    Status: RUNNING as long as a child runs. A sequence succeeds after its last child, and fails with any. A fallback
    succeeds with any, and fails when all have failed in a row.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], node: GoalNode, goes_on: Status) -> None:
        super().__init__(name, memory=True, children=list(children))  # type: ignore[call-arg]
        self._goes_on, self._turn, self._tried = goes_on, 0, 0

    def tick(self) -> Iterator[Behaviour]:
        if self.status != Status.RUNNING:
            begin_anew(self)
            self._tried = 0
        is_sequence, is_over = self._goes_on == Status.SUCCESS, False
        while not is_over:
            self.current_child = child = self.children[self._turn]
            yield from child.tick()
            if child.status == Status.RUNNING or (is_sequence and child.status != self._goes_on):
                break
            self._turn, self._tried = (self._turn + 1) % len(self.children), self._tried + 1
            is_round = self._turn == 0 if is_sequence else self._tried == len(self.children)
            is_over = is_round or child.status != self._goes_on
            self._turn = 0 if is_round and child.status == self._goes_on else self._turn
        conclude(self, child.status)
        yield self

    def stop(self, new_status: Status = Status.INVALID) -> None:
        if new_status == Status.INVALID and self.status == Status.RUNNING and self._goes_on == Status.FAILURE:
            self._turn = 0
        super().stop(new_status)
