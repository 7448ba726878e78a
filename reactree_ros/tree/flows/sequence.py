"""Sequence: one subgoal after the other, until one fails. It is py_trees' own with memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow


class SequenceFlow(ControlFlow):
    """One subgoal after the other, until one fails."""

    name = "sequence"
    text = '"sequence" (achieve subgoals sequentially; if any subgoal fails, the sequence is interrupted)'
    phrase = "in sequence"
    ordered = True
    sign = "→"
    summary = "one after the other, until one fails"

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        return py_trees.composites.Sequence(str(self), memory=True, children=list(children))
