"""Within: the subgoals one after the other, in a limited time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.parameters import Number
from reactree_ros.agent.wording import Wording
from reactree_ros.background.pending import Pending
from reactree_ros.tree.context import Call
from reactree_ros.tree.flows.turns import begin_anew, conclude
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program import Program, Wait


@dataclass(frozen=True)
class WithinFlow(ControlFlow):
    """The subgoals one after the other; what is under way when the time is over is cancelled."""

    name = "within"
    wording = Wording("within {seconds} s", {"seconds": Number(1, 3600, unit="s")})
    text = '"within SECONDS s" (achieve subgoals sequentially, but stop and fail when so many seconds are over)'
    phrase = "in sequence, within {seconds} s"
    ordered = True
    sign = "◷"
    summary = "one after the other, in a limited time"

    seconds: int  # the time

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        return Within(str(self), children, Clock(self.seconds, node))


class TimeIsOver(Exception):
    """The time of subgoals is over."""


class Clock(GoalNode):
    """Waits for the end of a time; nothing else ends it.

    Status: RUNNING until the time is over, then FAILURE.
    """

    def __init__(self, seconds: int, node: GoalNode) -> None:
        super().__init__(f"{seconds} s", node.context, parent=node)
        self._seconds = float(seconds)

    def experience(self, **task: str) -> None:
        """Return nothing: an agent has nothing to learn from it."""

    def program(self) -> Program:
        """Wait; a record has the end of the time as an answer that came too late."""
        end: Pending[None] = Pending()
        try:
            yield Wait("end of the subgoals", end, TimeIsOver, seconds=self._seconds, call=Call("within"))
        except TimeIsOver:
            self.feedback_message = f"the {self.subgoal} are over"
        return False


class Within(py_trees.composites.Sequence):
    """Runs its children in order beside a clock, its first child.

    Status: SUCCESS when all others succeed, FAILURE when one fails or the clock ends; RUNNING in between.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], clock: Clock) -> None:
        super().__init__(name, memory=True, children=[clock, *children])
        self._clock = clock

    def tick(self) -> Iterator[Behaviour]:
        """Tick the clock, then the child whose turn it is."""
        if self.status != Status.RUNNING:
            begin_anew(self)
            self.current_child = self.children[1]
        self.feedback_message = ""
        yield from self._clock.tick()
        if self._clock.status != Status.RUNNING:
            self.feedback_message = self._clock.feedback_message
            self._end(Status.FAILURE)
        else:
            yield from self._tick_others()
        yield self

    def _tick_others(self) -> Iterator[Behaviour]:
        assert self.current_child is not None  # set by tick
        for child in self.children[self.children.index(self.current_child) :]:
            self.current_child = child
            yield from child.tick()
            if child.status == Status.RUNNING:
                conclude(self, Status.RUNNING)
                return
            if child.status != Status.SUCCESS:
                self._end(child.status)
                return
        self._end(Status.SUCCESS)

    def _end(self, status: Status) -> None:
        """End with what is still under way stopped."""
        for child in self.children:
            if child.status == Status.RUNNING:
                child.stop(Status.INVALID)
        conclude(self, status)
