"""Composites whose children take turns, in order."""

from __future__ import annotations

from collections.abc import Iterator

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite


def in_turn(composite: Composite) -> Iterator[Behaviour]:
    """Yield the children from the one whose turn it is, which becomes the current child."""
    if composite.status != Status.RUNNING:
        begin_anew(composite)
        composite.initialise()
    current = composite.current_child
    first = 0 if current is None else composite.children.index(current)
    for child in composite.children[first:]:
        composite.current_child = child
        yield child


def begin_anew(composite: Composite) -> None:
    """Have a composite's children begin anew, the first one first."""
    for child in composite.children:
        if child.status != Status.INVALID:
            child.stop(Status.INVALID)
    composite.current_child = None


def conclude(composite: Composite, status: Status) -> None:
    """Give a composite its status of this tick."""
    if status == Status.RUNNING:
        composite.status = status
    else:
        composite.stop(status)
