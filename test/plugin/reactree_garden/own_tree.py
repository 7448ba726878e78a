"""The planner ``watering``: a py_trees tree with skills and a goal as its leaves."""

from __future__ import annotations

from py_trees.behaviour import Behaviour
from py_trees.composites import Selector, Sequence
from py_trees.decorators import Retry

from reactree_ros.planners.reactree import own_tree
from reactree_ros.tree.own_tree import OwnTree


def watering(run: OwnTree) -> Behaviour:
    fill = Sequence("fill", memory=True, children=[run.skill("walk to well-1"), run.skill("fill can-1")])
    filled = Selector("filled", memory=True, children=[Retry("twice", fill, num_failures=2), run.goal("fill can-1")])
    return Sequence("watering", memory=True, children=[run.skill("take can-1"), filled, run.goal(run.subgoal)])


SPEC = own_tree("watering", watering, "a tree of its own: fills the can, then lets an agent node water")
