"""What the control flows that repeat by a condition of the world share: the condition, and who looks at it."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.composites import Composite

from reactree_ros.agent.conditions import look_at
from reactree_ros.agent.parameters import ParameterError, Text
from reactree_ros.agent.skill import Skill
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
