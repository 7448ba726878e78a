"""Fallback: one subgoal after the other, until one succeeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow
from reactree_ros.tree.flows.turns import take_turns


class FallbackFlow(ControlFlow):
    """One subgoal after the other, until one succeeds."""

    name = "fallback"
    text = (
        '"fallback" (attempt subgoals in order until one succeeds; if a subgoal is successful, the remaining '
        "subgoals are not attempted)"
    )
    phrase = "using a fallback strategy"
    ordered = False
    sign = "?"
    summary = "one after the other, until one succeeds"

    def composite(self, node: Any, children: Sequence[Behaviour]) -> Composite:
        return Fallback(str(self), children)


class Fallback(py_trees.composites.Selector):
    """Tries its children in order until one succeeds.

    py_trees' selector would wipe the status of the children that failed. It is the base class, so that displays and
    viewers draw this one for what it is.

    Status: SUCCESS as soon as a child succeeds, FAILURE when every child has failed, RUNNING in between.
    Children that failed keep their status.
    """

    def __init__(self, name: str, children: Sequence[Behaviour]) -> None:
        super().__init__(name, memory=True, children=list(children))

    def tick(self) -> Iterator[Behaviour]:
        """Tick the child whose turn it is, and those after it as long as each fails at once."""
        return take_turns(self, (Status.FAILURE,), lambda: Status.FAILURE)
