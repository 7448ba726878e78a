"""What belongs to one attempt of a node, in one object that is made anew when the node begins again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class OfAttempt(Generic[T]):
    """An attribute that belongs to one attempt of a node: a node that begins again has its first value again.

    The values are in the node's ``attempt``, which :class:`~reactree_ros.tree.program_node.ProgramNode` makes anew.
    All that a node's program changes is such an attribute.

    Args:
        first: Makes the first value, given the node.
    """

    def __init__(self, first: Callable[[Any], T]) -> None:
        self._first = first

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, node: Any, owner: type) -> T:
        attempt: dict[str, T] = node.attempt
        if self._name not in attempt:
            attempt[self._name] = self._first(node)
        return attempt[self._name]

    def __set__(self, node: Any, value: T) -> None:
        node.attempt[self._name] = value
