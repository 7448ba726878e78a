"""Repeat until, while and within: the subgoals one after the other, as a condition of the world or a clock allows."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.parameters import Number, ParameterError, Text
from reactree_ros.agent.skill import Skill, look_at
from reactree_ros.agent.wording import Wording
from reactree_ros.background.pending import Pending
from reactree_ros.tree.flows import begin_anew, conclude, in_turn
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Call
from reactree_ros.tree.own_tree import SkillNode
from reactree_ros.tree.program_node import Program, Wait

_CONDITION = {"condition": Text(longest=120)}


class Repeat(py_trees.composites.Sequence):
    """Runs its children in order, and again as one of them, which looks, sees whether it is so.

    If that is the last one, it goes round until it is so; if it is the first one, as long as it is so.

    Status: SUCCESS when it has looked for the last time, FAILURE when another child fails or nobody could look; RUNNING
    in between.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], look: SkillNode, *, until: bool) -> None:
        super().__init__(name, memory=True, children=[*children, look] if until else [look, *children])
        self._look, self._until = look, until

    def tick(self) -> Iterator[Behaviour]:
        status = Status.SUCCESS
        for child in in_turn(self):
            yield from child.tick()
            if (status := child.status) != Status.SUCCESS:
                break
        sees_not = status == Status.FAILURE and child is self._look and self._look.sees_not
        if sees_not if self._until else status == Status.SUCCESS:
            begin_anew(self)
            conclude(self, Status.RUNNING)
            self._look.context.wake()
        else:
            conclude(self, Status.SUCCESS if sees_not else status)
        yield self


class _Conditional:
    ordered = True
    until: ClassVar[bool]

    condition: str

    def objection(self, skills: Sequence[Skill]) -> str:
        try:
            look_at(self.condition, skills)
        except ParameterError as error:
            return f"It cannot be seen whether this holds: {error}."
        return ""

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        look = SkillNode(look_at(self.condition, node.context.household.skills), node.context, parent=node)
        return Repeat(str(self), children, look, until=self.until)


@dataclass(frozen=True)
class RepeatUntilFlow(_Conditional, ControlFlow):
    name = "repeat_until"
    wording = Wording("repeat until {condition}", _CONDITION)
    text = (
        '"repeat until CONDITION" (achieve subgoals sequentially, again and again, until the condition holds; if any '
        "subgoal fails, the repetition is interrupted)"
    )
    phrase = "in sequence, again and again until {condition}"
    sign = "↻"
    summary = "one after the other, again and again until a condition holds"
    until = True

    condition: str  # what has to hold, one of the world's conditions; it is looked at when all subgoals are reached


@dataclass(frozen=True)
class WhileFlow(_Conditional, ControlFlow):
    name = "while"
    wording = Wording("while {condition}", _CONDITION)
    text = (
        '"while CONDITION" (as long as the condition holds, achieve subgoals sequentially, again and again; if any '
        "subgoal fails, the repetition is interrupted)"
    )
    phrase = "in sequence, again and again while {condition}"
    sign = "⟳"
    summary = "one after the other, again and again as long as a condition holds"
    until = False

    condition: str  # what has to hold, one of the world's conditions; it is looked at before each round


@dataclass(frozen=True)
class WithinFlow(ControlFlow):
    name = "within"
    wording = Wording("within {seconds} s", {"seconds": Number(1, 3600, unit="s")})
    text = '"within SECONDS s" (achieve subgoals sequentially, but stop and fail when so many seconds are over)'
    phrase = "in sequence, within {seconds} s"
    ordered = True
    sign = "◷"
    summary = "one after the other, in a limited time"

    seconds: int

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
    """Runs its children in order beside a clock, its first child; what is under way when it ends is cancelled.

    Status: SUCCESS when all others succeed, FAILURE when one fails or the clock ends; RUNNING in between.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], clock: Clock) -> None:
        super().__init__(name, memory=True, children=[clock, *children])
        self._clock = clock

    def tick(self) -> Iterator[Behaviour]:
        if self.status != Status.RUNNING:
            begin_anew(self)
            self.current_child = self.children[1]
        self.feedback_message = ""
        yield from self._clock.tick()
        if self._clock.status != Status.RUNNING:
            self.feedback_message = self._clock.feedback_message
            status = Status.FAILURE
        else:
            status = yield from self._tick_others()
        if status != Status.RUNNING:
            for child in self.children:
                if child.status == Status.RUNNING:
                    child.stop(Status.INVALID)
        conclude(self, status)
        yield self

    def _tick_others(self) -> Generator[Behaviour, None, Status]:
        assert self.current_child is not None  # set by tick
        for child in self.children[self.children.index(self.current_child) :]:
            self.current_child = child
            yield from child.tick()
            if child.status != Status.SUCCESS:
                return child.status
        return Status.SUCCESS
