"""Repeat until: the subgoals one after the other, again and again, until a condition of the world holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.agent.wording import Wording
from reactree_ros.tree.flows.repeated import CONDITION, Repeated
from reactree_ros.tree.flows.turns import begin_anew, conclude, in_turn
from reactree_ros.tree.own_tree import SkillNode


@dataclass(frozen=True)
class RepeatUntilFlow(Repeated, ControlFlow):
    """The subgoals one after the other, again and again, until a condition holds.

    Attributes:
        condition: What has to hold, one of the world's conditions; it is looked at when all subgoals are reached.
    """

    name = "repeat_until"
    wording = Wording("repeat until {condition}", CONDITION)
    text = (
        '"repeat until CONDITION" (achieve subgoals sequentially, again and again, until the condition holds; if any '
        "subgoal fails, the repetition is interrupted)"
    )
    phrase = "in sequence, again and again until {condition}"
    sign = "↻"
    summary = "one after the other, again and again until a condition holds"

    condition: str

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
