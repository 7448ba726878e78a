"""Subgoals within a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.decision import OK, Look, Node, Program
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.kinds.think import Aside
from reactree_ros.agent.turns import Said


@dataclass(frozen=True)
class BeginSubgoal(Aside):
    """A thought that begins a subgoal within the same node (Hu et al., section 3.1)."""

    name = "begin_subgoal"
    spellings = "sub-?goal|milestone"
    keys = ("subgoal", "nextsubgoal")
    look = Look("Begin", "{begin_subgoal}")
    accompanies = False
    leads = True

    subgoal: str

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return grammar.by_subgoals

    @classmethod
    def in_words(cls, number: int, subgoal: str) -> Said:
        return Said(f"{number} Subgoal: {subgoal}", cls(f"Subgoal {number}: {subgoal}", subgoal))

    def carry_out(self, node: Node) -> Program:
        node.take(self)
        node.tell(OK)
        works_by_subgoals: Any = node
        yield from works_by_subgoals.begin_subgoal(self.subgoal)
        return None
