"""Trees of one's own as planners, so that they are run, recorded and shown as every other."""

from __future__ import annotations

from collections.abc import Callable

from py_trees.behaviour import Behaviour

from reactree_ros.planners.reactree import ReactreeSettings, abilities_of
from reactree_ros.planners.spec import PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.own_tree import OwnTree


def own_tree(name: str, make: Callable[[OwnTree], Behaviour], summary: str = "a tree of one's own") -> PlannerSpec:
    """Return a planner that runs a tree of one's own."""

    def build(instruction: str, context: RunContext, settings: ReactreeSettings) -> OwnTree:
        return OwnTree(instruction, context, make, abilities_of(context, settings))

    return PlannerSpec(name=name, summary=summary, settings=ReactreeSettings, build=build, remembers=True)
