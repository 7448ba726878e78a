"""Trees of one's own over ROS: in the planner node, and in a node of one's own with the planner as a leaf."""

from __future__ import annotations

from typing import Any

import pytest
from docs.blocks import ROOT, blocks_of
from py_trees.common import Status
from ros_graph import HeldWorld

PAGE = ROOT / "docs/how-to/trees-of-your-own.md"


@pytest.fixture
def goal() -> Any:
    """The leaf of the page."""
    block = next(block for block in blocks_of(PAGE) if block.file == "leaf.py")
    names: dict[str, Any] = {}
    exec(block.text, names)
    return names["goal"]


@pytest.mark.parametrize(
    ("says", "status"),
    [(("Think: so", "Act: done"), Status.SUCCESS), (("Act: failure",), Status.FAILURE)],
)
def test_the_planner_is_a_leaf_of_a_tree_elsewhere(graph: Any, goal: Any, says: tuple[str, ...], status: Any) -> None:
    graph.household({"fetch": [*says]})
    leaf = goal("fetch")
    leaf.setup(node=graph.probe)

    def ended() -> bool:
        leaf.tick_once()
        return leaf.status is not Status.RUNNING

    graph.until(ended)
    assert leaf.status is status


def test_an_interrupted_leaf_cancels_its_goal(graph: Any, goal: Any) -> None:
    world = HeldWorld()
    graph.household({"fetch": ["Act: go to kitchen 1"]}, world=world)
    leaf = goal("fetch")
    leaf.setup(node=graph.probe)
    leaf.tick_once()
    graph.until(lambda: leaf.tick_once() or world.held)
    leaf.stop(Status.INVALID)
    graph.until(lambda: world.cancelled["go to kitchen 1"])
