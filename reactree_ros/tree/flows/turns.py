"""Composites whose children take turns, in order."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

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


def take_turns(composite: Composite, after: Container[Status], otherwise: Callable[[], Status]) -> Iterator[Behaviour]:
    """Tick the child whose turn it is, and those after it as long as each ends so; the first other one concludes."""
    for child in in_turn(composite):
        yield from child.tick()
        if child.status not in after:
            conclude(composite, child.status)
            break
    else:
        conclude(composite, otherwise())
    yield composite


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
