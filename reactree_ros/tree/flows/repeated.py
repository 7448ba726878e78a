"""Repeat until, and while: the subgoals one after the other, again and again, by a condition of the world."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.parameters import ParameterError, Text
from reactree_ros.agent.skill import Skill, look_at
from reactree_ros.agent.wording import Wording
from reactree_ros.tree.flows.turns import begin_anew, conclude, in_turn
from reactree_ros.tree.own_tree import SkillNode

#: What may stand in the place of the condition.
CONDITION = {"condition": Text(longest=120)}


class Repeated(abc.ABC):
    """What a control flow that repeats its subgoals by a condition has in common with others of that kind.

    Attributes:
        condition: One of the world's conditions.
    """

    ordered = True

    condition: str

    def objection(self, skills: Sequence[Skill]) -> str:
        """Say that the condition is none of the world's."""
        try:
            look_at(self.condition, skills)
        except ParameterError as error:
            return f"It cannot be seen whether this holds: {error}."
        return ""

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        look = SkillNode(look_at(self.condition, node.context.household.skills), node.context, parent=node)
        return self.made(children, look)

    @abc.abstractmethod
    def made(self, children: Sequence[Behaviour], look: SkillNode) -> Composite:
        """Return the composite over children, with a node that looks whether the condition holds."""


@dataclass(frozen=True)
class RepeatUntilFlow(Repeated, ControlFlow):
    """The subgoals one after the other, again and again, until a condition holds."""

    name = "repeat_until"
    wording = Wording("repeat until {condition}", CONDITION)
    text = (
        '"repeat until CONDITION" (achieve subgoals sequentially, again and again, until the condition holds; if any '
        "subgoal fails, the repetition is interrupted)"
    )
    phrase = "in sequence, again and again until {condition}"
    sign = "↻"
    summary = "one after the other, again and again until a condition holds"

    condition: str  # what has to hold, one of the world's conditions; it is looked at when all subgoals are reached

    def made(self, children: Sequence[Behaviour], look: SkillNode) -> Composite:
        return Repeat(str(self), children, look)


class Repeat(py_trees.composites.Sequence):
    """Runs its children in order, and again as long as the last one, which looks, sees that it is not so.

    Status: SUCCESS when the condition holds, FAILURE when another child fails or nobody could look; RUNNING in between.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], look: SkillNode) -> None:
        super().__init__(name, memory=True, children=[*children, look])
        self._look = look

    def tick(self) -> Iterator[Behaviour]:
        """Tick the child whose turn it is; a new round begins in the next tick."""
        for child in in_turn(self):
            yield from child.tick()
            if child.status != Status.SUCCESS:
                conclude(self, Status.RUNNING if self._begins_again(child) else child.status)
                break
        else:
            conclude(self, Status.SUCCESS)
        yield self

    def _begins_again(self, child: Behaviour) -> bool:
        if child is not self._look or not self._look.sees_not:
            return False
        begin_anew(self)
        self._look.context.wake()
        return True


@dataclass(frozen=True)
class WhileFlow(Repeated, ControlFlow):
    """The subgoals one after the other, again and again as long as a condition holds."""

    name = "while"
    wording = Wording("while {condition}", CONDITION)
    text = (
        '"while CONDITION" (as long as the condition holds, achieve subgoals sequentially, again and again; if any '
        "subgoal fails, the repetition is interrupted)"
    )
    phrase = "in sequence, again and again while {condition}"
    sign = "⟳"
    summary = "one after the other, again and again as long as a condition holds"

    condition: str  # what has to hold, one of the world's conditions; it is looked at before each round

    def made(self, children: Sequence[Behaviour], look: SkillNode) -> Composite:
        return While(str(self), children, look)


class While(py_trees.composites.Sequence):
    """Looks, by its first child, whether it is so, then runs the others in order, and looks again.

    Status: SUCCESS when it is not so any more, FAILURE when another child fails or nobody could look; RUNNING in
    between.
    """

    def __init__(self, name: str, children: Sequence[Behaviour], look: SkillNode) -> None:
        super().__init__(name, memory=True, children=[look, *children])
        self._look = look

    def tick(self) -> Iterator[Behaviour]:
        """Tick the child whose turn it is; a new round begins in the next tick."""
        for child in in_turn(self):
            yield from child.tick()
            if child.status != Status.SUCCESS:
                conclude(self, Status.SUCCESS if child is self._look and self._look.sees_not else child.status)
                break
        else:
            begin_anew(self)
            conclude(self, Status.RUNNING)
            self._look.context.wake()
        yield self
