"""While: the subgoals one after the other, again and again, as long as a condition of the world holds."""

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
class WhileFlow(Repeated, ControlFlow):
    """The subgoals one after the other, again and again as long as a condition holds.

    Attributes:
        condition: What has to hold, one of the world's conditions; it is looked at before each round.
    """

    name = "while"
    wording = Wording("while {condition}", CONDITION)
    text = (
        '"while CONDITION" (as long as the condition holds, achieve subgoals sequentially, again and again; if any '
        "subgoal fails, the repetition is interrupted)"
    )
    phrase = "in sequence, again and again while {condition}"
    sign = "⟳"
    summary = "one after the other, again and again as long as a condition holds"

    condition: str

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
